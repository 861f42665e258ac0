#!/usr/bin/env bats
# Stream-ordered pools: PyTorch with backend:cudaMallocAsync, whose pool vramgc trims by itself.
load common

drive_async() {
    PYTORCH_CUDA_ALLOC_CONF=${conf:-backend:cudaMallocAsync} drive "$@"
    [ "$status" = 0 ] || return 1
    [ -z "$(but_for_pytorch)" ]
}

@test "lowvram: what the pool keeps goes back at rest, and is on record" {
    local line
    for version in $versions; do
        VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=1500ms drive_async "$version" 'alloc a 10GiB; alloc b 1GiB; fill b 5; free a; synchronize;
            await vramgc.reclaims == 1; sleep 100; expect vramgc.held_bytes == 1GiB; verify b 5; _exit 0'
        line=$(grep '^action' <<<"$facts")
        [[ $line == "action trim lowvram device=0 observed=0 request=0 used=$((11 * GIB + GIB / 4)) before=$((10 * GIB)) after=0 "* ]]
        [ "$(field held "$line")" = "$GIB" ] # by the process, not by the pool
        [ "$(field took "$line")" -gt 0 ]
        [ "$(fact pool_trims)" = 1 ]
        [ "$(fact reclaimed_bytes)" = $((10 * GIB)) ]
        [ "$(fact held_bytes_peak)" = $((11 * GIB)) ]
    done
}

# The three lie in one piece of the pool, which cannot go before the last of them.
@test "lowvram: a trim that gave nothing back is no reclaim" {
    for version in $versions; do
        VRAMGC_LOWVRAM=1 VRAMGC_TEST_MIN_GAIN=0 drive_async "$version" 'alloc a 1MiB; alloc b 1MiB; alloc c 1MiB; free a; synchronize;
            sleep 1500; expect vramgc.reclaims == 0; expect vramgc.held_bytes >= 32MiB; free b; free c; synchronize; await vramgc.reclaims == 1'
        [ "$(fact pool_trims)" = 1 ]
        [ "$(fact reclaimed_bytes)" = $((32 << 20)) ]
        [ "$(actions '')" = 1 ]
    done
}

@test "the report names --async pages where the pool has kept much, and only there" {
    local hint='DO Run with --async pages: a pool of vramgc'
    export VRAMGC_ASYNC=driver # else auto would have replaced it, on a card that is proven
    for version in $versions; do
        lay_out "$version" "$version"
        drive_async "$version" 'alloc a 512MiB count=8; free a.0; free a.2; free a.4; free a.6; synchronize; alloc b 1GiB count=2;
            await vramgc.held_bytes == 6GiB' --proven
        build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' \n' ' ' | grep -F "$hint"
        drive_async "$version" 'alloc a 2GiB' --proven
        build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | grep -c -e '--async' | grep -x 0
    done
}

@test "the report tells of vramgc's own pool by its pages: nothing is reserved there" {
    local report
    for version in $versions; do
        VRAMGC_MODE=compact VRAMGC_ASYNC=pages drive_async "$version" 'alloc a 100MiB'
        report=$(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' ')
        [[ $report == *' physical pages, used or cached 102 MiB '* ]]
        [[ $report != *reserved* && $report != *segments* ]]
    done
}

@test "threshold: only above it" {
    for version in $versions; do
        drive_async "$version" 'alloc a 10GiB; free a; synchronize; sleep 400; expect vramgc.reclaims == 0; alloc c 20GiB; free c;
            synchronize; await vramgc.reclaims == 1; sleep 200; expect vramgc.held_bytes == 0'
        [ "$(actions 'trim threshold')" = 1 ]
    done
}

@test "threshold: what the program comes back to within the cool-down stays, and goes once it does not" {
    local breath='alloc c 20GiB; free c; synchronize; sleep 300;'
    for version in $versions; do
        drive_async "$version" "alloc a 1GiB; $(printf "$breath%.0s" {1..10}) expect vramgc.reclaims == 0; await vramgc.reclaims == 1;
            sleep 200; expect vramgc.held_bytes == 1GiB"
        [ "$(actions 'trim threshold')" = 1 ]
    done
}

@test "work under way in the pool is waited for, not cut off" {
    for version in $versions; do
        VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=1ms VRAMGC_COOLDOWN=0 drive_async "$version" 'alloc a 2GiB stream=1; fill a 1 stream=1; free a;
            alloc b 2GiB stream=2; fill b 2 stream=2; sleep 50; verify b 2; alloc c 2GiB stream=1; fill c 3 stream=1; verify c 3; verify b 2'
    done
}

@test "observe: said, not done" {
    for version in $versions; do
        VRAMGC_MODE=observe VRAMGC_LOWVRAM=1 drive_async "$version" "alloc a 10GiB; free a; synchronize; $(until_action 'trim lowvram .* observed=1');
            expect vramgc.held_bytes == 10GiB"
        [ "$(actions 'trim lowvram .* observed=1')" -ge 1 ]
        [ "$(fact pool_trims)" = 0 ]
    done
}

# 14 of 24 GiB lie in the pool, freed in a stream that has work queued: the driver can neither use them in another stream nor
# give them back before that has run.
queued='alloc a 14GiB; fill a 1; free a'

@test "a refused request: what the pool keeps goes back, and it is asked again" {
    local line
    for version in $versions; do
        drive_async "$version" "$queued; alloc c 20GiB stream=1; fill c 3 stream=1; verify c 3; expect vramgc.held_bytes == 20GiB"
        [ "$output" = "" ]
        line=$(grep '^action' <<<"$facts")
        [[ $line == "action trim refused device=0 observed=0 request=$((20 * GIB)) used=$((14 * GIB + GIB / 4)) before=$((14 * GIB)) after=0 "* ]]
        [ "$(fact refusals)" = 0 ]
        [[ $(build/vramgc report --all "$BATS_TEST_TMPDIR/record.vramgc") == *'requests refused: 0;'*'vramgc gave memory back and asked the driver again: 1'* ]]
    done
}

@test "a refused request: of an extension too" {
    for version in $versions; do
        drive_async "$version" "$queued; cuda_malloc c 20GiB"
        [ "$output" = "" ]
        [ "$(actions 'trim refused')" = 1 ]
    done
}

@test "what the driver takes from a pool for another request is not held twice" {
    for version in $versions; do
        VRAMGC_MODE=observe drive_async "$version" 'alloc a 14GiB; free a; synchronize; cuda_malloc c 20GiB; expect vramgc.held_bytes <= 24GiB; _exit 0'
        [ "$(fact held_bytes_peak)" -le $((24 * GIB)) ]
    done
}

@test "a refused request: observe only says so" {
    for version in $versions; do
        VRAMGC_MODE=observe drive_async "$version" "$queued; alloc c 20GiB stream=1; expect vramgc.held_bytes >= 14GiB"
        [ "$output" = "oom c" ]
        [ "$(actions 'trim refused .* observed=1')" -ge 1 ]
        [ "$(fact pool_trims)" = 0 ]
        grep "^refusal fragmented granted=0 request=$((20 * GIB)) .* idle=$((14 * GIB)) " <<<"$facts"
    done
}

@test "a refused request: the GPU is not waited for where that would not do" {
    for version in $versions; do
        drive_async "$version" "$queued; alloc b 2GiB stream=1; alloc c 23GiB stream=1; expect vramgc.reclaims == 0"
        [ "$output" = "oom c" ]
        grep "^refusal full granted=0 " <<<"$facts"
    done
}

@test "a refused request: a capture under way is not disturbed" {
    for version in $versions; do
        drive_async "$version" "$queued; stream 2; capture_begin relaxed; cuda_malloc c 20GiB; capture_end; expect vramgc.reclaims == 0"
        [ "$output" = "oom c" ]
    done
}

@test "ComfyUI's pair: backend:cudaMallocAsync,expandable_segments:True" {
    for version in $versions; do
        conf=backend:cudaMallocAsync,expandable_segments:True VRAMGC_LOWVRAM=1 \
            drive_async "$version" 'alloc a 10GiB; alloc b 1GiB; fill b 5; free a; synchronize; await vramgc.reclaims == 1; verify b 5'
        [ "$(actions 'trim lowvram')" = 1 ]
    done
}

@test "a capture under way is not disturbed" {
    for version in $versions; do
        VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=1s VRAMGC_COOLDOWN=0 drive_async "$version" 'alloc a 10GiB; free a; stream 1; capture_begin; sleep 2500;
            expect vramgc.reclaims == 0; capture_end; await vramgc.reclaims == 1'
    done
}

# Our thread looks all the time, and is told late: what was idle when the driver was asked is live when it is told. The pauses
# differ, so that some of them end in between.
@test "what a pool keeps is not counted twice where a thread takes it while the driver is asked" {
    local script='' pause
    for pause in 300 350 400 450 500 550 600 650; do
        script+="alloc a 4GiB; sleep 250; free a; synchronize; sleep $pause; "
    done
    for version in $versions; do
        SIMGPU_POOL_ANSWER_MS=200 drive_async "$version" "$script alloc a 4GiB"
        [ "$(fact held_bytes_peak)" = $((4 * GIB)) ]
    done
}

# As comfy-aimdo has the tensors of a model's step in pages of its own, 8 MiB each, and keeps them.
@test "what other code has mapped for PyTorch's tensors counts once: live while they are there, that code's when they are not" {
    [ "$(uname -m)" = x86_64 ] || skip "it rewrites instructions of x86-64"
    local mode
    for version in $versions; do
        for mode in observe flush compact; do
            VRAMGC_MODE=$mode AIMDO_STEP=1 FRONT=build/govern/aimdo.so VRAMGC_ASYNC=driver drive_async "$version" 'alloc w 64MiB;
                synchronize; expect vramgc.held_bytes == 64MiB; alloc a 100MiB; alloc b 300MiB; expect vramgc.held_bytes == 472MiB;
                expect vramgc.allocated_bytes == 464MiB; free a; alloc c 100MiB; expect vramgc.held_bytes == 472MiB; free c; free b;
                expect vramgc.held_bytes == 472MiB; expect vramgc.allocated_bytes == 64MiB; expect card.free == 7464MiB;
                alloc d 290MiB; _exit 0' --mem 8GiB
            [ "$(fact live_bytes_peak)" = $((464 << 20)) ]
            [ "$(fact other_bytes)" = $((414 << 20)) ]
        done
    done
}

@test "where a model's step runs out of memory, what is kept for it counts as there, and nobody is to turn off whose it is" {
    [ "$(uname -m)" = x86_64 ] || skip "it rewrites instructions of x86-64"
    local report
    for version in $versions; do
        AIMDO_STEP=1 FRONT=build/govern/aimdo.so VRAMGC_ASYNC=driver drive_async "$version" 'alloc w 64MiB; synchronize; alloc a 100MiB;
            free a; alloc b 600MiB; alloc c 300MiB; _exit 0' --mem 1GiB
        report=$(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' \n' ' ')
        [[ $report == *"VERDICT OUT OF MEMORY 1x, "*" CAUSE The card is full: 196 MiB more were needed. DO Make image or batch smaller. CARD "* ]]
        [[ $report == *" + kept for a model's step 104 MiB "* ]]
        [[ $report != *"aimdo.so, holds"* ]]
    done
}
