/* torch.c: see torch.h. It must not call anything of PyTorch's: the version is read from a file. A
 * program that says anything about expandable segments, or chooses another backend, must never be
 * overridden; and nothing is done in versions that are not known to be sound. */
#include "govern/torch.h"

#include "base/base.h"
#include "base/file.h"
#include "base/text.h"
#include "cuda/objects.h"

#include <stdlib.h>
#include <unistd.h>

bool torch_parse(const char *text, struct torch_version *out) {
    struct torch_version version;
    char *rest;
    version.major = strtoul(text, &rest, 10);
    if (rest == text || *rest != '.')
        return false;
    text = rest + 1;
    version.minor = strtoul(text, &rest, 10);
    if (rest == text || *rest != '.')
        return false;
    *out = version;
    return true;
}

bool torch_at_least(const struct torch_version *version, unsigned long major, unsigned long minor) {
    return version->major > major || (version->major == major && version->minor >= minor);
}

bool torch_read_version(const char *path, char *out, size_t capacity) {
    char content[2048] = "\n"; /* so that the first line begins like any other */
    file_read_start(path, content + 1, sizeof content - 1);
    const char *name = strstr(content, "\n__version__ = ");
    const char *quote = name ? strpbrk(name, "'\"") : NULL;
    size_t length = quote ? strcspn(quote + 1, "'\"") : 0;
    if (length == 0 || length >= capacity)
        return false;
    memcpy(out, quote + 1, length);
    out[length] = 0;
    return true;
}

/* torch/lib/libc10_cuda.so -> torch/version.py */
void torch_find_version(char *out, size_t capacity) {
    char path[512];
    out[0] = 0;
    if (!objects_path("libc10_cuda.so", 0, path, sizeof path - sizeof "version.py"))
        return;
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = 0;
    }
    struct text text = {path, sizeof path, strlen(path)};
    text_add(&text, "/version.py");
    if (!torch_read_version(path, out, capacity))
        out[0] = 0;
}

bool torch_has_aimdo(void) {
    char path[512];
    return objects_path("aimdo", 0, path, sizeof path);
}

bool torch_on_wsl(void) {
    return access("/dev/dxg", F_OK) == 0;
}

uint64_t torch_addresses_bytes(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/* ---- the allocator's setting ---- */

#define CHOICE   "expandable_segments:True"
#define REPLACED "max_split_size_mb"

/* Expandable segments are mapped in these steps, else of 20 MiB, and a step with one live block
 * stays. 12 is the least that works: PyTorch refuses up to 10, and pages are of 2 MiB. */
#define STEP             "large_segment_size_mb"
#define CHOICE_WITH_STEP STEP ":12," CHOICE /* last: programs cut that out of the text */

#define OLD_NAME "PYTORCH_CUDA_ALLOC_CONF"
#define NEW_NAME "PYTORCH_ALLOC_CONF"

/* Left in the environment for a program that starts itself again, or another one: the choice is
 * ours, and this is what stood in its place. */
#define MARK      "VRAMGC_CHOSE_ALLOC_CONF"
#define OLD_GIVEN "VRAMGC_GIVEN_CUDA_ALLOC_CONF"
#define NEW_GIVEN "VRAMGC_GIVEN_ALLOC_CONF"

/* 2.1.0 looks for libcuda.so, which many machines and containers do not have; 2.1.1 for
 * libcuda.so.1. */
bool alloc_conf_is_sound(const char *torch_version) {
    struct torch_version v;
    return strncmp(torch_version, "2.1.0", 5) != 0 && torch_parse(torch_version, &v) &&
           torch_at_least(&v, 2, 1) && !(v.major == 2 && v.minor == 13) &&
           !torch_at_least(&v, TORCH_NEWEST + 1);
}

/* PyTorch ends with an error at a name that it does not know. Builds on the way to 2.11,
 * as 2.11.0a0 and 2.11.0.dev, may be older than this one. */
static bool has_step(const char *torch_version) {
    static const char first[] = "2.11.0";
    char next =
        strncmp(torch_version, first, sizeof first - 1) ? 0 : torch_version[sizeof first - 1];
    struct torch_version v;
    return torch_parse(torch_version, &v) && torch_at_least(&v, 2, 11) && next != 'a' &&
           next != '.';
}

/* A setting is a list of name:value, and a value may be a list in brackets. */
struct item {
    const char *text;
    size_t length;
};

static struct item item_at(const char *text) {
    struct item item = {text, 0};
    for (int depth = 0; text[item.length] && (depth > 0 || text[item.length] != ','); item.length++)
        depth += (text[item.length] == '[') - (text[item.length] == ']');
    return item;
}

static struct item next_item(struct item item) {
    const char *end = item.text + item.length;
    return *end ? item_at(end + 1) : (struct item){NULL, 0};
}

static bool is_end(char c) {
    return !c || c == ',' || c == ':' || c == '[' || c == ']';
}

/* True: the word at *p is that word, and *p moves behind it. */
static bool take_word(const char **p, const char *word) {
    while (*word || !is_end(**p)) {
        if (**p == ' ')
            (*p)++;
        else if (!*word || **p != *word++)
            return false;
        else
            (*p)++;
    }
    return true;
}

static bool is_named(struct item item, const char *name) {
    const char *word = item.text;
    return take_word(&word, name) && *word == ':';
}

bool alloc_conf_says(const char *setting, const char *name, const char *value) {
    for (struct item item = item_at(setting); item.text; item = next_item(item)) {
        const char *word = item.text;
        if (!take_word(&word, name) || *word++ != ':')
            continue;
        if (!value || (take_word(&word, value) && *word != ':'))
            return true;
    }
    return false;
}

static void add_item(struct text *text, const char *item, size_t length) {
    if (text->length)
        text_add(text, ",");
    text_add_n(text, item, length);
}

/* Large blocks that are never cut are a remedy for what does not arise in expandable segments, and
 * let these grow without need: PyTorch's developers advise against the pair. A memory fraction that
 * native segments fill to the byte is refused where they grow by whole steps. */
bool alloc_conf_with_choice(const char *setting, bool step, char *out, size_t capacity) {
    struct text text = text_in(out, capacity);
    const char *choice = step && !alloc_conf_says(setting, STEP, NULL) ? CHOICE_WITH_STEP : CHOICE;
    bool add = !alloc_conf_says(setting, "expandable_segments", NULL);
    bool remove = alloc_conf_says(setting, "expandable_segments", "True") &&
                  alloc_conf_says(setting, REPLACED, NULL);
    if ((!add && !remove) || alloc_conf_says(setting, "backend", "cudaMallocAsync") ||
        alloc_conf_says(setting, "per_process_memory_fraction", NULL) ||
        strlen(setting) + strlen(choice) + sizeof "," > capacity)
        return false;
    for (struct item item = item_at(setting); item.text; item = next_item(item))
        if (item.length && !is_named(item, REPLACED))
            add_item(&text, item.text, item.length);
    if (add)
        add_item(&text, choice, strlen(choice));
    return true;
}

static void conf_say(struct alloc_conf *conf, const char *value, const char *why) {
    text_copy(conf->value, sizeof conf->value, value);
    text_copy(conf->why, sizeof conf->why, why);
}

/* NULL: nothing is known against expandable segments here. */
static const char *objection(const struct alloc_conf *conf, const char *of_machine) {
    if (torch_on_wsl())
        return "under WSL mapping memory fails with many drivers";
    if (torch_has_aimdo())
        return "ComfyUI's DynamicVRAM frees memory only for cudaMalloc";
    if (of_machine)
        return of_machine;
    /* 1.125 times the card for each stream and pool: no limit that people set bears that long. */
    if (torch_addresses_bytes() != UINT64_MAX)
        return "addresses are limited (ulimit -v), and expandable segments take many";
    if (!conf->torch[0])
        return "PyTorch's version is not known";
    if (!alloc_conf_is_sound(conf->torch))
        return "expandable segments are not known to be sound in this PyTorch";
    return NULL;
}

static bool is_set(const char *name, const char *value) {
    const char *now = getenv(name);
    return now && value && strcmp(now, value) == 0;
}

/* Keeps what it replaces under another name. */
static bool replace_variable(const char *name, const char *value, const char *kept) {
    const char *before = getenv(name);
    return !(before && setenv(kept, before, 1)) && !setenv(name, value, 1);
}

static struct { atomic_bool added; } self;

bool alloc_conf_chose_expandable(void) {
    return atomic_load_explicit(&self.added, memory_order_relaxed);
}

/* The old name counts in all versions, and first. */
static bool set_chosen(const char *given, const char *value) {
    bool done = replace_variable(OLD_NAME, value, OLD_GIVEN) && !setenv(MARK, value, 1);
    atomic_store_explicit(&self.added, done && !alloc_conf_says(given, "expandable_segments", NULL),
                          memory_order_relaxed);
    return done;
}

static void put_back(const char *name, const char *kept) {
    const char *before = getenv(kept);
    if (before)
        setenv(name, before, 1);
    else
        unsetenv(name);
}

/* Takes back the choice of vramgc in a parent process, or in this one before a restart: the value
 * from before it comes back, unless the program has chosen another since. */
static void undo_choice(void) {
    char chosen[sizeof((struct alloc_conf *)0)->value];
    const char *given = getenv(NEW_GIVEN);
    if (is_set(OLD_NAME, getenv(MARK)))
        put_back(OLD_NAME, OLD_GIVEN);
    for (int step = 0; given && step < 2; step++) /* the parent's PyTorch may be another */
        if (alloc_conf_with_choice(given, step, chosen, sizeof chosen) && is_set(NEW_NAME, chosen))
            put_back(NEW_NAME, NEW_GIVEN);
    unsetenv(MARK);
    unsetenv(OLD_GIVEN);
    unsetenv(NEW_GIVEN);
}

static void choose_expandable(struct alloc_conf *conf, const char *of_machine) {
    const char *against = objection(conf, of_machine);
    const char *choice = has_step(conf->torch) ? CHOICE_WITH_STEP : CHOICE;
    if (!against && !set_chosen("", choice))
        against = "the environment is full";
    struct text why = TEXT_IN(conf->why);
    if (against)
        text_format(&why, "left alone: %s", against);
    else
        conf_say(conf, choice, "chosen by vramgc: none was set");
}

/* Some parts of PyTorch read the new name first. */
static void add_under_new_name(bool step) {
    char value[sizeof((struct alloc_conf *)0)->value];
    const char *given = getenv(NEW_NAME);
    if (given && alloc_conf_with_choice(given, step, value, sizeof value))
        replace_variable(NEW_NAME, value, NEW_GIVEN);
}

/* The environment that the process began with has it, as a shell script sets it; else the program
 * has set it since. */
static void say_given(struct alloc_conf *conf, const char *given) {
    char first[32 << 10];
    size_t bytes = file_read_start("/proc/self/environ", first, sizeof first);
    bool before = memmem(first, bytes, given, strlen(given));
    conf_say(conf, given, before ? "the environment's choice" : "the program's choice");
}

/* The end of the sentence on a given setting: its fate. */
static const char *explain_given(const char *given) {
    if (alloc_conf_says(given, "expandable_segments", NULL))
        return "; vramgc took " REPLACED " out";
    if (alloc_conf_says(given, REPLACED, NULL))
        return "; vramgc put " CHOICE " in the place of " REPLACED;
    return "; vramgc added " CHOICE;
}

static void add_choice(struct alloc_conf *conf, const char *given, const char *of_machine) {
    char value[sizeof conf->value];
    const char *became = explain_given(given);
    bool step = has_step(conf->torch);
    say_given(conf, given);
    if (!*given || objection(conf, of_machine) ||
        !alloc_conf_with_choice(given, step, value, sizeof value) || !set_chosen(given, value))
        return;
    size_t length = strlen(conf->why);
    text_copy(conf->value, sizeof conf->value, value);
    text_copy(conf->why + length, sizeof conf->why - length, became);
    add_under_new_name(step);
}

void alloc_conf_apply(const char *wish, const char *of_machine, struct alloc_conf *out) {
    memset(out, 0, sizeof *out);
    torch_find_version(out->torch, sizeof out->torch);
    undo_choice();
    const char *given = getenv(OLD_NAME);
    if (!given)
        given = getenv(NEW_NAME);
    if (strcmp(wish, "auto") != 0 && strcmp(wish, "keep") != 0) {
        setenv(OLD_NAME, wish, 1);
        conf_say(out, wish, "VRAMGC_ALLOC_CONF");
    } else if (given && strcmp(wish, "keep") == 0) {
        say_given(out, given);
    } else if (strcmp(wish, "keep") == 0) {
        conf_say(out, "", "VRAMGC_ALLOC_CONF=keep");
    } else if (given) {
        add_choice(out, given, of_machine);
    } else {
        choose_expandable(out, of_machine);
    }
}
