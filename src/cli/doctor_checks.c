/* doctor_checks.c: see doctor_checks.h. Of the driver a child asks, as in `vramgc prove`: a fault
 * there ends only it. */
#include "cli/doctor_checks.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/control_group.h"
#include "base/options.h"
#include "base/parse.h"
#include "base/state_folder.h"
#include "base/text.h"
#include "cli/alert_commands.h"
#include "cli/preload.h"
#include "judge/who.h"
#include "prove/child.h"
#include "prove/park_driver.h"
#include "read/units.h"
#include "show/summary_lines.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    size_t wrong_count;
    FILE *held; /* NULL: lines do not wait */
    char *text; /* what they are, once it is closed */
    size_t bytes;
} self;

void finding(enum mark mark, const char *about, const char *format, ...) {
    static const char *const words[] = {"ok", "note", "WRONG"};
    char line[1024], heading[64];
    FORMAT_ARGUMENTS(line, format);
    clean_text(line, sizeof line);
    snprintf(heading, sizeof heading, "%-6s %-11s ", words[mark], about);
    FILE *out = self.held ? self.held : stdout;
    if (isatty(STDOUT_FILENO))
        summary_wrapped_at(out, (int)strlen(heading), heading, line);
    else /* for grep, a line each */
        fprintf(out, "%s%s\n", heading, line);
    fflush(stdout);
    self.wrong_count += mark == MARK_WRONG;
}

void finding_hold(void) {
    self.held = open_memstream(&self.text, &self.bytes);
}

void finding_release(void) {
    if (!self.held)
        return;
    fclose(self.held);
    self.held = NULL;
    fputs(self.text ? self.text : "", stdout);
    free(self.text);
    self.text = NULL;
}

size_t finding_wrong_count(void) {
    return self.wrong_count;
}

/* ---- around the program ---- */

static void check_library(void) {
    char path[PATH_MAX], error[PATH_MAX + 256];
    if (preload_library(path, sizeof path, error, sizeof error))
        finding(MARK_OK, "library", "%s", path);
    else
        finding(MARK_WRONG, "library", "%s", error);
}

/* The loader says one line of what it does not find, and goes on without it. False: nothing is to
 * be said of this one alone. */
static bool check_preloaded(const char *path) {
    if (strchr(path, '/') && access(path, R_OK))
        finding(MARK_WRONG, "LD_PRELOAD", "%s is not there: the loader leaves it out", path);
    else if (strstr(path, "libvramgc.so"))
        finding(MARK_OK, "LD_PRELOAD", "%s: also without vramgc run", path);
    else if (strstr(path, "tcmalloc") || strstr(path, "jemalloc") || strstr(path, "mimalloc"))
        finding(MARK_OK, "LD_PRELOAD", "%s, for host memory; vramgc goes before it", path);
    else
        return false;
    return true;
}

static void check_preloads(void) {
    const char *list = getenv("LD_PRELOAD");
    char path[PATH_MAX], first[PATH_MAX] = "";
    size_t others = 0;
    if (!list || !*list)
        finding(MARK_OK, "LD_PRELOAD",
                "empty; where a webui.sh would add TCMalloc, vramgc run does");
    while (list && *list) {
        size_t length = strcspn(list, " :");
        snprintf(path, sizeof path, "%.*s", (int)length, list);
        if (length > 0 && !check_preloaded(path) && others++ == 0)
            text_copy(first, sizeof first, path);
        list += length;
        list += *list != 0;
    }
    if (others == 1)
        finding(MARK_NOTE, "LD_PRELOAD", "%s: vramgc goes before it", first);
    else if (others > 1)
        finding(MARK_NOTE, "LD_PRELOAD", "%s and %zu more: vramgc goes before them", first,
                others - 1);
}

/* Another than the library and the driver. */
static void *of_another(void *object, const char *symbol, Dl_info *info) {
    void *found = object ? dlsym(object, symbol) : NULL;
    bool told = found && dladdr(found, info) && info->dli_fname;
    const char *file = told ? text_after_folder(info->dli_fname) : "";
    bool another = told && strncmp(file, "libvramgc.so", strlen("libvramgc.so")) != 0 &&
                   strncmp(file, "libcuda", strlen("libcuda")) != 0;
    return another ? found : NULL;
}

/* PyTorch calls a library that hooks the runtime, or the driver together with dlsym. A library that
 * is preloaded there is preloaded here, and stays. */
static bool goes_round(void *object, Dl_info *asked) {
    Dl_info other;
    if (!of_another(object, "cudaMalloc", asked) &&
        !(of_another(object, "cuMemAlloc_v2", asked) && of_another(object, "dlsym", &other) &&
          other.dli_fbase == asked->dli_fbase))
        return false;
    return !of_another(object, "cuMemCreate", &other) || other.dli_fbase != asked->dli_fbase;
}

static void check_interposers(void) {
    struct link_map *map = NULL;
    void *program = dlopen(NULL, RTLD_LAZY);
    bool told = !program || dlinfo(program, RTLD_DI_LINKMAP, &map) != 0;
    for (; map && !told; map = map->l_next) {
        Dl_info asked;
        void *object = *map->l_name ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if ((told = goes_round(object, &asked)))
            finding(MARK_NOTE, "interposer",
                    "%s answers for the driver, but not for cuMemCreate: vramgc chooses neither "
                    "compact nor expandable segments, which would go round it",
                    text_after_folder(asked.dli_fname));
    }
}

static void tell_setting(const char *sentence, void *context) {
    (void)context;
    finding(MARK_WRONG, "setting", "%s", sentence);
}

static void check_settings(void) {
    struct options options;
    struct alert_rules rules;
    char why[256];
    bool fine = options_read(&options, NULL, tell_setting, NULL) == 0;
    if (!alert_commands_read(&rules, options.on, why, sizeof why))
        finding(MARK_WRONG, "setting", "VRAMGC_ON: %s (see `vramgc help watch`)", why);
    else if (fine)
        finding(MARK_OK, "settings", "all VRAMGC_ variables are understood; mode %s",
                getenv("VRAMGC_MODE") ? getenv("VRAMGC_MODE") : "auto");
    if (options.mode == MODE_OFF)
        finding(MARK_WRONG, "settings", "VRAMGC_MODE is off: the library does nothing");
    TEXT_OVER(text, words, 160);
    const struct vramgc_limits limits = {options.headroom, options.cap};
    if (shared_card_say_limits(&text, &limits))
        finding(MARK_NOTE, "limits", "%s", words);
    if (options.peers == PEERS_OFF)
        finding(MARK_NOTE, "neighbours",
                "VRAMGC_PEERS is off: programs here neither give each other idle memory of a card, "
                "nor get any");
}

static void check_folder(void) {
    char pattern[2048], folder[1024];
    const char *out = getenv("VRAMGC_OUT");
    if (out && strcmp(out, "auto") != 0)
        finding(MARK_NOTE, "statistics", "VRAMGC_OUT=%s", *out ? out : "(empty: none are kept)");
    else if (!state_pattern("auto", pattern, sizeof pattern))
        finding(MARK_WRONG, "statistics",
                "no folder for them can be made: set XDG_STATE_HOME or VRAMGC_OUT");
    else if (state_folder(folder, sizeof folder) && strncmp(pattern, folder, strlen(folder)) == 0)
        finding(MARK_OK, "statistics", "in %s", folder);
    else
        finding(MARK_NOTE, "statistics", "%s: the state folder cannot be written to", pattern);
}

static void check_surroundings(void) {
    uint64_t limit_bytes = control_group_read("").limit_bytes;
    if (access("/dev/dxg", F_OK) == 0)
        finding(MARK_NOTE, "WSL", "Windows may move memory of the card to host memory by itself");
    bool container = access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
    if (limit_bytes)
        finding(MARK_NOTE, "limit",
                "host memory is limited to %s here: loading a model needs some of it",
                show_bytes(limit_bytes).text);
    char folder[1024];
    if (container && state_folder(folder, sizeof folder))
        finding(MARK_NOTE, "container",
                "proof and statistics are lost with this container unless %s is mounted", folder);
}

void doctor_host(void) {
    check_library();
    check_preloads();
    check_interposers();
    check_settings();
    check_folder();
    check_surroundings();
}

/* ---- cards and driver ---- */

static void tell_card(const char *about, const struct prove_card *card) {
    static const char *const proofs[] = {
        [PROOF_PASSED] = "proven: mode auto is compact",
        [PROOF_FAILED] = ("its proof failed, mode auto is flush; "
                          "`vramgc prove --share` prints it for a bug report"),
        [PROOF_OTHER] =
            "tested with another driver or vramgc: the next `vramgc run` tests it again",
        [PROOF_NONE] = "not tested yet: the next `vramgc run` does it, or `vramgc prove`",
    };
    struct proof proof = proof_look(&card->key);
    enum proof_state state = proof.state;
    const char *park = park_objection(proof.park);
    struct options options;
    TEXT_OVER(text, driver, 64);
    driver_version_say_both(&text, card->key.cuda_version, card->key.version);
    finding(state == PROOF_PASSED ? MARK_OK : MARK_NOTE, about, "%s%s, driver %s; %s", card->name,
            card->simulated ? ", simulated" : "", driver, proofs[state]);
    options_read(&options, NULL, NULL, NULL);
    if (options.park)
        finding(park ? MARK_WRONG : MARK_OK, about, "VRAMGC_PARK: %s",
                park ? park : "the driver takes programs off the card");
}

/* One that is full is told as such; where it is too full for a context, nothing can begin there.
 * What else keeps it from being tried now, as much of it in use, is nothing wrong. */
static void look_at_cards(struct findings *findings, int count) {
    for (int i = 0; i < count; i++) {
        struct prove_card *card = &findings->card;
        char about[16];
        snprintf(about, sizeof about, "gpu%d", i);
        *card = (struct prove_card){0};
        child_look(i, findings);
        if (*card->name)
            tell_card(about, card);
        if (card->full)
            finding(card->total_bytes ? MARK_NOTE : MARK_WRONG, about, "the card is full: %s%s%s",
                    card->busy, *card->user ? "; " : "", card->user);
        else if (!*card->name)
            finding(MARK_WRONG, "gpu", "gpu%d: %s", i, card->busy);
    }
}

/* ---- the driver ---- */

/* Looked for before the driver's library is loaded: started by root it makes /dev/nvidiactl itself,
 * also without a driver. */
struct traces {
    bool module; /* the kernel's part of the driver is loaded */
    bool device; /* and may be reached from here; WSL has its own */
};

static struct traces find_traces(void) {
    return (struct traces){
        .module = access("/proc/driver/nvidia/version", F_OK) == 0,
        .device = access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0,
    };
}

/* That there is no driver is said once, and only where it is so. */
static void no_device(const struct traces *traces, const char *why) {
    static const char no_driver[] = "no NVIDIA driver here: ";
    if (strncmp(why, no_driver, strlen(no_driver)) == 0)
        why += strlen(no_driver);
    if (traces->module && !traces->device)
        finding(MARK_WRONG, "driver",
                "%s; the NVIDIA driver is loaded, but there is no /dev/nvidiactl: the container "
                "was started without --gpus all",
                why);
    else if (!traces->module && access("/dev/dxg", F_OK))
        finding(
            MARK_WRONG, "driver",
            "%s: the NVIDIA driver is not loaded on this machine. Install it, or load it; start "
            "a container with --gpus all",
            why);
    else
        finding(MARK_WRONG, "driver", "%s", why);
}

/* Within one major version PyTorch runs on older drivers, too. */
static void compare_cuda(const char *torch_cuda, int driver_version) {
    int needed = 0, cuda = driver_version / 1000;
    char version[DRIVER_VERSION_BYTES], driver[64];
    struct text text = TEXT_IN(driver);
    if (sscanf(torch_cuda, "%d", &needed) != 1 || cuda <= 0 || needed <= cuda)
        return;
    driver_version_read(version, sizeof version);
    driver_version_say_both(&text, driver_version, version);
    text = TEXT_IN(version);
    if (driver_branch(needed * 1000))
        text_format(&text, " to %d or newer", driver_branch(needed * 1000));
    finding(MARK_WRONG, "PyTorch",
            "it is made for CUDA %s, the driver is %s: PyTorch will find no GPU; update the "
            "driver%s, or install the PyTorch for CUDA %d",
            torch_cuda, driver, version, cuda);
}

void doctor_cards(const char *torch_cuda) {
    setenv("VRAMGC_MODE", "off", 1); /* for our children: a library of ours stays out of it */
    struct traces traces = find_traces();
    struct findings *findings = findings_new();
    const char *missing = driver_load();
    if (missing || !findings) {
        no_device(&traces, missing ? missing : "no memory");
        return;
    }
    int count = child_count_devices(findings);
    if (count == 0)
        no_device(&traces,
                  *findings->card.busy ? findings->card.busy : "the driver sees no device");
    compare_cuda(torch_cuda, findings->driver_version);
    look_at_cards(findings, count);
    memory_unmap(findings, sizeof *findings);
}

/* ---- PyTorch's allocator ---- */

static const char *const keys[] = {
#define KEY(name) #name,
#include "cli/alloc_keys.def"
#undef KEY
};

static char values[ARRAY_LENGTH(keys)][32]; /* of each key; "": it is not set */

static const char *key(size_t index) {
    return keys[index];
}

/* NULL: PyTorch knows no such key. */
static char *value_of_key(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        if (strcmp(keys[i], name) == 0)
            return values[i];
    return NULL;
}

static void take_conf_item(const char *variable, const char *name, const char *value) {
    char *to = value_of_key(name);
    if (to) {
        text_copy(to, sizeof *values, value);
        return;
    }
    const char *nearest = nearest_word(name, ARRAY_LENGTH(keys), key);
    finding(MARK_WRONG, "allocator", "%s: PyTorch knows no %s, and does not start%s%s%s", variable,
            name, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

/* name:value,name:[a:1,b:2] without spaces. */
static void read_conf(const char *variable, const char *text) {
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
        take_conf_item(variable, name, value);
        text += length + rest;
        text += strspn(text, ", ");
    }
}

static void check_together(void) {
    bool expandable = strcmp(value_of_key("expandable_segments"), "True") == 0;
    bool split = *value_of_key("max_split_size_mb");
    const char *collected = value_of_key("garbage_collection_threshold");
    const char *round = value_of_key("pinned_max_round_threshold_mb");
    const char *cached = value_of_key("pinned_max_cached_size_mb");
    if (expandable && split)
        finding(MARK_WRONG, "allocator",
                "max_split_size_mb does nothing good beside expandable_segments:True: remove it");
    else if (split)
        finding(
            MARK_NOTE, "allocator",
            "max_split_size_mb keeps large blocks whole, which costs memory; vramgc run takes it "
            "away where it chooses expandable_segments");
    double threshold = strtod(collected, NULL);
    if (*collected && (threshold <= 0 || threshold >= 1)) /* SD.Next's 100 % is 1.00 */
        finding(MARK_WRONG, "allocator",
                "garbage_collection_threshold:%s: PyTorch takes only what is above 0 and below 1, "
                "and does not start",
                collected);
    else if (*collected && !*value_of_key("per_process_memory_fraction"))
        finding(MARK_NOTE, "allocator",
                "garbage_collection_threshold does nothing until the program sets a memory "
                "fraction, as web UIs do not; VRAMGC_THRESHOLD is what you look for");
    if (strcmp(value_of_key("backend"), "cudaMallocAsync") == 0)
        finding(
            MARK_NOTE, "allocator",
            "backend:cudaMallocAsync: the driver's pool keeps what is freed; see --async pages");
    if (*round && (!*cached || atof(cached) > atof(round)))
        finding(MARK_NOTE, "allocator",
                "pinned_max_round_threshold_mb:%s: PyTorch 2.13 then hands out page-locked blocks "
                "that are too small, and data is lost; add pinned_max_cached_size_mb:%s there",
                round, round);
}

void doctor_allocator(void) {
    static const char *const variables[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
    size_t wrong = finding_wrong_count();
    bool any = false;
    for (size_t i = 0; i < ARRAY_LENGTH(variables); i++) {
        const char *value = getenv(variables[i]);
        if (!value || !*value)
            continue;
        any = true;
        read_conf(variables[i], value);
        if (finding_wrong_count() == wrong)
            finding(MARK_OK, "allocator", "%s=%s", variables[i], value);
    }
    check_together();
    if (!any)
        finding(MARK_OK, "allocator", "no setting of your own: vramgc run chooses one");
}
