/* credentials.c - see credentials.h. */
#include "daemon/credentials.h"

#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Reads the first `size` bytes of a regular file. Returns how many were read, or -1 with errno,
 * which is 0 for a special file. */
static ssize_t read_beginning(const char *path, char *to, size_t size)
{
    int fd = file_open_regular(path);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, to, size);
    int error = errno;
    close(fd);
    errno = error;
    return got;
}

/* Makes the digest of the token in the first line of a file, without trailing blanks. */
static bool take_token(const char *path, const char *text, size_t size, char *digest_r, FILE *err)
{
    size_t len = 0;
    while (len < size && text[len] != '\n' && text[len] != '\r')
        len++;
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    if (!options_is_token(text, len)) {
        options_complain(err,
                         "admin.token_file: %s: its first line is not 1 to %d printable ASCII "
                         "characters without blanks",
                         path, OPTIONS_TOKEN_MAX);
        return false;
    }
    if (!token_digest(text, len, digest_r)) {
        options_complain(err, "admin.token_file: no memory");
        return false;
    }
    return true;
}

static bool read_token_file(const char *path, char *digest_r, FILE *err)
{
    char text[OPTIONS_TOKEN_MAX + 8];
    ssize_t got = read_beginning(path, text, sizeof text);
    if (got < 0) {
        options_complain(err, "admin.token_file: %s: can't be read: %s", path,
                         file_open_reason(errno));
        return false;
    }
    bool good = take_token(path, text, (size_t)got, digest_r, err);
    explicit_bzero(text, sizeof text);
    return good;
}

static bool load_token(const struct settings *settings, char *digest_r, FILE *err)
{
    if (settings->admin_token_file)
        return read_token_file(settings->admin_token_file, digest_r, err);
    snprintf(digest_r, TOKEN_DIGEST_SIZE, "%s", settings->admin_token ? settings->admin_token : "");
    return true;
}

bool credentials_load(const struct settings *settings, struct credentials *credentials_r, FILE *err)
{
    char reason[TLS_REASON_SIZE];
    *credentials_r = (struct credentials){.tls = NULL};
    bool good = load_token(settings, credentials_r->token, err);
    if (settings->tls_cert) {
        const struct tls_config config = {
            .cert = settings->tls_cert,
            .key = settings->tls_key,
            .ca = settings->tls_ca,
            .verify_client = settings->tls_verify_client,
            .min_version = settings->tls_min_version,
        };
        credentials_r->tls = tls_new(&config, reason);
        if (!credentials_r->tls) {
            options_complain(err, "tls: %s", reason);
            good = false;
        }
    }
    if (!good)
        credentials_free(credentials_r);
    return good;
}

void credentials_free(struct credentials *credentials)
{
    tls_free(&credentials->tls);
    explicit_bzero(credentials->token, sizeof credentials->token);
}

/* --- Warnings -------------------------------------------------------------------------------- */

void credentials_warn(const struct settings *settings)
{
    if (settings->tls_key)
        file_warn_of_others("tls.key", settings->tls_key, FILE_FORBID_OTHERS);
    else
        file_warn_of_others("tls.cert, which also has the key", settings->tls_cert,
                            FILE_FORBID_OTHERS);
    file_warn_of_others("admin.token_file", settings->admin_token_file, FILE_FORBID_OTHERS);
    if (settings->file_secret)
        file_warn_of_others(settings->file_secret, settings->file,
                            "give it the group of counterd and chmod 640");
}
