/* alloc_conf.c: see alloc_conf.h. It must never override a choice of the user or of the web UI, and
 * does nothing in versions it does not know to be sound. */
#include "reclaim/alloc_conf.h"

#include "base/base.h"
#include "base/text.h"
#include "real/objects.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHOICE   "expandable_segments:True"
#define OLD_NAME "PYTORCH_CUDA_ALLOC_CONF"
#define NEW_NAME "PYTORCH_ALLOC_CONF"

/* Left in the environment for a program that starts itself again: the choice is still ours. */
#define MARK "VRAMGC_CHOSE_ALLOC_CONF"

bool alloc_conf_is_sound(const char *torch_version) {
    char *rest;
    unsigned long major = strtoul(torch_version, &rest, 10);
    if (*rest != '.')
        return false;
    unsigned long minor = strtoul(rest + 1, &rest, 10);
    if (*rest != '.')
        return false;
    return (major == 2 && minor >= 1 && minor != 13) || major > 2;
}

bool alloc_conf_read_version(const char *path, char *out, size_t capacity) {
    char content[2048] = "\n"; /* so that the first line begins like any other */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, content + 1, sizeof content - 2);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    content[n + 1] = 0;
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
static void find_version(char *out, size_t capacity) {
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
    if (!alloc_conf_read_version(path, out, capacity))
        out[0] = 0;
}

static void say(struct alloc_conf *conf, const char *value, const char *why) {
    text_copy(conf->value, sizeof conf->value, value);
    text_copy(conf->why, sizeof conf->why, why);
}

/* Under WSL drivers before R615 say that they can map memory, and then fail to (PyTorch #192330).
 */
static bool is_wsl(void) {
    return access("/dev/dxg", F_OK) == 0;
}

static void choose(struct alloc_conf *conf, bool mappable) {
    if (is_wsl()) {
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
    find_version(out->torch, sizeof out->torch);
    if (!given)
        given = getenv(NEW_NAME);
    if (strcmp(wish, "auto") != 0 && strcmp(wish, "keep") != 0) {
        setenv(OLD_NAME, wish, 1);
        say(out, wish, "VRAMGC_ALLOC_CONF");
    } else if (given) {
        say(out, given,
            getenv(MARK) ? "chosen by vramgc before a restart" : "the program's choice");
    } else if (strcmp(wish, "keep") == 0) {
        say(out, "", "VRAMGC_ALLOC_CONF=keep");
    } else {
        choose(out, mappable);
    }
    out->expandable = strstr(out->value, "expandable_segments:True") != NULL;
}
