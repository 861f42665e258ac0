/* torch.c: see torch.h. It must not call anything of PyTorch's: the version is read from a file. */
#include "govern/torch.h"

#include "base/file.h"
#include "base/text.h"
#include "cuda/objects.h"

#include <stdlib.h>
#include <string.h>
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
