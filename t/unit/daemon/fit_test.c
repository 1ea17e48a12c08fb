/*
 * fit_test.c - checks that options fit together: each check has its one message, and good options
 * have none.
 */
#include "daemon/options.h"
#include "t/unit/unit.h"

#include <stdarg.h>
#include <string.h>

/* --- Frame ----------------------------------------------------------------------------------- */

/*
 * The complaints of options_fit about defaults with `assignments` ("key=value", NULL at the end).
 */
static const char *complaint(const char *const *assignments)
{
    static char text[4096];
    char reason[OPTIONS_REASON_SIZE] = "";
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (; *assignments; assignments++) {
        char key[64];
        const char *equals = strchr(*assignments, '=');
        snprintf(key, sizeof key, "%.*s", (int)(equals - *assignments), *assignments);
        ck_assert_ptr_nonnull(options_find(key));
        ck_assert_msg(options_assign(&settings, options_find(key), equals + 1, reason), "%s",
                      reason);
    }
    char *said = NULL;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    bool good = options_fit(&settings, err);
    fclose(err);
    ck_assert_msg(good == (*said == '\0'), "good: %d; said: %s", good, said);
    snprintf(text, sizeof text, "%s", said);
    free(said);
    settings_free(&settings);
    return text;
}

#define SAYS(said, ...) ck_assert_str_eq(complaint((const char *const[]){__VA_ARGS__, NULL}), said)
#define FITS(...)       SAYS("", __VA_ARGS__)
#define LINE(text)      "counterd: " text "\n"

/* --- What is served -------------------------------------------------------------------------- */

TEST(the_defaults_fit)
{
    FITS("counter.enable=true");
    FITS("counter.enable=false");
}
END_TEST

TEST(something_is_served)
{
    SAYS(LINE("nothing to serve: set poolcounter.enable or counter.enable or jobs.enable to true"),
         "poolcounter.enable=false");
    FITS("poolcounter.enable=false", "counter.enable=true");
}
END_TEST

TEST(what_is_not_plain_is_served_otherwise)
{
    SAYS(LINE("poolcounter.plain is false, and nothing else serves it; set poolcounter.tls_port or "
              "poolcounter.socket"),
         "poolcounter.plain=false");
    SAYS(LINE("counter.plain is false, and nothing else serves it; set counter.tls_port or "
              "counter.socket"),
         "counter.enable=true", "counter.plain=false");
    FITS("poolcounter.plain=false", "poolcounter.socket=/run/x");
    FITS("poolcounter.plain=false", "poolcounter.tls_port=7533", "tls.cert=/x");
    FITS("counter.plain=false"); /* the protocol is off */
}
END_TEST

/* --- TLS and names --------------------------------------------------------------------------- */

TEST(tls_needs_its_files)
{
    SAYS(LINE("poolcounter.tls_port is 7533, and there is no certificate; set tls.cert"),
         "poolcounter.tls_port=7533");
    SAYS(LINE("counter.tls_port is 1, and there is no certificate; set tls.cert"),
         "counter.enable=true", "counter.tls_port=1");
    FITS("counter.tls_port=1"); /* it is not served */
    SAYS(LINE("tls.key is set, but tls.cert is not; set tls.cert, too"), "tls.key=/x");
    SAYS(LINE("tls.verify_client is require, and there is nothing to verify with; set tls.ca"),
         "tls.cert=/x", "tls.verify_client=require");
    SAYS(LINE("tls.verify_client is optional, and there is nothing to verify with; set tls.ca"),
         "tls.cert=/x", "tls.verify_client=optional");
    FITS("tls.cert=/x", "tls.ca=/x", "tls.key=/x", "tls.verify_client=require");
    FITS("tls.cert=/x", "tls.ca=/x");
}
END_TEST

TEST(names_of_hosts_are_names)
{
    static const char wrong[] =
        LINE("admin.hosts: not a list of host names without ports, separated by commas, and not *; "
             "the limit is 1023 bytes");
    FITS("admin.hosts=counter.example.org, locks");
    FITS("admin.hosts=*");
    SAYS(wrong, "admin.hosts=counter.example.org:7532");
    SAYS(wrong, "admin.hosts=*.example.org");
}
END_TEST

/* --- Listeners in each other's way ----------------------------------------------------------- */

TEST(two_ports_on_one_address_are_told)
{
    SAYS(LINE("poolcounter.port and counter.port are both 7000, on 127.0.0.1; set another for one "
              "of them"),
         "counter.enable=true", "counter.port=7000", "poolcounter.port=7000");
    SAYS(LINE("poolcounter.port and admin.port are both 7532, on 127.0.0.1; set another for one of "
              "them"),
         "poolcounter.port=7532");
    SAYS(LINE("poolcounter.port and poolcounter.tls_port are both 7531, on 127.0.0.1; set another "
              "for one of them"),
         "poolcounter.tls_port=7531", "tls.cert=/x");
    SAYS(
        LINE("poolcounter.port and counter.tls_port are both 7531, on 0.0.0.0; set another for one "
             "of them"),
        "counter.enable=true", "counter.tls_port=7531", "tls.cert=/x",
        "poolcounter.listen=0.0.0.0");
    SAYS(LINE("poolcounter.port and counter.port are both 7531, on ::1; set another for one of "
              "them"),
         "counter.enable=true", "counter.port=7531",
         "counter.listen=127.0.0.2 ::", "poolcounter.listen=::1");
}
END_TEST

TEST(ports_that_do_not_meet_fit)
{
    FITS("counter.enable=true", "counter.port=0", "poolcounter.port=0");
    FITS("counter.enable=true", "counter.port=7531", "counter.listen=127.0.0.2");
    FITS("counter.enable=true", "counter.port=7531",
         "counter.listen=::", "poolcounter.listen=0.0.0.0");
    FITS("counter.port=7531"); /* the protocol is off */
    FITS("counter.enable=true", "counter.port=7531", "counter.plain=false", "counter.socket=/x");
    FITS("admin.port=0", "poolcounter.port=0");
    FITS("poolcounter.port=7532", "admin.listen=127.0.0.9");
}
END_TEST

TEST(everywhere_and_somewhere_are_told)
{
    SAYS(LINE("poolcounter.listen: 0.0.0.0 is every address and includes 127.0.0.1; remove one"),
         "poolcounter.listen=127.0.0.1 0.0.0.0");
    SAYS(LINE("admin.listen: :: is every address and includes ::1; remove one"),
         "admin.listen=:: ::1");
    /* Reported once, although two ports share the list. */
    SAYS(LINE("poolcounter.listen: :: is every address and includes ::1; remove one"),
         "poolcounter.listen=:: ::1", "poolcounter.tls_port=1", "tls.cert=/x");
    FITS("poolcounter.listen=0.0.0.0 ::");
    FITS("poolcounter.listen=0.0.0.0 ::1");
}
END_TEST

TEST(unix_sockets_have_their_own_paths)
{
    static char longest[17 + 19 + 107], longer[sizeof longest + 1];
    snprintf(longest, sizeof longest, "poolcounter.socket=%0107d", 1);
    snprintf(longer, sizeof longer, "poolcounter.socket=%0108d", 1);
    FITS(longest);
    SAYS(LINE("poolcounter.socket: the path has 108 bytes; the limit is 107"), longer);
    SAYS(LINE("counter.socket: an abstract socket needs a name after the @"), "counter.enable=true",
         "counter.socket=@");
    SAYS(LINE("poolcounter.socket and counter.socket are both /run/x; set another for one of them"),
         "counter.enable=true", "counter.socket=/run/x", "poolcounter.socket=/run/x");
    FITS("counter.socket=/run/x", "poolcounter.socket=/run/x"); /* one of the protocols is off */
    FITS("counter.enable=true", "counter.socket=@x", "poolcounter.socket=x");
}
END_TEST

TEST(all_mistakes_are_said)
{
    SAYS(LINE("poolcounter.tls_port is 7532, and there is no certificate; set tls.cert")
             LINE("tls.verify_client is require, and there is nothing to verify with; set tls.ca")
                 LINE("poolcounter.socket: an abstract socket needs a name after the @")
                     LINE("poolcounter.tls_port and admin.port are both 7532, on 127.0.0.1; set "
                          "another for one of them"),
         "poolcounter.tls_port=7532", "tls.verify_client=require", "poolcounter.socket=@");
}
END_TEST

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(the_defaults_fit),
        UNIT(something_is_served),
        UNIT(what_is_not_plain_is_served_otherwise),
        UNIT(tls_needs_its_files),
        UNIT(names_of_hosts_are_names),
        UNIT(two_ports_on_one_address_are_told),
        UNIT(ports_that_do_not_meet_fit),
        UNIT(everywhere_and_somewhere_are_told),
        UNIT(unix_sockets_have_their_own_paths),
        UNIT(all_mistakes_are_said),
    };
    return unit_run("daemon/fit", tests, ARRAY_SIZE(tests));
}
