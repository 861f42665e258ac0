/* See card_file.h. The file's lock goes with a process that is killed. */
#include "card_file.h"
#include "config.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct card_file {
    struct {
        int pid;
        int state;   /* enum card_state */
        int parks;   /* so often it was parked */
        int entered; /* calls of the driver that are under way */
        size_t bytes[MAX_DEVICES], parked_bytes[MAX_DEVICES];
    } users[MAX_CARD_USERS];
};

static struct {
    int fd;
    struct card_file *file;
} card = {.fd = -1};

/* NULL: there is none. */
static struct card_file *open_file(void) {
    const char *path = getenv("SIMGPU_CARD");
    if (card.file != NULL || path == NULL || *path == 0)
        return card.file;
    card.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (card.fd < 0 || ftruncate(card.fd, sizeof *card.file) != 0) {
        fprintf(stderr, "simgpu: SIMGPU_CARD=%s cannot be opened\n", path);
        exit(125);
    }
    void *p = mmap(NULL, sizeof *card.file, PROT_READ | PROT_WRITE, MAP_SHARED, card.fd, 0);
    return card.file = p == MAP_FAILED ? NULL : p;
}

static void lock(short type) {
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    while (fcntl(card.fd, F_OFD_SETLKW, &whole) != 0)
        continue;
}

/* One that waits to be collected has nothing any more. */
static bool is_alive(int pid) {
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "re");
    if (stat == NULL)
        return false;
    bool known = fscanf(stat, "%*d (%*[^)]) %c", &state) == 1;
    fclose(stat);
    return known && state != 'Z' && state != 'X';
}

size_t card_file_others(int ordinal, struct card_user out[MAX_CARD_USERS]) {
    struct card_file *file = open_file();
    size_t count = 0;
    for (int i = 0; file != NULL && i < MAX_CARD_USERS; i++) {
        int pid = __atomic_load_n(&file->users[i].pid, __ATOMIC_ACQUIRE);
        size_t bytes = __atomic_load_n(&file->users[i].bytes[ordinal], __ATOMIC_RELAXED);
        if (pid == 0 || pid == getpid() || bytes == 0 || !is_alive(pid))
            continue;
        out[count++] = (struct card_user){pid, bytes};
    }
    return count;
}

size_t card_file_others_bytes(int ordinal) {
    struct card_user others[MAX_CARD_USERS];
    size_t count = card_file_others(ordinal, others), bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += others[i].bytes;
    return bytes;
}

/* The lock is held. -1: there is no place. */
static int find_place(struct card_file *file) {
    int place = -1;
    for (int i = 0; i < MAX_CARD_USERS; i++) {
        if (file->users[i].pid == getpid())
            return i;
        if (place < 0 && (file->users[i].pid == 0 || !is_alive(file->users[i].pid)))
            place = i;
    }
    if (place >= 0) {
        memset(&file->users[place], 0, sizeof file->users[place]);
        __atomic_store_n(&file->users[place].pid, getpid(), __ATOMIC_RELEASE);
    }
    return place;
}

bool card_file_set(int ordinal, size_t bytes, size_t total_bytes) {
    struct card_file *file = open_file();
    if (file == NULL)
        return true;
    lock(F_WRLCK);
    int place = find_place(file);
    bool fits = place >= 0 && (bytes <= file->users[place].bytes[ordinal] ||
                               bytes + card_file_others_bytes(ordinal) <= total_bytes);
    if (fits)
        __atomic_store_n(&file->users[place].bytes[ordinal], bytes, __ATOMIC_RELAXED);
    lock(F_UNLCK);
    return fits;
}

/* --- a process is stopped, and what it has goes to the host and comes back --- */

/* -1: it has nothing of the card. */
static int place_of(int pid) {
    struct card_file *file = open_file();
    for (int i = 0; file != NULL && i < MAX_CARD_USERS; i++)
        if (__atomic_load_n(&file->users[i].pid, __ATOMIC_ACQUIRE) == pid && is_alive(pid))
            return i;
    return -1;
}

static int state_at(int place) {
    return __atomic_load_n(&card.file->users[place].state, __ATOMIC_SEQ_CST);
}

static void set_state(int place, enum card_state state) {
    __atomic_store_n(&card.file->users[place].state, (int)state, __ATOMIC_SEQ_CST);
}

/* The place of this process does not change. */
static int own_place(void) {
    static int place = -1, owner;
    if (card.file != NULL && (place < 0 || owner != getpid())) {
        place = place_of(getpid());
        owner = getpid();
    }
    return card.file != NULL ? place : -1;
}

/* A call during which the process gets its place was not counted. */
static _Thread_local bool counted;

bool card_file_enter(void) {
    static _Atomic int seen;
    int place = own_place();
    counted = place >= 0;
    while (place >= 0) {
        __atomic_fetch_add(&card.file->users[place].entered, 1, __ATOMIC_SEQ_CST);
        if (state_at(place) == CARD_RUNNING)
            return atomic_exchange(&seen, card.file->users[place].parks) !=
                   card.file->users[place].parks;
        __atomic_fetch_sub(&card.file->users[place].entered, 1, __ATOMIC_SEQ_CST);
        usleep(500);
    }
    return false;
}

void card_file_leave(void) {
    int place = own_place();
    if (counted && place >= 0)
        __atomic_fetch_sub(&card.file->users[place].entered, 1, __ATOMIC_SEQ_CST);
    counted = false;
}

bool card_file_state(int pid, enum card_state *state) {
    int place = place_of(pid);
    if (place >= 0)
        *state = (enum card_state)state_at(place);
    return place >= 0;
}

enum card_answer card_file_lock(int pid, unsigned timeout_ms) {
    int place = place_of(pid);
    if (place < 0)
        return CARD_NO_PROCESS;
    if (state_at(place) != CARD_RUNNING)
        return CARD_WRONG_STATE;
    set_state(place, CARD_LOCKED);
    for (unsigned ms = 0; timeout_ms == 0 || ms < timeout_ms; ms++) {
        if (__atomic_load_n(&card.file->users[place].entered, __ATOMIC_SEQ_CST) == 0)
            return CARD_DONE;
        usleep(1000);
    }
    set_state(place, CARD_RUNNING);
    return CARD_TIMEOUT;
}

enum card_answer card_file_park(int pid) {
    int place = place_of(pid);
    if (place < 0)
        return CARD_NO_PROCESS;
    if (state_at(place) != CARD_LOCKED)
        return CARD_WRONG_STATE;
    lock(F_WRLCK);
    memcpy(card.file->users[place].parked_bytes, card.file->users[place].bytes,
           sizeof card.file->users[place].bytes);
    for (int i = 0; i < MAX_DEVICES; i++)
        __atomic_store_n(&card.file->users[place].bytes[i], 0, __ATOMIC_RELAXED);
    card.file->users[place].parks++;
    set_state(place, CARD_PARKED);
    lock(F_UNLCK);
    return CARD_DONE;
}

/* In all, that is: the process that asks has nothing of the card. */
static bool has_room(int place, int ordinal, size_t total_bytes) {
    size_t bytes = card.file->users[place].parked_bytes[ordinal];
    return bytes == 0 || bytes + card_file_others_bytes(ordinal) <= total_bytes;
}

enum card_answer card_file_restore(int pid, size_t total_bytes) {
    int place = place_of(pid);
    bool room = true;
    if (place < 0)
        return CARD_NO_PROCESS;
    if (state_at(place) != CARD_PARKED)
        return CARD_WRONG_STATE;
    lock(F_WRLCK);
    for (int i = 0; i < MAX_DEVICES; i++)
        room = room && has_room(place, i, total_bytes);
    for (int i = 0; room && i < MAX_DEVICES; i++)
        __atomic_store_n(&card.file->users[place].bytes[i], card.file->users[place].parked_bytes[i],
                         __ATOMIC_RELAXED);
    set_state(place, room ? CARD_LOCKED : CARD_FAILED);
    lock(F_UNLCK);
    return room ? CARD_DONE : CARD_NO_ROOM;
}

enum card_answer card_file_unlock(int pid) {
    int place = place_of(pid);
    if (place < 0)
        return CARD_NO_PROCESS;
    if (state_at(place) != CARD_LOCKED)
        return CARD_WRONG_STATE;
    set_state(place, CARD_RUNNING);
    return CARD_DONE;
}
