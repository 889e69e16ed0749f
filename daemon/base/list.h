/* list.h -- circular doubly linked lists; the links lie in the members. */
#ifndef TARN_LIST_H
#define TARN_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

static inline void
list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool
list_empty(const struct list *l)
{
    return l->next == l;
}

/* Before the head is the tail: inserts `m` as the last member of `l`. */
static inline void
list_add_tail(struct list *l, struct list *m)
{
    m->next = l;
    m->prev = l->prev;
    l->prev->next = m;
    l->prev = m;
}

static inline void
list_add_head(struct list *l, struct list *m)
{
    list_add_tail(l->next, m);
}

/* Leaves `m` a list of its own, so removing twice is harmless. */
static inline void
list_del(struct list *m)
{
    m->prev->next = m->next;
    m->next->prev = m->prev;
    list_init(m);
}

/* Moves every member of `from` to the end of `to`. */
static inline void
list_splice(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

/* The body may remove `m`, and nothing else. */
#define LIST_FOREACH_SAFE(m, tmp, l) \
    for ((m) = (l)->next, (tmp) = (m)->next; (m) != (l); (m) = (tmp), (tmp) = (m)->next)

#endif
