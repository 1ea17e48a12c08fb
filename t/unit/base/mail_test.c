/* mail_test.c - letters: the order of each sender, no losses, exactly the necessary wake-ups. */
#include "base/mail.h"

#include "base/check.h"
#include "t/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

/* ---- many senders ------------------------------------------------------------------------ */

enum { SENDERS = 6, LETTERS = 20000 };

struct numbered {
    struct mail mail;
    unsigned sender, number;
};

struct reader {
    unsigned next[SENDERS]; /* the next number expected from each sender */
    unsigned read;
};

static struct mailbox shared_box;
static _Atomic unsigned bells;

static void read_letter(struct mail *mail, void *arg)
{
    struct reader *reader = arg;
    const struct numbered *letter = container_of(mail, struct numbered, mail);
    CHECK(letter->number == reader->next[letter->sender]);
    reader->next[letter->sender]++;
    reader->read++;
}

static void *send_letters(void *arg)
{
    struct numbered *letters = arg;
    for (unsigned i = 0; i < LETTERS; i++) {
        if (mailbox_send(&shared_box, &letters[i].mail))
            atomic_fetch_add(&bells, 1);
    }
    return NULL;
}

TEST(many_senders_lose_nothing_and_keep_their_order)
{
    mailbox_init(&shared_box);
    pthread_t threads[SENDERS];
    struct numbered *letters[SENDERS];
    for (unsigned s = 0; s < SENDERS; s++) {
        letters[s] = calloc(LETTERS, sizeof(*letters[s]));
        ck_assert(letters[s] != NULL);
        for (unsigned i = 0; i < LETTERS; i++) {
            letters[s][i].mail.deliver = read_letter;
            letters[s][i].sender = s;
            letters[s][i].number = i;
        }
    }
    for (unsigned s = 0; s < SENDERS; s++)
        ck_assert(pthread_create(&threads[s], NULL, send_letters, letters[s]) == 0);
    struct reader reader = {0};
    unsigned full = 0; /* how often the mailbox had letters */
    while (reader.read < SENDERS * LETTERS) {
        struct mail *m = mailbox_take(&shared_box);
        full += m != NULL;
        if (!m)
            (void)sched_yield();
        while (m) {
            struct mail *next = m->next;
            m->deliver(m, &reader);
            m = next;
        }
    }
    for (unsigned s = 0; s < SENDERS; s++)
        ck_assert(pthread_join(threads[s], NULL) == 0);
    ck_assert(mailbox_take(&shared_box) == NULL);
    /* A wake-up was required each time the box changed from empty to not empty, and only then. */
    ck_assert_uint_eq(atomic_load(&bells), full);
    for (unsigned s = 0; s < SENDERS; s++) {
        ck_assert_uint_eq(reader.next[s], LETTERS);
        free(letters[s]);
    }
}

UNIT_MAIN("base/mail")
