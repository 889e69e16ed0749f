/* acme_fleet.c -- answers to the CA, to the other nodes of the fleet. */
#include "daemon/acme/acme_fleet.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/acme/acme_conf.h"

enum {
    FLEET_MS = 15000, /* tarnd waits for its nodes for 10 s */
    UNIX_FRONT = 5,   /* "unix:" */
};

static bool
fleet_is_there(const struct acme_settings *set)
{
    return set->conf != NULL && set->conf->fleet.said && set->admin != NULL;
}

static size_t
fleet_on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    (void)bytes, (void)ctx;
    return size * n;
}

/* The status; 0: no answer, and *why. */
static long
fleet_ask(const struct acme_settings *set, const char *method, const char *key, struct slice text,
    char why[CURL_ERROR_SIZE])
{
    bool is_unix = strncmp(set->admin, "unix:", UNIX_FRONT) == 0;
    char url[ACME_ADMIN_MAX + ACME_NAME_MAX + 200], admin[ACME_ADMIN_MAX], field[1100];
    struct curl_slist *fields = NULL;
    CURL *curl = curl_easy_init();
    long status = 0;

    if (curl == NULL)
        return 0;
    acme_conf_admin(set, admin);
    /* A token is of base64url, and a name has no sign that a path has not: both were looked at. */
    snprintf(url, sizeof(url), "http://%s/v1/fleet/%s/%s", is_unix ? "tarn" : admin,
        set->challenge == ACME_HTTP_01 ? "challenges" : "alpn_challenges", key);
    if (set->token != NULL) {
        snprintf(field, sizeof(field), "Authorization: Bearer %s", set->token);
        fields = curl_slist_append(NULL, field);
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)FLEET_MS);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fleet_on_body);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    if (is_unix)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, set->admin + UNIX_FRONT);
    if (text.ptr != NULL) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)text.len);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text.ptr);
    }
    if (fields != NULL)
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields);
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(fields);
    curl_easy_cleanup(curl);
    return status;
}

void
acme_fleet_put(const struct acme_settings *set, const char *key, struct slice text)
{
    char why[CURL_ERROR_SIZE] = "no answer";
    long status;

    if (!fleet_is_there(set))
        return;
    status = fleet_ask(set, "PUT", key, text, why);
    if (status == 0)
        acme_say("warning: fleet: the CA's question may be answered by this node alone: %s: %s",
            set->admin, why);
    else if (status != 200)
        acme_say("warning: fleet: not every node can answer the CA: tarnd at %s says %ld",
            set->admin, status);
}

void
acme_fleet_remove(const struct acme_settings *set, const char *key)
{
    char why[CURL_ERROR_SIZE] = "";

    if (fleet_is_there(set))
        fleet_ask(set, "DELETE", key, slice_of(NULL, 0), why);
}
