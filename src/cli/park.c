/* park.c: the commands `vramgc park` and `vramgc wake`: a program leaves the card with all that it
 * has, and comes back with its addresses. The driver does it; the program needs no vramgc. It must
 * issue no restore that may not fit, for that would fail for good, take no note for true that
 * another life of the number left, and leave no program locked. */
#include "cli/park.h"
#include "base/base.h"
#include "base/control_group.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/peer_file.h"
#include "base/process_stat.h"
#include "base/state_folder.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/live_file.h"
#include "prove/park_driver.h"
#include "read/cards.h"
#include "read/derived.h"
#include "read/running.h"
#include "read/stats_file.h"
#include "read/units.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- how much of which card it needs to come back, noted when it leaves: nobody tells after ----
 */

enum { PARKED_CARDS = 16 };

struct parked {
    uint64_t pid, process_start;
    size_t count;
    struct {
        char bus_id[16];
        uint64_t bytes;
    } cards[PARKED_CARDS];
};

/* As NVML says; no card: it does not know. */
static struct parked parked_look(uint64_t pid) {
    struct parked parked = {.pid = pid, .process_start = process_start_ticks(pid)};
    struct card_label labels[PARKED_CARDS];
    size_t cards = card_labels(labels, PARKED_CARDS);
    for (size_t i = 0; i < cards; i++) {
        struct card_reading reading = card_read(labels[i].bus_id);
        for (size_t k = 0; reading.known && k < reading.users.count; k++) {
            if (reading.users.list[k].pid != pid)
                continue;
            text_copy(parked.cards[parked.count].bus_id, sizeof parked.cards->bus_id,
                      labels[i].bus_id);
            parked.cards[parked.count++].bytes = reading.users.list[k].bytes;
            break;
        }
    }
    return parked;
}

static uint64_t parked_bytes(const struct parked *parked) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < parked->count; i++)
        bytes += parked->cards[i].bytes;
    return bytes;
}

static bool has_managed_memory(uint64_t pid) {
    struct stats_file *record = running_with_mapping(pid);
    uint64_t bytes = record ? ON_ALL_CARDS(record->file, managed_bytes.current) : 0;
    stats_file_free(record);
    return bytes > 0;
}

/* The driver would not say this: to it a divided card is out of memory. Of the programs on that
 * NVML tells root only. */
static const char *parked_obstacle(const struct parked *parked) {
    struct card_label labels[PARKED_CARDS];
    size_t cards = card_labels(labels, PARKED_CARDS);
    bool divided = parked->count == 0 && cards == 1 && card_is_divided(labels[0].bus_id);
    bool client = false;
    for (size_t i = 0; i < parked->count; i++)
        divided = divided || card_is_divided(parked->cards[i].bus_id);
    for (size_t i = 0; i < cards; i++)
        client = client || card_has_client(labels[i].bus_id, parked->pid);
    return divided                           ? "its card is divided (MIG)"
           : client                          ? "it has its card through MPS"
           : has_managed_memory(parked->pid) ? "it has managed memory (cudaMallocManaged)"
                                             : NULL;
}

static bool path_of(uint64_t pid, char *path, size_t capacity) {
    char folder[4096];
    if (!state_folder(folder, sizeof folder) || !state_folder_make(folder) ||
        !state_folder_is_trusted(folder))
        return false;
    return snprintf(path, capacity, "%s/parked.%lu", folder, pid) < (int)capacity;
}

static bool parked_write(const struct parked *parked) {
    char path[4200];
    if (!path_of(parked->pid, path, sizeof path))
        return false;
    unlink(path);
    int fd = file_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        return false;
    fprintf(file, "%lu\n", parked->process_start);
    for (size_t i = 0; i < parked->count; i++)
        fprintf(file, "%s %lu\n", parked->cards[i].bus_id, parked->cards[i].bytes);
    return fclose(file) == 0;
}

/* False: nothing is noted, or not of this life of the process. */
static bool parked_read(uint64_t pid, struct parked *out) {
    char path[4200];
    unsigned long long start = 0, bytes = 0;
    FILE *file = path_of(pid, path, sizeof path) ? fopen(path, "re") : NULL;
    *out = (struct parked){.pid = pid};
    if (!file)
        return false;
    if (fscanf(file, "%llu", &start) == 1)
        out->process_start = start;
    while (out->count < PARKED_CARDS &&
           fscanf(file, "%15s %llu", out->cards[out->count].bus_id, &bytes) == 2)
        out->cards[out->count++].bytes = bytes;
    fclose(file);
    return out->count > 0 && process_lives(pid, out->process_start);
}

void parked_forget(uint64_t pid) {
    char path[4200];
    if (path_of(pid, path, sizeof path))
        unlink(path);
}

static bool parked_fits(const struct parked *parked, char *why, size_t capacity) {
    for (size_t i = 0; i < parked->count; i++) {
        struct card_reading reading = card_read(parked->cards[i].bus_id);
        if (reading.known && reading.free_bytes >= parked->cards[i].bytes)
            continue;
        snprintf(why, capacity, "it needs %s of card %s, which has %s free",
                 show_bytes(parked->cards[i].bytes).text, parked->cards[i].bus_id,
                 show_bytes(reading.free_bytes).text);
        return false;
    }
    return true;
}

void parked_ask(uint64_t pid) {
    struct parked parked = {0};
    parked_read(pid, &parked);
    for (size_t i = 0; i < parked.count; i++) {
        struct card_reading reading = card_read(parked.cards[i].bus_id);
        struct peer_ask ask = {
            .card = peer_file_card(parked.cards[i].bus_id),
            .asker = pid,
            .waits = true,
            .end_ns = clock_ns() + PEER_PATIENCE_NS,
            .lacking_bytes = (int64_t)parked.cards[i].bytes - (int64_t)reading.free_bytes,
        };
        uint64_t could_give = peer_idle_bytes(&ask) + peer_parkable_bytes(&ask);
        if (!reading.known || ask.lacking_bytes <= 0 || (int64_t)could_give < ask.lacking_bytes)
            continue;
        peer_ask_idle(&ask);
        if (ask.lacking_bytes > 0)
            peer_ask_turn(&ask);
    }
}

/* ---- parking ---- */

/* Work on the card ends first; a web UI between two images has none. */
enum { LOCK_PATIENCE_MS = 10000 };

static bool forced;

/* 0 after a complaint: none can be found, or there is no driver that can park. */
static uint64_t process_to_park(const struct args *args) {
    uint64_t pid = 0;
    if (!parse_count(args->argv[0], &pid))
        pid = live_file_pid(args->argv[0]);
    const char *objection = pid ? park_driver_open() : NULL;
    if (objection)
        complain("%s", objection);
    return objection ? 0 : pid;
}

static double seconds_since(uint64_t start_ns) {
    return (double)(clock_ns() - start_ns) / (double)SECOND_NS;
}

/* A program of this user, as far as that is known without the driver. */
static bool uses_card(uint64_t pid) {
    struct stats_file *record = running_with_mapping(pid);
    bool known = record;
    stats_file_free(record);
    return known || (kill((pid_t)pid, 0) == 0 && parked_look(pid).count > 0);
}

static bool is_in_state(uint64_t pid, enum park_state wanted) {
    static const char *const words[] = {
        [PARK_RUNS] = "is not parked",
        [PARK_LOCKED] = "is stopped, but not parked: `vramgc wake` lets it go on",
        [PARK_PARKED] = "is parked already; `vramgc wake` brings it back",
        [PARK_FAILED] = "cannot come back any more: the driver has failed with it. End it",
        [PARK_UNKNOWN] = "does not use a card, or is not yours",
    };
    enum park_state state = park_state_of(pid);
    const char *objection = park_objection(park_proof());
    if (state != wanted && state == PARK_UNKNOWN && uses_card(pid))
        complain("process %lu uses the card, but the driver cannot park it%s%s", pid,
                 objection ? "; " : "", objection ? objection : "");
    else if (state != wanted)
        complain("process %lu %s", pid, words[state]);
    return state == wanted;
}

static bool may_be_parked(const struct parked *parked, enum park_how how) {
    const char *obstacle = how == PARK_FORCED ? NULL : parked_obstacle(parked);
    if (obstacle)
        complain("process %lu stays on the card: %s, and then the driver does not park",
                 parked->pid, obstacle);
    return !obstacle;
}

/* 0: not known. Our container's limit: what parks mostly lies in the one of the program. */
static uint64_t available_bytes(void) {
    char text[512]; /* it is in the first lines */
    file_read_start("/proc/meminfo", text, sizeof text);
    return min_u64(parse_kib_line(text, "MemAvailable:"), control_group_room(""));
}

/* The copy counts as the program's own RAM. */
static bool host_has_room(const struct parked *parked, enum park_how how) {
    uint64_t available = available_bytes(), needed = parked_bytes(parked);
    if (how == PARK_FORCED || (needed && needed <= available))
        return true;
    if (!needed)
        complain("NVML does not say what process %lu has of which card", parked->pid);
    else
        complain("its %s need room in RAM, of which %s are available", show_bytes(needed).text,
                 show_bytes(available).text);
    return false;
}

/* The driver's word, as it is meant here. */
static const char *meaning(const char *error) {
    static const char *const known[][2] = {
        {"CUDA_ERROR_NOT_READY", " (its work did not end in time)"},
        {"CUDA_ERROR_NOT_SUPPORTED",
         " (not with managed memory, nor while it draws or is profiled, nor on every machine)"},
        {"CUDA_ERROR_OUT_OF_MEMORY", " (no room in RAM, or on the card)"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
        if (strcmp(error, known[i][0]) == 0)
            return known[i][1];
    return "";
}

static bool has_left(const struct parked *parked) {
    const char *error = park_lock(parked->pid, LOCK_PATIENCE_MS), *what = "did not stop";
    if (!error) {
        what = "could not leave the card";
        error = parked_write(parked) ? park_checkpoint(parked->pid)
                                     : "what it has cannot be noted in the state folder";
        if (error)
            park_unlock(parked->pid);
    }
    if (error)
        complain("process %lu %s: %s%s%s", parked->pid, what, error, meaning(error),
                 park_state_of(parked->pid) == PARK_RUNS ? "; it goes on" : "");
    return !error;
}

/* One parks or wakes a program at a time. */
static struct {
    struct vramgc_file *file; /* NULL: it does not run under vramgc, and the driver sees to it */
    sigset_t signals;
} turn;

/* The word has the key of who has the turn; one that is gone has none. */
static bool take_turn(_Atomic uint64_t *word) {
    uint64_t own = process_key((uint64_t)getpid()), end_ns = clock_ns() + PEER_WAKING_NS,
             before = 0;
    while (!atomic_compare_exchange_strong(word, &before, own)) {
        if (!process_key_lives(before))
            continue;
        if (clock_ns() >= end_ns) {
            complain("process %lu has been parking or waking a program for a minute: it may hang",
                     before >> 32);
            return false;
        }
        sleep_ns(MILLISECOND_NS);
        before = 0;
    }
    return true;
}

/* A program must not stay locked because somebody pressed Ctrl-C. */
static bool turn_begins(uint64_t pid) {
    sigset_t all;
    sigfillset(&all);
    turn.file = live_file_find(pid);
    if (turn.file && !take_turn((_Atomic uint64_t *)&turn.file->parked)) {
        live_file_close(turn.file);
        return false;
    }
    sigprocmask(SIG_SETMASK, &all, &turn.signals);
    return true;
}

/* The driver knows best what has become of it. */
static void turn_ends(uint64_t pid, const char *label) {
    enum park_state state = park_state_of(pid);
    if (turn.file)
        __atomic_store_n(&turn.file->parked, state != PARK_RUNS && state != PARK_UNKNOWN,
                         __ATOMIC_SEQ_CST);
    if (turn.file && label)
        live_file_mark(turn.file, label);
    live_file_close(turn.file);
    sigprocmask(SIG_SETMASK, &turn.signals, NULL);
}

bool park_process(uint64_t pid, enum park_how how, uint64_t asker) {
    char label[128] = "parked";
    struct parked parked = parked_look(pid);
    uint64_t start_ns = clock_ns();
    if (!may_be_parked(&parked, how) || !turn_begins(pid))
        return false;
    if (asker)
        snprintf(label, sizeof label, "parked for %s (%lu)", process_stat(asker).name, asker);
    bool done = is_in_state(pid, PARK_RUNS) && host_has_room(&parked, how) && has_left(&parked);
    turn_ends(pid, done ? label : NULL);
    if (done)
        printf("process %lu is %s: %s of the card are free, after %.1f s.\n", pid, label,
               show_bytes(parked_bytes(&parked)).text, seconds_since(start_ns));
    fflush(stdout);
    return done;
}

static bool card_has_room(uint64_t pid, enum park_how how) {
    struct parked parked;
    char why[160] = "it is not known how much it needs";
    if (how == PARK_FORCED || (parked_read(pid, &parked) && parked_fits(&parked, why, sizeof why)))
        return true;
    if (how != PARK_QUIET)
        complain("process %lu stays parked: %s", pid, why);
    return false;
}

bool wake_fits(uint64_t pid) {
    return card_has_room(pid, PARK_QUIET);
}

static bool is_back(uint64_t pid) {
    const char *error = park_state_of(pid) == PARK_PARKED ? park_restore(pid) : NULL;
    if (error || (error = park_unlock(pid)))
        complain("process %lu could not come back: %s%s", pid, error, meaning(error));
    else
        parked_forget(pid);
    return !error;
}

/* A call of one that is parked itself takes nothing before that one is back. */
static bool takes(const struct peer_slot *slot) {
    if ((int)atomic_load(&slot->taking) <= 0 || !peer_file_lives(slot))
        return false;
    enum park_state state = park_state_of(peer_file_pid(slot));
    return state != PARK_PARKED && state != PARK_FAILED;
}

/* Calls that passed the gate before it was shut are over by then. */
static bool nobody_takes(enum park_how how) {
    uint64_t end_ns = clock_ns() + LOCK_PATIENCE_MS * MILLISECOND_NS;
    const struct peer_slot *slot;
    for (size_t i = 0; i < PEERS_SLOTS && (slot = peer_file_slot(i)); i++) {
        while (takes(slot) && clock_ns() < end_ns)
            sleep_ns(MILLISECOND_NS);
        if (!takes(slot))
            continue;
        if (how != PARK_QUIET)
            complain("process %lu has been taking memory for 10 s: try again", peer_file_pid(slot));
        return false;
    }
    return true;
}

/* One at a time, and no program under vramgc takes memory meanwhile (card/reading.h). */
static bool is_back_alone(uint64_t pid, enum park_how how) {
    static _Atomic uint64_t nobody;
    _Atomic uint64_t *waking = peer_file_look() ? peer_file_waking() : &nobody;
    if (!take_turn(waking))
        return false;
    bool done = nobody_takes(how) && card_has_room(pid, how) && is_back(pid);
    uint64_t own = process_key((uint64_t)getpid());
    atomic_compare_exchange_strong(waking, &own, 0);
    return done;
}

/* Others must not wait for one that finds no room. */
bool wake_process(uint64_t pid, enum park_how how) {
    uint64_t start_ns = clock_ns();
    if ((park_state_of(pid) == PARK_PARKED && !card_has_room(pid, how)) || !turn_begins(pid))
        return false;
    bool done = park_state_of(pid) == PARK_LOCKED
                    ? is_back(pid)
                    : is_in_state(pid, PARK_PARKED) && is_back_alone(pid, how);
    turn_ends(pid, done ? "woken" : NULL);
    if (done)
        printf("process %lu goes on, after %.1f s.\n", pid, seconds_since(start_ns));
    fflush(stdout);
    return done;
}

/* Who parks by hand needs the card now, and can look after the program: only a driver that is known
 * to fail is refused. */
static bool driver_may(void) {
    enum park_proof proof = park_proof();
    if (proof == PARK_UNTRIED)
        complain("this driver has not been tried (`vramgc prove` does): where it fails the program "
                 "is lost");
    else if (proof == PARK_REFUTED && !forced)
        complain("`vramgc prove` found that this driver does not park: only with --force");
    return proof != PARK_REFUTED || forced;
}

static int park_main(struct args *args) {
    uint64_t pid = process_to_park(args);
    bool done = pid && driver_may() && park_process(pid, forced ? PARK_FORCED : PARK_KNOWN, 0);
    if (done)
        printf("It stands still at its next use of the card, until `vramgc wake %lu`.\n", pid);
    return done ? STATUS_FINE : STATUS_BAD_INPUT;
}

static int wake_main(struct args *args) {
    uint64_t pid = process_to_park(args);
    return pid && wake_process(pid, forced ? PARK_FORCED : PARK_KNOWN) ? STATUS_FINE
                                                                       : STATUS_BAD_INPUT;
}

static const struct flag park_flags[] = {
    {"force", 0, NULL,
     "also where RAM, or for wake the card, has no room, or that is not known, and with a driver "
     "that fails, or is known to refuse",
     .on = &forced},
};

const struct command park_command = {
    "park",
    GROUP_RUNNING,
    "PID|NAME",
    "move a program off the card into RAM, with all that it has there",
    "NAME: as of `vramgc mark`; a number may be any program's of yours. What it has lies in RAM "
    "meanwhile, and the program stands still at its next use of the card. The driver does it, 570 "
    "or newer, and not for managed memory, MIG, MPS or programs that draw. Exit status 1 when the "
    "program could not leave the card: then it goes on.\n",
    FLAGS(park_flags),
    .least = 1,
    .most = 1,
    .lacking = "which program?",
    .main = park_main,
};

const struct command wake_command = {
    "wake",
    GROUP_RUNNING,
    "PID|NAME",
    "bring a parked program back to the card",
    "Its addresses and contents are as before. Only where the card has room for it: without, the "
    "driver could never bring it back. Exit status 1 when it stays parked.\n",
    FLAGS(park_flags),
    .least = 1,
    .most = 1,
    .lacking = "which program?",
    .main = wake_main,
};
