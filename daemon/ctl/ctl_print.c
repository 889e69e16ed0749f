/* ctl_print.c -- answers as people read them.
 *
 * A table is collected whole and printed at its end, because a column is as wide as its widest
 * cell.  Values come from tarnd and may be any text: control characters show as \x1b, for a terminal
 * would obey them, and a line would look like two.  --json is the form for scripts.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl.h"

/* C0, DEL, and C1, which UTF-8 has as c2 80 to c2 9f. */
static bool
print_is_control(const char *at)
{
    unsigned char c = (unsigned char)at[0], next = (unsigned char)at[c != '\0'];

    return c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0);
}

/* Takes the text, or NULL; owned by the caller; NULL: no memory. */
static char *
print_shown(char *text)
{
    char *shown = text != NULL ? malloc(4 * strlen(text) + 1) : NULL, *to = shown;

    for (const char *at = text; shown != NULL && *at != '\0'; at++) {
        if (!print_is_control(at))
            *to++ = *at;
        else if ((unsigned char)*at == 0xc2) /* both of its bytes */
            to += snprintf(to, 5, "\\x%02x", (unsigned char)*++at);
        else
            to += snprintf(to, 5, "\\x%02x", (unsigned char)*at);
    }
    if (shown != NULL)
        *to = '\0';
    free(text);
    return shown;
}

void
ctl_vline(FILE *out, const char *fmt, va_list ap)
{
    char *text = NULL;

    text = print_shown(vasprintf(&text, fmt, ap) < 0 ? NULL : text);
    fprintf(out, "%s\n", text != NULL ? text : "out of memory");
    free(text);
}

void
ctl_line(FILE *out, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    ctl_vline(out, fmt, ap);
    va_end(ap);
}

/* NULL: there was no memory for the text.  Takes the text.  The only place of tarnctl that ends
 * the process: cells are added in the middle of loops over an answer, and nothing would be
 * gained by carrying the error out of them. */
static void
table_add(struct ctl_table *t, char *text)
{
    char **cells = t->cells;

    text = print_shown(text);
    if (t->nrows == t->room) {
        t->room = t->room == 0 ? 64 : t->room * 2;
        cells = realloc(cells, t->room * sizeof(*cells));
    }
    if (cells == NULL || text == NULL) {
        ctl_say("out of memory");
        /* A command has nothing to clean up. */
        exit(CTL_REFUSED);
    }
    t->cells = cells;
    cells[t->nrows++] = text;
}

/* Every row has as many cells as there are headings: a caller that adds one too few shifts all
 * below it. */
void
ctl_table_begin(struct ctl_table *t, const char *const *headings)
{
    *t = (struct ctl_table){.ncolumns = 0};
    /* The headings are the first row: their widths count. */
    for (; headings[t->ncolumns] != NULL && t->ncolumns < CTL_COLUMNS_MAX; t->ncolumns++)
        table_add(t, strdup(headings[t->ncolumns]));
}

void
ctl_cell(struct ctl_table *t, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    table_add(t, text);
}

void
ctl_cell_of(struct ctl_table *t, const json_t *o, const char *member)
{
    const json_t *v = json_object_get(o, member);

    if (json_is_string(v))
        ctl_cell(t, "%s", json_string_value(v));
    else if (json_is_integer(v))
        ctl_cell(t, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        ctl_cell(t, "%.3f", json_real_value(v));
    else if (json_is_boolean(v))
        ctl_cell(t, "%s", json_is_true(v) ? "yes" : "no");
    else
        ctl_cell(t, "-");
}

/* "12", "-3.5", "1,024".  Not "3 %" nor "-", which stand left. */
static bool
cell_is_number(const char *text)
{
    if (*text == '-')
        text++;
    return isdigit((unsigned char)*text) && text[strspn(text, "0123456789.,")] == '\0';
}

/* Bytes that are not the second and later ones of a UTF-8 character. */
static int
cell_width(const char *text)
{
    int n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void
ctl_table_end(struct ctl_table *t, const char *none)
{
    int width[CTL_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < t->nrows; i++)
        if (cell_width(t->cells[i]) > width[i % t->ncolumns])
            width[i % t->ncolumns] = cell_width(t->cells[i]);
    /* Only the headings. */
    if (t->nrows == t->ncolumns)
        puts(none);
    for (size_t i = 0; i < t->nrows && t->nrows > t->ncolumns; i++) {
        bool last = (i + 1) % t->ncolumns == 0;
        int pad = width[i % t->ncolumns] - cell_width(t->cells[i]);

        /* Numbers to the right, so that their digits stand below each other. */
        if (cell_is_number(t->cells[i]))
            printf("%*s%s%s", pad, "", t->cells[i], last ? "\n" : "  ");
        else
            /* No blanks behind the last column: lines are copied. */
            printf("%s%*s%s", t->cells[i], last ? 0 : pad, "", last ? "\n" : "  ");
    }
    for (size_t i = 0; i < t->nrows; i++)
        free(t->cells[i]);
    free(t->cells);
}

/* From 1024 TiB on the number grows, not the unit: "2048.0 TiB" fits. */
void
ctl_bytes(char text[16], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    unsigned i = 0;

    for (; n >= 1024 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
        n /= 1024;
    snprintf(text, 16, i == 0 ? "%.0f %s" : "%.1f %s", n, units[i]);
}

/* Two units at most: an operator reads an age, not a measurement. */
void
ctl_seconds(char text[24], double s)
{
    long long n = (long long)s;

    if (n < 60)
        snprintf(text, 24, "%.1fs", s);
    else if (n < 3600)
        snprintf(text, 24, "%lldm %llds", n / 60, n % 60);
    else if (n < 86400)
        snprintf(text, 24, "%lldh %lldm", n / 3600, n / 60 % 60);
    else
        snprintf(text, 24, "%lldd %lldh", n / 86400, n / 3600 % 24);
}
