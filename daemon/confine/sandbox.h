/* sandbox.h -- what a process that serves strangers never needs again, given up before it serves.
 *
 * If a client or an origin ever made Tarn run code of theirs, that code could still talk over the
 * sockets there are and read what Tarn's user may read.  It could not run a program, leave a process
 * behind, gain a privilege, or write a file but where Tarn itself does:
 *
 *   no_new_privs   no program that is started gains a privilege, and no way back
 *   seccomp        calls of sandbox_table.h answer EPERM
 *   Landlock       files are written, made and removed below directories that the configuration
 *                  names, and nowhere else.  Reading stays a matter of permissions: what policies
 *                  include and std.fileread() opens may lie anywhere.
 *
 * Off with the parameter sandbox, and in builds with a sanitizer, which start programs and
 * write reports.  Where the kernel lacks a part the error log says so and the rest holds.
 *
 * Threads: before there are others; later ones inherit it all.
 */
#ifndef TARN_SANDBOX_H
#define TARN_SANDBOX_H

struct conf;

/* Behind privilege_drop(), before the first file is made.  A process that starts programs,
 * as a supervisor does, or writes below another directory, does not enter: there is no way back. */
void sandbox_enter(const struct conf *conf);

#endif
