/* proof.c: see proof.h. */
#include "base/proof.h"
#include "base/state_folder.h"

#include "base/file.h"
#include "base/text.h"

void proof_key(const void *uuid, int version, unsigned engine, struct proof_key *key) {
    const unsigned char *bytes = uuid;
    memset(key, 0, sizeof *key);
    struct text card = TEXT_IN(key->card), driver = TEXT_IN(key->driver);
    text_add(&card, "GPU");
    for (unsigned i = 0; i < 16; i++)
        text_format(&card, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                    bytes[i]);
    driver_version_read(key->version, sizeof key->version);
    key->cuda_version = version;
    text_format(&driver, "%d.%d%s%s", version / 1000, version % 1000 / 10, *key->version ? " " : "",
                key->version);
    key->engine = engine;
}

bool proof_path(const char *card, char *path, size_t capacity) {
    if (!state_folder(path, capacity))
        return false;
    struct text text = {path, capacity, strlen(path)};
    text_format(&text, "/%s.proof", card);
    return text.length + 1 < capacity;
}

/* Another user who may change it could switch the engine on. */
static bool is_trusted_folder(void) {
    char folder[512];
    return state_folder(folder, sizeof folder) && state_folder_is_trusted(folder);
}

/* Written to its end, and by us or root. */
static bool is_whole_and_trusted(int fd) {
    char end[sizeof PROOF_END] = "";
    const off_t length = sizeof end - 1;
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && file_is_trusted(&status) &&
           pread(fd, end, (size_t)length, status.st_size - length) == (ssize_t)length &&
           strcmp(end, PROOF_END) == 0;
}

static bool read_head(const char *path, char *head, size_t capacity) {
    int fd = file_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return false;
    ssize_t n = is_whole_and_trusted(fd) ? read(fd, head, capacity - 1) : -1;
    close(fd);
    head[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Whether a line of the head is "name value". */
static bool says(const char *head, const char *name, const char *value) {
    char line[PROOF_DRIVER_BYTES + 32];
    struct text text = TEXT_IN(line);
    text_format(&text, "\n%s %s\n", name, value);
    return strstr(head, line) != NULL;
}

static enum park_proof park_of(const char *head) {
    if (says(head, "park", "failed") || says(head, "park", "not offered"))
        return PARK_REFUTED;
    return says(head, "park", "passed") ? PARK_PROVEN : PARK_UNTRIED;
}

struct proof proof_look(const struct proof_key *key) {
    char path[512], head[PROOF_HEAD_BYTES], engine[16];
    struct text text = TEXT_IN(engine);
    text_format(&text, "%u", key->engine);
    if (!is_trusted_folder() || !proof_path(key->card, path, sizeof path) ||
        !read_head(path, head, sizeof head) || !says(head, "card", key->card))
        return (struct proof){PROOF_NONE, PARK_UNTRIED, false};
    if (!says(head, "driver", key->driver) || !says(head, "engine", engine))
        return (struct proof){PROOF_OTHER, PARK_UNTRIED, false};
    return (struct proof){says(head, "result", "passed") ? PROOF_PASSED : PROOF_FAILED,
                          park_of(head), says(head, "unmap", PROOF_UNMAP_WAITS)};
}
