#!/usr/bin/env bats
# Call stacks of those who take memory (VRAMGC_BACKTRACE), through libunwind, which is opened apart
# from everything the host has loaded.
load common

# stacks QUERY: a jq-like look at the stacks of the latest run.
stacks() {
    build/vramgc report --json "$BATS_TEST_TMPDIR/record.vramgc" |
        python3 -c "import json, sys; stacks = json.load(sys.stdin)['processes'][0]['stacks']; print($1)"
}

@test "each stack is kept once, with what was taken from it, and its frames have names" {
    for version in $versions; do
        VRAMGC_BACKTRACE=8 drive "$version" "alloc a 64MiB; alloc b 32MiB; $(until_yes 'build/vramgc report --json $1 | grep -q libc10_cuda.so')"
        [ "$status" = 0 ]
        [ -z "$errors" ]
        [ "$(stacks 'sum(s["bytes"] for s in stacks)')" = $((96 << 20)) ]
        [ "$(stacks 'sum(s["count"] for s in stacks)')" = 2 ]
        [ "$(stacks 'max(len(s["frames"]) for s in stacks) <= 8')" = True ]
        stacks 'stacks[0]["frames"]' | grep -q 'libc10_cuda.so'
        ! stacks 'stacks[0]["frames"]' | grep -q 'libvramgc.so'
    done
}

# What the loader did in the process with the allocator.
loader() {
    cat "$BATS_TEST_TMPDIR"/ld.* | grep "$1" || true
}

@test "nobody asked: no stack, and libunwind is not there" {
    for version in $versions; do
        LD_DEBUG=files LD_DEBUG_OUTPUT=$BATS_TEST_TMPDIR/ld drive "$version" 'alloc a 64MiB'
        [ "$(stacks 'len(stacks)')" = 0 ]
        [ -n "$(loader 'libc10_cuda\.so')" ]
        [ -z "$(loader 'libunwind\.so')" ]
    done
}

@test "C++ exceptions of PyTorch stay with the C++ library's unwinder" {
    for version in $versions; do
        rm -f "$BATS_TEST_TMPDIR"/ld.*
        VRAMGC_BACKTRACE=8 LD_DEBUG=bindings,files LD_DEBUG_OUTPUT=$BATS_TEST_TMPDIR/ld \
            drive "$version" 'alloc a 64MiB; expect_oom 500GiB; alloc b 64MiB'
        [ "$status" = 0 ]
        [ -n "$(loader 'libunwind\.so')" ]
        [ -n "$(loader 'symbol ._Unwind_RaiseException')" ]
        [ -z "$(loader 'to [^ ]*libunwind[^ ]* .*symbol ._Unwind_\(RaiseException\|Resume\)')" ]
    done
}

@test "the library has no allocator of its own that a MALLOC_CONF could set" {
    ! grep -qa 'MALLOC_CONF' "$library"
}
