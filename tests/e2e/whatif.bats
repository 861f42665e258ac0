#!/usr/bin/env bats
# `vramgc whatif`: what a record of blocks says of other cards and settings is what the real program meets there; it opens no card; and
# what cannot be read is told in a line.
load ../surroundings

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    python=${PYTHON:-$PWD/build/venv/bin/python}
    [ -x "$python" ] || skip "no PyTorch under build/venv"
    local mutant=${VRAMGC_MUTANT:-}
    recorder=build/${mutant:+mutants/}vramgc
    unset "${!VRAMGC_@}"
    [ -z "$mutant" ] || export VRAMGC_MUTANT=$mutant
    # What a wheel needs beside CUDA's driver and runtime is installed with it elsewhere; here are stand-ins.
    vendor=$PWD/build/sim/vendor/$("$python" tests/sim/gen/find_torch.py | sed -n 2p)
    export VRAMGC_OUT=$BATS_TEST_TMPDIR/job.vramgc XDG_STATE_HOME=$BATS_TEST_TMPDIR/state
}

record() { # OPTION-OF-RUN... -- ARGUMENT-OF-THE-PROGRAM...
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    tests/on_card --mem 2GiB -- "$recorder" run --record --no-summary "${options[@]}" -- "$python" tests/e2e/whatif_work.py "${@:2}"
}

whatif() {
    LD_LIBRARY_PATH=${driver:+$driver:}$vendor build/vramgc whatif "$@"
}

# So many MiB are the smallest card for SETTING in the answer; -: not known.
smallest() { # JSON SETTING
    python3 -c 'import json, sys
for row in json.load(open(sys.argv[1]))["settings"]:
    if row["setting"] == sys.argv[2]:
        print((row["card_bytes"] or 0) >> 20)' "$1" "$2"
}

# The program itself, on a card of so many MiB.
runs_on() { # MIB CONFIGURATION MODE [PROGRAM ARGUMENT]
    VRAMGC_OUT='' PYTORCH_CUDA_ALLOC_CONF=$2 tests/on_card --mem "$1MiB" -- build/vramgc run --mode "$3" --quiet --no-summary -- "$python" \
        "tests/e2e/${4:-whatif_work.py}" "${@:5}" 2>&1 | grep '^fits'
}

# `!` alone fails no test.
runs_out_on() {
    ! runs_on "$@"
}

# An interpreter that is none: it answers at once.
stand_in() {
    # shellcheck disable=SC2016
    printf '#!/bin/sh\ncat >/dev/null\ni=0\nwhile [ $i -lt 24 ]; do echo "$i 1048576 1 2 3"; i=$((i + 1)); done\n' >"$BATS_TEST_TMPDIR/python"
    chmod +x "$BATS_TEST_TMPDIR/python"
    echo "$BATS_TEST_TMPDIR/python"
}

@test "the real program completes on the smallest card that is told, and runs out on one 16 MiB smaller" {
    record --mode observe --
    whatif --json --card 1GiB --setting '' --setting expandable_segments:True --setting compact "$VRAMGC_OUT" >"$BATS_TEST_TMPDIR/json"
    for row in ":off:PyTorch's default" 'expandable_segments=True:off:expandable_segments:True' ':compact:vramgc --mode compact'; do
        IFS=: read -r configuration mode setting <<<"$row"
        card=$(smallest "$BATS_TEST_TMPDIR/json" "$setting")
        echo "$setting: $card MiB"
        [ "$card" -gt 500 ] && [ "$card" -lt 700 ]
        runs_on $((card + 16)) "${configuration/=/:}" "$mode"
        runs_out_on $((card - 16)) "${configuration/=/:}" "$mode"
    done
}

# Without what is noted of pools 736 and 706 MiB would be told for the first two, not 756 and 816; without the fraction 506, not 626.
@test "MemPools, graphs' pools and the memory fraction: the program completes where it is told, and not 16 MiB lower" {
    for what in pool graph fraction; do
        VRAMGC_OUT=$BATS_TEST_TMPDIR/$what.vramgc tests/on_card --mem 4GiB -- "$recorder" run --record --no-summary --mode observe -- \
            "$python" -W ignore tests/e2e/whatif_pools.py $what
        whatif --json --setting '' --setting compact "$BATS_TEST_TMPDIR/$what.vramgc" >"$BATS_TEST_TMPDIR/json"
        for row in "off:PyTorch's default" 'compact:vramgc --mode compact'; do
            card=$(smallest "$BATS_TEST_TMPDIR/json" "${row#*:}")
            echo "$what, $row: $card MiB"
            runs_on $((card + 16)) '' "${row%%:*}" whatif_pools.py $what
            runs_out_on $((card - 16)) '' "${row%%:*}" whatif_pools.py $what
        done
    done
    whatif --python "$(stand_in)" "$BATS_TEST_TMPDIR/fraction.vramgc" | grep -F 'let PyTorch have a part of the card only'
}

@test "the search: a card on which the blocks fit, as they do 16 MiB above it, each time, and not 16 MiB below" {
    python3 tests/e2e/whatif_search.py src/cli/replay.py
}

@test "the table marks the setting of the run, answers for a card, and says what it does not know" {
    record --mode flush --
    run whatif --card 512MiB,1GiB --setting flush --setting expandable_segments:Maybe
    echo "$output"
    [ "$status" = 0 ]
    [[ $output == *'882 block events'* && $output == *'Not known here: workspaces'* ]]
    grep -qE '^> vramgc --mode flush +[0-9]+ MiB .* no -[0-9.]+ MiB +yes \+[0-9.]+ MiB$' <<<"$output"
    grep -qE '^  expandable_segments:Maybe +\? ' <<<"$output"
    run whatif --setting flush "$BATS_TEST_TMPDIR/job.vramgc"
    [ "$status" = 0 ]
}

@test "no card is opened, nor the driver of one loaded" {
    record --mode observe --
    mkdir "$BATS_TEST_TMPDIR/driver"
    # What stands for the vendor's driver leaves a file where it is loaded.
    cp build/e2e/libopened.so "$BATS_TEST_TMPDIR/driver/libcuda.so.1"
    cp build/e2e/libopened.so "$BATS_TEST_TMPDIR/driver/libnvidia-ml.so.1"
    export OPENED=$BATS_TEST_TMPDIR/opened
    driver=$BATS_TEST_TMPDIR/driver
    LD_LIBRARY_PATH=$driver python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")'
    [ -e "$OPENED" ] && rm "$OPENED"
    run whatif --setting '' "$VRAMGC_OUT"
    echo "$output"
    [ "$status" = 0 ] && [ ! -e "$OPENED" ]
    [[ $output == *"> PyTorch's default"* ]]
    # One that loads itself past the loader's order is not used.
    printf 'import ctypes\nctypes.CDLL("%s/driver/libcuda.so.1")\n' "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/sitecustomize.py"
    PYTHONPATH=$BATS_TEST_TMPDIR run whatif --setting '' "$VRAMGC_OUT"
    echo "$output"
    [ "$status" = 1 ] && [ "$output" = "vramgc: whatif: a driver was loaded that is not the simulated one: nothing is done" ]
}

@test "an out-of-memory: the report says with which setting this request would have fitted, and it does" {
    export VRAMGC_TEST_WHATIF_LIMIT=10m
    run tests/on_card --mem 1600MiB -- build/vramgc run --mode observe --record --quiet -- "$python" tests/e2e/whatif_pieces.py
    words=$(tr -s ' \n' ' ' <<<"$output")
    echo "$words"
    [[ $words =~ "With expandable_segments:True this request would have fitted, "([0-9]+)" MiB to spare." ]]
    card=$((1600 - BASH_REMATCH[1]))
    VRAMGC_OUT='' PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True tests/on_card --mem $((card + 16))MiB -- "$python" tests/e2e/whatif_pieces.py
    # On one on which nothing would have done, nothing is said; nor without a record.
    rm "$VRAMGC_OUT"*
    run tests/on_card --mem 1GiB -- build/vramgc run --mode observe --record --quiet -- "$python" tests/e2e/whatif_pieces.py
    [[ $output == *'OUT OF MEMORY'* && $output != *'would have fitted'* ]]
    [ -e "$VRAMGC_OUT.whatif" ]
    rm "$VRAMGC_OUT"*
    run tests/on_card --mem 1600MiB -- build/vramgc run --mode observe --quiet -- "$python" tests/e2e/whatif_pieces.py
    [[ $output == *'OUT OF MEMORY'* && $output != *'would have fitted'* && ! -e $VRAMGC_OUT.whatif ]]
}

@test "of more live blocks than it has room for the record ends, and that is said" {
    local driver=("$PWD"/build/c10/*/c10drive)
    VRAMGC_TEST_RECORD=64KiB tests/on_card --cuda 13 --mem 2GiB -- "$recorder" run --mode observe --record --no-summary -- \
        "${driver[-1]}" -c 'alloc a 4KiB count=5000; free a'
    whatif --python "$(stand_in)" --setting '' "$VRAMGC_OUT" | grep 'The record ends early'
}

@test "of more events than it has room for the older ones go, and the blocks of then stay" {
    VRAMGC_TEST_RECORD=64KiB record --mode observe -- 20000
    [ "$(stat -c %s "$VRAMGC_OUT.blocks")" = $((4096 + 65536)) ]
    whatif --json --setting '' "$VRAMGC_OUT" >"$BATS_TEST_TMPDIR/json"
    late=$(smallest "$BATS_TEST_TMPDIR/json" "PyTorch's default")
    [ "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["events_lost"] > 10000)' <"$BATS_TEST_TMPDIR/json")" = True ]
    whatif --python "$(stand_in)" "$VRAMGC_OUT" | grep 'the record begins after the first'
    VRAMGC_OUT=$BATS_TEST_TMPDIR/whole.vramgc record --mode observe -- 20000
    whatif --json --setting '' "$BATS_TEST_TMPDIR/whole.vramgc" >"$BATS_TEST_TMPDIR/json"
    whole=$(smallest "$BATS_TEST_TMPDIR/json" "PyTorch's default")
    echo "$late MiB, of the whole $whole MiB"
    [ $((late > whole ? late - whole : whole - late)) -le 32 ]
}

# PyTorch counts it as allocated for ever.
@test "mode compact: a block that never got memory was wanted, and is none of those that are live" {
    run tests/on_card --mem 1GiB -- "$recorder" run --mode compact --record --no-summary -- "$python" tests/e2e/whatif_refused.py
    [[ $output == *'out of memory, as it is to be'* ]]
    whatif --python "$(stand_in)" --json "$VRAMGC_OUT" >"$BATS_TEST_TMPDIR/json"
    python3 -c 'import json, sys
told = json.load(open(sys.argv[1]))
assert (told["events"], told["live_bytes"] >> 20, told["wanted_bytes"] >> 20) == (6, 350, 300), told' "$BATS_TEST_TMPDIR/json"
}

@test "killed at any moment: what was recorded is there" {
    record --mode observe -- 20000000 &
    until [ -e "$VRAMGC_OUT.blocks" ] && [ "$(od -An -tu8 -j 72 -N 8 "$VRAMGC_OUT.blocks" | tr -d ' ')" -gt 1000 ]; do sleep 0.05; done
    pid=$(od -An -tu8 -j 16 -N 8 "$VRAMGC_OUT.blocks" | tr -d ' ')
    kill -KILL "$pid"
    wait || true
    run whatif --python "$(stand_in)" --json "$VRAMGC_OUT"
    echo "$output" | head -5
    [ "$status" = 0 ]
    [ "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["events"])' <<<"$output")" -ge 900 ]
}

@test "what is cut, of another version or run, or nonsense is told in a line, and nothing crashes" {
    record --mode observe --
    answers=$(stand_in)
    python3 - "$VRAMGC_OUT" build/vramgc "$answers" <<'PYTHON'
import os, random, shutil, struct, subprocess, sys
path, vramgc, answers = sys.argv[1:]
whole = open(path + ".blocks", "rb").read()

def ask(data, *, fine=None):
    with open(path + ".blocks", "wb") as file:
        file.write(data)
    done = subprocess.run([vramgc, "whatif", "--python", answers, "--json", path], capture_output=True, text=True)
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    assert (done.returncode == 0) != bool(done.stderr), done
    assert done.stderr.count("\n") == (done.returncode == 1), done.stderr
    if fine is not None:
        assert (done.returncode == 0) == fine, done
    return done.stderr

words = struct.unpack_from("<900Q", whole, 4096)
assert {word >> 2 & 3 for word in words if word & 3 == 1} == {0, 1}, "blocks of two streams"
assert {word >> 2 & 63 for word in words if word & 3 == 0 and word} == {2, 4, 5}, "an emptied cache, other streams that are done, a job"
head = len(whole[:4096].rstrip(b"\0"))
for cut in [*range(0, 300), *range(300, 4096, 97), 4096, *range(4097, 4096 + 8 * 885, 131), len(whole) - 1]:
    ask(whole[:cut])
assert "cut short" in ask(whole[:100], fine=False)
assert "no record of blocks" in ask(b"X" + whole[1:], fine=False)
assert "another version" in ask(whole[:8] + struct.pack("<I", 7) + whole[12:], fine=False)
assert "another run" in ask(whole[:16] + struct.pack("<Q", 1) + whole[24:], fine=False)
assert "no blocks" in ask(whole[:4096] + bytes(len(whole) - 4096), fine=False)
chance = random.Random(1)
for _ in range(20):
    words = b"".join(struct.pack("<Q", chance.getrandbits(64)) for _ in range(20000))
    count = struct.pack("<QQ", 1, 20000)
    ask(whole[:64] + count + whole[80:4096] + words)
    damaged = bytearray(whole[:20000])
    for _ in range(20):
        damaged[chance.randrange(8, 12000)] = chance.randrange(256)
    ask(bytes(damaged))
os.remove(path + ".blocks")
done = subprocess.run([vramgc, "whatif", path], capture_output=True, text=True)
assert done.returncode == 1 and "`vramgc run --record` makes one" in done.stderr, done
PYTHON
}

@test "a Python without PyTorch, none at all, and wrong words are told in a line" {
    record --mode observe --
    for it in /usr/bin/true /nowhere/python python3; do
        run whatif --python "$it" "$VRAMGC_OUT"
        echo "$output"
        [ "$status" = 1 ] && [ "$(wc -l <<<"$output")" = 1 ]
    done
    run whatif --card much "$VRAMGC_OUT"
    [ "$status" = 2 ] && [ "$(wc -l <<<"$output")" = 1 ]
}
