#!/usr/bin/env bats
# `vramgc run` tests a card that has no answer yet before the program starts: once, five seconds at most, and never in its way.
load ../surroundings

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    unset "${!VRAMGC_@}"
    . tests/c10/releases
    export VRAMGC_TEST_PROOF_LIMIT=60s # a machine that runs tests is busy
    export XDG_STATE_HOME=$BATS_TEST_TMPDIR/state SIMGPU_CARD=$BATS_TEST_TMPDIR/card
    drive=$PWD/build/c10/$NEWEST_RELEASE/c10drive script=$BATS_TEST_TMPDIR/script
    echo 'alloc a 100MiB; fill a 1; free a' >"$script"
}

# start OPTION...: `vramgc run` of a small program; sets errors.
start() {
    scripts/simgpu --cuda 13 --mem 2GiB -- build/vramgc run "$@" "$drive" "$script" 2>"$BATS_TEST_TMPDIR/err"
    errors=$(cat "$BATS_TEST_TMPDIR/err")
    echo "$errors"
}


tested() { [ "$(grep -c '^vramgc: testing the card, once, 5 s; Ctrl-C skips it$' <<<"$errors")" = 1 ]; }
not_tested() { [[ $errors != *'testing the card'* ]]; }
is_compact() { [[ $errors == *$'\nmode     compact: '* ]]; }
is_flush() { [[ $(tr -s '\n ' ' ' <<<"$errors") == *" mode flush: "$1* ]]; } # a pattern
proofs() { find "$XDG_STATE_HOME/vramgc" -name '*.proof*' | wc -l; }

@test "a card without an answer is tested before the program starts, once: compact from then on" {
    start
    tested
    is_compact
    [ "$(proofs)" = 1 ]
    start
    not_tested
    is_compact
}

@test "nothing is tested where mode is not auto, where that is switched off, or addresses are limited" {
    start --mode flush
    not_tested
    start --prove off
    not_tested
    is_flush 'compact is not tested yet on gpu0: run `vramgc prove`, a minute'
    (ulimit -v 30000000; start --prove auto)
    errors=$(cat "$BATS_TEST_TMPDIR/err")
    not_tested
    [ "$(proofs)" = 0 ]
}

@test "a card that failed is not tried again" {
    SIMGPU_CHEAT=lost_access start
    tested
    is_flush '`vramgc prove` found that gpu0 does not support compact'
    SIMGPU_CHEAT=lost_access start
    not_tested
}

# at_terminal: the first line there that tells that vramgc is on.
at_terminal() {
    rm -rf "$XDG_STATE_HOME" "$SIMGPU_CARD"
    command script -qec "scripts/simgpu --cuda 13 --mem 2GiB -- build/vramgc run $drive $script" /dev/null </dev/null | tr '\r' '\n' | grep -a 'a report follows'
}

@test "a terminal is told what the test found" {
    type -P script >/dev/null || skip "SKIPPED: no script (util-linux)"
    [ "$(at_terminal)" = 'vramgc: the card passed its test: on, in mode compact; a report follows at the end' ]
    [ "$(SIMGPU_CHEAT=lost_access at_terminal)" = 'vramgc: the card failed its test: on, in mode flush; a report follows at the end' ]
}

@test "where another program uses the card: flush this time, the report says why, and the next start tests" {
    echo 'alloc a 700MiB; fill a 1; sleep 100000' >"$BATS_TEST_TMPDIR/other"
    scripts/simgpu --cuda 13 --mem 2GiB -- "$drive" "$BATS_TEST_TMPDIR/other" 3>&- &
    other=$!
    until pid=$(od -A n -t d4 -N 4 "$SIMGPU_CARD" 2>/dev/null | tr -d ' ') && [ "${pid:-0}" != 0 ]; do sleep 0.05; done
    sleep 0.5
    start
    not_tested
    is_flush 'compact is not tested yet on gpu0: process * uses 9* MiB of the card'
    [ "$(proofs)" = 0 ]
    kill -KILL "$pid"
    wait "$other" || true
    start
    tested
    is_compact
}

@test "two that start at once make one test, and both are compact" {
    start >"$BATS_TEST_TMPDIR/one" &
    scripts/simgpu --cuda 13 --mem 2GiB -- build/vramgc run "$drive" "$script" 2>"$BATS_TEST_TMPDIR/two"
    wait
    [ "$(cat "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two" | grep -c 'testing the card')" = 1 ]
    [ "$(cat "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two" | grep -c '^mode     compact: ')" = 2 ]
}

# launcher: the process of `vramgc run` while it tests; tester: the one that tests.
await_tester() {
    until launcher=$(pgrep -o -f "^build/vramgc run .*$script$") && tester=$(pgrep -P "$launcher"); do sleep 0.02; done
    sleep 0.5
}

@test "Ctrl-C skips the test, and the program starts" {
    start >"$BATS_TEST_TMPDIR/one" &
    await_tester
    kill -INT "$launcher"
    wait
    errors=$(cat "$BATS_TEST_TMPDIR/one")
    tested
    is_flush 'compact is not tested yet on gpu0: Ctrl-C skipped the test of the card'
    [ "$(proofs)" = 0 ]
    start
    tested
    is_compact
}

@test "killed while it tests it leaves no process and no proof" {
    start >"$BATS_TEST_TMPDIR/one" 2>&1 &
    await_tester
    kill -KILL "$launcher"
    wait || true
    until ! pgrep -f "^build/vramgc run .*$script"; do sleep 0.02; done
    [ "$(proofs)" = 0 ]
    touch "$XDG_STATE_HOME/vramgc/GPU-53494d55-4c41-5445-4447-50552d303030.proof.new" # as it wrote
    start
    tested
    is_compact
    [ "$(proofs)" = 1 ]
}

@test "a test that takes too long is ended, and is not tried again by itself" {
    unset VRAMGC_TEST_PROOF_LIMIT
    start >"$BATS_TEST_TMPDIR/one" &
    await_tester
    kill -STOP "$tester"
    wait
    errors=$(cat "$BATS_TEST_TMPDIR/one")
    tested
    is_flush "compact is not tested yet on gpu0: the card's test took over 5 s: run \`vramgc prove\`, a minute"
    start
    not_tested
    is_flush "compact is not tested yet on gpu0: the card's test took over 5 s before: run \`vramgc prove\`, a minute"
    scripts/simgpu --mem 2GiB -- build/vramgc prove --quick
    start
    not_tested
    is_compact
}

@test "whether programs can be parked is tested when that is first wanted" {
    start
    grep -q '^park not tried$' "$XDG_STATE_HOME"/vramgc/*.proof
    start --park 1h
    tested
    grep -q '^park passed$' "$XDG_STATE_HOME"/vramgc/*.proof
    start --park 1h
    not_tested
}

@test "vramgc env tests, too, and its lines are lines" {
    scripts/simgpu --mem 2GiB -- build/vramgc env >"$BATS_TEST_TMPDIR/lines" 2>"$BATS_TEST_TMPDIR/err"
    errors=$(cat "$BATS_TEST_TMPDIR/err")
    tested
    [[ $(cat "$BATS_TEST_TMPDIR/lines") != *testing* ]]
    [ "$(proofs)" = 1 ]
}
