#!/usr/bin/env bats
# What runs on a borrowed machine, from a folder that has only what travels (tracked files without .git, and what was put beside
# them), without a network, on the simulated device. It makes nothing and fetches nothing.
load ../surroundings

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    top=$PWD carried=$BATS_FILE_TMPDIR/carried PYTHON=$PWD/build/venv/bin/python
    unset "${!VRAMGC_@}"
    alone=()
    ! unshare -rn true 2>/dev/null || alone=(unshare -rn) # else a proxy that nobody answers stands for it
    export top carried PYTHON alone="${alone[*]}" http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9
    mkdir -p "$carried/.gpu/whl"
    git ls-files -z | tar cf - --null -T - | tar xf - -C "$carried"
    cp build/vramgc build/libvramgc.so "$carried/.gpu"
    "$PYTHON" tests/gpu/wheel.py diffusers "$carried/.gpu/whl"
}

# in_the_folder COMMAND...: there, on the simulated device. A `make` that is called is an error.
in_the_folder() {
    mkdir -p "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\necho "make was called" >&2; exit 99\n' >"$BATS_TEST_TMPDIR/bin/make"
    chmod +x "$BATS_TEST_TMPDIR/bin/make"
    export SIMGPU_CARD=$BATS_TEST_TMPDIR/card # where a process may be parked
    cd "$carried" && PATH=$BATS_TEST_TMPDIR/bin:$PATH run $alone "$top/tests/on_card" --mem 24GiB -- "$@"
    echo "$output"
}

# ended STEP STATUS: what steps.tsv says of it.
ended() { grep -qP "^$1\t$2\t[0-9.]+ s$" "$OUT/steps.tsv"; }

@test "first-minutes.sh: steps in their order, the proof, and a line of figures for each run" {
    export OUT=$BATS_TEST_TMPDIR/out ONLY='machine doctor quick wheels hooked sd15-1-off sd15-2-lowvram'
    in_the_folder tests/gpu/first-minutes.sh
    [ "$status" = 0 ]
    [ "$(cut -f1 "$OUT/steps.tsv" | tr '\n' ' ')" = "$ONLY " ]
    for step in $ONLY; do ended "$step" 0; done
    grep '^result passed' "$OUT/proof-quick.txt"
    "$PYTHON" -c 'import json, sys
off, lowvram = map(json.loads, open(sys.argv[1]))
assert off["ok"] and off["label"] == "sd15-1-off" and off["rc"] == 0, off
assert lowvram["mode"] == "compact" and lowvram["page_moves"] > 0, lowvram
assert lowvram["outputs"] == off["outputs"] and off["outputs"], (off, lowvram)' "$OUT/lab.jsonl"
    tar tzf "$OUT/records.tgz" sd15-2-lowvram.vramgc
}

@test "first-minutes.sh: a step that fails, one that hangs, and one for which no time is left" {
    export OUT=$BATS_TEST_TMPDIR/out
    SIMGPU_CHEAT=early_event ONLY=quick in_the_folder tests/gpu/first-minutes.sh
    [ "$status" = 1 ]
    ended quick 1
    grep '^check event: failed' "$OUT/proof-quick.txt"
    printf '#!/bin/sh\nexec sleep 1000\n' >"$BATS_TEST_TMPDIR/hangs"
    chmod +x "$BATS_TEST_TMPDIR/hangs"
    VRAMGC=$BATS_TEST_TMPDIR/hangs BUDGET_S=12 ONLY='doctor micro' in_the_folder tests/gpu/first-minutes.sh
    [ "$status" = 1 ]
    ended doctor 124
    grep -P '^micro\tno time left' "$OUT/steps.tsv"
}

@test "first-minutes.sh: what calls cost, RAM, park, two programs and the table, each with its lines" {
    export OUT=$BATS_TEST_TMPDIR/out ONLY='quick costs pinned park pair launch table' ROWS='survivors=8GiB'
    BUDGET_S=1500 SCALE=3 in_the_folder tests/gpu/first-minutes.sh
    [ "$status" = 0 ]
    for step in $ONLY; do ended "$step" 0; done
    "$PYTHON" -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
costs = [line for line in lines if "costs" in line]
assert [line["costs"] for line in costs] == ["alone", "with", "with", "alone"], costs
assert all(line["launch"] > 0 and line["replay"] > 0 for line in costs), costs
looks = {line["look"]: line for line in lines if "look" in line}
assert looks["park"]["same"] and "parked" in looks["park"]["out"]["said"], looks
for name in ("pair", "launch"):
    assert looks[name]["same"] and looks[name]["second"]["status"] == 0, looks
after = looks["pinned"]["after"]["RssAnon"]
assert looks["pinned"]["under"] and after < looks["pinned"]["there"]["RssAnon"] - 512, looks
rows = {(line["side"], line["round"]): line for line in lines if "workload" in line}
assert {line["mode"] for line in rows.values()} == {"observe", "compact"} and len(rows) == 4, rows
assert all(line["ok"] and line["retries"] == 7 for line in rows.values()), rows
assert rows["alone", 0]["seconds"] > rows["alone", 1]["seconds"] + 10, rows' "$OUT/look.jsonl"
}

@test "first-micro.py: each group tells" {
    in_the_folder "$PYTHON" tests/gpu/first-micro.py
    [ "$status" = 0 ]
    [[ $output != *error* ]]
    for group in names cuMemGetInfo free_lag context_event beside_work launch beside_handles unmap_of_all; do
        [[ $output == *"{\"micro\": \"$group\", "* ]]
    done
}

@test "scripts/lab and tests/gpu/run" {
    mkdir -p "$carried/build"
    cp "$carried"/.gpu/*vramgc* "$carried/build"
    in_the_folder scripts/lab sd15 --quiet --json -
    [ "$status" = 0 ]
    in_the_folder tests/gpu/run --short
    [ "$status" = 0 ]
    [[ $output == *'lab  compact  sd15         passed'* ]]
}

@test "comfyui.py: each side's jobs and images are compared, and a side that fails is told" {
    export OUT=$BATS_TEST_TMPDIR/out
    compare() {
        in_the_folder "$PYTHON" tests/gpu/comfyui/comfyui.py --comfyui tests/gpu/comfyui/standin --out "$OUT" --rest 0.2 "$@"
    }
    compare alone= 'with=env SAME=1'
    [[ $status == 0 && $output == *'{"images": 8, "same": true}' ]]
    [ "$(grep -c '"failed": 0.*"freed".*"status": 0' <<<"$output")" = 2 ]
    compare alone= 'with=env SPOILT=1' 'broken=env BROKEN=sdxl.safetensors' 'gone=false'
    [[ $status == 1 && $output == *'"same": false}' && $output == *'"failed": 4'* && $output == *'"error": "ComfyUI ended with 1"'* ]]
}
