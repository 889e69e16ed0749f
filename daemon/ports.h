/* ports.h -- can the listeners of a configuration be bound?  For `tarnd -t`.
 *
 * Threads: the main thread, before any other.
 */
#ifndef TARN_PORTS_H
#define TARN_PORTS_H

struct conf;

/* Tries each TCP listener that has a port of its own, and lets go of it.  Prints which are in use, and
 * by what process, as far as this user may see it.  Returns how many a start could not have.  Those
 * that another tarnd has, or a process that cannot be seen, are printed and not counted: a reload,
 * an upgrade or a restart takes them over. */
unsigned ports_check(const struct conf *conf);

#endif
