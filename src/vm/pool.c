/* pool.c: see pool.h: the arena, which knows who may have which address, and the page engine, which
 * knows what the GPU has finished with. It must never let a block be had by another stream before
 * the engine has found the GPU to be past the moment at which it was given back. */
#include "vm/pool.h"

#include "base/debug.h"
#include "base/lock.h"
#include "base/standards.h"
#include "vm/vm_internal.h"

/* So much that other streams gave back is worth asking the GPU about before new pages are mapped;
 * and for so much the driver is asked whether it is there, before pages are taken. Less is not
 * worth a flush either. */
#define WORTH_ASKING_BYTES MIN_GAIN_BYTES

struct pool {
    struct vm *vm;
    struct lock lock; /* what follows */
    struct arena *arena;
};

static uint64_t whole_pages(uint64_t bytes) {
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Two ranges for the engine: how much of one is filled says how large its next chunks may be, and
 * there is little in that of the small blocks. */
static bool add_ranges(struct vm *vm, uint64_t address, uint64_t large, uint64_t small) {
    return vm_range_add(vm, address, large, false) && vm_attach(vm, address, large) &&
           vm_range_add(vm, address + large, small, false) && vm_attach(vm, address + large, small);
}

/* Large blocks may lie as badly as they like. In one and a half times the card there was once no
 * place for 3 GiB beside 4.2 live ones (Forge's VAE, 2048x2048, on 8 GiB). */
enum { LARGE_CARDS = 4 };

struct pool *pool_open(struct vm *vm, uint64_t total_bytes) {
    uint64_t small = whole_pages(total_bytes / 2), bytes = small + LARGE_CARDS * 2 * small;
    CUdeviceptr address = 0;
    struct pool *pool = total_bytes ? memory_map(sizeof *pool) : NULL;
    if (!pool)
        return NULL;
    pool->vm = vm;
    if (REAL(cuMemAddressReserve)(&address, bytes, PAGE_BYTES, 0, 0) == CUDA_SUCCESS) {
        pool->arena = arena_open(address, bytes, small);
        if (pool->arena && add_ranges(vm, address, bytes - small, small))
            return pool;
        if (pool->arena) /* the engine may know of the addresses: they stay reserved */
            arena_close(pool->arena);
        else
            REAL(cuMemAddressFree)(address, bytes);
    }
    memory_unmap(pool, sizeof *pool);
    return NULL;
}

/* --- streams --- */

/* The default stream has two names. */
static uint64_t only_name(uint64_t stream) {
    return stream == STREAM_LEGACY ? 0 : stream;
}

/* The stream of a thread cannot be told from that of another: what is given back there waits. */
static uint64_t owner_name(uint64_t stream) {
    return stream == STREAM_PER_THREAD ? STREAM_NONE : stream;
}

/* In which context the stream is; NULL: there is no such stream. The handles of the default streams
 * mean those of the current context. */
static CUcontext stream_context(uint64_t stream) {
    CUcontext context = NULL;
    if (stream <= STREAM_PER_THREAD)
        return real_current_context(&context) ? context : NULL;
    real_cuStreamGetCtx_t get_context = REAL(cuStreamGetCtx);
    if (!get_context || get_context((CUstream)(uintptr_t)stream, &context) != CUDA_SUCCESS)
        return NULL;
    return context;
}

/* The engine can follow the stream; from then on it does. */
static bool can_follow(struct pool *pool, uint64_t stream) {
    if (stream > STREAM_PER_THREAD && vm_stream_known(pool->vm, stream))
        return true;
    CUcontext current = NULL; /* in which the engine would make its event */
    if (stream_context(stream) != pool->vm->context || !real_current_context(&current) ||
        current != pool->vm->context)
        return false;
    vm_stream_add(pool->vm, stream);
    return true;
}

void pool_stream_gone(struct pool *pool, uint64_t stream) {
    LOCKED(&pool->lock);
    arena_stream_gone(pool->arena, only_name(stream));
}

/* --- blocks --- */

static struct arena_block claim_block(struct pool *pool, uint64_t address) {
    LOCKED(&pool->lock);
    struct arena_block block = arena_claim(pool->arena, address);
    CHECK_NOW_AND_THEN(arena_is_valid(pool->arena));
    return block;
}

/* The epoch is read after the pages were left: what is fenced then is over. */
static void give_block(struct pool *pool, const struct arena_block *block, uint64_t owner) {
    uint64_t epoch = vm_epoch(pool->vm);
    LOCKED(&pool->lock);
    arena_give(pool->arena, block, owner, epoch);
    CHECK_NOW_AND_THEN(arena_is_valid(pool->arena));
}

/* Asks the GPU, without waiting, whether chunks that other streams gave back are free by now. */
static void ask_about_others(struct pool *pool, uint64_t bytes, uint64_t owner) {
    lock_take(&pool->lock);
    uint64_t foreign = arena_foreign_bytes(pool->arena, owner);
    lock_give(&pool->lock);
    if (foreign >= max_u64(bytes, WORTH_ASKING_BYTES))
        vm_fence_poll(pool->vm, false);
}

static struct arena_block place_block(struct pool *pool, uint64_t bytes, uint64_t owner) {
    uint64_t fenced = vm_fenced_epoch(pool->vm);
    LOCKED(&pool->lock);
    arena_fence(pool->arena, fenced);
    return arena_take(pool->arena, bytes, owner);
}

/* A place whose pages are there. A block that cannot have pages is tried once more: to find that
 * out the engine has waited for the GPU, after which there may be a place with more pages. */
static enum pool_answer place_and_map(struct pool *pool, uint64_t bytes, uint64_t owner,
                                      uint64_t *address) {
    for (bool again = false;; again = true) {
        struct arena_block block = place_block(pool, bytes, owner);
        if (!block.chunk)
            return again ? POOL_FULL : POOL_NOT_OURS;
        if (vm_commit(pool->vm, block.address, block.bytes, false)) {
            *address = block.address;
            return POOL_TAKEN;
        }
        block = claim_block(pool, block.address);
        give_block(pool, &block, owner);
        if (vm_refusal() != CUDA_ERROR_OUT_OF_MEMORY)
            return POOL_NOT_OURS; /* the driver says it itself */
        if (again)
            return POOL_FULL;
    }
}

/* Else all pages that are left would be taken for a block that does not fit. At both ends it may
 * share a page with another. As wherever a block is refused, all that is idle goes back. */
static bool in_vain(struct pool *pool, uint64_t bytes) {
    if (bytes < WORTH_ASKING_BYTES || vm_could_back(pool->vm, bytes - 2 * PAGE_BYTES))
        return false;
    vm_reclaim(pool->vm, UINT64_MAX, VM_WAIT);
    return true;
}

enum pool_answer pool_take(struct pool *pool, uint64_t bytes, uint64_t stream, uint64_t *address) {
    stream = only_name(stream);
    if (!can_follow(pool, stream))
        return POOL_NOT_OURS;
    if (in_vain(pool, bytes))
        return POOL_FULL;
    uint64_t owner = owner_name(stream);
    ask_about_others(pool, bytes, owner);
    return place_and_map(pool, bytes, owner, address);
}

/* A stream of another context is no stream that the engine can follow: it is waited for. Where the
 * driver does not say which context is current, a default stream may be ours: it is asked, too. */
static bool wait_for_stream(struct pool *pool, uint64_t stream) {
    CUcontext current;
    if (stream <= STREAM_PER_THREAD && !real_current_context(&current)) {
        vm_stream_add(pool->vm, stream);
        return true;
    }
    return stream_context(stream) &&
           REAL(cuStreamSynchronize)((CUstream)(uintptr_t)stream) == CUDA_SUCCESS;
}

bool pool_give(struct pool *pool, uint64_t address, uint64_t stream) {
    bool named = stream != STREAM_NONE;
    stream = named ? only_name(stream) : stream;
    bool ours = named && can_follow(pool, stream);
    if (named && !ours && !wait_for_stream(pool, stream))
        return false;
    struct arena_block block = claim_block(pool, address);
    if (!block.chunk)
        return false;
    vm_mark_idle(pool->vm, block.address, block.bytes);
    give_block(pool, &block, ours ? owner_name(stream) : STREAM_NONE);
    return true;
}

struct arena_figures pool_figures(struct pool *pool) {
    LOCKED(&pool->lock);
    return arena_figures(pool->arena);
}

void pool_reset_high(struct pool *pool, bool used, bool reserved) {
    LOCKED(&pool->lock);
    arena_reset_high(pool->arena, used, reserved);
}

void pool_forget(struct pool *pool) {
    if (pool)
        lock_force_open(&pool->lock);
}
