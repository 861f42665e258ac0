/* See config.h. Knows only the environment, nothing of the device. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void complain(const char *name, const char *value, const char *accepted) {
    fprintf(stderr, "simgpu: %s=%s is not %s; the default is used\n", name, value, accepted);
}

/* The text of a setting, or NULL if it is absent or empty. */
static const char *text_of(const char *name) {
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* Power of 1024 that a unit stands for, or -1. */
static int unit_power(const char *unit) {
    static const char letters[] = "KMGT";
    if (unit[0] == '\0' || strcasecmp(unit, "B") == 0)
        return 0;
    for (int i = 0; letters[i] != '\0'; i++) {
        char long_form[] = {letters[i], 'i', 'B', '\0'};
        char short_form[] = {letters[i], '\0'};
        if (strcasecmp(unit, long_form) == 0 || strcasecmp(unit, short_form) == 0)
            return i + 1;
    }
    return -1;
}

/* False: the text is no size. */
static bool parse_size(const char *text, size_t *bytes) {
    char *end;
    double number = strtod(text, &end);
    int power = end == text ? -1 : unit_power(end);
    for (int i = 0; i < power; i++)
        number *= 1024;
    if (power < 0 || !(number >= 0) || number >= (double)(1ull << 50))
        return false;
    *bytes = (size_t)number;
    return true;
}

static size_t read_size(const char *name, size_t fallback) {
    const char *text = text_of(name);
    size_t bytes = fallback;
    if (text != NULL && !parse_size(text, &bytes))
        complain(name, text, "a size such as 24GiB or 512MiB");
    return bytes;
}

static void read_others(struct config *config) {
    const char *text = text_of("SIMGPU_OTHERS");
    char word[64];
    int used;
    config->others_bytes = 0;
    for (size_t i = 0; i < MAX_OTHERS; i++)
        config->others[i] = (struct other){0, 0};
    for (size_t i = 0; text != NULL && i < MAX_OTHERS; i++) {
        struct other *other = &config->others[i];
        if (sscanf(text, "%u:%63[^,]%n", &other->pid, word, &used) != 2 ||
            !parse_size(word, &other->bytes)) {
            complain("SIMGPU_OTHERS", text, "a list such as 812:4GiB,900:1GiB");
            other->bytes = 0;
            return;
        }
        config->others_bytes += other->bytes;
        text = text[used] == ',' ? text + used + 1 : NULL;
    }
}

static long read_number(const char *name, long fallback, long least, long most) {
    const char *text = text_of(name);
    if (text == NULL)
        return fallback;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < least || number > most) {
        char accepted[80];
        snprintf(accepted, sizeof accepted, "a whole number from %ld to %ld", least, most);
        complain(name, text, accepted);
        return fallback;
    }
    return number;
}

static void read_capability(struct config *config) {
    const char *text = text_of("SIMGPU_CC");
    int major, minor, used = 0;
    config->cc_major = 8;
    config->cc_minor = 9;
    if (text == NULL)
        return;
    if (sscanf(text, "%2d.%1d%n", &major, &minor, &used) != 2 || text[used] != '\0' || major < 1) {
        complain("SIMGPU_CC", text, "a compute capability such as 8.9");
        return;
    }
    config->cc_major = major;
    config->cc_minor = minor;
}

/* Index of the setting's text among the accepted words, or 0 (the default). */
static int read_word(const char *name, const char *const words[], const char *accepted) {
    const char *text = text_of(name);
    if (text == NULL)
        return 0;
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    complain(name, text, accepted);
    return 0;
}

/* What a card may be as well: slower, fuller, stricter. */
static void read_hardness(struct config *config) {
    config->overread_bytes = read_size("SIMGPU_OVERREAD", 0);
    config->kernel_us = read_number("SIMGPU_KERNEL_US", 0, 0, 10000000);
    config->get_info_us = read_number("SIMGPU_GET_INFO_US", 0, 0, 1000000);
    config->slow = read_number("SIMGPU_SLOW", 1, 1, 1000);
    config->context_lock = read_number("SIMGPU_CONTEXT_LOCK", 0, 0, 1) != 0;
    config->capture_strict = read_number("SIMGPU_CAPTURE_STRICT", 0, 0, 1) != 0;
    config->page_table_bytes = read_size("SIMGPU_PAGE_TABLE", 0);
    config->local_mem_bytes = read_size("SIMGPU_LOCAL_MEM", 0);
    config->module_mem_bytes = read_size("SIMGPU_MODULE_MEM", 0);
    config->free_lag_ms = read_number("SIMGPU_FREE_LAG_MS", 0, 0, 3600000);
    config->unmap_waits = read_number("SIMGPU_UNMAP_WAITS", 0, 0, 1) != 0;
    config->max_handles = read_number("SIMGPU_MAX_HANDLES", 0, 0, LONG_MAX);
    config->max_address_bytes = read_size("SIMGPU_MAX_ADDRESSES", 0);
}

void config_read(struct config *config) {
    static const char *const latencies[] = {"none", "card", NULL};
    static const char *const cheats[] = {"none",       "stale_page", "lost_access", "early_event",
                                         "park_loses", "host_crash", NULL};
    static const char *const displays[] = {"none", "nvml", "timeout", NULL};
    static const char *const strictness[] = {"report", "abort", NULL};
    config->mem_bytes = read_size("SIMGPU_MEM", (size_t)24 << 30);
    config->context_mem_bytes = read_size("SIMGPU_CONTEXT_MEM", (size_t)256 << 20);
    config->devices = (int)read_number("SIMGPU_DEVICES", 1, 0, MAX_DEVICES);
    read_capability(config);
    config->driver_version = (int)read_number("SIMGPU_DRIVER", 13000, 10000, 99990);
    config->latency = (enum latency_profile)read_word("SIMGPU_LATENCY", latencies, "none or card");
    config->data_limit_bytes = read_size("SIMGPU_DATA_LIMIT", 0);
    config->d2h_zero_bytes = read_size("SIMGPU_D2H_ZERO", 0);
    config->oom_nth = (unsigned long)read_number("SIMGPU_OOM_NTH", 0, 0, LONG_MAX);
    config->fail = text_of("SIMGPU_FAIL");
    config->clock_file = text_of("SIMGPU_CLOCK");
    config->hold_file = text_of("SIMGPU_HOLD");
    config->calls_file = text_of("SIMGPU_CALLS");
    config->asked = (unsigned)read_number("SIMGPU_ASKED", 2, 1, 1000000);
    config->pool_answer_ms = read_number("SIMGPU_POOL_ANSWER_MS", 0, 0, 10000);
    config->fabric = read_number("SIMGPU_FABRIC", 0, 0, 1) != 0;
    config->host_vmm = read_number("SIMGPU_HOST_VMM", 1, 0, 1) != 0;
    config->context_event = read_number("SIMGPU_CONTEXT_EVENT", 1, 0, 1) != 0;
    config->new_forms = read_number("SIMGPU_NEW_FORMS", 0, 0, 1) != 0;
    config->capture_vmm = read_number("SIMGPU_CAPTURE_VMM", 0, 0, 1) != 0;
    config->host_mem_bytes = read_size("SIMGPU_HOST_MEM", 0);
    read_hardness(config);
    config->peer = read_number("SIMGPU_PEER", 1, 0, 1) != 0;
    config->cheat = (enum cheat)read_word("SIMGPU_CHEAT", cheats,
                                          "none, stale_page, lost_access, early_event, "
                                          "park_loses or host_crash");
    config->display = (enum display)read_word("SIMGPU_DISPLAY", displays, "none, nvml or timeout");
    config->strict_abort = read_word("SIMGPU_STRICT", strictness, "report or abort") == 1;
    read_others(config);
    config->log_level = (int)read_number("SIMGPU_LOG", 0, 0, 2);
    config->log_file = text_of("SIMGPU_LOG_FILE");
}
