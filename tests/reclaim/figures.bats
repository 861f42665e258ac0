#!/usr/bin/env bats
# The figures themselves, where a plain sum of what the calls said would be wrong.
load common

# drive_with CONF VERSION SCRIPT [OPTION-OF-SIMGPU...]
drive_with() {
    local conf=$1
    shift
    PYTORCH_CUDA_ALLOC_CONF=$conf drive "$@"
    [ "$status" = 0 ] || return 1
    [ -z "$(but_for_pytorch)" ]
}

@test "a pool's bytes count once: what it has kept is not held twice when it is used again" {
    for version in $versions; do
        drive_with backend:cudaMallocAsync "$version" 'alloc a 4GiB; free a; expect vramgc.held_bytes == 4GiB; synchronize; sleep 300;
            expect vramgc.held_bytes == 4GiB; alloc b 4GiB; expect vramgc.held_bytes == 4GiB; alloc c 1GiB;
            expect vramgc.held_bytes == 5GiB; free b; expect vramgc.held_bytes == 5GiB'
        [ "$(fact held_bytes_peak)" = $((5 * GIB)) ]
        [ "$(fact pool_bytes_peak)" = $((5 * GIB)) ]
    done
}

@test "PyTorch's blocks from a pool are blocks, and the pool is its reserve" {
    for version in $versions; do
        drive_with backend:cudaMallocAsync "$version" 'alloc a 4GiB; alloc b 2GiB; expect vramgc.allocated_bytes == 6GiB;
            expect vramgc.active_bytes == 6GiB; expect vramgc.blocks == 2; free a; expect vramgc.allocated_bytes == 2GiB;
            expect vramgc.reserved_bytes == 6GiB; expect vramgc.blocks == 1; synchronize; sleep 300; expect vramgc.reserved_bytes == 6GiB'
        # Held over live: 4/4, 6/6 and 6/2.
        [ "$(fact held_over_live_events)" = 3 ]
        [ "$(fact held_over_live_sum)" = 5000 ]
    done
}
