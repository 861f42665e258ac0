#!/usr/bin/env bats
# A real PyTorch program (job.py) under the launcher in each mode: its tensors are right, and the report says what the mode is for.
load ../surroundings

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    python=${PYTHON:-$PWD/build/venv/bin/python}
    [ -x "$python" ] || skip "no PyTorch under build/venv"
    local mutant=${VRAMGC_MUTANT:-}
    vramgc=build/${mutant:+mutants/}vramgc
    unset "${!VRAMGC_@}"
    [ -z "$mutant" ] || export VRAMGC_MUTANT=$mutant
    export SIMGPU_DATA_LIMIT=0 VRAMGC_OUT=$BATS_TEST_TMPDIR/job.vramgc
    weights_bytes=$((64 << 20))
    simgpu=()
}

# job OPTION-OF-RUN... [-- MIB]: runs it; sets output, and json: the report.
job() {
    local options=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    run timeout 900 tests/on_card --mem 2GiB "${simgpu[@]}" -- build/vramgc run "${options[@]}" --json "$BATS_TEST_TMPDIR/job.json" -- \
        "$python" tests/e2e/job.py "${@:2}"
    printf '%s\n' "$output"
    [ "$status" = 0 ] || return 1
    [[ $output == *"live $weights_bytes"* && $output != *"simgpu: ERROR"* ]] || return 1
    reserved=$(sed -nE 's/^reserved ([0-9]+) .*/\1/p' <<<"$output")
}

# holds EXPRESSION: of the report's only process, p, its device, d, and what PyTorch had reserved.
holds() {
    RESERVED=$reserved "$python" - "$BATS_TEST_TMPDIR/job.json" "$1" <<'PYTHON'
import json, os, sys
(p,) = json.load(open(sys.argv[1]))["processes"]
(d,) = p["devices"]
reserved = int(os.environ["RESERVED"])
assert eval(sys.argv[2]), {name: value for name, value in d.items() if name != "samples"}
PYTHON
}

@test "the last column is of before a program that was told to stop freed all" {
    run timeout 900 tests/on_card --mem 2GiB -- "$vramgc" run -- "$python" tests/e2e/stopped.py build/vramgc
    printf '%s\n' "$output"
    [[ $output == *'stopped by Ctrl-C, exit 0'* && $output == *' at rest'* ]]
    grep -qE '^  allocated \(live\) +64.0 MiB +64.0 MiB$' <<<"$output"
}

@test "off: the program runs, nothing is recorded" {
    job --mode off
    [ ! -e "$VRAMGC_OUT" ]
}

@test "observe: all that PyTorch reserves is held, and stays" {
    job --mode observe
    holds 'p["mode"] == "observe" and d["held_bytes"]["peak"] == d["reserved_bytes"]["peak"] == reserved'
    holds 'd["reclaims"] == 0 and d["block_allocs"] >= 17 and d["allocated_bytes"]["peak"] <= reserved'
}

# PyTorch maps expandable segments 20 MiB at a time.
@test "flush, lowvram: PyTorch's cache is emptied, live memory stays" {
    job --mode flush --lowvram -- 80
    holds 'p["mode"] == "flush" and d["flushes"] >= 1 and d["reclaimed_bytes"] >= 96 << 20'
    [ "$reserved" -le $((80 << 20)) ]
}

@test "compact, lowvram: memory goes back from under PyTorch's cache, on native segments and on expandable ones" {
    local setting
    for setting in keep expandable_segments:True; do
        job --mode compact --lowvram --alloc-conf $setting -- 66 # and the page behind the weights
        holds 'p["mode"] == "compact" and d["page_unmaps"] > 0 and d["reclaimed_bytes"] >= 96 << 20'
    done
}

# PYTHONWARNINGS=error: a warning that PyTorch has because of what vramgc chose ends the program.
@test "auto: flush, and a word of \`vramgc prove\`, where the card is not proven; then compact" {
    export PYTHONWARNINGS=error
    XDG_STATE_HOME=$BATS_TEST_TMPDIR job
    holds 'p["mode"] == "flush" and "vramgc prove" in p["mode_why"] and d["page_maps"] == 0'
    [[ $output == *"run \`vramgc prove\`"* ]]
    simgpu=(--proven)
    job
    holds 'p["mode"] == "compact" and "self-test passed" in p["mode_why"] and d["page_maps"] > 0'
}

# What the map says at the out-of-memory is what PyTorch's own snapshot says then, and memory_viz opens it.
# bats test_tags=deep
@test "snapshot-on-oom: PyTorch's segments and blocks, as PyTorch has them" {
    for mode in observe compact; do
        run timeout 900 tests/on_card --mem 2GiB -- build/vramgc run --mode $mode --snapshot-on-oom --no-summary -- \
            "$python" tests/e2e/out_of_memory.py "$VRAMGC_OUT.pickle"
        printf '%s\n' "$output"
        [ "$status" = 0 ]
        [[ $output == *"$VRAMGC_OUT.pickle shows the blocks"* ]]
        [ "$(stat -c %a "$VRAMGC_OUT" "$VRAMGC_OUT.pickle" | sort -u)" = 600 ]
        tests/on_card --mem 2GiB -- "$python" tests/e2e/out_of_memory.py --compare "$VRAMGC_OUT.pickle"
        rm "$VRAMGC_OUT"*
    done
}
