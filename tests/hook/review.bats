#!/usr/bin/env bats
# What a review of the code found wrong once. Built by `make hook`.

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    hook=$root/build/hook
    export VRAMGC_OUT=$BATS_TEST_TMPDIR/run.vramgc
    unset "${!SIMGPU_@}" 2>/dev/null || true
    path=$root/build/sim/driver:$root/build/sim/rt11:$root/build/sim/rt12:$root/build/sim/rt13:$hook/c10
}

# passes PRELOAD COMMAND...: with vramgc in front, then PRELOAD, without a thread of vramgc's own.
passes() {
    local preload=$1
    shift
    LD_LIBRARY_PATH=$path LD_PRELOAD="$root/build/libvramgc.so $hook/libno_thread.so $preload" run "$@"
    printf '%s\n' "$output"
    [ "$status" -eq 0 ]
    [[ $output == *" checks, 0 failed"* ]]
}

@test "a block is reported while a constructor holds the loader's lock and waits for the allocator" {
    passes "" "$hook/review_loader" "$hook/libreview_constructor.so"
}

@test "where no CUDA is loaded dlsym says so, and leaves the error" {
    passes "" "$hook/review_visible"
}

@test "an interposer of the driver behind vramgc is called once where the driver is linked" {
    passes "$hook/libreview_interposer.so" "$hook/review_interposer-linked"
}

@test "an interposer of the driver behind vramgc is not called where nobody called it before" {
    passes "$hook/libreview_interposer.so" "$hook/review_interposer-opened"
}

@test "a snapshot for a program that knows fewer fields, or more" {
    passes "" "$hook/review_snapshot"
}

@test "two or three runtimes: each library's calls go to its own" {
    passes "" "$hook/review_runtimes" "$hook"/libreview_client-{12,11,13}.so
}

@test "another thread maps addresses anew before the one that unmapped them has heard of it" {
    passes "$hook/libreview_unmap.so" "$hook/review_unmap"
}
