/* c10_blocks.c: the hooks of libc10 in both manglings: the original is called once with what was
 * given, blocks are counted for CUDA devices only, and a wrong block is counted, not guessed.
 * Linked with the libraries of fake_c10.c and the runtime. */
#include "check.h"
#include "fake_c10.h"
#include "cuda/cuda_api.h"

#include <string.h>

enum { CPU = 0, CUDA = 1 };

/* A c10::Device in a register: type, index, and rubbish beside them. */
static uint64_t device(int type, int index) {
    return 0x5a5a5a5a5a5a0000u | (uint64_t)(uint8_t)index << 8 | (uint64_t)type;
}

static const struct vramgc_device_stats *stats(void) {
    static const struct vramgc_device_stats none;
    const struct vramgc_file *file = check_file();
    return file ? &file->devices[0].stats : &none;
}

static void report(bool old, void *p, int64_t bytes, uint64_t where) {
    unsigned calls = fake_c10_latest().calls;
    fake_c10_report(old, p, bytes, where);
    struct fake_c10_call latest = fake_c10_latest();
    CHECK(latest.calls == calls + 1 && strcmp(latest.what, old ? "lll" : "lmm") == 0);
    CHECK(latest.pointer == p && latest.bytes == bytes && latest.device == where);
    CHECK(latest.allocated == 11 && latest.reserved == 22);
}

static void out_of_memory(bool old) {
    uint64_t ooms = stats()->ooms;
    fake_c10_oom(old, 77, device(CUDA, 0));
    struct fake_c10_call latest = fake_c10_latest();
    CHECK(strcmp(latest.what, old ? "oom lll" : "oom lmm") == 0);
    CHECK(latest.bytes == 77 && latest.allocated == 33 && latest.reserved == 44);
    CHECK(stats()->ooms == ooms + 1);
    fake_c10_oom(old, 77, device(CPU, 0));
    CHECK(stats()->ooms == ooms + 1);
}

static void blocks(bool old) {
    char *segment = NULL;
    uint64_t unmatched = check_file() ? check_file()->process.unmatched_blocks : 0;
    OK(fake_c10_segment((void **)&segment, 2 * MIB));
    CHECK(stats()->reserved_bytes.current == 2 * MIB && stats()->segments.current == 1);
    CHECK(stats()->other_bytes.current == 0);
    report(old, segment, 512 * KIB, device(CUDA, 0));
    CHECK(stats()->allocated_bytes.current == 512 * KIB && stats()->blocks.current == 1);
    report(old, segment + 512 * KIB, 64 * KIB, device(CUDA, -1)); /* the current device */
    CHECK(stats()->allocated_bytes.current == 576 * KIB && stats()->blocks.current == 2);
    report(old, segment + MIB, 64 * KIB, device(CPU, 0)); /* host memory: not ours to count */
    CHECK(stats()->allocated_bytes.current == 576 * KIB);
    CHECK(check_file()->process.unmatched_blocks == unmatched);
    report(old, segment + 64 * MIB, 64 * KIB, device(CUDA, 0));        /* in no segment */
    report(old, segment + MIB, -(int64_t)(64 * KIB), device(CUDA, 0)); /* not handed out */
    CHECK(check_file()->process.unmatched_blocks == unmatched + 2);
    report(old, segment, -(int64_t)(512 * KIB), device(CUDA, 0));
    report(old, segment + 512 * KIB, -(int64_t)(64 * KIB), device(CUDA, 0));
    CHECK(stats()->allocated_bytes.current == 0 && stats()->blocks.current == 0);
    CHECK(stats()->releasable_bytes.current == 2 * MIB);
    OK(fake_c10_release(segment));
    CHECK(stats()->reserved_bytes.current == 0 && stats()->held_bytes.current == 0);
}

/* More streams than vramgc files events of used the block: it is free when it is handed out again,
 * not when those that were filed have passed. */
static void many_streams(void) {
    enum { EVENTS = 70 };
    cudaEvent_t events[EVENTS];
    char *segment = NULL;
    uint64_t pending = stats()->pending_frees;
    OK(fake_c10_segment((void **)&segment, 2 * MIB));
    report(false, segment, 512 * KIB, device(CUDA, 0));
    for (int i = 0; i < EVENTS; i++) {
        OK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
        OK(fake_c10_event(events[i]));
    }
    report(false, segment, -(int64_t)(512 * KIB), device(CUDA, 0));
    CHECK(stats()->pending_frees == pending + 1 && stats()->allocated_bytes.current == 0);
    for (int i = 0; i < EVENTS - 1; i++)
        OK(cudaEventSynchronize(events[i]));
    CHECK(stats()->active_bytes.current == 512 * KIB);
    OK(cudaEventSynchronize(events[EVENTS - 1]));
    report(false, segment, 512 * KIB, device(CUDA, 0));
    CHECK(stats()->active_bytes.current == 512 * KIB && stats()->blocks.current == 1);
    report(false, segment, -(int64_t)(512 * KIB), device(CUDA, 0));
    OK(fake_c10_release(segment));
}

static cudaEvent_t event_of_program(void) {
    cudaEvent_t event = NULL;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(fake_c10_event(event));
    return event;
}

/* torch.Event is recorded from within libc10_cuda too, and nobody need ask for it. */
static void events_of_the_program(void) {
    char *segment = NULL;
    OK(fake_c10_segment((void **)&segment, 2 * MIB));
    report(false, segment, 512 * KIB, device(CUDA, 0));
    OK(cudaEventDestroy(event_of_program()));
    report(false, segment, -(int64_t)(512 * KIB), device(CUDA, 0));
    CHECK(stats()->active_bytes.current == 0); /* gone before the block was given back */
    report(false, segment, 512 * KIB, device(CUDA, 0));
    cudaEvent_t event = event_of_program();
    OK(fake_c10_event(event)); /* again */
    report(false, segment, -(int64_t)(512 * KIB), device(CUDA, 0));
    CHECK(stats()->active_bytes.current == 512 * KIB);
    OK(cudaEventDestroy(event));
    CHECK(stats()->active_bytes.current == 0);
    report(false, segment, 512 * KIB, device(CUDA, 0));
    event = event_of_program();
    OK(fake_c10_event(event));
    report(false, segment, -(int64_t)(512 * KIB), device(CUDA, 0));
    OK(cudaEventSynchronize(event));
    CHECK(stats()->active_bytes.current == 0);
    OK(cudaEventDestroy(event));
    OK(fake_c10_release(segment));
}

/* An event that an earlier block of the same address waited for says nothing of a later one. */
static void event_of_an_earlier_block(void) {
    char *segment = NULL;
    OK(fake_c10_segment((void **)&segment, 2 * MIB));
    report(false, segment, 512 * KIB, device(CUDA, 0));
    cudaEvent_t earlier = event_of_program();
    report(false, segment, -(int64_t)(512 * KIB), device(CUDA, 0));
    report(false, segment, 512 * KIB, device(CUDA, 0)); /* PyTorch did not wait for it */
    cudaEvent_t later = event_of_program();
    report(false, segment, -(int64_t)(512 * KIB), device(CUDA, 0));
    OK(cudaEventSynchronize(earlier));
    CHECK(stats()->active_bytes.current == 512 * KIB);
    OK(cudaEventSynchronize(later));
    CHECK(stats()->active_bytes.current == 0);
    OK(cudaEventDestroy(earlier));
    OK(cudaEventDestroy(later));
    OK(fake_c10_release(segment));
}

int main(void) {
    blocks(false);
    blocks(true);
    many_streams();
    events_of_the_program();
    event_of_an_earlier_block();
    out_of_memory(false);
    out_of_memory(true);
    return check_result("c10_blocks");
}
