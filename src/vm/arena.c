/* arena.c: see arena.h. The range is cut into pieces. A free piece is FREE, for everybody, or it is
 * WAITING: it belongs to the stream that gave it back, until its tick is settled. It must never
 * hand a waiting piece to another stream. */
#include "vm/arena.h"

#include "base/base.h"
#include "vm/tree.h"

enum { OWNERS = 128, ZONES = 2, SLAB_BYTES = 256 << 10 };
enum zone { LARGE, SMALL };
enum state { FREE, WAITING, USED, LEAVING };

/* A stream that has given something back; its pieces by size. One that was destroyed keeps its
 * place until its last piece is settled. */
struct owner {
    uint64_t stream;
    bool alive;
    size_t pieces;
    uint64_t bytes; /* in them */
    struct tree by_size[ZONES];
};

struct piece {
    struct tree_node node; /* FREE and WAITING: by size; USED: by address */
    uint64_t address, bytes;
    uint64_t tick;                /* WAITING: when it was given back */
    struct piece *before, *after; /* neighbours within the zone */
    struct piece *older, *newer;  /* WAITING: in the order of giving back */
    struct owner *owner;          /* WAITING: NULL is nobody */
    uint8_t state, zone;
};

struct slab {
    struct slab *next;
    struct piece pieces[];
};

struct arena {
    uint64_t address, bytes;
    struct piece *first[ZONES];
    struct tree by_size[ZONES]; /* FREE */
    struct tree used;
    struct piece *oldest, *newest; /* WAITING */
    uint64_t settled_tick;
    struct owner owners[OWNERS];
    size_t owner_count; /* places ever used */
    struct slab *slabs;
    struct piece *spare; /* linked by after */
    uint32_t *live;      /* for each 2 MiB page: blocks that reach into it */
    struct arena_figures figures;
};

/* --- memory of the books --- */

static bool more_pieces(struct arena *arena) {
    struct slab *slab = memory_map(SLAB_BYTES);
    if (!slab)
        return false;
    slab->next = arena->slabs;
    arena->slabs = slab;
    for (size_t i = 0; i < (SLAB_BYTES - sizeof *slab) / sizeof *slab->pieces; i++) {
        slab->pieces[i].after = arena->spare;
        arena->spare = &slab->pieces[i];
    }
    return true;
}

static struct piece *new_piece(struct arena *arena) {
    if (!arena->spare && !more_pieces(arena))
        return NULL;
    struct piece *piece = arena->spare;
    arena->spare = piece->after;
    *piece = (struct piece){0};
    return piece;
}

static void drop_piece(struct arena *arena, struct piece *piece) {
    piece->after = arena->spare;
    arena->spare = piece;
}

static size_t live_bytes(uint64_t bytes) {
    return bytes / ARENA_PAGE_BYTES * sizeof(uint32_t);
}

/* --- owners --- */

static struct owner *find_owner(struct arena *arena, uint64_t stream) {
    for (size_t i = 0; i < arena->owner_count; i++)
        if (arena->owners[i].alive && arena->owners[i].stream == stream)
            return &arena->owners[i];
    return NULL;
}

/* NULL, nobody, where there are too many streams: their pieces just have to wait. */
static struct owner *make_owner(struct arena *arena, uint64_t stream) {
    struct owner *owner = stream == ARENA_NOBODY ? NULL : find_owner(arena, stream);
    for (size_t i = 0; i < OWNERS && !owner && stream != ARENA_NOBODY; i++) {
        if (arena->owners[i].pieces)
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

/* --- pieces in their trees and lists --- */

static struct piece *piece_of(struct tree_node *node) {
    return (struct piece *)node; /* its first member */
}

static struct tree *tree_of(struct arena *arena, const struct piece *piece) {
    if (piece->state == USED)
        return &arena->used;
    if (piece->state == FREE)
        return &arena->by_size[piece->zone];
    return piece->owner ? &piece->owner->by_size[piece->zone] : NULL;
}

static void queue(struct arena *arena, struct piece *piece) {
    piece->older = arena->newest;
    piece->newer = NULL;
    *(arena->newest ? &arena->newest->newer : &arena->oldest) = piece;
    arena->newest = piece;
}

static void unqueue(struct arena *arena, struct piece *piece) {
    *(piece->older ? &piece->older->newer : &arena->oldest) = piece->newer;
    *(piece->newer ? &piece->newer->older : &arena->newest) = piece->older;
}

static void put_in(struct arena *arena, struct piece *piece) {
    struct tree *tree = tree_of(arena, piece);
    struct tree_key key = {piece->bytes, piece->address};
    if (piece->state == USED)
        key = (struct tree_key){piece->address, 0};
    if (tree)
        tree_insert(tree, &piece->node, key);
    if (piece->state != WAITING)
        return;
    arena->figures.waiting_bytes += piece->bytes;
    if (piece->owner) {
        piece->owner->pieces++;
        piece->owner->bytes += piece->bytes;
    }
}

static void take_out(struct arena *arena, struct piece *piece) {
    struct tree *tree = tree_of(arena, piece);
    if (tree)
        tree_remove(tree, &piece->node);
    if (piece->state != WAITING)
        return;
    arena->figures.waiting_bytes -= piece->bytes;
    if (piece->owner) {
        piece->owner->pieces--;
        piece->owner->bytes -= piece->bytes;
    }
}

static void leave_queue(struct arena *arena, struct piece *piece) {
    if (piece->state == WAITING)
        unqueue(arena, piece);
}

/* --- neighbours --- */

/* Who may have one of them may have the other, or shall wait for it: pieces of one owner; and one
 * that is free for everybody joins one that waits, but for the rest of the zone, which other
 * streams need. */
static bool can_join(const struct piece *piece, const struct piece *other) {
    if (!other || other->state > WAITING)
        return false;
    if (piece->state == FREE || other->state == FREE)
        return piece->state == other->state ||
               (piece->state == WAITING && piece->owner && other->after != NULL);
    return piece->owner && piece->owner == other->owner;
}

/* The neighbour becomes a part of the piece, which is in no tree. The later tick counts. */
static void swallow(struct arena *arena, struct piece *piece, struct piece *other) {
    take_out(arena, other);
    leave_queue(arena, other);
    if (other->state == WAITING)
        piece->tick = max_u64(piece->tick, other->tick);
    if (other == piece->before) {
        piece->address = other->address;
        piece->before = other->before;
        *(piece->before ? &piece->before->after : &arena->first[piece->zone]) = piece;
    } else {
        piece->after = other->after;
        if (piece->after)
            piece->after->before = piece;
    }
    piece->bytes += other->bytes;
    drop_piece(arena, other);
}

static void join_around(struct arena *arena, struct piece *piece) {
    if (can_join(piece, piece->after))
        swallow(arena, piece, piece->after);
    if (can_join(piece, piece->before))
        swallow(arena, piece, piece->before);
}

/* --- 2 MiB pages with blocks in them --- */

static void count_pages(struct arena *arena, const struct piece *piece, bool more) {
    uint64_t first = (piece->address - arena->address) / ARENA_PAGE_BYTES;
    uint64_t last = (piece->address + piece->bytes - 1 - arena->address) / ARENA_PAGE_BYTES;
    struct arena_figures *figures = &arena->figures;
    for (uint64_t i = first; i <= last; i++) {
        if (more)
            figures->page_bytes += arena->live[i]++ == 0 ? ARENA_PAGE_BYTES : 0;
        else
            figures->page_bytes -= --arena->live[i] == 0 ? ARENA_PAGE_BYTES : 0;
    }
    figures->page_high_bytes = max_u64(figures->page_high_bytes, figures->page_bytes);
}

static void count_block(struct arena *arena, const struct piece *piece, bool more) {
    struct arena_figures *figures = &arena->figures;
    figures->blocks += more ? 1 : UINT64_MAX;
    figures->used_bytes += more ? piece->bytes : 0 - piece->bytes;
    figures->used_high_bytes = max_u64(figures->used_high_bytes, figures->used_bytes);
    count_pages(arena, piece, more);
}

/* --- the range --- */

static bool add_zone(struct arena *arena, enum zone zone, uint64_t address, uint64_t bytes) {
    struct piece *piece = bytes ? new_piece(arena) : NULL;
    if (!piece)
        return !bytes;
    piece->address = address;
    piece->bytes = bytes;
    piece->zone = (uint8_t)zone;
    piece->state = FREE;
    arena->first[zone] = piece;
    put_in(arena, piece);
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

/* What the stream gave back at the edge of the rest of the zone becomes as large as it is to be, at
 * the cost of the rest. NULL: there is none. */
static struct piece *extend_edge(struct arena *arena, struct piece *rest, uint64_t bytes,
                                 const struct owner *owner) {
    struct piece *edge = rest->before;
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

/* What the stream itself gave back comes first: its pages are there. So does a part of it before
 * what nobody has had yet. */
static struct piece *best_fit(struct arena *arena, enum zone zone, uint64_t bytes,
                              uint64_t stream) {
    struct owner *owner = stream == ARENA_NOBODY ? NULL : find_owner(arena, stream);
    struct tree_key key = {bytes, 0};
    struct tree_node *node = owner ? tree_at_least(&owner->by_size[zone], key) : NULL;
    if (node)
        return piece_of(node);
    node = tree_at_least(&arena->by_size[zone], key);
    struct piece *piece = node ? piece_of(node) : NULL;
    bool is_rest = piece && !piece->after;
    struct piece *edge = is_rest ? extend_edge(arena, piece, bytes, owner) : NULL;
    return edge ? edge : piece;
}

/* The rest of the piece stays what it is, and where it is in the queue. */
static struct piece *cut(struct arena *arena, struct piece *rest, uint64_t bytes) {
    struct piece *piece = new_piece(arena);
    if (!piece)
        return NULL;
    take_out(arena, rest);
    piece->address = rest->address;
    piece->bytes = bytes;
    piece->zone = rest->zone;
    piece->before = rest->before;
    piece->after = rest;
    *(piece->before ? &piece->before->after : &arena->first[piece->zone]) = piece;
    rest->before = piece;
    rest->address += bytes;
    rest->bytes -= bytes;
    put_in(arena, rest);
    return piece;
}

static struct piece *carve(struct arena *arena, struct piece *found, uint64_t bytes) {
    if (found->bytes > bytes)
        return cut(arena, found, bytes);
    take_out(arena, found);
    leave_queue(arena, found);
    return found;
}

uint64_t arena_take(struct arena *arena, uint64_t bytes, uint64_t stream) {
    if (!bytes || bytes > arena->bytes)
        return 0;
    uint64_t rounded = (bytes + ARENA_GRAIN_BYTES - 1) / ARENA_GRAIN_BYTES * ARENA_GRAIN_BYTES;
    struct piece *found =
        rounded <= ARENA_SMALL_BYTES ? best_fit(arena, SMALL, rounded, stream) : NULL;
    if (!found)
        found = best_fit(arena, LARGE, rounded, stream);
    struct piece *piece = found ? carve(arena, found, rounded) : NULL;
    if (!piece)
        return 0;
    piece->state = USED;
    piece->owner = NULL;
    put_in(arena, piece);
    count_block(arena, piece, true);
    return piece->address;
}

/* --- giving back --- */

struct arena_block arena_claim(struct arena *arena, uint64_t address) {
    struct tree_node *node = tree_at_least(&arena->used, (struct tree_key){address, 0});
    struct piece *piece = node ? piece_of(node) : NULL;
    if (!piece || piece->address != address)
        return (struct arena_block){0};
    take_out(arena, piece);
    piece->state = LEAVING;
    count_block(arena, piece, false);
    return (struct arena_block){.address = address, .bytes = piece->bytes, .piece = piece};
}

void arena_give(struct arena *arena, const struct arena_block *block, uint64_t stream,
                uint64_t tick) {
    struct piece *piece = block->piece;
    piece->state = tick <= arena->settled_tick ? FREE : WAITING;
    piece->owner = piece->state == WAITING ? make_owner(arena, stream) : NULL;
    piece->tick = tick;
    join_around(arena, piece);
    if (piece->state == WAITING)
        queue(arena, piece);
    put_in(arena, piece);
}

void arena_settle(struct arena *arena, uint64_t tick) {
    arena->settled_tick = max_u64(arena->settled_tick, tick);
    while (arena->oldest && arena->oldest->tick <= arena->settled_tick) {
        struct piece *piece = arena->oldest;
        take_out(arena, piece);
        unqueue(arena, piece);
        piece->state = FREE;
        piece->owner = NULL;
        join_around(arena, piece);
        put_in(arena, piece);
    }
}

/* --- looking --- */

struct arena_block arena_find(const struct arena *arena, uint64_t address) {
    struct tree_node *node = tree_at_most(&arena->used, (struct tree_key){address, UINT64_MAX});
    struct piece *piece = node ? piece_of(node) : NULL;
    if (!piece || address - piece->address >= piece->bytes)
        return (struct arena_block){0};
    return (struct arena_block){piece->address, piece->bytes, piece};
}

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

static bool piece_is_valid(const struct arena *arena, const struct piece *piece) {
    const struct tree *tree = tree_of((struct arena *)arena, piece);
    bool found = !tree || tree_at_least(tree, piece->node.key) == &piece->node;
    bool linked = !piece->after || (piece->after->before == piece &&
                                    piece->after->address == piece->address + piece->bytes);
    bool joined =
        !(piece->after && piece->state == piece->after->state && piece->state <= WAITING &&
          piece->owner == piece->after->owner && (piece->state == FREE || piece->owner));
    bool settled = piece->state == WAITING && piece->tick <= arena->settled_tick;
    return found && linked && joined && piece->bytes && piece->bytes % ARENA_GRAIN_BYTES == 0 &&
           (piece->state == WAITING || !piece->owner) && (!settled || piece != arena->oldest);
}

static bool zone_is_valid(const struct arena *arena, enum zone zone, struct count *count) {
    for (const struct piece *piece = arena->first[zone]; piece; piece = piece->after) {
        if (!piece_is_valid(arena, piece) || piece->zone != zone)
            return false;
        count->bytes += piece->bytes;
        count->blocks += piece->state == USED;
        count->used_bytes += piece->state == USED ? piece->bytes : 0;
        count->waiting += piece->state == WAITING;
        count->waiting_bytes += piece->state == WAITING ? piece->bytes : 0;
    }
    return true;
}

static uint64_t counted_pages(const struct arena *arena) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < arena->bytes / ARENA_PAGE_BYTES; i++)
        bytes += arena->live[i] ? ARENA_PAGE_BYTES : 0;
    return bytes;
}

bool arena_is_valid(const struct arena *arena) {
    struct count count = {0};
    const struct arena_figures *figures = &arena->figures;
    if (!zone_is_valid(arena, LARGE, &count) || !zone_is_valid(arena, SMALL, &count))
        return false;
    for (const struct piece *piece = arena->oldest; piece; piece = piece->newer)
        count.waiting -= piece->state == WAITING;
    return count.bytes == arena->bytes && count.blocks == figures->blocks && !count.waiting &&
           count.used_bytes == figures->used_bytes && counted_pages(arena) == figures->page_bytes &&
           count.waiting_bytes == figures->waiting_bytes;
}
