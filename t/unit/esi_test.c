/* esi_test.c -- pages with Edge Side Includes: what is shown of them, however they are cut. */
#include "t/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/esi/esi_record.h"

enum {
    ROOM = 65536,
    DOC_MAX = 16384,
};

/* What came out of a stream: text with [src], with |alt and ! for onerror="continue"; and the page as it came. */
struct shown {
    char text[ROOM], raw[ROOM];
    size_t ntext, nraw;
    unsigned errors;
};

static void
show(char *to, size_t *n, const char *ptr, size_t len)
{
    CHECK(*n + len < ROOM);
    memcpy(to + *n, ptr, len);
    *n += len;
}

static void
show_event(struct shown *s, const struct esi_event *ev)
{
    if (ev->what != ESI_INCLUDE) {
        CHECK(ev->run.len > 0);
        show(s->raw, &s->nraw, ev->run.ptr, ev->run.len);
        if (ev->what == ESI_TEXT)
            show(s->text, &s->ntext, ev->run.ptr, ev->run.len);
        return;
    }
    show(s->text, &s->ntext, "[", 1);
    show(s->text, &s->ntext, ev->include.src.ptr, ev->include.src.len);
    if (ev->include.alt.len > 0) {
        show(s->text, &s->ntext, "|", 1);
        show(s->text, &s->ntext, ev->include.alt.ptr, ev->include.alt.len);
    }
    show(s->text, &s->ntext, ev->include.go_on ? "!]" : "]", ev->include.go_on ? 2 : 1);
}

/* The page in pieces of `in`, the stream in rooms of `out` bytes; the first piece has `first`. */
static size_t
encode(struct slice doc, size_t first, size_t in, size_t out, char *stream, unsigned *errors)
{
    struct esi_encoder *e = malloc(sizeof(*e));
    size_t n = 0, piece = first;
    enum esi_said said = ESI_WANTS_INPUT;

    memset(e, 0x5a, sizeof(*e));
    esi_encode_init(e);
    while (said != ESI_ENDED) {
        size_t len = doc.len < piece ? doc.len : piece;
        char *copy = malloc(len + 1); /* what is read beyond it, or later, is found */
        struct slice at = slice_of(copy, len);

        memcpy(copy, doc.ptr, len);
        doc = slice_of(doc.ptr + len, doc.len - len);
        do {
            struct span room = {stream + n, out};

            said = esi_encode(e, &at, &room, doc.len == 0);
            n = (size_t)(room.ptr - stream);
        } while (said == ESI_WANTS_ROOM);
        CHECK_EQ(0, at.len);
        free(copy);
        piece = in;
    }
    *errors = e->parser.errors;
    free(e);
    return n;
}

static bool
decode(const char *stream, size_t len, size_t piece, struct shown *s)
{
    struct esi_decoder *d = malloc(sizeof(*d));
    bool good = true;

    memset(d, 0x5a, sizeof(*d));
    esi_decode_init(d);
    s->ntext = s->nraw = 0;
    for (size_t at = 0; good && at < len; at += piece) {
        struct slice in = slice_of(stream + at, len - at < piece ? len - at : piece);
        struct esi_event ev = {.what = ESI_TEXT};

        while (good && ev.what != ESI_NOTHING) {
            good = esi_decode(d, &in, &ev);
            if (good && ev.what != ESI_NOTHING)
                show_event(s, &ev);
        }
    }
    good = good && esi_decode_is_whole(d);
    free(d);
    return good;
}

static void
check_at(struct slice doc, const char *want, size_t first, size_t in, size_t out)
{
    static char stream[4 * ROOM];
    static struct shown s;
    size_t n = encode(doc, first, in, out, stream, &s.errors);

    CHECK(decode(stream, n, out, &s));
    CHECK_EQ(doc.len, s.nraw);
    CHECK_MEM(doc.ptr, s.raw, doc.len);
    s.text[s.ntext] = '\0';
    if (want != NULL)
        CHECK_STR(want, s.text);
}

/* At every cut into two, and in pieces and rooms of every small size. */
static void
check_shown(const char *page, const char *want)
{
    struct slice doc = slice_str(page);

    for (size_t first = 0; first <= doc.len; first++)
        check_at(doc, want, first, DOC_MAX, 1 + first % 9);
    for (size_t piece = 1; piece < 12; piece++)
        check_at(doc, want, piece, piece, 1 + (piece * 7) % 13);
}

struct sample {
    const char *page, *shown;
};

static void
check_samples(const struct sample *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_shown(s[i].page, s[i].shown);
}

#define CHECK_SAMPLES(s) check_samples((s), sizeof(s) / sizeof((s)[0]))
#define INC              "<esi:include src=\"/a\"/>"

TEST(esi, includes_have_src_alt_and_onerror)
{
    static const struct sample samples[] = {
        {"<p>" INC "</p>", "<p>[/a]</p>"},
        {INC, "[/a]"},
        {INC INC "x", "[/a][/a]x"},
        {"<p><esi:include src='/a'/>b", "<p>[/a]b"},
        {"<p><esi:include src=/a />b", "<p>[/a]b"},
        {"<p><esi:include\nsrc=\"/a\"\t/>b", "<p>[/a]b"},
        {"<p><esi:include src=\"/a\">b</esi:include>c", "<p>[/a]bc"},
        {"<p><esi:include src=\"/a\" alt=\"/b\" onerror=\"continue\"/>c", "<p>[/a|/b!]c"},
        {"<p><esi:include alt=\"/b\" src=\"/a\" onerror='continue'/>c", "<p>[/a|/b!]c"},
        {"<p><esi:include src=\"/a\" onerror=\"abort\"/>c", "<p>[/a]c"},
        {"<p><esi:include src=\"/a\" alt=\"/b\" alt=\"/c\"/>d", "<p>[/a|/b]d"},
        {"<p><esi:include foo=\"x y\" src=\"/a\" bar=z />b", "<p>[/a]b"},
        {"<p><esi:include src=\"/a?b&amp;c&lt;d&gt;e&quot;f&apos;g&#65;h&foo;i&\"/>j",
            "<p>[/a?b&c<d>e\"f'g&#65;h&foo;i&]j"},
        {"<p><esi:include src=\"/a\"x/>b", "<p>[/a]b"},
    };

    CHECK_SAMPLES(samples);
}

TEST(esi, remove_comment_and_the_esi_comment_are_not_shown)
{
    static const struct sample samples[] = {
        {"<p><esi:remove>no" INC "</esi:remove>yes", "<p>yes"},
        {"<p><esi:remove>a<b </esi:remove>c</esi:remove>d", "<p>d"},
        {"<p><esi:remove>a<!-- </esi:remove> -->c</esi:remove>d", "<p>d"},
        {"<p><esi:remove>a<![CDATA[</esi:remove>]]>c</esi:remove>d", "<p>d"},
        {"<p><esi:remove>no<esi:remove>x</esi:remove>yes</esi:remove>z", "<p>yesz"},
        {"<p><esi:remove/>abc", "<p>abc"},
        {"<p><esi:remove foo=\"a\">abc</esi:remove x>d", "<p>d"},
        {"<p><esi:remove>abc", "<p>"},
        {"<p><esi:comment text=\"q\"/>a<esi:comment>b</esi:comment>c", "<p>abc"},
        {"<!--esi a" INC "b-->c", " a[/a]bc"},
        {"<p>x<!--esi-->y<!--esi>z-->w-->", "<p>xy>zw-->"},
        {"<!--esi a<!--esi b-->c-->d", " a bc-->d"},
        {"<p><!--esi a<!-- b -->c-->d", "<p> a<!-- b -->cd"},
        {"<p><!--esi a---->b", "<p> a--b"},
        {"<p><!--esi <p a=\"-->\">q-->r", "<p> <p a=\"-->\">qr"},
    };

    CHECK_SAMPLES(samples);
}

TEST(esi, in_comments_cdata_and_tags_of_others_is_text)
{
    static const struct sample samples[] = {
        {"<!-- " INC " -->" INC, "<!-- " INC " -->[/a]"},
        {"<!--es " INC " -->" INC, "<!--es " INC " -->[/a]"},
        {"<!-- a --->" INC, "<!-- a --->[/a]"},
        {"<!---->" INC, "<!---->[/a]"},
        {"<![CDATA[" INC "]]>" INC, "<![CDATA[" INC "]]>[/a]"},
        {"<![CDATA[]]]>" INC, "<![CDATA[]]]>[/a]"},
        {"<p title=\"" INC "\">" INC, "<p title=\"" INC "\">[/a]"},
        {"<script>a<b;" INC "</script>", "<script>a<b;" INC "</script>"},
        {"<ESI:include src=\"/a\"/>b< esi:include src=\"/a\"/>",
            "<ESI:include src=\"/a\"/>b< esi:include src=\"/a\"/>"},
        {"<p><", "<p><"},
        {"<p><esi", "<p><esi"},
        {"<p></", "<p></"},
        {"<p><!-", "<p><!-"},
    };

    CHECK_SAMPLES(samples);
}

TEST(esi, elements_that_are_malformed_are_dropped_to_their_end)
{
    static const struct sample samples[] = {
        {"<p><esi:bogus>a</esi:bogus>b<esi:INCLUDE src=\"/a\"/>c", "<p>abc"},
        {"<p></esi:remove>b</esi:>c", "<p>bc"},
        {"<p><esi:include/>b<esi:include />c", "<p>bc"},
        {"<p><esi:include src=\"\"/>b<esi:include src=/a/>c", "<p>bc"},
        {"<p><esi:include src=\"/a\" src=\"/b\"/>c", "<p>c"},
        {"<p><esi:include src = \"/a\"/>b<esi:include src= \"/a\"/>c", "<p>bc"},
        {"<p><esi:include src=\"/a b\"/>c<esi:include src=\"/a\tb\"/>d", "<p>cd"},
        {"<p><esi:include src=\"/a>b\"/>c", "<p>b\"/>c"},
        {"<p><esi:include src=\"/a\"/ >b<esi:include src=\"/a\"//>c", "<p>bc"},
        {"<p><esi:include src=\"/a\" ]x=\"y\"/>b", "<p>b"},
        {"<p><esi:include src/>b<esi:include src=\"/a\" alt/>c", "<p>bc"},
        {"<p><esi:includex src=\"/a\"/>b<esi: include src=\"/a\"/>c", "<p>bc"},
        {"<p><esi:include src=\"/a\"", "<p>"},
        {"<p><esi:include src=\"/a", "<p>"},
        {"<p><esi:incl", "<p>"},
    };

    CHECK_SAMPLES(samples);
}

TEST(esi, begins_with_a_tag_or_is_off)
{
    static const struct sample samples[] = {
        {" \r\n\t" INC, " \r\n\t[/a]"},
        {"\xef\xbb\xbf" INC, "\xef\xbb\xbf[/a]"},
        {"\xef\xbb" INC, "\xef\xbb" INC},
        {"\xef\xbb\xbf\xef\xbb\xbf" INC, "\xef\xbb\xbf\xef\xbb\xbf" INC},
        {"x" INC, "x" INC},
        {"{\"a\":\"" INC "\"}", "{\"a\":\"" INC "\"}"},
        {"", ""},
        {"  ", "  "},
    };

    CHECK_SAMPLES(samples);
}

TEST(esi, a_url_that_is_too_long_is_an_error_and_takes_no_memory)
{
    static char page[3 * ESI_URL_MAX];
    static struct shown s;
    static char stream[4 * ROOM];
    size_t n;

    for (unsigned over = 0; over < 2; over++) {
        n = (size_t)sprintf(page, "<p><esi:include src=\"/");
        memset(page + n, 'a', ESI_URL_MAX - 1 + over);
        sprintf(page + n + ESI_URL_MAX - 1 + over, "\"/>b");
        n = encode(slice_str(page), 7, 7, 11, stream, &s.errors);
        CHECK(decode(stream, n, 11, &s));
        CHECK_EQ(over == 0 ? 3 + 2 + ESI_URL_MAX + 1 : 4, s.ntext);
        CHECK_EQ(over, s.errors);
    }
}

/* Neither a page of tags nor one of text is cut into more records than it has elements, and pieces. */
TEST(esi, runs_are_as_long_as_the_piece_that_they_came_in)
{
    static char stream[4 * ROOM];
    static const char page[] = "<html><p>a</p><!-- b --><p c='d'>" INC "e</p></html>";
    unsigned errors;
    size_t n = encode(SLICE_LIT("<html><p>a</p><!-- b --><p c='d'>" INC "e</p></html>"), 1000, 1000,
        ROOM, stream, &errors);

    /* text, markup, include, text */
    CHECK_EQ(sizeof(page) - 1 + 4 * ESI_RECORD_HEAD + ESI_INCLUDE_HEAD + 2, n);
}

TEST(esi, a_stream_that_is_none_is_refused)
{
    static const char *const broken[] = {"X\1\0\0\0a", "T\0\0\0\0", "I\3\0\0\0\0\1\0",
        "I\4\0\0\0\0\2\0a", "I\4\0\0\0\0\0\0a", "I\0\0\1\0"};
    static const size_t len[] = {6, 5, 8, 9, 9, 5};
    static struct shown s;

    for (size_t i = 0; i < 6; i++) {
        CHECK(!decode(broken[i], len[i], 1, &s));
        CHECK(!decode(broken[i], len[i], 100, &s));
    }
    CHECK(!decode("T\2\0\0\0a", 6, 1, &s)); /* cut */
    CHECK(!decode("T\2", 2, 1, &s));
    CHECK(decode("", 0, 1, &s));
}

TEST_MAIN(TEST_ENTRY(esi, includes_have_src_alt_and_onerror),
    TEST_ENTRY(esi, remove_comment_and_the_esi_comment_are_not_shown),
    TEST_ENTRY(esi, in_comments_cdata_and_tags_of_others_is_text),
    TEST_ENTRY(esi, elements_that_are_malformed_are_dropped_to_their_end),
    TEST_ENTRY(esi, begins_with_a_tag_or_is_off),
    TEST_ENTRY(esi, a_url_that_is_too_long_is_an_error_and_takes_no_memory),
    TEST_ENTRY(esi, runs_are_as_long_as_the_piece_that_they_came_in),
    TEST_ENTRY(esi, a_stream_that_is_none_is_refused))
