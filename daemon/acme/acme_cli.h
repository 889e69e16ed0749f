/* acme_cli.h -- the command line of tarn-acme.
 *
 * What it does not say comes from tarnd's configuration (acme_conf.h).
 */
#ifndef TARN_ACME_CLI_H
#define TARN_ACME_CLI_H

#include "daemon/acme/acme.h"

#define ACME_CONFIG "/etc/tarn/tarn.yaml" /* where no name and no other file is given */

/* -1: the settings, all zeros before, are whole, and the caller gives them to acme_cli_fini() as in any
 * case; else the exit status: standard error or standard output have said what there is to say. */
int acme_cli_read(struct acme_settings *set, int argc, char **argv);
void acme_cli_fini(struct acme_settings *set);

#endif
