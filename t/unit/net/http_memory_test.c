/* Tests of libevent's reserve of memory (net/http_memory.c). */
#include "net/http_memory.h"

#include "t/unit/engine/faults.h"
#include "t/unit/unit.h"

#include <string.h>

static bool always(void)
{
    return true;
}

/*
 * Takes from the reserve alone. The C library fails only during the call, because Check allocates
 * too.
 */
static void *take(size_t size)
{
    fault_dice = always;
    void *at = http_memory_take(size);
    fault_dice = NULL;
    return at;
}

static void *resize(void *at, size_t size)
{
    fault_dice = always;
    void *to = http_memory_resize(at, size);
    fault_dice = NULL;
    return to;
}

TEST(there_is_a_reserve_and_it_comes_back)
{
    static void *pieces[2000];
    size_t count = 0;
    ck_assert(!http_memory_is_short());
    for (void *at; count < ARRAY_SIZE(pieces) && (at = take(600)) != NULL; count++)
        pieces[count] = memset(at, (int)(count % 256), 600);
    ck_assert_uint_eq(count, 1024 + 128); /* the small pieces, then large ones in place of small */
    ck_assert(http_memory_is_short());
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(((unsigned char *)pieces[i])[0], i % 256);
        ck_assert_int_eq(((unsigned char *)pieces[i])[599], i % 256);
        http_memory_give(pieces[i]);
    }
    ck_assert(!http_memory_is_short());
    ck_assert(!take(100000)); /* larger than the largest piece */
    void *again = take(1);
    ck_assert(again != NULL);
    http_memory_give(again);
}

TEST(pieces_move_into_the_reserve_and_out_of_it)
{
    char *at = http_memory_take(100);
    strcpy(at, "what was there");
    at = resize(at, 900);
    ck_assert_str_eq(at, "what was there");
    char *same = resize(at, 1000);
    ck_assert_ptr_eq(same, at);
    at = resize(same, 20000);
    ck_assert(at != same);
    ck_assert_str_eq(at, "what was there");
    ck_assert(!resize(at, 100000)); /* the old block stays */
    at = http_memory_resize(at, 100000);
    ck_assert_str_eq(at, "what was there");
    http_memory_give(at);
    http_memory_give(NULL);
    at = http_memory_resize(NULL, 10);
    ck_assert(at != NULL);
    http_memory_give(at);
    ck_assert(!http_memory_is_short());
}

UNIT_MAIN("net/http_memory")
