/* esi_record.h -- a page as it is stored: its runs and includes, in order, in one stream of bytes.
 *
 *   record    one byte that says what it is, four of its length (little-endian), and its bytes
 *   'T' text  'M' markup  'I' include: one byte of flags, two of the length of src, src, alt
 *
 * The stream can be cut anywhere, on the way in and on the way out: a page is delivered while it comes.
 *
 * Memory: the caller's; it does not grow.  Threads: none of its own.
 */
#ifndef TARN_ESI_RECORD_H
#define TARN_ESI_RECORD_H

#include "daemon/esi/esi_parse.h"

enum {
    ESI_RECORD_HEAD = 5,
    ESI_INCLUDE_HEAD = 3,
    ESI_INCLUDE_MAX = ESI_INCLUDE_HEAD + 2 * ESI_URL_MAX,
};

enum esi_said {
    ESI_WANTS_INPUT, /* all of the input was consumed, and written */
    ESI_WANTS_ROOM,  /* there is more to write; the input that was consumed must stay */
    ESI_ENDED,       /* with `ends`: everything was written */
};

struct esi_encoder {
    struct esi_parser parser;
    uint8_t at, nparts;
    struct slice part[4]; /* of the record that is being written */
    uint64_t runs, includes;
    char head[ESI_RECORD_HEAD + ESI_INCLUDE_HEAD];
};

void esi_encode_init(struct esi_encoder *e);
/* Consumes from the front of *in, and writes to the front of *out; both are moved on. */
enum esi_said esi_encode(struct esi_encoder *e, struct slice *in, struct span *out, bool ends);

struct esi_decoder {
    uint32_t left; /* bytes of the record that are to come */
    uint8_t nhead, what;
    uint16_t npayload;
    char head[ESI_RECORD_HEAD];
    char payload[ESI_INCLUDE_MAX];
};

void esi_decode_init(struct esi_decoder *d);
/* The next event, and *in moves on.  Slices are of the input, or, of an include, of the decoder until the next call.
 * ESI_NOTHING: all of the input was consumed.  False: this is no such stream. */
bool esi_decode(struct esi_decoder *d, struct slice *in, struct esi_event *e);
/* May the stream end here? */
bool esi_decode_is_whole(const struct esi_decoder *d);

#endif
