/* acme_cli.h -- the command line of tarn-acme.
 *
 * Here a file may give the settings, too: --config tarn.yaml, listen[].tls.acme.
 */
#ifndef TARN_ACME_CLI_H
#define TARN_ACME_CLI_H

#include "daemon/acme/acme.h"

/* -1: the settings, all zeros before, are whole, and the caller gives them to acme_cli_fini() as in any
 * case; else the exit status: standard error or standard output have said what there is to say. */
int acme_cli_read(struct acme_settings *set, int argc, char **argv);
void acme_cli_fini(struct acme_settings *set);

#endif
