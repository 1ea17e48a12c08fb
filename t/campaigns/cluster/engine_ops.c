/* engine_ops.c - what a batch of the engine in memory does: the ops of `call` and `give`. */
#include "t/campaigns/cluster/engine_inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct op {
    struct fe_run *run;
    struct fe_session *session;
    size_t at; /* its first argument after the word */
    int name;
    bool call;
    bool wrong; /* its queue is another program's, and the script has looked */
    int *seen;  /* such names that this script has looked at, by their slots */
};

struct op_row {
    char word;
    size_t args; /* with the name, without the word */
    bool call, give, opening_only;
    const char *numbers; /* of each argument after the name: '0' any number, '1' at least 1 */
    void (*run)(struct op *op);
};

static uint64_t number_at(const struct op *op, size_t n)
{
    uint64_t value = 0;
    fe_number(&op->run->args[op->at + n], &value);
    return value;
}

static struct fe_bytes *out_of(const struct op *op)
{
    return op->run->out;
}

/* Splits a class with a maxqueue, as "ms1/5/10". Returns false when it is none. */
static bool split_class(const struct fe_run *run, const struct fe_text *arg, int *text_r,
                        struct fe_class *class_r, uint64_t *most_r)
{
    char *slash = memrchr(arg->bytes, '/', arg->len);
    if (!slash)
        return false;
    size_t len = (size_t)(slash - arg->bytes);
    const struct fe_text most = {.bytes = slash + 1, .len = arg->len - len - 1};
    *text_r = fe_text(run->engine->texts, arg->bytes, len);
    return fe_class_of(run->engine, *text_r, class_r) && fe_number(&most, most_r);
}

static void say_wrong(struct op *op)
{
    for (size_t n = 0; n < FE_WRONG; n++)
        if (op->run->engine->data.wrong[n] == op->name)
            op->seen[n] = op->name;
    fe_say_error(out_of(op), "WRONGTYPE it is no queue");
}

/* name class/maxqueue id */
static void op_acquire(struct op *op)
{
    struct fake_engine *engine = op->run->engine;
    int text = FE_NONE;
    struct fe_class class = {0};
    uint64_t id = number_at(op, 2), maxqueue = 0;
    /* wrong_with has found that it is one */
    (void)split_class(op->run, &op->run->args[op->at + 1], &text, &class, &maxqueue);
    if (op->wrong) {
        fe_add_more(engine, op->name);
        say_wrong(op);
        return;
    }
    bool unseen = fe_is_wrong(engine, op->name); /* the script looks when it must queue */
    bool finished = unseen || fe_hand_over(op->run, op->name);
    uint64_t used = fe_units(engine, FE_NONE, op->name);
    if (maxqueue > 0 && used + fe_waits(engine, FE_NONE, op->name) >= maxqueue) {
        fe_say_integer(out_of(op), -1);
        return;
    }
    if (finished && used + class.units <= class.limit && !(class.strict && engine->data.grace)) {
        fe_add_units(engine, op->session->id, op->name, class.units);
        fe_say_integer(out_of(op), 1);
        return;
    }
    if (class.kind == 'n') {
        fe_say_integer(out_of(op), 0);
        return;
    }
    if (unseen) {
        say_wrong(op);
        return;
    }
    bool has;
    size_t pairs = fe_pairs(engine, op->name, op->session->id, text, &has);
    if (!has && pairs >= FE_PAIRS) {
        fe_say_integer(out_of(op), -1);
        return;
    }
    uint64_t seq = ++engine->data.seq;
    fe_add_wait(engine, (struct fe_wait){op->session->id, op->name, text, seq, id});
    fe_say_integer(out_of(op), (int64_t)seq);
}

/* name units */
static void release(struct op *op, bool explicit)
{
    struct fake_engine *engine = op->run->engine;
    uint64_t units = number_at(op, 1);
    if (units > fe_units(engine, op->session->id, op->name)) {
        fe_say_integer(out_of(op), -2);
        return;
    }
    fe_drop_units(engine, op->session->id, op->name, units);
    if (op->wrong) {
        fe_add_more(engine, op->name);
        say_wrong(op);
        return;
    }
    if (explicit)
        fe_done(op->run, op->name);
    if (fe_is_wrong(engine, op->name)) {
        fe_say_integer(out_of(op), 1);
        return;
    }
    fe_say_integer(out_of(op), fe_hand_over(op->run, op->name) ? 1 : 2);
}

static void op_release(struct op *op)
{
    release(op, true);
}

static void op_give_back(struct op *op)
{
    release(op, false);
}

/* The wait of a session with this name, class and id, or NULL. */
static struct fe_wait *wait_of(struct fake_engine *engine, int session, int name, int class,
                               uint64_t id)
{
    for (size_t n = 0; n < engine->data.wait_count; n++) {
        struct fe_wait *wait = &engine->data.waits[n];
        if (wait->session == session && wait->name == name && wait->class == class &&
            wait->id == id)
            return wait;
    }
    return NULL;
}

static void drop_wait(struct fake_engine *engine, struct fe_wait *wait)
{
    struct fe_data *data = &engine->data;
    data->wait_count--;
    memmove(wait, wait + 1, (size_t)(data->waits + data->wait_count - wait) * sizeof(*wait));
}

/* name class id */
static void op_cancel(struct op *op)
{
    struct fake_engine *engine = op->run->engine;
    struct fe_wait *wait =
        wait_of(engine, op->session->id, op->name, fe_arg(op->run, op->at + 1), number_at(op, 2));
    if (wait)
        drop_wait(engine, wait);
    fe_say_integer(out_of(op), wait != NULL);
}

/* name */
static void op_get(struct op *op)
{
    const struct fake_engine *engine = op->run->engine;
    fe_say_array(out_of(op), 2);
    fe_say_integer(out_of(op), (int64_t)fe_units(engine, FE_NONE, op->name));
    fe_say_integer(out_of(op), (int64_t)fe_waits(engine, FE_NONE, op->name));
}

/* Units and waits of a name in all sessions of a node. */
static void of_node(struct fake_engine *engine, int node, int name, uint64_t *units,
                    uint64_t *waits)
{
    *units = *waits = 0;
    for (size_t n = 0; n < engine->data.session_count; n++) {
        const struct fe_session *session = &engine->data.sessions[n];
        if (session->node == node) {
            *units += fe_units(engine, session->id, name);
            *waits += fe_waits(engine, session->id, name);
        }
    }
}

/* name */
static void op_holders(struct op *op)
{
    struct fake_engine *engine = op->run->engine;
    struct fe_bytes rows = {0};
    size_t count = 0;
    for (size_t n = 0; n < engine->data.session_count; n++) {
        int node = engine->data.sessions[n].node;
        size_t earlier = 0;
        while (earlier < n && engine->data.sessions[earlier].node != node)
            earlier++;
        uint64_t units, waits;
        of_node(engine, node, op->name, &units, &waits);
        if (earlier < n || units + waits == 0)
            continue;
        fe_say_text(&rows, fe_text_of(engine, node));
        fe_say_integer(&rows, (int64_t)units);
        fe_say_integer(&rows, (int64_t)waits);
        count++;
    }
    fe_say_array(out_of(op), 3 * count);
    fe_put(out_of(op), rows.at, rows.len);
    free(rows.at);
}

/* name */
static void op_turn(struct op *op)
{
    bool finished = fe_hand_over(op->run, op->name);
    if (fe_is_wrong(op->run->engine, op->name)) {
        say_wrong(op);
        return;
    }
    if (finished)
        fe_drop_more(op->run->engine, op->name);
    fe_say_integer(out_of(op), finished ? 1 : 2);
}

/* True for the ended sessions of the op's node. */
static bool is_earlier(struct op *op, int session)
{
    const struct fe_session *other = fe_session(op->run->engine, session);
    return other && other->node == op->session->node && other->life == FE_ENDED;
}

/* name units */
static void op_assert_units(struct op *op)
{
    struct fake_engine *engine = op->run->engine;
    uint64_t units = number_at(op, 1), left = units;
    for (size_t n = 0; n < engine->data.session_count && left > 0; n++) {
        int other = engine->data.sessions[n].id;
        if (!is_earlier(op, other))
            continue;
        uint64_t has = fe_units(engine, other, op->name);
        uint64_t moved = has < left ? has : left;
        if (moved > 0)
            fe_drop_units(engine, other, op->name, moved);
        left -= moved;
    }
    fe_add_units(engine, op->session->id, op->name, units);
    fe_say_integer(out_of(op), 1);
}

/* name class id seq */
static void op_assert_wait(struct op *op)
{
    struct fake_engine *engine = op->run->engine;
    int class = fe_arg(op->run, op->at + 1);
    uint64_t id = number_at(op, 2);
    if (fe_is_wrong(engine, op->name)) {
        say_wrong(op);
        return;
    }
    if (wait_of(engine, op->session->id, op->name, class, id))
        fe_misused(op->run, "a wait is asserted twice");
    for (size_t n = 0; n < engine->data.session_count; n++) {
        int other = engine->data.sessions[n].id;
        if (!is_earlier(op, other))
            continue;
        struct fe_wait *wait = wait_of(engine, other, op->name, class, id);
        if (wait)
            drop_wait(engine, wait);
    }
    fe_add_wait(engine, (struct fe_wait){op->session->id, op->name, class, number_at(op, 3), id});
    fe_say_integer(out_of(op), 1);
}

/* 'k': a class with a maxqueue, 'c': one that waits, '0': a number, '1': a number that is not 0 */
static const struct op_row rows[] = {
    {'a', 3, true, false, false, "k0", op_acquire},
    {'r', 2, true, true, false, "1", op_release},
    {'b', 2, true, true, false, "1", op_give_back},
    {'c', 3, true, true, false, "c0", op_cancel},
    {'g', 1, true, true, false, "", op_get},
    {'h', 1, true, true, false, "", op_holders},
    {'t', 1, true, true, false, "", op_turn},
    {'s', 2, false, true, true, "1", op_assert_units},
    {'w', 4, false, true, true, "c01", op_assert_wait},
};

static const struct op_row no_row = {0};

static const struct op_row *row_of(const struct fe_text *word)
{
    for (size_t n = 0; word->len == 1 && n < sizeof(rows) / sizeof(rows[0]); n++) {
        if (rows[n].word == word->bytes[0])
            return &rows[n];
    }
    return &no_row;
}

/* NULL, or what is wrong with the arguments of an op. */
static const char *wrong_with(struct fe_run *run, const struct op_row *row, size_t at, bool call,
                              bool opening)
{
    if (row == &no_row)
        return "no such op";
    if (at + row->args > run->arg_count)
        return "an op lacks arguments";
    if (call ? !row->call : !row->give)
        return "an op is in the wrong script";
    if (row->opening_only && !opening)
        return "a live session asserts";
    if (run->args[at].len == 0)
        return "a name is empty";
    for (size_t n = 0; row->numbers[n]; n++) {
        const struct fe_text *arg = &run->args[at + 1 + n];
        struct fe_class class;
        uint64_t value;
        int text;
        switch (row->numbers[n]) {
        case 'k':
            if (!split_class(run, arg, &text, &class, &value) || class.units == 0)
                return "a class is none";
            break;
        case 'c':
            text = fe_text(run->engine->texts, arg->bytes, arg->len);
            if (!fe_class_of(run->engine, text, &class) || class.kind == 'n' || class.units == 0)
                return "a class is none, or does not wait";
            break;
        default:
            if (!fe_number(arg, &value) || (row->numbers[n] == '1' && value == 0))
                return "a number is none";
        }
    }
    return NULL;
}

/* Scripts ask for the queues of names only if they are few, or somebody waits. */
static bool looks_for_waits(struct fe_run *run)
{
    const struct fe_data *data = &run->engine->data;
    size_t names = 0;
    for (size_t at = 1; at < run->arg_count; at += 1 + row_of(&run->args[at])->args) {
        size_t before = 1;
        while (before < at && fe_arg(run, before + 1) != fe_arg(run, at + 1))
            before += 1 + row_of(&run->args[before])->args;
        names += before == at;
    }
    return names < 2 * data->session_count || data->wait_count > 0;
}

void fe_run_ops(struct fe_run *run, bool call)
{
    struct fe_session *session = fe_asking(run, call);
    if (!session)
        return;
    size_t count = 0;
    const struct op_row *row;
    for (size_t at = 1; at < run->arg_count; at += 1 + row->args, count++) {
        row = row_of(&run->args[at]);
        const char *wrong = wrong_with(run, row, at + 1, call, session->life == FE_OPENING);
        if (wrong) {
            fe_misused(run, wrong);
            fe_say_error(run->out, "ERR wrong op");
            return;
        }
    }
    if (session->life == FE_OPENING)
        session->beat++;
    bool looks = looks_for_waits(run);
    int seen[FE_WRONG] = {0};
    fe_say_array(run->out, count);
    for (size_t at = 1; at < run->arg_count; at += 1 + row->args) {
        row = row_of(&run->args[at]);
        struct op op = {run, session, at + 1, fe_arg(run, at + 1), call, false, seen};
        for (size_t n = 0; n < FE_WRONG; n++)
            op.wrong = op.wrong ||
                       (run->engine->data.wrong[n] == op.name && (looks || seen[n] == op.name));
        if (op.wrong && (row->word == 'c' || row->word == 'g' || row->word == 'h'))
            say_wrong(&op);
        else
            row->run(&op);
    }
    run->engine->counts.ops += count;
}
