#!/usr/bin/env bats
# cudaMallocAsync from the stream-ordered pool of our own (VRAMGC_ASYNC=pages): PyTorch's allocator on backend:cudaMallocAsync, under
# random operations and with work in flight; the calls of other programs (pools.py); the pool alone under many threads.
load common

pool_setup() {
    export VRAMGC_ASYNC=pages PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
}

# PyTorch itself warns when a block's own stream is recorded on it, as random operations do, and when it asks a full pool once more and
# another thread has freed something meanwhile.
quiet() {
    errors=$(grep -vE 'Called record_stream on tensor whose original|recovered from an allocation failure' <<<"$errors" || true)
}

# pool_passes SCRIPT [OPTION-OF-SIMGPU...]: on every release, without a complaint of anybody, and with pages.
pool_passes() {
    local version
    pool_setup
    for version in $versions; do
        drive "$version" "$@"
        quiet
        [ "$status" = 0 ] || return 1
        [ -z "$errors" ] || return 1
        [ "$(fact page_maps)" -gt 0 ] || return 1
    done
}

# in_flight STREAMS FIRST-SEED
in_flight() {
    local seed
    for ((seed = $2; seed < $2 + ${SEEDS:-1}; seed++)); do
        python3 tests/vm/in_flight.py --seed "$seed" --streams "$1" >"$BATS_TEST_TMPDIR/script" || return 1
        pool_passes "$BATS_TEST_TMPDIR/script" --mem 768MiB || return 1
        [ "$(fact page_unmaps)" -gt 0 ] || return 1
    done
}

# soaks THREADS STREAMS FIRST-SEED
soaks() {
    local seed
    for ((seed = $3; seed < $3 + ${SEEDS:-1}; seed++)); do
        pool_passes "random seed=$seed ops=4000 threads=$1 streams=$2 max=96MiB live=180 every=500 compare=0 fill=1; free_all; synchronize" \
            --mem "${MEMORY:-1600}MiB" || return 1
        [[ $output == *"corrupted=0"* ]] || return 1
        [ "$(fact page_unmaps)" -gt 0 ] || return 1
        [ "$(fact unknown_frees)$(fact lost_frees)$(fact internal_errors)" = 000 ] || return 1
    done
}

lowvram() { export VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=2ms VRAMGC_COOLDOWN=0; }
constant_reclaim() { lowvram; BEHIND=$PWD/build/vm/libconstant_reclaim.so; }

# bats test_tags=random
@test "work in flight: one stream" { in_flight 1 1; }
# bats test_tags=random
@test "work in flight: four streams" { in_flight 4 10; }
# bats test_tags=random
@test "work in flight: four streams, constant reclaim, a card's latencies" { constant_reclaim && SIMGPU_LATENCY=card in_flight 4 40; }
# bats test_tags=random
@test "random operations: one thread, one stream" { soaks 1 1 100; }
# bats test_tags=random
@test "random operations: one thread, eight streams" { soaks 1 8 200; }
# bats test_tags=random
@test "random operations: four threads, eight streams" { soaks 4 8 300; }
# bats test_tags=random
@test "random operations: lowvram, four threads, eight streams" { lowvram && soaks 4 8 400; }
# bats test_tags=random
@test "random operations: constant reclaim, four threads, eight streams" { constant_reclaim && soaks 4 8 500; }
@test "random operations: constant reclaim, a card's latencies, plenty of memory" {
    constant_reclaim && MEMORY=8000 SIMGPU_LATENCY=card soaks 2 4 600
}

# 768 MiB, of which the context takes 256.
@test "what fits by its live tensors fits; more is torch's own out-of-memory, and smaller ones go on" {
    pool_passes 'alloc a 300MiB; fill a 1; free a; alloc b 150MiB stream=1; fill b 2 stream=1; alloc c 350MiB stream=2; fill c 3 stream=2;
        stream 1; verify b 2; stream 2; verify c 3; stream 0; expect_oom 30MiB; alloc d 8MiB; fill d 4; verify d 4; stream 1; free b; stream 0;
        alloc e 140MiB; fill e 5; verify e 5; expect vramgc.held_bytes <= 512MiB' --mem 768MiB
    [ "$(fact driver_calls)" -le 3 ] # none of these calls reaches the driver, but for what it refuses
}

@test "what is asked for in vain takes no page" {
    pool_passes 'alloc a 4GiB; fill a 1; expect_oom 5GiB; expect vramgc.held_bytes <= 4100MiB; verify a 1' --mem 8GiB
    [ "$(fact held_bytes_peak)" -le $((4100 << 20)) ]
    pool_passes 'alloc a 4GiB; fill a 1; alloc b 2GiB; free b; expect_oom 5GiB; expect vramgc.held_bytes <= 4100MiB; verify a 1' --mem 8GiB
}

@test "lowvram: idle pages go back at rest, live ones stay" {
    VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=5ms VRAMGC_COOLDOWN=0 pool_passes 'alloc a 300MiB; fill a 1; alloc b 50MiB; fill b 2; free a; synchronize;
        await vramgc.held_bytes <= 52MiB; verify b 2; alloc c 300MiB; fill c 3; verify c 3; verify b 2' --mem 768MiB
}

@test "empty_cache has idle pages go back; without it they stay" {
    export VRAMGC_COOLDOWN=10ms VRAMGC_TEST_SAMPLE=20ms
    pool_passes 'alloc a 300MiB; fill a 1; alloc b 50MiB; fill b 2; free a; sleep 300; expect vramgc.held_bytes == 352MiB; empty_cache;
        await vramgc.held_bytes <= 52MiB; verify b 2' --mem 768MiB
    [ "$(fact reclaims)" = 0 ]
}

# One piece of 128 KiB is all that the small ones' part of the addresses holds.
@test "small blocks get little memory, however much the large ones have" {
    pool_passes 'alloc a 7GiB; fill a 1; alloc b 128KiB; fill b 2; expect vramgc.held_bytes <= 7172MiB; verify a 1; verify b 2' --mem 8GiB
}

# An extent is at most 8 MiB here; in single pages 4 GiB would be 4096 calls.
@test "memory comes in large extents, also the last of it" {
    pool_passes 'alloc a 3GiB; fill a 1; alloc b 1GiB; fill b 2; verify a 1; verify b 2' --mem 4400MiB
    [ "$(fact page_calls)" -le 1100 ]
}

# b has a's 150 MiB, and as much that is new.
@test "a block that is longer than the last one given back lies on its pages" {
    pool_passes 'alloc a 150MiB; fill a 1; free a; alloc b 300MiB; fill b 2; verify b 2; expect vramgc.held_bytes <= 320MiB' --mem 768MiB
}

@test "no more of the card is said to be used than is" {
    pool_passes 'alloc a 300MiB; sleep 400' --mem 768MiB
    [ "$(fact used_bytes_peak)" -ge $((300 << 20)) ]
    [ "$(fact used_bytes_peak)" -le $((620 << 20)) ]
}

# An error of the driver that is no lack of memory: it is asked for the block itself, and keeps that when it is freed. What is known of
# the card is old by the second block (card/reading.h); else the engine maps until the driver lets its own pool give way.
@test "what the driver's pool keeps goes back where a block of ours would be refused" {
    local version
    pool_setup
    for version in $versions; do
        drive "$version" 'alloc a 300MiB; fill a 1; free a; sleep 400; alloc b 600MiB; fill b 2; verify b 2' --mem 1GiB --fail cuMemCreate:2:1@libvramgc.so
        [ "$status" = 0 ] && [ -z "$output" ] || return 1
        [ "$(fact driver_calls)" -gt 0 ] || return 1
        [[ $(build/govern/show "$BATS_TEST_TMPDIR/record.vramgc") == *"action trim refused "* ]] || return 1
    done
}

# As of Forge's VAE. In addresses for one and a half times the card there is no place for the last one.
@test "there are addresses for a large block, however badly the others lie" {
    pool_passes 'alloc a 1034MiB; alloc b 128MiB; alloc c 1024MiB; alloc d 4096MiB; alloc e 512MiB; alloc f 512MiB; free e; free a; free b;
        alloc g 2048MiB; free c; alloc h 1034MiB; free h; free g; free f; alloc i 3082MiB; fill i 1; verify i 1' --mem 8GiB
    [ "$(fact driver_calls)" = 0 ]
}

@test "a cached page serves whoever calls cudaMalloc himself" {
    pool_passes 'alloc a 400MiB; fill a 1; free a; cuda_malloc x 250MiB; fill x 7; verify x 7; expect vramgc.held_bytes <= 512MiB' --mem 768MiB
}

@test "two devices: each its own pool" {
    pool_passes 'alloc a 300MiB; fill a 1; device 1; alloc b 300MiB; fill b 2; alloc c 20MiB; fill c 3; free b; device 0; free a;
        alloc d 450MiB; fill d 4; verify d 4; device 1; verify c 3; alloc e 400MiB; fill e 5; verify e 5; verify c 3' --mem 768MiB --devices 2
}

@test "without the setting, without the mode, on the native allocator: the driver's pool, or none" {
    local version=${versions##* } script='alloc a 300MiB; fill a 1; verify a 1; free a'
    PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync drive $version "$script" --mem 768MiB
    [ "$status" = 0 ] && [ "$(fact page_maps)" = 0 ]
    pool_setup
    VRAMGC_MODE=flush drive $version "$script" --mem 768MiB
    [ "$status" = 0 ] && [ "$(fact page_maps)" = 0 ]
}

# bats test_tags=python
@test "the calls that programs make on streams and pools" {
    pool_setup
    run env PYTHONPATH=tests/vm/python LD_PRELOAD="$library" \
        VRAMGC_OUT="$BATS_TEST_TMPDIR/record.vramgc" timeout 900 tests/on_card --mem 1GiB --devices 2 -- \
        build/venv/bin/python tests/vm/python/pools.py
    echo "$output"
    [ "$status" = 0 ]
    [ "$output" = "pools ok" ]
}

# As in threads.bats.
@test "what is idle in the pool is there for a capture, as the driver's own would be" {
    local script='alloc a 400MiB; fill a 1; free a; synchronize; stream 2; capture_begin; alloc g 300MiB; free g; capture_end'
    pool_setup
    VRAMGC_ASYNC=driver passes "$script" --mem 768MiB
    pool_passes "$script" --mem 768MiB
}

@test "a capture keeps nothing in the pool: what is freed after it is free" {
    local script='alloc k 8MiB; alloc a 300MiB; alloc l 8MiB; fill a 1; synchronize; stream 2; capture_begin; alloc g 2MiB; free g; capture_end; stream 0; free a; synchronize; cuda_malloc x 250MiB'
    pool_passes "$script" --mem 768MiB
    [[ $output != *oom* ]]
}

# bats test_tags=random
@test "the pool alone under many threads" {
    local build
    for build in ${BUILDS:-plain}; do
        TSAN_OPTIONS=halt_on_error=1 timeout 300 "build/vm/pool_threads-$build" "${SECONDS_EACH:-1}"
    done
}
