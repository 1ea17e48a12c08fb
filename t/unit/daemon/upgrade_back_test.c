/* upgrade_back_test.c - settings go into a state and come back; sockets that were replaced do not.
 */
#include "daemon/upgrade_back.h"
#include "t/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const set[][2] = {
    {"upgrade.timeout", "60"},
    {"log.level", "debug"},
    {"security.sandbox", "true"}, /* the default, but set by name */
    {"access.allow", "127.0.0.0/8, ::1"},
    {"poolcounter.listen", "127.0.0.1"},
    {"admin.token", "secret"},
    {"pool.p.members", "a, b"},
    {"pool.q.members", "c"},
};

static struct record_writer writer;
static struct record_reader state;

static void assign(struct settings *settings, const char *key, const char *value)
{
    char reason[OPTIONS_REASON_SIZE];
    const struct option_row *row = options_to_set(settings, key, reason);
    ck_assert_msg(row && options_assign(settings, row, value, reason), "%s: %s", key, reason);
}

/* Writes the sections of a program that has this descriptor. */
static void save(int fd, const struct settings *settings)
{
    struct upgrade_back back = {.fd = fd, .path = "/usr/sbin/counterd"};
    int file = memfd_create("state", MFD_CLOEXEC);
    record_writer_init(&writer, file);
    upgrade_back_save(&back, settings, &writer);
    ck_assert(record_finish(&writer) && record_map(&state, file));
    close(file);
}

static void restore(struct upgrade_back *back, bool keeps)
{
    struct record_reader section;
    uint32_t kind;
    while (record_enter(&state, &kind, &section))
        ck_assert(upgrade_back_restore(back, keeps, kind, &section));
    ck_assert(record_ok(&state));
}

TEST(settings_come_back)
{
    static struct upgrade_back back;
    struct settings was, is;
    const struct option_row *row;
    ck_assert(settings_init(&was) && settings_init(&is));
    for (size_t i = 0; i < ARRAY_SIZE(set); i++)
        assign(&was, set[i][0], set[i][1]);
    was.file = "/etc/counter.conf";
    save(3, &was);
    restore(&back, false);
    ck_assert_int_eq(back.fd, -1);
    ck_assert_str_eq(back.path, "/usr/sbin/counterd");
    ck_assert(upgrade_back_settings(&back, &is, stderr));
    ck_assert_str_eq(is.file, was.file);
    size_t count = 0;
    for (size_t i = 0; (row = options_in(&was, i)); i++, count++) {
        ck_assert_msg(options_equal(&was, &is, row), "%s", row->key);
        ck_assert_msg(options_mark(&was, row)->named == options_mark(&is, row)->named, "%s",
                      row->key);
    }
    ck_assert(count > 50 && !options_in(&is, count));
    record_unmap(&state);
    settings_free(&was);
    settings_free(&is);
}

TEST(without_a_program_there_is_no_way_back)
{
    static struct upgrade_back back = {.fd = -1};
    struct settings settings;
    ck_assert(settings_init(&settings));
    save(-1, &settings);
    ck_assert(!record_left(&state));
    save(1000000, &settings); /* not open */
    restore(&back, true);
    ck_assert_int_eq(back.fd, -1);
    record_unmap(&state);
    settings_free(&settings);
}

TEST(only_sockets_from_before_are_kept)
{
    static struct upgrade_back back;
    static struct inherited inherited;
    static const struct activation none;
    for (size_t i = 0; i < 3; i++) {
        inherited.at[i].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_ge(inherited.at[i].fd, 0);
    }
    inherited.count = 3;
    upgrade_back_note(&back, &inherited, &none);
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(dup3(other, inherited.at[1].fd, O_CLOEXEC) == inherited.at[1].fd);
    close(inherited.at[2].fd);
    upgrade_back_keep(&back);
    ck_assert_int_eq(fcntl(inherited.at[0].fd, F_GETFD), 0);
    ck_assert_int_eq(fcntl(inherited.at[1].fd, F_GETFD), FD_CLOEXEC);
    close(inherited.at[0].fd);
    close(inherited.at[1].fd);
    close(other);
}

TEST(more_sockets_than_a_service_manager_gives_are_refused)
{
    static struct inherited inherited;
    static struct activation activation;
    int file = memfd_create("state", MFD_CLOEXEC);
    record_writer_init(&writer, file);
    record_put_u32(&writer, 0);
    record_put_u32(&writer, ACTIVATION_MAX + 1);
    ck_assert(record_finish(&writer) && record_map(&state, file));
    inherited_restore(&inherited, &activation, false, &state);
    ck_assert_str_eq(state.why, "there are too many sockets from the service manager");
    record_unmap(&state);
    close(file);
}

UNIT_MAIN("daemon/upgrade_back")
