/* proof.c: see proof.h. */
#include "base/proof.h"
#include "base/base.h"
#include "base/file.h"
#include "base/state_folder.h"
#include "base/text.h"

/* The word of the line that is a version. */
void driver_version_read(char *out, size_t capacity) {
    char line[256];
    struct text text = text_in(out, capacity);
    file_read_start("/proc/driver/nvidia/version", line, sizeof line);
    line[strcspn(line, "\n")] = 0;
    for (char *word = line; *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        if (length >= 5 && strspn(word, "0123456789.") == length && memchr(word, '.', length)) {
            text_add_n(&text, word, length);
            return;
        }
        word += length;
    }
}

/* NVIDIA, CUDA Toolkit Release Notes, "CUDA Toolkit and Corresponding Driver Versions"; of 12.7,
 * for which there is no toolkit, nvidia-smi tells with drivers 565. */
int driver_branch(int cuda_version) {
    static const struct {
        int cuda, branch;
    } rows[] = {
        {11000, 450}, {11010, 455}, {11020, 460}, {11030, 465}, {11040, 470}, {11050, 495},
        {11060, 510}, {11070, 515}, {11080, 520}, {12000, 525}, {12010, 530}, {12020, 535},
        {12030, 545}, {12040, 550}, {12050, 555}, {12060, 560}, {12070, 565}, {12080, 570},
        {12090, 575}, {13000, 580}, {13010, 590},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (rows[i].cuda == cuda_version)
            return rows[i].branch;
    return 0;
}

void driver_version_say(struct text *text, int cuda_version, const char *version) {
    int branch = driver_branch(cuda_version);
    if (*version)
        text_add(text, version);
    else if (branch)
        text_format(text, "%d", branch);
    else
        text_format(text, "for CUDA %d.%d", cuda_version / 1000, cuda_version % 1000 / 10);
}

void driver_version_say_both(struct text *text, int cuda_version, const char *version) {
    driver_version_say(text, cuda_version, version);
    if (*version || driver_branch(cuda_version))
        text_format(text, " (CUDA %d.%d)", cuda_version / 1000, cuda_version % 1000 / 10);
}

/* ---- the proof ---- */

void proof_key(const void *uuid, int version, unsigned engine, struct proof_key *key) {
    const unsigned char *bytes = uuid;
    TEXT_OVER(card, name, PROOF_CARD_BYTES);
    text_add(&card, "GPU");
    for (unsigned i = 0; i < 16; i++)
        text_format(&card, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                    bytes[i]);
    proof_key_named(name, version, engine, key);
}

void proof_key_named(const char *card, int version, unsigned engine, struct proof_key *key) {
    memset(key, 0, sizeof *key);
    text_copy(key->card, sizeof key->card, card);
    struct text driver = TEXT_IN(key->driver);
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

/* True: a line of the head is "name value". */
static bool says(const char *head, const char *name, const char *value) {
    TEXT_OVER(text, line, PROOF_DRIVER_BYTES + 32);
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
    /* Another user who may change the folder could switch the engine on. */
    if (!state_folder(path, sizeof path) || !state_folder_is_trusted(path) ||
        !proof_path(key->card, path, sizeof path) || !read_head(path, head, sizeof head) ||
        !says(head, "card", key->card))
        return (struct proof){PROOF_NONE, PARK_UNTRIED, false};
    if (!says(head, "driver", key->driver) || !says(head, "engine", engine))
        return (struct proof){PROOF_OTHER, PARK_UNTRIED, false};
    return (struct proof){says(head, "result", "passed") ? PROOF_PASSED : PROOF_FAILED,
                          park_of(head), says(head, "unmap", PROOF_UNMAP_WAITS)};
}
