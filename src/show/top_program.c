/* top_program.c: see top_program.h. It must not say of a program what its command does not. */
#include "show/top_program.h"
#include "show/summary_lines.h"
#include "show/top_lines.h"
#include "read/program.h"
#include "base/base.h"

#include <string.h>

/* So much of what differs is seen, and from so many columns on the script's name before it. */
enum { LEAST_SEEN = 4, WITH_NAME = 20 };

static size_t same_bytes(const char *a, const char *b) {
    size_t i = 0;
    while (a[i] && a[i] == b[i])
        i++;
    return i;
}

/* In so many columns, to its last letter. */
static size_t shown_bytes(const char *whole, size_t columns) {
    size_t length = bytes_of_columns(whole, columns);
    while (length > 0 && whole[length - 1] == ' ')
        length--;
    return length;
}

/* Up to where the most alike reads the same, of those that do in all columns; 0: there is none. */
static size_t most_alike(const struct running *running, const char *whole, size_t columns) {
    size_t most = 0, shown = shown_bytes(whole, columns);
    for (size_t i = 0; i < running->count; i++) {
        char other[PROGRAM_BYTES];
        struct text text = TEXT_IN(other);
        program_describe(running->list[i].record->file, &text);
        size_t same = same_bytes(whole, other);
        if (same < shown || shown_bytes(other, columns) != shown || (!whole[same] && !other[same]))
            continue;
        bool has_more_words = whole[same] == ' ' && !other[same];
        most = max_u64(most, same + has_more_words);
    }
    return most;
}

/* The word that differs; of a long one the part that does. */
static const char *different_part(const char *whole, size_t same, size_t room) {
    size_t begin = same, length = strlen(whole + same);
    size_t before = room - min_u64(room, min_u64(length, LEAST_SEEN));
    while (begin > 0 && whole[begin - 1] != ' ')
        begin--;
    while (columns_of_bytes(whole + begin, same - begin) > before)
        begin += bytes_of_columns(whole + begin, 1);
    return whole + begin;
}

void top_program(struct text *out, const struct running *running,
                 const struct running_process *process, size_t columns) {
    char whole[PROGRAM_BYTES], part[PROGRAM_BYTES];
    struct text all = TEXT_IN(whole), text = TEXT_IN(part);
    program_describe(process->record->file, &all);
    struct program program = program_of(process->record->file);
    size_t same = most_alike(running, whole, columns);
    size_t folder = strlen(whole) - strlen(program.command);
    bool of_folder = same >= folder;
    if (same == 0) {
        page_pad(out, whole, columns);
        return;
    }
    if (of_folder && columns_of_bytes(whole + folder, same - folder) < columns) {
        page_pad(out, program.command, columns);
        return;
    }
    size_t name = bytes_of_columns(program.command, columns / 2);
    if (of_folder && columns >= WITH_NAME) {
        text_add_n(&text, program.command, min_u64(name, program_name_length(&program)));
        text_add(&text, " ");
    }
    text_add(&text, "..");
    text_add(&text, different_part(whole, same, columns - columns_of_bytes(part, strlen(part))));
    page_pad(out, part, columns);
}
