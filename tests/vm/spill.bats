#!/usr/bin/env bats
# VRAMGC_SPILL: where the device is really full, live blocks lie in host memory at the same addresses.
load common

# 768 MiB, of which the context takes 256.
small=(--mem 768MiB)
full='alloc a 400MiB; fill a 1; alloc b 200MiB; fill b 2; verify a 1; verify b 2;'

@test "a job of 1.2 times the device completes, with the right contents; without the setting it is refused, and what is smaller works" {
    VRAMGC_SPILL=256MiB passes "$full expect num_ooms == 0; expect vramgc.held_bytes <= 512MiB" "${small[@]}"
    [ "$(fact spilled_bytes_peak)" = $((88 << 20)) ]
    [ "$(fact spilled_ns)" -gt 0 ]
    build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | grep -q 'up to 88.0 MiB of live memory lay in the host, for '
    passes 'alloc a 400MiB; fill a 1; expect_oom 200MiB; alloc c 80MiB; fill c 3; verify c 3; verify a 1' "${small[@]}"
    [ "$(fact spilled_bytes_peak)" = 0 ]
    run build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc"
    [[ $output != *"in the host"* ]]
}

@test "never more than allowed, or than the host has" {
    VRAMGC_SPILL=80MiB passes 'alloc a 400MiB; fill a 1; expect_oom 200MiB; alloc c 190MiB; fill c 3; verify c 3; verify a 1' "${small[@]}"
    [ "$(fact spilled_bytes_peak)" -le $((80 << 20)) ]
    export SIMGPU_HOST_MEM=40MiB
    VRAMGC_SPILL=256MiB passes 'alloc a 400MiB; fill a 1; alloc b 150MiB; fill b 2; expect_oom 2MiB; verify a 1; verify b 2' "${small[@]}"
    [ "$(fact spilled_bytes_peak)" = $((38 << 20)) ] # one page is left: a block comes with the page behind it
}

@test "idle device memory comes first; what is in the host goes back first" {
    VRAMGC_SPILL=256MiB passes 'alloc a 400MiB; fill a 1; free a; alloc b 410MiB stream=1; fill b 2 stream=1; stream 1; verify b 2' "${small[@]}"
    [ "$(fact spilled_bytes_peak)" = 0 ]
    VRAMGC_THRESHOLD=100 VRAMGC_SPILL=256MiB passes "$full free b; sleep 1500; verify a 1" "${small[@]}"
    [ "$(fact spilled_bytes)" = 0 ]
}

@test "a block that comes back gets the device's memory, when there is any by then" {
    VRAMGC_SPILL=256MiB passes "$full free b; free a; alloc c 200MiB; fill c 3; verify c 3" "${small[@]}"
    [ "$(fact spilled_bytes_peak)" = $((88 << 20)) ]
    [ "$(fact spilled_bytes)" = 0 ]
}

# The trials make some of these calls, the first block 200 pages; from the 202nd handle on every other one is the host's.
@test "one refused call is not the end: addresses, a handle, a mapping, access" {
    local call
    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False VRAMGC_SPILL=256MiB
    passes 'alloc a 400MiB; fill a 1; alloc c 30MiB; free c; alloc b 200MiB; fill b 2; verify a 1; verify b 2; expect num_ooms == 0' "${small[@]}" \
        --fail cuMemAddressReserve:5@libvramgc.so # when PyTorch asks again, having given up its cache
    for call in cuMemCreate:{344,345} cuMemMap:300 cuMemSetAccess:6; do
        passes "$full expect num_ooms == 0; expect vramgc.held_bytes <= 512MiB" \
            "${small[@]}" --fail "$call@libvramgc.so"
        [ "$(fact spilled_bytes_peak)" = $((88 << 20)) ]
    done
}

# PyTorch up to 2.10 maps past the end of its segment, which is an eighth larger than the card.
@test "no request is larger than the card, where segments are expandable" {
    local version
    for version in $versions; do
        VRAMGC_SPILL=4GiB PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True drive "$version" \
            'expect_oom 2000MiB; alloc a 400MiB; fill a 1; verify a 1' "${small[@]}"
        [ "$status" = 0 ]
    done
}

# Every other handle there is the host's.
@test "whatever code the host refuses memory with, the program has it or is out of memory" {
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False VRAMGC_SPILL=256MiB passes "$full" "${small[@]}" --fail cuMemCreate:344:304@libvramgc.so
}

# bats test_tags=random
@test "random blocks on several streams, live bytes up to 1.1 times the device: contents right, nothing refused" {
    VRAMGC_SPILL=1GiB passes 'random seed=3 ops=4000 streams=4 max=256MiB live=100 every=500 compare=1 fill=1' --mem 2900MiB
    [[ $output == *"ooms=0"*"differences=0 corrupted=0"* ]]
    [ "$(fact spilled_bytes_peak)" -ge $(($(fact live_bytes_peak) - (2900 << 20))) ]
    [ -n "${SEED:-}" ] || [ "$(fact spilled_bytes_peak)" -gt $((100 << 20)) ] # with others as little as nothing
}

@test "a driver without it: one line, and all as without the setting" {
    local version
    for version in $versions; do
        VRAMGC_SPILL=256MiB drive "$version" 'alloc a 400MiB; fill a 1; expect_oom 200MiB; verify a 1' "${small[@]}" --no-host-vmm
        [ "$status" = 0 ]
        [[ $errors == *"gpu0 cannot map host memory: VRAMGC_SPILL is not used there" ]]
        [ "$(wc -l <<<"$errors")" = 1 ]
    done
}

@test "where the card is not proven nothing is put in the host: one line says so, and why" {
    local version setting
    for version in $versions; do
        for setting in expandable_segments:False expandable_segments:True; do
            PYTORCH_CUDA_ALLOC_CONF=$setting VRAMGC_MODE=auto VRAMGC_SPILL=256MiB drive "$version" 'alloc a 400MiB; expect_oom 200MiB' "${small[@]}"
            [ "$status" = 0 ]
            [ "$(grep -c '^vramgc: ' <<<"$errors")" = 1 ]
            [[ $errors == *" warn  nothing will be put in host memory (VRAMGC_SPILL) in mode flush: "*"run \`vramgc prove\`"* ]]
        done
    done
}

# bats test_tags=python
@test "PyTorch: free memory is the device's alone, tensors are right, and the next job works" {
    export SIMGPU_DATA_LIMIT=0
    VRAMGC_SPILL=1GiB python_says 'spilled ok' spilled 768MiB
    [ -z "$errors" ]
    VRAMGC_SPILL=0 python_says 'refused ok' spilled 768MiB
    [ -z "$errors" ]
}
