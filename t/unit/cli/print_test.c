/*
 * print_test.c - forms, and what JSON is made of. The transcripts show them in tables.
 */
#include "cli/print.h"
#include "t/unit/unit.h"

/* What a form makes of the row; valid until the next call. */
static const char *filled(const char *form)
{
    static struct text text;
    json_t *row = json_make(
        {"name", json_string("a\\b")}, {"none", json_string("")}, {"control", json_string("a\nb")},
        {"count", json_count(1234567)}, {"less", json_integer(-1)}, {"rate", json_real(1.234)},
        {"huge", json_count(UINT64_MAX)}, {"yes", json_true()}, {"no", json_false()},
        {"pairs", json_make({"k", json_string("v")}, {"l", json_string("w")})},
        {"empty", json_object()},
        {"rows", json_pack("[{s{si}}, {}, {s{si}}]", "of", "n", 3, "of", "n", 4)}, {"left", NULL});
    text_clear(&text);
    text_add_form(&text, form, row);
    json_decref(row);
    return text_str(&text);
}

TEST(a_form_is_filled_from_an_object)
{
    ck_assert_str_eq(filled("no values"), "no values");
    ck_assert_str_eq(filled("{name}: {count}, {rows} rows"), "a\\b: 1234567, 3 rows");
    ck_assert_str_eq(filled("{control}"), "a\\x0ab");
    ck_assert_str_eq(filled("{huge}"), "18446744073709551615");
    ck_assert_str_eq(filled("{less} {left} {yes}"), "- - -");
    ck_assert_str_eq(filled("<{none}> {none|word} {left|word} {name|word}"), "<> word word a\\b");
    ck_assert_str_eq(filled("{n count} {b count} {s rate}"), "1.2M 1.2 M 1.2 s");
    ck_assert_str_eq(filled("{2 rate} {r rate} {2 less} {r count}"), "1.23 1.23 - 1.2M");
    ck_assert_str_eq(filled("{p pairs}{p empty} {+ rows of.n}"), " k=v l=w 7");
}
END_TEST

TEST(a_part_depends_on_the_object)
{
    ck_assert_str_eq(filled("[name?1][count?2][yes?3][pairs?4]"), "1234");
    ck_assert_str_eq(filled("[none?1][no?2][empty?3][left?4]!"), "!");
    ck_assert_str_eq(filled("[!none?1][!name?2]"), "1");
    ck_assert_str_eq(filled("[+count?1][+less?2][+name?3][!+left?4]"), "14");
    ck_assert_str_eq(filled("[name=a\\b?1][name=a?2][!name=a?3]"), "13");
    ck_assert_str_eq(filled("[no?[name?{name}][yes?1]][yes?[no?2]{count}[yes?3]]."), "12345673.");
}
END_TEST

UNIT_MAIN("cli/print")
