/*
 * mail.h - messages between threads: an intrusive, lock-free queue with many senders and one
 * reader.
 *
 * A message is embedded in the struct that it is about, so sending never allocates and never fails.
 * Senders push onto a stack with one compare-and-swap. The reader takes the whole stack with one
 * exchange and reverses it, so messages of one sender arrive in the order sent. Only the sender
 * that finds the box empty must wake the reader.
 */
#ifndef BASE_MAIL_H
#define BASE_MAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mail {
    struct mail *next;
    /* Called by the reader's thread. `reader` is its own object (a worker). Set before sending. */
    void (*deliver)(struct mail *mail, void *reader);
};

/*
 * A message to one of the reader's objects. `to` is a number that the reader understands (for
 * workers: a conn_tag).
 */
struct message {
    struct mail mail; /* first member */
    uint64_t to;
};

struct mailbox {
    _Atomic(struct mail *) top;
};

/*
 * Messages to one reader that are sent together, as one message, and delivered in order, some at a
 * time. Embedded in the last of them.
 */
struct bundle {
    struct mail mail; /* first member */
    struct mail *messages;
};

/* A list of messages in order. */
struct mail_list {
    struct mail *first;
    struct mail **end; /* the pointer that will link the next message */
};

static inline void mail_list_init(struct mail_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

/* Appends `mail` to `list`. */
static inline void mail_list_add(struct mail_list *list, struct mail *mail)
{
    mail->next = NULL;
    *list->end = mail;
    list->end = &mail->next;
}

/* The last message of a list that is not empty. */
static inline struct mail *mail_list_last(const struct mail_list *list)
{
    return (struct mail *)(void *)((char *)list->end - offsetof(struct mail, next));
}

/* Removes and returns the first message of `list`; NULL when it is empty. */
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

/*
 * Sends one message. Any thread. Returns true when the box was empty: the caller must wake the
 * reader.
 */
bool mailbox_send(struct mailbox *box, struct mail *mail);

/* Takes all messages, oldest first; NULL when there are none. The reader's thread only. */
struct mail *mailbox_take(struct mailbox *box);

#endif
