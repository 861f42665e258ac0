/* control_group.c: see control_group.h. It must not tell of a group that may be another one: what
 * it does not understand is not known. */
#include "base/control_group.h"

#include "base/base.h"
#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* Kubernetes' are the longest known, about 200 letters. What does not fit is not read. */
enum { PATH_CAPACITY = 1024 };

static const struct version {
    const char *folder, *limit, *used, *events, *cache[2];
} versions[] = {
    {"/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     "memory.oom_control",
     {"\ntotal_inactive_file ", "\ntotal_active_file "}},
    {"/sys/fs/cgroup",
     "memory.max",
     "memory.current",
     "memory.events",
     {"\ninactive_file ", "\nactive_file "}},
};

static bool names_memory(const char *list, const char *end) {
    for (const char *next; list < end; list = next + 1) {
        next = memchr(list, ',', (size_t)(end - list));
        next = next ? next : end;
        if ((size_t)(next - list) == strlen("memory") && strncmp(list, "memory", 6) == 0)
            return true;
    }
    return false;
}

/* From outside a container's own root it may begin with "/..". */
static bool is_below(const char *path) {
    const char *up = strstr(path, "/..");
    return *path == '/' && (!up || (up[3] && up[3] != '/'));
}

/* The lines are NUMBER:CONTROLLERS:PATH; of version 2 there is one, without controllers. Version 1
 * has the memory where it names it. The version, or NULL; path: below its folder. */
static const struct version *find_version(const char *text, char *path, size_t capacity) {
    const struct version *found = NULL;
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *list = memchr(line, ':', (size_t)(end - line));
        const char *rest = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
        size_t length = rest ? (size_t)(end - rest - 1) : capacity;
        bool first = rest && names_memory(list + 1, rest);
        if (length >= capacity || (!first && (found || rest != list + 1)))
            continue;
        memcpy(path, rest + 1, length);
        path[length] = 0;
        found = first ? &versions[0] : &versions[1];
        if (first)
            break;
    }
    return found && is_below(path) ? found : NULL;
}

static void read_in(const char *folder, const char *name, char *out, size_t capacity) {
    TEXT_OVER(where, path, PATH_CAPACITY);
    text_format(&where, "%s/%s", folder, name);
    file_read_start(path, out, capacity);
}

/* "max" is no number and so 0, as is the number near 2^63 that version 1 has for it. */
static uint64_t number_in(const char *folder, const char *name) {
    char text[32];
    read_in(folder, name, text, sizeof text);
    uint64_t number = *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : 0;
    return number >> 60 ? 0 : number;
}

/* In a container the path may be that outside of it; then what it sees at the root is its own. */
static uint64_t enter_group(char *folder, size_t root_length) {
    struct stat status;
    if (stat(folder, &status) != 0)
        folder[root_length] = 0;
    return stat(folder, &status) == 0 ? status.st_ino : 0;
}

static void read_kills(struct control_group *group, const char *folder, const char *name) {
    char text[512];
    read_in(folder, name, text, sizeof text);
    const char *found = strncmp(text, "oom_kill ", 9) == 0 ? text : strstr(text, "\noom_kill ");
    group->counts_kills = found;
    group->oom_kills = found ? strtoull(strchr(found, ' '), NULL, 10) : 0;
}

/* Files that Linux keeps as long as nobody needs the memory. */
static uint64_t read_cache(const char *folder, const struct version *version) {
    char text[4096];
    uint64_t bytes = 0;
    read_in(folder, "memory.stat", text, sizeof text);
    for (size_t i = 0; i < 2; i++) {
        const char *found = strstr(text, version->cache[i]);
        bytes += found ? strtoull(strchr(found, ' '), NULL, 10) : 0;
    }
    return bytes;
}

/* cache_bytes: of the group that has the limit, if that is wanted; else NULL. */
static struct control_group look_at_groups(const char *root, uint64_t *cache_bytes) {
    char text[4096], path[PATH_CAPACITY / 2], folder[PATH_CAPACITY - 64];
    read_in(root, "proc/self/cgroup", text, sizeof text);
    struct control_group group = {0};
    const struct version *version = find_version(text, path, sizeof path);
    struct text where = TEXT_IN(folder);
    if (!version)
        return group;
    text_format(&where, "%s%s", root, version->folder);
    size_t root_length = where.length;
    text_add(&where, path[1] ? path : "");
    group.id = enter_group(folder, root_length);
    group.used_bytes = number_in(folder, version->used);
    read_kills(&group, folder, version->events);
    for (char *end = folder + strlen(folder); end; end = strrchr(folder + root_length, '/')) {
        *end = 0;
        uint64_t limit_bytes = number_in(folder, version->limit);
        if (!limit_bytes || (group.limit_bytes && limit_bytes >= group.limit_bytes))
            continue;
        group.limit_bytes = limit_bytes;
        group.used_bytes = number_in(folder, version->used);
        if (cache_bytes)
            *cache_bytes = read_cache(folder, version);
    }
    return group;
}

struct control_group control_group_read(const char *root) {
    return look_at_groups(root, NULL);
}

uint64_t control_group_room(const char *root) {
    uint64_t cache_bytes = 0;
    struct control_group group = look_at_groups(root, &cache_bytes);
    return group.limit_bytes
               ? minus_u64(group.limit_bytes, minus_u64(group.used_bytes, cache_bytes))
               : UINT64_MAX;
}
