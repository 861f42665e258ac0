/* whatif.c: the command `vramgc whatif`: a table of settings, and the smallest card for each, on
 * which the user's own PyTorch has room for the blocks of a record. The user's Python is started
 * with replay.py, which puts the simulated driver in front of itself; this process knows no CUDA.
 * It says what it cannot know. */
#include "cli/cli.h"
#include "cli/preload.h"
#include "read/block_files.h"
#include "read/derived.h"
#include "read/emit.h"
#include "read/records.h"
#include "show/summary_lines.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A setting, and what came of it. */
struct whatif_row {
    char label[128]; /* what a user would set */
    char mode[24];   /* off: without vramgc; +lowvram behind it */
    char conf[256];  /* PyTorch's */
    bool of_run;     /* the run had it */
    bool known;
    uint64_t card_bytes;     /* the smallest that does */
    uint64_t retries;        /* there; of PyTorch's own settings only */
    uint64_t reserved_bytes; /* there, at the peak */
    char error[256];         /* why it is not known */
};

enum { WHATIF_ROWS = 24 };

struct whatif {
    struct whatif_row rows[WHATIF_ROWS];
    size_t count;
    uint64_t beside_bytes; /* of the card, that PyTorch did not have: the context, others */
};

extern const char replay_script[];

static const struct {
    const char *typed, *label, *mode;
} modes[] = {
    {"flush", "vramgc --mode flush", "flush"},
    {"compact", "vramgc --mode compact", "compact"},
    {"lowvram", "vramgc --mode flush --lowvram", "flush+lowvram"},
};

/* Its row, which is added where there is none. */
static struct whatif_row *whatif_add(struct whatif *whatif, const char *setting) {
    struct whatif_row row = {.mode = "off"}, *same = whatif->rows;
    text_copy(row.conf, sizeof row.conf, setting);
    text_copy(row.label, sizeof row.label, *setting ? setting : "PyTorch's default");
    for (size_t i = 0; i < ARRAY_LENGTH(modes); i++)
        if (strcmp(setting, modes[i].typed) == 0) {
            text_copy(row.label, sizeof row.label, modes[i].label);
            text_copy(row.mode, sizeof row.mode, modes[i].mode);
            row.conf[0] = 0;
        }
    while (same < whatif->rows + whatif->count && strcmp(same->label, row.label) != 0)
        same++;
    if (same == whatif->rows + whatif->count)
        whatif->rows[whatif->count++] = row;
    return same;
}

static void whatif_add_usual(struct whatif *whatif) {
    static const char *const usual[] = {"",
                                        "expandable_segments:True",
                                        "max_split_size_mb:128",
                                        "roundup_power2_divisions:8",
                                        "garbage_collection_threshold:0.8",
                                        "flush",
                                        "compact",
                                        "lowvram"};
    for (size_t i = 0; i < ARRAY_LENGTH(usual); i++)
        whatif_add(whatif, usual[i]);
}

/* Observe changes nothing; what vramgc chose for PyTorch its mode chooses again. */
static void whatif_add_run(struct whatif *whatif, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    bool acts = strcmp(file->mode, "flush") == 0 || strcmp(file->mode, "compact") == 0;
    bool low = acts && stats_file_setting_is(record, "lowvram", "1");
    const char *setting = low ? "lowvram" : acts ? file->mode : file->alloc_conf;
    whatif_add(whatif, setting)->of_run = true;
}

/* ---- the process ---- */

/* The folder that has torch/lib/libc10_cuda.so. */
static void packages_of(const struct recording *recording, char *out, size_t capacity) {
    static const char inside[] = "/torch/lib/";
    text_copy(out, capacity, recording->allocator);
    char *end = strstr(out, inside);
    *(end ? end : out) = 0;
}

/* A file without a name, which Python reads at its own pace: a pipe might have to wait for it. */
static bool steps_to_read(const struct recording *recording, int *fd) {
    size_t bytes = recording->count * sizeof *recording->steps, done = 0;
    *fd = memfd_create("vramgc-steps", MFD_CLOEXEC);
    while (*fd >= 0 && done < bytes) {
        ssize_t n = write(*fd, (const char *)recording->steps + done, bytes - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return *fd >= 0 && done == bytes && lseek(*fd, 0, SEEK_SET) == 0;
}

_Noreturn static void become_python(int from, int to, char *const *words) {
    unsetenv("LD_PRELOAD");
    unsetenv("VRAMGC_WHATIF");
    if (dup2(from, STDIN_FILENO) >= 0 && dup2(to, STDOUT_FILENO) >= 0)
        execvp(words[0], words);
    dprintf(STDOUT_FILENO, "! cannot start %s: %s\n", words[0], strerrordesc_np(errno));
    _exit(STATUS_MISSING);
}

/* NUMBER SMALLEST RETRIES RESERVED ASKED, NUMBER ! WHY, or ! WHY. */
static bool take_answer(struct whatif *whatif, char *line) {
    unsigned long long number, card, retries, reserved;
    if (*line == '!') {
        complain("whatif: %s", line + 2);
        return false;
    }
    char *rest;
    number = strtoull(line, &rest, 10);
    if (number >= whatif->count)
        return true;
    struct whatif_row *row = &whatif->rows[number];
    if (strncmp(rest, " ! ", 3) == 0)
        text_copy(row->error, sizeof row->error, rest + 3);
    row->known = sscanf(rest, " %llu %llu %llu", &card, &retries, &reserved) == 3;
    if (row->known) {
        row->card_bytes = card;
        row->retries = retries;
        row->reserved_bytes = reserved;
    }
    return true;
}

static bool take_answers(struct whatif *whatif, int fd, const char *python) {
    char line[1024];
    bool fine = true;
    size_t known = 0;
    FILE *stream = fdopen(fd, "r");
    while (stream && fgets(line, sizeof line, stream)) {
        line[strcspn(line, "\n")] = 0;
        clean_text(line, sizeof line);
        fine = take_answer(whatif, line) && fine;
    }
    if (stream)
        fclose(stream);
    for (size_t i = 0; i < whatif->count; i++)
        known += whatif->rows[i].known || whatif->rows[i].error[0];
    if (fine && known < whatif->count)
        complain("whatif: %s ended before it had answered", python);
    return fine && known == whatif->count;
}

struct words {
    char library[PATH_MAX], folder[PATH_MAX + 16], packages[1024], beside[24], live[24];
    char settings[WHATIF_ROWS][300];
    char *list[WHATIF_ROWS + 16];
};

static void fill_words(struct words *words, const struct whatif *whatif,
                       const struct recording *recording, const char *python) {
    size_t n = 0;
    snprintf(words->beside, sizeof words->beside, "%lu", whatif->beside_bytes);
    snprintf(words->live, sizeof words->live, "%lu", recording->live_bytes);
    const char *first[] = {python,          "-c",          "import sys; exec(sys.argv[1])",
                           replay_script,   words->folder, words->library,
                           words->packages, words->beside, words->live};
    for (; n < ARRAY_LENGTH(first); n++)
        words->list[n] = (char *)(uintptr_t)first[n];
    for (size_t i = 0; i < whatif->count; i++, n++) {
        const struct whatif_row *row = &whatif->rows[i];
        snprintf(words->settings[i], sizeof words->settings[i], "%s|%s", row->mode, row->conf);
        words->list[n] = words->settings[i];
    }
}

static bool find_device(struct words *words) {
    char error[PATH_MAX + 200];
    if (!preload_library(words->library, sizeof words->library, error, sizeof error)) {
        complain("%s", error);
        return false;
    }
    size_t folder = (size_t)(text_after_folder(words->library) - words->library);
    snprintf(words->folder, sizeof words->folder, "%.*swhatif", (int)folder, words->library);
    if (access(words->folder, X_OK) == 0)
        return true;
    complain("the simulated card is missing: %s", words->folder);
    return false;
}

static bool whatif_replay(struct whatif *whatif, const struct stats_file *record,
                          const struct recording *recording, const char *python) {
    static struct words words;
    const struct vramgc_device *device = &record->file->devices[recording->device];
    int steps = -1, answers[2] = {-1, -1}, status;
    if (!find_device(&words))
        return false;
    if (!python) {
        packages_of(recording, words.packages, sizeof words.packages);
        python = record->file->executable;
    }
    /* The least that the context and other programs had, and the most of other libraries. */
    whatif->beside_bytes = others_least(device) + device->stats.other_bytes.peak;
    fill_words(&words, whatif, recording, python);
    pid_t child = -1;
    if (steps_to_read(recording, &steps) && pipe2(answers, O_CLOEXEC) == 0)
        child = fork();
    if (child == 0)
        become_python(steps, answers[1], words.list);
    close(steps);
    close(answers[1]);
    if (child < 0) {
        complain("whatif: no process can be started: %s", strerrordesc_np(errno));
        return false;
    }
    bool fine = take_answers(whatif, answers[0], python);
    waitpid(child, &status, 0);
    return fine;
}

enum { MOST_CARDS = 8, WHATIF_SCHEMA = 1 };

static struct {
    uint64_t cards[MOST_CARDS];
    size_t card_count;
    const char *python;
    bool json;
    struct whatif whatif;
} request;

static bool take_card(const char *text) {
    bool fits = request.card_count < MOST_CARDS &&
                parse_size(text, &request.cards[request.card_count]) &&
                request.cards[request.card_count] > 0;
    request.card_count += fits;
    if (!fits)
        complain("--card: '%s' is not a size such as 8GiB, or there are more than %d", text,
                 MOST_CARDS);
    return fits;
}

static bool take_cards(const struct args *args) {
    char list[256], *rest = list;
    text_copy(list, sizeof list, args->value);
    for (const char *one = strsep(&rest, ","); one; one = strsep(&rest, ","))
        if (!take_card(one))
            return false;
    return true;
}

static bool take_setting(const struct args *args) {
    if (request.whatif.count + 1 < WHATIF_ROWS) {
        whatif_add(&request.whatif, args->value);
        return true;
    }
    complain("--setting: that is too many at a time");
    return false;
}

/* ---- what is shown ---- */

static void add_jobs(struct text *text, const struct recording *recording) {
    unsigned long long first = recording->first_job, last = recording->last_job;
    if (first < last)
        text_format(text, "jobs %llu to %llu", first, last);
    else if (first == last)
        text_format(text, "job %llu", first);
    else
        text_add(text, "what it did");
}

static void write_heading(const struct stats_file *record, const struct recording *recording) {
    TEXT_OVER(text, line, PROGRAM_BYTES);
    program_name(record->file, &text);
    printf("%s\n", line);
    text = (struct text)TEXT_IN(line);
    text_add(&text, "Replayed: ");
    add_jobs(&text, recording);
    text_format(&text, ", %s block events", show_count(recording->events).text);
    if (recording->events_lost)
        text_format(&text, "; the record begins after the first %s",
                    show_count(recording->events_lost).text);
    text_format(&text,
                ". Beside PyTorch's memory %s of the card: the CUDA context, other "
                "libraries, other programs.",
                show_bytes(request.whatif.beside_bytes).text);
    summary_wrapped_at(stdout, 0, "", line);
}

/* A cell for each --card: the answer, and by how much. */
static void write_cards(const struct whatif_row *row) {
    for (size_t i = 0; i < request.card_count; i++) {
        TEXT_OVER(text, cell, 48);
        bool fits = row->card_bytes <= request.cards[i];
        uint64_t by =
            fits ? request.cards[i] - row->card_bytes : row->card_bytes - request.cards[i];
        text_format(&text, "%s %s%s", fits ? "yes" : "no", fits ? "+" : "-", show_bytes(by).text);
        printf("  %14s", row->known ? cell : "?");
    }
}

static void write_row(const struct whatif_row *row) {
    bool own = strcmp(row->mode, "off") == 0;
    printf("%c %-34s %10s %8s %11s", row->of_run ? '>' : ' ', row->label,
           row->known ? show_bytes(row->card_bytes).text : "?",
           row->known && own ? show_count(row->retries).text : "",
           row->known && own ? show_bytes(row->reserved_bytes).text : "");
    write_cards(row);
    puts("");
    if (*row->error)
        summary_wrapped_at(stdout, 4, "", row->error);
}

static void write_table(void) {
    printf("\n  %-34s %10s %8s %11s", "setting", "card", "retries", "reserved");
    for (size_t i = 0; i < request.card_count; i++)
        printf("  %14s", show_bytes(request.cards[i]).text);
    puts("");
    for (size_t i = 0; i < request.whatif.count; i++)
        write_row(&request.whatif.rows[i]);
    puts("");
}

static void say(const char *text) {
    summary_wrapped_at(stdout, 0, "", text);
}

static void write_limits(const struct stats_file *record, const struct recording *recording) {
    say("> is what this run had. card: the smallest on which all of these blocks fit, as they do "
        "16 MiB above it, and not 16 MiB below; retries and reserved: there, on PyTorch's own.");
    say("Not known here: workspaces that cuDNN and others choose by what is free, what a program "
        "such as ComfyUI decides by it, other programs, CUDA graphs' pools, PyTorch's memory "
        "fraction, and the driver's pool (cudaMallocAsync).");
    if (!stats_file_is_expandable(record->file))
        say("Recorded without expandable segments: PyTorch then tells up to 1 MiB more of a block "
            "than was asked for, so that a little less may do.");
    if (recording->wanted_bytes)
        say("The run was out of memory; what it would have wanted later is not in the record.");
    if (recording->other_devices)
        say("Of several GPUs, one is recorded.");
    if (recording->incomplete)
        say("The record ends early: at a block of more than 128 GiB, or half a million that were "
            "live.");
}

static void emit_row(struct emit *emit, const struct whatif_row *row) {
    emit_open(emit, NULL, "");
    emit_text(emit, "setting", "", row->label);
    emit_text(emit, "mode", "", row->mode);
    emit_label(emit, "alloc_conf", "", row->conf);
    emit_bool(emit, "of_run", "", row->of_run);
    emit_number_if(emit, "card_bytes", UNIT_BYTES, "", row->known, row->card_bytes);
    emit_number_if(emit, "retries", UNIT_COUNT, "", row->known, row->retries);
    emit_number_if(emit, "reserved_bytes", UNIT_BYTES, "", row->known, row->reserved_bytes);
    emit_text(emit, "error", "", row->error);
    emit_list(emit, "cards", "", request.card_count);
    for (size_t i = 0; i < request.card_count; i++) {
        emit_open_line(emit, NULL, "");
        emit_number(emit, "card_bytes", UNIT_BYTES, "", request.cards[i]);
        emit_bool(emit, "fits", "", row->known && row->card_bytes <= request.cards[i]);
        emit_close(emit);
    }
    emit_close(emit);
    emit_close(emit);
}

static void write_json(const struct recording *recording) {
    struct emit emit;
    emit_begin(&emit, stdout, EMIT_JSON, "");
    emit_number(&emit, "schema", UNIT_ID, "", WHATIF_SCHEMA);
    emit_number(&emit, "events", UNIT_COUNT, "", recording->events);
    emit_number(&emit, "events_lost", UNIT_COUNT, "", recording->events_lost);
    emit_number(&emit, "first_job", UNIT_ID, "", recording->first_job);
    emit_number(&emit, "last_job", UNIT_ID, "", recording->last_job);
    emit_number(&emit, "live_bytes", UNIT_BYTES, "", recording->live_bytes);
    emit_number(&emit, "beside_bytes", UNIT_BYTES, "", request.whatif.beside_bytes);
    emit_number(&emit, "wanted_bytes", UNIT_BYTES, "", recording->wanted_bytes);
    emit_list(&emit, "settings", "", request.whatif.count);
    for (size_t i = 0; i < request.whatif.count; i++)
        emit_row(&emit, &request.whatif.rows[i]);
    emit_close(&emit);
    emit_end(&emit);
}

/* ---- the command ---- */

/* Of the processes of a run, the first that has a record: a web UI's helpers use the card, too, but
 * start later. Without any the first one of all, so that the complaint has a name to tell.
 */
static const struct stats_file *recorded_of(const struct records *records) {
    const struct stats_file *found = records->count ? records->list[0] : NULL;
    for (size_t i = records->count; i > 0; i--)
        if (recording_exists(records->list[i - 1]))
            found = records->list[i - 1];
    return found;
}

/* For the report of a run that was out of memory: whatif_answers_best reads it. */
static void keep_answers(const struct stats_file *record) {
    FILE *stream = open_beside(record, "whatif", "we");
    for (size_t i = 0; stream && i < request.whatif.count; i++) {
        const struct whatif_row *row = &request.whatif.rows[i];
        if (row->known)
            fprintf(stream, "%d %lu %s\n", row->of_run, row->card_bytes, row->label);
    }
    if (stream)
        fclose(stream);
}

static int answer(const struct stats_file *record) {
    struct recording recording;
    char error[PATH_MAX + 200];
    if (!recording_load(record, &recording, error, sizeof error)) {
        complain("%s", error);
        return STATUS_BAD_INPUT;
    }
    if (request.whatif.count == 0)
        whatif_add_usual(&request.whatif);
    whatif_add_run(&request.whatif, record);
    bool fine = whatif_replay(&request.whatif, record, &recording, request.python);
    if (fine)
        keep_answers(record);
    if (fine && request.json) {
        write_json(&recording);
    } else if (fine) {
        write_heading(record, &recording);
        write_table();
        write_limits(record, &recording);
    }
    recording_free(&recording);
    return fine ? STATUS_FINE : STATUS_BAD_INPUT;
}

static int whatif_main(struct args *args) {
    struct records records = records_load(args->argv, (size_t)args->operand_count);
    const struct stats_file *record = recorded_of(&records);
    int status = record ? answer(record) : STATUS_BAD_INPUT;
    records_free(&records);
    return status;
}

static const struct flag flags[] = {
    {"card", 0, "SIZE[,SIZE...]", "would it have fitted on these, and by how much",
     .take = take_cards},
    {"setting", 0, "SETTING",
     "only this one beside the run's own: flush, compact, lowvram, or what PYTORCH_CUDA_ALLOC_CONF "
     "would have; may be given more than once",
     .take = take_setting},
    {"python", 0, "FILE", "the Python whose PyTorch replays; else that of the run",
     .value = &request.python},
    {"json", 0, NULL, "as JSON", .on = &request.json},
};

const struct command whatif_command = {
    "whatif",
    GROUP_LOOK,
    "[FILE|PID|PROGRAM...]",
    "which card, which setting would have been enough for a run",
    "Of a run of `vramgc run --record`. Its own PyTorch hands out the same blocks again, on a card "
    "that is simulated, once for each setting and size: no GPU is needed, and none is used. "
    "Without FILE, the newest run that is kept. Takes some seconds.\n"
    "What the record does not tell stands in the last lines.\n",
    FLAGS(flags),
    .main = whatif_main,
};
