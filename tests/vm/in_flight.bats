#!/usr/bin/env bats
# Tensors are freed while work on them is under way and their pages are wanted elsewhere at once; and all that live always fit, so
# that none may be refused (in_flight.py). SEEDS: how many scripts of each kind.
load common

# in_flight STREAMS FIRST-SEED
in_flight() {
    local seed version
    for ((seed = $2; seed < $2 + ${SEEDS:-1}; seed++)); do
        python3 tests/vm/in_flight.py --seed "$seed" --streams "$1" >"$BATS_TEST_TMPDIR/script" || return 1
        for version in $versions; do
            drive "$version" "$BATS_TEST_TMPDIR/script" --mem 768MiB
            [ "$status" = 0 ] || return 1
            [ -z "$errors" ] || return 1
            [ "$(fact page_unmaps)" -gt 0 ] || return 1
        done
    done
}

constant_reclaim() { BEHIND=$PWD/build/vm/libconstant_reclaim.so; }

# bats test_tags=random
@test "one stream" { in_flight 1 1; }
# bats test_tags=random
@test "four streams" { in_flight 4 10; }
# bats test_tags=random
@test "twenty streams" { in_flight 20 20; }
# bats test_tags=random
@test "constant reclaim: one stream" { constant_reclaim && in_flight 1 30; }
# bats test_tags=random
@test "constant reclaim: four streams" { constant_reclaim && in_flight 4 40; }
# bats test_tags=random
@test "constant reclaim: four streams, a card's latencies" { constant_reclaim && SIMGPU_LATENCY=card in_flight 4 50; }
# bats test_tags=random
@test "lowvram: four streams" { VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=2ms VRAMGC_COOLDOWN=0 in_flight 4 60; }

# --- one stream works for some 200 ms on memory that another one wants now ---

quiet() { errors=$(grep -vE 'nvmlDeviceGetGpuFabricInfoV failed|PYTORCH_CUDA_ALLOC_CONF is deprecated' <<<"$errors" || true); }

# works SCRIPT STREAM THEN: the script has a tensor `a` of 200 MiB on which that stream works for long; after what comes then, so much is
# wanted elsewhere, and no more may be physical than was live.
works() {
    local version script="$1 synchronize;" i
    for ((i = 0; i < 2000; i++)); do script+=" fill a 1 stream=$2;"; done
    for version in $versions; do
        SIMGPU_LATENCY=card VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=10s drive "$version" "$script $3 alloc c 200MiB stream=3; fill c 7 stream=3;
            stream 3; verify c 7; expect num_alloc_retries == 0" --mem 768MiB
        quiet
        [ "$status" = 0 ] || return 1
        [ -z "$errors" ] || return 1
        [ "$(fact page_maps)" -gt 0 ] || return 1
    done
}

two_streams='alloc b 20MiB stream=1; fill b 2 stream=1; alloc a 200MiB stream=2; fill a 3 stream=2;'

@test "one stream works for long, another one does not" { works "$two_streams" 2 'free a;'; }

@test "a stream without a segment works for long" {
    works 'alloc b 20MiB; alloc a 200MiB stream=1; fill a 1 stream=1;' 2 'record a 2; fill a 1 stream=2; free a;'
}

# An extension's stream, of which PyTorch is told nothing: `a` goes only when that stream has finished with it.
unheard_of() {
    local version script='alloc a 200MiB; fill a 1; synchronize;' i
    for ((i = 0; i < 2000; i++)); do script+=' fill a 1 stream=2;'; done
    for version in $versions; do
        SIMGPU_LATENCY=card VRAMGC_LOWVRAM=1 drive "$version" "$script free a; await vramgc.held_bytes == 0; synchronize" --mem 768MiB
        quiet
        [ "$status" = 0 ] || return 1
        [ -z "$errors" ] || return 1
        [ "$(fact page_unmaps)" -gt 0 ] || return 1
    done
}

@test "a stream that owns no segment and that PyTorch does not know works for long" { unheard_of; }

@test "the same on a driver that cannot tell of a whole context" { SIMGPU_CONTEXT_EVENT=0 unheard_of; }

@test "the same where the stream is a green context's" { FRONT=$PWD/build/vm/libgreen_streams.so SIMGPU_CONTEXT_EVENT=0 unheard_of; }

# cudaFree waits for that stream where PyTorch is alone; the segment that comes next must not lie where it works still.
@test "such a stream works for long on a segment that PyTorch gives up, and takes anew" {
    local event version script='alloc a 200MiB; fill a 1; synchronize;' i
    for ((i = 0; i < 2000; i++)); do script+=' fill a 1 stream=2;'; done
    for event in 1 0; do
        for version in $versions; do
            SIMGPU_CONTEXT_EVENT=$event SIMGPU_LATENCY=card drive "$version" "$script free a; empty_cache; alloc b 200MiB; fill b 3;
                synchronize; verify b 3" --mem 2GiB
            quiet
            [ "$status" = 0 ] || return 1
            [ -z "$errors" ] || return 1
        done
    done
}

@test "expandable segments: the same" {
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True unheard_of || return 1
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True SIMGPU_CONTEXT_EVENT=0 unheard_of
}

@test "expandable segments: a stream made before the first segment works for long" {
    SIMGPU_CONTEXT_EVENT=0 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True works "stream 1; stream 0; $two_streams" 2 'free a;'
}

@test "expandable segments: a stream made after the first segment works for long" {
    SIMGPU_CONTEXT_EVENT=0 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True works "alloc first 1MiB; free first; $two_streams" 2 'free a;'
}
