/* snapshot_size.c: vramgc_snapshot for a program built with another version of vramgc.h, that
 * knows fewer fields or more. Linked with the runtime. */
#include "check.h"

#include "cuda/cuda_api.h"
#include "vramgc.h"

#include <string.h>

struct newer {
    struct vramgc_snapshot known;
    uint64_t unknown[4];
};

static struct newer take(size_t size, int wanted) {
    struct newer newer;
    memset(&newer, 0x5a, sizeof newer);
    newer.known.size = size;
    CHECK(vramgc_snapshot(0, &newer.known) == wanted);
    return newer;
}

int main(void) {
    const size_t all = sizeof(struct vramgc_snapshot);
    const uint64_t untouched = 0x5a5a5a5a5a5a5a5a;
    void *p = NULL;
    CHECK(vramgc_snapshot(0, &(struct vramgc_snapshot){.size = all}) == -1); /* nothing yet */
    OK(cudaMalloc(&p, 3 * MIB));
    struct newer got = take(all, 0);
    CHECK(got.known.size == all && got.known.held_bytes == 3 * MIB && got.known.flushes == 0);
    got = take(sizeof got, 0);
    CHECK(got.known.size == all && got.known.held_bytes == 3 * MIB);
    CHECK(got.unknown[0] == untouched && got.unknown[3] == untouched);
    got = take(offsetof(struct vramgc_snapshot, allocated_bytes), 0);
    CHECK(got.known.size == offsetof(struct vramgc_snapshot, allocated_bytes));
    CHECK(got.known.held_bytes == 3 * MIB && got.known.allocated_bytes == untouched);
    got = take(sizeof got.known.size, -1);
    CHECK(got.known.held_bytes == untouched);
    OK(cudaFree(p));
    return check_result("snapshot_size");
}
