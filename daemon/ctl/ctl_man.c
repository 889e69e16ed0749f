/* ctl_man.c -- manual pages, for man(7)'s macros: of tarnctl, and of each command's first word. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/span.h"
#include "daemon/ctl/ctl_commands.h"
#include "daemon/ctl/ctl_man_table.h"

static const struct {
    const char *name, *what, *see;
} man_pages[] = {
#define X(name, what, see) {name, what, see},
    CTL_PAGE_TABLE(X)
#undef X
};

static const struct {
    const char *name, *word, *what;
} man_words[] = {
#define X(name, word, what) {name, word, what},
    CTL_WORD_TABLE(X)
#undef X
};

static const struct {
    const char *name, *line, *what;
} man_examples[] = {
#define X(name, line, what) {name, line, what},
    CTL_EXAMPLE_TABLE(X)
#undef X
};

/* What a line of a command's help is. */
enum man_line {
    MAN_LINE_EMPTY,
    MAN_LINE_TEXT,
    MAN_LINE_EXAMPLE, /* indented */
    MAN_LINE_OPTION,  /* "    --url TEXT       ..." */
    MAN_LINE_REST,    /* of an option's text, below it */
};

enum {
    MAN_INDENT = 4,
    MAN_COLUMN = 21, /* of what is said about an option */
};

/* A line's first character may not be one that roff heeds, nor a hyphen be a minus. */
static void
man_put(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char at = text.ptr[i];

        if ((i == 0 || text.ptr[i - 1] == '\n') && (at == '.' || at == '\''))
            fputs("\\&", stdout);
        if (at == '\\')
            fputs("\\e", stdout);
        else if (at == '-')
            fputs("\\-", stdout);
        else if (at == '^' || at == '`' || at == '\'' || at == '~')
            printf("\\(%s", at == '^' ? "ha" : at == '`' ? "ga" : at == '~' ? "ti" : "aq");
        else
            putchar(at);
    }
}

static void
man_text(const char *text)
{
    man_put(slice_str(text));
}

/* An argument of a macro: a quotation mark in it would end it. */
static void
man_bold(struct slice text)
{
    fputs("\\fB", stdout);
    man_put(text);
    fputs("\\fR\n", stdout);
}

static void
man_item(const char *term, const char *what)
{
    puts(".TP");
    man_bold(slice_str(term));
    man_text(what);
    putchar('\n');
}

static struct slice
man_skip(struct slice s, size_t n)
{
    while (n < s.len && s.ptr[n] == ' ')
        n++;
    return n < s.len ? slice_of(s.ptr + n, s.len - n) : slice_of(s.ptr + s.len, 0);
}

static enum man_line
man_line_kind(struct slice line)
{
    size_t indent = line.len - man_skip(line, 0).len;

    if (line.len == indent)
        return MAN_LINE_EMPTY;
    if (indent == 0)
        return MAN_LINE_TEXT;
    if (indent == MAN_INDENT && line.len > indent + 1 && line.ptr[indent] == '-')
        return MAN_LINE_OPTION;
    return indent == MAN_COLUMN ? MAN_LINE_REST : MAN_LINE_EXAMPLE;
}

static void
man_line_option(struct slice line)
{
    struct slice term = man_skip(line, MAN_INDENT);
    const char *gap = memmem(term.ptr, term.len, "  ", 2);
    size_t n = gap != NULL ? (size_t)(gap - term.ptr) : term.len;

    puts(".TP");
    man_bold(slice_of(term.ptr, n));
    man_put(man_skip(term, n));
    putchar('\n');
}

/* The lines of a command's help: those of its options, or the others.  Examples stand `indent` to the
 * right of the section's text. */
static void
man_more(const char *more, bool options, int indent)
{
    bool example = false;

    while (*more != '\0') {
        struct slice line = slice_of(more, strcspn(more, "\n"));
        enum man_line kind = man_line_kind(line);

        more += line.len + (more[line.len] == '\n');
        if ((kind == MAN_LINE_OPTION || kind == MAN_LINE_REST) != options)
            continue;
        if (example && kind != MAN_LINE_EXAMPLE)
            puts(".fi\n.RE");
        else if (!example && kind == MAN_LINE_EXAMPLE)
            printf(".RS %d\n.nf\n", indent);
        example = kind == MAN_LINE_EXAMPLE;
        if (kind == MAN_LINE_OPTION) {
            man_line_option(line);
        } else if (kind == MAN_LINE_EMPTY) {
            if (*more != '\0' &&
                man_line_kind(slice_of(more, strcspn(more, "\n"))) == MAN_LINE_TEXT)
                puts(".PP");
        } else {
            man_put(man_skip(line, 0));
            putchar('\n');
        }
    }
    if (example)
        puts(".fi\n.RE");
}

/* The length of a command's first word. */
static size_t
man_first(const char *name)
{
    return strcspn(name, " ");
}

static bool
man_is_of(const struct ctl_command *cmd, const char *first)
{
    return slice_eq(slice_of(cmd->name, man_first(cmd->name)), slice_str(first));
}

/* Is a word of the table one of a synopsis?  A whole one. */
static bool
man_has(const char *args, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = strstr(args, word); at != NULL; at = strstr(at + 1, word))
        if ((at == args || strchr(" [", at[-1]) != NULL) && strchr(" ].", at[len]) != NULL)
            return true;
    return false;
}

static bool
man_uses(const char *first, const char *word)
{
    for (size_t i = 0; i < ctl_ncommands; i++)
        if (man_is_of(&ctl_commands[i], first) && man_has(ctl_commands[i].args, word))
            return true;
    return false;
}

static void
man_synopsis(const struct ctl_command *cmd)
{
    fputs("\\fBtarnctl ", stdout);
    man_text(cmd->name);
    fputs("\\fR ", stdout);
    man_text(cmd->args);
    putchar('\n');
}

static void
man_page_forms(const char *first, size_t nforms)
{
    puts(".SH SYNOPSIS");
    for (size_t i = 0, n = 0; i < ctl_ncommands; i++)
        if (man_is_of(&ctl_commands[i], first)) {
            if (n++ > 0)
                puts(".br");
            man_synopsis(&ctl_commands[i]);
        }
    puts(".SH DESCRIPTION");
    for (size_t i = 0; i < ctl_ncommands; i++) {
        const struct ctl_command *cmd = &ctl_commands[i];

        if (!man_is_of(cmd, first))
            continue;
        if (nforms > 1) {
            puts(".TP");
            man_synopsis(cmd);
        }
        putchar(toupper((unsigned char)cmd->what[0]));
        man_text(cmd->what + 1);
        puts(".");
        man_more(cmd->more, false, nforms > 1 ? 2 * MAN_INDENT + 3 : MAN_INDENT);
    }
}

static void
man_options(void)
{
    for (size_t i = 0; i < ctl_noptions; i++)
        man_item(ctl_options[i].option, ctl_options[i].what);
}

static void
man_exits(void)
{
    puts(".SH EXIT STATUS");
    for (size_t i = 0; i < ctl_nexits; i++)
        man_item((char[]){(char)('0' + ctl_exits[i].status), '\0'}, ctl_exits[i].what);
}

static void
man_page_words(const char *first)
{
    puts(".SH ARGUMENTS AND OPTIONS");
    for (size_t i = 0; i < ARRAY_LEN(man_words); i++)
        if ((man_words[i].name[0] == '\0' || strcmp(man_words[i].name, first) == 0) &&
            man_uses(first, man_words[i].word))
            man_item(man_words[i].word, man_words[i].what);
    for (size_t i = 0; i < ctl_ncommands; i++)
        if (man_is_of(&ctl_commands[i], first))
            man_more(ctl_commands[i].more, true, 0);
    man_options();
}

static void
man_page_examples(const char *first)
{
    puts(".SH EXAMPLES");
    for (size_t i = 0; i < ARRAY_LEN(man_examples); i++)
        if (strcmp(man_examples[i].name, first) == 0)
            man_item(man_examples[i].line, man_examples[i].what);
}

static void
man_page_see(const char *see)
{
    puts(".SH SEE ALSO\n.BR tarnctl (1),");
    while (*see != '\0') {
        size_t n = man_first(see);

        fputs(".BR tarnctl\\-", stdout);
        man_put(slice_of(see, n));
        puts(" (1),");
        see += n + (see[n] == ' ');
    }
    puts(".BR tarnd (8)");
}

static void
man_page(size_t page)
{
    const char *first = man_pages[page].name, *what = man_pages[page].what;
    size_t nforms = 0;

    for (size_t i = 0; i < ctl_ncommands; i++)
        if (man_is_of(&ctl_commands[i], first)) {
            nforms++;
            what = what[0] != '\0' ? what : ctl_commands[i].what;
        }
    fputs(".TH TARNCTL\\-", stdout);
    for (const char *at = first; *at != '\0'; at++)
        man_put(slice_of(&(char){(char)toupper((unsigned char)*at)}, 1));
    fputs(" 1 \"\" \"Tarn " TARN_VERSION "\" \"Tarn\"\n.SH NAME\ntarnctl\\-", stdout);
    man_text(first);
    fputs(" \\- ", stdout);
    man_text(what);
    putchar('\n');
    man_page_forms(first, nforms);
    man_page_words(first);
    man_exits();
    man_page_examples(first);
    man_page_see(man_pages[page].see);
}

bool
ctl_man_of(const char *first)
{
    for (size_t i = 0; i < ARRAY_LEN(man_pages); i++)
        if (strcmp(man_pages[i].name, first) == 0) {
            man_page(i);
            return true;
        }
    return false;
}

static void
man_command(const struct ctl_command *cmd)
{
    puts(".TP");
    fputs("\\fB", stdout);
    man_text(cmd->name);
    fputs("\\fR ", stdout);
    man_text(cmd->args);
    putchar('\n');
    man_text(cmd->what);
    putchar('\n');
}

void
ctl_man(void)
{
    fputs(".TH TARNCTL 1 \"\" \"Tarn " TARN_VERSION "\" \"Tarn\"\n"
          ".SH NAME\ntarnctl \\- see, change and explain a running tarnd\n"
          ".SH SYNOPSIS\n.B tarnctl\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR\n"
          ".SH DESCRIPTION\nEach command asks tarnd's admin listener, and prints its answer.\n"
          "A command's own page has all of its options, and examples: man tarnctl\\-purge.\n"
          ".SH COMMANDS\n",
        stdout);
    for (size_t i = 0; i < ctl_ncommands; i++)
        man_command(&ctl_commands[i]);
    puts(".SH OPTIONS");
    man_options();
    man_exits();
    puts(".SH SEE ALSO");
    for (size_t i = 0; i < ARRAY_LEN(man_pages); i++) {
        fputs(".BR tarnctl\\-", stdout);
        man_text(man_pages[i].name);
        puts(" (1),");
    }
    puts(".BR tarnd (8),\n.BR tarn.yaml (5),\n.BR tarn\\-table (1)");
}
