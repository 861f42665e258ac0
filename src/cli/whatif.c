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

enum { WHATIF_ROWS = 24, MOST_CARDS = 8, WHATIF_SCHEMA = 1 };

static struct {
    struct whatif_row rows[WHATIF_ROWS];
    size_t count;
    uint64_t beside_bytes; /* of the card, that PyTorch did not have: the context, others */
    uint64_t cards[MOST_CARDS];
    size_t card_count;
    const char *python;
    bool json;
} request;

extern const char replay_script[];

static const struct {
    const char *typed, *label, *mode;
} modes[] = {
    {"flush", "vramgc --mode flush", "flush"},
    {"compact", "vramgc --mode compact", "compact"},
    {"lowvram", "vramgc --mode flush --lowvram", "flush+lowvram"},
};

/* Its row, which is added where there is none. */
static struct whatif_row *whatif_add(const char *setting) {
    struct whatif_row row = {.mode = "off"}, *same = request.rows;
    text_copy(row.conf, sizeof row.conf, setting);
    text_copy(row.label, sizeof row.label, *setting ? setting : "PyTorch's default");
    for (size_t i = 0; i < ARRAY_LENGTH(modes); i++)
        if (strcmp(setting, modes[i].typed) == 0) {
            text_copy(row.label, sizeof row.label, modes[i].label);
            text_copy(row.mode, sizeof row.mode, modes[i].mode);
            row.conf[0] = 0;
        }
    while (same < request.rows + request.count && strcmp(same->label, row.label) != 0)
        same++;
    if (same == request.rows + request.count)
        request.rows[request.count++] = row;
    return same;
}

static void whatif_add_usual(void) {
    static const char *const usual[] = {"",
                                        "expandable_segments:True",
                                        "max_split_size_mb:128",
                                        "roundup_power2_divisions:8",
                                        "garbage_collection_threshold:0.8",
                                        "flush",
                                        "compact",
                                        "lowvram"};
    for (size_t i = 0; i < ARRAY_LENGTH(usual); i++)
        whatif_add(usual[i]);
}

/* Observe changes nothing; what vramgc chose for PyTorch its mode chooses again. */
static void whatif_add_run(const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    bool acts = strcmp(file->mode, "flush") == 0 || strcmp(file->mode, "compact") == 0;
    bool low = acts && stats_file_setting_is(record, "lowvram", "1");
    const char *setting = low ? "lowvram" : acts ? file->mode : file->alloc_conf;
    whatif_add(setting)->of_run = true;
}

/* ---- the process ---- */

/* A file without a name, which Python reads at its own pace: a pipe might have to wait for it. */
static bool steps_to_read(const struct recording *recording, int *fd) {
    FILE *stream = fdopen(*fd = memfd_create("vramgc-steps", MFD_CLOEXEC), "w");
    return stream &&
           fwrite(recording->steps, sizeof *recording->steps, recording->count, stream) ==
               recording->count &&
           fflush(stream) == 0 && lseek(*fd, 0, SEEK_SET) == 0;
}

_Noreturn static void become_python(int from, int to, const char *const *words) {
    unsetenv("LD_PRELOAD");
    unsetenv("VRAMGC_WHATIF");
    if (dup2(from, STDIN_FILENO) >= 0 && dup2(to, STDOUT_FILENO) >= 0)
        execvp(words[0], (char *const *)(uintptr_t)words);
    dprintf(STDOUT_FILENO, "! cannot start %s: %s\n", words[0], strerrordesc_np(errno));
    _exit(STATUS_MISSING);
}

/* NUMBER SMALLEST RETRIES RESERVED ASKED, NUMBER ! WHY, or ! WHY. */
static bool take_answer(const char *line) {
    size_t number;
    int rest = 0;
    if (*line == '!') {
        complain("whatif: %s", line + 2);
        return false;
    }
    if (sscanf(line, "%zu %n", &number, &rest) < 1 || number >= request.count)
        return true;
    struct whatif_row *row = &request.rows[number];
    row->known = sscanf(line + rest, "%lu %lu %lu", &row->card_bytes, &row->retries,
                        &row->reserved_bytes) == 3;
    if (line[rest] == '!')
        text_copy(row->error, sizeof row->error, line + rest + 2);
    return true;
}

static bool take_answers(int fd, const char *python) {
    char line[1024];
    bool fine = true, all = true;
    FILE *stream = fdopen(fd, "r");
    while (stream && fgets(line, sizeof line, stream)) {
        line[strcspn(line, "\n")] = 0;
        clean_text(line, sizeof line);
        fine = take_answer(line) && fine;
    }
    if (stream)
        fclose(stream);
    for (size_t i = 0; i < request.count; i++)
        all = all && (request.rows[i].known || *request.rows[i].error);
    if (fine && !all)
        complain("whatif: %s ended before it had answered", python);
    return fine && all;
}

/* The library, and the folder of the simulated driver beside it. */
static bool find_device(char library[PATH_MAX], char folder[PATH_MAX + 16]) {
    char error[PATH_MAX + 200];
    if (!preload_library(library, PATH_MAX, error, sizeof error)) {
        complain("%s", error);
        return false;
    }
    size_t length = (size_t)(text_after_folder(library) - library);
    snprintf(folder, PATH_MAX + 16, "%.*swhatif", (int)length, library);
    if (access(folder, X_OK) == 0)
        return true;
    complain("the simulated card is missing: %s", folder);
    return false;
}

static bool whatif_replay(const struct stats_file *record, const struct recording *recording) {
    const char *python = request.python;
    static char library[PATH_MAX], folder[PATH_MAX + 16], packages[1024], figures[80];
    const char *words[2 * WHATIF_ROWS + 16] = {
        NULL,     "-c",   "import sys; exec(sys.argv[1])", replay_script, folder, library,
        packages, figures};
    size_t count = 8;
    const struct vramgc_device *device = &record->file->devices[recording->device];
    int steps = -1, answers[2] = {-1, -1}, status;
    if (!find_device(library, folder))
        return false;
    if (!python) { /* the run's, and the folder that has torch/lib/libc10_cuda.so */
        text_copy(packages, sizeof packages, recording->allocator);
        char *end = strstr(packages, "/torch/lib/");
        *(end ? end : packages) = 0;
        python = record->file->executable;
    }
    words[0] = python;
    /* The least that the context and other programs had, and the most of other libraries. */
    request.beside_bytes = others_least(device) + device->stats.other_bytes.peak;
    snprintf(figures, sizeof figures, "%lu %lu %.17g", request.beside_bytes, recording->live_bytes,
             recording->fraction);
    for (const struct whatif_row *row = request.rows; row < request.rows + request.count; row++) {
        words[count++] = row->mode;
        words[count++] = row->conf;
    }
    pid_t child = -1;
    if (steps_to_read(recording, &steps) && pipe2(answers, O_CLOEXEC) == 0)
        child = fork();
    if (child == 0)
        become_python(steps, answers[1], words);
    close(steps);
    close(answers[1]);
    if (child < 0) {
        complain("whatif: no process can be started: %s", strerrordesc_np(errno));
        return false;
    }
    bool fine = take_answers(answers[0], python);
    waitpid(child, &status, 0);
    return fine;
}

static bool take_cards(const struct args *args) {
    char list[256], *rest = list;
    text_copy(list, sizeof list, args->value);
    for (const char *one = strsep(&rest, ","); one; one = strsep(&rest, ",")) {
        uint64_t card = 0;
        if (request.card_count == MOST_CARDS || !parse_size(one, &card) || card == 0) {
            complain("--card: '%s' is not a size such as 8GiB, or there are more than %d", one,
                     MOST_CARDS);
            return false;
        }
        request.cards[request.card_count++] = card;
    }
    return true;
}

static bool take_setting(const struct args *args) {
    bool room = request.count + 1 < WHATIF_ROWS;
    if (room)
        whatif_add(args->value);
    else
        complain("--setting: that is too many at a time");
    return room;
}

/* ---- what is shown ---- */

static void write_replayed(const struct stats_file *record, const struct recording *recording) {
    uint64_t first = recording->first_job, last = recording->last_job;
    TEXT_OVER(text, line, PROGRAM_BYTES);
    program_name(record->file, &text);
    puts(line);
    text = (struct text)TEXT_IN(line);
    text_add(&text, "Replayed: ");
    if (first < last)
        text_format(&text, "jobs %lu to %lu", first, last);
    else
        text_format(&text, first == last ? "job %lu" : "what it did", first);
    text_format(&text, ", %s block events", show_count(recording->events).text);
    if (recording->events_lost)
        text_format(&text, "; the record begins after the first %s",
                    show_count(recording->events_lost).text);
    text_format(&text,
                ". Beside PyTorch's memory %s of the card: the CUDA context, other "
                "libraries, other programs.",
                show_bytes(request.beside_bytes).text);
    summary_wrapped_at(stdout, 0, "", line);
}

static void write_row(const struct whatif_row *row) {
    bool own = strcmp(row->mode, "off") == 0;
    printf("%c %-34s %10s %8s %11s", row->of_run ? '>' : ' ', row->label,
           row->known ? show_bytes(row->card_bytes).text : "?",
           row->known && own ? show_count(row->retries).text : "",
           row->known && own ? show_bytes(row->reserved_bytes).text : "");
    /* A cell for each --card: the answer, and by how much. */
    for (size_t i = 0; i < request.card_count; i++) {
        TEXT_OVER(text, cell, 48);
        bool fits = row->card_bytes <= request.cards[i];
        uint64_t by =
            fits ? request.cards[i] - row->card_bytes : row->card_bytes - request.cards[i];
        text_format(&text, "%s %s%s", fits ? "yes" : "no", fits ? "+" : "-", show_bytes(by).text);
        printf("  %14s", row->known ? cell : "?");
    }
    puts("");
    if (*row->error)
        summary_wrapped_at(stdout, 4, "", row->error);
}

static void write_table(void) {
    printf("\n  %-34s %10s %8s %11s", "setting", "card", "retries", "reserved");
    for (size_t i = 0; i < request.card_count; i++)
        printf("  %14s", show_bytes(request.cards[i]).text);
    puts("");
    for (size_t i = 0; i < request.count; i++)
        write_row(&request.rows[i]);
    puts("");
}

static void say(const char *text) {
    summary_wrapped_at(stdout, 0, "", text);
}

static void write_limits(const struct stats_file *record, const struct recording *recording) {
    say("> is what this run had. card: the smallest on which all of these blocks fit, as they do "
        "16 MiB above it, and not 16 MiB below; retries and reserved: there, on PyTorch's own.");
    say("Not known here: workspaces that cuDNN and others choose by what is free, what a program "
        "such as ComfyUI decides by it, other programs, what a MemPool was told when it was made, "
        "a MemPool before PyTorch 2.10, what torch.compile puts into a graph's pool before it "
        "captures, the memory fraction of a program that was killed, and the driver's pool "
        "(cudaMallocAsync).");
    if (!stats_file_is_expandable(record->file))
        say("Recorded without expandable segments: PyTorch then tells up to 1 MiB more of a block "
            "than was asked for, so that a little less may do.");
    if (recording->fraction > 0)
        say("The program let PyTorch have a part of the card only, and so does the replay.");
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
    emit_number(&emit, "beside_bytes", UNIT_BYTES, "", request.beside_bytes);
    emit_number(&emit, "wanted_bytes", UNIT_BYTES, "", recording->wanted_bytes);
    emit_list(&emit, "settings", "", request.count);
    for (size_t i = 0; i < request.count; i++)
        emit_row(&emit, &request.rows[i]);
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
    for (const struct whatif_row *row = request.rows; stream && row < request.rows + request.count;
         row++)
        if (row->known)
            fprintf(stream, "%d %lu %s\n", row->of_run, row->card_bytes, row->label);
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
    if (strstr(record->file->alloc_conf, "per_process_memory_fraction"))
        recording.fraction = 0; /* of the setting, not of the program */
    if (request.count == 0)
        whatif_add_usual();
    whatif_add_run(record);
    bool fine = whatif_replay(record, &recording);
    if (fine)
        keep_answers(record);
    if (fine && request.json) {
        write_json(&recording);
    } else if (fine) {
        write_replayed(record, &recording);
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
