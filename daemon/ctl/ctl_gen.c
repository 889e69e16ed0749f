/* ctl_gen.c -- tarn_ctl_gen: prints the rows of tarnctl's tables, of which packaging/man.py makes pages.
 *
 * A row ends with RS, its fields are separated by US; the first one names the table.
 *
 * Runs at build time only.  The separators are control characters, which no text of a row has,
 * so nothing is quoted.  Manual pages, --help and the completion come from the same rows and
 * cannot disagree.
 */
#include <stdio.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/ctl_man_table.h"
#include "daemon/ctl/ctl_table.h"

#define US "\x1f"
#define RS "\x1e"

int
main(void)
{
#define X(name, args, least, most, run, more, what) \
    fputs("command" US name US args US what US more RS, stdout);
    CTL_COMMAND_TABLE(X)
#undef X
#define X(option, by_default, what) fputs("option" US option US what by_default RS, stdout);
    CTL_OPTION_TABLE(X)
#undef X
#define X(status, what) printf("exit" US "%d" US "%s" RS, CTL_##status, what);
    CTL_EXIT_TABLE(X)
#undef X
#define X(word, what, see) fputs("page" US word US what US see RS, stdout);
    CTL_PAGE_TABLE(X)
#undef X
#define X(word, arg, what) fputs("word" US word US arg US what RS, stdout);
    CTL_WORD_TABLE(X)
#undef X
#define X(word, line, what) fputs("example" US word US line US what RS, stdout);
    CTL_EXAMPLE_TABLE(X)
#undef X
    return fflush(stdout) == 0 ? 0 : 1;
}
