#!/usr/bin/env bats
# Host memory's allocators bear it that another thread has them give back, whatever the program's threads do.
load ../surroundings

setup() { cd "$BATS_TEST_DIRNAME/../.." || exit; }

# stress SECONDS: 64 threads, under each allocator that the loader finds.
stress() {
    local pair name library
    for pair in glibc: tcmalloc:libtcmalloc_minimal.so.4 jemalloc:libjemalloc.so.2 mimalloc:libmimalloc.so.2; do
        name=${pair%%:*} library=${pair#*:}
        if [ -n "$library" ] && ! /sbin/ldconfig -p | grep -qF "$library"; then
            echo "SKIPPED: $name is not installed" >&3
            continue
        fi
        LD_PRELOAD=$library build/govern/host_stress "$1" 64 "$name"
    done
}

# bats test_tags=random
@test "host: what 64 threads have is as they wrote it, beside releases and forks, under each allocator" {
    stress 2
}

# bats test_tags=deep
@test "host: the same for a minute each" {
    stress 60
}
