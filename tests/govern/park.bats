#!/usr/bin/env bats
# `vramgc park` and `vramgc wake`: the driver takes a program off the card and brings it back. Nothing of the program changes.
load common

setup() {
    begin
    export SIMGPU_STRICT=report SIMGPU_CARD=$BATS_TEST_TMPDIR/card VRAMGC_MODE=compact
}

teardown() { [ -z "${started:-}" ] || kill -9 "$started" 2>/dev/null || true; }

# start VERSION SCRIPT: runs it beside the test, and waits until it has taken what comes before the word READY. Sets pid.
start() {
    rm -f "$SIMGPU_CARD" "$BATS_TEST_TMPDIR"/{ready,go}
    local script=${2/READY/$(step ready "touch $BATS_TEST_TMPDIR/ready"); $(step go "test -e $BATS_TEST_TMPDIR/go")}
    LD_PRELOAD=$library VRAMGC_OUT=$BATS_TEST_TMPDIR/record.vramgc scripts/simgpu --cuda "$(cuda_of "$1")" --mem 4GiB -- \
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
park() { run scripts/simgpu --mem 4GiB "$@" -- build/vramgc park "$pid"; }
wake() { run scripts/simgpu --mem 4GiB "$@" -- build/vramgc wake "$pid"; }

@test "what a parked program had another can use, and it comes back as it was" {
    for version in $versions; do
        for mode in off compact; do
            VRAMGC_MODE=$mode start "$version" 'alloc a 3GiB; fill a 7; synchronize; READY; verify a 7; alloc b 100MiB; fill b 9; verify b 9; verify a 7; expect num_ooms == 0'
            park
            [[ $output == "process $pid is parked: 3.3 GiB of the card are free, after "* ]]
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

@test "a program comes back only where the card has room" {
    local version=${versions##* }
    start "$version" 'alloc a 3GiB; fill a 7; READY; verify a 7'
    park
    VRAMGC_MODE=off scripts/simgpu --cuda "$(cuda_of "$version")" --mem 4GiB -- build/c10/"$version"/c10drive \
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
    [[ $status == 1 && $output == *'did not stop: CUDA_ERROR_NOT_READY; it goes on'* ]]
    park --fail cuCheckpointProcessCheckpoint:1:801
    [[ $status == 1 && $output == *'could not leave the card: CUDA_ERROR_NOT_SUPPORTED; it goes on'* ]]
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

@test "who cannot be parked is told, and nothing is done" {
    start "${versions##* }" 'alloc a 1GiB; READY'
    wake
    [[ $status == 1 && $output == *"process $pid is not parked" ]]
    park
    park
    [[ $status == 1 && $output == *'is parked already; `vramgc wake` brings it back' ]]
    wake
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

# Beside `vramgc run`: by what the program writes down before each call.
@test "a program that rests leaves the card by itself, and comes back by its next call" {
    local version=${versions##* }
    rm -f "$SIMGPU_CARD"
    VRAMGC_OUT=$BATS_TEST_TMPDIR/run.vramgc scripts/simgpu --cuda "$(cuda_of "$version")" --mem 4GiB -- build/vramgc run --park 300ms \
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

@test "a program that asks only what the card has free is not woken; one whose watcher is gone is" {
    local version=${versions##* }
    rm -f "$SIMGPU_CARD"
    VRAMGC_OUT=$BATS_TEST_TMPDIR/run.vramgc scripts/simgpu --cuda "$(cuda_of "$version")" --mem 4GiB -- build/vramgc run --park 300ms \
        build/c10/"$version"/c10drive <(echo "alloc a 1GiB; fill a 7; synchronize; $(step parked "grep -q 'is parked' $BATS_TEST_TMPDIR/started")
            memory_info; verify a 7") >"$BATS_TEST_TMPDIR/started" 2>&1 &
    started=$!
    until grep -q 'is parked' "$BATS_TEST_TMPDIR/started"; do kill -0 "$started" && sleep 0.05; done
    pid=$(od -A n -t d4 -N 4 "$SIMGPU_CARD" | tr -d ' ')
    sleep 1
    [ "$(grep -c 'goes on' "$BATS_TEST_TMPDIR/started")" = 0 ]
    kill -9 "$started"
    until grep -q 'goes on' "$BATS_TEST_TMPDIR/started"; do sleep 0.05; done
    while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
}
