#!/usr/bin/env bats
# The engine on a simulated device that is as hard as a card may be: each setting alone, a handful of scripts in each. All that lives
# always fits (in_flight.py), so that nobody may be refused; what is in the tensors is right, captures stay valid, and the device has
# nothing to complain about.
# bats file_tags=random,deep
load common

# quietly SCRIPT [OPTION-OF-SIMGPU...]: it passes; PyTorch itself may warn.
quietly() {
    local version
    for version in $versions; do
        drive "$version" "$@"
        [ "$status" = 0 ] || return 1
        [[ $errors != *simgpu* && $errors != *vramgc* ]] || return 1
        [ "$(fact page_maps)" -gt 0 ] || return 1
    done
}

captures='alloc x 60MiB; fill x 7; alloc w 200MiB; fill w 1; free w; synchronize; stream 2; capture_begin; alloc g 100MiB; fill g 2; capture_end;
    stream 0; free x; alloc v 150MiB; fill v 3; verify v 3; expect num_ooms == 0; graph_release; free g; free v; empty_cache;
    reclaim; await vramgc.held_bytes == 0'
random='random seed=31 ops=1500 threads=2 streams=4 max=64MiB live=120 every=500 fill=1; free_all; synchronize'

# handful SETTING=VALUE...: of the simulated device.
handful() {
    export "$@"
    local conf script=$BATS_TEST_TMPDIR/in_flight
    python3 tests/vm/in_flight.py --seed 3 --streams 4 >"$script"
    for conf in max_split_size_mb:512 expandable_segments:True; do
        export PYTORCH_CUDA_ALLOC_CONF=$conf
        quietly "$captures" --mem 768MiB || return 1
        quietly "$script" --mem 768MiB || return 1
        VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=2ms VRAMGC_COOLDOWN=0 quietly "$script" --mem 768MiB || return 1
        VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=2ms VRAMGC_COOLDOWN=0 quietly "$random" --mem 3GiB || return 1
        [[ $output == *"ooms=0 "*"corrupted=0"* ]] || return 1
    done
}

@test "what is free is told a tenth of a second late" { handful SIMGPU_FREE_LAG_MS=100; }
@test "kernels read 256 KiB past their operands" { handful SIMGPU_OVERREAD=256KiB; }
@test "the GPU is ten times slower, kernels are of any length, launches wait for calls that last" {
    handful SIMGPU_LATENCY=card SIMGPU_SLOW=10 SIMGPU_KERNEL_US=300 SIMGPU_CONTEXT_LOCK=1
}
@test "page tables take memory" { handful SIMGPU_PAGE_TABLE=64KiB; }
@test "questions break a capture as cudaMalloc does" { handful SIMGPU_CAPTURE_STRICT=1; }
@test "nobody tells of a whole context" { handful SIMGPU_CONTEXT_EVENT=0; }
@test "all of it at once" {
    handful SIMGPU_FREE_LAG_MS=20 SIMGPU_OVERREAD=256KiB SIMGPU_LATENCY=card SIMGPU_SLOW=3 SIMGPU_KERNEL_US=100 SIMGPU_CONTEXT_LOCK=1 \
        SIMGPU_PAGE_TABLE=64KiB SIMGPU_CAPTURE_STRICT=1
}

# Addresses and handles do not end on a card, that is known; where they do, nothing may be wrong but that memory is refused.
@test "handles end; addresses end" {
    local conf
    for conf in max_split_size_mb:512 expandable_segments:True; do
        PYTORCH_CUDA_ALLOC_CONF=$conf SIMGPU_MAX_HANDLES=100 quietly "$random" --mem 3GiB || return 1
        [[ $output == *"corrupted=0"* ]] || return 1
    done
    SIMGPU_MAX_ADDRESSES=300MiB quietly "$random" --mem 3GiB || return 1
    [[ $output == *"corrupted=0"* ]]
}
