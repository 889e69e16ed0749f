/* ctl_help.c -- help and the shells' completion, from the rows of ctl_table.h.
 *
 * No text here names a command: a new row of ctl_table.h appears in --help, in `tarnctl help`,
 * in the completion of three shells and in the manual page.  Options with an argument are the
 * exception: the completion for bash lists them by hand, because rows of options are text for
 * people.
 */
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/ctl/ctl_commands.h"
#include "daemon/ctl/ctl_table.h"

const struct ctl_command ctl_commands[] = {
#define X(name, args, least, most, run, more, what) \
    {name, args, least, most, ctl_##run, what, more},
    CTL_COMMAND_TABLE(X)
#undef X
};
const size_t ctl_ncommands = ARRAY_LEN(ctl_commands);

static void
help_common(void)
{
    puts("OPTIONS");
#define X(option, by_default, what) printf("    %-20s  %s\n", option, what by_default);
    CTL_OPTION_TABLE(X)
#undef X
    puts("\nEXIT STATUS");
#define X(status, what) printf("    %d   %s\n", CTL_##status, what);
    CTL_EXIT_TABLE(X)
#undef X
}

void
ctl_usage(FILE *to, const struct ctl_command *cmd)
{
    fprintf(to, "tarnctl %s%s%s\n", cmd->name, cmd->args[0] != '\0' ? " " : "", cmd->args);
}

/* Two passes: the widest "NAME ARGS" decides the column in which the meanings begin. */
void
ctl_help_all(void)
{
    size_t width = 0;

    for (size_t i = 0; i < ctl_ncommands; i++) {
        size_t n = strlen(ctl_commands[i].name) + 1 + strlen(ctl_commands[i].args);

        width = n > width ? n : width;
    }
    puts("tarnctl -- see, change and explain a running tarnd\n\n"
         "    tarnctl [OPTIONS] COMMAND\n\n"
         "COMMAND");
    for (size_t i = 0; i < ctl_ncommands; i++)
        printf("    %s %-*s  %s\n", ctl_commands[i].name,
            (int)(width - strlen(ctl_commands[i].name) - 1), ctl_commands[i].args,
            ctl_commands[i].what);
    puts("");
    help_common();
}

static void
help_of(const struct ctl_command *cmd)
{
    printf("tarnctl %s -- %s\n\n    ", cmd->name, cmd->what);
    ctl_usage(stdout, cmd);
    printf("\n%s%s", cmd->more, cmd->more[0] != '\0' ? "\n" : "");
    help_common();
}

/* All of them that begin with one word. */
static bool
help_forms(const char *first)
{
    size_t len = strlen(first);
    bool any = false;

    for (size_t i = 0; i < ctl_ncommands; i++) {
        const struct ctl_command *cmd = &ctl_commands[i];

        /* strchr(3) finds the NUL of " ", too: the word alone is a form. */
        if (strncmp(cmd->name, first, len) != 0 || strchr(" ", cmd->name[len]) == NULL)
            continue;
        if (!any)
            printf("tarnctl %s\n\n", first);
        any = true;
        fputs("    ", stdout);
        ctl_usage(stdout, cmd);
        printf("        %s\n", cmd->what);
    }
    if (any) {
        puts("");
        help_common();
    }
    return any;
}

/* Three ways, the most special first: a whole command ("ban list"), a first word with several
 * forms ("vcl"), and what is neither.  Words behind a command's name do no harm: `tarnctl ban x
 * --help` has some. */
int
ctl_help_on(const char *const *words, int n)
{
    int used;
    const struct ctl_command *cmd = ctl_find(words, n, &used);

    if (n == 0)
        ctl_help_all();
    else if (cmd != NULL)
        help_of(cmd);
    else if (!help_forms(words[0]))
        return ctl_unknown(words);
    return CTL_DONE;
}

int
ctl_help(struct ctl *c)
{
    return ctl_help_on(c->args, c->nargs);
}

/* The first words; or, with `first`, the second ones behind it.  NULL prints "status stat log
 * ...".  "vcl" prints " list load use ...", each with its blank in front. */
static void
completion_words(const char *first)
{
    const char *last = "";
    size_t len = 0;

    for (size_t i = 0; i < ctl_ncommands; i++) {
        const char *name = ctl_commands[i].name, *rest = strchr(name, ' ');
        size_t n = rest != NULL ? (size_t)(rest - name) : strlen(name);

        /* Rows of a word stand together: each is printed once. */
        if (first == NULL && (n != len || strncmp(last, name, n) != 0))
            printf("%s%.*s", i > 0 ? " " : "", (int)n, name);
        else if (first != NULL && rest != NULL && strncmp(first, name, n) == 0 && first[n] == '\0')
            fputs(rest, stdout);
        last = name;
        len = n;
    }
}

/* Each first word with what may follow it.  Depends on the order of ctl_table.h: rows of a word
 * stand together. */
static void
completion_each(const char *before, const char *between, const char *after)
{
    char last[32] = "";

    for (size_t i = 0; i < ctl_ncommands; i++) {
        const char *space = strchr(ctl_commands[i].name, ' ');
        char first[32];

        if (space == NULL)
            continue;
        snprintf(first, sizeof(first), "%.*s", (int)(space - ctl_commands[i].name),
            ctl_commands[i].name);
        if (strcmp(first, last) == 0)
            continue;
        snprintf(last, sizeof(last), "%s", first);
        printf("%s%s%s", before, first, between);
        completion_words(first);
        fputs(after, stdout);
    }
}

/* zsh understands what bash does. */
static void
completion_bash(bool zsh)
{
    if (zsh)
        puts("autoload -U +X bashcompinit && bashcompinit");
    /* Options with an argument are stepped over with it, or that would count as the command. */
    fputs("_tarnctl() {\n"
          "    local i words= first=\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case ${COMP_WORDS[i]} in\n"
          "        "
          "-a|--admin|--token-file|--limit|--every|--count|--tag|--url|--status|--client|--format|"
          "--to|--rate|--concurrency|--timeout) "
          "((i++)) ;;\n"
          "        -*) ;;\n"
          "        *) if [ -z \"$first\" ]; then first=${COMP_WORDS[i]}; else first=done; fi ;;\n"
          "        esac\n"
          "    done\n"
          "    case $first in\n"
          "    '') words='",
        stdout);
    completion_words(NULL);
    fputs(" --admin --token-file --json --help --version' ;;\n", stdout);
    completion_each("    ", ") words='", "' ;;\n");
    fputs("    esac\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
          "    [ ${#COMPREPLY[@]} -gt 0 ] ||\n"
          "        COMPREPLY=($(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
          "}\n"
          "complete -F _tarnctl tarnctl\n",
        stdout);
}

static void
completion_fish(void)
{
    fputs("complete -c tarnctl -s a -l admin -r -d 'admin listener'\n"
          "complete -c tarnctl -l token-file -r -d 'its token'\n"
          "complete -c tarnctl -s j -l json -d 'print JSON'\n"
          "complete -c tarnctl -n __fish_use_subcommand -f -a '",
        stdout);
    completion_words(NULL);
    fputs("'\n", stdout);
    completion_each("complete -c tarnctl -n '__fish_seen_subcommand_from ", "' -f -a '", "'\n");
}

int
ctl_completion(struct ctl *c)
{
    const char *shell = c->args[0];

    if (strcmp(shell, "bash") == 0 || strcmp(shell, "zsh") == 0) {
        completion_bash(shell[0] == 'z');
    } else if (strcmp(shell, "fish") == 0) {
        completion_fish();
    } else {
        ctl_say("%s: bash, zsh or fish", shell);
        return CTL_USAGE;
    }
    return CTL_DONE;
}
