/* stats_file.c: see stats_file.h. The file is read, not mapped: a mapping would end the command
 * with SIGBUS when another program cuts the file meanwhile. */
#include "read/stats_file.h"
#include "read/clean.h"
#include "base/base.h"
#include "base/clean_text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *stats_file_state_name(enum process_state state) {
    static const char *const names[PROCESS_STATES] = {
        [PROCESS_RUNNING] = "running",   [PROCESS_EXITED] = "exited",
        [PROCESS_KILLED] = "killed",     [PROCESS_REPLACED] = "replaced",
        [PROCESS_VANISHED] = "vanished",
    };
    return names[state];
}

static const char *word_of(const char *const *names, size_t count, uint32_t number) {
    return number < count ? names[number] : NULL;
}

const char *stats_file_action_name(uint32_t kind) {
    static const char *const names[VRAMGC_ACTION_KINDS] = {
        [VRAMGC_ACTION_NONE] = "none",   [VRAMGC_ACTION_SOFT_OOM] = "soft_oom",
        [VRAMGC_ACTION_FLUSH] = "flush", [VRAMGC_ACTION_TRIM] = "trim",
        [VRAMGC_ACTION_PAGES] = "pages",
    };
    return word_of(names, ARRAY_LENGTH(names), kind);
}

const char *stats_file_reason_name(uint32_t reason) {
    static const char *const names[VRAMGC_REASONS] = {
        [VRAMGC_REASON_NONE] = "none",       [VRAMGC_REASON_THRESHOLD] = "threshold",
        [VRAMGC_REASON_LOWVRAM] = "lowvram", [VRAMGC_REASON_REQUEST] = "request",
        [VRAMGC_REASON_REFUSED] = "refused", [VRAMGC_REASON_PEER] = "peer",
    };
    return word_of(names, ARRAY_LENGTH(names), reason);
}

const char *stats_file_hook_name(const struct vramgc_file *file, uint32_t hook) {
    return hook < file->hook_count ? file->hooks[hook].name : NULL;
}

const char *stats_file_setting(const struct stats_file *record, const char *name) {
    const struct vramgc_file *file = record->file;
    for (size_t i = 0; i < file->setting_count; i++)
        if (strcmp(file->settings[i].name, name) == 0)
            return file->settings[i].value;
    return NULL;
}

bool stats_file_setting_is(const struct stats_file *record, const char *name, const char *value) {
    const char *known = stats_file_setting(record, name);
    return known && strcmp(known, value) == 0;
}

bool stats_file_is_expandable(const struct vramgc_file *file) {
    return strstr(file->alloc_conf, "expandable_segments:True") != NULL;
}

bool stats_file_torch_from(const struct vramgc_file *file, unsigned minor) {
    unsigned known[2] = {0};
    sscanf(file->torch_version, "%u.%u", &known[0], &known[1]);
    return known[0] > 2 || (known[0] == 2 && known[1] >= minor);
}

enum option_mode stats_file_mode(const struct vramgc_file *file) {
    enum option_mode mode = MODE_OFF;
    while (mode < MODE_AUTO && strcmp(file->mode, mode_name(mode)) != 0)
        mode++;
    return mode;
}

/* It chose another mode, and lacks no proof; nor is it a pool, where one of ours can stand in
 * (govern/mode_table.c). */
bool stats_file_bears_no_pages(const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    return stats_file_setting_is(record, "mode", "auto") && stats_file_mode(file) == MODE_FLUSH &&
           file->needs_proof != 1 && file->driver_pool != 1;
}

/* Lists the complete entries of a ring of the file, oldest first. */
#define LIST_RING(record, ring, count)                                                             \
    do {                                                                                           \
        const uint64_t capacity = ARRAY_LENGTH((record)->file->ring);                              \
        const uint64_t written = (record)->file->ring##_written;                                   \
        for (uint64_t i = minus_u64(written, capacity); i < written; i++)                          \
            if ((record)->file->ring[i % capacity].sequence == i + 1)                              \
                (record)->ring[(record)->count++] = &(record)->file->ring[i % capacity];           \
    } while (0)

static bool of_one_kind(const struct vramgc_refusal *a, const struct vramgc_refusal *b) {
    return a->device == b->device && a->hook == b->hook && a->request_bytes == b->request_bytes;
}

/* Python is asked now and then. What an error was that it was not asked of is not left to chance:
 * what others of its kind were, and nothing happened where no other is known. */
static uint32_t as_others(const struct stats_file *record, const struct vramgc_refusal *unsure) {
    uint32_t as = VRAMGC_WENT_ON;
    for (size_t i = 0; i < record->refusal_count; i++) {
        const struct vramgc_refusal *other = record->refusals[i];
        if (!of_one_kind(unsure, other) || other->granted)
            continue;
        if (other->reported == VRAMGC_WENT_ON)
            return VRAMGC_WENT_ON;
        as = other->reported == VRAMGC_REPORTED ? VRAMGC_REPORTED : as;
    }
    return as;
}

static void settle_unsure(struct stats_file *record) {
    for (size_t i = 0; i < record->refusal_count; i++)
        if (record->refusals[i]->reported == VRAMGC_SEEMS_ON) {
            size_t slot = (size_t)(record->refusals[i] - record->file->refusals);
            record->file->refusals[slot].reported = as_others(record, record->refusals[i]);
        }
}

bool stats_file_process_lives(const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    return process_lives(file->pid, file->process_start);
}

/* It may have been killed right after. */
static uint64_t latest_of(const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    uint64_t latest_ns =
        max_u64(minus_u64(file->latest_ns, file->started_ns), file->host.latest.time_ns);
    for (size_t i = 0; i < record->refusal_count; i++)
        latest_ns = max_u64(latest_ns, record->refusals[i]->time_ns);
    return latest_ns;
}

static void find_state(struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    int status = (int)file->end_status;
    record->code = -1;
    if (file->end != VRAMGC_END_UNKNOWN && WIFEXITED(status)) {
        record->state = PROCESS_EXITED;
        record->code = WEXITSTATUS(status);
    } else if (file->end != VRAMGC_END_UNKNOWN && WIFSIGNALED(status)) {
        record->state = PROCESS_KILLED;
        record->signal = WTERMSIG(status);
    } else {
        record->state = stats_file_process_lives(record) ? PROCESS_RUNNING : PROCESS_VANISHED;
    }
    record->elapsed_ns = latest_of(record);
}

uint64_t stats_file_began_unix_ns(const struct stats_file *record) {
    return minus_u64(record->file->started_unix_ns, record->file->before_ns);
}

uint64_t stats_file_ran_ns(const struct stats_file *record) {
    uint64_t before_ns = record->file->before_ns;
    return before_ns > UINT64_MAX - record->elapsed_ns ? UINT64_MAX
                                                       : before_ns + record->elapsed_ns;
}

void stats_files_relate(struct stats_file **records, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            const struct vramgc_file *a = records[i]->file, *b = records[j]->file;
            if (a->pid == b->pid && a->process_start == b->process_start &&
                a->started_ns < b->started_ns)
                records[i]->state = PROCESS_REPLACED;
            if (records[i]->state != PROCESS_RUNNING && a->parent_pid == b->parent_pid &&
                b->started_ns > a->started_ns + records[i]->elapsed_ns &&
                strcmp(a->run_id, b->run_id) == 0 && strcmp(a->command_line, b->command_line) == 0)
                records[i]->again = true;
        }
}

/* Empty: fine. Else what is wrong with the file. */
static void check_file(const struct vramgc_file *file, size_t length, char *error,
                       size_t capacity) {
    size_t head = offsetof(struct vramgc_file, device_count);
    *error = 0;
    if (length < head || memcmp(file->magic, VRAMGC_MAGIC, sizeof file->magic) != 0)
        snprintf(error, capacity, "not a statistics file of vramgc");
    else if (file->format_version == __builtin_bswap32(VRAMGC_FORMAT_VERSION))
        snprintf(error, capacity, "written on a machine with another byte order");
    else if (file->format_version != VRAMGC_FORMAT_VERSION)
        snprintf(error, capacity, "written in format %u; this vramgc (%s) reads format %d",
                 file->format_version, VRAMGC_VERSION, VRAMGC_FORMAT_VERSION);
    else if (length < sizeof *file && length != file->file_bytes)
        snprintf(error, capacity, "cut short: %zu of %zu bytes are there", length, sizeof *file);
    else if (file->file_bytes != sizeof *file)
        snprintf(error, capacity,
                 "written by another build than this vramgc (%s), or damaged: it says that it has "
                 "%lu bytes, not %zu",
                 VRAMGC_VERSION, file->file_bytes, sizeof *file);
}

/* Takes over file, which has room for a whole file and `length` bytes read into it. */
static struct stats_file *adopt_file(struct vramgc_file *file, size_t length, const char *path,
                                     char *error, size_t capacity) {
    check_file(file, length, error, capacity);
    struct stats_file *record = *error ? NULL : calloc(1, sizeof *record);
    char *name = record ? strdup(path) : NULL;
    if (!name) {
        if (!*error)
            snprintf(error, capacity, "no memory to read it");
        free(record);
        free(file);
        return NULL;
    }
    clean_file(file);
    clean_text(name, strlen(name) + 1);
    record->path = name;
    record->file = file;
    LIST_RING(record, actions, action_count);
    LIST_RING(record, refusals, refusal_count);
    LIST_RING(record, marks, mark_count);
    LIST_RING(record, jobs, job_count);
    settle_unsure(record);
    find_state(record);
    timeline_complete(file, record->refusals, record->refusal_count, record->elapsed_ns);
    return record;
}

/* Reads up to `capacity` bytes; how many, or -1 with errno. */
static ssize_t read_whole(int descriptor, void *bytes, size_t capacity) {
    size_t length = 0;
    while (length < capacity) {
        ssize_t got = read(descriptor, (char *)bytes + length, capacity - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        length += (size_t)got;
    }
    return (ssize_t)length;
}

/* Opens a regular file. O_NONBLOCK: a pipe without a writer must not hold us. */
static int open_regular(const char *path, char *error, size_t capacity) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        snprintf(error, capacity, "cannot be read: %s", strerror(errno));
    } else if (S_ISREG(status.st_mode)) {
        return descriptor;
    } else {
        snprintf(error, capacity, "not a regular file");
    }
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

struct stats_file *stats_file_load(const char *path, char *error, size_t capacity) {
    int descriptor = open_regular(path, error, capacity);
    if (descriptor < 0)
        return NULL;
    struct vramgc_file *file = calloc(1, sizeof *file);
    ssize_t length = file ? read_whole(descriptor, file, sizeof *file) : -1;
    int why = errno;
    close(descriptor);
    if (length >= 0)
        return adopt_file(file, (size_t)length, path, error, capacity);
    snprintf(error, capacity, "cannot be read: %s", strerror(why));
    free(file);
    return NULL;
}

/* Not Ctrl-C, kill and a terminal that was closed. */
static bool crashed(const struct vramgc_file *head) {
    int status = (int)head->end_status;
    return head->end == VRAMGC_END_STATUS && WIFSIGNALED(status) && WTERMSIG(status) != SIGINT &&
           WTERMSIG(status) != SIGTERM && WTERMSIG(status) != SIGHUP;
}

/* Without the rest of the file. */
static bool ran_out(int descriptor, const struct vramgc_file *head) {
    bool found = false;
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES && head->file_bytes == sizeof *head; i++) {
        uint64_t ooms = 0;
        off_t at = (off_t)offsetof(struct vramgc_file, devices[i].stats.ooms);
        found = found || (pread(descriptor, &ooms, sizeof ooms, at) == sizeof ooms && ooms > 0);
    }
    return found;
}

bool stats_file_peek(const char *path, struct stats_peek *peek) {
    enum { HEAD_BYTES = offsetof(struct vramgc_file, executable) };
    struct vramgc_file *head = calloc(1, sizeof *head);
    char ignored[128];
    int descriptor = head ? open_regular(path, ignored, sizeof ignored) : -1;
    ssize_t length = descriptor < 0 ? -1 : read_whole(descriptor, head, HEAD_BYTES);
    bool fine = length == HEAD_BYTES && memcmp(head->magic, VRAMGC_MAGIC, sizeof head->magic) == 0;
    if (fine)
        *peek = (struct stats_peek){head->pid,
                                    head->process_start,
                                    head->started_unix_ns,
                                    head->started_ns,
                                    head->latest_ns,
                                    head->end,
                                    crashed(head) || ran_out(descriptor, head),
                                    ""};
    if (descriptor >= 0)
        close(descriptor);
    if (fine)
        memcpy(peek->run_id, head->run_id, sizeof peek->run_id - 1);
    free(head);
    return fine;
}

bool stats_file_read_part(const char *path, size_t at, void *out, size_t bytes) {
    char ignored[128];
    int descriptor = open_regular(path, ignored, sizeof ignored);
    bool fine = descriptor >= 0 && pread(descriptor, out, bytes, (off_t)at) == (ssize_t)bytes;
    if (descriptor >= 0)
        close(descriptor);
    return fine;
}

void stats_file_free(struct stats_file *record) {
    if (!record)
        return;
    free(record->path);
    free(record->file);
    free(record);
}

static int weight_of(const struct vramgc_refusal *refusal) {
    return refusal->reported == VRAMGC_REPORTED ? 2 : refusal->reported != VRAMGC_NOT_REPORTED;
}

const struct vramgc_refusal *refusal_to_tell(const struct vramgc_refusal *before,
                                             const struct vramgc_refusal *refusal) {
    return !before || weight_of(refusal) >= weight_of(before) ? refusal : before;
}

/* ---- which program: by the record alone, for it may be gone, or another machine's ---- */

struct program_words program_of(const struct vramgc_file *file) {
    return program_in(file->command_line, file->working_folder);
}

void program_describe(const struct vramgc_file *file, struct text *out) {
    struct program_words program = program_of(file);
    program_say(out, &program, strlen(program.command));
}

void program_name(const struct vramgc_file *file, struct text *out) {
    struct program_words program = program_of(file);
    program_say(out, &program, program_name_length(&program));
}

bool program_is_called(const struct vramgc_file *file, const char *name) {
    TEXT_OVER(text, words, PROGRAM_BYTES);
    struct program_words program = program_of(file);
    program_name(file, &text);
    const char *script = words + (text.length - program_name_length(&program));
    if (strncmp(script, "-m ", 3) == 0)
        script += 3;
    return strcasecmp(name, words) == 0 || strcasecmp(name, program.folder) == 0 ||
           strcasecmp(name, script) == 0;
}

bool program_has_word(const struct vramgc_file *file, const char *word) {
    return strcasestr(file->executable, word) || strcasestr(file->command_line, word) ||
           strcasestr(file->working_folder, word);
}
