#!/usr/bin/env bats
# Takes the care out of the stream-ordered pool, one piece at a time, and sees tests fail.
# bats file_tags=mutants
load common

# caught PATTERN NAME SOURCE OLD NEW: with this change of src/SOURCE the tests of async.bats that match the pattern fail.
# Races are lost by chance: so many seeds are tried until one shows it.
caught() {
    local mutant
    mutant=$(build/vm/mutant "${@:2}")
    run env VRAMGC_LIBRARY="$PWD/$mutant" SEEDS=30 C10DRIVE_PATIENCE_MS=5000 bats --filter "$1" tests/vm/async.bats
    echo "$output"
    [ "$status" = 1 ]
    [[ $output == *"not ok"* ]]
}

@test "another stream has a block before the GPU is past its end" {
    caught 'in flight: four streams$' pool-settle vm/pool.c 'arena_fence(pool->arena, fenced);' \
        'arena_fence(pool->arena, fenced + UINT32_MAX);'
}

@test "a block belongs to the default stream, whoever gave it back" {
    caught 'in flight: four streams$' pool-owner vm/pool.c 'ours ? owner_name(stream) : STREAM_NONE' 'owner_name(0)'
}

@test "pages are not told that a block has left them" {
    caught 'fits by its live' pool-leave vm/pool.c 'vm_mark_idle(pool->vm, block.address, block.bytes, ours);' ''
}

@test "pages are not told that a block lies in them" {
    caught 'fits by its live' pool-use vm/pool.c 'if (vm_commit(pool->vm, block.address, block.bytes, false))' 'if (true)'
}

@test "the last piece given back does not grow" {
    caught 'lies on its pages' pool-edge vm/arena.c 'return edge ? edge : chunk;' 'return chunk;'
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
    caught 'calls that programs' pool-free serve/capacity.c '__atomic_load_n(&device->own_pool.page_bytes, __ATOMIC_RELAXED)' '0'
}

@test "another pool is taken for the default one" {
    caught 'calls that programs' pool-default serve/async.c 'if (!pool || !means_default(device, call->pool))' 'if (!pool)'
}

@test "memory is handed out to a captured stream" {
    caught 'calls that programs' pool-capture serve/async.c 'ASYNC_PAGES || capture_includes(stream))' 'ASYNC_PAGES)'
}

@test "a thread without a context stays without" {
    caught 'calls that programs' pool-bind serve/async.c 'REAL(cuCtxSetCurrent)(primary);' '(void)primary;'
}

@test "other devices are not let in" {
    caught 'calls that programs' pool-peers serve/async.c 'opened = vm_add_peer(pool_engine(pool), other) && opened;' ';'
}

@test "empty_cache is nobody's business" {
    caught 'empty_cache has' pool-trim serve/async.c 'vm_trim(pool_engine(pool));' ';'
}

@test "what was trimmed is kept for ever" {
    caught 'empty_cache has' pool-trimmed vm/engine.c 'page_table_retain_uncounted(&vm->table);' ';'
}
