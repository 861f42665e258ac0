#!/usr/bin/env bats
# The driver refuses a call of ours though the device is nearly empty: one refused call is not the end, and what is no lack of memory
# is not told as one. sweep.py lets every call fail in turn.
load common

# passes SCRIPT [OPTION-OF-SIMGPU...]: as in drive.bash, but PyTorch says something of its own of the machine.
passes() {
    local version
    for version in $versions; do
        drive "$version" "$@"
        errors=$(grep -vE 'nvmlDeviceGetGpuFabricInfoV failed|PYTORCH_CUDA_ALLOC_CONF is deprecated' <<<"$errors" || true)
        [ "$status" = 0 ] && [ -z "$errors" ] || return 1
    done
}

# refused CALL... : the program notes nothing, in either allocator setting, though each of these calls of ours is refused; once, or
# always from then on.
refused() {
    local call setting
    for setting in expandable_segments:False expandable_segments:True; do
        for call; do
            PYTORCH_CUDA_ALLOC_CONF=$setting without_a_trace "$call" || { echo "$setting $call"; return 1; }
        done
    done
}

without_a_trace() {
    passes 'alloc a 30MiB; fill a 1; free a; alloc b 60MiB stream=1; fill b 2 stream=1; stream 1; verify b 2; stream 0; alloc c 1MiB; fill c 3;
        verify c 3; free c; empty_cache; alloc d 5MiB; fill d 4; verify d 4; expect num_ooms == 0; expect num_alloc_retries == 0' \
        --mem 4GiB --fail "$1@libvramgc.so"
}

# The trial makes one handle, maps it twice and opens it twice. An expandable segment begins with a handle of its kind.
@test "cuMemCreate is refused once" { refused cuMemCreate:{2,3,4,5}; }
@test "cuMemMap is refused once" { refused cuMemMap:{3,7}; }
@test "cuMemSetAccess is refused once" { refused cuMemSetAccess:{3,4,5}; }

# As much as that refused: what is there is unmapped again and comes in single pages.
@test "cuMemSetAccess is refused twice" {
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False passes 'alloc a 60MiB; fill a 1; verify a 1; expect num_ooms == 0; free a; reclaim; await vramgc.held_bytes == 0' \
        --mem 24GiB --fail cuMemSetAccess:3@libvramgc.so --fail cuMemSetAccess:4@libvramgc.so
    [ "$(fact page_maps)" = 60 ] # twice
    [ "$(fact page_calls)" -gt 60 ]
}

@test "idle memory goes back before a mapping is tried again" {
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False passes 'alloc a 200MiB; fill a 1; free a; synchronize; alloc b 60MiB stream=1; fill b 2 stream=1; stream 1; verify b 2;
        expect vramgc.held_bytes <= 70MiB; expect num_ooms == 0' --mem 24GiB --fail cuMemSetAccess:4@libvramgc.so
}

@test "questions that are never answered" { refused cuMemGetInfo:1+ cuMemGetInfo:3+; }
@test "one question that is not answered" { refused cuCtxGetCurrent:{2,3,4,5,9} cuMemGetInfo:{1,2}; }

@test "a trial that cannot unmap leaves the addresses alone" {
    refused cuMemUnmap:1 cuMemUnmap:2
    VRAMGC_LOG=error PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False without_a_trace cuMemUnmap:1+
}

@test "what the driver does not take back is given back later" {
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False SIMGPU_CALLS=$BATS_TEST_TMPDIR/calls passes 'alloc a 60MiB; fill a 1; free a; reclaim;
        await vramgc.held_bytes == 0' --fail cuMemRelease:2@libvramgc.so --fail cuMemUnmap:3@libvramgc.so
    grep -x 'failed 2' "$BATS_TEST_TMPDIR/calls"
    grep -x 'used 0' "$BATS_TEST_TMPDIR/calls"
}

# told_as PATTERN CALL...: PyTorch raises that, as a CUDA error or as a "CUDA driver error", and nobody takes it for a lack of memory.
told_as() {
    local pattern=$1 call setting version
    shift
    for version in $versions; do
        for setting in expandable_segments:False expandable_segments:True; do
            for call; do
                PYTORCH_CUDA_ALLOC_CONF=$setting drive "$version" 'alloc a 30MiB; alloc b 60MiB' --fail "$call@libvramgc.so"
                [ "$status" = 2 ] || return 1
                [[ $errors =~ "CUDA "(driver )?"error: $pattern" && $errors != *"out of memory"* && $output != *oom* ]] || return 1
                [ "$(fact ooms)" = 0 ] || return 1
                [ "$(fact refusals)" = 0 ] || return 1
            done
        done
    done
}

@test "an illegal address is told as what it is" { told_as "an illegal memory access" cuMemCreate:3:700 cuMemMap:3:700 cuMemSetAccess:3:700; }
@test "any other error is, too" { told_as "unspecified launch failure" cuMemMap:4:719; }

# --- the machine refuses what the library needs for its books ---

# without_memory_from N COUNT: so many mmaps of the library from the N-th on fail; the addresses can be freed all the same.
without_memory_from() {
    local setting
    for setting in expandable_segments:False expandable_segments:True; do
        BEHIND=$PWD/build/vm/liblibfail.so LIBFAIL=mmap:$1:$2 VRAMGC_LOG=off PYTORCH_CUDA_ALLOC_CONF=$setting passes 'alloc a 30MiB; fill a 1; alloc b 60MiB stream=1;
            fill b 2 stream=1; stream 1; verify b 2; stream 0; verify a 1; free_all; empty_cache; expect num_ooms == 0; expect reserved_bytes == 0' --mem 4GiB ||
            return 1
    done
}

@test "no memory for books, once" {
    for n in 4 8 12 16 20 24 28 {30..50}; do without_memory_from "$n" 1; done
}

@test "no memory for books from some time on: the driver is asked" {
    for n in 4 7 11 16 20 24 28 32 36 40 {42..50}; do without_memory_from "$n" 1000000; done
}
