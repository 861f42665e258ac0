#!/usr/bin/env bats
# shellcheck disable=SC2154
# `vramgc doctor`: each thing that can be wrong, on a machine where it is; the simulated device is the card.

load helpers

setup_device() {
    export LD_LIBRARY_PATH=$top/build/sim/driver:$top/build/sim/rt13
    cp "$(dirname "$built")/libvramgc.so" "$work/bin/libvramgc.so"
    unset PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF
}

# says TEXT: a line of the doctor's has it; columns do not count.
says() {
    contains "$(tr -s ' ' <<<"$output")" "$1"
}

@test "doctor: a machine in order is 0, and says what is there" {
    setup_device
    run "$vramgc" doctor
    equal "$status" 0
    says "ok library $work/bin/libvramgc.so"
    says 'ok settings all VRAMGC_ variables are understood'
    says 'gpu0 Simulated GPU 0'
    says 'not tested yet: the next `vramgc run` does it'
    contains_not "$output" WRONG
}

@test "doctor: on a terminal no line is cut in a word; elsewhere each finding is a line" {
    setup_device
    type -P script >/dev/null || skip "SKIPPED: no script (util-linux)"
    unset COLUMNS
    shown=$(command script -qec "stty cols 80 && $vramgc doctor" /dev/null </dev/null | tr -d '\r')
    [ "$(sed 's/\x1b\[[0-9]*m//g' <<<"$shown" | wc -L)" -le 80 ]
    contains "$shown" $'\n                   '
    equal "$("$vramgc" doctor | grep -c '^ ')" 0
}

@test "doctor: limits that are set, and programs that give each other nothing" {
    setup_device
    VRAMGC_HEADROOM=10% VRAMGC_PEERS=off run "$vramgc" doctor
    equal "$status" 0
    says 'note limits head-room: 10 % stay free for others'
    says 'note neighbours VRAMGC_PEERS is off'
}

@test "doctor: what else is preloaded is one line" {
    setup_device
    for name in a b c; do cp "$built/libempty.so" "$name.so"; done
    LD_PRELOAD="$PWD/a.so:$PWD/b.so $PWD/c.so" run "$vramgc" doctor
    says "note LD_PRELOAD $PWD/a.so and 2 more: vramgc goes before them"
    equal "$(grep -c LD_PRELOAD <<<"$output")" 1
    LD_PRELOAD=$PWD/a.so run "$vramgc" doctor
    says "note LD_PRELOAD $PWD/a.so: vramgc goes before it"
}

@test "doctor: no driver, no library, a wrong setting, a preload that is not there: each is WRONG, and the status is 1" {
    rm "$library"
    LD_PRELOAD="$work/gone/libjemalloc.so.2" VRAMGC_TRESHOLD=70 run "$vramgc" doctor
    equal "$status" 1
    contains_not "$output" 'no NVIDIA driver'
    says 'WRONG driver libcuda.so.1 cannot be loaded'
    says 'WRONG library'
    says "WRONG LD_PRELOAD $work/gone/libjemalloc.so.2 is not there"
    says 'WRONG setting'
    says_of_rule=$(VRAMGC_ON=bogus:echo "$vramgc" doctor | tr -s ' ' || true)
    contains "$says_of_rule" 'WRONG setting VRAMGC_ON: bogus is not oom'
    contains_not "$says_of_rule" 'variables are understood'
    says 'VRAMGC_THRESHOLD'
}

@test "doctor: the Python that the command names is asked for PyTorch, else that of the PATH" {
    script python3 <<<'echo 2.14.9'
    script python3.12 <<<'echo 2.15.9'
    PATH=$PWD:$PATH run "$vramgc" doctor
    says 'PyTorch 2.14.9, of the python3 that is first in PATH'
    PATH=$PWD:$PATH run "$vramgc" doctor -- "$PWD/python3.12"
    says "PyTorch 2.15.9, of $PWD/python3.12"
}

@test "doctor: PyTorch's setting: misspelt keys, what does nothing, what contradicts" {
    setup_device
    PYTORCH_CUDA_ALLOC_CONF='expandable_segment:True, max_split_size_mb:128' run "$vramgc" doctor
    equal "$status" 1
    says 'PyTorch knows no expandable_segment, and does not start; did you mean expandable_segments?'
    PYTORCH_ALLOC_CONF='expandable_segments:True,max_split_size_mb:128' run "$vramgc" doctor
    equal "$status" 1
    says 'WRONG allocator max_split_size_mb'
    PYTORCH_ALLOC_CONF='garbage_collection_threshold:0.8,roundup_power2_divisions:[256:1,512:2,>:8]' run "$vramgc" doctor
    equal "$status" 0
    says 'note allocator garbage_collection_threshold does nothing'
    PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:1.00 run "$vramgc" doctor
    says 'WRONG allocator garbage_collection_threshold:1.00: PyTorch takes only what is above 0 and below 1'
    PYTORCH_ALLOC_CONF='garbage_collection_threshold:0.8,per_process_memory_fraction:0.5' run "$vramgc" doctor
    contains_not "$output" 'does nothing'
    PYTORCH_ALLOC_CONF=backend:cudaMallocAsync run "$vramgc" doctor
    says 'see --async pages'
    PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:128 run "$vramgc" doctor
    says 'PyTorch 2.13 then hands out page-locked blocks that are too small, and data is lost'
    PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:128,pinned_max_cached_size_mb:128 run "$vramgc" doctor
    contains_not "$output" 'too small'
}

@test "doctor: where no state folder can be had, and where it is another" {
    setup_device
    unset VRAMGC_OUT
    run "$vramgc" doctor
    says "ok statistics in $XDG_STATE_HOME/vramgc"
    XDG_STATE_HOME=/proc/none TMPDIR=$work run "$vramgc" doctor
    says "note statistics $work/vramgc-"
    XDG_STATE_HOME=/proc/none TMPDIR=/proc/none run "$vramgc" doctor
    says 'WRONG statistics'
    equal "$status" 1
}

@test "doctor -- COMMAND: what vramgc saw, by a program that has the library" {
    setup_device
    [ -x "$top/build/hook/use" ] || skip "SKIPPED: build/hook/use is not there (make hook)"
    export TMPDIR=$work
    run "$vramgc" doctor -- "$top/build/hook/use"
    equal "$status" 0
    says 'ok command ended with exit status 0'
    says 'ok seen process'
    says 'Nothing stands in the way of vramgc.'
    run "$vramgc" doctor -- sh -c 'exit 7'
    says 'WRONG command failed with exit status 7 before it used CUDA: nothing can be said of'
    contains_not "$output" ' seen '
    contains_not "$output" 'Nothing stands'
    equal "$status" 1
    contains_not "$output" 'no statistics file'
    run "$vramgc" doctor -- ./nosuch
    says 'WRONG command exit status 127: it, or what it starts, was not found'
    contains_not "$output" 'seen'
    contains_not "$output" 'no statistics file'
    run "$vramgc" doctor -- "$work"
    says 'WRONG command exit status 126: it, or what it starts, cannot be run'
    run "$vramgc" doctor -- sh -c 'kill -KILL $$'
    says 'WRONG command killed by SIGKILL'
    contains_not "$output" ' seen '
    run "$vramgc" doctor -- true
    says 'WRONG seen vramgc saw no process of COMMAND use CUDA'
    equal "$status" 1
    equal "$(find "$TMPDIR" -name 'vramgc-doctor-*')" ""
}

sleeps() { sed -n 's/^voluntary_ctxt_switches:\t*//p' "/proc/$1/status"; }

@test "doctor -- COMMAND: Ctrl-C ends COMMAND, and doctor says what it saw" {
    setup_device
    script waits <<<'touch there; exec sleep 1000'
    set -m
    "$vramgc" doctor -- ./waits >out 2>errors 3>&- &
    doctor=$!
    set +m
    while [ ! -e there ]; do sleep 0.05; done
    kill -INT -- "-$doctor"
    wait "$doctor" || true
    contains "$(tr -s ' ' <out)" 'WRONG command killed by SIGINT before it used CUDA'
}

# The program goes on until the doctor has seen it.
@test "doctor -- COMMAND: a program from which LD_PRELOAD was taken away" {
    setup_device
    script cleared <<TEXT
exec env -i PATH="$PATH" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" python3 -c '
import ctypes, os, time
ctypes.CDLL("libcuda.so.1")
open("$work/there", "w").close()
print("a word of its own", flush=True)
while not os.path.exists("$work/seen"): time.sleep(0.01)'
TEXT
    "$vramgc" doctor -- ./cleared >out 2>errors 3>&- &
    doctor=$!
    while [ ! -e "$work/there" ]; do sleep 0.05; done
    slept=$(sleeps "$doctor")
    while [ "$(sleeps "$doctor")" -lt $((slept + 20)) ]; do sleep 0.05; done # it looks, and sleeps
    equal "$(grep -c 'without the library' out)" 0 # what the program writes would hide it
    touch "$work/seen"
    status=0
    wait "$doctor" || status=$?
    output=$(cat out)
    equal "$status" 1
    says 'uses CUDA without the library: LD_PRELOAD was cleared on the way'
    equal "$(cat errors)" 'a word of its own'
    contains "$output" $'---- cleared runs; Ctrl-C ends it, not doctor ----\n---- what vramgc saw of it ----\nWRONG'
}

# A copy of the command elsewhere, and then one that was replaced while it runs.
@test "doctor, top: a vramgc prove that runs is no program without the library" {
    setup_device
    mkdir other
    cp "$vramgc" other/vramgc
    script stranger <<TEXT
exec python3 -c '
import ctypes, os, time
ctypes.CDLL("libcuda.so.1")
while os.path.exists("$work"): time.sleep(1)'
TEXT
    ./stranger 3>&- &
    stranger=$!
    other/vramgc prove --full >prove.out 2>&1 3>&- &
    prover=$!
    for pid in $stranger $prover; do until grep -q libcuda.so "/proc/$pid/maps"; do sleep 0.05; done; done
    run "$vramgc" doctor
    says "note process $stranger ("
    contains_not "$output" "$prover ("
    rm other/vramgc
    run "$vramgc" doctor
    contains_not "$output" "$prover ("
    contains_not "$("$vramgc" top --once)" "$prover  uses CUDA"
    kill "$prover" "$stranger"
}

@test "doctor: another interposer that vramgc would go round, as auto does not" {
    local sentence='answers for the driver, but not for cuMemCreate: vramgc chooses neither compact nor expandable segments' quota
    setup_device
    for quota in libhook_dlsym libquota-OF_RUNTIME; do
        LD_PRELOAD=$top/build/hook/$quota.so run "$vramgc" doctor
        equal "$status" 0
        says "note interposer $quota.so $sentence"
    done
    for quota in libquota-CREATES libdriver_interposer; do # it is asked, or nobody calls it
        LD_PRELOAD=$top/build/hook/$quota.so run "$vramgc" doctor
        equal "$status" 0
        contains_not "$output" 'note   interposer'
    done
}

# What a driver's library does that root starts: it makes the node itself. Then there is nothing behind it.
@test "doctor: what the driver's library makes itself is no driver; a machine with the driver but without the node is a container" {
    setup_device
    SEEN_MODULE=no run env LD_PRELOAD="$built/libmakes_node.so" SIMGPU_DEVICES=0 "$vramgc" doctor
    equal "$status" 1
    says ': the NVIDIA driver is not loaded on this machine. Install it, or load it; '
    SEEN_MODULE=yes run env LD_PRELOAD="$built/libmakes_node.so" SIMGPU_DEVICES=0 "$vramgc" doctor
    says 'the NVIDIA driver is loaded, but there is no /dev/nvidiactl: the container was started without --gpus all'
}

@test "doctor: the driver's own version, with CUDA's beside it; without, the branch of drivers that has that CUDA" {
    setup_device
    export SIMGPU_DRIVER=12080
    run "$vramgc" doctor
    says 'driver 570 (CUDA 12.8);'
    for line in 'NVIDIA UNIX x86_64 Kernel Module  570.133.07  Fri Mar 14 13:12:07 UTC 2025' \
        'NVIDIA UNIX Open Kernel Module for x86_64  570.133.07  Release Build  (dvs-builder@U22-I3-AE18-23-3)  Fri Mar 14 12:57:14 UTC 2025'; do
        SEEN_VERSION=$line LD_PRELOAD=$built/libmakes_node.so run "$vramgc" doctor
        says 'driver 570.133.07 (CUDA 12.8);'
    done
}

# torch VERSION [LINE]: a python3 whose PyTorch is that, with that line in its version.py.
torch() {
    mkdir -p torch "torch-$1.dist-info"
    : >torch/__init__.py
    echo "$2" >torch/version.py
    printf 'Metadata-Version: 2.1\nName: torch\nVersion: %s\n' "$1" >"torch-$1.dist-info/METADATA"
    export PYTHONPATH=$PWD
}

@test "doctor: the CUDA that PyTorch is made for against the driver's" {
    setup_device
    torch 2.15.9 "cuda: Optional[str] = '13.2'"
    run "$vramgc" doctor
    equal "$status" 0
    says 'PyTorch 2.15.9 for CUDA 13.2'
    SIMGPU_DRIVER=12080 run "$vramgc" doctor
    equal "$status" 1
    says 'WRONG PyTorch it is made for CUDA 13.2, the driver is 570 (CUDA 12.8): PyTorch will find no GPU; update the driver to 580 or newer'
    torch 2.15.9 'cuda: Optional[str] = None'
    run "$vramgc" doctor
    equal "$status" 1
    says 'WRONG PyTorch 2.15.9, of the python3 that is first in PATH: made without CUDA'
}

@test "doctor: a full card is named, and who has it" {
    setup_device
    LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$top/build/sim/nvml
    SIMGPU_MEM=24GiB SIMGPU_OTHERS=812:23900MiB run "$vramgc" doctor
    equal "$status" 0
    says 'note gpu0 the card is full: 420 MiB of the card are free; 600 are needed; process 812 uses 23900 MiB of the card'
    SIMGPU_MEM=24GiB SIMGPU_OTHERS=812:24500MiB run "$vramgc" doctor
    equal "$status" 1
    says 'WRONG gpu0 the card is full: the card cannot be used: CUDA_ERROR_OUT_OF_MEMORY; process 812 uses 24500 MiB of the card'
}
