#!/usr/bin/env bats
# Kernels that wait for a word of the host's: a stream is held, as long as the program's thread does not go on. Nothing stops it that
# PyTorch alone would have answered at once. `hold` ends a program that stops (SIGALRM).
load common

small=(--mem 1280MiB) # of which the context takes 256

# Stream 1 is held with work on `a`; stream 2 has finished.
held='alloc a 64MiB stream=1; fill a 1 stream=1; alloc keep 64MiB stream=2; synchronize; hold 1; fill a 1 stream=1;'
end='let_go 1; synchronize; expect num_ooms == 0'

# goes_on SCRIPT: in mode compact, under lowvram and without, on drivers that can tell of a whole context and on others.
goes_on() {
    local lowvram event setting
    for setting in ${SETTINGS:-expandable_segments:False expandable_segments:True backend:cudaMallocAsync}; do
        for lowvram in 0 1; do
            for event in 1 0; do
                PYTORCH_CUDA_ALLOC_CONF=$setting VRAMGC_ASYNC=pages VRAMGC_LOWVRAM=$lowvram SIMGPU_CONTEXT_EVENT=$event \
                    passes "$1 $end" "${small[@]}" || return 1
            done
        done
    done
}

# flushes_on SCRIPT: the same in mode flush, on drivers that can tell of a whole context.
flushes_on() {
    local setting
    for setting in expandable_segments:False expandable_segments:True backend:cudaMallocAsync; do
        PYTORCH_CUDA_ALLOC_CONF=$setting VRAMGC_MODE=flush passes "$1 $end" "${small[@]}" || return 1
    done
}

passes() {
    local version
    for version in $versions; do
        drive "$version" "$@"
        [ "$status" = 0 ] || return 1
        errors=$(grep -vE 'nvmlDeviceGetGpuFabricInfoV failed|PYTORCH_CUDA_ALLOC_CONF is deprecated' <<<"$errors" || true)
        [ -z "$errors" ] || return 1
    done
}

@test "an allocation, of more than ever lived at once" {
    goes_on "$held free a; alloc b 96MiB stream=2; free b; alloc c 128MiB stream=2;"
}

@test "an allocation after a free, and again" {
    goes_on "$held alloc c 64MiB stream=2; free c; sleep 20; alloc d 64MiB stream=2; free a; sleep 20; alloc e 64MiB stream=2;"
}

@test "a block that the held stream uses, too" {
    goes_on "alloc a 64MiB stream=2; alloc keep 64MiB stream=2; fill a 1 stream=2; synchronize; hold 1; record a 1; fill a 1 stream=1;
        free a; alloc b 64MiB stream=2; free b; sleep 20; alloc c 96MiB stream=2;"
}

above="alloc k 600MiB stream=2; alloc b 64MiB stream=2; $held free b; free a; alloc c 96MiB stream=2; free c; sleep 20;
    alloc d 100MiB stream=2;"

@test "above the threshold" { goes_on "$above"; }

# There PyTorch would empty its cache, and wait for the GPU with its lock held.
@test "mode flush: above the threshold" {
    flushes_on "$above"
    [ "$(fact soft_ooms)" = 0 ]
}

# bats test_tags=python
@test "mode flush: at rest" {
    for setting in expandable_segments:False expandable_segments:True; do
        PYTORCH_CUDA_ALLOC_CONF=$setting VRAMGC_MODE=flush VRAMGC_LOWVRAM=1 python_says 'held ok' held 1280MiB || return 1
        [ "$(fact flushes)" -gt 0 ]
    done
}

@test "cudaMemGetInfo, a stream's end" {
    goes_on "$held free a; memory_info; short_stream keep; sleep 20; memory_info; short_stream keep;"
}

@test "the begin of a capture, where memory is plentiful and where it is not" {
    goes_on "$held free a; stream 3; capture_begin; capture_end; stream 0;"
    SETTINGS='expandable_segments:False expandable_segments:True' goes_on "alloc k 760MiB stream=1; $held free k; stream 3; capture_begin;
        capture_end; stream 0;"
}

# PyTorch alone has waited when it gave that up: native segments for all, expandable ones for their own stream.
@test "an allocation after memory was given up, and before the stream was held" {
    goes_on "alloc b 300MiB stream=2; fill b 1 stream=2; alloc a 64MiB stream=1; synchronize; free b; empty_cache; hold 1; fill a 1 stream=1;
        alloc c 310MiB stream=2; alloc d 320MiB stream=3;"
}

@test "expandable segments: an allocation after memory of another stream was given up" {
    SETTINGS=expandable_segments:True goes_on "alloc b 96MiB stream=2; fill b 1 stream=2; $held free b; empty_cache;
        alloc c 128MiB stream=2; alloc d 96MiB stream=3;"
}

@test "blocks in host memory that come back" {
    VRAMGC_SPILL=512MiB SETTINGS='expandable_segments:False expandable_segments:True' goes_on "alloc keep 64MiB stream=2; alloc k 700MiB stream=2;
        alloc a 64MiB stream=1; alloc s 300MiB stream=2; fill s 2 stream=2; synchronize; free k; hold 1; fill a 1 stream=1; free s;
        alloc t 300MiB stream=2; fill t 3 stream=2;"
}
