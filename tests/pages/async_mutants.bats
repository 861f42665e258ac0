#!/usr/bin/env bats
# Takes the care out of the stream-ordered pool, one piece at a time, and sees tests fail.
load common

# caught PATTERN NAME SOURCE OLD NEW: with this change of src/SOURCE the tests of async.bats that match the pattern fail.
# Races are lost by chance: so many seeds are tried until one shows it.
caught() {
    local mutant
    mutant=$(build/pages/mutant "${@:2}")
    run env VRAMGC_LIBRARY="$PWD/$mutant" SEEDS=30 RELEASE=2.15.0 bats --filter "$1" tests/pages/async.bats
    echo "$output"
    [ "$status" = 1 ]
    [[ $output == *"not ok"* ]]
}

@test "another stream has a block before the GPU is past its end" {
    caught 'in flight: four streams$' pool-settle vm/pool.c 'arena_settle(pool->arena, settled);' \
        'arena_settle(pool->arena, settled + UINT32_MAX);'
}

@test "a block belongs to the default stream, whoever gave it back" {
    caught 'in flight: four streams$' pool-owner vm/pool.c 'ours ? owner_name(stream) : ARENA_NOBODY' 'owner_name(0)'
}

@test "pages are not told that a block has left them" {
    caught 'fits by its live' pool-leave vm/pool.c 'pages_leave(pool->pages, block.address, block.bytes, ours);' ''
}

@test "pages are not told that a block lies in them" {
    caught 'fits by its live' pool-use vm/pool.c 'if (pages_use(pool->pages, block.address, block.bytes, false))' 'if (true)'
}

@test "our own thread does not hear of memory that it is to make for the pool" {
    caught 'next piece of memory' pool-spare serve/async.c '    paged_want_spare(pool_engine(pool));' ''
}

@test "small blocks and large ones are of one range for the engine" {
    caught 'small blocks get little' pool-ranges vm/pool.c 'pages_range(pages, address, large, false) && pages_grant(pages, address, large) &&
           pages_range(pages, address + large, small, false) &&
           pages_grant(pages, address + large, small)' 'pages_range(pages, address, large + small, false) && pages_grant(pages, address, large + small)'
}

@test "a range of the pool gets single pages" {
    caught 'memory comes in large' pool-pieces vm/extent_size.c 'if (!block->segment->range)
        limit_in_segment' 'if (!block->segment->counted)
        limit_in_segment'
}

@test "a large piece for a large block lies far beyond its end" {
    caught 'fits by its live' pool-beyond vm/commit.c 'end > block->end ? block->allowed.part_beyond : block->allowed.part' 'block->allowed.part + 0 * end'
}

@test "the last piece given back does not grow" {
    caught 'lies on its pages' pool-edge vm/arena.c 'return edge ? edge : piece;' 'return piece;'
}

@test "PyTorch's figures are those of the driver's pool" {
    caught 'calls that programs' pool-figures serve/async.c '*bytes += figures.used_bytes;' ''
}

@test "a high mark is not reset" {
    caught 'calls that programs' pool-high serve/async.c 'if (device)
        pool_reset_high' 'if (!device)
        pool_reset_high'
}

@test "what the pool holds counts as free" {
    caught 'calls that programs' pool-free serve/native.c 'record_thread.pages_ahead_bytes +
                         paged_async_bytes(device)' 'record_thread.pages_ahead_bytes'
}

@test "another pool is taken for the default one" {
    caught 'calls that programs' pool-default serve/async.c 'if (!pool || !means_default(device, call->pool))' 'if (!pool)'
}

@test "memory is handed out to a captured stream" {
    caught 'calls that programs' pool-capture serve/async.c 'record_captured(stream) ||' ''
}

@test "a thread without a context stays without" {
    caught 'calls that programs' pool-bind serve/async.c 'REAL(cuCtxSetCurrent)(primary);' '(void)primary;'
}

@test "other devices are not let in" {
    caught 'calls that programs' pool-peers serve/async.c 'opened = pages_let_in(pool_engine(pool), other) && opened;' ';'
}

@test "empty_cache is nobody's business" {
    caught 'empty_cache has' pool-trim serve/async.c 'pages_trim(pool_engine(pool));' ';'
}

@test "what was trimmed is kept for ever" {
    caught 'empty_cache has' pool-trimmed vm/decommit.c 'purge_trimmed(pages, tick);' ';'
}

@test "what is idle goes, trimmed or not" {
    caught 'without empty_cache' pool-untrimmed vm/decommit.c 'min_u64(tick, pages->patience.trimmed_tick)' 'tick'
}

@test "what was trimmed goes at once" {
    caught 'storm of empty_cache' pool-storm serve/async.c 'pages_trim(pool_engine(pool));' 'atomic_store(&device->asked, true);'
}
