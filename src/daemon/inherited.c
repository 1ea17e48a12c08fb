/* inherited.c - see inherited.h. */
#include "daemon/inherited.h"

#include "base/log.h"
#include "base/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Finding --------------------------------------------------------------------------------- */

/* True unless the socket's file is gone or replaced. */
static bool has_file(const struct inherited_socket *sock)
{
    struct stat st;
    return !sock->own_file ||
           (lstat(sock->asked, &st) == 0 && st.st_dev == sock->device && st.st_ino == sock->inode);
}

struct inherited_socket *inherited_find(struct inherited *inherited, const char *owner, bool tls,
                                        const char *asked)
{
    for (size_t i = 0; i < inherited->count; i++) {
        struct inherited_socket *sock = &inherited->at[i];
        if (sock->fd >= 0 && sock->tls == tls && strcmp(sock->owner, owner) == 0 &&
            strcmp(sock->asked, asked) == 0 && has_file(sock))
            return sock;
    }
    return NULL;
}

void inherited_want(struct inherited *inherited, const char *owner, bool tls, const char *asked)
{
    struct inherited_socket *sock = inherited_find(inherited, owner, tls, asked);
    if (sock)
        sock->wanted = true;
}

/* --- Closing --------------------------------------------------------------------------------- */

static void close_socket(struct inherited_socket *sock, bool unlink_file)
{
    if (sock->fd < 0)
        return;
    if (unlink_file && sock->own_file && has_file(sock))
        (void)unlink(sock->asked);
    close(sock->fd);
    sock->fd = -1;
}

void inherited_close_unwanted(struct inherited *inherited)
{
    if (inherited->dry_run)
        return;
    for (size_t i = 0; i < inherited->count; i++) {
        struct inherited_socket *sock = &inherited->at[i];
        if (sock->wanted || sock->fd < 0)
            continue;
        log_info("%s: not listening on %s any more", sock->owner, sock->asked);
        close_socket(sock, true);
    }
}

void inherited_close(struct inherited *inherited)
{
    for (size_t i = 0; i < inherited->count; i++)
        close_socket(&inherited->at[i], !inherited->dry_run);
    inherited->count = 0;
}

bool inherited_blocks(const struct inherited *inherited, uint16_t port)
{
    struct listener found;
    uint16_t used;
    for (size_t i = 0; inherited->dry_run && i < inherited->count; i++) {
        const struct inherited_socket *sock = &inherited->at[i];
        if (!sock->wanted && sock->fd >= 0 && listener_find(&found, sock->fd, &used) &&
            used == port && port)
            return true;
    }
    return false;
}

bool inherited_take(struct inherited_socket *sock, struct listener *listener_r,
                    struct protocol *protocol)
{
    if (!listener_adopt(listener_r, protocol, sock->fd, sock->tls)) {
        log_error("%s: can't listen on %s any more: %s", sock->owner, sock->asked,
                  strerrordesc_np(errno));
        close_socket(sock, false);
        return false;
    }
    snprintf(listener_r->asked, sizeof(listener_r->asked), "%s", sock->asked);
    listener_r->inherited = true;
    listener_r->own_file = sock->own_file;
    listener_r->device = sock->device;
    listener_r->inode = sock->inode;
    sock->fd = -1;
    return true;
}

/* --- Records --------------------------------------------------------------------------------- */

void inherited_add(struct inherited *inherited, const char *owner, const struct listener *listener)
{
    CHECK(inherited->count < INHERITED_MAX);
    struct inherited_socket *sock = &inherited->at[inherited->count++];
    *sock = (struct inherited_socket){
        .fd = listener->fd,
        .tls = listener->tls,
        .own_file = listener->own_file,
        .device = listener->device,
        .inode = listener->inode,
    };
    snprintf(sock->owner, sizeof(sock->owner), "%s", owner);
    snprintf(sock->asked, sizeof(sock->asked), "%s", listener->asked);
}

/* Reads a descriptor and makes it close-on-exec. Returns -1 when it is not open. With `again` that
 * is no error: the new program has closed it, before the old one goes on again. */
static int get_descriptor(struct record_reader *r, bool again)
{
    int fd = (int)record_get_u32(r);
    if (!record_ok(r) || fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
        return fd;
    if (!again)
        record_refuse(r, "a listening socket's descriptor is not open");
    return -1;
}

void inherited_save(const struct inherited *inherited, const struct activation *activation,
                    struct record_writer *w)
{
    record_put_u32(w, (uint32_t)inherited->count);
    for (size_t i = 0; i < inherited->count; i++) {
        const struct inherited_socket *sock = &inherited->at[i];
        record_put_u32(w, (uint32_t)sock->fd);
        record_put_text(w, sock->owner);
        record_put_text(w, sock->asked);
        record_put_u8(w, sock->tls);
        record_put_u8(w, sock->own_file);
        record_put_u64(w, sock->device);
        record_put_u64(w, sock->inode);
    }
    record_put_u32(w, (uint32_t)activation->count);
    for (size_t i = 0; i < activation->count; i++) {
        record_put_u32(w, (uint32_t)activation->at[i].used_fd);
        record_put_u32(w, (uint32_t)activation->at[i].number);
        record_put_text(w, activation->at[i].name);
    }
}

void inherited_restore(struct inherited *inherited_r, struct activation *activation_r, bool again,
                       struct record_reader *r)
{
    uint32_t count = record_get_u32(r);
    if (count > INHERITED_MAX)
        record_refuse(r, "there are too many listening sockets");
    for (uint32_t i = 0; i < count && record_ok(r); i++) {
        struct inherited_socket *sock = &inherited_r->at[inherited_r->count];
        *sock = (struct inherited_socket){.fd = get_descriptor(r, again)};
        record_get_text(r, sock->owner, sizeof(sock->owner), "a name is too long");
        record_get_text(r, sock->asked, sizeof(sock->asked), "a name is too long");
        sock->tls = record_get_bool(r);
        sock->own_file = record_get_bool(r);
        sock->device = record_get_u64(r);
        sock->inode = record_get_u64(r);
        inherited_r->count++;
    }
    count = record_get_u32(r);
    if (count > ACTIVATION_MAX)
        record_refuse(r, "there are too many sockets from the service manager");
    for (uint32_t i = 0; i < count && record_ok(r); i++) {
        struct activation_socket *sock = &activation_r->at[activation_r->count];
        *sock = (struct activation_socket){.fd = get_descriptor(r, again)};
        sock->used_fd = sock->fd;
        sock->number = (int)record_get_u32(r);
        record_get_text(r, sock->name, sizeof(sock->name), "a name is too long");
        activation_r->count += sock->fd >= 0;
    }
}
