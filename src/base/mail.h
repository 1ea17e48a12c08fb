/*
 * mail.h - messages between threads: an intrusive, lock-free queue of many senders and one reader.
 *
 * A letter is part of what it tells of, so sending allocates nothing and can't fail. Senders push
 * onto a stack with one compare-and-swap; the reader takes the whole stack with one exchange and
 * turns it round, so letters of one sender arrive in the order sent. Whoever pushes onto an empty
 * box rings the reader's bell; nobody else needs to.
 */
#ifndef BASE_MAIL_H
#define BASE_MAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mail {
    struct mail *next;
    /* Called by the reader; `reader` is what the reader is (a worker). Set before sending. */
    void (*deliver)(struct mail *mail, void *reader);
};

/* A letter to one of the reader's many: to what, in a number that the reader understands (for
 * workers: conn_tag). */
struct letter {
    struct mail mail; /* first */
    uint64_t to;
};

struct mailbox {
    _Atomic(struct mail *) top;
};

/* A list of letters in order. */
struct mail_list {
    struct mail *first;
    struct mail **end; /* where the next one is linked */
};

static inline void mail_list_init(struct mail_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

/* Puts `mail` at the end of `list`. */
static inline void mail_list_add(struct mail_list *list, struct mail *mail)
{
    mail->next = NULL;
    *list->end = mail;
    list->end = &mail->next;
}

/* Takes the first letter of `list`; NULL when it is empty. */
static inline struct mail *mail_list_take(struct mail_list *list)
{
    struct mail *mail = list->first;
    if (mail) {
        list->first = mail->next;
        if (!list->first)
            list->end = &list->first;
    }
    return mail;
}

static inline void mailbox_init(struct mailbox *box)
{
    atomic_init(&box->top, NULL);
}

/* Sends one letter. Any thread. True: the box was empty, so ring the reader's bell. */
bool mailbox_send(struct mailbox *box, struct mail *mail);

/* Takes all letters that are there, oldest first (NULL when none). The reader only. */
struct mail *mailbox_take(struct mailbox *box);

#endif
