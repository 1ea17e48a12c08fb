/* mail.c - see mail.h. */
#include "base/mail.h"

bool mailbox_send(struct mailbox *box, struct mail *mail)
{
    struct mail *top = atomic_load_explicit(&box->top, memory_order_relaxed);
    do {
        mail->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&box->top, &top, mail, memory_order_release,
                                                    memory_order_relaxed));
    return top == NULL;
}

struct mail *mailbox_take(struct mailbox *box)
{
    struct mail *mail = atomic_exchange_explicit(&box->top, NULL, memory_order_acquire);
    struct mail *in_order = NULL;
    while (mail) {
        struct mail *older = mail->next;
        mail->next = in_order;
        in_order = mail;
        mail = older;
    }
    return in_order;
}
