/* conf_memory.c -- how much memory this process can have.
 *
 * Source: proc(5), cgroups(7); Documentation/admin-guide/cgroup-v2.rst (memory.max) and
 * cgroup-v1/memory.rst (memory.limit_in_bytes) of Linux.
 */
#include "conf/conf_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"

enum {
    MEMORY_PATH = 400, /* bytes of a file's name */
    MEMORY_DEPTH = 64, /* groups above each other */
};

static void
memory_of_machine(struct conf_memory *out, const char *root)
{
    unsigned long long kib = 0;
    char path[MEMORY_PATH], line[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    f = fopen(path, "re");
    if (f == NULL)
        return;
    while (fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "MemTotal: %llu", &kib) == 1)
            break;
    fclose(f);
    if (kib == 0)
        return;
    out->bytes = (uint64_t)kib << 10;
    snprintf(out->limit, sizeof(out->limit), "the machine");
}

/* "max", or a number so large that it means nothing, is no limit. */
static void
memory_of_file(struct conf_memory *out, const char *path)
{
    unsigned long long bytes = 0;
    FILE *f = fopen(path, "re");
    int n;

    if (f == NULL)
        return;
    n = fscanf(f, "%llu", &bytes);
    fclose(f);
    if (n != 1 || bytes == 0 || (out->bytes != 0 && bytes >= out->bytes))
        return;
    out->bytes = bytes;
    snprintf(out->limit, sizeof(out->limit), "the cgroup, %.480s", path);
}

/* Of the group, and of each above it.  `group` begins with / and is cut as it is walked. */
static void
memory_of_groups(
    struct conf_memory *out, const char *root, const char *mount, char *group, const char *file)
{
    for (unsigned depth = 0; depth < MEMORY_DEPTH; depth++) {
        char path[2 * MEMORY_PATH], *slash = strrchr(group, '/');

        tassert(group[0] == '/'); /* the root's own slash stays */
        snprintf(path, sizeof(path), "%s%s%s/%s", root, mount, strcmp(group, "/") == 0 ? "" : group,
            file);
        memory_of_file(out, path);
        if (slash == NULL || group[1] == '\0')
            return;
        slash[slash == group] = '\0';
    }
}

/* HIERARCHY:CONTROLLERS:GROUP */
static void
memory_of_line(struct conf_memory *out, const char *root, char *line)
{
    char *controllers = strchr(line, ':'), *group;

    line[strcspn(line, "\n")] = '\0';
    if (controllers == NULL || (group = strchr(controllers + 1, ':')) == NULL || group[1] != '/')
        return;
    *group++ = '\0';
    controllers++;
    if (controllers[0] == '\0') {
        memory_of_groups(out, root, "/sys/fs/cgroup", group, "memory.max");
        return;
    }
    for (char *rest = controllers, *one; (one = strtok_r(rest, ",", &rest)) != NULL;)
        if (strcmp(one, "memory") == 0)
            memory_of_groups(out, root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
}

void
conf_memory_read(struct conf_memory *out, const char *root)
{
    char path[MEMORY_PATH], line[MEMORY_PATH];
    FILE *f;

    *out = (struct conf_memory){.bytes = 0};
    memory_of_machine(out, root);
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    f = fopen(path, "re");
    if (f == NULL)
        return;
    while (fgets(line, sizeof(line), f) != NULL)
        memory_of_line(out, root, line);
    fclose(f);
}
