/*
 * tls_test.c - what libcounter leaves alone when it uses OpenSSL: its error queue, and SIGPIPE. The
 * server is in the same thread, with a certificate of its own.
 */
#include "t/unit/lib/peer.h"
#include "t/unit/unit.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>

static struct peer peer; /* of which only the listener of text is used */
static char folder[] = "/tmp/tls_test.XXXXXX", ca_path[64], key_path[64], url[512];
static SSL_CTX *context;
static SSL *server;
static int server_fd = -1;
static bool is_garbage; /* the server is none of TLS */

static void make_context(const char *valid_for)
{
    char command[512];
    snprintf(command, sizeof(command),
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
             "-subj /CN=test -addext subjectAltName=%s -keyout %s -out %s 2>/dev/null",
             valid_for, key_path, ca_path);
    ck_assert_int_eq(system(command), 0);
    context = SSL_CTX_new(TLS_server_method());
    ck_assert(SSL_CTX_use_certificate_file(context, ca_path, SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_use_PrivateKey_file(context, key_path, SSL_FILETYPE_PEM) == 1);
}

static counter_client *start(const char *valid_for)
{
    unsigned port;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(ca_path, sizeof(ca_path), "%s/ca.pem", folder);
    snprintf(key_path, sizeof(key_path), "%s/key.pem", folder);
    make_context(valid_for);
    peer_open(&peer, "");
    ck_assert(sscanf(peer.url, "counter://127.0.0.1:%u?", &port) == 1);
    snprintf(url, sizeof(url),
             "counter://127.0.0.1:%u?tls=1&tls_ca=%s&connect_timeout=60&io_timeout=60", port,
             ca_path);
    struct counter_error error = COUNTER_ERROR;
    counter_client *client = counter_open(url, &error);
    ck_assert_msg(client, "%s", error.reason);
    return client;
}

static void end_server(bool with_reset)
{
    struct linger now = {.l_onoff = 1};
    if (with_reset)
        setsockopt(server_fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    SSL_free(server);
    close(server_fd);
    server = NULL;
    server_fd = -1;
}

static void finish(counter_client *client)
{
    counter_close(client);
    if (server)
        end_server(false);
    SSL_CTX_free(context);
    peer_close(&peer);
    unlink(ca_path);
    unlink(key_path);
    rmdir(folder);
}

static void *take_turn(void *arg)
{
    char in[1024];
    int got;
    if (server_fd < 0) {
        server_fd = accept4(peer.listeners[COUNTER_TEXT], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (server_fd >= 0) {
            server = SSL_new(context);
            SSL_set_fd(server, server_fd);
            SSL_set_accept_state(server);
        }
    } else if (is_garbage) {
        peer_must(write(server_fd, "no TLS here\n", 12) == 12, "write");
        end_server(false);
    } else if ((got = SSL_read(server, in, sizeof(in))) > 0) {
        const char *answer = in[0] == 'A' ? "LOCKED\n" : "RELEASED\n";
        SSL_write(server, answer, (int)strlen(answer));
    }
    return arg;
}

/* The server's turn: in a thread, for that has an error queue of its own. */
static void turn(void)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, take_turn, NULL), 0);
    pthread_join(thread, NULL);
}

static int run(counter_op *op)
{
    int status;
    time_t until = time(NULL) + PEER_DEADLINE_S;
    while ((status = counter_step(op)) == COUNTER_AGAIN) {
        turn();
        struct pollfd fd = {.fd = counter_fd(op), .events = counter_events(op)};
        poll(&fd, 1, 1);
        if (time(NULL) > until)
            ck_abort_msg("an operation does not end");
    }
    return status;
}

/* ---- the error queue --------------------------------------------------------------------- */

static void raise_error(void)
{
    ERR_clear_error();
    ERR_raise(ERR_LIB_USER, 42);
}

static void check_error(void)
{
    ck_assert_int_eq(ERR_GET_REASON(ERR_get_error()), 42);
    ck_assert_uint_eq(ERR_peek_error(), 0);
    raise_error();
}

TEST(the_error_queue_is_as_it_was)
{
    counter_client *client = start("IP:127.0.0.1");
    struct counter_error error = COUNTER_ERROR;
    raise_error();
    counter_op *op = counter_lock(client, counter_str("k"), NULL);
    ck_assert_msg(run(op) == COUNTER_OK, "%s", counter_op_error(op)->reason);
    counter_hold *hold = counter_take_hold(op);
    counter_op_free(op);
    check_error();
    ck_assert_int_eq(counter_hold_check(hold), COUNTER_OK);
    op = counter_release(hold, true);
    ck_assert_int_eq(run(op), COUNTER_OK);
    counter_op_free(op);
    check_error();
    end_server(true); /* the idle connection has ended when it is looked at */
    is_garbage = true;
    op = counter_lock(client, counter_str("k"), NULL);
    ck_assert_int_eq(run(op), COUNTER_UNREACHABLE);
    ck_assert_uint_gt(strlen(counter_op_error(op)->reason), 0);
    counter_op_free(op);
    check_error();
    ck_assert_ptr_null(counter_open("counter://h?tls=1&tls_ca=/no/such/file", &error));
    ck_assert_int_eq(error.status, COUNTER_USAGE);
    check_error();
    snprintf(url, sizeof(url), "counter://h?tls=1&tls_ca=%s&tls_cert=%s&tls_key=%s", ca_path,
             ca_path, ca_path); /* no key is in that file */
    ck_assert_ptr_null(counter_open(url, &error));
    check_error();
    const char *servers[2] = {"a", "b"};
    size_t order[2];
    ck_assert_int_eq(counter_servers_for(counter_str("k"), servers, 2, order), COUNTER_OK);
    check_error();
    finish(client);
    check_error();
    ERR_clear_error();
}
END_TEST

TEST(a_wrong_name_is_unreachable_and_leaves_no_error)
{
    counter_client *client = start("IP:127.0.0.2,DNS:localhost");
    raise_error();
    counter_op *op = counter_lock(client, counter_str("k"), NULL);
    ck_assert_int_eq(run(op), COUNTER_UNREACHABLE);
    ck_assert(!counter_op_error(op)->sent);
    counter_op_free(op);
    finish(client);
    check_error();
    ERR_clear_error();
}
END_TEST

/* ---- SIGPIPE ----------------------------------------------------------------------------- */

TEST(writes_over_tls_raise_no_signal)
{
    signal(SIGPIPE, SIG_DFL);
    counter_client *client = start("IP:127.0.0.1");
    counter_link *link = counter_link_open(client, COUNTER_TEXT, 0);
    int status;
    while ((status = counter_link_step(link)) == COUNTER_AGAIN)
        turn();
    end_server(true);
    for (int i = 0; i < 1000 && status <= COUNTER_AGAIN; i++) {
        (void)counter_link_say(link, "ACQ4ME k 1 9 0\n", 15);
        status = counter_link_step(link);
    }
    ck_assert_int_eq(status, COUNTER_UNANSWERED);
    counter_link_finish(link); /* says goodbye to nobody */
    counter_link_free(link);
    finish(client);
}
END_TEST

UNIT_MAIN("libcounter over TLS")
