/* alloc_conf.c: see alloc_conf.h. It must never override a choice of the user or of the web UI, and
 * does nothing in versions it does not know to be sound. */
#include "reclaim/alloc_conf.h"

#include "base/base.h"
#include "base/text.h"
#include "reclaim/mode.h"
#include "reclaim/torch.h"

#include <stdlib.h>
#include <string.h>

#define CHOICE   "expandable_segments:True"
#define OLD_NAME "PYTORCH_CUDA_ALLOC_CONF"
#define NEW_NAME "PYTORCH_ALLOC_CONF"

/* Left in the environment for a program that starts itself again: the choice is still ours. */
#define MARK "VRAMGC_CHOSE_ALLOC_CONF"

bool alloc_conf_is_sound(const char *torch_version) {
    struct torch_version v;
    return torch_parse(torch_version, &v) && torch_at_least(&v, 2, 1) &&
           !(v.major == 2 && v.minor == 13);
}

static bool is_end(char c) {
    return !c || c == ',' || c == ':' || c == '[' || c == ']';
}

/* Whether the word at *p is that word; *p moves behind it. */
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

bool alloc_conf_says(const char *setting, const char *name, const char *value) {
    for (const char *p = setting; p; p = strchr(p, ',')) {
        p += *p == ',';
        const char *word = p;
        if (take_word(&word, name) && *word == ':' && (word++, take_word(&word, value)) &&
            *word != ':')
            return true;
    }
    return false;
}

static void say(struct alloc_conf *conf, const char *value, const char *why) {
    text_copy(conf->value, sizeof conf->value, value);
    text_copy(conf->why, sizeof conf->why, why);
}

static void choose(struct alloc_conf *conf, bool mappable) {
    if (mode_is_wsl()) {
        say(conf, "", "left alone: under WSL mapping memory fails with many drivers");
        return;
    }
    if (!mappable) {
        say(conf, "", "left alone: a device cannot map memory piece by piece");
        return;
    }
    if (!conf->torch[0]) {
        say(conf, "", "left alone: PyTorch's version is not known");
        return;
    }
    if (!alloc_conf_is_sound(conf->torch)) {
        say(conf, "", "left alone: expandable segments are not sound in this PyTorch");
        return;
    }
    if (setenv(OLD_NAME, CHOICE, 0) || setenv(MARK, "1", 1)) {
        say(conf, "", "left alone: the environment is full");
        return;
    }
    say(conf, CHOICE, "chosen by vramgc, because nobody else had");
}

void alloc_conf_apply(const char *wish, bool mappable, struct alloc_conf *out) {
    const char *given = getenv(OLD_NAME);
    memset(out, 0, sizeof *out);
    torch_find_version(out->torch, sizeof out->torch);
    if (!given)
        given = getenv(NEW_NAME);
    if (strcmp(wish, "auto") != 0 && strcmp(wish, "keep") != 0) {
        setenv(OLD_NAME, wish, 1);
        say(out, wish, "VRAMGC_ALLOC_CONF");
    } else if (given) {
        say(out, given,
            getenv(MARK) && strcmp(given, CHOICE) == 0
                ? "chosen by vramgc in the parent process or before a restart"
                : "the program's choice");
    } else if (strcmp(wish, "keep") == 0) {
        say(out, "", "VRAMGC_ALLOC_CONF=keep");
    } else {
        choose(out, mappable);
    }
}
