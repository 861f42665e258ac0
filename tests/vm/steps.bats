#!/usr/bin/env bats
# Mode flush: the steps of PyTorch's expandable segments stay for a moment after it has unmapped them, and serve it again (vm/steps.c).
load common

# Of 768 MiB the context takes 256. VRAMGC_COOLDOWN=60s caches for seconds.
flushes() {
    export VRAMGC_MODE=flush PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    local version
    for version in $versions; do
        drive "$version" "alloc w 1MiB; $1" --mem 768MiB
        [ "$status" = 0 ] || return 1
        errors=$(grep -vE 'mapping failed with OOM on device|nvmlDeviceGetGpuFabricInfoV failed|PYTORCH_CUDA_ALLOC_CONF is deprecated' <<<"$errors" || true)
        [ -z "$errors" ] || return 1
        [ "$(fact internal_errors)" = 0 ] && [ "$(fact unmatched_blocks)" = 0 ] || return 1
    done
}

# With `alike` a handle of another kind comes at last, else one is shared.
calls() {
    rm -f "$BATS_TEST_TMPDIR"/record.vramgc*
    VRAMGC_MODE=flush VRAMGC_COOLDOWN=60s LD_PRELOAD=$library VRAMGC_OUT=$BATS_TEST_TMPDIR/record.vramgc \
        run tests/on_card --cuda 13 --mem 768MiB -- build/vm/vmm_calls/steps_calls "$1"
    echo "$output"
    [ "$status" = 0 ]
    [[ $output == *" checks, 0 failed"* ]]
    [[ $output != *"simgpu: ERROR"* ]]
}

@test "each call: what is kept serves again, alike only, and nobody notices" { calls alike; }
@test "a step that is exported is kept no more" { calls export; }
@test "a step that somebody retains by its address is kept no more" { calls address; }

# 90 MiB are five pieces of 20 MiB; w keeps one of 2 MiB.
storm() {
    local i script=
    for ((i = 0; i < 20; i++)); do script+="alloc a 90MiB; fill a $i; verify a $i; free a; empty_cache;"; done
    flushes "$script expect num_alloc_retries == 0; _exit 0"
}

@test "without a thread of vramgc's own, which would give it back, nothing is cached" {
    BEHIND=$PWD/build/hook/libno_thread.so VRAMGC_LOG=error storm
    [ "$(fact handle_reuses)" = 0 ]
}

@test "a storm of empty_cache makes its memory once" {
    VRAMGC_COOLDOWN=60s storm
    [ "$(fact handle_reuses)" = $((19 * 5)) ]
    [ "$(fact held_bytes_peak)" = $((102 << 20)) ]
}

@test "above the threshold it goes after a moment, and under lowvram at once" {
    VRAMGC_COOLDOWN=60s VRAMGC_THRESHOLD=10 flushes 'alloc a 90MiB; free a; empty_cache; await vramgc.held_bytes == 2MiB; _exit 0'
    VRAMGC_COOLDOWN=60s VRAMGC_LOWVRAM=1 storm
    [ "$(fact handle_reuses)" = 0 ]
}

@test "what PyTorch does not want again goes back" {
    flushes 'alloc a 90MiB; free a; empty_cache; await vramgc.held_bytes == 2MiB; _exit 0'
}

@test "what is kept goes at once when somebody asks for memory" {
    VRAMGC_COOLDOWN=60s flushes 'alloc a 90MiB; free a; empty_cache; expect vramgc.held_bytes == 102MiB; reclaim; await vramgc.held_bytes == 2MiB; _exit 0'
}

@test "PyTorch's own retry finds what it has just given up" {
    VRAMGC_COOLDOWN=60s VRAMGC_THRESHOLD=100 flushes 'alloc a 300MiB; free a; alloc b 300MiB stream=1; fill b 2; verify b 2;
        expect num_alloc_retries == 1; expect num_ooms == 0; _exit 0'
    [ "$(fact held_bytes_peak)" -le $((512 << 20)) ]
}

# bats test_tags=python
@test "a reclaim that is asked for gives it to the driver, and says so" {
    VRAMGC_MODE=flush PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True VRAMGC_TEST_REST=60s VRAMGC_COOLDOWN=60s python_says 'asked ok' asked 768MiB
    [[ $(grep '^action flush asked' <<<"$facts") == *" before=$((100 << 20)) after=0 "* ]]
}

# Four of nine pieces are kept when the driver has no memory for the page tables of b, its fourth call; PyTorch would not come out of that.
@test "access refused for lack of memory is asked for again when what is kept has gone back" {
    VRAMGC_COOLDOWN=60s SIMGPU_FAIL=cuMemSetAccess:4 flushes 'alloc k 20MiB; alloc a 170MiB; free a; empty_cache; alloc b 90MiB stream=1; fill b 2; verify b 2;
        expect num_ooms == 0; _exit 0'
    [ "$(fact held_bytes_peak)" = $((202 << 20)) ]
    [ "$(fact held_bytes)" = $((122 << 20)) ]
}

@test "addresses that are refused once are asked for again" {
    SIMGPU_FAIL=cuMemAddressReserve:1 flushes 'alloc a 90MiB; fill a 2; verify a 2; expect num_ooms == 0; _exit 0'
}
