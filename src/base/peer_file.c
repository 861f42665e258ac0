/* peer_file.c: see peer_file.h. It must not use a file that is not what it made, nor change it.
 */
#include "base/peer_file.h"

#include "base/file.h"
#include "base/log.h"
#include "base/process_stat.h"
#include "base/state_folder.h"
#include "base/text.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define MAGIC 0x3253524545504756 /* "VGPEERS2" */

enum { STAT_BLOCK_BYTES = 512 };

struct peer_file {
    _Atomic uint64_t magic; /* 0: just made */
    struct peer_slot slots[PEERS_SLOTS];
    _Atomic uint64_t waking;
};

static struct {
    struct peer_file *file;
    _Atomic(struct peer_slot *) own;
    uint64_t owner;
} self;

uint64_t peer_file_pid(const struct peer_slot *slot) {
    return atomic_load(&slot->owner) >> 32;
}

bool peer_file_lives(const struct peer_slot *slot) {
    uint64_t owner = atomic_load(&slot->owner);
    return owner != self.owner && process_key_lives(owner);
}

/* Process ids are those of one machine and one container; a home may be seen from several. */
static bool find_path(char *path, size_t capacity) {
    char folder[1024];
    struct utsname machine = {0};
    struct stat ids = {0};
    if (state_folder_to_use(folder, sizeof folder) == STATE_NOWHERE || uname(&machine) ||
        stat("/proc/self/ns/pid", &ids))
        return false;
    struct text text = text_in(path, capacity);
    text_format(&text, "%s/peers2-%s-%llu", folder, machine.nodename,
                (unsigned long long)ids.st_ino);
    return text.length + 1 < capacity;
}

static const char *prepare_peers(int fd) {
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode))
        return "it is no plain file";
    if (status.st_uid != geteuid() || status.st_mode & (S_IRWXG | S_IRWXO))
        return "it is not this user's alone";
    if (status.st_size != 0 && status.st_size != sizeof(struct peer_file))
        return "it has another size";
    if (status.st_blocks * STAT_BLOCK_BYTES >= (int64_t)sizeof(struct peer_file))
        return NULL;
    int error = file_allot(fd, sizeof(struct peer_file));
    return error ? strerrordesc_np(error) : NULL;
}

static const char *map_peers(int fd) {
    void *p = mmap(NULL, sizeof(struct peer_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return strerrordesc_np(errno);
    struct peer_file *file = p;
    uint64_t before = 0;
    if (!atomic_compare_exchange_strong(&file->magic, &before, MAGIC) && before != MAGIC) {
        munmap(p, sizeof(struct peer_file));
        return "it is another program's, or another version's";
    }
    self.file = file;
    return NULL;
}

/* Whoever puts a pipe there would have us wait for its other end. NULL: it is there. */
static const char *open_peers(const char *path) {
    int fd = file_open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0)
        return errno == ELOOP ? "it is a link" : strerrordesc_np(errno);
    const char *objection = prepare_peers(fd);
    objection = objection ? objection : map_peers(fd);
    close(fd);
    return objection;
}

static bool take_slot(struct peer_slot *slot, bool may_take) {
    uint64_t owner = atomic_load(&slot->owner);
    if (owner != self.owner && (!may_take || process_key_lives(owner)))
        return false;
    return atomic_compare_exchange_strong(&slot->owner, &owner, self.owner);
}

/* exec leaves what the program before had. */
static struct peer_slot *find_slot(void) {
    for (int any = 0; any < 2; any++)
        for (size_t i = 0; i < PEERS_SLOTS; i++)
            if (take_slot(&self.file->slots[i], any))
                return &self.file->slots[i];
    return NULL;
}

static void clear_slot(struct peer_slot *slot) {
    atomic_store(&slot->late, 0);
    atomic_store(&slot->rests_since_ns, PEER_STAYS);
    atomic_store(&slot->park_for, 0);
    atomic_store(&slot->turn_ns, 0);
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        atomic_store(&slot->cards[i].idle_bytes, 0);
        atomic_store(&slot->cards[i].card, 0);
        atomic_store(&slot->cards[i].wanted_bytes, 0);
    }
}

/* By the statistics file, which lies in the same folder. */
static bool is_told_already(const char *objection) {
    return objection == strerrordesc_np(ENOSPC) || objection == strerrordesc_np(EFBIG) ||
           objection == strerrordesc_np(EDQUOT);
}

struct peer_slot *peer_file_join(void) {
    char path[1200];
    self.owner = process_key((uint64_t)getpid());
    if (!self.owner || !find_path(path, sizeof path)) {
        LOG(LOG_INFO, "no folder for what programs on one card share: none is asked for memory");
        return NULL;
    }
    const char *objection = open_peers(path);
    struct peer_slot *slot = objection ? NULL : find_slot();
    if (slot)
        clear_slot(slot);
    else
        LOG(is_told_already(objection) ? LOG_INFO : LOG_WARN,
            "%s is left alone: %s; no other program is asked for idle memory", path,
            objection ? objection : "as many programs as it has room for stand in it");
    atomic_store(&self.own, slot);
    return slot;
}

void peer_file_leave(void) {
    struct peer_slot *own = atomic_exchange(&self.own, NULL);
    uint64_t owner = self.owner;
    if (own)
        atomic_compare_exchange_strong(&own->owner, &owner, 0);
}

void peer_file_forget(void) {
    atomic_store(&self.own, NULL);
}

struct peer_slot *peer_file_own(void) {
    return atomic_load_explicit(&self.own, memory_order_acquire);
}

static bool is_open(void) {
    return peer_file_own() || (!self.owner && self.file);
}

struct peer_slot *peer_file_slot(size_t i) {
    return is_open() ? &self.file->slots[i] : NULL;
}

_Atomic uint64_t *peer_file_waking(void) {
    return is_open() ? &self.file->waking : NULL;
}

bool peer_file_look(void) {
    char path[1200];
    return self.file || (find_path(path, sizeof path) && !open_peers(path));
}

/* FNV-1a. */
uint64_t peer_file_card(const char *bus_id) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *p = bus_id; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
    return *bus_id ? hash : 0;
}
