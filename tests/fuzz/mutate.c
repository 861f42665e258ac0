/* mutate.c: mutate [SECONDS [SEED]]: drives fuzz_report.c without libFuzzer. The inputs depend on
 * the seed only, so a failure is repeated by giving the same one; how many are tried depends on the
 * time. Half of the patches hit the fields that steer the reader: counts, sequences, kinds, texts'
 * ends. */
#include "vramgc_format.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    KINDS = 8,
    MOST_PATCHES = 24,
    PATCH_HEAD = 5,
    FILE_INPUT = 2 + MOST_PATCHES * (PATCH_HEAD + 256)
};

static struct { uint64_t random; } self;

/* xorshift64*, Vigna 2016. */
static uint64_t next_random(void) {
    self.random ^= self.random >> 12;
    self.random ^= self.random << 25;
    self.random ^= self.random >> 27;
    return self.random * 0x2545f4914f6cdd1dULL;
}

#define AT(field) ((uint32_t)offsetof(struct vramgc_file, field))

static uint32_t steering_offset(void) {
    static const uint32_t offsets[] = {AT(magic),
                                       AT(format_version),
                                       AT(device_count),
                                       AT(file_bytes),
                                       AT(pid),
                                       AT(process_start),
                                       AT(started_ns),
                                       AT(latest_ns),
                                       AT(end),
                                       AT(end_status),
                                       AT(cuda_driver),
                                       AT(version),
                                       AT(run_id),
                                       AT(command_line),
                                       AT(alloc_conf_why),
                                       AT(mode),
                                       AT(mode_why),
                                       AT(setting_count),
                                       AT(settings[0].name),
                                       AT(settings[31].origin),
                                       AT(hook_count),
                                       AT(hooks[191].name),
                                       AT(actions_written),
                                       AT(actions[0].sequence),
                                       AT(actions[0].time_ns),
                                       AT(actions[0].kind),
                                       AT(actions[1].device),
                                       AT(actions[1023].function),
                                       AT(refusals_written),
                                       AT(refusals[0].sequence),
                                       AT(refusals[0].cause),
                                       AT(refusals[0].hook),
                                       AT(refusals[0].stack),
                                       AT(marks_written),
                                       AT(marks[0].sequence),
                                       AT(marks[0].time_ns),
                                       AT(marks[255].label),
                                       AT(jobs_written),
                                       AT(stack_count),
                                       AT(stacks[0].frame_count),
                                       AT(stacks[0].frames[31].text),
                                       AT(stacks[255].frame_count),
                                       AT(devices[0].present),
                                       AT(devices[0].total_bytes),
                                       AT(devices[0].name),
                                       AT(devices[0].bus_id),
                                       AT(devices[0].compute_major),
                                       AT(devices[0].stats),
                                       AT(devices[0].stats.used_bytes),
                                       AT(devices[0].stats.held_over_live_sum),
                                       AT(devices[0].sample_count),
                                       AT(devices[0].sample_step_ns),
                                       AT(devices[0].samples[0].time_ns),
                                       AT(devices[0].samples[127].time_ns),
                                       AT(devices[0].samples[127].held_bytes),
                                       AT(devices[15].present),
                                       AT(devices[15].sample_count)};
    return offsets[next_random() % (sizeof offsets / sizeof offsets[0])];
}

static size_t add_patch(uint8_t *data) {
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      3,
                                      17,
                                      256,
                                      1023,
                                      1024,
                                      1025,
                                      INT32_MAX,
                                      UINT32_MAX,
                                      INT64_MAX,
                                      (uint64_t)1 << 63,
                                      UINT64_MAX - 1,
                                      UINT64_MAX};
    uint32_t offset = next_random() % 2 ? steering_offset()
                                        : (uint32_t)(next_random() % sizeof(struct vramgc_file));
    uint64_t value = next_random() % 3 ? values[next_random() % (sizeof values / sizeof values[0])]
                                       : next_random();
    size_t count = next_random() % 4 ? 1 + next_random() % 8 : 200 + next_random() % 56;
    memcpy(data, &offset, sizeof offset);
    data[4] = (uint8_t)count;
    for (size_t i = 0; i < count; i++)
        data[PATCH_HEAD + i] = (uint8_t)(i < 8 ? value >> (8 * i) : next_random());
    return PATCH_HEAD + count;
}

static size_t make_file_input(uint8_t *data) {
    size_t size = 2, patches = next_random() % MOST_PATCHES;
    data[0] = (uint8_t)next_random();
    data[1] = (uint8_t)next_random();
    for (size_t i = 0; i < patches; i++)
        size += add_patch(data + size);
    return size;
}

/* Before all others each kind of file with each other kind, as they are. */
static size_t make_input(uint8_t *data, unsigned long long number) {
    if (number < KINDS * KINDS) {
        const uint8_t pair[] = {2, 0, (uint8_t)(number / KINDS), 0, (uint8_t)(number % KINDS), 0};
        memcpy(data, pair, sizeof pair);
        return sizeof pair;
    }
    size_t first = make_file_input(data + 2);
    data[0] = (uint8_t)first;
    data[1] = (uint8_t)(first >> 8);
    return 2 + first + make_file_input(data + 2 + first);
}

int main(int argc, char **argv) {
    enum { ENOUGH = 200 }; /* fewer would show nothing, however slow the machine is */
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 10;
    unsigned long long seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, tried = 0;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        static uint8_t data[2 + 2 * FILE_INPUT];
        self.random = (seed + tried) * 0x9e3779b97f4a7c15ULL + 1;
        next_random();
        LLVMFuzzerTestOneInput(data, make_input(data, tried));
        tried++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 <
                 seconds ||
             tried < ENOUGH);
    printf("fuzz: %llu pairs of damaged files, seeds %llu to %llu, none did harm\n", tried, seed,
           seed + tried - 1);
    return 0;
}
