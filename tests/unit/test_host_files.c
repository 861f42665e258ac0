/* test_host_files.c: large files that the program has read and let go: of which Linux keeps nothing
 * any more, and of which it keeps all. */
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/files.h"

#define BYTES  ((size_t)64 << 20)
#define SECOND ((uint64_t)1000000000)

static uint64_t now_ns = 5 * SECOND;
static char path[] = "/var/tmp/test_host_files.XXXXXX";

/* Written out, so that Linux may drop it. */
static int write_file(void **state) {
    (void)state;
    enum { PIECE = 1 << 20 };
    char *piece = calloc(1, PIECE);
    int fd = mkstemp(path);
    for (size_t i = 0; i < BYTES / PIECE; i++)
        assert_int_equal(write(fd, piece, PIECE), PIECE);
    free(piece);
    return fsync(fd) || close(fd);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

/* All of it, or nothing. */
static bool is_cached(void) {
    static unsigned char pages[BYTES / 4096];
    int fd = open(path, O_RDONLY);
    void *at = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_int_equal(mincore(at, BYTES, pages), 0);
    munmap(at, BYTES);
    close(fd);
    return pages[0] & 1;
}

static bool is_gone(uint64_t *again_bytes) {
    return host_files_gone(now_ns += SECOND, again_bytes);
}

static int open_and_read(int flags) {
    int fd = open(path, flags);
    char *all = malloc(BYTES);
    assert_int_equal(pread(fd, all, BYTES, 0), BYTES);
    free(all);
    return fd;
}

static void what_is_open_or_mapped_stays(void **state) {
    (void)state;
    uint64_t again_bytes;
    int fd = open_and_read(O_RDONLY);
    assert_false(is_gone(&again_bytes));
    void *at = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_false(is_gone(&again_bytes));
    host_files_drop();
    assert_true(is_cached());
    munmap(at, BYTES);
    assert_false(host_files_gone(now_ns + SECOND / 10, &again_bytes)); /* not looked for yet */
    assert_true(is_gone(&again_bytes));
    host_files_drop();
    struct statfs where;
    if (statfs(path, &where) == 0 && where.f_type != 0x01021994) /* a tmpfs keeps it nowhere else */
        assert_false(is_cached());
    assert_false(is_gone(&again_bytes));
    assert_int_equal(again_bytes, 0);
    close(open_and_read(O_RDONLY)); /* between two looks: not seen */
    assert_false(is_gone(&again_bytes));
    assert_int_equal(again_bytes, 0);
    fd = open_and_read(O_RDONLY);
    assert_false(is_gone(&again_bytes));
    assert_int_equal(again_bytes, BYTES);
    close(fd);
    assert_true(is_gone(&again_bytes));
    host_files_drop();
}

static void what_is_written_stays(void **state) {
    (void)state;
    uint64_t again_bytes;
    int fd = open_and_read(O_RDWR);
    assert_false(is_gone(&again_bytes));
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    assert_false(is_gone(&again_bytes));
    munmap(at, BYTES);
    assert_false(is_gone(&again_bytes));
    assert_true(is_cached());
}

/* More files than are known at a time, and ones whose path is not theirs any more. */
static void many(void **state) {
    (void)state;
    enum { COUNT = 40 };
    uint64_t again_bytes;
    char names[COUNT][sizeof path];
    int fds[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        strcpy(names[i], "/var/tmp/test_host_many_.XXXXXX");
        fds[i] = mkstemp(names[i]);
        assert_int_equal(ftruncate(fds[i], BYTES), 0);
        close(fds[i]);
        fds[i] = open(names[i], O_RDONLY);
        if (i % 2)
            unlink(names[i]);
        assert_false(is_gone(&again_bytes));
    }
    for (size_t i = 0; i < COUNT; i++) {
        unlink(names[i]);
        close(fds[i]);
    }
    assert_true(is_gone(&again_bytes));
    host_files_drop();
    assert_false(is_gone(&again_bytes));
    int fd = open_and_read(O_RDONLY); /* there is a place again */
    assert_false(is_gone(&again_bytes));
    close(fd);
    assert_true(is_gone(&again_bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_stays),
        cmocka_unit_test(what_is_open_or_mapped_stays),
        cmocka_unit_test(many),
    };
    return cmocka_run_group_tests(tests, write_file, remove_file);
}
