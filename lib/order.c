/*
 * order.c - the order in which servers are asked for a name (counter.h).
 */
#include "base/check.h"
#include "lib/counter.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>

#define DIGEST_SIZE 16

struct rank {
    unsigned char digest[DIGEST_SIZE];
    size_t server;
};

/* The order of digests is that of their hexadecimal texts. */
static int compare_ranks(const void *a, const void *b)
{
    const struct rank *one = a, *other = b;
    int order = memcmp(one->digest, other->digest, DIGEST_SIZE);
    return order ? order : (one->server > other->server) - (one->server < other->server);
}

static bool digest(EVP_MD_CTX *context, const EVP_MD *md5, const char *server,
                   struct counter_bytes name, unsigned char *digest_r)
{
    return EVP_DigestInit_ex2(context, md5, NULL) == 1 &&
           EVP_DigestUpdate(context, server, strlen(server)) == 1 &&
           EVP_DigestUpdate(context, name.data, name.len) == 1 &&
           EVP_DigestFinal_ex(context, digest_r, NULL) == 1;
}

/* MD5 orders names here and protects nothing, so it is right where policy forbids it: it may come
   from a library of its own. */
static EVP_MD *fetch_md5(OSSL_LIB_CTX **own_r)
{
    EVP_MD *md5 = EVP_MD_fetch(NULL, "MD5", "-fips");
    *own_r = md5 ? NULL : OSSL_LIB_CTX_new();
    return md5 || !*own_r ? md5 : EVP_MD_fetch(*own_r, "MD5", "-fips");
}

int counter_servers_for(struct counter_bytes name, const char *const *servers, size_t n,
                        size_t *order)
{
    struct rank *ranks = n <= SIZE_MAX / sizeof *ranks ? malloc((n + !n) * sizeof *ranks) : NULL;
    ERR_set_mark();
    OSSL_LIB_CTX *own = NULL;
    EVP_MD *md5 = fetch_md5(&own);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = ranks && md5 && context;
    for (size_t i = 0; done && i < n; i++) {
        ranks[i].server = i;
        done = digest(context, md5, servers[i], name, ranks[i].digest);
    }
    if (done) {
        qsort(ranks, n, sizeof *ranks, compare_ranks);
        for (size_t i = 0; i < n; i++)
            order[i] = ranks[i].server;
    }
    EVP_MD_CTX_free(context);
    EVP_MD_free(md5);
    OSSL_LIB_CTX_free(own);
    ERR_pop_to_mark();
    free(ranks);
    return done ? COUNTER_OK : COUNTER_NO_MEMORY;
}
