#!/usr/bin/env bats
# Random operations of PyTorch's real allocator on a device that is far too small for what they would like to have, while pages go
# back to the driver at every moment: what is in the tensors stays right, PyTorch's books stay equal to ours, and the simulated
# device sees nobody touch a page that is not there or unmap one that is in use. MEMORY in MiB; SEEDS: how many runs of each.
# bats file_tags=random,deep
load common

# soak THREADS STREAMS SEED [WORD...]
soak() {
    local threads=$1 streams=$2 seed=$3 compare=0
    shift 3
    [ "$threads" -gt 1 ] || compare=1
    passes "random seed=$seed ops=4000 threads=$threads streams=$streams max=96MiB live=180 every=500 compare=$compare fill=1 $*;
        free_all; synchronize" --mem "${MEMORY:-1600}MiB" || return 1
    [[ $output == *"differences=0 corrupted=0"* ]] || return 1
    [ "$(fact page_unmaps)" -gt 0 ]
}

# soaks THREADS STREAMS FIRST-SEED [WORD...]
soaks() {
    local first=$3 seed
    for ((seed = first; seed < first + ${SEEDS:-1}; seed++)); do
        soak "$1" "$2" "$seed" "${@:4}" || return 1
    done
}

lowvram() { export VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=2ms VRAMGC_COOLDOWN=0; }
constant_reclaim() { lowvram; BEHIND=$PWD/build/vm/libconstant_reclaim.so; }

@test "one thread, one stream" { soaks 1 1 100; }
@test "one thread, eight streams" { soaks 1 8 200; }
@test "two threads, four streams" { soaks 2 4 300; }
@test "four threads, eight streams" { soaks 4 8 400; }
@test "lowvram: one thread, one stream" { lowvram && soaks 1 1 500; }
@test "lowvram: four threads, eight streams" { lowvram && soaks 4 8 600; }
@test "constant reclaim: one thread, one stream" { constant_reclaim && soaks 1 1 700; }
@test "constant reclaim: one thread, eight streams" { constant_reclaim && soaks 1 8 800; }
@test "constant reclaim: four threads, eight streams" { constant_reclaim && soaks 4 8 900; }
@test "constant reclaim: four threads, four streams, private pools" { constant_reclaim && soaks 4 4 1000 pools=1; }
@test "constant reclaim, a card's latencies" { constant_reclaim && SIMGPU_LATENCY=card soaks 2 4 1100; }
@test "constant reclaim, plenty of memory" { constant_reclaim && MEMORY=8000 soaks 2 8 1200; }
