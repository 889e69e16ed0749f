/* conf_gen.c -- tarn_conf_gen: prints what is generated from the tables of keys.
 *
 *     tarn_conf_gen yaml > conf/tarn.yaml
 *     tarn_conf_gen schema > conf/tarn.schema.json
 *     tarn_conf_gen table                  the reference alone, for tarn.yaml(5)
 *     tarn_conf_gen readme < README.md     the same file, with its reference renewed
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "conf/conf_doc.h"

static void
gen_write(struct conf_sink *sink, const char *text)
{
    (void)sink;
    fputs(text, stdout);
}

/* Copies stdin; what stood between the markers is replaced.  False: a marker is missing. */
static bool
gen_readme(struct conf_sink *to)
{
    char line[4096];
    bool inside = false;
    unsigned markers = 0;

    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (strcmp(line, CONF_DOC_END) == 0) {
            inside = false;
            markers++;
        }
        if (!inside)
            fputs(line, stdout);
        if (strcmp(line, CONF_DOC_BEGIN) == 0) {
            inside = true;
            markers++;
            conf_doc_reference(to);
        }
    }
    return markers == 2 && !inside;
}

int
main(int argc, char **argv)
{
    struct conf_sink to = {.write = gen_write};
    const char *what = argc == 2 ? argv[1] : "";

    if (strcmp(what, "yaml") == 0) {
        conf_doc_yaml(&to);
    } else if (strcmp(what, "schema") == 0) {
        conf_doc_schema(&to);
    } else if (strcmp(what, "table") == 0) {
        conf_doc_reference(&to);
    } else if (strcmp(what, "readme") == 0) {
        if (!gen_readme(&to)) {
            fputs("tarn_conf_gen: the markers of the reference are not there\n", stderr);
            return 1;
        }
    } else {
        fputs("Usage: tarn_conf_gen yaml | schema | table | readme < README.md\n", stderr);
        return 2;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
