#!/usr/bin/env bats
# Programs under vramgc on one card: before one runs out of memory the others give what they have idle (govern/peer_programs.h). A card of
# 4 GiB; each program's context takes 256 MiB of it.
load common
load ../c10/storm

setup() {
    begin
    export SIMGPU_STRICT=report SIMGPU_CARD=$BATS_TEST_TMPDIR/card
}

teardown() { touch "$BATS_TEST_TMPDIR/over"; }

# The file, in which the first program has the first slot: after 8 bytes the owner, three words of 4 bytes (the third: late) and 4 of
# padding, then its first card: which, idle bytes.
peers_file() { echo "$XDG_STATE_HOME"/vramgc/peers2-*; }
word() { od -An -t"u$2" -j "$1" -N "$2" "$(peers_file)" | tr -d ' '; }
set_word() { python3 -c 'import struct, sys; f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); f.write(struct.pack("<Q", int(sys.argv[3])))' "$(peers_file)" "$@"; }
idle_told() { word 40 8; }

# giver VERSION [SCRIPT]: the first program, which goes on in the background with 2 GiB of idle memory; sets pid.
giver() {
    local script="${2:-alloc a 500MiB; alloc b 2GiB; free b}; $(step there "touch $BATS_TEST_TMPDIR/there"); $(step over "test -e $BATS_TEST_TMPDIR/over")"
    rm -rf "$SIMGPU_CARD" "$BATS_TEST_TMPDIR"/{there,over} "$XDG_STATE_HOME"
    echo "$script" >"$BATS_TEST_TMPDIR/giver"
    LD_PRELOAD=$library VRAMGC_OUT=$BATS_TEST_TMPDIR/giver.vramgc VRAMGC_MODE=compact tests/on_card --cuda "$(cuda_of "$1")" --mem 4GiB -- \
        build/c10/"$1"/c10drive "$BATS_TEST_TMPDIR/giver" >"$BATS_TEST_TMPDIR/giver.out" 2>&1 3>&- &
    pid=$!
    until [ -e "$BATS_TEST_TMPDIR/there" ] && { [ "${VRAMGC_PEERS:-}" = off ] || [ "$(idle_told)" -ge $((2 * GIB)) ]; }; do
        kill -0 $pid
        sleep 0.02
    done
}

end_giver() {
    touch "$BATS_TEST_TMPDIR/over"
    wait "$pid"
    [ -z "$(grep -v nvmlDeviceGetGpuFabricInfoV "$BATS_TEST_TMPDIR/giver.out")" ]
    given=$(build/govern/show "$BATS_TEST_TMPDIR/giver.vramgc" | grep -cE '^action pages peer ' || true)
}

# asks VERSION SCRIPT
asks() {
    drive "$1" "$2" --mem 4GiB
    [ "$status" = 0 ]
    [ -z "$(grep -v nvmlDeviceGetGpuFabricInfoV <<<"$errors")" ]
}

@test "two programs that need more than the card in turn: the second gets what is idle, and both reports say so" {
    for version in $versions; do
        for mode in flush compact; do
            for conf in '' expandable_segments:True; do
                export VRAMGC_MODE=$mode PYTORCH_CUDA_ALLOC_CONF=$conf
                giver "$version"
                asks "$version" 'alloc a 2500MiB; fill a 7; verify a 7; expect num_ooms == 0; _exit 0'
                [ "$(fact peer_waits)" = 1 ]
                [ "$(fact peer_bytes)" = $((2 * GIB)) ]
                [[ $(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' \n' ' ') == *"The program lacked memory, and got 2.0 GiB from c10drive ($pid) in "* ]]
                end_giver
                [ "$given" = 1 ]
                [[ $(build/vramgc report "$BATS_TEST_TMPDIR/giver.vramgc") =~ pages\ +peer\ +2.0\ GiB.*to\ c10drive\ \([0-9]+\),\ which\ lacked\ memory ]]
            done
        done
    done
}

@test "VRAMGC_PEERS=off, or mode observe: nobody is asked, and there is no file" {
    for version in $versions; do
        VRAMGC_PEERS=off giver "$version"
        VRAMGC_PEERS=off VRAMGC_MODE=compact asks "$version" 'expect_oom 2500MiB'
        [ "$(fact peer_waits)" = 0 ]
        VRAMGC_MODE=observe asks "$version" 'expect_oom 2500MiB'
        [ "$(peers_file)" = "$XDG_STATE_HOME/vramgc/peers2-*" ]
        end_giver
    done
}

# As PyTorch does without us; and a request that would not fit even then takes nothing.
@test "what is idle here goes first, and nothing is taken in vain" {
    for version in $versions; do
        for mode in flush compact; do
            export VRAMGC_MODE=$mode
            giver "$version"
            asks "$version" 'alloc x 900MiB; free x; alloc y 950MiB; expect num_ooms == 0; expect_oom 3GiB; _exit 0'
            [ "$(fact peer_waits)" = 0 ]
            VRAMGC_CAP=1GiB asks "$version" 'expect_oom 2GiB'
            [ "$(fact peer_waits)" = 0 ]
            end_giver
            [ "$given" = 0 ]
        done
    done
}

@test "a program that hangs is waited for once, until it answers again" {
    export VRAMGC_MODE=compact
    for version in $versions; do
        giver "$version"
        kill -STOP $pid
        asks "$version" "expect_oom 2500MiB; expect_oom 2500MiB; $(step awake "kill -CONT $pid"); $(step answers "[ \"\$(od -An -tu4 -j24 -N4 $(peers_file))\" -eq 0 ]");
            alloc a 2500MiB; _exit 0"
        fact peer_waits; fact peer_wait_ns; fact peer_bytes
        [ "$(fact peer_waits)" = 2 ]
        [ "$(fact peer_wait_ns)" -ge 200000000 ]
        [ "$(fact peer_wait_ns)" -lt 5000000000 ]
        end_giver
    done
}

@test "a program that was killed is not asked, and its place is taken" {
    export VRAMGC_MODE=compact
    for version in $versions; do
        giver "$version"
        asks "$version" "alloc c 1MiB; $(step killed "! grep -qs c10drive /proc/$pid/comm || kill -KILL $pid; test ! -e /proc/$pid"); alloc h 1700MiB; expect_oom 3GiB; _exit 0"
        wait "$pid" || true
        [ "$(fact peer_waits)" = 0 ]
        [ "$(idle_told)" = $((2 * GIB)) ]
        asks "$version" 'alloc c 1MiB'
        [ "$(word 8 8)" = 0 ]
    done
}

@test "a parked program is not asked, which would wake it" {
    export VRAMGC_MODE=compact
    for version in $versions; do
        giver "$version"
        tests/on_card --mem 4GiB -- build/vramgc park "$pid"
        asks "$version" "alloc h 3000MiB; $(step told "[ \"\$(od -An -tu8 -j40 -N8 $(peers_file))\" -eq 0 ]"); expect_oom 2GiB; _exit 0"
        [ "$(fact peer_waits)" = 0 ]
        tests/on_card --mem 4GiB -- build/vramgc wake "$pid"
        end_giver
        [ "$given" = 0 ]
    done
}

# left_alone WHAT: the program works, says so once, and what is there is as it was.
left_alone() {
    local before
    before=$(stat -c '%F %s %a' "$file"; [ ! -f "$file" ] || cksum <"$file")
    drive "$version" 'alloc a 1MiB; expect num_ooms == 0' --mem 4GiB
    [ "$status" = 0 ]
    [ "$(grep -c "$file is left alone: $1; no other program is asked for idle memory" <<<"$errors")" = 1 ]
    [ "$(wc -l <<<"$errors")" = 1 ]
    [ "$(stat -c '%F %s %a' "$file"; [ ! -f "$file" ] || cksum <"$file")" = "$before" ]
    rm -rf "$file"
}

@test "what is not vramgc's file is told and left alone" {
    local slot=824 start
    for version in $versions; do
        asks "$version" 'alloc a 1MiB'
        file=$(peers_file)
        cp "$file" "$BATS_TEST_TMPDIR/good"
        rm "$file"
        echo precious >"$BATS_TEST_TMPDIR/precious"
        ln -s "$BATS_TEST_TMPDIR/precious" "$file"
        left_alone 'it is a link'
        [ "$(cat "$BATS_TEST_TMPDIR/precious")" = precious ]
        mkdir "$file"
        left_alone 'Is a directory'
        mkfifo -m 600 "$file"
        left_alone 'it is no plain file'
        (umask 077; echo other >"$file")
        left_alone 'it has another size'
        install -m 644 "$BATS_TEST_TMPDIR/good" "$file"
        left_alone "it is not this user's alone"
        install -m 600 "$BATS_TEST_TMPDIR/good" "$file"
        printf x | dd of="$file" conv=notrunc status=none
        left_alone "it is another program's, or another version's"
        start=$(awk '{ print $22 }' "/proc/$$/stat")
        python3 - "$BATS_TEST_TMPDIR/good" "$file" $slot $$ "$start" <<'PY'
import os, struct, sys
good, path, slot, pid, start = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
data = bytearray(open(good, "rb").read())
for at in range(8, len(data), slot):
    struct.pack_into("<Q", data, at, pid << 32 | start & 0xFFFFFFFF)
os.umask(0o077)
open(path, "wb").write(data)
PY
        left_alone 'as many programs as it has room for stand in it'
    done
}

@test "eight programs ask each other while some are killed" {
    for version in $versions; do
        storm 0 4000
    done
}

# bats test_tags=deep
@test "eight programs ask each other while some are killed, for a minute" {
    for version in $versions; do
        storm 60 4000
    done
}

# turns NAME SCRIPT: a program that may be parked, but not for its own rest; sets NAME to its process.
turns() {
    local -n process=$1
    VRAMGC_OUT=$BATS_TEST_TMPDIR/$1.vramgc tests/on_card --cuda "$(cuda_of "$version")" --mem 4GiB --proven -- "${library%libvramgc.so}vramgc" run --park 1h \
        build/c10/"$version"/c10drive <(echo "$2") >"$BATS_TEST_TMPDIR/$1.out" 2>&1 3>&- &
    process=$!
}

# told PID SLOT [1]: who may park it has told that it may be; with 1: that it rests.
told() { until [ "$(word $((816 + 824 * $2)) 8)" -gt "${3:-0}" ]; do kill -0 "$1" || return 1; sleep 0.02; done; }
await_file() { until [ -e "$BATS_TEST_TMPDIR/$2" ]; do kill -0 "$1" || return 1; sleep 0.02; done; }
touches() { step "$1" "touch $BATS_TEST_TMPDIR/$1"; }
awaits() { step "$1" "test -e $BATS_TEST_TMPDIR/$1"; }
report() { build/vramgc report "$BATS_TEST_TMPDIR/$1.vramgc" | tr -s ' \n' ' '; }

# 70 % of the card each, all of it in use: by idle memory neither could.
@test "two programs that may be parked take turns, and both finish; both reports say so" {
    local version=${versions##* } mode one two
    for mode in flush compact; do
        export VRAMGC_MODE=$mode
        rm -rf "$SIMGPU_CARD" "$BATS_TEST_TMPDIR"/*.{there,done,go} "$XDG_STATE_HOME"
        turns one "alloc a 2800MiB; fill a 7; synchronize; $(touches one.there); $(awaits one.go); verify a 7; expect num_ooms == 0; $(touches one.done); $(awaits never.go)"
        await_file "$one" one.there
        told "$one" 0
        until [ "$(word 72 8)" -ge $((2800 * 1048576)) ]; do kill -0 "$one" && sleep 0.02; done # it has told that
        turns two "expect_oom 3900MiB; alloc b 2800MiB; fill b 9; verify b 9; expect num_ooms == 1; $(touches two.there); $(awaits two.go); verify b 9; free b; empty_cache"
        await_file "$two" two.there
        touch "$BATS_TEST_TMPDIR/one.go"
        await_file "$one" one.done
        touch "$BATS_TEST_TMPDIR/two.go"
        wait "$two"
        touch "$BATS_TEST_TMPDIR/never.go"
        wait "$one"
        [[ $(cat "$BATS_TEST_TMPDIR/one.out") == *'is parked for c10drive ('*'goes on, after '* ]]
        [ "$(grep -c 'is parked for' "$BATS_TEST_TMPDIR/one.out")" -le 2 ]
        [[ $(report one) == *'parked for c10drive ('* ]]
        [[ $(report two) == *'lacked memory, and got '*' from c10drive ('*' in '* ]]
    done
}

# Each has what the other needs, and waits: one of them is parked where it stands, and comes back when the other has ended.
@test "two programs that may be parked wait for each other: both finish" {
    local version=${versions##* } mode one two
    for mode in flush compact; do
        export VRAMGC_MODE=$mode
        rm -rf "$SIMGPU_CARD" "$BATS_TEST_TMPDIR"/*.{there,go} "$XDG_STATE_HOME"
        turns one "alloc a 1500MiB; fill a 7; synchronize; $(touches one.there); $(awaits one.go); alloc b 1200MiB; fill b 8; verify a 7; verify b 8; expect num_ooms == 0"
        await_file "$one" one.there
        turns two "alloc a 1500MiB; fill a 9; synchronize; $(touches two.there); $(awaits one.go); alloc b 1200MiB; fill b 6; verify a 9; verify b 6; expect num_ooms == 0"
        await_file "$two" two.there
        told "$one" 0 1
        told "$two" 1 1
        touch "$BATS_TEST_TMPDIR/one.go"
        wait "$one"
        wait "$two"
    done
}

# By the last word of the file: a driver that runs out of memory there would never bring that one back.
@test "nobody takes memory while a program comes back, unless who brings it back is gone" {
    local version=${versions##* } waking=$((8 + 64 * 824)) mode pid key
    key=$(($$ << 32 | $(awk '{ print $22 }' "/proc/$$/stat")))
    for mode in flush compact; do
        rm -rf "$SIMGPU_CARD" "$BATS_TEST_TMPDIR"/*.{there,go,did,cleared} "$XDG_STATE_HOME"
        VRAMGC_MODE=$mode turns pid "alloc a 1MiB; $(touches it.there); $(awaits it.go); alloc b 100MiB; $(touches it.did); $(awaits more.go); alloc c 100MiB"
        await_file "$pid" it.there
        set_word $waking $key
        touch "$BATS_TEST_TMPDIR/it.go"
        sleep 0.5
        touch "$BATS_TEST_TMPDIR/it.cleared"
        set_word $waking 0
        await_file "$pid" it.did
        [ "$BATS_TEST_TMPDIR/it.did" -nt "$BATS_TEST_TMPDIR/it.cleared" ]
        set_word $waking $((key ^ 1)) # one who had this number before
        touch "$BATS_TEST_TMPDIR/more.go"
        [ "$(timeout 30 tail --pid="$pid" -f /dev/null; echo $?)" = 0 ] # not the minute that one who lives gets
        wait "$pid"
        [ "$(word $waking 8)" = 0 ]
    done
}

# Who asks looks again within a second at the latest, and would else find the room taken by one that had left for somebody else.
@test "one that has left leaves the room to who asks on the card, for a second" {
    local version=${versions##* } one two turn=$((8 + 824 + 792))
    turns one "alloc a 2800MiB; fill a 7; synchronize; $(touches one.there); $(awaits one.go); alloc b 1MiB; verify a 7; $(touches one.did)"
    await_file "$one" one.there
    told "$one" 0
    turns two "alloc b 2800MiB; free b; empty_cache; $(touches two.there); $(step two.end "test -e $BATS_TEST_TMPDIR/one.did")"
    await_file "$two" two.there
    set_word $turn "$(python3 -c 'import time; print(time.monotonic_ns() + 60 * 10**9)')"
    touch "$BATS_TEST_TMPDIR/one.go"
    sleep 0.6
    [ ! -e "$BATS_TEST_TMPDIR/one.did" ]
    await_file "$one" one.did
    wait "$one"
    wait "$two"
}

# plain NAME SCRIPT: a program that nobody parks but by hand; sets pid.
plain() {
    echo "$2" >"$BATS_TEST_TMPDIR/$1"
    SIMGPU_HOLD=$BATS_TEST_TMPDIR/$1.held LD_PRELOAD=$library tests/on_card --cuda "$(cuda_of "$version")" --mem 4GiB -- \
        build/c10/"$version"/c10drive "$BATS_TEST_TMPDIR/$1" >"$BATS_TEST_TMPDIR/$1.out" 2>&1 3>&- &
    pid=$!
    await_file $pid "$1.there"
}

# Each has room by itself, and not beside the other. In mode compact the memory comes in pieces: who has the next
# ones is a matter of chance.
@test "a program that is just taking memory has it before another is brought back" {
    local version=${versions##* } mode one pid waking
    for mode in flush compact; do
        export VRAMGC_MODE=$mode
        rm -rf "$SIMGPU_CARD" "$BATS_TEST_TMPDIR"/*.{there,go,end,held} "$XDG_STATE_HOME"
        plain one "alloc a 3500MiB; fill a 7; synchronize; $(touches one.there); $(awaits one.go); verify a 7"
        one=$pid
        tests/on_card --mem 4GiB -- build/vramgc park "$one"
        plain two "alloc a 1MiB; $(touches two.there); $(awaits two.go); alloc b 250MiB; expect num_ooms == 0; $(awaits two.end)"
        touch "$BATS_TEST_TMPDIR"/two.{held,go}
        await_file "$pid" two.held.in
        tests/on_card --mem 4GiB -- build/vramgc wake "$one" >"$BATS_TEST_TMPDIR/wake" 2>&1 3>&- &
        waking=$!
        sleep 0.5
        kill -0 $waking
        rm "$BATS_TEST_TMPDIR/two.held"
        wait $waking || true
        [ $mode = compact ] || [[ $(cat "$BATS_TEST_TMPDIR/wake") == *"process $one stays parked: "* ]]
        touch "$BATS_TEST_TMPDIR/two.end"
        wait "$pid" || [ $mode = compact ]
        tests/on_card --mem 4GiB -- build/vramgc wake "$one" || [ $mode = compact ]
        touch "$BATS_TEST_TMPDIR/one.go"
        wait "$one"
    done
}

# bats test_tags=deep
@test "three programs that each need 70 % of the card work in turn, job after job: none is lost" {
    local version=${versions##* } one two three jobs= name job slot=0
    for job in 1 2 3 4; do jobs+="alloc b 900MiB; fill b 3; verify a 7; verify b 3; free b; sleep 3000; "; done
    for name in one two three; do # one after the other has what it needs, for which its forerunner had to leave
        turns $name "alloc a 1900MiB; fill a 7; synchronize; $(touches $name.has); ${jobs}verify a 7; expect num_ooms == 0"
        await_file "${!name}" $name.has
        told "${!name}" $((slot++))
    done
    wait "$one"
    wait "$two"
    wait "$three"
    grep -h 'is parked for' "$BATS_TEST_TMPDIR"/{one,two,three}.out
}
