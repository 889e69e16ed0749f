/* conf_row_priv.h -- a row of a table of keys as a struct conf_key.  For conf/ only.
 *
 *     #define KEY_OWNER struct conf_listen
 *     static const struct conf_key keys_listen[] = {CONF_LISTEN_TABLE(KEY_ROW)};
 *     #undef KEY_OWNER
 */
#ifndef TARN_CONF_ROW_PRIV_H
#define TARN_CONF_ROW_PRIV_H

#include "conf/conf_priv.h"

/* Which default a row has follows from its type. */
#define KEY_NUMBER(d)        .def = (d)
#define KEY_STRING(d)        .required = (d) == NULL, .def_text = (d)
#define KEY_DEF_MS           KEY_NUMBER
#define KEY_DEF_BYTES        KEY_NUMBER
#define KEY_DEF_POW2         KEY_NUMBER
#define KEY_DEF_COUNT        KEY_NUMBER
#define KEY_DEF_MODE         KEY_NUMBER
#define KEY_DEF_PERCENT      KEY_NUMBER
#define KEY_DEF_BOOL         KEY_NUMBER
#define KEY_DEF_H2C          KEY_NUMBER
#define KEY_DEF_AUTO         KEY_NUMBER
#define KEY_DEF_SLOTS        KEY_NUMBER
#define KEY_DEF_TEXT         KEY_STRING
#define KEY_DEF_ASCII        KEY_STRING
#define KEY_DEF_TOKEN        KEY_STRING
#define KEY_DEF_NAME         KEY_STRING
#define KEY_DEF_LABEL        KEY_STRING
#define KEY_DEF_ENGINES      KEY_STRING
#define KEY_DEF_LEVEL        KEY_STRING
#define KEY_DEF_FORMAT       KEY_STRING
#define KEY_DEF_OUTPUT       KEY_STRING
#define KEY_DEF_SYSLOG       KEY_STRING
#define KEY_DEF_ENGINE       KEY_STRING
#define KEY_DEF_EVICTION     KEY_STRING
#define KEY_DEF_TABLE        KEY_STRING
#define KEY_DEF_ALLOW        KEY_STRING
#define KEY_DEF_WORDS        KEY_STRING
#define KEY_DEF_CODINGS      KEY_NUMBER
#define KEY_DEF_MEDIATYPES   KEY_STRING
#define KEY_DEF_PROXIED      KEY_STRING
#define KEY_DEF_SECURED      KEY_STRING
#define KEY_DEF_TLS          KEY_STRING
#define KEY_DEF_BACKENDTLS   KEY_STRING
#define KEY_DEF_CERTIFICATES KEY_STRING
#define KEY_DEF_ACME         KEY_STRING
#define KEY_DEF_PROFILE      KEY_STRING
#define KEY_DEF_CLIENTAUTH   KEY_STRING
#define KEY_DEF_KEYTYPE      KEY_STRING
#define KEY_DEF_CERTNAMES    KEY_STRING
#define KEY_DEF_CHALLENGE    KEY_STRING
#define KEY_DEF_FORWARDED    KEY_STRING
#define KEY_DEF_COOKIES      KEY_STRING
#define KEY_DEF_CHOICE       KEY_STRING
#define KEY_DEF_NETS         KEY_STRING
#define KEY_DEF_LISTEN       KEY_STRING
#define KEY_DEF_ADDRESS      KEY_STRING
#define KEY_DEF_AUTHORITY    KEY_STRING
#define KEY_DEF_HOST         KEY_STRING
#define KEY_DEF_PREFIX       KEY_STRING
#define KEY_DEF_TARGET       KEY_STRING
#define KEY_DEF_LINES        KEY_STRING
#define KEY_DEF_PROBE        KEY_STRING
#define KEY_DEF_DIRECTOR     KEY_STRING
#define KEY_DEF_MEMBERS      KEY_STRING
#define KEY_DEF_BACKEND      KEY_STRING
#define KEY_DEF_TTL          KEY_STRING
#define KEY_DEF_SWITCH       KEY_STRING
#define KEY_DEF_NAMES        KEY_STRING
#define KEY_DEF_METHODS      KEY_STRING
#define KEY_DEF_FIELDS       KEY_STRING
#define KEY_DEF_REDIRECT     KEY_STRING
#define KEY_DEF_LIMITS       KEY_STRING
#define KEY_DEF_PAGE         KEY_STRING
#define KEY_DEF_AUTH         KEY_STRING

#define KEY_ROW(name_, type_, def_, least_, most_, doc_) \
    {.name = #name_,                                     \
        .type = CONF_TYPE_##type_,                       \
        .offset = offsetof(KEY_OWNER, name_),            \
        KEY_DEF_##type_(def_),                           \
        .least = (least_),                               \
        .most = (most_),                                 \
        .doc = (doc_)},

#endif
