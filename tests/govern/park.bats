#!/usr/bin/env bats
# `vramgc park` and `vramgc wake`: the driver takes a program off the card and brings it back. Nothing of the program changes.
load common

setup() {
    begin
    export SIMGPU_STRICT=report SIMGPU_CARD=$BATS_TEST_TMPDIR/card VRAMGC_MODE=compact
}

teardown() { kill -9 ${started:-} ${watch:-} 2>/dev/null || true; }

# start VERSION SCRIPT: runs it beside the test, and waits until it has taken what comes before the word READY. Sets pid. On a card of its
# own, unless same_card is set.
start() {
    [ -n "${same_card:-}" ] || rm -f "$SIMGPU_CARD"
    rm -f "$BATS_TEST_TMPDIR"/{ready,go}
    local script=${2/READY/$(step ready "touch $BATS_TEST_TMPDIR/ready"); $(step go "test -e $BATS_TEST_TMPDIR/go")}
    LD_PRELOAD=$library VRAMGC_OUT=$BATS_TEST_TMPDIR/record.vramgc tests/on_card --cuda "$(cuda_of "$1")" --mem 4GiB -- \
        build/c10/"$1"/c10drive <(echo "$script") >"$BATS_TEST_TMPDIR/started" 2>&1 &
    started=$!
    while [ ! -e "$BATS_TEST_TMPDIR/ready" ]; do
        kill -0 "$started"
        sleep 0.05
    done
    pid=$(od -A n -t d4 -N 4 "$SIMGPU_CARD" | tr -d ' ')
}

go() { touch "$BATS_TEST_TMPDIR/go"; }
is_over() { wait "$started"; }
park() { run tests/on_card --mem 4GiB "$@" -- build/vramgc park "$pid"; }
wake() { run tests/on_card --mem 4GiB "$@" -- build/vramgc wake "$pid"; }

@test "what a parked program had another can use, and it comes back as it was" {
    for version in $versions; do
        for mode in off compact; do
            VRAMGC_MODE=$mode start "$version" 'alloc a 3GiB; fill a 7; synchronize; READY; verify a 7; alloc b 100MiB; fill b 9; verify b 9; verify a 7; expect num_ooms == 0'
            park
            [[ $output == *"process $pid is parked: 3.3 GiB of the card are free, after "* ]]
            top=$(build/vramgc top --once "$pid") || [ "$mode" = off ]
            [ "$mode" = off ] || [[ $(tr -s ' ' <<<"$top") == *"$pid 2."*' 0 0 0 0'*"parked, with 3.0 GiB in RAM; \`vramgc wake $pid\`"* ]]
            VRAMGC_MODE=off drive "$version" 'alloc x 3GiB; fill x 1; verify x 1' --mem 4GiB
            [ "$status" = 0 ]
            go
            sleep 0.3
            kill -0 "$started" # it stands still
            wake
            [ "$status" = 0 ]
            is_over
        done
    done
}

# Where both run under vramgc: peers.bats.
@test "a program without vramgc that has 70 % of the card is parked, and one under it that needs as much finishes" {
    local version
    for version in $versions; do
        library= start "$version" 'alloc a 2800MiB; fill a 7; synchronize; READY; verify a 7'
        drive "$version" 'expect_oom 2800MiB' --mem 4GiB
        [ "$status" = 0 ]
        park
        [[ $status == 0 && $output == *' of the card are free, after '* ]]
        drive "$version" 'alloc b 2800MiB; fill b 9; verify b 9; expect num_ooms == 0' --mem 4GiB
        [ "$status" = 0 ]
        go
        wake
        [ "$status" = 0 ]
        is_over
    done
}

@test "a program comes back only where the card has room" {
    local version=${versions##* }
    start "$version" 'alloc a 3GiB; fill a 7; READY; verify a 7'
    park
    VRAMGC_MODE=off tests/on_card --cuda "$(cuda_of "$version")" --mem 4GiB -- build/c10/"$version"/c10drive \
        <(echo "alloc x 3GiB; $(step there "touch $BATS_TEST_TMPDIR/there"); $(step left "test -e $BATS_TEST_TMPDIR/left")") &
    local other=$!
    while [ ! -e "$BATS_TEST_TMPDIR/there" ]; do sleep 0.05; done
    wake
    [ "$status" = 1 ]
    [[ $output == *"process $pid stays parked: it needs 3.3 GiB of card 0000:01:00.0, which has "* ]]
    touch "$BATS_TEST_TMPDIR/left"
    wait "$other"
    wake
    [ "$status" = 0 ]
    go
    is_over
}

@test "a driver that fails leaves the program running, or where wake finds it" {
    local version=${versions##* }
    start "$version" 'alloc a 1GiB; fill a 7; READY; verify a 7'
    park --fail cuCheckpointProcessLock:1:600
    [[ $status == 1 && $output == *'did not stop: CUDA_ERROR_NOT_READY (its work did not end in time); it goes on'* ]]
    park --fail cuCheckpointProcessCheckpoint:1:801
    [[ $status == 1 && $output == *'could not leave the card: CUDA_ERROR_NOT_SUPPORTED (not with managed memory, '*'); it goes on'* ]]
    park --fail cuCheckpointProcessCheckpoint:1:999 --fail cuCheckpointProcessUnlock:1:999 # as if it had been killed there
    park
    [[ $status == 1 && $output == *'is stopped, but not parked: `vramgc wake` lets it go on' ]]
    wake
    [ "$status" = 0 ]
    park
    wake --fail cuCheckpointProcessUnlock:1:999
    [ "$status" = 1 ]
    wake
    [ "$status" = 0 ]
    go
    is_over
}

# Of what each driver is known to refuse it is not asked: on a divided card it would answer "out of memory".
@test "what keeps a program on the card is told in words before the driver is asked; --force asks it" {
    local why
    start "${versions##* }" 'alloc a 1GiB; READY'
    for why in 'SIMGPU_MIG=1 its card is divided (MIG)' "SIMGPU_MPS=$pid it has its card through MPS"; do
        run env "${why%% *}" tests/on_card --mem 4GiB --fail cuCheckpointProcessLock:1:999 -- build/vramgc park "$pid"
        [[ $status == 1 && $output == *"process $pid stays on the card: ${why#* }, and then the driver does not park" ]]
    done
    run env SIMGPU_MIG=1 tests/on_card --mem 4GiB -- build/vramgc park --force "$pid"
    [ "$status" = 0 ]
    wake
    go
    is_over
    FRONT="env LD_PRELOAD=$library" works managed
    says ready
    pid=$(od -A n -t d4 -N 4 "$SIMGPU_CARD" | tr -d ' ')
    park
    [[ $status == 1 && $output == *"process $pid stays on the card: it has managed memory (cudaMallocManaged), and then the driver does not park" ]]
}

@test "who cannot be parked is told, and nothing is done" {
    start "${versions##* }" 'alloc a 1GiB; READY'
    wake
    [[ $status == 1 && $output == *"process $pid is not parked" ]]
    park
    park
    [[ $status == 1 && $output == *'is parked already; `vramgc wake` brings it back' ]]
    wake
    park --fail cuCheckpointProcessGetState:1:801 # as of a driver that offers none of it
    [[ $status == 1 && $output == *"process $pid uses the card, but the driver cannot park it"* ]]
    pid=$$ park
    [[ $status == 1 && $output == *' does not use a card, or is not yours' ]]
    pid= park
    [ "$status" = 2 ]
    run env -u SIMGPU_CARD LD_LIBRARY_PATH= build/vramgc park 1
    [ "$status" = 1 ]
    [[ $output == *'no NVIDIA driver here'* ]]
    go
    is_over
}

@test "parked and woken again and again while it works: nothing is lost" {
    for version in $versions; do
        start "$version" 'alloc a 300MiB; fill a 7; READY; random seed=3 ops=60000 threads=2 max=16MiB live=60 fill=1; verify a 7'
        park
        [ "$status" = 0 ]
        go
        wake
        while kill -0 "$started" 2>/dev/null; do
            park # it may have ended
            wake
        done
        is_over
    done
}

# In mode compact PyTorch's cache has the addresses of b, which takes no call of its own; the engine calls the driver for the pages.
@test "a block whose pages are gone wakes a program" {
    runs "alloc a 1GiB; fill a 7; alloc b 100MiB; free b; reclaim; synchronize; await vramgc.held_bytes <= 1024MiB; $(step parked "grep -q 'is parked' $BATS_TEST_TMPDIR/started"); alloc b 100MiB; echo woken"
    is_over
    grep -q 'goes on' "$BATS_TEST_TMPDIR/started"
}

# Beside `vramgc run`: by what the program writes down before each call.
@test "a program that rests leaves the card by itself, and comes back by its next call" {
    local version=${versions##* }
    rm -f "$SIMGPU_CARD"
    VRAMGC_OUT=$BATS_TEST_TMPDIR/run.vramgc tests/on_card --cuda "$(cuda_of "$version")" --mem 4GiB --proven -- build/vramgc run --park 300ms \
        build/c10/"$version"/c10drive <(echo "alloc a 3GiB; fill a 7; synchronize; $(step ready "touch $BATS_TEST_TMPDIR/ready")
            $(step go "test -e $BATS_TEST_TMPDIR/go"); alloc b 100MiB; verify a 7; expect num_ooms == 0") >"$BATS_TEST_TMPDIR/started" 2>&1 &
    started=$!
    until grep -q 'is parked: 3.3 GiB of the card are free' "$BATS_TEST_TMPDIR/started"; do kill -0 "$started" && sleep 0.05; done
    VRAMGC_MODE=off drive "$version" 'alloc x 3GiB' --mem 4GiB
    [ "$status" = 0 ]
    touch "$BATS_TEST_TMPDIR/go"
    is_over
    grep -q 'goes on, after ' "$BATS_TEST_TMPDIR/started"
    build/vramgc report "$BATS_TEST_TMPDIR/run.vramgc" | grep -q parked
}

# runs SCRIPT OPTION...: by `vramgc run --park`, on such a device; sets started.
runs() {
    rm -f "$SIMGPU_CARD"
    VRAMGC_OUT=$BATS_TEST_TMPDIR/run.vramgc tests/on_card --cuda "$(cuda_of "${versions##* }")" --mem 4GiB --proven "${@:2}" -- build/vramgc run --park 300ms \
        build/c10/"${versions##* }"/c10drive <(echo "$1") >"$BATS_TEST_TMPDIR/started" 2>&1 &
    started=$!
}

says() { until grep -q "$1" "$BATS_TEST_TMPDIR/started"; do kill -0 "$started" || return 1; sleep 0.05; done; }

@test "a program whose watcher is gone comes back" {
    runs "alloc a 1GiB; fill a 7; synchronize; $(step over 'false')"
    says 'is parked'
    pid=$(od -A n -t d4 -N 4 "$SIMGPU_CARD" | tr -d ' ')
    kill -9 "$started"
    until grep -q 'goes on' "$BATS_TEST_TMPDIR/started"; do sleep 0.05; done
    kill -9 "$pid"
}

@test "a parked program whose watcher was killed is shown with what brings it back" {
    runs "alloc a 1GiB; fill a 7; synchronize; $(step over "test -e $BATS_TEST_TMPDIR/over"); verify a 7"
    says 'is parked'
    pid=$(od -A n -t d4 -N 4 "$SIMGPU_CARD" | tr -d ' ')
    [[ $(build/vramgc top --once "$pid") == *"in RAM; \`vramgc wake $pid\`"* ]]
    local watcher
    watcher=$(pgrep -P "$started" -x 'vramgc watch')
    kill -9 "$watcher"
    while kill -0 "$watcher"; do sleep 0.05; done
    [[ $(build/vramgc top --once "$pid") == *"in RAM; nobody wakes it: \`vramgc wake $pid\`"* ]]
    wake
    [ "$status" = 0 ]
    touch "$BATS_TEST_TMPDIR/over"
    is_over
}

@test "a driver that was not tried, or fails, parks nothing by itself; by hand the first does, and that is told" {
    local version=${versions##* }
    # unproven WHAT: it says so, once.
    unproven() {
        tests/on_card --cuda "$(cuda_of "$version")" --mem 4GiB -- build/vramgc run --park 1ms build/c10/"$version"/c10drive \
            <(echo "alloc a 1GiB; $(step told "grep -q 'nothing is parked' $BATS_TEST_TMPDIR/unproven")") >"$BATS_TEST_TMPDIR/unproven" 2>&1
        grep "VRAMGC_PARK: nothing is parked: $1\$" "$BATS_TEST_TMPDIR/unproven"
    }
    unproven 'this driver has not been tried: `vramgc prove` does, a minute'
    [[ $(VRAMGC_PARK=5m tests/on_card -- build/vramgc doctor) == *'VRAMGC_PARK: this driver has not been tried: '* ]]
    [[ $(XDG_STATE_HOME=$BATS_TEST_TMPDIR/proven VRAMGC_PARK=5m tests/on_card --proven -- build/vramgc doctor) == *'VRAMGC_PARK: the driver takes programs off the card'* ]]
    [[ $(VRAMGC_PARK=0 tests/on_card -- build/vramgc doctor) != *VRAMGC_PARK* ]]
    start "$version" 'alloc a 1GiB; READY'
    park
    [[ $status == 0 && ${lines[0]} == *'this driver has not been tried (`vramgc prove` does): where it fails the program is lost' ]]
    wake
    SIMGPU_CHEAT=park_loses SIMGPU_CARD=$BATS_TEST_TMPDIR/another tests/on_card --mem 4GiB -- build/vramgc prove --quick
    park
    [[ $status == 1 && $output == *'`vramgc prove` found that this driver does not park: only with --force' ]]
    unproven '`vramgc prove` found that this driver does not park'
    go
    is_over
}

@test "a program that the driver brought back and did not let go on is let go on" {
    runs "alloc a 1GiB; fill a 7; synchronize; $(step parked "grep -q 'is parked' $BATS_TEST_TMPDIR/started"); alloc b 100MiB; verify a 7" --fail cuCheckpointProcessUnlock:1:999
    is_over
}

# What it was told is not known where it has never asked: then it stands in the driver, and is woken.
@test "a program that asks what is free is told so without being woken, where it was told before" {
    runs "alloc a 1GiB; fill a 7; memory_info; synchronize; $(step parked "grep -q 'is parked' $BATS_TEST_TMPDIR/started"); memory_info; memory_info;
        $(step asleep "! grep -q 'goes on' $BATS_TEST_TMPDIR/started"); echo asked; verify a 7"
    says asked
    is_over
    grep -q 'goes on' "$BATS_TEST_TMPDIR/started"
    runs "alloc a 1GiB; synchronize; $(step parked "grep -q 'is parked' $BATS_TEST_TMPDIR/started"); memory_info; $(step awake "grep -q 'goes on' $BATS_TEST_TMPDIR/started")"
    is_over
}

# works ARGUMENTS...: four threads on two devices (park_work.c) by the command in FRONT.
works() {
    rm -f "$SIMGPU_CARD"
    VRAMGC_MODE=${MODE:-auto} VRAMGC_OUT=$BATS_TEST_TMPDIR/run.vramgc SIMGPU_DATA_LIMIT=0 tests/on_card --cuda 13 --devices 2 --mem 1GiB --proven -- \
        $FRONT build/govern/park_work "$@" >"$BATS_TEST_TMPDIR/started" 2>&1 &
    started=$!
}

rests_so_often() {
    FRONT="${library%libvramgc.so}vramgc run --park 300ms" works rests "$1"
    is_over
    grep -q 'all was as it was written' "$BATS_TEST_TMPDIR/started"
    [ "$(grep -c 'is parked' "$BATS_TEST_TMPDIR/started")" = "$1" ]
    [ "$(grep -c 'goes on' "$BATS_TEST_TMPDIR/started")" = "$1" ]
}

# While it works, at any moment.
parked_so_often() {
    local i
    for ((i = 0; i < $1; i++)); do
        park
        [[ $status == 0 && $output == *' of the card are free'* ]]
        [ "$(od -A n -t u8 -j 16 -N 16 "$SIMGPU_CARD" | tr -s ' ')" = ' 0 0' ]
        wake
        [ "$status" = 0 ]
    done
}

works_and_is_parked() {
    rm -f "$BATS_TEST_TMPDIR/go"
    FRONT='build/vramgc run' works until "$BATS_TEST_TMPDIR/go"
    until [ -s "$SIMGPU_CARD" ] && pid=$(od -A n -t d4 -N 4 "$SIMGPU_CARD" | tr -d ' ') && [ "$pid" != 0 ]; do sleep 0.05; done
    parked_so_often "$1"
    go
    is_over
    grep -q 'all was as it was written' "$BATS_TEST_TMPDIR/started"
}

@test "threads, graphs and two devices: parked at rest and woken, contents are the same; a thousand questions wake nothing" { rests_so_often 18; }
@test "threads, graphs and two devices: parked at any moment, contents are the same" { works_and_is_parked 5; }

# bats test_tags=deep
@test "the same two hundred times" { rests_so_often 200; }
# bats test_tags=deep
@test "at any moment two hundred times" { works_and_is_parked 200; }

@test "who parks or wakes is killed at any step: the program is whole, or parked, and comes back" {
    local version=${versions##* } script='alloc a 1GiB; fill a 7; memory_info; READY' call when i=0
    for ((i = 0; i < 12; i++)); do script+="; $(step "next$i" "test -e $BATS_TEST_TMPDIR/next$i"); memory_info; alloc b 1MiB; verify a 7; free b; $(step "did$i" "touch $BATS_TEST_TMPDIR/did$i")"; done
    start "$version" "$script"
    go
    i=0
    for call in GetState Lock Checkpoint; do
        for when in before after; do
            park --fail "cuCheckpointProcess$call:1:$when"
            [ "$status" = 137 ]
            comes_back
        done
    done
    for call in GetState Restore Unlock; do
        for when in before after; do
            park
            [ "$status" = 0 ]
            wake --fail "cuCheckpointProcess$call:1:$when"
            [ "$status" = 137 ]
            comes_back
        done
    done
    is_over
}

# It works by itself, or once it is woken; and is told what is free now, not what was told before. Until then `top` names what helps,
# where anything was begun.
comes_back() {
    [[ $call$when == GetState* || $(build/vramgc top --once "$pid") == *"\`vramgc wake $pid\`"* ]]
    wake
    [[ $status == 0 || $output == *' is not parked' ]]
    [[ $(build/vramgc top --once "$pid") != *'vramgc wake'* ]]
    touch "$BATS_TEST_TMPDIR/next$i"
    while [ ! -e "$BATS_TEST_TMPDIR/did$i" ]; do kill -0 "$started" || return 1; sleep 0.02; done
    i=$((i + 1))
}

parked_word() { build/govern/show "$BATS_TEST_TMPDIR/record.vramgc" | sed -n 's/^parked //p'; }
# key_of PROCESS: its process_key.
key_of() { echo $(($1 << 32 | $(awk '{ print $22 }' "/proc/$1/stat"))); }
# twice ARGUMENT...: two of that command at once; sets done_by and refused_by to what each kind has said.
twice() {
    tests/on_card --mem 4GiB -- bash -c 'for i in 1 2; do "${@:2}" >"$1/twice.$i" 2>&1 & done; wait' - "$BATS_TEST_TMPDIR" build/vramgc "$@"
    said=$(grep -hv 'has not been tried' "$BATS_TEST_TMPDIR"/twice.{1,2})
}

# The second finds what the first has made of it.
@test "two who park a program at once, or wake it: one does, and the file says of it what the driver does" {
    local i how
    start "${versions##* }" 'alloc a 1GiB; READY'
    for how in '' --force '' --force ''; do
        # shellcheck disable=SC2086
        twice park $how "$pid"
        echo "$said"
        [[ $said == *"process $pid is parked: "* && $said == *"process $pid is parked already; "* ]]
        [ "$(parked_word)" = 1 ]
        # shellcheck disable=SC2086
        twice wake $how "$pid"
        [[ $said == *"process $pid goes on, "* && $said == *"process $pid is not parked"* ]]
        [ "$(parked_word)" = 0 ]
    done
    go
    is_over
}

# Its number alone may be another's by now.
@test "who parks or wakes is waited for a minute, while it lives" {
    local clock=$BATS_TEST_TMPDIR/clock waits ahead=0
    start "${versions##* }" 'alloc a 1GiB; READY'
    build/govern/show "$BATS_TEST_TMPDIR/record.vramgc" parked "$(key_of $$)"
    head -c 8 /dev/zero >"$clock"
    VRAMGC_TEST_CLOCK=$clock tests/on_card --mem 4GiB -- build/vramgc wake "$pid" >"$BATS_TEST_TMPDIR/waits" 2>&1 &
    waits=$!
    while kill -0 "$waits" 2>/dev/null; do
        python3 -c 'import struct, sys; open(sys.argv[1], "r+b").write(struct.pack("<Q", int(sys.argv[2]) * 10**9))' "$clock" $((ahead += 30))
        sleep 0.05
    done
    ! wait "$waits"
    [ "$(cat "$BATS_TEST_TMPDIR/waits")" = "vramgc: process $$ has been parking or waking a program for a minute: it may hang" ]
    [ "$(parked_word)" = "$(key_of $$)" ]
    build/govern/show "$BATS_TEST_TMPDIR/record.vramgc" parked $(($(key_of $$) ^ 1))
    run timeout 30 tests/on_card --mem 4GiB -- build/vramgc park "$pid"
    [ "$status" = 0 ]
    build/govern/show "$BATS_TEST_TMPDIR/record.vramgc" parker $(($(key_of $$) ^ 1))
    [[ $(build/vramgc top --once "$pid") == *"in RAM; nobody wakes it: \`vramgc wake $pid\`"* ]]
    build/govern/show "$BATS_TEST_TMPDIR/record.vramgc" parked $(($(key_of $$) ^ 1)) # as of one who was killed before he could say so
    [[ $(build/vramgc top --once "$pid" | tr -s ' \n' ' ') == *"who parked or woke it was killed meanwhile; nobody wakes it: \`vramgc wake $pid\`"* ]]
    wake
    [ "$(parked_word)" = 0 ]
    go
    is_over
}

# within_20_s CONDITION: that is for a hang.
within_20_s() { local i=0; until eval "$1"; do [ $((i += 1)) -le 400 ] || return 1; sleep 0.05; done; }

# The files are of one program, under many names. The next program's file is where its forerunner's was.
@test "watch --park: however many programs there were, and whatever has the file of one; when it is ended what is parked comes back" {
    local version=${versions##* } i
    VRAMGC_OUT=$BATS_TEST_TMPDIR/%p.vramgc tests/on_card --mem 4GiB --proven -- build/vramgc watch --park 300ms $$ >"$BATS_TEST_TMPDIR/watch" 2>&1 3>&- &
    watch=$!
    until grep -q watching "$BATS_TEST_TMPDIR/watch"; do kill -0 "$watch" && sleep 0.05; done
    start "$version" 'alloc a 1GiB; READY'
    until grep -q "process $pid is parked" "$BATS_TEST_TMPDIR/watch"; do kill -0 "$watch" && sleep 0.05; done
    for ((i = 100; i < 170; i++)); do cp "$BATS_TEST_TMPDIR/record.vramgc" "$BATS_TEST_TMPDIR/copy.$i.vramgc"; done
    until [ "$(grep -c "\.vramgc" "/proc/$watch/maps")" -ge 64 ]; do kill -0 "$watch" && sleep 0.05; done
    kill -9 "$pid"
    within_20_s 'test "$(grep -c "\.vramgc" "/proc/$watch/maps")" = 0'
    rm "$BATS_TEST_TMPDIR/record.vramgc"
    same_card=1 start "$version" "alloc a 1GiB; fill a 7; $(step parked "test \"\$(grep -c 'is parked: ' $BATS_TEST_TMPDIR/watch)\" = 2"); READY; verify a 7"
    kill "$watch"
    within_20_s '! kill -0 "$watch" 2>/dev/null'
    wait "$watch" || [ $? = 143 ]
    grep -q "process $started goes on" "$BATS_TEST_TMPDIR/watch"
    go
    is_over
}
