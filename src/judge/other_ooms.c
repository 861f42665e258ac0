/* other_ooms.c: see other_ooms.h. It must not count what the report does not call an out-of-memory:
 * where PyTorch has told of errors, a refusal to other code is none. */
#include "judge/other_ooms.h"

static const char *const names[CAUSES] = {
    [CAUSE_UNKNOWN] = "not known",
    [CAUSE_FRAGMENTATION] = "fragmentation",
    [CAUSE_POOL] = "the driver's pool",
    [CAUSE_PRIVATE] = "a pool of CUDA graphs or a MemPool",
    [CAUSE_SMALL] = "a card that is too small",
    [CAUSE_GROWTH] = "tensors that grow",
    [CAUSE_PROCESS] = "another process",
    [CAUSE_CODE] = "other code in the program",
    [CAUSE_TOO_LARGE] = "a request larger than the card",
    [CAUSE_DRIVER] = "the driver",
    [CAUSE_LIMIT] = "a limit set for PyTorch",
    [CAUSE_RESERVED] = "a limit set for vramgc",
    [CAUSE_HOST] = "RAM",
};

/* A card that is full by a step of PyTorch's is too small, too. */
static enum oom_cause told_as(enum oom_cause cause) {
    return cause == CAUSE_ROUNDED ? CAUSE_SMALL : cause;
}

struct causes {
    size_t counts[CAUSES];
    size_t sum;
};

static void count(struct causes *causes, const struct stats_file *record, const struct oom *told) {
    for (size_t i = 0; i < record->refusal_count; i++) {
        const struct vramgc_refusal *refusal = record->refusals[i];
        if (!is_told_with(told, refusal))
            continue;
        causes->counts[told_as(oom_of(record, refusal).cause)]++;
        causes->sum++;
    }
}

void other_ooms_say(struct text *text, struct stats_file *const *records, size_t record_count,
                    const struct oom *told, uint64_t all) {
    const enum oom_cause this = told_as(told->cause);
    struct causes causes = {0};
    for (size_t i = 0; i < record_count; i++)
        count(&causes, records[i], told);
    if (causes.counts[this] == causes.sum)
        return;
    if (causes.sum < all) /* the list has room for no more */
        text_format(text, " Of the latest %zu this", causes.sum);
    else
        text_add(text, " This");
    text_format(text, " was the cause %zux", causes.counts[this]);
    for (int cause = 0; cause < CAUSES; cause++)
        if (cause != (int)this && causes.counts[cause])
            text_format(text, ", %s %zux", names[cause], causes.counts[cause]);
    text_add(text, ".");
}
