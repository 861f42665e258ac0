/* test_host_memory.c: what is read of the host's memory in the kernel's texts, those with a name
 * that the program chose and those that make no sense, too. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/control_group.h"
#include "host/memory.h"

#define GIB ((uint64_t)1 << 30)

static char root[64];

/* A machine without anything. */
static int new_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/test_host_memory.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

/* The folders above it, too. */
static void put(const char *path, const char *content) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(whole, 0755);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void of_the_process(void **state) {
    (void)state;
    struct host_memory_own own = host_memory_in("Name:\tpython\n"
                                                "VmHWM:\t  9000 kB\n"
                                                "RssAnon:\t    1024 kB\n"
                                                "RssFile:\t    2048 kB\n"
                                                "RssShmem:\t       1 kB\n"
                                                "VmSwap:\t   3072 kB\n");
    assert_int_equal(own.anon_bytes, 1 << 20);
    assert_int_equal(own.file_bytes, 2 << 20);
    assert_int_equal(own.shared_bytes, 1 << 10);
    assert_int_equal(own.swap_bytes, 3 << 20);
}

static void a_name_is_no_figure(void **state) {
    (void)state;
    struct host_memory_own own = host_memory_in("Name:\tRssAnon: 99\n"
                                                "RssAnon:\t    1024 kB\n"
                                                "RssFile:\t18446744073709551615 kB\n"
                                                "RssShmem:\tmany kB\n");
    assert_int_equal(own.anon_bytes, 1 << 20);
    assert_int_equal(own.file_bytes, 0);
    assert_int_equal(own.shared_bytes, 0);
    assert_int_equal(own.swap_bytes, 0);
    assert_int_equal(host_memory_in("").anon_bytes, 0);
    assert_int_equal(host_memory_in("\n\n").anon_bytes, 0);
}

static void second_version(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/user.slice/web ui\n");
    put("/sys/fs/cgroup/user.slice/web ui/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/web ui/memory.current", "1073741824\n");
    put("/sys/fs/cgroup/user.slice/web ui/memory.events",
        "low 0\nhigh 0\nmax 7\noom 5\noom_kill 3\noom_group_kill 1\n");
    struct control_group group = control_group_read(root);
    assert_int_equal(group.limit_bytes, 0);
    assert_int_equal(group.used_bytes, GIB);
    assert_true(group.counts_kills);
    assert_int_equal(group.oom_kills, 3);
    assert_int_not_equal(group.id, 0);
}

/* The limit that comes first, and what counts against that one. */
static void a_limit_above(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "8589934592\n");
    put("/sys/fs/cgroup/a/b/memory.current", "1073741824\n");
    put("/sys/fs/cgroup/a/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/a/memory.current", "2147483648\n");
    put("/sys/fs/cgroup/memory.max", "17179869184\n");
    struct control_group group = control_group_read(root);
    assert_int_equal(group.limit_bytes, 4 * GIB);
    assert_int_equal(group.used_bytes, 2 * GIB);
    assert_int_equal(control_group_room(root), 2 * GIB);
    put("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 1073741824\nactive_file 1024\n");
    assert_int_equal(control_group_room(root), 3 * GIB + 1024);
    put("/sys/fs/cgroup/a/memory.current", "5368709120\n");
    assert_int_equal(control_group_room(root), 1024);
    put("/sys/fs/cgroup/a/memory.current", "9368709120\n");
    group = control_group_read(root);
    assert_int_equal(control_group_room(root), 0);
    assert_false(group.counts_kills);
}

/* That of the memory, although version 2 is there beside it; in a container, whose path is not the
 * one outside. */
static void first_version(void **state) {
    (void)state;
    put("/proc/self/cgroup", "9:name=memory:/wrong\n4:cpu,memory:/docker/abc\n0::/wrong\n");
    put("/sys/fs/cgroup/wrong/memory.max", "1\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    struct control_group group = control_group_read(root);
    assert_int_equal(group.limit_bytes, 2 * GIB);
    assert_int_equal(group.used_bytes, GIB);
    assert_int_equal(group.oom_kills, 2);
    put("/sys/fs/cgroup/memory/memory.stat",
        "cache 1\ninactive_file 1\ntotal_inactive_file 512\ntotal_active_file 512\n");
    assert_int_equal(control_group_room(root), GIB + 1024);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    group = control_group_read(root);
    assert_int_equal(group.limit_bytes, 0);
    assert_true(control_group_room(root) == UINT64_MAX);
}

/* One that has the folder's name and is another has another number. */
static void one_that_is_new_is_another(void **state) {
    (void)state;
    char old[96], new[96];
    put("/proc/self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/a/memory.current", "1\n");
    uint64_t id = control_group_read(root).id;
    assert_int_equal(control_group_read(root).id, id);
    snprintf(old, sizeof old, "%s/sys/fs/cgroup/a", root);
    snprintf(new, sizeof new, "%s/sys/fs/cgroup/b", root);
    assert_int_equal(rename(old, new), 0);
    put("/sys/fs/cgroup/a/memory.current", "1\n");
    assert_int_not_equal(control_group_read(root).id, id);
}

static void what_makes_no_sense_is_not_known(void **state) {
    (void)state;
    static char endless[6000], long_one[3000];
    memset(endless, 'x', sizeof endless - 1);
    memcpy(endless, "0::/", 4);
    memcpy(long_one, endless, sizeof long_one - 2);
    long_one[sizeof long_one - 2] = '\n';
    const char *const texts[] = {"",    "0::/../b\n", "0::/a/..\n", "0::a\n", "0:/a\n",
                                 ":::", "0::/a",      endless,      long_one};
    put("/sys/fs/cgroup/memory.max", "4096\n");
    put("/sys/fs/cgroup/memory.current", "1\n");
    put("/sys/fs/cgroup/memory.events", "oom_kill 3\n");
    put("/sys/fs/b/memory.max", "4096\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("/proc/self/cgroup", texts[i]);
        struct control_group group = control_group_read(root);
        assert_int_equal(group.limit_bytes, 0);
        assert_int_equal(group.used_bytes, 0);
        assert_int_equal(group.id, 0);
        assert_false(group.counts_kills);
    }
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "-1\n");
    put("/sys/fs/cgroup/memory.current", "99999999999999999999999\n");
    put("/sys/fs/cgroup/memory.events", "no_oom_kill 3\n");
    struct control_group group = control_group_read(root);
    assert_int_equal(group.limit_bytes, 0);
    assert_int_equal(group.used_bytes, 0);
    assert_false(group.counts_kills);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_root, remove_root)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_the_process),
        cmocka_unit_test(a_name_is_no_figure),
        TEST(second_version),
        TEST(a_limit_above),
        TEST(first_version),
        TEST(one_that_is_new_is_another),
        TEST(what_makes_no_sense_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
