/* acme_fleet.c -- answers to the CA, to the other nodes of the fleet. */
#include "daemon/acme/acme_fleet.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"

enum {
    FLEET_MS = 15000, /* tarnd waits for its nodes for 10 s */
    UNIX_FRONT = 5,   /* "unix:" */
};

static bool
fleet_is_there(const struct acme_settings *set)
{
    return set->challenge == ACME_HTTP_01 && set->conf != NULL && set->conf->fleet.said &&
           set->admin != NULL;
}

static size_t
fleet_on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    (void)bytes, (void)ctx;
    return size * n;
}

/* The status; 0: no answer, and *why. */
static long
fleet_ask(const struct acme_settings *set, const char *method, const char *token, const char *text,
    char why[CURL_ERROR_SIZE])
{
    bool is_unix = strncmp(set->admin, "unix:", UNIX_FRONT) == 0;
    const char *admin = set->admin[0] == '*' ? set->admin + 1 : set->admin;
    char url[512], field[1100];
    struct curl_slist *fields = NULL;
    CURL *curl = curl_easy_init();
    long status = 0;

    if (curl == NULL)
        return 0;
    /* A token is of base64url: the CA's was looked at (acme_read.c). */
    snprintf(url, sizeof(url), "http://%s%s/v1/fleet/challenges/%s",
        is_unix                ? "tarn"
        : set->admin[0] == '*' ? "127.0.0.1"
                               : "",
        is_unix ? "" : admin, token);
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
    if (text != NULL)
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
    if (fields != NULL)
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields);
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(fields);
    curl_easy_cleanup(curl);
    return status;
}

void
acme_fleet_put(const struct acme_settings *set, const char *token, const char *text)
{
    char why[CURL_ERROR_SIZE] = "no answer";
    long status;

    if (!fleet_is_there(set))
        return;
    status = fleet_ask(set, "PUT", token, text, why);
    if (status == 0)
        acme_say("warning: fleet: the CA's question may be answered by this node alone: %s: %s",
            set->admin, why);
    else if (status != 200)
        acme_say("warning: fleet: not every node can answer the CA: tarnd at %s says %ld",
            set->admin, status);
}

void
acme_fleet_remove(const struct acme_settings *set, const char *token)
{
    char why[CURL_ERROR_SIZE] = "";

    if (fleet_is_there(set))
        fleet_ask(set, "DELETE", token, NULL, why);
}
