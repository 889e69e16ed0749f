/* policy_var_table.h -- where the value of each variable is, and what setting and unsetting it does.
 *
 * vcl_var_table.h has the same variables with type, subs and documentation; a row here for each access
 * that a row there promises (t/unit/policy_vars_test.c).  Not here: header fields (msg_view.h), bodies,
 * storage.NAME.* and what is compiled to a constant.
 *
 * policy_vars.c expands the rows.  It has: run; ctx, its struct policy_ctx; r and rp, the client side's
 * request and what the policy said of it; f and v, the backend side's fetch and the same; params; e, the
 * stored response; now_ms, monotonic; var; value, that is set.
 */
#ifndef TARN_POLICY_VAR_TABLE_H
#define TARN_POLICY_VAR_TABLE_H

/* clang-format off */
/*    id, kind of value (vars_give_*), value */
#define POLICY_GET_TABLE(X)                                                                        \
    /* the connection */                                                                           \
    X(CLIENT_IDENTITY, made, vars_identity(ctx))                                                   \
    X(CLIENT_IP, ip, POLICY_END_CLIENT)                                                            \
    X(CLIENT_TLS_VERSION, text, VARS_SECURE(version))                                              \
    X(CLIENT_TLS_CIPHER, text, VARS_SECURE(cipher))                                                \
    X(CLIENT_TLS_SERVER_NAME, text, VARS_SECURE(server_name))                                      \
    X(CLIENT_TLS_RESUMED, number, vars_secure(ctx) != NULL && vars_secure(ctx)->resumed)           \
    X(CLIENT_TLS_EARLY_DATA, number, vars_secure(ctx) != NULL && vars_secure(ctx)->early)          \
    X(CLIENT_CERT_SUBJECT, text, VARS_SECURE(client_subject))                                      \
    X(CLIENT_CERT_ISSUER, text, VARS_SECURE(client_issuer))                                        \
    X(CLIENT_CERT_SERIAL, text, VARS_SECURE(client_serial))                                        \
    X(CLIENT_CERT_FINGERPRINT, text, VARS_SECURE(client_fingerprint))                              \
    X(SERVER_IP, ip, POLICY_END_SERVER)                                                            \
    X(REMOTE_IP, ip, POLICY_END_REMOTE)                                                            \
    X(LOCAL_IP, ip, POLICY_END_LOCAL)                                                              \
    X(LOCAL_ENDPOINT, text, f != NULL ? v->endpoint : slice_str(r->x->conn->listener->endpoint))   \
    X(LOCAL_SOCKET, text, f != NULL ? v->socket : slice_str(r->x->conn->listener->name))           \
    X(SESS_XID, xid, f != NULL ? v->session : r->x->conn->session)                                 \
    X(SESS_IDLE_SEND_TIMEOUT, ms, params->idle_send_timeout)                                       \
    X(SESS_SEND_TIMEOUT, ms, params->idle_send_timeout)                                            \
    X(SESS_TIMEOUT_IDLE, ms, params->timeout_idle)                                                 \
    X(SESS_TIMEOUT_LINGER, ms, 0)                                                                  \
    /* the request */                                                                              \
    X(REQ_METHOD, text, msg_view_method(run, VCL_HTTP_REQ))                                        \
    X(REQ_URL, text, msg_view_url(run, VCL_HTTP_REQ))                                              \
    X(REQ_PROTO, text, msg_view_proto(run, VCL_HTTP_REQ))                                          \
    X(REQ_TIME, seconds, vars_req_time(run))                                                       \
    X(REQ_XID, xid, policy_ctx_xid(ctx))                                                                      \
    X(REQ_TOP_METHOD, text, msg_view_method(run, VCL_HTTP_REQ_TOP))                                \
    X(REQ_TOP_URL, text, msg_view_url(run, VCL_HTTP_REQ_TOP))                                      \
    X(REQ_TOP_PROTO, text, msg_view_proto(run, VCL_HTTP_REQ_TOP))                                  \
    X(REQ_TOP_TIME, seconds, vars_req_top_time(run))                                                   \
    X(REQ_BACKEND_HINT, pointer, req_backend(r))                                                   \
    X(REQ_CAN_GZIP, number, (http_codings(r->head) & HTTP_TAKES_GZIP) != 0)                        \
    X(REQ_STORAGE, pointer, ctx->proxy->storage)                                                   \
    X(REQ_FILTERS, text, SLICE_LIT(""))                                                            \
    X(REQ_GRACE, said_ms, rp->grace_ms)                                                            \
    X(REQ_TTL, said_ms, rp->max_age_ms)                                                            \
    X(REQ_MAX_AGE, said_ms, rp->max_age_ms)                                                        \
    X(REQ_HASH_ALWAYS_MISS, number, rp->always_miss)                                               \
    X(REQ_HASH_IGNORE_BUSY, number, rp->ignore_busy)                                               \
    X(REQ_HASH_IGNORE_VARY, number, rp->ignore_vary)                                               \
    X(REQ_IS_HITMISS, number, rp->hitmiss)                                                         \
    X(REQ_IS_HITPASS, number, rp->hitpass)                                                         \
    X(REQ_RESTARTS, number, rp->restarts)                                                          \
    X(REQ_ESI, number, !rp->esi_off)                                                               \
    X(REQ_ESI_LEVEL, number, r->x->place != NULL ? r->x->place->level : 0)                                                                    \
    X(REQ_TRACE, number, 0)                                                                        \
    X(REQ_TRANSPORT, text, SLICE_LIT("HTTP/1"))                                                    \
    /* the request to the backend; in vcl_pipe it is the client's */                               \
    X(BEREQ_METHOD, text, msg_view_method(run, VCL_HTTP_BEREQ))                                    \
    X(BEREQ_URL, text, msg_view_url(run, VCL_HTTP_BEREQ))                                          \
    X(BEREQ_PROTO, text, msg_view_proto(run, VCL_HTTP_BEREQ))                                      \
    X(BEREQ_TIME, seconds, f != NULL ? (double)f->sent_ms / 1000 : vars_req_time(run))             \
    X(BEREQ_XID, xid, policy_ctx_xid(ctx))                                                                    \
    X(BEREQ_BACKEND, pointer, f != NULL ? v->backend : req_backend(r))                             \
    X(BEREQ_CONNECT_TIMEOUT, ms, f == NULL ? vars_pipe_connect_ms(ctx) : VARS_TIMEOUT(connect))    \
    X(BEREQ_FIRST_BYTE_TIMEOUT, ms, VARS_TIMEOUT(first_byte))                                      \
    X(BEREQ_BETWEEN_BYTES_TIMEOUT, ms, VARS_TIMEOUT(between_bytes))                                \
    X(BEREQ_FILTERS, text, SLICE_LIT(""))                                                          \
    X(BEREQ_TASK_DEADLINE, ms, 0)                                                                  \
    X(BEREQ_IS_BGFETCH, number, v->bgfetch)                                                        \
    X(BEREQ_IS_HITMISS, number, v->hitmiss)                                                        \
    X(BEREQ_IS_HITPASS, number, v->hitpass)                                                        \
    X(BEREQ_RETRIES, number, v->retries)                                                           \
    X(BEREQ_RETRY_CONNECT, number, v->retry_connect)                                               \
    X(BEREQ_TRACE, number, 0)                                                                      \
    X(BEREQ_UNCACHEABLE, number, f->kind != FETCH_FOR_CACHE)                                       \
    /* its response */                                                                             \
    X(BERESP_STATUS, number, msg_view_status(run, VCL_HTTP_BERESP))                                \
    X(BERESP_REASON, made, msg_view_reason(run, VCL_HTTP_BERESP))                                  \
    X(BERESP_PROTO, text, msg_view_proto(run, VCL_HTTP_BERESP))                                    \
    X(BERESP_AGE, seconds, (double)(v->at.v.age_ms / 1000)) /* whole seconds, as Age */               \
    X(BERESP_TIME, ms, f->attempt.received_ms)                                                             \
    X(BERESP_BACKEND, pointer, vars_beresp_backend(f))                                             \
    X(BERESP_BACKEND_NAME, text, vars_director_name(vars_beresp_backend(f)))                       \
    X(BERESP_BACKEND_IP, ip, VARS_END_BACKEND)                                                     \
    X(BERESP_STORAGE, pointer, ctx->proxy->storage)                                                \
    X(BERESP_TTL, ms, v->at.v.ttl_ms)                                                                 \
    X(BERESP_GRACE, ms, v->at.grace_ms)                                                               \
    X(BERESP_KEEP, ms, v->at.keep_ms)                                                                 \
    X(BERESP_UNCACHEABLE, number, v->at.uncacheable)                                                  \
    X(BERESP_DO_GZIP, number, v->at.gzip)                                                          \
    X(BERESP_DO_ESI, number, v->at.esi)                                                            \
    X(BERESP_DO_GUNZIP, number, v->at.gunzip)                                                      \
    X(BERESP_DO_STREAM, number, !v->at.whole)                                                         \
    X(BERESP_FILTERS, text, slice_str(vcl_filters_text(vars_beresp_filters(&v->at))))              \
    X(BERESP_STORAGE_HINT, text, SLICE_LIT(""))                                                    \
    X(BERESP_WAS_304, number, v->at.was_304)                                                          \
    X(BERESP_TRANSIT_BUFFER, number,                                                               \
        v->at.transit_bytes == FETCH_UNSAID ? params->transit_buffer : v->at.transit_bytes)              \
    /* the response to the client */                                                               \
    X(RESP_STATUS, number, msg_view_status(run, VCL_HTTP_RESP))                                    \
    X(RESP_REASON, made, msg_view_reason(run, VCL_HTTP_RESP))                                      \
    X(RESP_PROTO, text, SLICE_LIT("HTTP/1.1"))                                                     \
    X(RESP_DO_ESI, number, !rp->esi_off)                                                           \
    X(RESP_FILTERS, text, slice_str(vcl_filters_text(vars_resp_filters(r))))                       \
    X(RESP_TIME, seconds, run->now_s)                                                              \
    X(RESP_IS_STREAMING, number,                                                                   \
        r->entry != NULL && stobj_state(entry_part(r->entry, 0).body) == STOBJ_FILLING)            \
    /* the daemon */                                                                               \
    X(NOW, seconds, run->now_s)                                                                    \
    X(SERVER_HOSTNAME, text, slice_str(vars_hostname))                                             \
    X(SERVER_IDENTITY, text, slice_str(vars_hostname))                                             \
    X(PARAM_BACKEND_IDLE_TIMEOUT, ms, params->backend_idle_timeout)                                \
    X(PARAM_BACKEND_WAIT_LIMIT, number, 0)                                                         \
    X(PARAM_BACKEND_WAIT_TIMEOUT, ms, 0)                                                           \
    X(PARAM_BETWEEN_BYTES_TIMEOUT, ms, params->between_bytes_timeout)                              \
    X(PARAM_CONNECT_TIMEOUT, ms, params->connect_timeout)                                          \
    X(PARAM_DEFAULT_GRACE, ms, params->default_grace)                                              \
    X(PARAM_DEFAULT_KEEP, ms, params->default_keep)                                                \
    X(PARAM_DEFAULT_TTL, ms, policy_default_ttl_ms(params))                                        \
    X(PARAM_FIRST_BYTE_TIMEOUT, ms, params->first_byte_timeout)                                    \
    X(PARAM_IDLE_SEND_TIMEOUT, ms, params->idle_send_timeout)                                      \
    X(PARAM_MAX_ESI_DEPTH, number, vars_esi_depth(ctx))                                                              \
    X(PARAM_MAX_RESTARTS, number, params->max_restarts)                                            \
    X(PARAM_MAX_RETRIES, number, params->max_retries)                                              \
    X(PARAM_PIPE_TASK_DEADLINE, ms, 0)                                                             \
    X(PARAM_PIPE_TIMEOUT, ms, params->pipe_timeout)                                                \
    X(PARAM_SEND_TIMEOUT, ms, params->idle_send_timeout)                                           \
    X(PARAM_SHORTLIVED, ms, 10000)                                                                 \
    X(PARAM_TIMEOUT_IDLE, ms, params->timeout_idle)                                                \
    X(PARAM_TRANSIT_BUFFER, number, params->transit_buffer)                                        \
    X(PARAM_UNCACHEABLE_TTL, ms, params->uncacheable_ttl)

/* What is stored, for obj and obj_stale alike. */
#define POLICY_ENTRY_ROWS(X, OF)                                                                   \
    X(OF##_TTL, ms, entry_ttl_left_ms(e, now_ms))                                                  \
    X(OF##_GRACE, ms, entry_grace_ms(e))                                                           \
    X(OF##_KEEP, ms, entry_keep_ms(e))                                                             \
    X(OF##_AGE, ms, vars_entry_age_ms(e, now_ms))                                                  \
    X(OF##_TIME, seconds, run->now_s - (double)vars_entry_age_ms(e, now_ms) / 1000)                \
    X(OF##_HITS, number, r != NULL && r->attempt.leader ? 0 : (int64_t)entry_hits(e))                      \
    X(OF##_STATUS, number, msg_view_status(run, VCL_HTTP_##OF))                                    \
    X(OF##_REASON, made, msg_view_reason(run, VCL_HTTP_##OF))                                      \
    X(OF##_PROTO, text, SLICE_LIT("HTTP/1.1"))                                                     \
    X(OF##_STORAGE, pointer, ctx->proxy->storage)                                                  \
    X(OF##_UNCACHEABLE, number, entry_is_uncacheable(e))                                           \
    X(OF##_CAN_ESI, number, entry_is_esi(e))
#define POLICY_ENTRY_TABLE(X)                                                                      \
    POLICY_ENTRY_ROWS(X, OBJ)                                                                      \
    POLICY_ENTRY_ROWS(X, OBJ_STALE)                                                                \
    X(OBJ_STALE_IS_VALID, number, 1)

/*    id, what setting it does: an expression that is 0 or TERR_* */
#define POLICY_SET_TABLE(X)                                                                        \
    X(CLIENT_IDENTITY, vars_set_identity(r, policy_string(value)))                                 \
    X(REQ_METHOD, msg_view_set_method(run, VCL_HTTP_REQ, policy_string(value)))                    \
    X(REQ_URL, msg_view_set_url(run, VCL_HTTP_REQ, policy_string(value)))                          \
    X(REQ_BACKEND_HINT, vars_set_req_backend(r, value))                                            \
    X(REQ_STORAGE, 0) /* there is one */                                                           \
    X(REQ_GRACE, vars_set_said_ms(rp, &rp->grace_ms, value))                                       \
    X(REQ_TTL, vars_set_said_ms(rp, &rp->max_age_ms, value))                                       \
    X(REQ_MAX_AGE, vars_set_said_ms(rp, &rp->max_age_ms, value))                                   \
    X(REQ_ESI, vars_set_esi(rp, value->i != 0))                                                    \
    X(REQ_HASH_ALWAYS_MISS, (rp->always_miss = value->i != 0, vars_say_lookup(rp)))                \
    X(REQ_HASH_IGNORE_BUSY, (rp->ignore_busy = value->i != 0, vars_say_lookup(rp)))                \
    X(REQ_HASH_IGNORE_VARY, (rp->ignore_vary = value->i != 0, vars_say_lookup(rp)))                \
    X(BEREQ_METHOD, msg_view_set_method(run, VCL_HTTP_BEREQ, policy_string(value)))                \
    X(BEREQ_URL, msg_view_set_url(run, VCL_HTTP_BEREQ, policy_string(value)))                      \
    X(BEREQ_BACKEND, f != NULL ? vars_set_backend(v, value) : vars_set_req_backend(r, value))      \
    X(BEREQ_CONNECT_TIMEOUT, f == NULL ? vars_set_pipe_connect(rp, value->r)                       \
                                       : vars_set_ms(&v->connect_ms, vars_ms_above_0(value->r)))   \
    X(BEREQ_FIRST_BYTE_TIMEOUT, vars_set_ms(&v->first_byte_ms, vars_ms_above_0(value->r)))         \
    X(BEREQ_BETWEEN_BYTES_TIMEOUT, vars_set_ms(&v->between_bytes_ms, vars_ms_above_0(value->r)))   \
    X(BEREQ_RETRY_CONNECT, vars_set_bool(&v->retry_connect, value->i != 0))                        \
    X(BERESP_STATUS, msg_view_set_status(run, VCL_HTTP_BERESP, value->i))                          \
    X(BERESP_REASON, msg_view_set_reason(run, VCL_HTTP_BERESP, policy_string(value)))              \
    X(BERESP_STORAGE, 0)                                                                           \
    X(BERESP_TTL, vars_set_ttl(v, policy_ms(value->r)))                                            \
    X(BERESP_GRACE, vars_set_ms(&v->at.grace_ms, policy_ms(value->r)))                                \
    X(BERESP_KEEP, vars_set_ms(&v->at.keep_ms, policy_ms(value->r)))                                  \
    X(BERESP_UNCACHEABLE, vars_set_bool(&v->at.uncacheable, v->at.uncacheable || value->i != 0))         \
    X(BERESP_DO_GZIP, vars_set_gzip(v, value->i != 0))                                             \
    X(BERESP_DO_ESI, vars_set_bool(&v->at.esi, value->i != 0))                                     \
    X(BERESP_DO_GUNZIP, vars_set_bool(&v->at.gunzip, value->i != 0))                               \
    X(BERESP_DO_STREAM, vars_set_bool(&v->at.whole, value->i == 0))                                   \
    X(BERESP_FILTERS, vars_set_beresp_filters(run, v, policy_string(value)))                       \
    X(BERESP_TRANSIT_BUFFER, vars_set_ms(&v->at.transit_bytes, value->i < 0 ? 0 : value->i))          \
    X(RESP_DO_ESI, vars_set_esi(rp, value->i != 0))                                                \
    X(RESP_FILTERS, vars_set_resp_filters(run, rp, policy_string(value)))                          \
    X(RESP_STATUS, msg_view_set_status(run, VCL_HTTP_RESP, value->i))                              \
    X(RESP_REASON, msg_view_set_reason(run, VCL_HTTP_RESP, policy_string(value)))

/*    id, what unsetting it does.  Of a tunnel there is only the connecting. */
#define POLICY_UNSET_TABLE(X)                                                                      \
    X(REQ_GRACE, vars_set_ms(&rp->grace_ms, REQ_UNSAID))                                           \
    X(REQ_TTL, vars_set_ms(&rp->max_age_ms, REQ_UNSAID))                                           \
    X(REQ_MAX_AGE, vars_set_ms(&rp->max_age_ms, REQ_UNSAID))                                       \
    X(BEREQ_BODY, vars_set_bool(&v->no_body, true))                                                \
    X(BEREQ_CONNECT_TIMEOUT,                                                                       \
        f != NULL ? vars_set_ms(&v->connect_ms, FETCH_UNSAID) : vars_unset_pipe_connect(rp))       \
    X(BEREQ_FIRST_BYTE_TIMEOUT, f != NULL ? vars_set_ms(&v->first_byte_ms, FETCH_UNSAID) : 0)      \
    X(BEREQ_BETWEEN_BYTES_TIMEOUT, f != NULL ? vars_set_ms(&v->between_bytes_ms, FETCH_UNSAID) : 0)
/* clang-format on */

#endif
