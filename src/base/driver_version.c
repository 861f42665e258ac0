/* driver_version.c: see driver_version.h. */
#include "base/driver_version.h"
#include "base/base.h"
#include "base/file.h"

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

static bool say_version(struct text *text, int cuda_version, const char *version) {
    int branch = driver_branch(cuda_version);
    if (*version)
        text_add(text, version);
    else if (branch)
        text_format(text, "%d", branch);
    else
        text_add(text, "for ");
    return *version || branch;
}

void driver_version_say(struct text *text, int cuda_version, const char *version) {
    if (!say_version(text, cuda_version, version))
        text_format(text, "CUDA %d.%d", cuda_version / 1000, cuda_version % 1000 / 10);
}

void driver_version_say_both(struct text *text, int cuda_version, const char *version) {
    bool known = say_version(text, cuda_version, version);
    text_format(text, "%sCUDA %d.%d%s", known ? " (" : "", cuda_version / 1000,
                cuda_version % 1000 / 10, known ? ")" : "");
}
