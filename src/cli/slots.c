/*
 * slots.c - places where processes run (slots.h).
 */
#include "cli/slots.h"

#include "cli/print.h"
#include "cli/reaper.h"
#include "cli/signals.h"

#include <stdlib.h>

static struct slot *slot_at(const struct slots *all, size_t index)
{
    return (struct slot *)((char *)all->slots + index * all->kind->size);
}

void slot_over(struct slot *slot)
{
    struct slots *all = slot->all;
    if (slot->is_over)
        return;
    slot->is_over = true;
    all->kind->forget(slot);
    timer_clear(slot->loop, &slot->pause);
    client_close(&slot->client);
    if (++all->over == all->count)
        loop_end(slot->loop, all->status);
}

void slots_end(struct slots *all, int status, bool at_once)
{
    if (!all->is_ending)
        all->status = status;
    all->is_ending = true;
    for (size_t i = 0; i < all->count; i++)
        if (!slot_at(all, i)->is_over)
            all->kind->stop(slot_at(all, i), at_once);
}

void slot_pause(struct slot *slot)
{
    timer_set(slot->loop, &slot->pause, clock_mono_ns() + pause_longer(&slot->pause_ns));
}

bool slot_trouble(struct slot *slot, struct text *what, enum status status, bool is_final)
{
    struct slots *all = slot->all;
    is_final |= slot->options->once;
    if (!is_final)
        text_addf(what, "; trying again");
    if (!all->is_ending)
        complain_once(&all->said, what);
    text_free(what);
    if (is_final)
        slots_end(all, (int)status, false);
    if (!all->is_ending)
        slot_pause(slot);
    return !all->is_ending;
}

bool slot_refused(struct slot *slot, const char *what, const struct answer *answer, bool is_final)
{
    struct text said = {0};
    text_addf(&said, "%s: %s answers: ", what, slot->client.where);
    answer_explain(&said, answer);
    return slot_trouble(slot, &said, answer_status(answer), is_final);
}

/* Begins to connect. Prints what is wrong with the command line. */
static enum status connect_slot(struct slot *slot)
{
    const struct slots_kind *kind = slot->all->kind;
    return client_begin(&slot->client, kind->protocol, slot->loop, slot->options, kind->on_up,
                        kind->on_lost, slot);
}

static void on_pause_over(void *owner)
{
    struct slot *slot = owner;
    enum status status = STATUS_OK;
    if (slot->client.state == CLIENT_UP)
        slot->all->kind->on_again(slot);
    else if (slot->client.state == CLIENT_CLOSED)
        status = connect_slot(slot);
    if (status != STATUS_OK)
        slots_end(slot->all, (int)status, false);
}

static void on_signal(void *owner, const struct signalfd_siginfo *taken)
{
    struct slots *all = owner;
    int number = (int)taken->ssi_signo;
    if (number == SIGTSTP)
        signals_stop();
    else if (number != SIGCONT &&
             (all->kind->heeds_user_signals || (number != SIGUSR1 && number != SIGUSR2)))
        slots_end(all, STATUS_SIGNAL + number, all->is_ending || reaper_is_gone());
}

int slots_run(struct slots *all)
{
    struct loop *loop = &all->invocation->loop;
    enum status status = STATUS_OK;
    all->slots = allocate(all->count * all->kind->size);
    for (size_t i = 0; i < all->count; i++) {
        struct slot *slot = slot_at(all, i);
        *slot = (struct slot){.all = all,
                              .loop = loop,
                              .options = &all->invocation->options,
                              .command = all->invocation->execute[0],
                              .pause = {.on_due = on_pause_over, .owner = slot},
                              .child = {.on_end = all->kind->on_end,
                                        .owner = slot,
                                        .death_signal = SIGKILL,
                                        .is_apart = true}};
        if (status == STATUS_OK)
            status = connect_slot(slot);
    }
    signals_handle(on_signal, all);
    int result = status == STATUS_OK ? loop_run(loop) : (int)status;
    for (size_t i = 0; i < all->count; i++) {
        all->kind->forget(slot_at(all, i));
        client_close(&slot_at(all, i)->client);
    }
    free(all->slots);
    text_free(&all->said);
    return result;
}
