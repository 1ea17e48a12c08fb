/* upgrade_room_test.c - the least memory that the machine and the control groups leave. */
#include "daemon/upgrade_room.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[] = "/tmp/upgrade-room-XXXXXX", proc[64], cgroups[64];
static struct upgrade_room room;

static void begin(void)
{
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(proc, sizeof(proc), "%s/proc", folder);
    snprintf(cgroups, sizeof(cgroups), "%s/cgroup", folder);
}

static void finish(void)
{
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert(system(command) == 0);
}

/* Writes a file below the folder, and the folders above it. */
static void write_file(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof(full), "%s/%s", folder, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    ck_assert(file != NULL);
    ck_assert(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void expect(uint64_t left, const char *group)
{
    char where[128] = "";
    upgrade_room_find(proc, cgroups, &room);
    if (group)
        snprintf(where, sizeof(where), "%s%s", cgroups, group);
    ck_assert_uint_eq(room.left, left);
    ck_assert_str_eq(room.where, where);
}

TEST(what_is_not_told_is_not_known)
{
    begin();
    expect(UINT64_MAX, NULL);
    ck_assert_uint_eq(upgrade_room_used(proc), 0);
    write_file("proc/self/cgroup", "0::/a\n");
    write_file("cgroup/a/memory.max", "max\n");
    write_file("cgroup/a/memory.current", "1000\n");
    expect(UINT64_MAX, NULL);
    write_file("proc/meminfo", "MemTotal:  100 kB\nMemAvailable:     64 kB\n");
    expect(65536, NULL);
    finish();
}

TEST(a_limit_binds_the_groups_below)
{
    begin();
    write_file("proc/meminfo", "MemAvailable: 1048576 kB\n");
    write_file("proc/self/cgroup", "0::/a/b\n");
    write_file("cgroup/a/b/memory.max", "9000\n");
    write_file("cgroup/a/b/memory.current", "3000\n");
    expect(6000, "/a/b");
    write_file("cgroup/a/memory.max", "9000\n");
    write_file("cgroup/a/memory.current", "8000\n");
    expect(1000, "/a");
    /* Pages of files are taken back; those of memory files are not among them. */
    write_file("cgroup/a/memory.stat",
               "anon 1\nfile 9999\nshmem 4\ninactive_file 2000\nactive_file 7\n");
    expect(3007, "/a");
    write_file("cgroup/memory.max", "500\n");
    write_file("cgroup/memory.current", "700\n");
    expect(0, "");
    finish();
}

TEST(groups_of_version_1_have_a_tree_for_memory)
{
    begin();
    write_file("proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/a\n0::/\n");
    write_file("cgroup/memory/a/memory.limit_in_bytes", "5000\n");
    write_file("cgroup/memory/a/memory.usage_in_bytes", "4000\n");
    write_file("cgroup/memory/a/memory.stat",
               "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 30\n");
    expect(1230, "/memory/a");
    finish();
}

TEST(a_container_sees_only_its_own_group)
{
    begin();
    write_file("proc/self/cgroup", "0::/docker/0123\n");
    write_file("cgroup/memory.max", "5000\n");
    write_file("cgroup/memory.current", "4000\n");
    expect(1000, "");
    finish();
}

TEST(what_this_process_uses)
{
    long page = sysconf(_SC_PAGESIZE);
    begin();
    write_file("proc/self/statm", "5000 300 100 20 0 400 0\n");
    ck_assert_uint_eq(upgrade_room_used(proc), 200 * (uint64_t)page);
    finish();
    size_t size = 64 << 20;
    uint64_t before = upgrade_room_used(UPGRADE_ROOM_PROC);
    char *memory = malloc(size);
    ck_assert(before > 0 && memory);
    memset(memory, 1, size);
    uint64_t now = upgrade_room_used(UPGRADE_ROOM_PROC);
    ck_assert_int_eq(memory[size / 2], 1);
    ck_assert_uint_ge(now, before + size / 2);
    free(memory);
}

UNIT_MAIN("daemon/upgrade_room")
