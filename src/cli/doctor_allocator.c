/* doctor_allocator.c: what is wrong with PyTorch's allocator setting before PyTorch says so, or
 * where it says nothing. It knows the keys of PyTorch 2.0 to 2.15. */
#include "base/parse.h"
#include "cli/doctor_checks.h"
#include "cli/finding.h"
#include "base/base.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char *const keys[] = {
    "backend",
    "expandable_segments",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "garbage_collection_threshold",
    "graph_capture_record_stream_reuse",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "max_split_size_mb",
    "per_process_memory_fraction",
    "pinned_free_catch_all",
    "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "roundup_bypass_threshold_mb",
    "roundup_power2_divisions",
    "throw_on_cudamalloc_oom",
};

static const char *key(size_t index) {
    return keys[index];
}

struct conf {
    char expandable[32], split[32], threshold[32], fraction[32], backend[32], round[32], cached[32];
};

static void remember(struct conf *conf, const char *name, const char *value) {
    char *to = strcmp(name, "expandable_segments") == 0             ? conf->expandable
               : strcmp(name, "max_split_size_mb") == 0             ? conf->split
               : strcmp(name, "garbage_collection_threshold") == 0  ? conf->threshold
               : strcmp(name, "per_process_memory_fraction") == 0   ? conf->fraction
               : strcmp(name, "backend") == 0                       ? conf->backend
               : strcmp(name, "pinned_max_round_threshold_mb") == 0 ? conf->round
               : strcmp(name, "pinned_max_cached_size_mb") == 0     ? conf->cached
                                                                    : NULL;
    if (to)
        text_copy(to, sizeof conf->backend, value);
}

static void check_key(const char *variable, const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        if (strcmp(keys[i], name) == 0)
            return;
    const char *nearest = nearest_word(name, ARRAY_LENGTH(keys), key);
    finding(MARK_WRONG, "allocator", "%s: PyTorch knows no %s, and does not start%s%s%s", variable,
            name, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

/* name:value,name:[a:1,b:2] without spaces. */
static void read_conf(const char *variable, const char *text, struct conf *conf) {
    while (*text) {
        char name[64] = "", value[64] = "";
        size_t length = strcspn(text, ":,"), rest = 0;
        strncat(name, text + strspn(text, " "),
                min_u64(length - min_u64(length, strspn(text, " ")), sizeof name - 1));
        if (text[length] == ':') {
            const char *from = text + length + 1;
            rest = *from == '[' ? strcspn(from, "]") + (strchr(from, ']') != NULL)
                                : strcspn(from, ",");
            strncat(value, from, min_u64(rest, sizeof value - 1));
            rest++;
        }
        check_key(variable, name);
        remember(conf, name, value);
        text += length + rest;
        text += strspn(text, ", ");
    }
}

static void check_together(const struct conf *conf) {
    bool expandable = strcmp(conf->expandable, "True") == 0;
    if (expandable && *conf->split)
        finding(MARK_WRONG, "allocator",
                "max_split_size_mb does nothing good beside expandable_segments:True: remove it");
    else if (*conf->split)
        finding(
            MARK_NOTE, "allocator",
            "max_split_size_mb keeps large blocks whole, which costs memory; vramgc run takes it "
            "away where it chooses expandable_segments");
    double threshold = strtod(conf->threshold, NULL);
    if (*conf->threshold && (threshold <= 0 || threshold >= 1)) /* SD.Next's 100 % is 1.00 */
        finding(MARK_WRONG, "allocator",
                "garbage_collection_threshold:%s: PyTorch takes only what is above 0 and below 1, "
                "and does not start",
                conf->threshold);
    else if (*conf->threshold && !*conf->fraction)
        finding(MARK_NOTE, "allocator",
                "garbage_collection_threshold does nothing until the program sets a memory "
                "fraction, as web UIs do not; VRAMGC_THRESHOLD is what you look for");
    if (strcmp(conf->backend, "cudaMallocAsync") == 0)
        finding(
            MARK_NOTE, "allocator",
            "backend:cudaMallocAsync: the driver's pool keeps what is freed; see --async pages");
    if (*conf->round && (!*conf->cached || atof(conf->cached) > atof(conf->round)))
        finding(MARK_NOTE, "allocator",
                "pinned_max_round_threshold_mb:%s: PyTorch 2.13 then hands out page-locked blocks "
                "that are too small, and data is lost; add pinned_max_cached_size_mb:%s there",
                conf->round, conf->round);
}

void doctor_allocator(void) {
    static const char *const variables[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
    struct conf conf = {0};
    size_t wrong = finding_wrong_count();
    bool any = false;
    for (size_t i = 0; i < ARRAY_LENGTH(variables); i++) {
        const char *value = getenv(variables[i]);
        if (!value || !*value)
            continue;
        any = true;
        read_conf(variables[i], value, &conf);
        if (finding_wrong_count() == wrong)
            finding(MARK_OK, "allocator", "%s=%s", variables[i], value);
    }
    check_together(&conf);
    if (!any)
        finding(MARK_OK, "allocator", "no setting of your own: vramgc run chooses one");
}
