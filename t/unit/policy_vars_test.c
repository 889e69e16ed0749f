/* policy_vars_test.c -- every access that vcl_var_table.h promises has a row in policy_var_table.h. */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/policy/policy_var_table.h"
#include "vcl-lite/vcl.h"

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
            promised[i].read != 0 && (promised[i].flags & VCL_WARNS) == 0 &&
                !is_elsewhere((enum vcl_var)i, promised[i].type),
            gets[i]);
}

TEST_MAIN(TEST_ENTRY(policy_vars, every_readable_variable_has_a_row_and_no_other))
