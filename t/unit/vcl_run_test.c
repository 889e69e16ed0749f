/* vcl_run_test.c -- the machine, instruction by instruction, on programs made by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/obj.h"
#include "t/unit/fake_vcl_host.h"
#include "t/unit/test.h"
#include "vcl-lite/acl.h"
#include "vcl-lite/vcl_machine.h"

enum {
    CODE_MAX = 600
};

/* A policy under construction; all of it is vcl_recv, from its first instruction on. */
static struct program {
    struct vcl vcl;
    struct vcl_insn code[CODE_MAX];
    struct vcl_value consts[64];
    struct vcl_name names[8];
    struct regex *regexes[8];
    struct acl *acls[2];
    const void *backends[2];
    struct vcl_object objects[2];
    unsigned nconsts, nnames;
    struct fake_vcl f;
} prog;

static void
begin(void)
{
    memset(&prog, 0, sizeof(prog));
    prog.vcl = (struct vcl){
        .magic = VCL_MAGIC,
        .code = prog.code,
        .consts = prog.consts,
        .names = prog.names,
        .regexes = prog.regexes,
        .acls = prog.acls,
        .backends = prog.backends,
        .storages = prog.backends,
        .objects = prog.objects,
    };
    for (unsigned i = 1; i < VCL_SUB_COUNT; i++)
        prog.vcl.subs[i].entry = UINT32_MAX;
    fake_vcl_init(&prog.f, &prog.vcl);
}

static void
end(void)
{
    fake_vcl_fini(&prog.f);
    for (unsigned i = 0; i < ARRAY_LEN(prog.regexes); i++)
        regex_free(&prog.regexes[i]);
    acl_free(&prog.acls[0]);
}

static void
op(enum vcl_op code, unsigned a, unsigned b, uint32_t c)
{
    CHECK(prog.vcl.ncode < CODE_MAX);
    prog.code[prog.vcl.ncode++] = (struct vcl_insn){(uint8_t)code, (uint8_t)a, (uint16_t)b, c};
}

static void
push(struct vcl_value v)
{
    CHECK(prog.nconsts < ARRAY_LEN(prog.consts));
    prog.consts[prog.nconsts] = v;
    op(VCL_OP_CONST, 0, 0, prog.nconsts++);
}

static void
push_str(const char *s)
{
    push((struct vcl_value){.s = s, .len = s != NULL ? strlen(s) : 0});
}

static void
push_int(int64_t i)
{
    push((struct vcl_value){.i = i});
}

static void
push_real(double d)
{
    push((struct vcl_value){.r = d});
}

static unsigned
name(const char *text)
{
    prog.names[prog.nnames].text = slice_str(text);
    return prog.nnames++;
}

static void
regex(unsigned n, const char *pattern)
{
    char why[100];
    size_t at;

    CHECK_EQ(0, regex_compile(&prog.regexes[n], slice_str(pattern), why, sizeof(why), &at));
}

/* What is on the stack goes to a variable, of any type. */
static struct vcl_value
result(void)
{
    op(VCL_OP_SET, 0, VCL_VAR_CLIENT_IDENTITY, 0);
    op(VCL_OP_RETURN, VCL_ACT_PASS, 0, 0);
    if (fake_vcl_run(&prog.f, VCL_SUB_RECV) != VCL_ACT_PASS)
        fail_msg("failed: %s", prog.f.run.why);
    return prog.f.vars[VCL_VAR_CLIENT_IDENTITY];
}

static void
gives_str(const char *want)
{
    struct vcl_value got = result();

    if ((want == NULL) != (got.s == NULL) || got.len != (want != NULL ? strlen(want) : 0) ||
        (got.len > 0 && memcmp(want, got.s, got.len) != 0))
        fail_msg("'%.*s', not '%s'", (int)got.len, got.s, want);
    end();
}

static void
gives_int(int64_t want)
{
    CHECK_EQ(want, result().i);
    end();
}

static void
fails(const char *why)
{
    op(VCL_OP_RETURN, VCL_ACT_PASS, 0, 0);
    CHECK_EQ(VCL_ACT_FAIL, fake_vcl_run(&prog.f, VCL_SUB_RECV));
    if (strstr(prog.f.run.why, why) == NULL)
        fail_msg("'%s', not '%s'", prog.f.run.why, why);
    end();
}

/* --- values and conversions --- */

TEST(vcl_run, a_sub_that_is_not_there_does_nothing)
{
    begin();
    CHECK_EQ(VCL_ACT_NONE, fake_vcl_run(&prog.f, VCL_SUB_HIT));
    end();
}

TEST(vcl_run, reads_variables_fields_and_now)
{
    begin();
    prog.f.vars[VCL_VAR_REQ_URL] = vcl_value_string(SLICE_LIT("/x"));
    op(VCL_OP_GET, 0, VCL_VAR_REQ_URL, 0);
    gives_str("/x");
    begin();
    fake_vcl_field(&prog.f, VCL_HTTP_BERESP, "Vary", "*");
    op(VCL_OP_FIELD, VCL_HTTP_BERESP, 0, name("vary"));
    gives_str("*");
    begin();
    op(VCL_OP_FIELD, VCL_HTTP_REQ, 0, name("vary"));
    gives_str(NULL);
    begin();
    op(VCL_OP_NOW, 0, 0, 0);
    op(VCL_OP_TIME_STR, 0, 0, 0);
    gives_str("Sun, 06 Nov 1994 08:49:37 GMT");
    begin();
    push_int(1);
    push_int(2);
    op(VCL_OP_POP, 0, 0, 0);
    gives_int(1);
}

TEST(vcl_run, makes_strings)
{
    static const struct {
        enum vcl_op op;
        struct vcl_value v;
        const char *want;
    } cases[] = {
        {VCL_OP_INT_STR, {.i = 0}, "0"},
        {VCL_OP_INT_STR, {.i = -999999999999999}, "-999999999999999"},
        {VCL_OP_REAL_STR, {.r = 0.0005}, "0.001"},
        {VCL_OP_REAL_STR, {.r = -0.0}, "-0.000"},
        {VCL_OP_REAL_STR, {.r = 999999999999.0}, "999999999999.000"},
        {VCL_OP_BOOL_STR, {.i = 1}, "true"},
        {VCL_OP_BOOL_STR, {.i = 0}, "false"},
        {VCL_OP_IP_STR, {.ip = NULL}, NULL},
        {VCL_OP_BACKEND_STR, {.p = NULL}, NULL},
        {VCL_OP_BACKEND_STR, {.p = "b"}, "its_name"},
        {VCL_OP_STORAGE_STR, {.p = "s"}, "its_name"},
        {VCL_OP_EMPTY, {.s = NULL}, ""},
        {VCL_OP_LOWER, {.s = NULL}, ""},
        {VCL_OP_LOWER, {.s = "aB-C", .len = 4}, "ab-c"},
        {VCL_OP_UPPER, {.s = "aB-C", .len = 4}, "AB-C"},
        {VCL_OP_UPPER, {.s = "A", .len = 1}, "A"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        begin();
        push(cases[i].v);
        op(cases[i].op, 0, 0, 0);
        gives_str(cases[i].want);
    }
}

TEST(vcl_run, makes_bools)
{
    static const struct {
        enum vcl_op op;
        struct vcl_value v;
        int want;
    } cases[] = {
        {VCL_OP_STR_BOOL, {.s = NULL}, 0},
        {VCL_OP_STR_BOOL, {.s = ""}, 1},
        {VCL_OP_INT_BOOL, {.i = -1}, 1},
        {VCL_OP_INT_BOOL, {.i = 0}, 0},
        {VCL_OP_REAL_BOOL, {.r = 0}, 0},
        {VCL_OP_REAL_BOOL, {.r = -1}, 0},
        {VCL_OP_REAL_BOOL, {.r = 0.1}, 1},
        {VCL_OP_PTR_BOOL, {.p = NULL}, 0},
        {VCL_OP_PTR_BOOL, {.p = "b"}, 1},
        {VCL_OP_NOT, {.i = 0}, 1},
        {VCL_OP_NOT, {.i = 1}, 0},
        {VCL_OP_ROUND_BYTES, {.r = 2.5}, 3},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        begin();
        push(cases[i].v);
        op(cases[i].op, 0, 0, 0);
        gives_int(cases[i].want);
    }
}

TEST(vcl_run, refuses_values_that_have_no_text)
{
    static const struct {
        enum vcl_op op;
        struct vcl_value v;
        const char *why;
    } cases[] = {
        {VCL_OP_INT_STR, {.i = INT64_MIN}, "too large to be made a string"},
        {VCL_OP_REAL_STR, {.r = 1e12}, "too large to be made a string"},
        {VCL_OP_REAL_STR, {.r = NAN}, "too large to be made a string"},
        {VCL_OP_TIME_STR, {.r = 1e18}, "has no date"},
        {VCL_OP_TIME_STR, {.r = -1e12}, "has no date"},
        {VCL_OP_ROUND_BYTES, {.r = -1}, "no number of BYTES"},
        {VCL_OP_ROUND_BYTES, {.r = 1e30}, "no number of BYTES"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        begin();
        push(cases[i].v);
        op(cases[i].op, 0, 0, 0);
        fails(cases[i].why);
    }
}

TEST(vcl_run, prints_reals_as_printf_does)
{
    char got[VCL_NUMBER_BYTES], want[64];

    srandom(4);
    for (unsigned i = 0; i < 200000; i++) {
        double d = (double)(random() % 2000001 - 1000000) / (double)(1 + random() % 4000);

        if (i % 3 == 0)
            d *= (double)random() / 1e3;
        if (i % 5 == 0)
            d = round(d * 2000) / 2000; /* near the middles */
        snprintf(want, sizeof(want), "%.3f", d);
        got[vcl_format_real(d, got)] = '\0';
        CHECK_STR(want, got);
    }
}

TEST(vcl_run, prints_dates_as_strftime_does)
{
    char got[VCL_DATE_BYTES + 1], want[64];

    srandom(4);
    for (unsigned i = 0; i < 50000; i++) {
        double d = -62135596800.0 + 315537897600.0 * ((double)random() / RAND_MAX);
        time_t t = (time_t)floor(d);
        struct tm tm;

        CHECK(gmtime_r(&t, &tm) != NULL);
        snprintf(want, sizeof(want), "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
            &"SunMonTueWedThuFriSat"[tm.tm_wday * 3], tm.tm_mday,
            &"JanFebMarAprMayJunJulAugSepOctNovDec"[tm.tm_mon * 3], tm.tm_year + 1900, tm.tm_hour,
            tm.tm_min, tm.tm_sec);
        CHECK_EQ(VCL_DATE_BYTES, vcl_format_date(d, got));
        got[VCL_DATE_BYTES] = '\0';
        CHECK_STR(want, got);
    }
}

TEST(vcl_run, concatenates_and_copies_only_what_it_must)
{
    static const char two[] = "abcdef";
    struct vcl_value v;

    begin();
    push_str(NULL);
    push_str(two);
    push_str("");
    op(VCL_OP_CONCAT, 0, 3, 0);
    v = result();
    CHECK(v.s == two && v.len == 6);
    CHECK_EQ(0, prog.f.run.workspace);
    end();
    begin();
    push((struct vcl_value){.s = two, .len = 3});
    push((struct vcl_value){.s = two + 3, .len = 3});
    op(VCL_OP_CONCAT, 0, 2, 0);
    v = result();
    CHECK(v.s == two && v.len == 6);
    end();
    begin();
    push_str("x");
    push_str(NULL);
    push_str(two);
    op(VCL_OP_CONCAT, 0, 3, 0);
    gives_str("xabcdef");
    begin();
    push_str(NULL);
    push_str(NULL);
    op(VCL_OP_CONCAT, 0, 2, 0);
    gives_str("");
}

/* --- arithmetic and comparison --- */

TEST(vcl_run, reckons_with_ints)
{
    static const struct {
        enum vcl_op op;
        int64_t l, r, want;
        const char *why;
    } cases[] = {
        {VCL_OP_ADD_INT, 2, 3, 5, NULL},
        {VCL_OP_SUB_INT, 2, 3, -1, NULL},
        {VCL_OP_MUL_INT, -2, 3, -6, NULL},
        {VCL_OP_DIV_INT, -5, 2, -2, NULL},
        {VCL_OP_MOD_INT, -5, 3, -2, NULL},
        {VCL_OP_MOD_INT, 5, -3, 2, NULL},
        {VCL_OP_DIV_INT, 5, -1, -5, NULL},
        {VCL_OP_MOD_INT, 5, -1, 0, NULL},
        {VCL_OP_ADD_INT, 999999999999999, 1, 0, "outside of"},
        {VCL_OP_SUB_INT, -999999999999999, 1, 0, "outside of"},
        {VCL_OP_MUL_INT, 999999999999999, 999999999999999, 0, "outside of"},
        {VCL_OP_DIV_INT, 1, 0, 0, "INT division by zero"},
        {VCL_OP_MOD_INT, 1, 0, 0, "INT division by zero"},
        {VCL_OP_DIV_INT, INT64_MIN, -1, 0, "outside of"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        begin();
        push_int(cases[i].l);
        push_int(cases[i].r);
        op(cases[i].op, 0, 0, 0);
        if (cases[i].why != NULL)
            fails(cases[i].why);
        else
            gives_int(cases[i].want);
    }
    begin();
    push_int(5);
    op(VCL_OP_NEG_INT, 0, 0, 0);
    gives_int(-5);
}

TEST(vcl_run, reckons_with_reals)
{
    static const struct {
        enum vcl_op op;
        double l, r;
        const char *want, *why;
    } cases[] = {
        {VCL_OP_ADD_REAL, 1.5, 2, "3.500", NULL},
        {VCL_OP_SUB_REAL, 1.5, 2, "-0.500", NULL},
        {VCL_OP_MUL_REAL, 1.5, 2, "3.000", NULL},
        {VCL_OP_DIV_REAL, 1, 4, "0.250", NULL},
        {VCL_OP_DIV_REAL, 1, 0, NULL, "division by zero"},
        {VCL_OP_MUL_REAL, 1e300, 1e300, NULL, "too large"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        begin();
        push_real(cases[i].l);
        push_real(cases[i].r);
        op(cases[i].op, 0, 0, 0);
        op(VCL_OP_REAL_STR, 0, 0, 0);
        if (cases[i].why != NULL)
            fails(cases[i].why);
        else
            gives_str(cases[i].want);
    }
    begin();
    push_int(5);
    op(VCL_OP_INT_REAL, 0, 0, 0);
    op(VCL_OP_NEG_REAL, 0, 0, 0);
    op(VCL_OP_REAL_STR, 0, 0, 0);
    gives_str("-5.000");
}

/* One bit for each enum vcl_cmp. */
enum {
    IS_LESS = 1 << VCL_CMP_NE | 1 << VCL_CMP_LT | 1 << VCL_CMP_LE,
    IS_SAME = 1 << VCL_CMP_EQ | 1 << VCL_CMP_LE | 1 << VCL_CMP_GE,
    IS_MORE = 1 << VCL_CMP_NE | 1 << VCL_CMP_GT | 1 << VCL_CMP_GE,
};

TEST(vcl_run, compares)
{
    static const struct {
        enum vcl_op op;
        struct vcl_value l, r;
        unsigned is;
    } cases[] = {
        {VCL_OP_CMP_INT, {.i = -1}, {.i = 1}, IS_LESS},
        {VCL_OP_CMP_INT, {.i = 1}, {.i = 1}, IS_SAME},
        {VCL_OP_CMP_INT, {.i = 2}, {.i = 1}, IS_MORE},
        {VCL_OP_CMP_REAL, {.r = -1}, {.r = 1}, IS_LESS},
        {VCL_OP_CMP_REAL, {.r = 1}, {.r = 1}, IS_SAME},
        {VCL_OP_CMP_REAL, {.r = 2}, {.r = 1}, IS_MORE},
        {VCL_OP_CMP_STR, {.s = "a", .len = 1}, {.s = "b", .len = 1}, IS_LESS},
        {VCL_OP_CMP_STR, {.s = "a", .len = 1}, {.s = "ab", .len = 2}, IS_LESS},
        {VCL_OP_CMP_STR, {.s = "ab", .len = 2}, {.s = "ab", .len = 2}, IS_SAME},
        {VCL_OP_CMP_STR, {.s = "\xff", .len = 1}, {.s = "a", .len = 1}, IS_MORE},
        {VCL_OP_CMP_STR, {.s = NULL}, {.s = ""}, IS_MORE},
        {VCL_OP_CMP_STR, {.s = ""}, {.s = NULL}, IS_MORE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (unsigned cmp = VCL_CMP_EQ; cmp <= VCL_CMP_GE; cmp++) {
            begin();
            push(cases[i].l);
            push(cases[i].r);
            op(cases[i].op, cmp, 0, 0);
            gives_int(cases[i].is >> cmp & 1);
        }
    }
}

/* As Varnish: a header that is not there is not even equal to another that is not there. */
TEST(vcl_run, an_unset_string_equals_nothing)
{
    for (unsigned cmp = VCL_CMP_EQ; cmp <= VCL_CMP_NE; cmp++) {
        begin();
        push_str(NULL);
        push_str(NULL);
        op(VCL_OP_CMP_STR, cmp, 0, 0);
        gives_int(cmp == VCL_CMP_NE);
    }
}

TEST(vcl_run, compares_addresses_without_ports)
{
    struct vcl_ip a = {.addr = {[15] = 1}, .port = 1}, b = {.addr = {[15] = 1}, .port = 2};
    struct vcl_ip other = {.addr = {[15] = 2}};
    const struct vcl_ip *pairs[][2] = {{&a, &b}, {&a, &other}, {&a, NULL}, {NULL, NULL}};
    static const int same[] = {1, 0, 0, 1};

    for (unsigned i = 0; i < 4; i++) {
        for (unsigned cmp = VCL_CMP_EQ; cmp <= VCL_CMP_NE; cmp++) {
            begin();
            push((struct vcl_value){.ip = pairs[i][0]});
            push((struct vcl_value){.ip = pairs[i][1]});
            op(VCL_OP_CMP_IP, cmp, 0, 0);
            gives_int(same[i] == (cmp == VCL_CMP_EQ));
            begin();
            push((struct vcl_value){.p = pairs[i][0]});
            push((struct vcl_value){.p = pairs[i][1]});
            op(VCL_OP_CMP_PTR, cmp, 0, 0);
            gives_int((i == 3) == (cmp == VCL_CMP_EQ));
        }
    }
}

TEST(vcl_run, matches)
{
    struct vcl_ip local = {.addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .is_v4 = true};

    begin();
    regex(0, "^a+$");
    push_str("aa");
    op(VCL_OP_MATCH, 0, 0, 0);
    gives_int(1);
    begin();
    regex(0, "^$");
    push_str(NULL);
    op(VCL_OP_MATCH, 0, 0, 0);
    gives_int(1);
    begin();
    regex(0, "^(a+)+$");
    push_str("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab");
    op(VCL_OP_MATCH, 0, 0, 0);
    fails("match limit");
    for (unsigned i = 0; i < 2; i++) {
        begin();
        prog.acls[0] = acl_new("local", false);
        CHECK_EQ(0, acl_add(prog.acls[0], &local, 8, false));
        push((struct vcl_value){.ip = i == 0 ? &local : NULL});
        op(VCL_OP_MATCH_ACL, 0, 0, 0);
        gives_int(i == 0);
    }
}

/* What Varnish gives, but for \&, where its manual and not its code is followed. */
TEST(vcl_run, replaces_by_regex)
{
    static const struct {
        bool all;
        const char *subject, *pattern, *with, *want;
    } cases[] = {
        {true, "abc", "x*", "-", "-abc"},
        {true, "abc", "", "-", "-abc"},
        {true, "aabb", "(a*)|b", "[\\1]", "[aa][][]"},
        {false, "abc", "b", "\\\\\\0\\x\\", "a\\bx\\c"},
        {false, "abc", "b", "<\\&>", "a<&>c"},
        {false, "abc", "(b)(x)?", "<\\2\\1\\5>", "a<b>c"},
        {true, "a b  c", "\\s*", "", "abc"},
        {true, "abab", "^a", "x", "xbab"},
        {true, "aaa", "a$|^", "x", "xaax"},
        {true, "abc", "c|$", "-", "ab-"},
        {true, "abc", "(?=b)", "-", "a-bc"},
        {true, "", "x*", "-", "-"},
        {false, NULL, "^", "-", "-"},
        {false, NULL, "x", "-", ""},
        {true, "abc", "b*", "-", "-a-c"},
        {true, "abcb", "\\b|b", "-", "-a-c-"},
        {true, "a.b.c", "\\.", NULL, "abc"},
        {false, "abc", "b", "", "ac"},
        {false, "a", "a", "", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        begin();
        regex(0, cases[i].pattern);
        push_str(cases[i].subject);
        push_str(cases[i].with);
        op(VCL_OP_REGSUB, cases[i].all, 0, 0);
        gives_str(cases[i].want);
    }
}

TEST(vcl_run, a_replacement_that_is_too_large_overflows)
{
    static char text[4000];

    memset(text, 'a', sizeof(text) - 1);
    begin();
    regex(0, "a");
    push_str(text);
    push_str(text);
    op(VCL_OP_REGSUB, 1, 0, 0);
    fails("workspace overflow");
}

TEST(vcl_run, what_runs_make_is_bounded)
{
    static char text[60000];

    memset(text, 'a', sizeof(text) - 1);
    begin();
    for (unsigned i = 0; i < 5; i++) {
        push_str(text);
        push_str("x");
        op(VCL_OP_CONCAT, 0, 2, 0);
        op(VCL_OP_POP, 0, 0, 0);
    }
    fails("workspace overflow");
}

/* --- the way --- */

TEST(vcl_run, jumps_calls_and_returns)
{
    begin();
    push_int(1);
    op(VCL_OP_JUMP_IF, 0, 0, 3);
    op(VCL_OP_RETURN, VCL_ACT_PIPE, 0, 0);
    push_int(0);
    op(VCL_OP_JUMP_UNLESS, 0, 0, 6);
    op(VCL_OP_RETURN, VCL_ACT_PIPE, 0, 0);
    op(VCL_OP_CALL, 0, 3, 9);
    op(VCL_OP_JUMP, 0, 0, 12);
    op(VCL_OP_RETURN, VCL_ACT_PIPE, 0, 0);
    op(VCL_OP_TRACE, 0, 0, 7); /* 9: the sub */
    op(VCL_OP_TRACE, 0, 0, 8);
    op(VCL_OP_RET, 0, 0, 0);
    op(VCL_OP_TRACE, 0, 0, 9); /* 12 */
    op(VCL_OP_RET, 0, 0, 0);
    CHECK_EQ(VCL_ACT_NONE, fake_vcl_run(&prog.f, VCL_SUB_RECV));
    CHECK_EQ(3, prog.f.run.ntrace);
    CHECK_EQ(7, prog.f.run.trace[0]);
    CHECK_EQ(9, prog.f.run.trace[2]);
    end();
}

TEST(vcl_run, jumps_where_a_field_is_or_is_not)
{
    for (unsigned there = 0; there < 2; there++) {
        begin();
        name("Cookie");
        if (there)
            fake_vcl_field(&prog.f, VCL_HTTP_REQ, "cookie", "");
        op(VCL_OP_JUMP_IF_FIELD, VCL_HTTP_REQ, 0, 3);
        op(VCL_OP_JUMP_UNLESS_FIELD, VCL_HTTP_REQ, 0, 4);
        op(VCL_OP_RETURN, VCL_ACT_PIPE, 0, 0);
        op(VCL_OP_RETURN, VCL_ACT_PASS, 0, 0);
        op(VCL_OP_RETURN, VCL_ACT_HASH, 0, 0);
        CHECK_EQ(there ? VCL_ACT_PASS : VCL_ACT_HASH, fake_vcl_run(&prog.f, VCL_SUB_RECV));
        end();
    }
}

TEST(vcl_run, a_full_trace_drops_what_follows)
{
    begin();
    for (unsigned i = 0; i < VCL_TRACE_MAX + 5; i++)
        op(VCL_OP_TRACE, 0, 0, i);
    op(VCL_OP_RET, 0, 0, 0);
    CHECK_EQ(VCL_ACT_NONE, fake_vcl_run(&prog.f, VCL_SUB_RECV));
    CHECK_EQ(VCL_TRACE_MAX, prog.f.run.ntrace);
    CHECK_EQ(VCL_TRACE_MAX - 1, prog.f.run.trace[VCL_TRACE_MAX - 1]);
    end();
}

TEST(vcl_run, steps_are_bounded)
{
    begin();
    op(VCL_OP_CALL, 0, 60000, 3);
    op(VCL_OP_CALL, 0, 60000, 3);
    op(VCL_OP_RETURN, VCL_ACT_PASS, 0, 0);
    op(VCL_OP_RET, 0, 0, 0);
    fails("step limit");
    begin();
    op(VCL_OP_CALL, 1, 0, 3); /* 65,536 */
    op(VCL_OP_CALL, 0, 60000, 3);
    op(VCL_OP_RETURN, VCL_ACT_PASS, 0, 0);
    op(VCL_OP_RET, 0, 0, 0);
    fails("step limit");
}

TEST(vcl_run, return_takes_values_along)
{
    begin();
    push_int(65200);
    push_str("Gone fishing");
    op(VCL_OP_RETURN, VCL_ACT_SYNTH, VCL_RETURN_STATUS | VCL_RETURN_REASON, 2);
    CHECK_EQ(VCL_ACT_SYNTH, fake_vcl_run(&prog.f, VCL_SUB_RECV));
    CHECK_EQ(65200, prog.f.run.status);
    CHECK(slice_eq(prog.f.run.reason, SLICE_LIT("Gone fishing")));
    CHECK(prog.f.run.duration_s == -1);
    end();
    begin();
    push_real(2.5);
    op(VCL_OP_RETURN, VCL_ACT_PASS, VCL_RETURN_DURATION, 1);
    CHECK_EQ(VCL_ACT_PASS, fake_vcl_run(&prog.f, VCL_SUB_RECV));
    CHECK(prog.f.run.duration_s == 2.5);
    CHECK(prog.f.run.reason.ptr == NULL);
    end();
    begin();
    push_int(3);
    op(VCL_OP_RETURN, VCL_ACT_VCL, VCL_RETURN_LABEL, 1);
    CHECK_EQ(VCL_ACT_VCL, fake_vcl_run(&prog.f, VCL_SUB_RECV));
    CHECK_EQ(3, prog.f.run.label);
    end();
}

TEST(vcl_run, return_refuses_statuses_and_reasons_that_cannot_be_sent)
{
    static const int64_t bad[] = {99, 65536, 1099, 2000, -1, 0};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        begin();
        push_int(bad[i]);
        op(VCL_OP_RETURN, VCL_ACT_SYNTH, VCL_RETURN_STATUS, 1);
        fails("it must be 100 to 65535");
    }
    begin();
    push_int(200);
    push_str("a\nb");
    op(VCL_OP_RETURN, VCL_ACT_SYNTH, VCL_RETURN_STATUS | VCL_RETURN_REASON, 2);
    fails("control characters");
}

TEST(vcl_run, fail_says_why)
{
    begin();
    push_str("no such tenant");
    op(VCL_OP_RETURN, VCL_ACT_FAIL, VCL_RETURN_REASON, 1);
    fails("no such tenant");
    begin();
    op(VCL_OP_RETURN, VCL_ACT_FAIL, 0, 0);
    fails("return (fail)");
}

/* --- effects --- */

TEST(vcl_run, effects_reach_the_host)
{
    begin();
    push_str("v");
    op(VCL_OP_SET_FIELD, VCL_HTTP_REQ, 0, name("A"));
    push_str(NULL);
    op(VCL_OP_SET_FIELD, VCL_HTTP_REQ, 0, name("B"));
    op(VCL_OP_UNSET_FIELD, VCL_HTTP_REQ, 0, 0);
    op(VCL_OP_UNSET, 0, VCL_VAR_REQ_GRACE, 0);
    push_str(NULL);
    op(VCL_OP_HASH_DATA, 0, 0, 0);
    push_str("x");
    op(VCL_OP_HASH_DATA, 0, 0, 0);
    push_str("req.url ~ /");
    op(VCL_OP_BAN, 0, 0, 0);
    push_str("1");
    push_str(NULL);
    push_str("2");
    op(VCL_OP_SET_BODY, 1, VCL_VAR_RESP_BODY, 3);
    op(VCL_OP_RET, 0, 0, 0);
    CHECK_EQ(VCL_ACT_NONE, fake_vcl_run(&prog.f, VCL_SUB_RECV));
    CHECK_STR("A: v\nB: \nunset A\nunset req.grace\nhash unset\nhash x\nban req.url ~ /\n"
              "resp.body += [1] [2]\n",
        prog.f.log);
    end();
}

TEST(vcl_run, control_characters_stay_out_of_heads)
{
    static const char *const bad[] = {
        "a\r\nb: c", "\x01", "12345678\x7f", "1234567\x1f", "\t\n", "12345678\t\r"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        begin();
        push_str(bad[i]);
        op(VCL_OP_SET_FIELD, VCL_HTTP_RESP, 0, name("X-Y"));
        fails("field 'X-Y' was set to a text with control characters");
        begin();
        push_str(bad[i]);
        op(VCL_OP_SET, 0, VCL_VAR_RESP_REASON, 0);
        fails("resp.reason was set to a text with control characters");
    }
    begin();
    push_str("");
    op(VCL_OP_SET, 0, VCL_VAR_REQ_URL, 0);
    fails("req.url was set to an empty string");
    begin();
    push((struct vcl_value){.s = "a\0b", .len = 3});
    op(VCL_OP_SET_FIELD, VCL_HTTP_RESP, 0, name("X-Y"));
    fails("control characters");
    begin();
    push_str("a\tb \x80\xff 12345678\t9");
    op(VCL_OP_SET_FIELD, VCL_HTTP_RESP, 0, name("X-Y"));
    push_int(1);
    gives_int(1);
}

TEST(vcl_run, functions_methods_and_objects)
{
    begin();
    prog.objects[1].name = "rr";
    prog.f.given.i = 7;
    push_int(5);
    op(VCL_OP_NEW, 1, VCL_OBJECT_FALLBACK, 1 | 1u << 16);
    push_str("x");
    op(VCL_OP_FUNC, 1, VCL_FN_STD_LOG, 1); /* gives nothing */
    op(VCL_OP_OBJECT, 0, 0, 1);
    push_int(1);
    op(VCL_OP_METHOD, 1, VCL_METHOD_ADD, 1);
    push_int(1);
    op(VCL_OP_FUNC, 1, VCL_FN_STD_CACHE_REQ_BODY, 1);
    op(VCL_OP_OBJECT, 0, 0, 1);
    op(VCL_OP_METHOD, 0, VCL_METHOD_PICK, 0);
    op(VCL_OP_CMP_INT, VCL_CMP_EQ, 0, 0);
    gives_int(1);
    CHECK(strstr(prog.f.log, "new rr of 1 with 0x1\n") == prog.f.log);
    begin();
    prog.objects[1].name = "rr";
    op(VCL_OP_OBJECT, 0, 0, 1);
    fails("'rr' was not made");
}

TEST(vcl_run, a_host_that_refuses_fails_the_run)
{
    static const struct {
        enum vcl_op op;
        unsigned b, pushes;
    } cases[] = {
        {VCL_OP_GET, VCL_VAR_REQ_URL, 0},
        {VCL_OP_GET_STORAGE, VCL_VAR_STORAGE_HAPPY, 0},
        {VCL_OP_SET, VCL_VAR_REQ_GRACE, 1},
        {VCL_OP_UNSET, VCL_VAR_REQ_GRACE, 0},
        {VCL_OP_SET_FIELD, 0, 1},
        {VCL_OP_UNSET_FIELD, 0, 0},
        {VCL_OP_HASH_DATA, 0, 1},
        {VCL_OP_BAN, 0, 1},
        {VCL_OP_SET_BODY, VCL_VAR_RESP_BODY, 0},
        {VCL_OP_FUNC, VCL_FN_STD_NOW, 0},
        {VCL_OP_METHOD, VCL_METHOD_PICK, 1},
        {VCL_OP_NEW, VCL_OBJECT_RANDOM, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        begin();
        name("A");
        prog.f.refuse = TERR_LIMIT;
        for (unsigned j = 0; j < cases[i].pushes; j++)
            push_str("x");
        op(cases[i].op, 0, cases[i].b, 0);
        fails("a configured limit was reached");
    }
}

TEST_MAIN(TEST_ENTRY(vcl_run, a_sub_that_is_not_there_does_nothing),
    TEST_ENTRY(vcl_run, reads_variables_fields_and_now), TEST_ENTRY(vcl_run, makes_strings),
    TEST_ENTRY(vcl_run, makes_bools), TEST_ENTRY(vcl_run, refuses_values_that_have_no_text),
    TEST_ENTRY(vcl_run, prints_reals_as_printf_does),
    TEST_ENTRY(vcl_run, prints_dates_as_strftime_does),
    TEST_ENTRY(vcl_run, concatenates_and_copies_only_what_it_must),
    TEST_ENTRY(vcl_run, reckons_with_ints), TEST_ENTRY(vcl_run, reckons_with_reals),
    TEST_ENTRY(vcl_run, compares), TEST_ENTRY(vcl_run, an_unset_string_equals_nothing),
    TEST_ENTRY(vcl_run, compares_addresses_without_ports), TEST_ENTRY(vcl_run, matches),
    TEST_ENTRY(vcl_run, replaces_by_regex),
    TEST_ENTRY(vcl_run, a_replacement_that_is_too_large_overflows),
    TEST_ENTRY(vcl_run, what_runs_make_is_bounded), TEST_ENTRY(vcl_run, jumps_calls_and_returns),
    TEST_ENTRY(vcl_run, jumps_where_a_field_is_or_is_not),
    TEST_ENTRY(vcl_run, a_full_trace_drops_what_follows), TEST_ENTRY(vcl_run, steps_are_bounded),
    TEST_ENTRY(vcl_run, return_takes_values_along),
    TEST_ENTRY(vcl_run, return_refuses_statuses_and_reasons_that_cannot_be_sent),
    TEST_ENTRY(vcl_run, fail_says_why), TEST_ENTRY(vcl_run, effects_reach_the_host),
    TEST_ENTRY(vcl_run, control_characters_stay_out_of_heads),
    TEST_ENTRY(vcl_run, functions_methods_and_objects),
    TEST_ENTRY(vcl_run, a_host_that_refuses_fails_the_run))
