/* sandbox_table.h -- system calls that tarnd never makes once it has begun, and what each would be for.
 *
 * Those of no use to an attacker in the process are not listed.  A name that this architecture, or
 * libseccomp, does not know is skipped.
 */
#ifndef TARN_SANDBOX_TABLE_H
#define TARN_SANDBOX_TABLE_H

/* clang-format off */
/*    name, what it would be for */
#define SANDBOX_DENY_TABLE(X)                                                                      \
    X(execve, "to run another program: what an intruder wants first")                              \
    X(execveat, "to run another program")                                                          \
    X(fork, "to leave a process behind")                                                           \
    X(vfork, "to leave a process behind")                                                          \
    X(ptrace, "to take another process of the same user over")                                     \
    X(process_vm_readv, "to read another process")                                                 \
    X(process_vm_writev, "to write another process")                                               \
    X(process_madvise, "to slow another process down")                                             \
    X(pidfd_getfd, "to take another process's sockets and files")                                  \
    X(kcmp, "to learn where another process's kernel objects lie")                                 \
    X(mount, "to change the tree of files")                                                        \
    X(umount, "to change the tree of files")                                                       \
    X(umount2, "to change the tree of files")                                                      \
    X(pivot_root, "to change the tree of files")                                                   \
    X(chroot, "to leave one that does not hold, or to enter one")                                  \
    X(open_tree, "to change the tree of files")                                                    \
    X(move_mount, "to change the tree of files")                                                   \
    X(fsopen, "to change the tree of files")                                                       \
    X(fsconfig, "to change the tree of files")                                                     \
    X(fsmount, "to change the tree of files")                                                      \
    X(fspick, "to change the tree of files")                                                       \
    X(mount_setattr, "to change the tree of files")                                                \
    X(swapon, "to read what others have in memory")                                                \
    X(swapoff, "to make the machine run out of memory")                                            \
    X(quotactl, "to take limits away")                                                             \
    X(setns, "to leave a container")                                                               \
    X(unshare, "to be root in a namespace of one's own, where much of the kernel can be reached")  \
    X(init_module, "to put code into the kernel")                                                  \
    X(finit_module, "to put code into the kernel")                                                 \
    X(delete_module, "to take code out of the kernel")                                             \
    X(kexec_load, "to replace the kernel")                                                         \
    X(kexec_file_load, "to replace the kernel")                                                    \
    X(reboot, "to stop the machine")                                                               \
    X(bpf, "to run code in the kernel; its verifier has had holes")                                \
    X(perf_event_open, "to watch other processes, and the kernel")                                 \
    X(userfaultfd, "to hold the kernel where an exploit needs it")                                 \
    X(io_uring_setup, "to make system calls that this filter does not see")                        \
    X(io_uring_enter, "to make system calls that this filter does not see")                        \
    X(io_uring_register, "to make system calls that this filter does not see")                     \
    X(add_key, "to reach the kernel's keyrings, of other users too")                               \
    X(request_key, "to reach the kernel's keyrings, and have a program started for it")            \
    X(keyctl, "to reach the kernel's keyrings, of other users too")                                \
    X(settimeofday, "to set the clock, by which responses are fresh")                              \
    X(clock_settime, "to set the clock, by which responses are fresh")                             \
    X(clock_adjtime, "to set the clock, by which responses are fresh")                             \
    X(adjtimex, "to set the clock, by which responses are fresh")                                  \
    X(iopl, "to reach devices past the kernel")                                                    \
    X(ioperm, "to reach devices past the kernel")                                                  \
    X(modify_ldt, "for 16-bit code: an entry into the kernel with little review")                  \
    X(personality, "to put memory where it can be foreseen")                                       \
    X(uselib, "for a.out libraries")                                                               \
    X(acct, "to write to a file as the kernel does")                                               \
    X(lookup_dcookie, "to learn names of files past their permissions")                            \
    X(open_by_handle_at, "to open files past the directories that guard them")                     \
    X(name_to_handle_at, "to prepare that")                                                        \
    X(mknod, "to make a device")                                                                   \
    X(mknodat, "to make a device")                                                                 \
    X(fanotify_init, "to watch the files of all users")                                            \
    X(syslog, "to read the kernel's addresses")                                                    \
    X(vhangup, "to end a terminal's session")                                                      \
    X(sethostname, "to rename the machine")                                                        \
    X(setdomainname, "to rename the machine")                                                      \
    X(setuid, "to become another user")                                                            \
    X(setgid, "to become another user")                                                            \
    X(setreuid, "to become another user")                                                          \
    X(setregid, "to become another user")                                                          \
    X(setresuid, "to become another user")                                                         \
    X(setresgid, "to become another user")                                                         \
    X(setfsuid, "to become another user")                                                          \
    X(setfsgid, "to become another user")                                                          \
    X(setgroups, "to become another user")                                                         \
    X(capset, "to use a capability that one has not given up")
/* clang-format on */

#endif
