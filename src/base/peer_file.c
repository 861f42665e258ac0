/* peer_file.c: see peer_file.h. It must not use a file that is not what it made, nor change it. Who
 * asks may hold the lock of PyTorch's allocator: a peer that is gone is not waited for at all, one
 * that let somebody wait in vain only when it has answered. */
#include "base/peer_file.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process_stat.h"
#include "base/state_folder.h"
#include "base/text.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

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
    text_format(&text, "%s/peers2-%s-%lu", folder, machine.nodename, ids.st_ino);
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
    atomic_store(&slot->taking, 0);
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

uint64_t peer_file_card(const char *bus_id) {
    return *bus_id ? text_hash(bus_id) : 0;
}

/* ---- asking ---- */

/* How often it is looked whether the peer lives. */
#define ALIVE_NS (20 * MILLISECOND_NS)

/* More than any card has: what others say is no more than that. */
#define MOST_BYTES ((uint64_t)1 << 50)

/* Where it has the card; NULL: not, or it is not to be asked. */
static struct peer_card *card_in(const struct peer_ask *ask, size_t i) {
    struct peer_slot *slot = peer_file_slot(i);
    if (!slot || ask->tried[i] || atomic_load(&slot->late))
        return NULL;
    for (size_t j = 0; j < VRAMGC_MAX_DEVICES; j++)
        if (atomic_load(&slot->cards[j].card) == ask->card &&
            atomic_load(&slot->cards[j].idle_bytes) > 0)
            return peer_file_lives(slot) ? &slot->cards[j] : NULL;
    return NULL;
}

/* The slot with the most to give; all of them together have *sum_bytes. PEERS_SLOTS: none. */
static size_t find_largest(const struct peer_ask *ask, uint64_t *sum_bytes) {
    uint64_t most_bytes = 0;
    size_t largest = PEERS_SLOTS;
    *sum_bytes = 0;
    for (size_t i = 0; i < PEERS_SLOTS; i++) {
        struct peer_card *card = card_in(ask, i);
        uint64_t bytes = card ? min_u64(atomic_load(&card->idle_bytes), MOST_BYTES) : 0;
        *sum_bytes += bytes;
        if (bytes > most_bytes)
            largest = i, most_bytes = bytes;
    }
    return largest;
}

uint64_t peer_idle_bytes(const struct peer_ask *ask) {
    uint64_t sum_bytes;
    find_largest(ask, &sum_bytes);
    return sum_bytes;
}

/* False: it has not answered in time. */
static bool await_answer(struct peer_slot *slot, unsigned asked, uint64_t end_ns) {
    for (;;) {
        unsigned answered = atomic_load(&slot->answered);
        uint64_t now_ns = clock_ns();
        if ((int)(answered - asked) >= 0)
            return true;
        if (now_ns >= end_ns || !peer_file_lives(slot))
            return false;
        struct timespec time = {0, (long)min_u64(end_ns - now_ns, ALIVE_NS)};
        syscall(SYS_futex, &slot->answered, FUTEX_WAIT, answered, &time, NULL, 0);
    }
}

static uint64_t ask_one(const struct peer_ask *ask, struct peer_slot *slot,
                        struct peer_card *card) {
    uint64_t before_bytes = atomic_load(&card->gave_bytes);
    atomic_store(&card->asker, ask->asker);
    atomic_store(&card->wanted_bytes, (uint64_t)ask->lacking_bytes);
    unsigned asked = atomic_fetch_add(&slot->asked, 1) + 1;
    syscall(SYS_futex, &slot->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    if (!await_answer(slot, asked, ask->end_ns)) {
        uint64_t wanted_bytes = (uint64_t)ask->lacking_bytes;
        atomic_compare_exchange_strong(&card->wanted_bytes, &wanted_bytes, 0);
        atomic_store(&slot->late, 1);
        return 0;
    }
    return min_u64(atomic_load(&card->gave_bytes) - before_bytes, MOST_BYTES);
}

uint64_t peer_ask_idle(struct peer_ask *ask) {
    uint64_t given_bytes = 0, sum_bytes;
    size_t largest;
    while (ask->lacking_bytes > 0 && clock_ns() < ask->end_ns &&
           (largest = find_largest(ask, &sum_bytes)) < PEERS_SLOTS) {
        struct peer_slot *slot = peer_file_slot(largest);
        struct peer_card *card = card_in(ask, largest);
        uint64_t pid = slot ? peer_file_pid(slot) : 0;
        uint64_t bytes = slot && card ? ask_one(ask, slot, card) : 0;
        ask->tried[largest] = true;
        ask->lacking_bytes -= (int64_t)bytes;
        given_bytes += bytes;
        if (bytes && ask->tell)
            ask->tell(ask, pid, bytes);
    }
    return given_bytes;
}

/* --- to be parked --- */

/* How much the owner of a slot that may be parked holds of the card; 0: nothing, or it may not be.
 */
static uint64_t parkable_bytes(const struct peer_ask *ask, const struct peer_slot *slot) {
    uint64_t bytes = 1; /* it may not have told yet what it has taken */
    if (!slot || atomic_load(&slot->rests_since_ns) <= (ask->waits ? PEER_STAYS : PEER_WORKS) ||
        peer_file_pid(slot) == ask->asker || !peer_file_lives(slot) ||
        !process_key_lives(atomic_load(&slot->parker)))
        return 0;
    for (size_t j = 0; j < VRAMGC_MAX_DEVICES; j++)
        if (atomic_load(&slot->cards[j].card) == ask->card)
            bytes += min_u64(atomic_load(&slot->cards[j].held_bytes), MOST_BYTES);
    return bytes;
}

uint64_t peer_parkable_bytes(const struct peer_ask *ask) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < PEERS_SLOTS; i++)
        bytes += parkable_bytes(ask, peer_file_slot(i));
    return bytes;
}

bool peer_ask_turn(struct peer_ask *ask) {
    struct peer_slot *longest = NULL;
    uint64_t since_ns = UINT64_MAX, bytes = 0;
    bool asked = false;
    for (size_t i = 0; i < PEERS_SLOTS; i++) {
        struct peer_slot *slot = peer_file_slot(i);
        uint64_t parkable = parkable_bytes(ask, slot);
        uint64_t since = parkable ? atomic_load(&slot->rests_since_ns) : PEER_WORKS;
        bytes += parkable;
        asked = asked || (parkable && atomic_load(&slot->park_for));
        if (since > PEER_WORKS && since < since_ns)
            longest = slot, since_ns = since;
    }
    if ((int64_t)bytes < ask->lacking_bytes)
        return false;
    if (longest && !asked) {
        ask->parks_pid = peer_file_pid(longest);
        ask->parks_bytes = parkable_bytes(ask, longest);
        atomic_store(&longest->park_for, ask->asker);
    }
    return true;
}
