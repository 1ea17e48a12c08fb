/* locks.c - the model of what text clients have (see locks.h). */
#include "t/models/locks.h"

#include <string.h>

enum pc_reply model_lock(struct model *m, struct model_client *c, const struct model_acquire *a)
{
    if (c->lock_count >= MODEL_LOCKS)
        return PC_REPLY_LOCK_HELD;
    if (c->wait.state != WAIT_NONE)
        return PC_REPLY_WAIT_FOR_RESPONSE;
    switch (model_acquire(m, &c->holder, a, &c->wait)) {
    case TABLE_OK:
        c->locks[c->lock_count++] = (uint8_t)a->name;
        return PC_REPLY_LOCKED;
    case TABLE_FULL:
        return PC_REPLY_QUEUE_FULL;
    case TABLE_BUSY:
        return PC_REPLY_TIMEOUT;
    case TABLE_NO_MEMORY:
        return PC_REPLY_OUT_OF_MEMORY;
    default:
        return PC_REPLY_COUNT;
    }
}

/* Releases the newest lock, or the newest one of a name. Returns false if there is none. */
static bool unlock_newest(struct model *m, struct model_client *c, unsigned name)
{
    for (unsigned i = c->lock_count; i > 0; i--) {
        unsigned of = c->locks[i - 1];
        if (name != MODEL_NEWEST && of != name)
            continue;
        c->lock_count--;
        memmove(&c->locks[i - 1], &c->locks[i], c->lock_count - i + 1);
        model_give_back(m, &c->holder, of, 1, false);
        return true;
    }
    return false;
}

struct model_words model_unlock_name(struct model *m, struct model_client *c, unsigned name)
{
    struct model_words words = {0};
    bool released = name != MODEL_NEWEST && unlock_newest(m, c, name);
    bool waits = c->wait.state != WAIT_NONE && (name == MODEL_NEWEST || name == c->wait.name);
    if (!released && waits && c->wait.state == WAIT_WAITING) {
        model_cancel(m, &c->wait);
        released = true;
    } else if (!released && waits) {
        words.word[words.count++] = model_note_word(m, c);
    }
    if (!released)
        released = unlock_newest(m, c, name);
    words.word[words.count++] = released ? PC_REPLY_RELEASED : PC_REPLY_NOT_LOCKED;
    return words;
}

enum pc_reply model_note_word(struct model *m, struct model_client *c)
{
    if (!model_note(m, &c->wait))
        return PC_REPLY_DONE;
    c->locks[c->lock_count++] = (uint8_t)c->wait.name;
    return PC_REPLY_LOCKED;
}

/* Ends the wait; units of a grant that was not told stay. */
static void end_wait(struct model *m, struct model_client *c)
{
    if (c->wait.state == WAIT_WAITING)
        model_cancel(m, &c->wait);
    else if (c->wait.state != WAIT_NONE)
        (void)model_note(m, &c->wait);
}

void model_client_close(struct model *m, struct model_client *c)
{
    end_wait(m, c);
    c->lock_count = 0;
    model_close(m, &c->holder);
}

void model_quit(struct model *m, struct model_client *c)
{
    end_wait(m, c);
    while (unlock_newest(m, c, MODEL_NEWEST))
        continue;
}
