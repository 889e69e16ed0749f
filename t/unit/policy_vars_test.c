/* policy_vars_test.c -- every access that vcl_var_table.h promises has a row in policy_var_table.h. */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/policy/policy_var_table.h"
#include "vcl-lite/vcl.h"

/* What is compiled to a constant, or to nothing with a warning. */
static bool
is_inert(enum vcl_var var)
{
    switch ((unsigned)var) {
#define X(id, instead) \
    case VCL_VAR_##id: \
        return true;
        VCL_INERT_TABLE(X)
#undef X
    default:
        return false;
    }
}

/* Header fields, messages and bodies have functions of their own, and so have storages. */
static bool
is_elsewhere(enum vcl_var var, enum vcl_type type)
{
    return type == VCL_TYPE_HEADER || type == VCL_TYPE_HTTP || var == VCL_VAR_STORAGE_FREE_SPACE ||
           var == VCL_VAR_STORAGE_HAPPY || var == VCL_VAR_STORAGE_USED_SPACE;
}

static const struct {
    enum vcl_type type;
    unsigned read, write, unset, flags;
} promised[VCL_VAR_COUNT] = {
#define X(id, name, type, read, write, unset, flags, doc) \
    [VCL_VAR_##id] = {VCL_TYPE_##type, read, write, unset, flags},
    VCL_VAR_TABLE(X)
#undef X
};

/* 1: it has a row. */
static const uint8_t gets[VCL_VAR_COUNT] = {
#define X(id, kind, value) [VCL_VAR_##id] = 1,
    POLICY_GET_TABLE(X) POLICY_ENTRY_TABLE(X)
#undef X
};
static const uint8_t sets[VCL_VAR_COUNT] = {
#define X(id, action) [VCL_VAR_##id] = 1,
    POLICY_SET_TABLE(X)
#undef X
};
static const uint8_t unsets[VCL_VAR_COUNT] = {
#define X(id, action) [VCL_VAR_##id] = 1,
    POLICY_UNSET_TABLE(X)
#undef X
};

static void
check_row(enum vcl_var var, const char *access, bool is_promised, bool is_there)
{
    if (is_promised != is_there)
        fprintf(stderr, "%s: %s: promised %d, row %d\n", vcl_var_name(var), access, is_promised,
            is_there);
    CHECK_EQ(is_promised, is_there);
}

TEST(policy_vars, every_readable_variable_has_a_row_and_no_other)
{
    for (unsigned i = 0; i < VCL_VAR_COUNT; i++)
        check_row((enum vcl_var)i, "read",
            promised[i].read != 0 && !is_elsewhere((enum vcl_var)i, promised[i].type), gets[i]);
}

TEST(policy_vars, every_settable_variable_has_a_row_and_no_other)
{
    for (unsigned i = 0; i < VCL_VAR_COUNT; i++)
        check_row((enum vcl_var)i, "set",
            promised[i].write != 0 && !is_inert((enum vcl_var)i) &&
                promised[i].type != VCL_TYPE_BODY &&
                !is_elsewhere((enum vcl_var)i, promised[i].type),
            sets[i]);
}

TEST(policy_vars, every_unsettable_variable_has_a_row_and_no_other)
{
    for (unsigned i = 0; i < VCL_VAR_COUNT; i++)
        check_row((enum vcl_var)i, "unset",
            promised[i].unset != 0 && !is_inert((enum vcl_var)i) &&
                !is_elsewhere((enum vcl_var)i, promised[i].type),
            unsets[i]);
}

TEST_MAIN(TEST_ENTRY(policy_vars, every_readable_variable_has_a_row_and_no_other),
    TEST_ENTRY(policy_vars, every_settable_variable_has_a_row_and_no_other),
    TEST_ENTRY(policy_vars, every_unsettable_variable_has_a_row_and_no_other))
