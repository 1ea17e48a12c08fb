/* calls.c - the calls that take a lock, units or members, and those about tubes and jobs that
 * nobody has to give back. */
#include "lib/args.h"
#include "lib/hold.h"

#include "proto/counter.h"
#include "proto/pools.h"

#include <stdio.h>
#include <stdlib.h>

/* Adds a number to the results. */
static int add_number(struct counter_op *op, uint64_t number)
{
    op_add_row(op)->number = number; /* the first one needs no memory */
    return COUNTER_OK;
}

/* ---- Locks ----------------------------------------------------------------------------------- */

static int take_lock(struct counter_op *op, const struct answer *answer);

static const struct call lock_call =
    CALL(TEXT, OP_AGAIN | OP_TELLS_MS | OP_ACQUIRES, SAYS_ANY | SAYS_TIMEOUT | SAYS_LOCK_HELD,
         take_lock, .good = {{"LOCKED", 1}});

static const struct call shared_lock_call =
    CALL(TEXT, OP_AGAIN | OP_TELLS_MS | OP_ACQUIRES, SAYS_ANY | SAYS_TIMEOUT | SAYS_LOCK_HELD,
         take_lock, .good = {{"LOCKED", 1}, {"DONE", 1}});

static int take_lock(struct counter_op *op, const struct answer *answer)
{
    const char *name = strchr(op->text.data + op->target_len, ' ') + 1;
    size_t len = (size_t)(strchr(name, ' ') - name);
    int status = hold_grant(op, &release_lock, bytes_at(name, len));
    if (status != COUNTER_OK)
        return status;
    op->hold->is_shared = op->call == &shared_lock_call;
    op->hold->is_done = bytes_equal(answer->words[0], bytes_of("DONE"));
    if (op->hold->is_done)
        op->keep = NULL;
    return COUNTER_OK;
}

static struct counter_op *bad_name(struct counter_op *op)
{
    return op_usage(op, "a name has 1 to 4,096 bytes without CR, LF, NUL; a space counts as 3");
}

counter_op *counter_lock(counter_client *client, struct counter_bytes name,
                         const struct counter_lock_args *args)
{
    struct counter_lock_args all = COUNTER_LOCK_ARGS;
    struct counter_op *op = op_new(client, &lock_call, name);
    if (!op || !ARGS_TAKE(op, all, args) || !op_seconds(op, args->timeout, &op->timeout_ns))
        return op;
    uint64_t queue = args->queue > 0 ? args->queue : (uint64_t)args->workers + 100;
    if (args->workers < 1 || queue > UINT32_MAX)
        return op_usage(op, "workers and queue: 1 to 4,294,967,295 are allowed");
    op->call = args->shared ? &shared_lock_call : &lock_call;
    text_add(&op->text, args->shared ? "ACQ4ANY " : "ACQ4ME ", args->shared ? 8 : 7);
    if (!hold_add_name(&op->text, name))
        return bad_name(op);
    text_addf(&op->text, " %u %u ", args->workers, (unsigned)queue);
    op->time_at = op->text.len;
    text_add(&op->text, "\n", 1);
    return op_ready(op);
}

/* ---- Units ----------------------------------------------------------------------------------- */

/* The number in an answer, which has 4 bytes. */
static bool read_units(const struct answer *answer, uint32_t *units_r)
{
    if (answer->body.len != 4)
        return false;
    *units_r = wire_load_u32(answer->body.data);
    return true;
}

static int take_units(struct counter_op *op, const struct answer *answer)
{
    uint32_t units;
    if (!read_units(answer, &units) || units != op->count)
        return op_malformed(op, answer->body);
    size_t before = op->target_len + CTR_HEADER + 10; /* of the name in the request */
    int status =
        hold_grant(op, &release_units, bytes_at(op->text.data + before, op->text_len - before));
    if (status == COUNTER_OK)
        op->hold->count = units;
    return status;
}

static int take_usage(struct counter_op *op, const struct answer *answer)
{
    uint32_t units = 0;
    if (answer->code == 0 && !read_units(answer, &units))
        return op_malformed(op, answer->body);
    return add_number(op, units);
}

static const struct call units_call =
    CALL(BINARY, OP_AGAIN | OP_ACQUIRES, 0, take_units, .known = {0});

static const struct call usage_call =
    CALL(BINARY, OP_AGAIN, 0, take_usage, .known = {CTR_STATUS_NOT_FOUND});

/* Composes a binary request, with the name as it is sent. */
static struct counter_op *add_binary(struct counter_op *op, struct ctr_request *request,
                                     struct counter_bytes name)
{
    struct text sent = {0};
    uint8_t bytes[CTR_HEADER + 10 + 4096];
    if (!hold_add_name(&sent, name)) {
        bad_name(op);
    } else {
        request->name = text_bytes(&sent);
        op->opcode = request->opcode;
        op->text.failed |= sent.failed;
        text_add(&op->text, bytes, ctr_compose_request(request, bytes, sizeof(bytes)));
    }
    text_free(&sent);
    return op_ready(op);
}

counter_op *counter_units(counter_client *client, struct counter_bytes name,
                          const struct counter_units_args *args)
{
    struct counter_units_args all = COUNTER_UNITS_ARGS;
    struct counter_op *op = op_new(client, &units_call, name);
    if (!op || !ARGS_TAKE(op, all, args))
        return op;
    if (args->count < 1 || args->count > args->limit)
        return op_usage(op, "count: 1 to the limit is allowed");
    op->count = args->count;
    struct ctr_request request = {
        .opcode = CTR_ACQUIRE, .opaque = OP_OPAQUE, .units = args->count, .maximum = args->limit};
    return add_binary(op, &request, name);
}

counter_op *counter_usage(counter_client *client, struct counter_bytes name)
{
    struct counter_op *op = op_new(client, &usage_call, name);
    struct ctr_request request = {.opcode = CTR_GET, .opaque = OP_OPAQUE};
    return op ? add_binary(op, &request, name) : NULL;
}

/* ---- Members --------------------------------------------------------------------------------- */

/* Reads a line of TAKEN, which was checked. Returns the place behind its attributes. */
static struct counter_pair *read_member(struct bytes line, struct counter_member *member,
                                        struct counter_pair *pair)
{
    (void)answer_word(&line, ' ');
    struct bytes pool = answer_word(&line, ' '), name = answer_word(&line, ' ');
    *member = (struct counter_member){.size = sizeof(*member),
                                      .pool = {pool.data, pool.len},
                                      .name = {name.data, name.len},
                                      .attrs = pair};
    (void)answer_number(answer_word(&line, ' '), 0, ANSWER_NUMBER_MAX, &member->fence);
    struct bytes value = answer_word(&line, ' ');
    if (!bytes_equal(value, bytes_of("-")))
        member->value = counter_bytes_at(value.data, value.len);
    while (line.len > 0) {
        struct bytes word = answer_word(&line, ' ');
        if (!memchr(word.data, '=', word.len))
            continue;
        struct bytes key = answer_word(&word, '=');
        *pair++ = (struct counter_pair){{key.data, key.len}, {word.data, word.len}};
        member->attr_count++;
    }
    return pair;
}

/* All have come: their lines are in op->found. */
static int grant_members(struct counter_op *op)
{
    struct bytes lines = text_bytes(&op->found);
    size_t pairs = 0;
    for (size_t i = 0; i < lines.len; i++)
        pairs += lines.data[i] == '=';
    int status = hold_grant(op, &release_members, bytes_at(NULL, 0));
    if (status != COUNTER_OK)
        return status;
    struct counter_hold *hold = op->hold;
    hold->members = malloc(op->count * sizeof(*hold->members) +
                           pairs * sizeof(struct counter_pair) + lines.len);
    if (!hold->members)
        return op_no_memory(op);
    struct counter_pair *pair = (struct counter_pair *)(void *)(hold->members + op->count);
    uint8_t *texts = (uint8_t *)(pair + pairs);
    memcpy(texts, lines.data, lines.len);
    lines.data = texts;
    for (; hold->member_count < op->count; hold->member_count++)
        pair = read_member(answer_word(&lines, '\n'), &hold->members[hold->member_count], pair);
    return COUNTER_OK;
}

static int take_member(struct counter_op *op, const struct answer *answer)
{
    const struct bytes *words = answer->words;
    uint64_t fence;
    struct bytes first = text_bytes(&op->found);
    struct bytes asked = bytes_at(op->text.data + op->target_len + strlen("TAKE "), op->asked_len);
    bool is_known = asked.data[0] == '@';
    while (!is_known && asked.len > 0)
        is_known = bytes_equal(answer_word(&asked, ','), words[1]);
    (void)answer_word(&first, ' ');
    if (op->taken > 1)
        is_known = bytes_equal(answer_word(&first, ' '), words[1]);
    if (!is_known || words[2].len == 0 || words[4].len == 0 ||
        !answer_number(words[3], 0, ANSWER_NUMBER_MAX, &fence))
        return op_malformed(op, answer->line);
    text_add(&op->found, answer->line.data, answer->line.len);
    text_add(&op->found, "\n", 1);
    op->refusals = 0; /* within what was granted, nothing can be refused */
    if (op->found.failed)
        return op_no_memory(op);
    return op->taken < op->count ? COUNTER_AGAIN : grant_members(op);
}

static const struct call member_call =
    CALL(TEXT, OP_AGAIN | OP_TELLS_MS | OP_ACQUIRES, SAYS_ANY | SAYS_TIMEOUT, take_member,
         .good = {{"TAKEN", 5}});

/* Writes what is taken, of which pools, for what. Returns false when it can't be said. */
static bool fill_take(struct pool_request *request, struct bytes target,
                      const struct counter_member_args *args)
{
    size_t purpose = 0;
    while (purpose < POOL_TAKE_FOR_COUNT &&
           !bytes_equal(args_bytes(args->purpose), bytes_of(pool_take_for_words[purpose])))
        purpose++;
    request->verb = POOL_VERB_TAKE;
    request->take_for = (enum pool_take_for)purpose;
    request->count = args->count;
    request->member = args_bytes(args->name);
    request->by = args_bytes(args->by);
    if (target.len > 0 && target.data[0] == '@')
        request->group = bytes_at(target.data + 1, target.len - 1);
    else if (target.len == 0 || target.data[target.len - 1] == ',')
        return false;
    while (request->group.len == 0 && target.len > 0 && request->target_count < POOLS_TARGETS_MAX)
        request->targets[request->target_count++] = answer_word(&target, ',');
    if ((args->name.data && args->name.len == 0) || (args->by.data && args->by.len == 0) ||
        purpose == POOL_TAKE_FOR_COUNT || args->attr_count > POOLS_WITH_MAX ||
        (request->group.len == 0 && target.len > 0))
        return false;
    for (; request->pair_count < args->attr_count; request->pair_count++) {
        const struct counter_pair *pair = &args->attrs[request->pair_count];
        request->pairs[request->pair_count] =
            (struct pool_pair){args_bytes(pair->key), args_bytes(pair->value)};
    }
    return true;
}

counter_op *counter_member(counter_client *client, struct counter_bytes target,
                           const struct counter_member_args *args)
{
    struct bytes whole = args_bytes(target), rest = whole;
    bool is_group = rest.len > 0 && rest.data[0] == '@' && bytes_take(&rest, 1);
    struct bytes pool = is_group ? rest : answer_word(&rest, ',');
    struct pool_request request = {0};
    uint8_t line[POOLS_REQUEST_ROOM];
    struct counter_member_args all = COUNTER_MEMBER_ARGS;
    struct counter_op *op = op_new(client, &member_call, counter_bytes_at(pool.data, pool.len));
    if (!op || !ARGS_TAKE(op, all, args) || !op_seconds(op, args->timeout, &op->timeout_ns))
        return op;
    size_t len =
        fill_take(&request, whole, args) ? pool_compose_request(&request, line, sizeof(line)) : 0;
    if (len == 0)
        return op_usage(op, "a target is a pool, up to 16 different ones with commas between, or "
                            "@GROUP; count: 1 to 64; name: of one pool; attrs: up to 8 words; "
                            "purpose: use, clean, check; by: a word");
    if ((is_group || pool.len < whole.len) &&
        settings_servers(client->settings, COUNTER_TEXT, NULL) > 1)
        return op_usage(op, "with several servers, a target is one pool");
    op->count = args->count;
    op->asked_len = whole.len;
    size_t before = strlen("TAKE ") + whole.len;
    text_add(&op->text, line, before);
    text_add(&op->text, " ", 1);
    op->time_at = op->text.len;
    text_add(&op->text, line + before, len - before);
    return op_ready(op);
}

/* ---- Tubes ----------------------------------------------------------------------------------- */

/* The entries of a dictionary. Those of `ready` are numbers, no more than asked for. */
static int take_dictionary(struct counter_op *op, const struct answer *answer)
{
    struct entry entry;
    if (op->count > 0 && bytes_equal(answer->words[0], bytes_of("TIMED_OUT")))
        return COUNTER_OK;
    text_add(&op->found, answer->body.data, answer->body.len);
    if (op->found.failed)
        return op_no_memory(op);
    struct bytes rest = text_bytes(&op->found);
    if (!answer_start(&rest))
        return op_malformed(op, answer->body);
    while (answer_entry(&rest, &entry)) {
        if (!entry.key.data || (op->count > 0 && (!entry.is_number || op->row_count == op->count)))
            return op_malformed(op, answer->body);
        struct counter_row *row = op_add_row(op);
        if (!row)
            return op_no_memory(op);
        *row = (struct counter_row){.key = {entry.key.data, entry.key.len},
                                    .value = {entry.value.data, entry.value.len},
                                    .number = entry.is_number ? entry.number : 0,
                                    .is_number = entry.is_number};
    }
    return rest.len == 0 ? COUNTER_OK : op_malformed(op, rest);
}

static const struct call tube_call =
    CALL(JOBS, OP_AGAIN, SAYS_ANY | SAYS_NOT_FOUND, take_dictionary, .good = {{"OK", 2}});

static const struct call set_tube_call =
    CALL(JOBS, 0, SAYS_ANY, take_dictionary, .good = {{"OK", 2}});

static bool all_are(struct bytes text, const char *bytes)
{
    size_t i = 0;
    while (i < text.len && text.data[i] != '\0' && strchr(bytes, text.data[i]))
        i++;
    return i == text.len;
}

#define SMALL "abcdefghijklmnopqrstuvwxyz"

static bool add_setting(struct text *text, const struct counter_pair *setting, bool is_reason)
{
    struct bytes key = args_bytes(setting->key), value = args_bytes(setting->value);
    bool is_good = key.len > 0 && key.data[0] != '_' && key.data[0] != '-' &&
                   all_are(key, SMALL "_-") && value.len <= BS_REASON_MAX;
    if (is_reason) { /* any text, but quotes and backslashes */
        for (size_t i = 0; i < value.len; i++)
            is_good &= value.data[i] >= ' ' && value.data[i] <= '~' && value.data[i] != '"' &&
                       value.data[i] != '\\';
    } else {
        is_good &= value.len > 0 && all_are(value, SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    }
    text_add(text, " ", 1);
    for (size_t i = 0; is_good && i < key.len; i++)
        text_add(text, key.data[i] == '_' ? "-" : (const char *)&key.data[i], 1);
    text_add(text, "=", 1);
    text_add(text, value.data, value.len);
    return is_good;
}

counter_op *counter_tube(counter_client *client, struct counter_bytes tube,
                         const struct counter_pair *settings, size_t count)
{
    struct counter_op *op = op_new(client, count > 0 ? &set_tube_call : &tube_call, tube);
    if (!op || !args_is_tube(op, tube))
        return op;
    text_addf(&op->text, "tube %.*s", (int)tube.len, (const char *)tube.data);
    for (int last = 0; last <= 1; last++) { /* the reason is the rest of the line */
        for (size_t i = 0; i < count; i++) {
            struct bytes key = args_bytes(settings[i].key);
            bool is_reason =
                bytes_equal(key, bytes_of("read_only")) || bytes_equal(key, bytes_of("read-only"));
            if (is_reason == last && !add_setting(&op->text, &settings[i], is_reason))
                return op_usage(op, "a setting is a word of a-z_ and a word; the reason of "
                                    "read_only is text of up to 200 bytes, without quotes");
        }
    }
    text_add(&op->text, "\r\n", 2);
    return op_ready(op);
}

static const struct call ready_call = CALL(JOBS, OP_AGAIN | OP_TELLS_S, SAYS_ANY, take_dictionary,
                                           .good = {{"OK", 2}, {"TIMED_OUT", 1}});

counter_op *counter_ready(counter_client *client, struct counter_bytes pattern,
                          const struct counter_ready_args *args)
{
    struct counter_ready_args all = COUNTER_READY_ARGS;
    struct counter_op *op = op_new(client, &ready_call, pattern);
    if (!op || !ARGS_TAKE(op, all, args) || !op_seconds(op, args->timeout, &op->timeout_ns))
        return op;
    struct bytes name = args_bytes(pattern);
    bool is_prefix = name.len > 0 && name.data[name.len - 1] == '*';
    name.len -= is_prefix;
    if ((!is_prefix || name.len > 0) && !(name.len > 0 && bs_is_tube_name(name)))
        return op_usage(op, "a pattern is a tube, or the beginning of tubes and '*'");
    if (args->limit < 1 || args->limit > BS_COUNT_MAX)
        return op_usage(op, "limit: 1 to 1,000 tubes can be asked for at once");
    if (args->after.len > 0 && !args_is_tube(op, args->after))
        return op;
    op->count = args->limit;
    text_add(&op->text, "ready ", 6);
    op->time_at = op->text.len;
    text_addf(&op->text, " %u %.*s%s%.*s\r\n", args->limit, (int)pattern.len,
              (const char *)pattern.data, args->after.len > 0 ? " " : "", (int)args->after.len,
              args->after.len > 0 ? (const char *)args->after.data : "");
    return op_ready(op);
}

/* ---- Jobs that nobody has to give back ------------------------------------------------------- */

static bool list_begin(struct counter_op *op)
{
    op->text.len = op->target_len;
    text_addf(&op->text, "list-jobs %.*s %s %llu 100\r\n", (int)op->target_len, op->text.data,
              op->word, (unsigned long long)op->after);
    return op_ready(op)->state != OP_ENDED;
}

static int take_listed(struct counter_op *op, const struct answer *answer)
{
    static const struct good found[] = {{"FOUND", 5}, {"UNREADABLE", 4}, {NULL, 0}};
    const struct bytes *words = answer->words;
    if (op->taken == 1) {
        if (!answer_number(words[1], 0, 100, &op->announced) ||
            !answer_number(words[2], 0, ANSWER_NUMBER_MAX, &op->following) ||
            (op->following > 0 && op->following <= op->after))
            return op_malformed(op, answer->line);
        op->good = found;
        op->refusals = 0;
    } else {
        uint64_t id, tries;
        bool has_body = bytes_equal(words[0], bytes_of("FOUND"));
        if (!answer_number(words[1], 1, ANSWER_NUMBER_MAX, &id) ||
            !answer_number(words[3 + has_body], 0, UINT32_MAX, &tries))
            return op_malformed(op, answer->line);
        struct counter_row *row = op_add_row(op);
        text_add(&op->found, answer->body.data, answer->body.len);
        if (!row || op->found.failed)
            return op_no_memory(op);
        row->id = id;
        row->tries = (uint32_t)tries;
        row->value = counter_bytes_at(has_body ? "" : NULL, answer->body.len);
        enum bs_state state = bs_find_state(words[2 + has_body]);
        row->state = state == BS_STATE_NONE ? "unknown" : bs_state_words[state];
    }
    const char *body = text_str(&op->found); /* it is where it stays once all have come */
    for (size_t i = 0; op->taken > op->announced && i < op->row_count; i++) {
        if (op->rows[i].value.data)
            op->rows[i].value.data = body;
        body += op->rows[i].value.len;
    }
    return op->taken <= op->announced ? COUNTER_AGAIN : COUNTER_OK;
}

static const struct call list_call = CALL(JOBS, OP_AGAIN, SAYS_ANY | SAYS_NOT_FOUND, take_listed,
                                          .good = {{"LISTED", 3}}, .begin = list_begin);

counter_op *counter_list_jobs(counter_client *client, struct counter_bytes tube, const char *state)
{
    struct counter_op *op = op_new(client, &list_call, tube);
    if (!op || !args_is_tube(op, tube) || !args_find_state(op, state))
        return op;
    return op_ready(op);
}

static int take_cleared(struct counter_op *op, const struct answer *answer)
{
    uint64_t number;
    if (!answer_number(answer->words[1], 0, ANSWER_NUMBER_MAX, &number))
        return op_malformed(op, answer->line);
    return add_number(op, number);
}

static const struct call clear_call = CALL(JOBS, 0, SAYS_ANY | SAYS_NOT_FOUND | SAYS_READ_ONLY,
                                           take_cleared, .good = {{"CLEARED", 2}});

counter_op *counter_clear(counter_client *client, struct counter_bytes tube, const char *state)
{
    struct counter_op *op = op_new(client, &clear_call, tube);
    if (!op || !args_is_tube(op, tube) || !args_find_state(op, state))
        return op;
    text_addf(&op->text, "clear %.*s %s\r\n", (int)tube.len, (const char *)tube.data, op->word);
    return op_ready(op);
}

static int take_nothing(struct counter_op *op, const struct answer *answer)
{
    (void)op;
    (void)answer;
    return COUNTER_OK;
}

static const struct call delete_call = CALL(JOBS, OP_AGAIN | OP_SILENT, SAYS_ANY | SAYS_NOT_FOUND,
                                            take_nothing, .good = {{"DELETED", 1}});

static const struct call kick_call =
    CALL(JOBS, 0, SAYS_ANY | SAYS_NOT_FOUND, take_nothing, .good = {{"KICKED", 1}});

static struct counter_op *about_job(counter_client *client, const struct call *call,
                                    const char *verb, uint64_t id)
{
    char target[24];
    (void)snprintf(target, sizeof(target), "%llu", (unsigned long long)id);
    struct counter_op *op = op_new(client, call, counter_str(target));
    if (!op)
        return NULL;
    if (id < 1 || id > ANSWER_NUMBER_MAX)
        return op_usage(op, "id: 1 to 9,223,372,036,854,775,807 are allowed");
    text_addf(&op->text, "%s %s\r\n", verb, target);
    return op_ready(op);
}

counter_op *counter_delete(counter_client *client, uint64_t id)
{
    return about_job(client, &delete_call, "delete", id);
}

counter_op *counter_kick(counter_client *client, uint64_t id)
{
    return about_job(client, &kick_call, "kick-job", id);
}
