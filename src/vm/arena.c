/* arena.c: see arena.h. The range is cut into chunks. A free chunk is FREE, for everybody, or it is
 * WAITING: it belongs to the stream that gave it back, until its epoch is fenced. It must never
 * hand a waiting chunk to another stream. */
#include "vm/arena.h"

#include "vm/tree.h"

/* As many owners as PyTorch has streams (vm_internal.h): what further ones give back waits. */
enum { OWNERS = 128, ZONES = 2, SLAB_BYTES = 256 << 10 };
enum zone { LARGE, SMALL };
enum state { FREE, WAITING, USED, LEAVING };

/* A stream that has given something back; its chunks by size. One that was destroyed keeps its
 * place until its last chunk is fenced. */
struct owner {
    uint64_t stream;
    bool alive;
    size_t chunks;
    uint64_t bytes; /* in them */
    struct tree by_size[ZONES];
};

struct chunk {
    struct tree_node node; /* FREE and WAITING: by size; USED: by address */
    uint64_t address, bytes;
    uint64_t epoch;               /* WAITING: when it was given back */
    struct chunk *before, *after; /* neighbours within the zone */
    struct chunk *older, *newer;  /* WAITING: in the order of giving back */
    struct owner *owner;          /* WAITING: NULL is none */
    uint8_t state, zone;
};

struct slab {
    struct slab *next;
    struct chunk chunks[];
};

struct arena {
    uint64_t address, bytes;
    struct chunk *first[ZONES];
    struct tree by_size[ZONES]; /* FREE */
    struct tree used;
    struct chunk *oldest, *newest; /* WAITING */
    uint64_t fenced_epoch;
    struct owner owners[OWNERS];
    size_t owner_count; /* places ever used */
    struct slab *slabs;
    struct chunk *spare; /* linked by after */
    uint32_t *live;      /* for each 2 MiB page: blocks that reach into it */
    struct arena_figures figures;
};

/* --- memory of the books --- */

static bool more_chunks(struct arena *arena) {
    struct slab *slab = memory_map(SLAB_BYTES);
    if (!slab)
        return false;
    slab->next = arena->slabs;
    arena->slabs = slab;
    for (size_t i = 0; i < (SLAB_BYTES - sizeof *slab) / sizeof *slab->chunks; i++) {
        slab->chunks[i].after = arena->spare;
        arena->spare = &slab->chunks[i];
    }
    return true;
}

static struct chunk *new_chunk(struct arena *arena) {
    if (!arena->spare && !more_chunks(arena))
        return NULL;
    struct chunk *chunk = arena->spare;
    arena->spare = chunk->after;
    return chunk;
}

static void drop_chunk(struct arena *arena, struct chunk *chunk) {
    chunk->after = arena->spare;
    arena->spare = chunk;
}

static size_t live_bytes(uint64_t bytes) {
    return bytes / PAGE_BYTES * sizeof(uint32_t);
}

/* --- owners --- */

/* NULL for STREAM_NONE, too, which never gets a place. */
static struct owner *find_owner(struct arena *arena, uint64_t stream) {
    for (size_t i = 0; i < arena->owner_count; i++)
        if (arena->owners[i].alive && arena->owners[i].stream == stream)
            return &arena->owners[i];
    return NULL;
}

/* NULL where there are too many streams: their chunks just have to wait. */
static struct owner *make_owner(struct arena *arena, uint64_t stream) {
    struct owner *owner = find_owner(arena, stream);
    for (size_t i = 0; i < OWNERS && !owner && stream != STREAM_NONE; i++) {
        if (arena->owners[i].chunks)
            continue;
        owner = &arena->owners[i];
        *owner = (struct owner){.stream = stream, .alive = true};
        arena->owner_count = i < arena->owner_count ? arena->owner_count : i + 1;
    }
    return owner;
}

void arena_stream_gone(struct arena *arena, uint64_t stream) {
    struct owner *owner = find_owner(arena, stream);
    if (owner)
        owner->alive = false;
}

/* --- chunks in their trees and lists --- */

static struct chunk *chunk_of(struct tree_node *node) {
    return (struct chunk *)node; /* its first member; NULL of NULL */
}

static struct tree *tree_of(struct arena *arena, const struct chunk *chunk) {
    if (chunk->state == USED)
        return &arena->used;
    if (chunk->state == FREE)
        return &arena->by_size[chunk->zone];
    return chunk->owner ? &chunk->owner->by_size[chunk->zone] : NULL;
}

static void queue(struct arena *arena, struct chunk *chunk) {
    chunk->older = arena->newest;
    chunk->newer = NULL;
    *(arena->newest ? &arena->newest->newer : &arena->oldest) = chunk;
    arena->newest = chunk;
}

static void unqueue(struct arena *arena, struct chunk *chunk) {
    *(chunk->older ? &chunk->older->newer : &arena->oldest) = chunk->newer;
    *(chunk->newer ? &chunk->newer->older : &arena->newest) = chunk->older;
}

static void put_in(struct arena *arena, struct chunk *chunk) {
    struct tree *tree = tree_of(arena, chunk);
    struct tree_key key = {chunk->bytes, chunk->address};
    if (chunk->state == USED)
        key = (struct tree_key){chunk->address, 0};
    if (tree)
        tree_insert(tree, &chunk->node, key);
    if (chunk->state != WAITING)
        return;
    arena->figures.waiting_bytes += chunk->bytes;
    if (chunk->owner) {
        chunk->owner->chunks++;
        chunk->owner->bytes += chunk->bytes;
    }
}

static void take_out(struct arena *arena, struct chunk *chunk) {
    struct tree *tree = tree_of(arena, chunk);
    if (tree)
        tree_remove(tree, &chunk->node);
    if (chunk->state != WAITING)
        return;
    arena->figures.waiting_bytes -= chunk->bytes;
    if (chunk->owner) {
        chunk->owner->chunks--;
        chunk->owner->bytes -= chunk->bytes;
    }
}

/* --- neighbours --- */

/* Who may have one of them may have the other, or shall wait for it: chunks of one owner; and one
 * that is free for everybody joins one that waits, but for the rest of the zone, which other
 * streams need. */
static bool can_join(const struct chunk *chunk, const struct chunk *other) {
    if (!other || other->state > WAITING)
        return false;
    if (chunk->state == FREE || other->state == FREE)
        return chunk->state == other->state ||
               (chunk->state == WAITING && chunk->owner && other->after != NULL);
    return chunk->owner && chunk->owner == other->owner;
}

/* The neighbour becomes a part of the chunk, which is in no tree. The later epoch counts. */
static void swallow(struct arena *arena, struct chunk *chunk, struct chunk *other) {
    take_out(arena, other);
    if (other->state == WAITING) {
        unqueue(arena, other);
        chunk->epoch = max_u64(chunk->epoch, other->epoch);
    }
    if (other == chunk->before) {
        chunk->address = other->address;
        chunk->before = other->before;
        *(chunk->before ? &chunk->before->after : &arena->first[chunk->zone]) = chunk;
    } else {
        chunk->after = other->after;
        if (chunk->after)
            chunk->after->before = chunk;
    }
    chunk->bytes += other->bytes;
    drop_chunk(arena, other);
}

/* Behind a neighbour may be one that could not join that one: it was free, and that one waited. */
static void join_around(struct arena *arena, struct chunk *chunk) {
    while (can_join(chunk, chunk->after))
        swallow(arena, chunk, chunk->after);
    while (can_join(chunk, chunk->before))
        swallow(arena, chunk, chunk->before);
}

/* --- 2 MiB pages with blocks in them --- */

static void count_pages(struct arena *arena, const struct chunk *chunk, bool more) {
    uint64_t first = (chunk->address - arena->address) / PAGE_BYTES;
    uint64_t last = (chunk->address + chunk->bytes - 1 - arena->address) / PAGE_BYTES;
    struct arena_figures *figures = &arena->figures;
    for (uint64_t i = first; i <= last; i++) {
        if (more)
            figures->page_bytes += arena->live[i]++ == 0 ? PAGE_BYTES : 0;
        else
            figures->page_bytes -= --arena->live[i] == 0 ? PAGE_BYTES : 0;
    }
    figures->page_high_bytes = max_u64(figures->page_high_bytes, figures->page_bytes);
}

static void count_block(struct arena *arena, const struct chunk *chunk, bool more) {
    struct arena_figures *figures = &arena->figures;
    figures->blocks += more ? 1 : UINT64_MAX;
    figures->used_bytes += more ? chunk->bytes : 0 - chunk->bytes;
    figures->used_high_bytes = max_u64(figures->used_high_bytes, figures->used_bytes);
    count_pages(arena, chunk, more);
}

/* --- the range --- */

static bool add_zone(struct arena *arena, enum zone zone, uint64_t address, uint64_t bytes) {
    struct chunk *chunk = bytes ? new_chunk(arena) : NULL;
    if (!chunk)
        return !bytes;
    *chunk =
        (struct chunk){.address = address, .bytes = bytes, .state = FREE, .zone = (uint8_t)zone};
    arena->first[zone] = chunk;
    put_in(arena, chunk);
    return true;
}

struct arena *arena_open(uint64_t address, uint64_t bytes, uint64_t small_bytes) {
    struct arena *arena = memory_map(sizeof *arena);
    if (!arena)
        return NULL;
    arena->address = address;
    arena->bytes = bytes;
    arena->live = memory_map(live_bytes(bytes));
    if (arena->live && add_zone(arena, LARGE, address, bytes - small_bytes) &&
        add_zone(arena, SMALL, address + bytes - small_bytes, small_bytes))
        return arena;
    arena_close(arena);
    return NULL;
}

void arena_close(struct arena *arena) {
    for (struct slab *slab = arena->slabs, *next; slab; slab = next) {
        next = slab->next;
        memory_unmap(slab, SLAB_BYTES);
    }
    memory_unmap(arena->live, live_bytes(arena->bytes));
    memory_unmap(arena, sizeof *arena);
}

/* --- handing out --- */

/* Grows the last chunk that this stream gave back into the unused rest of the zone behind it, up to
 * the bytes wanted. NULL: the stream has no chunk there. */
static struct chunk *extend_edge(struct arena *arena, struct chunk *rest, uint64_t bytes,
                                 const struct owner *owner) {
    struct chunk *edge = rest->before;
    if (!edge || edge->state != WAITING || !owner || edge->owner != owner ||
        edge->bytes + rest->bytes <= bytes)
        return NULL;
    uint64_t lacking = bytes - edge->bytes;
    take_out(arena, rest);
    rest->address += lacking;
    rest->bytes -= lacking;
    put_in(arena, rest);
    take_out(arena, edge);
    edge->bytes = bytes;
    put_in(arena, edge);
    return edge;
}

/* Prefers what this stream gave back, because pages lie behind it, even where only a part is
 * needed; then the unused rest of the zone. */
static struct chunk *best_fit(struct arena *arena, enum zone zone, uint64_t bytes,
                              uint64_t stream) {
    struct owner *owner = find_owner(arena, stream);
    struct tree_key key = {bytes, 0};
    struct tree_node *node = owner ? tree_at_least(&owner->by_size[zone], key) : NULL;
    if (node)
        return chunk_of(node);
    struct chunk *chunk = chunk_of(tree_at_least(&arena->by_size[zone], key));
    bool is_rest = chunk && !chunk->after;
    struct chunk *edge = is_rest ? extend_edge(arena, chunk, bytes, owner) : NULL;
    return edge ? edge : chunk;
}

/* The rest of the chunk stays what it is, and where it is in the queue. */
static struct chunk *cut_chunk(struct arena *arena, struct chunk *rest, uint64_t bytes) {
    struct chunk *chunk = new_chunk(arena);
    if (!chunk)
        return NULL;
    take_out(arena, rest);
    *chunk = (struct chunk){.address = rest->address,
                            .bytes = bytes,
                            .zone = rest->zone,
                            .before = rest->before,
                            .after = rest};
    *(chunk->before ? &chunk->before->after : &arena->first[chunk->zone]) = chunk;
    rest->before = chunk;
    rest->address += bytes;
    rest->bytes -= bytes;
    put_in(arena, rest);
    return chunk;
}

static struct chunk *carve(struct arena *arena, struct chunk *found, uint64_t bytes) {
    if (found->bytes > bytes)
        return cut_chunk(arena, found, bytes);
    take_out(arena, found);
    if (found->state == WAITING)
        unqueue(arena, found);
    return found;
}

static struct arena_block block_of(struct chunk *chunk) {
    return (struct arena_block){chunk->address, chunk->bytes, chunk};
}

struct arena_block arena_take(struct arena *arena, uint64_t bytes, uint64_t stream) {
    if (!bytes || bytes > arena->bytes)
        return (struct arena_block){0};
    uint64_t rounded = (bytes + ARENA_GRAIN_BYTES - 1) / ARENA_GRAIN_BYTES * ARENA_GRAIN_BYTES;
    struct chunk *found =
        rounded <= ARENA_SMALL_BYTES ? best_fit(arena, SMALL, rounded, stream) : NULL;
    if (!found)
        found = best_fit(arena, LARGE, rounded, stream);
    struct chunk *chunk = found ? carve(arena, found, rounded) : NULL;
    if (!chunk)
        return (struct arena_block){0};
    chunk->state = USED;
    chunk->owner = NULL;
    put_in(arena, chunk);
    count_block(arena, chunk, true);
    return block_of(chunk);
}

/* --- giving back --- */

struct arena_block arena_claim(struct arena *arena, uint64_t address) {
    struct chunk *chunk = chunk_of(tree_at_least(&arena->used, (struct tree_key){address, 0}));
    if (!chunk || chunk->address != address)
        return (struct arena_block){0};
    take_out(arena, chunk);
    chunk->state = LEAVING;
    count_block(arena, chunk, false);
    return block_of(chunk);
}

void arena_give(struct arena *arena, const struct arena_block *block, uint64_t stream,
                uint64_t epoch) {
    struct chunk *chunk = block->chunk;
    chunk->state = epoch <= arena->fenced_epoch ? FREE : WAITING;
    chunk->owner = chunk->state == WAITING ? make_owner(arena, stream) : NULL;
    chunk->epoch = epoch;
    join_around(arena, chunk);
    if (chunk->state == WAITING)
        queue(arena, chunk);
    put_in(arena, chunk);
}

void arena_fence(struct arena *arena, uint64_t epoch) {
    arena->fenced_epoch = max_u64(arena->fenced_epoch, epoch);
    while (arena->oldest && arena->oldest->epoch <= arena->fenced_epoch) {
        struct chunk *chunk = arena->oldest;
        take_out(arena, chunk);
        unqueue(arena, chunk);
        chunk->state = FREE;
        chunk->owner = NULL;
        join_around(arena, chunk);
        put_in(arena, chunk);
    }
}

/* --- looking --- */

uint64_t arena_foreign_bytes(const struct arena *arena, uint64_t stream) {
    const struct owner *owner = find_owner((struct arena *)arena, stream);
    return arena->figures.waiting_bytes - (owner ? owner->bytes : 0);
}

struct arena_figures arena_figures(const struct arena *arena) {
    return arena->figures;
}

void arena_reset_high(struct arena *arena, bool used, bool pages) {
    struct arena_figures *figures = &arena->figures;
    figures->used_high_bytes = used ? figures->used_bytes : figures->used_high_bytes;
    figures->page_high_bytes = pages ? figures->page_bytes : figures->page_high_bytes;
}

/* --- for tests --- */

struct count {
    uint64_t blocks, used_bytes, waiting_bytes, waiting, bytes;
};

static bool chunk_is_valid(const struct arena *arena, const struct chunk *chunk) {
    const struct tree *tree = tree_of((struct arena *)arena, chunk);
    bool found = !tree || tree_at_least(tree, chunk->node.key) == &chunk->node;
    bool linked = !chunk->after || (chunk->after->before == chunk &&
                                    chunk->after->address == chunk->address + chunk->bytes);
    bool joined =
        !(chunk->after && chunk->state == chunk->after->state && chunk->state <= WAITING &&
          chunk->owner == chunk->after->owner && (chunk->state == FREE || chunk->owner));
    bool fenced = chunk->state == WAITING && chunk->epoch <= arena->fenced_epoch;
    return found && linked && joined && chunk->bytes && chunk->bytes % ARENA_GRAIN_BYTES == 0 &&
           (chunk->state == WAITING || !chunk->owner) && (!fenced || chunk != arena->oldest);
}

static bool zone_is_valid(const struct arena *arena, enum zone zone, struct count *count) {
    for (const struct chunk *chunk = arena->first[zone]; chunk; chunk = chunk->after) {
        if (!chunk_is_valid(arena, chunk) || chunk->zone != zone)
            return false;
        count->bytes += chunk->bytes;
        count->blocks += chunk->state == USED;
        count->used_bytes += chunk->state == USED ? chunk->bytes : 0;
        count->waiting += chunk->state == WAITING;
        count->waiting_bytes += chunk->state == WAITING ? chunk->bytes : 0;
    }
    return true;
}

static uint64_t counted_pages(const struct arena *arena) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < arena->bytes / PAGE_BYTES; i++)
        bytes += arena->live[i] ? PAGE_BYTES : 0;
    return bytes;
}

bool arena_is_valid(const struct arena *arena) {
    struct count count = {0};
    const struct arena_figures *figures = &arena->figures;
    if (!zone_is_valid(arena, LARGE, &count) || !zone_is_valid(arena, SMALL, &count))
        return false;
    for (const struct chunk *chunk = arena->oldest; chunk; chunk = chunk->newer)
        count.waiting -= chunk->state == WAITING;
    return count.bytes == arena->bytes && count.blocks == figures->blocks && !count.waiting &&
           count.used_bytes == figures->used_bytes && counted_pages(arena) == figures->page_bytes &&
           count.waiting_bytes == figures->waiting_bytes;
}
