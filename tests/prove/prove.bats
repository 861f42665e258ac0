#!/usr/bin/env bats
# vramgc prove on the simulated device: what it finds, what it writes down, and what it must find on a device that cheats.
load ../surroundings

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    unset "${!VRAMGC_@}"
    export XDG_STATE_HOME=$BATS_TEST_TMPDIR/state
}

# prove [OPTION-OF-SIMGPU...] -- [OPTION...]: sets status, output, errors, proof: what was written.
prove() {
    local simgpu=()
    while [ "$1" != -- ]; do
        simgpu+=("$1")
        shift
    done
    shift
    status=0
    timeout 600 tests/on_card "${simgpu[@]}" -- build/vramgc prove "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
    output=$(cat "$BATS_TEST_TMPDIR/out")
    errors=$(cat "$BATS_TEST_TMPDIR/err")
    proof=$(cat "$XDG_STATE_HOME"/vramgc/*.proof 2>/dev/null || true)
    printf 'status %s\n%s\n%s\n' "$status" "$output" "$errors"
}

passes() { [ "$status" = 0 ] && [ -z "$errors" ] && [[ $proof == *$'\nresult passed\n'* && $output == *"auto is compact"* ]]; }

# finds NAME: that check and the proof failed.
finds() { [ "$status" = 1 ] && [[ $proof == *$'\nresult failed\n'* && $proof == *$'\ncheck '"$1: failed"* && $output == *"stays flush"* ]]; }

@test "a good device: passed; the proof names card, driver, engine and what was asked" {
    prove --mem 4GiB -- --quick
    passes
    [[ $proof == "vramgc proof 1"* && $proof == *$'\ndriver 13.0\nengine '* && $proof == *$'\nform quick\n'* ]]
    [[ $proof == *$'\ncheck translation: passed'* ]]
    [ "$(stat -c %a "$XDG_STATE_HOME"/vramgc/*.proof)" = 600 ]
    [ "$(find "$XDG_STATE_HOME/vramgc" -type f | wc -l)" = 1 ] # nothing lies beside it
}

# Compact does not rely on it: the proof stays passed. Processes find each other by SIMGPU_CARD.
@test "whether the driver parks is a row of its own: contents, each call, and a process that is ended" {
    export SIMGPU_CARD=$BATS_TEST_TMPDIR/card
    prove --mem 2GiB -- --quick
    passes
    [[ $proof == *$'\npark passed\n'* && $proof == *$'\ncheck park: passed'*'10 times 96 MiB: out '* ]]
    SIMGPU_CHEAT=park_loses prove --mem 2GiB -- --quick
    [[ $status == 0 && $proof == *$'\nresult passed\n'* ]]
    [[ $proof == *$'\npark failed\n'* && $proof == *$'\ncheck park: failed'*'uses were wrong'* ]]
    prove --mem 2GiB --fail cuCheckpointProcessRestore:7:2 -- --quick --verbose
    passes
    [[ $output == *'VRAMGC_PARK stays off'* && $output == *$'as it was\n                FAILED ('* ]]
    [[ $proof == *$'\npark failed\n'* && $proof == *'restore: CUDA_ERROR_OUT_OF_MEMORY'* ]]
    prove --mem 2GiB --fail cuCheckpointProcessCheckpoint:1:801 -- --quick -v # MIG, MPS
    passes
    [[ $proof == *$'\npark not offered\n'* && $proof == *'checkpoint: CUDA_ERROR_NOT_SUPPORTED'* ]]
    [[ $output == *$'as it was\n                not offered by this driver ('* && $output == *'VRAMGC_PARK stays off'* && $output != *FAILED* ]]
    prove --mem 2GiB --fail cuCheckpointProcessCheckpoint:2:801 -- --quick # it did before
    [[ $proof == *$'\npark failed\n'* ]]
}

@test "a folder that others can write to takes no proof, and that is told" {
    mkdir -p "$XDG_STATE_HOME/vramgc"
    chmod 777 "$XDG_STATE_HOME/vramgc"
    prove --mem 1GiB -- --quick
    [ "$status" = 3 ]
    [[ $errors == *"/vramgc: others can write there, or it is another user's; chmod go-w it"* ]]
    [ -z "$(ls -A "$XDG_STATE_HOME/vramgc")" ]
}

@test "the usual form, on hard devices" {
    SIMGPU_LATENCY=card prove --mem 2GiB --no-host-vmm --no-peer -- --quick
    passes
    SIMGPU_DRIVER=11040 prove --mem 1GiB -- --quick
    passes
    prove --mem 3GiB --cc 12.0 --
    passes
    [[ $proof == *$'\nform usual\n'* && $proof == *$'\ncheck full card: passed'* ]]
}

# The device's strictness ends whoever does something wrong.
@test "a driver that crashes on host memory, on which a display hangs: nothing of that is touched" {
    SIMGPU_CHEAT=host_crash SIMGPU_STRICT=abort SIMGPU_DISPLAY=nvml prove --mem 2GiB --
    passes
    [[ $proof == *$'\ncheck full card: left out'*'a monitor is connected'* ]]
    [[ $proof == *$'\ncheck release: passed'* ]]
}

@test "Volta is refused, and nothing else is tried on it" {
    prove --mem 1GiB --cc 7.0 --
    finds grain
    [[ $output == *'Volta (sm_70)'* && $(grep -c '^check' <<<"$proof") = 1 ]]
    prove --mem 1GiB --cc 7.5 -- --quick
    passes
}

# The least that the device had free in a process, in MiB.
least_free() { sed -n 's/.*: create .*, \([1-9][0-9]*\) free/\1/p' "$1" | sort -n | awk 'NR == 1 { print int($1 / 1048576) }'; }

@test "where a monitor is connected to the card it is said first, and 512 MiB stay free" {
    local display log=$BATS_TEST_TMPDIR/log
    SIMGPU_DISPLAY=none prove --mem 2GiB --log "$log" -- --quick
    [ "$(least_free "$log")" -lt 100 ]
    for display in nvml timeout; do
        rm "$log"
        SIMGPU_DISPLAY=$display prove --mem 2GiB --log "$log" -- --quick
        passes
        [[ $(sed -n 2p <<<"$output") == 'a monitor uses this card: 512 MiB are left to it'* ]]
        [ "$(least_free "$log")" -ge 512 ]
    done
    SIMGPU_DISPLAY=nvml prove --mem 1200MiB -- --quick
    [ "$status" = 3 ]
    [[ $errors == *'MiB of the card are free; 1112 are needed. '*'Stop what uses the card'* ]]
}

@test "unmapping that waits for kernels is seen and told, and compact gives memory back at rest only" {
    local driver=("$PWD"/build/c10/*/c10drive)
    prove --mem 1GiB -- --quick
    [[ $proof == *$'\nunmap at once\n'* && $output != *'Unmapping waits'* ]]
    SIMGPU_UNMAP_WAITS=1 prove --mem 2GiB -- --quick
    passes
    [[ $proof == *$'\nunmap waits for kernels\n'* && $output == *'Unmapping waits for running kernels here'* ]]
    [[ $proof =~ check\ unmap\ beside:\ passed[^$'\n']*unmapping\ took\ [2-9][0-9]{2}\ ms,\ and\ the\ work\ was\ over ]]
    echo 'alloc a 300MiB; free a' >"$BATS_TEST_TMPDIR/drive"
    LD_PRELOAD=$PWD/build/libvramgc.so VRAMGC_MODE=compact VRAMGC_LOG=info VRAMGC_OUT= tests/on_card --cuda 13 --mem 2GiB -- \
        "${driver[0]}" "$BATS_TEST_TMPDIR/drive" 2>"$BATS_TEST_TMPDIR/err"
    grep 'gpu0: unmapping waits for kernels: idle memory goes back at rest' "$BATS_TEST_TMPDIR/err"
    # While another stream works what is idle stays, though the GPU is past it; then it goes.
    { echo 'alloc a 300MiB; alloc b 20MiB stream=1; fill a 1; fill b 2 stream=1; synchronize; free a' && printf 'fill b %s stream=1\n' {1..200} &&
        echo 'sleep 300; expect vramgc.held_bytes >= 320MiB; synchronize; await vramgc.held_bytes <= 22MiB; verify b 200'; } \
        >"$BATS_TEST_TMPDIR/drive"
    SIMGPU_UNMAP_WAITS=1 SIMGPU_LATENCY=card SIMGPU_SLOW=1000 LD_PRELOAD=$PWD/build/libvramgc.so VRAMGC_MODE=compact VRAMGC_LOWVRAM=1 VRAMGC_OUT='' \
        tests/on_card --cuda 13 --mem 2GiB -- "${driver[0]}" "$BATS_TEST_TMPDIR/drive"
}

@test "a page that is stale after a remap is found" {
    SIMGPU_CHEAT=stale_page prove --mem 2GiB -- --quick
    finds translation
    finds soak
    finds 'soak captures'
}

@test "access that is lost is found" {
    SIMGPU_CHEAT=lost_access prove --mem 2GiB -- --quick --verbose
    finds access
    [[ $output != *'FAILED (1 m'* ]]
}

@test "an event that is early is found" {
    SIMGPU_CHEAT=early_event prove --mem 2GiB -- --quick --verbose
    finds event
    [[ $output != *'FAILED (1 m'* ]] # who has seen the card fail does not wait for captures
}

@test "every device, or the one that is named" {
    prove --mem 1GiB --devices 2 -- --quick
    passes
    [ "$(find "$XDG_STATE_HOME/vramgc" -name '*.proof' | wc -l)" = 2 ]
    rm -r "$XDG_STATE_HOME"
    prove --mem 1GiB --devices 2 -- --quick --device 1
    [[ $output == gpu1* ]]
    [ "$(find "$XDG_STATE_HOME/vramgc" -name '*.proof' | wc -l)" = 1 ]
    prove --mem 1GiB -- --quick --device 1
    [ "$status" = 3 ]
}

# copies_to_other OUTCOME WORDS: what came of them.
copies_to_other() { [[ $proof =~ check\ peer\ copies:\ $1,\ [0-9]+\ us:\ $2 ]]; }

@test "two devices: what is copied between them is seen to be right, where they can access each other and where not" {
    prove --mem 1GiB -- --quick
    copies_to_other 'left out' 'there is no other device'
    prove --mem 1GiB --devices 2 -- --quick --device 1
    copies_to_other passed 'with gpu0, which can access our pages'
    prove --mem 1GiB --devices 2 --no-peer -- --quick --device 1
    passes
    copies_to_other passed 'with gpu0, through the host'
    SIMGPU_CHEAT=stale_page prove --mem 1GiB --devices 2 -- --quick --device 1
    finds 'peer copies'
    prove --mem 1GiB --devices 2 --fail cuMemcpyPeer:2 -- --quick --device 1
    finds 'peer copies'
}

@test "graphs are captured in each mode and replayed while pages move; a replay that fails is found" {
    prove --mem 1GiB -- --quick --verbose
    [[ $(tr -s '\n ' ' ' <<<"$output") =~ beside\ it\ [1-9][0-9]*\ global,\ [1-9][0-9]*\ thread-local\ and\ [1-9][0-9]*\ relaxed\ captures,\ [1-9][0-9]*\ replays ]]
    prove --mem 1GiB --fail cuGraphLaunch:9 -- --quick
    finds 'soak captures'
}

@test "what cannot be tried: one line, and nothing is written" {
    run build/vramgc prove
    [ "$status" = 3 ]
    [ "$output" = 'vramgc: no NVIDIA driver here: libcuda.so.1 cannot be loaded. Nothing was tested. `vramgc doctor` looks for the reason' ]
    prove --devices 0 -- --quick
    [ "$status" = 3 ]
    [ "$(wc -l <<<"$errors")" = 1 ]
    SIMGPU_CONTEXT_MEM=3GiB prove --mem 8GiB -- --quick
    [ "$status" = 3 ]
    [ "$errors" = 'vramgc: gpu0 cannot be tried now: 3072 of 8192 MiB of the card are in use. Nothing was tested. Stop what uses the card (`vramgc top` shows it), and try again' ]
    [ ! -e "$XDG_STATE_HOME" ]
}

@test "interrupted: nothing is written, and no child stays" {
    tests/on_card --mem 2GiB -- build/vramgc prove --verbose >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    while ! grep -q soak "$BATS_TEST_TMPDIR/out"; do :; done
    child=$(cat "/proc/$!/task/$!/children")
    kill -TERM $!
    wait $! && false
    for one in $child; do
        while [ -e "/proc/$one" ] && ! grep -q '^State:.*[ZX]' "/proc/$one/status"; do :; done
    done
    [ ! -e "$XDG_STATE_HOME" ]
}

@test "--show, --share and --forget" {
    run build/vramgc prove --show
    [ "$status" = 1 ]
    prove --mem 1GiB -- --quick
    [ "$(build/vramgc prove --show --verbose)" = "$proof" ]
    shown=$(build/vramgc prove --show)
    [[ $shown == 'CARD     Simulated GPU 0, 1024 MiB, driver 13.0, tested 20'*' tests passed.'*'auto is compact'* ]]
    [ "${shown#*RESULT}" = "${output#*RESULT}" ] # the same words as when it was tested
    sed -i 's/^engine .*/engine 99999/' "$XDG_STATE_HOME"/vramgc/*.proof
    [[ $(build/vramgc prove --show) == *'it no longer counts'*$'NEXT     vramgc prove\n'* ]]
    shared=$(build/vramgc prove --share)
    [[ $shared == *$'\nresult passed\n'* && $shared != *GPU-* && $shared != *0000:01* ]]
    build/vramgc prove --forget
    [ -z "$(ls -A "$XDG_STATE_HOME/vramgc")" ]
}

@test "one screen: how many passed, what failed and what was seen, what that means, what to type next" {
    prove --mem 2GiB -- --quick
    [[ $output == *$'RESULT   15 of 15 tests passed. 2 more do not apply here.\nMEANS    Mode auto is compact on this card'* ]]
    [[ $output == *$'\nNEXT     vramgc run ./webui.sh\n'* && $output != *FAILED* && $output != *translation* ]]
    [ "$(wc -l <<<"$output")" -le 12 ]
    SIMGPU_CHEAT=early_event prove --mem 2GiB -- --quick
    [[ $output == *$'\nFAILED   event: an event is over after the work before it'*'Seen: '* && $output == *'--share` prints this for a bug tracker'* ]]
    [[ $output == *'this card does not support mode compact'* && $output != *'translation:'* ]]
    [ "$(wc -L <<<"$output")" -le 80 ]
    prove --mem 2GiB -- --quick --verbose
    [[ $output == *'  translation   an address shows its new page'* ]]
    [ "$(wc -L <<<"$output")" -le 80 ]
}

# As a terminal shows it at the end.
@test "on a terminal one line tells which test runs, and is gone at the end" {
    command -v script >/dev/null || skip "SKIPPED: no script (util-linux)"
    script -qec 'tests/on_card --mem 2GiB -- build/vramgc prove --quick' "$BATS_TEST_TMPDIR/typescript" </dev/null >"$BATS_TEST_TMPDIR/out"
    grep -q $'\r  test 5: an address shows' "$BATS_TEST_TMPDIR/out"
    ! sed -E 's/.*\r([^\r])/\1/' "$BATS_TEST_TMPDIR/out" | grep 'test [0-9]*:'
}

@test "a preloaded vramgc stays out of it" {
    LD_PRELOAD=$PWD/build/libvramgc.so VRAMGC_MODE=compact VRAMGC_OUT=$BATS_TEST_TMPDIR/x.vramgc prove --mem 1GiB -- --quick
    passes
    [ ! -e "$BATS_TEST_TMPDIR/x.vramgc" ]
}

# hard SETTING=VALUE...: of the simulated device: the proof is as on a good one.
hard() {
    (export "$@" && prove --mem 2GiB -- --quick && passes)
}

# Not SIMGPU_OVERREAD: the proof's own kernels read nothing past their end.
# bats test_tags=deep
@test "it passes on a device as hard as a card may be" {
    hard SIMGPU_FREE_LAG_MS=100
    hard SIMGPU_LATENCY=card SIMGPU_SLOW=10 SIMGPU_KERNEL_US=300 SIMGPU_CONTEXT_LOCK=1
    hard SIMGPU_PAGE_TABLE=64KiB
    hard SIMGPU_CAPTURE_STRICT=1
    hard SIMGPU_CAPTURE_VMM=1
    hard SIMGPU_CONTEXT_EVENT=0
    hard SIMGPU_LOCAL_MEM=64MiB SIMGPU_MODULE_MEM=16MiB
    hard SIMGPU_MAX_HANDLES=100
    hard SIMGPU_MAX_ADDRESSES=300MiB
}

# bats test_tags=deep
@test "a call that is refused is found, named, and no proof" {
    local call
    for call in cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease cuEventRecord cuStreamBeginCapture_v2; do
        prove --mem 2GiB --fail "$call:1" -- --quick
        [ "$status" = 1 ]
        [[ $proof == *$'\nresult failed\n'* && $proof == *': failed'* && $output == *"stays flush"* ]]
    done
}

@test "on_card --proven: the proofs lie where XDG_STATE_HOME says, beside what is there" {
    export XDG_STATE_HOME=$BATS_TEST_TMPDIR/state
    tests/on_card -- sh -c '[ ! -e "$XDG_STATE_HOME" ]'
    # shellcheck disable=SC2016
    look='[ "$XDG_STATE_HOME" = "$1" ] && cmp "$XDG_STATE_HOME"/vramgc/*30.proof build/proven/vramgc/*30.proof'
    tests/on_card --proven -- sh -c "$look" - "$XDG_STATE_HOME"
    [ "$(stat -c %a "$XDG_STATE_HOME/vramgc" "$XDG_STATE_HOME"/vramgc/*30.proof | xargs)" = '700 600' ]
    echo stale | tee "$XDG_STATE_HOME"/vramgc/*30.proof >"$XDG_STATE_HOME/vramgc/mine"
    tests/on_card --proven -- sh -c "$look" - "$XDG_STATE_HOME"
    [ "$(cat "$XDG_STATE_HOME/vramgc/mine")" = stale ]
    unset XDG_STATE_HOME
    tests/on_card --proven -- sh -c "$look" - "$PWD/build/proven"
}
