/* other_ooms.c: see other_ooms.h. It must not count what the report does not call an out-of-memory:
 * where PyTorch has told of errors, a refusal to other code is none. */
#include "judge/other_ooms.h"

struct causes {
    size_t counts[CAUSES];
    size_t sum;
};

static void count(struct causes *causes, const struct stats_file *record, const struct oom *told) {
    for (size_t i = 0; i < record->refusal_count; i++) {
        const struct vramgc_refusal *refusal = record->refusals[i];
        if (!is_told_with(told, refusal))
            continue;
        causes->counts[cause_as_told(oom_of(record, refusal).cause)]++;
        causes->sum++;
    }
}

void other_ooms_say(struct text *text, struct stats_file *const *records, size_t record_count,
                    const struct oom *told, uint64_t all) {
    const enum oom_cause this = cause_as_told(told->cause);
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
            text_format(text, ", %s %zux", cause_name((enum oom_cause)cause), causes.counts[cause]);
    text_add(text, ".");
}

/* What the pool or a MemPool keeps has the same remedy, and it is told. */
static bool has_told_it(const struct oom *told) {
    return told->cause == CAUSE_FRAGMENTATION || told->cause == CAUSE_POOL ||
           told->cause == CAUSE_PRIVATE;
}

void other_ooms_say_todo(struct text *text, struct stats_file *const *records, size_t record_count,
                         const struct oom *told) {
    struct causes causes = {0};
    if (has_told_it(told) || told->refusal->reported == VRAMGC_WENT_ON)
        return;
    for (size_t i = 0; i < record_count; i++)
        if (records[i]->file->needs_proof == 1)
            count(&causes, records[i], told);
    if (causes.counts[CAUSE_FRAGMENTATION])
        text_add(text, " Against fragmentation `vramgc prove` is the remedy.");
}
