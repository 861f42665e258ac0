/* See card_file.h. The file's lock goes with a process that is killed. */
#include "card_file.h"
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct card_file {
    struct {
        int pid;
        size_t bytes[MAX_DEVICES];
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
