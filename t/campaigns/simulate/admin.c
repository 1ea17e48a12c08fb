/*
 * admin.c - the admin interface while memory fails. Each allocation of its thread during a script
 * of requests fails once, also those of libevent and jansson.
 *
 *     admin [--every N] [--first N] [--fail-at K]
 *
 * Each run is a process: a whole daemon without its main, some requests, and its end. The server
 * must answer each request, report that it has no memory, or close the connection; no client may
 * wait for ever. Afterwards it must answer all requests again, and have freed all memory.
 */
#include "t/campaigns/simulate/unchecked.h"

#include "t/unit/admin/fixture.h"

#include <event2/event.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- memory ---------------------------------------------------------------------------------- */

static pthread_t main_thread;
static _Atomic bool failing;
static _Atomic uint64_t pieces;
static uint64_t fail_at;

/*
 * Covers libevent's allocations too, which go through net/http_memory.c. Refuses only those of the
 * admin thread; it is the only other thread that runs while memory fails.
 */
static bool refuse_piece(void)
{
    char name[16] = "";
    if (!atomic_load_explicit(&failing, memory_order_relaxed) ||
        pthread_equal(pthread_self(), main_thread) ||
        pthread_getname_np(pthread_self(), name, sizeof(name)) != 0 ||
        strncmp(name, "admin", 5) != 0)
        return false;
    return atomic_fetch_add(&pieces, 1) + 1 == fail_at;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);

void *__wrap_malloc(size_t size)
{
    return refuse_piece() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuse_piece() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *at, size_t size)
{
    return refuse_piece() ? NULL : __real_realloc(at, size);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Several requests on one connection. The last one asks for its close. */
static const char script[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
                             "GET /api/v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n";
static const char *const requests[] = {
    script,
    "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "GET /api/v1/names HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "GET /api/v1/connections HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\n" BEARER
    "Content-Length: 0\r\nConnection: close\r\n\r\n",
    "nonsense\r\n\r\n",
};

/* Sends a request. Reads until the end, or until nothing has arrived for a while. */
static void say(const char *request)
{
    char bytes[65536];
    int fd = http_connect(where);
    (void)try_send(fd, request, strlen(request));
    (void)shutdown(fd, SHUT_WR);
    while (receive_some(fd, bytes, sizeof(bytes)) > 0)
        continue;
    close(fd);
}

/* One run. Exits with 0 on success. */
static _Noreturn void run(uint64_t *pieces_r)
{
    main_thread = pthread_self();
    begin(1, TOKEN);
    int holder = text_connect();
    text_say(holder, "ACQ4ME key 1 1 0", "LOCKED");
    atomic_store(&failing, true);
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
        say(requests[i]);
    atomic_store(&failing, false);
    for (int tries = 0;; tries++) { /* it may have paused accepting for a moment */
        struct http_reply r = http_ask(where, "GET", "/metrics", "");
        int status = r.status;
        reply_free(&r);
        if (status == 200)
            break;
        CHECK(tries < 3000);
        rest_ms(10);
    }
    text_say(holder, "RELEASE key", "RELEASED");
    close(holder);
    finish();
    libevent_global_shutdown();
    *pieces_r = pieces;
    exit(0);
}

/* Returns the number of allocations. A run that fails ends the program. */
static uint64_t run_apart(uint64_t with_fail_at, uint64_t *shared)
{
    fail_at = with_fail_at;
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        run(shared);
    int status;
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("FAILED: --fail-at %llu: %s %d\n", (unsigned long long)with_fail_at,
               WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        exit(1);
    }
    return *shared;
}

int main(int argc, char **argv)
{
    uint64_t every = 1, first = 1, only = 0, runs = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t number = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--every") == 0 && number > 0)
            every = number;
        else if (strcmp(argv[i], "--first") == 0 && number > 0)
            first = number;
        else if (strcmp(argv[i], "--fail-at") == 0 && number > 0)
            only = number;
        else
            return 2;
    }
    uint64_t *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    json_set_alloc_funcs(__wrap_malloc, free);
    log_set_level(LOG_LEVEL_ERROR);
    uint64_t all = run_apart(0, shared);
    for (uint64_t k = only ? only : first; k <= (only ? only : all); k += every, runs++)
        (void)run_apart(k, shared);
    printf("admin: %llu runs; one in %llu of %llu pieces of memory refused\n",
           (unsigned long long)runs, (unsigned long long)every, (unsigned long long)all);
    return 0;
}
