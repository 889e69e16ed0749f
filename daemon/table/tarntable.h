/* tarntable.h -- all that a program beside tarnd needs to write tables, or to read them.
 *
 *     cc writer.c $(pkg-config --cflags --libs tarntable)
 *
 * What a version holds: daemon/table/table_build.h; the one writer of a table: table_write.h; readers:
 * table_read.h and table_view.h; readers that must survive a truncated file:
 * table_guard.h; what errors are called: terr.h.
 * The library needs libc alone.  What it exports has versions (tarntable.map): names of one do not
 * change their meaning.
 */
#ifndef TARN_TARNTABLE_H
#define TARN_TARNTABLE_H

#include "daemon/base/terr.h"
#include "daemon/table/table_build.h"
#include "daemon/table/table_guard.h"
#include "daemon/table/table_read.h"
#include "daemon/table/table_write.h"

#endif
