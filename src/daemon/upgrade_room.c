/*
 * upgrade_room.c - see upgrade_room.h.
 *
 * The groups of version 2 have one tree, those of version 1 one for memory; a machine may have
 * both. A limit also binds all groups below. In a container the path of a group may be one that is
 * not visible; then the tree begins with the container's own group.
 */
#include "daemon/upgrade_room.h"

#include "base/number.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Larger than each file that is read here. */
#define TEXT_SIZE 16384

/* What files of a kind of control group are named. */
struct kind {
    const char *tree, *limit, *usage;
    const char *cache[2]; /* lines of memory.stat: pages of files */
};

static const struct kind kinds[] = {
    {"", "memory.max", "memory.current", {"inactive_file ", "active_file "}},
    {"/unified", "memory.max", "memory.current", {"inactive_file ", "active_file "}},
    {"/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

/* Reads the file `folder`/`name` as text. Returns false when that fails. */
static bool read_text(const char *folder, const char *name, char text_r[TEXT_SIZE])
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text_r, TEXT_SIZE - 1);
    close(fd);
    text_r[len > 0 ? len : 0] = '\0';
    return len > 0;
}

/* The number at the start of a text; UINT64_MAX when there is none: "max". */
static uint64_t number_at(const char *text)
{
    text += strspn(text, " \t");
    uint64_t value;
    struct bytes digits = {.data = (const uint8_t *)text, .len = strspn(text, "0123456789")};
    return number_parse(digits, UINT64_MAX, &value) ? value : UINT64_MAX;
}

/* The number after `word`, which begins a line; 0: there is none. */
static uint64_t number_after(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, len) == 0)
            return number_at(line + len);
    }
    return 0;
}

static void consider(struct upgrade_room *room, uint64_t left, const char *where)
{
    if (left >= room->left)
        return;
    room->left = left;
    snprintf(room->where, sizeof(room->where), "%s", where);
}

/* Considers the limit of one control group. */
static void look_at_group(const char *folder, const struct kind *kind, struct upgrade_room *room)
{
    char text[TEXT_SIZE];
    uint64_t limit = read_text(folder, kind->limit, text) ? number_at(text) : UINT64_MAX;
    if (limit == UINT64_MAX || !read_text(folder, kind->usage, text))
        return;
    uint64_t used = number_at(text), cached = 0;
    if (read_text(folder, "memory.stat", text)) {
        for (unsigned i = 0; i < ARRAY_SIZE(kind->cache); i++)
            cached += number_after(text, kind->cache[i]);
    }
    used = used > cached ? used - cached : 0;
    consider(room, limit > used ? limit - used : 0, folder);
}

/* Considers a group and all above it. `path`: "/a/b", from the root of the tree. */
static void look_at_groups(const char *cgroups, const struct kind *kind, const char *path,
                           size_t len, struct upgrade_room *room)
{
    char folder[PATH_MAX];
    size_t root = strlen(cgroups) + strlen(kind->tree);
    if (root + len >= sizeof(folder))
        return;
    snprintf(folder, sizeof(folder), "%s%s%.*s", cgroups, kind->tree, (int)len, path);
    for (;;) {
        look_at_group(folder, kind, room);
        char *last = strrchr(folder + root, '/');
        if (!last)
            return;
        *last = '\0';
    }
}

void upgrade_room_find(const char *proc, const char *cgroups, struct upgrade_room *room_r)
{
    char text[TEXT_SIZE];
    *room_r = (struct upgrade_room){.left = UINT64_MAX};
    uint64_t kib = read_text(proc, "meminfo", text) ? number_after(text, "MemAvailable:") : 0;
    if (kib > 0 && kib < UINT64_MAX / 1024)
        consider(room_r, kib * 1024, "");
    if (!read_text(proc, "self/cgroup", text))
        return;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        /* "0::PATH" is of version 2; "NUMBER:memory:PATH" of version 1. */
        bool second = strncmp(line, "0::", 3) == 0;
        const char *controllers = strchr(line, ':');
        const char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || (!second && strncmp(controllers, ":memory:", 8) != 0))
            continue;
        for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++)
            look_at_groups(cgroups, &kinds[i], path + 1, strlen(path + 1), room_r);
    }
}

uint64_t upgrade_room_used(const char *proc)
{
    char text[TEXT_SIZE];
    long page = sysconf(_SC_PAGESIZE);
    if (page <= 0 || !read_text(proc, "self/statm", text))
        return 0;
    /* "size resident shared ...", in pages */
    const char *resident = strchr(text, ' ');
    const char *shared = resident ? strchr(resident + 1, ' ') : NULL;
    if (!shared)
        return 0;
    uint64_t all = number_at(resident), ours = number_at(shared);
    return all > ours && all < UINT64_MAX ? (all - ours) * (uint64_t)page : 0;
}
