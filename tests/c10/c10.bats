#!/usr/bin/env bats
# The test instrument itself: what c10drive says of PyTorch's allocator, and that it notices what
# it is there to notice. Each test runs with every release in C10_VERSIONS.
load ../surroundings

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    . tests/c10/releases
    versions=${C10_VERSIONS:-$NEWEST_RELEASE}
}

# CUDA's major changed with PyTorch 2.11.
cuda_of() { if [ "$(echo "$1" | cut -d. -f2)" -ge 11 ]; then echo 13; else echo 12; fi; }

# drive SCRIPT [OPTION-OF-SIMGPU...]: on each release; $output has the lines of the last one, each
# of them must agree in status.
drive() {
    local script=$1 version last=
    shift
    for version in $versions; do
        run tests/on_card --cuda "$(cuda_of "$version")" "$@" -- \
            "build/c10/$version/c10drive" -c "$script"
        [ -z "$last" ] || [ "$last" = "$status" ] || return 1
        last=$status
    done
}

@test "PyTorch's own rounding: 100 MiB are a segment of 100 MiB, small blocks share 2 MiB" {
    drive 'alloc a 100MiB; expect reserved_bytes == 100MiB
           alloc b 1KiB count=10; expect segments == 2; expect reserved_bytes == 102MiB
           expect allocated_bytes == 104867840; free a b; expect allocated_bytes == 0'
    [ "$status" = 0 ]
}

@test "out of memory is reported and survived" {
    drive 'alloc a 30GiB; expect num_ooms == 1; alloc b 1GiB; expect reserved_bytes == 1GiB
           expect_oom 30GiB' --mem 8GiB
    [ "$status" = 0 ]
    [ "${lines[0]}" = "oom a" ]
}

@test "a retry empties the cache" {
    drive 'alloc a 3GiB; free a; alloc b 6GiB; expect num_alloc_retries == 1
           expect reserved_bytes == 6GiB' --mem 8GiB
    [ "$status" = 0 ]
}

@test "a block used by another stream stays pending after its free" {
    drive 'alloc a 3MiB stream=1; record a 2; free a; expect active_bytes == 3MiB
           expect allocated_bytes == 0; snapshot'
    [ "$status" = 0 ]
    [[ $output == *'"size": 3145728, "state": 2'* ]]
}

@test "a private pool's memory is its own" {
    drive 'alloc a 3MiB; free a; pool_begin; alloc b 3MiB; pool_end; expect segments == 2; snapshot'
    [ "$status" = 0 ]
    [[ $output == *'"pool": 1'* ]]
}

@test "stream capture allocates from the graph's pool and gives it back on release" {
    drive 'stream 1; capture_begin; alloc a 3MiB; capture_end; expect segments == 1
           free a; empty_cache; expect segments == 1
           graph_release; empty_cache; expect segments == 0'
    [ "$status" = 0 ]
}

@test "what is written is there again, and verify notices when it is not" {
    drive 'alloc a 10MiB; fill a 7; verify a 7'
    [ "$status" = 0 ]
    drive 'alloc a 10MiB; fill a 7; verify a 8'
    [ "$status" = 1 ]
    [[ $output == "FAILED line 1: verify a 8: "* ]]
}

@test "a fraction limits the allocator" {
    drive 'fraction 0.5; expect_oom 5GiB; alloc a 3GiB; expect reserved_bytes == 3GiB' --mem 8GiB
    [ "$status" = 0 ]
}

@test "random operations: the same seed asks for the same, and nothing is corrupted" {
    drive 'random seed=5 ops=5000 fill=1; random seed=5 ops=5000 fill=1'
    [ "$status" = 0 ]
    [ "${lines[0]}" = "${lines[1]}" ]
    [[ ${lines[0]} == *"operations=5000 "*"ooms=0 "*"corrupted=0" ]]
    drive 'random seed=6 ops=5000 fill=1; random threads=4 ops=4000 fill=1'
    [ "$status" = 0 ]
    [ "${lines[0]}" != "$output" ]
}

@test "compare notices a block that is not there" {
    cc -shared -fPIC -Iinclude -o "$BATS_TEST_TMPDIR/liar.so" tests/c10/liar.c
    LD_PRELOAD=$BATS_TEST_TMPDIR/liar.so drive 'alloc a 100MiB; compare'
    [ "$status" = 1 ]
    [[ $output == *"- 0x1000 bytes 512"* ]]
    [[ $output == *"compare blocks=1 pending=0 differences=2"* ]]
    LD_PRELOAD=$BATS_TEST_TMPDIR/liar.so drive 'random ops=10 compare=1'
    [ "$status" = 1 ]
}

@test "a failed expectation is told, and the script goes on" {
    drive 'expect segments == 5; echo on'
    [ "$status" = 1 ]
    [ "${lines[0]}" = "FAILED line 1: expect segments == 5: 0 == 5 does not hold" ]
    [ "${lines[1]}" = "on" ]
}

@test "a bad script is one clear line and status 2" {
    local script
    for script in 'nonsense' 'alloc a' 'alloc a 3XB' 'free nothing' 'expect nothing == 1' \
        'expect segments = 1' 'compare' 'random threads=0' 'alloc a 1MiB colour=3'; do
        drive "$script"
        [ "$status" = 2 ]
        [ "${#lines[@]}" = 1 ]
        [[ ${lines[0]} == "c10drive: line 1: $script: "* ]]
    done
}
