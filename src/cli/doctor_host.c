/* doctor_host.c: what stands around the program: library, preloads, settings, folders, container.
 */
#include "cli/doctor_checks.h"
#include "cli/alert_commands.h"
#include "cli/finding.h"
#include "cli/preload.h"
#include "judge/who.h"
#include "read/units.h"
#include "base/control_group.h"
#include "base/options.h"
#include "base/state_folder.h"
#include "base/text.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    char words[160];
    struct text text = TEXT_IN(words);
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
