/* vcl_decl_priv.h -- what the files that make declarations share. */
#ifndef TARN_VCL_DECL_PRIV_H
#define TARN_VCL_DECL_PRIV_H

#include "vcl-lite/vcl_decl_table.h"
#include "vcl-lite/vcl_priv.h"

enum decl_probe_attr {
#define X(id, name, kind, min, max, doc) DECL_PROBE_##id,
    VCL_PROBE_ATTR_TABLE(X)
#undef X
    DECL_PROBE_COUNT
};

enum decl_backend_attr {
#define X(id, name, kind, min, max, doc) DECL_BACKEND_##id,
    VCL_BACKEND_ATTR_TABLE(X)
#undef X
    DECL_BACKEND_COUNT
};

/* vcl_decl_attr.c: each attribute in its place of `out`, NULL: not given, or wrong and reported. */
void decl_probe_attrs(
    struct vcl_cx *cx, const struct ast_attr *attrs, const struct ast_attr *out[DECL_PROBE_COUNT]);
void decl_backend_attrs(struct vcl_cx *cx, const struct ast_attr *attrs,
    const struct ast_attr *out[DECL_BACKEND_COUNT]);

/* vcl_decl_backend.c: the declaration, in cx->keep; wrong ones are reported, and something of them
 * is there. */
struct vcl_probe_decl *decl_probe(
    struct vcl_cx *cx, const char *name, const struct ast_attr *attrs);
void decl_backend(struct vcl_cx *cx, const struct ast_decl *d, struct vcl_backend_decl *out);
/* The probe of this name, by now declared; NULL: there is none. */
const struct vcl_probe_decl *decl_probe_named(
    struct vcl_cx *cx, struct slice name, struct vcl_pos *declared);

/* vcl_decl_acl.c: into a tree; NULL: no memory, or wrong, which is reported. */
struct acl;
struct acl *decl_acl(struct vcl_cx *cx, const struct ast_acl *a);

#endif
