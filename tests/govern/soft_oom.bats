#!/usr/bin/env bats
# A reclaim by one refused cudaMalloc, on PyTorch's own allocator: what it does where it is safe.
load common

@test "the threshold is crossed: one refusal, the cache is emptied, PyTorch raises nothing and prints nothing" {
    passes "$prepare; $cross; expect num_alloc_retries == 1; expect num_ooms == 0; expect vramgc.soft_ooms == 1;
            expect vramgc.reclaims == 1; expect vramgc.refusals == 0; expect reserved_bytes == 9GiB;
            expect vramgc.reserved_bytes == 9GiB; expect vramgc.held_bytes == 9GiB; compare"
}

@test "just below the threshold nothing happens" {
    passes "$prepare; alloc c 1.9GiB stream=1; $untouched"
    passes "$prepare; alloc c 2GiB stream=1; expect num_alloc_retries == 1"
}

@test "the action is on record: kind, reason, bytes before and after, request, use of the device, time" {
    local line
    for version in $versions; do
        drive "$version" "$prepare; $cross"
        [ "$(actions '')" = 1 ]
        line=$(grep '^action' <<<"$facts")
        [[ $line == "action soft_oom threshold device=0 observed=0 "* ]]
        [ "$(field request "$line")" = $((6 * GIB)) ]
        [ "$(field used "$line")" = $((17 * GIB + GIB / 4)) ]
        [ "$(field before "$line")" = $((17 * GIB)) ]
        [ "$(field after "$line")" = $((3 * GIB)) ]
        [ "$(field took "$line")" -gt 0 ]
        [ "$(fact reclaimed_bytes)" = $((14 * GIB)) ]
        [ "$(fact reclaim_ns)" = "$(field took "$line")" ]
        [ "$(fact alloc_retries)" = 1 ]
        [ "$(fact refusals)" = 0 ]
        [ "$(fact internal_errors)" = 0 ]
    done
}

@test "it is logged, once, in words and in SD.Next's form" {
    for version in $versions; do
        VRAMGC_LOG=debug drive "$version" "$prepare; $cross; sleep 300"
        [ "$(grep -c 'gpu0 made one soft out-of-memory: 17.0 GiB -> 3.0 GiB in .* (utilisation above the threshold)$' <<<"$errors")" = 1 ]
        [ "$(grep -cE "GC: current=\{'gpu': 3\.00\} prev=\{'gpu': 17\.00\} load=\{'gpu': 71\.9\} gc=\{'gpu': 14\.00\} fn=[^ ]+ why=threshold time=[0-9.]+$" <<<"$errors")" = 1 ]
    done
}

@test "a program that ends at once is logged too" {
    for version in $versions; do
        VRAMGC_LOG=info drive "$version" "$prepare; $cross"
        [ "$(grep -c 'gpu0 made one soft out-of-memory' <<<"$errors")" = 1 ]
    done
}

@test "a flush that cannot be made, because there is no Python, costs nothing: the next request is refused" {
    passes "alloc a 17GiB; alloc b 3GiB; free a; sleep 400; expect vramgc.reclaims == 0; alloc c 3GiB stream=1;
            expect vramgc.soft_ooms == 1; expect num_alloc_retries == 1; expect num_ooms == 0"
}

@test "what is live keeps its content" {
    passes "alloc a 14GiB; alloc b 3GiB; fill b 7; free a; $cross; fill c 9; verify b 7; verify c 9;
            expect num_alloc_retries == 1"
}

# bats test_tags=random
@test "threads, each with its own requests" {
    VRAMGC_THRESHOLD=20 VRAMGC_COOLDOWN=0 VRAMGC_TEST_HYSTERESIS=0 VRAMGC_TEST_MIN_GAIN=1MiB \
        passes 'random threads=4 ops=6000 max=600MiB live=40 fill=1 compare=1; expect num_ooms == 0; expect vramgc.soft_ooms > 5'
    [ "$(fact internal_errors)" = 0 ]
    [ "$(fact ooms)" = 0 ]
}

@test "release_lock_on_cudamalloc and throw_on_cudamalloc_oom change nothing" {
    PYTORCH_CUDA_ALLOC_CONF=release_lock_on_cudamalloc:True PYTORCH_ALLOC_CONF=release_lock_on_cudamalloc:True \
        passes_but_for_warning "$prepare; $cross; expect num_alloc_retries == 1; expect num_ooms == 0; expect vramgc.soft_ooms == 1"
    since "${versions##* }" 2.15 || return 0
    versions=${versions##* }
    PYTORCH_CUDA_ALLOC_CONF=throw_on_cudamalloc_oom:True \
        passes "$prepare; $cross; expect num_alloc_retries == 1; expect num_ooms == 0; expect vramgc.soft_ooms == 1"
}

passes_but_for_warning() {
    local version
    for version in $versions; do
        drive "$version" "$@"
        [ "$status" = 0 ] || return 1
        [ -z "$(but_for_pytorch)" ] || return 1
    done
}

@test "max_split_size_mb, oversize blocks are cached: one refusal frees one of them, and there is no second" {
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512 VRAMGC_COOLDOWN=0 VRAMGC_TEST_HYSTERESIS=0 \
            drive "$version" 'alloc x 7GiB; alloc y 6GiB; alloc b 2GiB; alloc n 300MiB count=4; free x y n; alloc c 5GiB;
                expect vramgc.soft_ooms == 1; expect num_device_free == 1; expect num_alloc_retries == 0; expect num_ooms == 0;
                expect vramgc.reserved_bytes == reserved_bytes; expect vramgc.releasable_bytes >= 8GiB; compare'
        [ "$status" = 0 ]
        [ "$(actions soft_oom)" = 1 ]
        [ "$(fact reclaimed_bytes)" = $((6 * GIB)) ]
    done
}

@test "max_split_size_mb without an oversize block: the whole cache" {
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512 \
            drive "$version" 'alloc n 500MiB count=28; alloc b 3GiB; free n; alloc c 6GiB stream=1; expect num_alloc_retries == 1;
                expect vramgc.soft_ooms == 1; expect num_device_free == 28; expect num_ooms == 0'
        [ "$status" = 0 ]
    done
}

@test "garbage_collection_threshold frees by itself; a refusal after it is left out" {
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.6,max_split_size_mb:512 \
            drive "$version" 'fraction 0.95; alloc a 4GiB; alloc b 5GiB; alloc c 6GiB; free a b c; alloc d 7GiB stream=1;
                expect num_ooms == 0; expect vramgc.soft_ooms == 0; expect vramgc.reserved_bytes == reserved_bytes; compare'
        [ "$status" = 0 ]
    done
}
