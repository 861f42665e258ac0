#!/usr/bin/env bats
# A hundred random runs over allocator settings, lowvram or a threshold, streams, threads, releases of PyTorch, latencies and how
# long idle pages stay: every tensor's content is right in the end, PyTorch's books are ours, and the simulated device has nothing to
# complain about. RUNS: how many of each setting's 25 (standard: 3; `make soak` runs all). Each is known by its number.
# bats file_tags=deep
load common

# one NUMBER: the run's parameters come from its number alone.
one() {
    local n=$1 releases=($versions) streams=(1 4 8 20) rests=(2ms 100ms 4s) threads=(1 2 4) compare=0 nth=$(($1 % 25))
    local release=${releases[n % ${#releases[@]}]}
    export VRAMGC_COOLDOWN=0 VRAMGC_TEST_REST=${rests[n % 3]} SIMGPU_LATENCY=none
    if ((nth % 3 == 0)); then export VRAMGC_THRESHOLD=60 VRAMGC_LOWVRAM=0; else export VRAMGC_LOWVRAM=1; fi
    ((nth % 4 != 1)) || export SIMGPU_LATENCY=card
    ((nth % 5 != 2)) || BEHIND=$PWD/build/vm/libconstant_reclaim.so
    [ "${threads[n % 3]}" -gt 1 ] || compare=1
    echo "# run $n: ${PYTORCH_CUDA_ALLOC_CONF:-default}"
    drive "$release" "random seed=$((7000 + n)) ops=1500 threads=${threads[n % 3]} streams=${streams[n % 4]} max=96MiB live=150 every=500 compare=$compare fill=1; free_all; synchronize" --mem 1600MiB
    [ "$status" = 0 ] || return 1
    [[ $errors != *simgpu* && $errors != *vramgc* ]] || return 1 # PyTorch has its own warnings about expandable segments
    [[ $output == *"differences=0 corrupted=0"* ]] || return 1
    [ "$(fact page_unmaps)" -gt 0 ] || return 1
    unset BEHIND "${!VRAMGC_@}"
    export VRAMGC_MODE=compact VRAMGC_ALLOC_CONF=keep VRAMGC_LOG=warn
}

# runs FIRST: so many from this number on.
runs() {
    local n
    for ((n = $1; n < $1 + ${RUNS:-3}; n++)); do
        one "$n" || return 1
    done
}

# bats test_tags=random
@test "PyTorch's own setting" { runs 0; }
# bats test_tags=random
@test "SD.Next's setting" { PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.80,max_split_size_mb:512 runs 25; }
# bats test_tags=random
@test "small pieces" { PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:32 runs 50; }
# bats test_tags=random
@test "expandable segments" { PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True runs 75; }
