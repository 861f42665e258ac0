#!/usr/bin/env bats
# Every case in which a request must not be refused: nothing happens, and no error reaches the program. Each has a counterpart in
# tests/mutants/, which takes the check out of policy.c and sees the same test fail.
load common

@test "not the allocator: an extension's own cudaMalloc" {
    passes "$prepare; cuda_malloc c 6GiB; $untouched"
    [[ $output != *oom* ]]
    [ "$(fact other_bytes_peak)" = $((6 * GIB)) ]
}

@test "uncached: the path without a cache" {
    passes "$prepare; caching off; alloc c 6GiB stream=1; $untouched"
    [ "$(fact other_bytes_peak)" = $((6 * GIB)) ]
}

@test "uncached: PYTORCH_NO_CUDA_MEMORY_CACHING=1 from the start" {
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 passes "$prepare; $cross; alloc d 10GiB; $untouched;
        expect vramgc.reserved_bytes == 0; expect vramgc.releasable_bytes == 0; expect vramgc.held_bytes == 19GiB"
}

@test "capturing: this stream" {
    passes "$prepare; stream 2; capture_begin; alloc c 6GiB; $untouched; capture_end"
    [[ $output != *oom* ]]
}

@test "capturing: another stream" {
    local script="$prepare; stream 2; capture_begin relaxed; alloc c 6GiB stream=1; $untouched; capture_end"
    passes "$script"
    [[ $output != *oom* ]]
    VRAMGC_MODE=observe passes "$script"
    [[ $facts != *"action soft_oom"* ]]
}

# A live graph's private pool keeps two idle GiB that PyTorch does not give back; so there is always something to gain.
graph='stream 2; capture_begin; alloc g 2GiB; free g; capture_end; stream 0'

@test "retry: a memory fraction is reached, and PyTorch has emptied its cache by itself" {
    VRAMGC_THRESHOLD=30 VRAMGC_COOLDOWN=0 VRAMGC_TEST_HYSTERESIS=0 passes "$prepare; $graph; fraction 0.8; $cross;
        expect vramgc.soft_ooms == 0; expect num_alloc_retries == 1; expect num_ooms == 0; expect vramgc.releasable_bytes >= 2GiB"
    [[ $output != *oom* ]]
}

@test "refused: the same request again" {
    VRAMGC_COOLDOWN=0 VRAMGC_TEST_HYSTERESIS=0 passes "alloc b 12GiB; $graph; $cross;
        expect vramgc.soft_ooms == 1; expect num_alloc_retries == 1; expect num_ooms == 0"
    [[ $output != *oom* ]]
}

@test "expandable: segments are mapped piece by piece" {
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True drive "$version" "$prepare; $cross; $untouched"
        [ "$status" = 0 ]
        [ -z "$(but_for_pytorch)" ]
    done
}

@test "expandable: a native segment after expandable ones" {
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True drive "$version" "$prepare; conf expandable_segments:False; $cross; $untouched"
        [ "$status" = 0 ]
    done
}

@test "broken: a refusal became a real error, once and never again" {
    only_before 2.10 # later ones ask again inside use_mem_pool
    VRAMGC_COOLDOWN=0 VRAMGC_TEST_HYSTERESIS=0 drive "${versions%% *}" "$prepare; pool_begin; $cross; pool_end; expect num_ooms == 1;
        alloc d 6GiB stream=3; expect vramgc.soft_ooms == 0; expect num_alloc_retries == 0; expect num_ooms == 1"
    [ "$status" = 0 ]
    [ "$output" = "oom c" ]
    [ "$(grep -c 'a soft out-of-memory became an out-of-memory error of the program; vramgc makes no more' <<<"$errors")" = 1 ]
    [ "$(fact internal_errors)" = 1 ]
    [ "$(fact ooms)" = 1 ]
}

@test "use_mem_pool in 2.15: PyTorch asks again there" {
    only_since 2.15
    passes "$prepare; pool_begin; $cross; expect num_alloc_retries == 1; expect num_ooms == 0; expect vramgc.soft_ooms == 1; pool_end"
}

@test "no gain: what is cached cannot be given back" {
    passes "$prepare; alloc x 1GiB; $cross; $untouched"
}

@test "no gain: less than the least" {
    VRAMGC_TEST_MIN_GAIN=15GiB passes "$prepare; $cross; $untouched"
    VRAMGC_TEST_MIN_GAIN=14GiB passes "$prepare; $cross; expect vramgc.soft_ooms == 1"
}

@test "cudaMallocAsync" {
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync drive "$version" "$prepare; $cross; alloc d 14GiB stream=2; free d c b"
        [ "$status" = 0 ]
        [[ $output != *oom* && $errors != *recovered* ]]
        [ "$(actions soft_oom)" = 0 ]
    done
}

@test "mode off: nothing is done, nothing is recorded" {
    VRAMGC_MODE=off passes "$prepare; $cross; expect num_alloc_retries == 0; expect reserved_bytes == 23GiB"
    [ -z "$facts" ]
}

@test "mode observe: said, not done" {
    VRAMGC_MODE=observe VRAMGC_COOLDOWN=1h passes "$prepare; $cross; $untouched; expect reserved_bytes == 23GiB"
    [ "$(fact would_reclaims)" = 1 ]
    [ "$(fact reclaims)" = 0 ]
    [[ $facts == "action soft_oom threshold device=0 observed=1 request=$((6 * GIB)) used=$((17 * GIB + GIB / 4)) before=$((17 * GIB)) after=$((3 * GIB)) "* ]]
}

@test "mode observe: where a refusal would not be safe, none is claimed" {
    VRAMGC_MODE=observe passes "$prepare; caching off; $cross; $(until_action 'flush threshold .* observed=1'); $untouched"
    [ "$(actions soft_oom)" = 0 ]
    [ "$(actions 'flush threshold .* observed=1')" = 1 ]
}

again='free c; alloc e 6GiB stream=2'

# The second is put off until the GPU is seen to be past its work, which a slow one is not at once.
at_once() { [ -z "${SIMGPU_SLOW:-}" ] || skip "the simulated GPU is slow"; }

@test "cool-down" {
    at_once
    VRAMGC_TEST_HYSTERESIS=0 VRAMGC_COOLDOWN=1h passes "$prepare; $cross; alloc d 6GiB; free d; $again; expect vramgc.soft_ooms == 1; expect num_ooms == 0"
    VRAMGC_TEST_HYSTERESIS=0 VRAMGC_COOLDOWN=0 passes "$prepare; $cross; alloc d 6GiB; free d; $again; expect vramgc.soft_ooms == 2; expect num_ooms == 0"
}

@test "hysteresis: the next one once so much more is idle" {
    at_once
    VRAMGC_TEST_HYSTERESIS=80 VRAMGC_COOLDOWN=0 passes "$prepare; $cross; alloc d 6GiB; free d; $again; expect vramgc.soft_ooms == 1; expect num_ooms == 0"
    VRAMGC_TEST_HYSTERESIS=40 VRAMGC_COOLDOWN=0 passes "alloc b 11GiB; alloc a 6GiB; free a; $cross; free b; alloc e 4GiB stream=2;
        expect vramgc.soft_ooms == 2; expect num_ooms == 0"
}

@test "the driver itself refuses, and PyTorch's own retry gets it: fragmented" {
    local line
    for version in $versions; do
        drive "$version" 'alloc a 14GiB; free a; sleep 50; alloc b 20GiB; expect num_alloc_retries == 1; expect num_ooms == 0;
            expect vramgc.soft_ooms == 0; expect vramgc.refusals == 1'
        [ "$status" = 0 ]
        [ -z "$errors" ]
        line=$(grep '^refusal ' <<<"$facts" | sed 's/ reported=.*//')
        [ "$line" = "refusal fragmented granted=1 request=$((20 * GIB)) free=$((10 * GIB - GIB / 4)) idle=$((14 * GIB)) hook=cudaMalloc holes=1 hole_bytes=$((14 * GIB)) largest=$((14 * GIB))" ]
        [ "$(fact alloc_retries)" = 1 ]
        [ "$(fact ooms)" = 0 ]
    done
}

@test "the driver itself refuses, and there is nothing to be had: full" {
    for version in $versions; do
        drive "$version" 'alloc a 14GiB; alloc b 20GiB; expect num_alloc_retries == 1; expect num_ooms == 1;
            expect vramgc.soft_ooms == 0; expect vramgc.refusals == 1; alloc c 9GiB'
        [ "$status" = 0 ]
        [ "$output" = "oom b" ]
        [ "$(grep -c "^refusal full granted=0 request=$((20 * GIB)) free=$((10 * GIB - GIB / 4)) idle=0 hook=cudaMalloc" <<<"$facts")" = 1 ]
        [ "$(fact alloc_retries)" = 1 ]
        [ "$(fact ooms)" = 1 ]
    done
}

@test "no gain: memory that was just taken for a block is not idle" {
    local conf
    for version in $versions; do
        for conf in '' expandable_segments:True; do
            VRAMGC_MODE=observe PYTORCH_CUDA_ALLOC_CONF=$conf FRONT=$PWD/build/govern/liblate_report.so drive "$version" 'alloc a 22GiB; sleep 300; _exit 0'
            [ "$status" = 0 ]
            [ "$(actions '')" = 0 ]
        done
    done
}
