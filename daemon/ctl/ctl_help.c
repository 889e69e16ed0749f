/* ctl_help.c -- help, the manual page and the shells' completion, from the rows of ctl_table.h. */
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl_commands.h"
#include "daemon/ctl/ctl_table.h"

const struct ctl_command ctl_commands[] = {
#define X(name, args, least, most, run, more, what) \
    {name, args, least, most, ctl_##run, what, more},
    CTL_COMMAND_TABLE(X)
#undef X
};
const size_t ctl_ncommands = sizeof(ctl_commands) / sizeof(ctl_commands[0]);

static const struct {
    const char *option, *what;
} help_options[] = {
    {"-a, --admin ADDRESS",
        "tarnd's admin listener: unix:/path or host:port. Default: TARN_ADMIN of "
        "the environment, else " CTL_ADMIN},
    {"--token-file FILE",
        "its token, for a listener on TCP. Default: TARN_TOKEN of the environment"},
    {"-j, --json", "print what tarnd answers, as JSON"},
    {"-h, --help", "help; behind a command, that command's"},
    {"-V, --version", "the version"},
};

static const struct {
    enum ctl_exit status;
    const char *what;
} help_exits[] = {
    {CTL_DONE, "done"},
    {CTL_REFUSED, "tarnd refused: standard error says why, and what would be right"},
    {CTL_USAGE, "the command line, or a file that it names, is wrong"},
    {CTL_UNREACHABLE, "nobody answers at ADDRESS, or not as tarnd does"},
};

static void
help_common(void)
{
    puts("OPTIONS");
    for (size_t i = 0; i < sizeof(help_options) / sizeof(help_options[0]); i++)
        printf("    %-20s  %s\n", help_options[i].option, help_options[i].what);
    puts("\nEXIT STATUS");
    for (size_t i = 0; i < sizeof(help_exits) / sizeof(help_exits[0]); i++)
        printf("    %d   %s\n", (int)help_exits[i].status, help_exits[i].what);
}

void
ctl_usage(FILE *to, const struct ctl_command *cmd)
{
    fprintf(to, "tarnctl %s%s%s\n", cmd->name, cmd->args[0] != '\0' ? " " : "", cmd->args);
}

void
ctl_help(void)
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

void
ctl_help_of(const struct ctl_command *cmd)
{
    printf("tarnctl %s -- %s\n\n    ", cmd->name, cmd->what);
    ctl_usage(stdout, cmd);
    printf("\n%s%s", cmd->more, cmd->more[0] != '\0' ? "\n" : "");
    help_common();
}

/* A line's first character may not be one that roff heeds, nor a hyphen be a minus. */
static void
man_text(const char *text)
{
    bool begins = true;

    for (; *text != '\0'; text++) {
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\' || *text == '-')
            putchar('\\');
        putchar(*text);
        begins = *text == '\n';
    }
}

static void
man_item(const char *term, const char *what)
{
    fputs(".TP\n.B \"", stdout);
    man_text(term);
    fputs("\"\n", stdout);
    man_text(what);
    putchar('\n');
}

static void
man_command(const struct ctl_command *cmd)
{
    char *term = NULL;

    if (asprintf(&term, "%s%s%s", cmd->name, cmd->args[0] != '\0' ? " " : "", cmd->args) < 0)
        return;
    man_item(term, cmd->what);
    if (cmd->more[0] != '\0') {
        fputs(".br\n.nf\n", stdout);
        man_text(cmd->more);
        fputs(".fi\n", stdout);
    }
    free(term);
}

void
ctl_man(void)
{
    fputs(".TH TARNCTL 1 \"\" \"Tarn " TARN_VERSION "\" \"Tarn\"\n"
          ".SH NAME\ntarnctl \\- see, change and explain a running tarnd\n"
          ".SH SYNOPSIS\n.B tarnctl\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR\n"
          ".SH DESCRIPTION\nEach command asks tarnd's admin listener, and prints its answer.\n"
          ".SH COMMANDS\n",
        stdout);
    for (size_t i = 0; i < ctl_ncommands; i++)
        man_command(&ctl_commands[i]);
    puts(".SH OPTIONS");
    for (size_t i = 0; i < sizeof(help_options) / sizeof(help_options[0]); i++)
        man_item(help_options[i].option, help_options[i].what);
    puts(".SH EXIT STATUS");
    for (size_t i = 0; i < sizeof(help_exits) / sizeof(help_exits[0]); i++)
        man_item((char[]){(char)('0' + help_exits[i].status), '\0'}, help_exits[i].what);
    puts(".SH SEE ALSO\n.BR tarnd (8),\n.BR tarn\\-table (1)");
}

/* The first words; or, with `first`, the second ones behind it. */
static void
completion_words(const char *first)
{
    const char *last = "";
    size_t len = 0;

    for (size_t i = 0; i < ctl_ncommands; i++) {
        const char *name = ctl_commands[i].name, *rest = strchr(name, ' ');
        size_t n = rest != NULL ? (size_t)(rest - name) : strlen(name);

        if (first == NULL && (n != len || strncmp(last, name, n) != 0))
            printf("%s%.*s", i > 0 ? " " : "", (int)n, name);
        else if (first != NULL && rest != NULL && strncmp(first, name, n) == 0 && first[n] == '\0')
            fputs(rest, stdout);
        last = name;
        len = n;
    }
}

/* Each first word with what may follow it. */
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
    fputs("_tarnctl() {\n"
          "    local i words= first=\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case ${COMP_WORDS[i]} in\n"
          "        "
          "-a|--admin|--token-file|--limit|--every|--count|--tag|--url|--status|--client|--format) "
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
