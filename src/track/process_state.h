/* process_state.h: what holds for the whole process: its settings, read once, at the first use of
 * CUDA; and whether it is parked. */
#pragma once

#include "base/options.h"
#include "policy/policy.h"
#include "store/store.h"

const struct options *settings_options(void);
struct policy_settings settings_policy(void);

/* As base/standards.h says, unless a test has set it otherwise. */
struct standards {
    uint64_t rest_ns, sample_ns, min_gain_bytes, hysteresis_percent, record_bytes;
};
const struct standards *settings_standards(void);

/* Reads them from the environment if that was not done; recording is inert from then on where they
 * say so. One thread at a time. Complaints wait until recording begins: this may be a process that
 * only asks for a device. */
void settings_from_environment(void);
void settings_complain(void);

/* Writes them into the statistics file. */
void settings_store(void);

/* The file has moved: the limits in it hold (card/reading.h). */
void settings_limit(void);

/* While the driver keeps this process off the card (`vramgc park`) each of its calls stands there
 * until the process is woken. So our own threads must not call it; and who only asks what is free
 * is told what was told last: a web UI's page asks so all the time, by the thread that would take
 * the next job. */
bool parked_now(void);

/* True: a process beside this one parks it when it rests, and wakes it by its next call. */
static inline bool parked_at_rest(void) {
    return figure_get(&store_file()->parker) != 0;
}

/* Who stands in between for long is seen to, and the program is woken. Returns where the question
 * is counted, which is to be handed to the end of it: the file may move meanwhile. */
static inline uint64_t *parked_question_begins(void) {
    uint64_t *asking = &store_file()->asking;
    __atomic_fetch_add(asking, 1, __ATOMIC_SEQ_CST);
    return asking;
}

static inline void parked_question_ends(uint64_t *asking) {
    uint64_t before = __atomic_fetch_sub(asking, 1, __ATOMIC_SEQ_CST);
    if ((uint32_t)before == 1)
        __atomic_fetch_add(asking, VRAMGC_ANSWERED, __ATOMIC_SEQ_CST);
}

/* The program asks what the current device has free. True: it is answered. Else the driver is to be
 * asked, and `ends` to be called, with 0 where it did not say. */
bool parked_info_begins(size_t *free_bytes, size_t *total_bytes);
void parked_info_ends(size_t free_bytes);
