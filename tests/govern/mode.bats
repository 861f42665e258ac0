#!/usr/bin/env bats
# VRAMGC_MODE=auto: what it becomes on PyTorch's real allocator, and the one line that says why. The table itself is tested in
# tests/unit/test_mode.c.
load common

# goes CONF SCRIPT: with that setting of PyTorch's allocator, on the release laid out, and on a proven card.
goes() { PYTORCH_CUDA_ALLOC_CONF=$1 VRAMGC_LOG=info drive "$version" "$2" --proven; }

# says COUNT MODE WHY: so often at most, at last this, in the log, and in the file. (What changes at once is said once.)
says() {
    [ "$status" = 0 ] || return 1
    [ "$(fact mode)" = "$2" ] || return 1
    [ "$(fact mode_why)" = "$3" ] || return 1
    [ "$(grep -c ' info  mode ' <<<"$errors")" -le "$1" ] || return 1
    [[ $(grep ' info  mode ' <<<"$errors" | tail -n 1) == *" info  mode $2: $3" ]]
}

paged() { [ "$(fact page_maps)" -gt 0 ]; }
not_paged() { [ "$(fact page_maps)" = 0 ]; }

# Blocks and segments enough to know a PyTorch by; then a segment more.
many() {
    local i
    for ((i = 0; i < 70; i++)); do echo -n "alloc s$i 1MiB; "; done
}
few='alloc a 100MiB; fill a 1; verify a 1; free a; alloc b 200MiB; fill b 2; verify b 2'

@test "compact where all is known" {
    for version in $versions; do
        lay_out "$version" "$version+cu128"
        goes max_split_size_mb:512 "$few"
        says 1 compact "PyTorch $version+cu128, driver 580, self-test passed on gpu0"
        paged
    done
}

@test "compact where nobody chose: expandable segments, and pages follow their blocks" {
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" "$version+cu128"
        VRAMGC_LOG=info drive "$version" "$few" --proven
        says 1 compact "PyTorch $version+cu128, driver 580, self-test passed on gpu0"
        [ "$(fact conf)" = "$(choice_for "$version")" ]
        paged
    done
}

@test "a newer version with expandable segments: flush" {
    for version in $versions; do
        lay_out "$version" 2.99.0
        goes expandable_segments:True "$(many) $few"
        says 1 flush "PyTorch 2.99.0 is newer than 2.15: its expandable segments are not known"
        not_paged
    done
}

@test "two devices: each is tried when it is first used" {
    for version in $versions; do
        lay_out "$version" "$version"
        PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512 drive "$version" "device 1; alloc a 100MiB; device 0; alloc b 10MiB" --devices 2 --proven
        [ "$(fact mode_why)" = "PyTorch $version, driver 580, self-test passed on gpu0,1" ]
    done
}

@test "flush where the version is not known, or older than what was tried" {
    for version in $versions; do
        lay_out "$version" ''
        goes max_split_size_mb:512 "$few"
        says 1 flush "PyTorch's version is not known"
        not_paged
        lay_out "$version" 1.13.1
        goes max_split_size_mb:512 "$few"
        says 1 flush "PyTorch 1.13.1 is older than what was tried"
        not_paged
    done
}

@test "a newer version: flush first, compact when its blocks have come as they are known" {
    for version in $versions; do
        lay_out "$version" 2.99.0
        goes max_split_size_mb:512 "$few"
        says 1 flush "PyTorch 2.99.0 is newer than 2.15: its block events are checked first"
        not_paged
        goes max_split_size_mb:512 "$(many) $few"
        says 2 compact "PyTorch 2.99.0, newer than 2.15, has known block events; driver 580, self-test passed on gpu0"
        paged
    done
}

@test "a newer version where nobody chose: its segments do not become expandable, so that compact can follow" {
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" 2.99.0
        VRAMGC_LOG=info drive "$version" "$(many) $few" --proven
        [ "$(fact mode)" = compact ]
        [ "$(fact conf)" = '' ]
        [ "$(fact why)" = 'left alone: expandable segments are not known to be sound in this PyTorch' ]
        paged
    done
}

@test "a newer version that does not tell of all its blocks: flush, and nothing is lost" {
    for version in $versions; do
        lay_out "$version" 2.99.0
        FRONT=$PWD/build/govern/libunreported_blocks.so goes max_split_size_mb:512 "alloc x 100MiB; fill x 3; $(many) $few; verify x 3"
        says 2 flush "PyTorch 2.99.0 is newer than 2.15, and its block events differ"
        not_paged
    done
}

@test "a device that fails the self-test: flush, and nobody is warned" {
    for version in $versions; do
        lay_out "$version" "$version"
        SIMGPU_OOM_NTH=3 goes max_split_size_mb:512 "cuda_malloc x 1MiB; cuda_malloc y 1MiB; $few"
        says 1 flush 'the self-test of mapping pages failed on gpu0'
        [[ $errors != *warn* ]]
        not_paged
    done
}

@test "cudaMallocAsync: pages, for the proof covers it; VRAMGC_ASYNC=driver: flush, which trims the pool" {
    for version in $versions; do
        lay_out "$version" "$version"
        goes backend:cudaMallocAsync "$few"
        says 1 compact "PyTorch $version, driver 580, self-test passed on gpu0; vramgc's own pool serves cudaMallocAsync"
        paged
        VRAMGC_MODE=compact goes backend:cudaMallocAsync "$few"
        paged
        for mode in flush observe; do
            VRAMGC_MODE=$mode goes backend:cudaMallocAsync "$few"
            says 1 $mode 'asked for (--mode, or VRAMGC_MODE)'
            not_paged
        done
        VRAMGC_ASYNC=driver goes backend:cudaMallocAsync "$few"
        says 1 flush "PyTorch uses cudaMallocAsync, whose pool is trimmed"
        not_paged
    done
}

# unproven FOLDER CONF: on a card whose proofs lie there.
unproven() { XDG_STATE_HOME=$1 PYTORCH_CUDA_ALLOC_CONF=$2 VRAMGC_LOG=info drive "$version" "$few"; }

@test "without a proof: flush in each of PyTorch's settings, and VRAMGC_MODE=compact stays" {
    local none=$BATS_TEST_TMPDIR/none
    for version in $versions; do
        lay_out "$version" "$version"
        for conf in max_split_size_mb:512 expandable_segments:True; do
            unproven "$none" $conf
            says 1 flush 'compact is not tested yet on gpu0: run `vramgc prove`, a minute'
            not_paged
        done
        unproven "$none" backend:cudaMallocAsync
        says 1 flush 'PyTorch uses cudaMallocAsync, whose pool is trimmed; gpu0 has no proof: run `vramgc prove`, a minute'
        not_paged
        VRAMGC_MODE=compact unproven "$none" max_split_size_mb:512
        says 1 compact 'asked for (--mode, or VRAMGC_MODE); self-test passed on gpu0'
        paged
        [ ! -e "$none" ]
    done
}

@test "a proof of another driver, of a card that failed, of another card, or that others could have written is none" {
    local state=$BATS_TEST_TMPDIR/state proof
    lay_out "${versions%% *}" "$NEWEST_RELEASE"
    version=${versions%% *}
    cp -r build/proven "$state"
    proof=$(echo "$state"/vramgc/*30.proof)
    unproven "$state" max_split_size_mb:512
    says 1 compact "PyTorch $NEWEST_RELEASE, driver 580, self-test passed on gpu0"
    sed -i 's/^driver .*/driver 13.0 580.82.07/' "$proof"
    unproven "$state" max_split_size_mb:512
    says 1 flush 'the proof of gpu0 is of another driver or vramgc: run `vramgc prove`, a minute'
    cp build/proven/vramgc/*30.proof "$proof"
    sed -i 's/^engine .*/engine 0/' "$proof"
    unproven "$state" max_split_size_mb:512
    says 1 flush 'the proof of gpu0 is of another driver or vramgc: run `vramgc prove`, a minute'
    cp build/proven/vramgc/*30.proof "$proof"
    sed -i 's/^result .*/result failed/' "$proof"
    unproven "$state" max_split_size_mb:512
    says 1 flush '`vramgc prove` found that gpu0 does not support compact'
    cp build/proven/vramgc/*31.proof "$proof"
    unproven "$state" max_split_size_mb:512
    says 1 flush 'compact is not tested yet on gpu0: run `vramgc prove`, a minute'
    cp build/proven/vramgc/*30.proof "$proof"
    chmod 622 "$proof"
    unproven "$state" max_split_size_mb:512
    says 1 flush 'compact is not tested yet on gpu0: run `vramgc prove`, a minute'
    rm "$proof"
    ln -s "$PWD"/build/proven/vramgc/*30.proof "$proof"
    unproven "$state" max_split_size_mb:512
    says 1 flush 'compact is not tested yet on gpu0: run `vramgc prove`, a minute'
    rm "$proof"
    head -c -1 build/proven/vramgc/*30.proof >"$proof" # cut short
    unproven "$state" max_split_size_mb:512
    says 1 flush 'compact is not tested yet on gpu0: run `vramgc prove`, a minute'
    cp build/proven/vramgc/*30.proof "$proof"
    chmod 777 "$state/vramgc"
    unproven "$state" max_split_size_mb:512
    says 1 flush 'compact is not tested yet on gpu0: run `vramgc prove`, a minute'
    chmod 700 "$state/vramgc"
    unproven "$state" max_split_size_mb:512
    says 1 compact "PyTorch $NEWEST_RELEASE, driver 580, self-test passed on gpu0"
}

@test "two cards, one of them proven: flush" {
    local state=$BATS_TEST_TMPDIR/state
    version=${versions%% *}
    lay_out "$version" "$NEWEST_RELEASE"
    mkdir -p "$state/vramgc"
    cp build/proven/vramgc/*30.proof "$state/vramgc/"
    XDG_STATE_HOME=$state VRAMGC_LOG=info drive "$version" "$few" --devices 2
    says 1 flush 'compact is not tested yet on gpu1: run `vramgc prove`, a minute'
}

# comfy-aimdo fills the device with ComfyUI's weights, and makes room inside cuMemAlloc.
weights_make_room='cuda_malloc x 1MiB; synchronize; alloc a 300MiB; fill a 1; alloc b 200MiB; fill b 2; verify a 1; verify b 2; expect num_ooms == 0; stats'

@test "the weights of comfy-aimdo make room: flush, and PyTorch's segments come by cudaMalloc; what goes is seen to go" {
    [ "$(uname -m)" = x86_64 ] || skip "it rewrites instructions of x86-64"
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" "$version"
        FRONT=build/govern/aimdo.so VRAMGC_MODE=off drive "$version" "$weights_make_room" --mem 1GiB
        [ "$status" = 0 ] # so it is without vramgc
        FRONT=build/govern/aimdo.so VRAMGC_LOG=info drive "$version" "$weights_make_room" --mem 1GiB --proven
        says 1 flush "ComfyUI's DynamicVRAM (comfy-aimdo) frees memory only for requests that reach the driver"
        [ "$(fact conf)" = '' ]
        not_paged
        held=$(sed -n 's/.*"vramgc.held_bytes": \([0-9]*\).*/\1/p' <<<"$output")
        [ "$held" -gt 500000000 ]
        [ "$held" -le 805306368 ] # what the device has without its context
        [[ $(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' ') == *'
 of it: DynamicVRAM, aimdo.so 7'?*' MiB '* ]]
    done
}

@test "the weights of comfy-aimdo make room for expandable segments and in mode compact, too" {
    [ "$(uname -m)" = x86_64 ] || skip "it rewrites instructions of x86-64"
    for version in $versions; do
        lay_out "$version" "$version"
        for mode in flush compact; do
            for setting in expandable_segments:True max_split_size_mb:512; do
                FRONT=build/govern/aimdo.so VRAMGC_MODE=$mode VRAMGC_ALLOC_CONF=$setting drive "$version" "$weights_make_room" --mem 1GiB
                [ "$status" = 0 ]
                held=$(sed -n 's/.*"vramgc.held_bytes": \([0-9]*\).*/\1/p' <<<"$output")
                [ "$held" -gt 500000000 ]
                [ "$held" -le 805306368 ]
            done
        done
        export VRAMGC_MODE=compact
        FRONT=build/govern/aimdo.so VRAMGC_ASYNC=pages VRAMGC_ALLOC_CONF=keep PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync drive "$version" "$weights_make_room" --mem 1GiB
        [ "$status" = 0 ]
        [ "$(fact page_maps)" != 0 ]
        export VRAMGC_ALLOC_CONF=expandable_segments:True
        # The weights took the pages behind a segment that PyTorch keeps.
        FRONT=build/govern/aimdo.so drive "$version" 'cuda_malloc x 1MiB; alloc a 300MiB; free a; synchronize; alloc b 300MiB; fill b 1;
                                                      verify b 1; expect num_ooms == 0' --mem 1GiB
        [ "$status" = 0 ]
        FRONT=build/govern/aimdo.so drive "$version" 'cuda_malloc x 1MiB; alloc k 1MiB; synchronize; stream 2; capture_begin; alloc a 300MiB;
                                                      capture_end; expect num_ooms == 0' --mem 1GiB
        [ "$status" = 0 ]
    done
}

# behind LIBRARY MODE: what fits in its quota, 64 MiB, and then what does not. Sets refused.
behind() {
    local file=$PWD/build/hook/$1.so
    BEHIND=$file VRAMGC_MODE=$2 VRAMGC_LOG=info drive "$version" 'alloc a 30MiB; expect num_ooms == 0; alloc b 200MiB; stats' --mem 8GiB --proven
    [ "$status" = 0 ] || return 1
    refused=no
    [[ $output != *'"num_ooms": 1'* ]] || refused=yes
}

@test "another interposer that answers for the driver, but not for cuMemCreate: nothing goes round it" {
    local quota words
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" "$version"
        for quota in libhook_dlsym libquota-BY_QUESTION libquota-OF_RUNTIME; do
            words="$quota.so answers for the driver, but not for cuMemCreate"
            behind "$quota" off
            [ "$refused" = yes ] # so it is without vramgc
            behind "$quota" auto
            [ "$refused" = yes ]
            says 1 flush "$words: compact would go round it"
            [ "$(fact why)" = "left alone: $words" ]
            not_paged
            behind "$quota" flush
            [ "$refused" = yes ]
            says 1 flush 'asked for (--mode, or VRAMGC_MODE)'
        done
        behind libquota-CREATES auto
        says 1 compact "PyTorch $version, driver 580, self-test passed on gpu0"
        [ "$(fact conf)" = "$(choice_for "$version")" ]
        paged
        behind libhook_dlsym compact
        says 1 compact 'asked for (--mode, or VRAMGC_MODE); self-test passed on gpu0'
        BEHIND=build/hook/libdriver_interposer.so VRAMGC_LOG=info drive "$version" "$few" --proven # nobody calls it: see its head
        says 1 compact "PyTorch $version, driver 580, self-test passed on gpu0"
    done
}

@test "VRAMGC_MODE overrides" {
    for version in $versions; do
        lay_out "$version" "$version"
        for mode in flush observe; do
            VRAMGC_MODE=$mode goes max_split_size_mb:512 "$few"
            says 1 "$mode" 'asked for (--mode, or VRAMGC_MODE)'
            not_paged
        done
        lay_out "$version" ''
        VRAMGC_MODE=compact goes max_split_size_mb:512 "$few"
        says 1 compact 'asked for (--mode, or VRAMGC_MODE); self-test passed on gpu0'
        paged
    done
}

@test "without a segment of PyTorch's the line comes at the end" {
    for version in $versions; do
        lay_out "$version" "$version"
        goes max_split_size_mb:512 'cuda_malloc x 1MiB'
        says 1 compact "PyTorch $version, driver 580, not self-tested yet"
    done
}
