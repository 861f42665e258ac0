#!/usr/bin/env bash
# The first minutes on a card: what is worth most comes first, each step has its own limit, and all is written down at once.
# It must need no network, no make and no .git: only the tracked files, and .gpu/ (README.md says how to fill it).
#   OUT        where steps.tsv, log.txt, proof-*.txt, micro.jsonl, lab.jsonl, look.jsonl and records.tgz go (build/gpu/first)
#   BUDGET_S   seconds in all (330): a step that would not fit is left out
#   ONLY, SKIP names of steps
#   ROWS       of the step `table`
#   PYTHON (python3), VRAMGC (.gpu/vramgc, else build/vramgc), LEAVE_GIB (6.5: what the small card has), SCALE (1: times all limits)
# Exit status: 0, all steps that ran ended with 0; 1, one did not; 2, there is nothing to run.
set -u
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
cd "$here/../.." || exit 2
python=${PYTHON:-python3} budget=${BUDGET_S:-330} scale=${SCALE:-1} begun=$SECONDS bad=0
out=${OUT:-build/gpu/first}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/first.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
vramgc=${VRAMGC:-$PWD/.gpu/vramgc}
[ -x "$vramgc" ] || vramgc=$PWD/build/vramgc
[ -x "$vramgc" ] || { echo 'first-minutes: no .gpu/vramgc: see tests/gpu/README.md' >&2; exit 2; }
rows=${ROWS:-survivors=8GiB sdxl_offload=7GiB sd15=8GiB sequential_offload=2GiB group_offload=5GiB serve=8GiB loop=8GiB}
unset "${!VRAMGC_@}" VRAMGC
export XDG_STATE_HOME=$work/state PYTHONPYCACHEPREFIX=$work/pycache PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
log=$out/log.txt steps=$out/steps.tsv lab=$out/lab.jsonl look=$out/look.jsonl
for file in "$log" "$steps" "$lab" "$look"; do : >"$file"; done

left() { echo $((budget - (SECONDS - begun))); }

# chosen NAME: it is in ONLY, where that is given, and not in SKIP.
chosen() { [[ " ${ONLY:-$1} " == *" $1 "* && " ${SKIP:-} " != *" $1 "* ]]; }

# step NAME LIMIT_S NEED_S COMMAND...: left out where less than NEED_S is left. Its output goes to the log as it comes.
step() {
    local name=$1 limit=$(($2 * scale)) need=$(($3 * scale)) start=$EPOCHREALTIME status
    shift 3
    chosen "$name" || return 0
    [ "$(left)" -ge "$need" ] || { printf '%s\tno time left\t\n' "$name" | tee -a "$steps"; return 0; }
    [ "$limit" -le "$(left)" ] || limit=$(left)
    printf '\n==== %s (at %d s)\n' "$name" $((SECONDS - begun)) >>"$log"
    timeout -k 5 "$limit" bash -c '"$@"' "$name" "$@" >>"$log" 2>&1
    status=$?
    awk -v n="$name" -v s="$status" -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%s\t%d\t%.1f s\n", n, s, b - a }' | tee -a "$steps"
    [ "$status" = 0 ] || bad=1
}

# --- the steps ---

machine() {
    uname -a; nproc; free -m; ulimit -n; cat /proc/sys/vm/max_map_count /proc/sys/vm/overcommit_memory
    cat /proc/driver/nvidia/version; ls -l /dev/nvidia*; ldconfig -p | grep -E 'libcuda\.so|libcudart|nvidia-ml'
    nvidia-smi -q -d MEMORY,CLOCK,COMPUTE,ECC,PERFORMANCE; nvidia-smi -q | grep -iE 'Product Name|Display|Addressing|Confidential|Virtualization|MIG|GSP'
    env | grep -E '^(LD_|CUDA|NVIDIA|PYTORCH)'
    "$python" -c 'import importlib.metadata as m, sys
print(sys.executable, sys.version.split()[0], *(f"{d.name} {d.version}" for d in m.distributions() if d.name in ("torch", "transformers", "accelerate", "peft", "diffusers")))'
    true
} 2>/dev/null

wheels() { "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target "$work/site" .gpu/whl/*.whl; }

hooked() {
    "$vramgc" doctor -- "$python" -c 'import torch
x = [torch.zeros(n << 20, dtype=torch.uint8, device="cuda") for n in (1, 3, 30, 300)]
del x; torch.cuda.empty_cache(); torch.cuda.synchronize(); print(torch.cuda.get_device_name(), torch.cuda.mem_get_info())'
}

# prove NAME OPTION...: the proof is kept also where it failed.
prove() {
    local name=$1 status
    shift
    "$vramgc" prove --device 0 --verbose "$@"
    status=$?
    "$vramgc" prove --share >"$out/proof-$name.txt" 2>/dev/null
    return "$status"
}

micro() { "$python" "$here/first-micro.py" >"$out/micro.jsonl"; }

# workload NAME WORKLOAD MODE [OPTION...]: one run of tests/lab, and a line of its figures. lowvram is compact with it.
workload() {
    local name=$1 workload=$2 mode=$3 status run=() rest=()
    shift 3
    if [ "$mode" != off ]; then
        [ "$mode" != lowvram ] || run=(--lowvram)
        run=("$vramgc" run --no-summary --mode "${mode/lowvram/compact}" "${run[@]}" --out "$work/$name.vramgc" --)
        rest=(--no-marks --report "$work/$name.rest")
    fi
    "${run[@]}" "$python" tests/lab/run.py "$workload" "$@" "${rest[@]}" --json "$work/$name.json"
    status=$?
    [ "$mode" = off ] || "$vramgc" report --json "$work/$name.rest" >"$work/$name.report"
    "$python" "$here/first_line.py" "$name" "$workload" "$mode" "$status" "$work/$name" | tee -a "$lab"
    return "$status"
}

# What PyTorch's own calls cost, alone and with, by turns.
costs() {
    local side run
    for side in alone with with alone; do
        run=()
        [ "$side" = alone ] || run=("$vramgc" run --no-summary --out "$work/costs.vramgc" --)
        "${run[@]}" "$python" tests/bench/torch_loop.py >"$work/costs" || return
        sed "s/^{/{\"costs\": \"$side\", /" "$work/costs" >>"$look"
    done
}

second_look() { "$python" "$here/second_look.py" "$vramgc" "$1" >>"$look"; }

# table SECONDS: the lab wants what is carried in a folder where it may write.
table() {
    mkdir "$work/build" && ln -s "$vramgc" "$(dirname "$vramgc")/libvramgc.so" "$work/build/" || return
    "$python" "$here/card_table.py" --build "$work/build" --seconds "$1" $rows >>"$look"
}

# On what a process of others leaves of the card.
small_card() {
    local ready process mode in
    { chosen small-off || chosen small-compact || chosen small-flush; } && [ "$(left)" -gt $((60 * scale)) ] || return 0
    coproc BALLAST { "$python" "$here/ballast.py" "${LEAVE_GIB:-6.5}" 2>>"$log"; }
    in=${BALLAST[1]} process=$BALLAST_PID
    read -r -t $((40 * scale)) ready <&"${BALLAST[0]}" && echo "$ready" | tee -a "$log"
    for mode in off compact flush; do # who completes
        step "small-$mode" 75 25 workload "small-$mode" sd15 "$mode"
    done
    exec {in}>&-
    wait "$process" 2>/dev/null
}

export python vramgc here out work lab look rows # for the shells that `timeout` starts
export -f machine wheels hooked prove micro workload costs second_look table

# --- their order ---

"$python" -c 'import torch, transformers, accelerate, peft' >/dev/null 2>&1 & # the files are read once, beside the first steps
reading=$!
step machine 20 5 machine
step doctor 30 10 "$vramgc" doctor
step quick 90 20 prove quick --quick
wait "$reading" 2>/dev/null
if compgen -G '.gpu/whl/*.whl' >/dev/null; then
    step wheels 40 10 wheels
    export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH}
fi
step hooked 90 20 hooked
step micro 90 30 micro
step soaks 150 60 python3 "$here/soaks.py" "$vramgc" "$(command -v "$python")" 3
n=0
for mode in off lowvram compact flush lowvram off; do # nothing is short: what each costs, by turns
    n=$((n + 1)) same=()
    [ $n -gt 3 ] || same=(--same) # sums of the images, which must not depend on the mode; they take some seconds
    step "sd15-$n-$mode" 75 25 workload "sd15-$n-$mode" sd15 "$mode" "${same[@]}"
done
small_card
for mode in off lowvram; do
    step "offload-$mode" 90 40 workload "offload-$mode" sdxl_offload "$mode"
done
step costs 80 30 costs
for group in pinned park pair launch compiled; do
    step "$group" 120 30 second_look "$group"
done
step table "$(left)" 60 table $(($(left) - 15))
(cd "$work" && tar czf "$out/records.tgz" -- *.vramgc) 2>/dev/null
result='all that ran passed'
[ $bad = 0 ] || result='something failed: steps.tsv, log.txt'
echo "first-minutes: $((SECONDS - begun)) s, $result" | tee -a "$log"
exit $bad
