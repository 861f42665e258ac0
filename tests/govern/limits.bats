#!/usr/bin/env bats
# VRAMGC_HEADROOM and VRAMGC_CAP: what the program is told and what it gets are those of one card, in every mode.
load common

setup() {
    begin
    export SIMGPU_STRICT=report
}

modes='observe flush compact'
setting() { case $1 in compact) echo keep ;; *) echo auto ;; esac; }

# set_from_outside WHAT: another process sets a limit of this one, which is the parent of a shell.
set_from_outside() { step "$1" "build/vramgc set \"\$(awk '{ print \$4 }' /proc/\$PPID/stat)\" $1"; }

# The context takes 256 MiB of the card.
@test "cap: a card of that size is told, and more is refused as by one" {
    export VRAMGC_CAP=1GiB
    for mode in $modes; do
        export VRAMGC_MODE=$mode
        passes "expect card.total == 1GiB; expect card.free == 1GiB; alloc a 500MiB; expect card.free <= 524MiB; expect card.free >= 500MiB;
            expect_oom 600MiB; alloc b 400MiB; expect card.free <= 124MiB" --mem 4GiB
        for version in $versions; do
            drive "$version" 'alloc a 900MiB; expect_oom 600MiB; _exit 0' --mem 4GiB
            [[ $(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' \n' ' ') == *'Not the card, which had '*' more: VRAMGC_CAP kept that'* ]]
        done
    done
}

@test "cap: a part of the card is the same for the driver, the runtime and NVML" {
    export VRAMGC_CAP=25%
    VRAMGC_MODE=flush passes 'expect card.total == 1GiB; alloc a 500MiB; expect card.total == 1GiB' --mem 4GiB
}

# asks_nvml: without vramgc where no library is named.
asks_nvml() {
    LD_PRELOAD=$1 SIMGPU_RESERVED=200 SIMGPU_OTHERS=4194305:700MiB,4194306:100MiB tests/on_card --cuda 13 --mem 4GiB -- \
        build/venv/bin/python tests/govern/python/nvml.py
}

@test "cap: NVML's memory, by both forms, its lists of processes, and CUDA agree" {
    [ "$(asks_nvml '')" = '1568 768 1568' ] # 256 of the context
    for option in VRAMGC_CAP=8GiB VRAMGC_HEADROOM=0; do
        [ "$(export "$option"; asks_nvml "$library")" = '1568 768 1568' ]
    done
    [ "$(VRAMGC_CAP=1GiB asks_nvml "$library")" = '512 512 512' ]
    [ "$(VRAMGC_CAP=3584MiB asks_nvml "$library")" = '1056 512 1056' ] # the others leave less than the cap
    [ "$(VRAMGC_HEADROOM=1GiB asks_nvml "$library")" = '2592 768 1568' ]
}

@test "head-room: so much stays free on the card, and is told as gone" {
    export VRAMGC_HEADROOM=1GiB
    for mode in $modes; do
        export VRAMGC_MODE=$mode
        passes 'expect card.total == 4GiB; expect card.free == 2816MiB; alloc a 2500MiB; expect_oom 400MiB; alloc b 200MiB; expect card.free <= 116MiB' --mem 4GiB
        for version in $versions; do
            drive "$version" 'alloc a 2500MiB; expect_oom 600MiB; _exit 0' --mem 4GiB
            [[ $(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' \n' ' ') == *'VRAMGC_HEADROOM kept that from the program'* ]]
        done
    done
}

# What is idle would do: PyTorch, or the engine, gives it up and asks again.
@test "nothing is refused to the program that its own idle memory would have served" {
    for mode in flush compact; do
        VRAMGC_CAP=1GiB VRAMGC_MODE=$mode passes 'alloc a 800MiB; free a; alloc b 900MiB; expect num_ooms == 0' --mem 4GiB
        VRAMGC_HEADROOM=3GiB VRAMGC_MODE=$mode passes 'alloc a 500MiB; free a; alloc b 600MiB; expect num_ooms == 0' --mem 4GiB
    done
}

@test "limits change while the program runs: for the next request at once, idle memory goes back" {
    export VRAMGC_THRESHOLD=80
    export VRAMGC_MODE=compact
    passes "alloc a 500MiB; alloc b 1GiB; free b; $(set_from_outside headroom=3GiB); expect card.free == 0;
        await vramgc.held_bytes <= 564MiB; expect_oom 600MiB; $(set_from_outside headroom=0); alloc c 600MiB;
        $(set_from_outside cap=1200MiB); expect card.total == 1200MiB; expect_oom 600MiB" --mem 4GiB
}

# PyTorch hands out what it has cached, without a call: the engine finds no pages for it.
@test "compact: a limit that came later holds for a segment that PyTorch has" {
    export VRAMGC_MODE=compact VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=1ms
    passes "alloc a 600MiB; free a; synchronize; await vramgc.held_bytes == 0; $(set_from_outside cap=300MiB); expect_oom 600MiB;
        expect vramgc.held_bytes <= 300MiB; alloc b 200MiB" --mem 4GiB
    build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" >"$BATS_TEST_TMPDIR/report"
    grep -E '^= card +- .* 300 MiB$' "$BATS_TEST_TMPDIR/report" # of which the peak was no part
    ! grep -qF 'of the card used' "$BATS_TEST_TMPDIR/report"
}

@test "head-room holds while another program grows" {
    export VRAMGC_HEADROOM=1GiB SIMGPU_CARD=$BATS_TEST_TMPDIR/card
    for version in $versions; do
        rm -f "$SIMGPU_CARD"
        VRAMGC_MODE=off tests/on_card --cuda "$(cuda_of "$version")" --mem 4GiB -- build/c10/"$version"/c10drive \
            <(echo "$(step there "test -e $BATS_TEST_TMPDIR/there"); alloc a 2GiB; $(step seen "test -e $BATS_TEST_TMPDIR/seen")") &
        VRAMGC_MODE=compact drive "$version" "alloc a 300MiB; alloc b 1GiB; free b; sleep 1500; $(step now "touch $BATS_TEST_TMPDIR/there");
            await vramgc.held_bytes <= 364MiB; expect_oom 500MiB; $(step end "touch $BATS_TEST_TMPDIR/seen")" --mem 4GiB
        wait
        [ "$status" = 0 ]
        rm "$BATS_TEST_TMPDIR"/{there,seen}
    done
}

@test "set: what cannot be set, and a program that is not there" {
    run build/vramgc set
    [ "$status" = 2 ]
    run build/vramgc set 1 threshold=5
    [ "$status" = 2 ]
    [[ $output == *'what can be set while a program runs is headroom=SIZE and cap=SIZE' ]]
    run build/vramgc set 1 cap=3
    [[ $output == *'cap=3 lacks its unit: KiB, MiB or GiB' ]]
    run build/vramgc set 4194304 cap=3GiB
    [ "$status" = 1 ]
}
