/* soft_oom.c: see soft_oom.h. It must say no whenever it does not know. */
#include "govern/soft_oom.h"

enum soft_oom soft_oom_check(const struct soft_oom_facts *facts) {
    if (!facts->from_allocator)
        return SOFT_OOM_NOT_ALLOCATOR;
    if (!facts->stream_asked)
        return SOFT_OOM_UNCACHED;
    if (facts->stream_capturing || facts->capturing)
        return SOFT_OOM_CAPTURING;
    if (facts->induced_bytes)
        return SOFT_OOM_INDUCED;
    if (facts->frees_since_block || facts->asked_again)
        return SOFT_OOM_RETRY;
    if (facts->expandable)
        return SOFT_OOM_EXPANDABLE;
    if (facts->broken)
        return SOFT_OOM_BROKEN;
    if (!facts->releasable_bytes || facts->releasable_bytes < facts->min_gain_bytes)
        return SOFT_OOM_NO_GAIN;
    return SOFT_OOM_SAFE;
}

const char *soft_oom_name(enum soft_oom verdict) {
    static const char *const names[SOFT_OOM_VERDICTS] = {
        [SOFT_OOM_SAFE] = "safe",
        [SOFT_OOM_NOT_ALLOCATOR] = "the caller is not PyTorch's allocator",
        [SOFT_OOM_UNCACHED] = "PyTorch's allocator runs without its cache",
        [SOFT_OOM_CAPTURING] = "a graph is being captured",
        [SOFT_OOM_RETRY] = "the allocator has just emptied its cache",
        [SOFT_OOM_INDUCED] = "this request was answered so already",
        [SOFT_OOM_EXPANDABLE] = "segments are expandable",
        [SOFT_OOM_BROKEN] = "an earlier one became a real error",
        [SOFT_OOM_NO_GAIN] = "nothing would come back",
        [SOFT_OOM_AT_WORK] = "the GPU is at work",
    };
    return verdict < SOFT_OOM_VERDICTS ? names[verdict] : "?";
}
