# What the tests of the page engine share. Each runs against every release in C10_VERSIONS, with the library in VRAMGC_LIBRARY
# (mutants.bats puts broken ones there).

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    versions=${C10_VERSIONS:-2.15.0}
    library=${VRAMGC_LIBRARY:-$PWD/build/libvramgc.so}
    unset "${!VRAMGC_@}" PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING
    export VRAMGC_MODE=compact VRAMGC_ALLOC_CONF=keep VRAMGC_LOG=warn SIMGPU_STRICT=report
}

# CUDA's major changed with PyTorch 2.11.
cuda_of() { if [ "$(echo "$1" | cut -d. -f2)" -ge 11 ]; then echo 13; else echo 12; fi; }

# drive VERSION SCRIPT [OPTION-OF-SIMGPU...]: the script or its file; sets status, output, errors, and facts: what the statistics file says. BEHIND: more
# to preload.
drive() {
    local version=$1 script=$2 file=$BATS_TEST_TMPDIR/record.vramgc
    [ -e "$script" ] || { echo "$script" >"$BATS_TEST_TMPDIR/drive" && script=$BATS_TEST_TMPDIR/drive; }
    shift 2
    rm -f "$file" "$file".*
    status=0
    LD_PRELOAD=$library${BEHIND:+:$BEHIND} VRAMGC_OUT=$file scripts/simgpu --cuda "$(cuda_of "$version")" "$@" -- \
        "build/c10/$version/c10drive" "$script" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
    output=$(cat "$BATS_TEST_TMPDIR/out")
    errors=$(cat "$BATS_TEST_TMPDIR/err")
    facts=
    [ ! -e "$file" ] || facts=$(build/govern/show "$file")
    printf '%s: status %s\n%s\n%s\n' "$version" "$status" "$(tail -n 20 <<<"$output")" "$(tail -n 20 <<<"$errors")"
    grep -E '^(action|refusal) ' <<<"$facts" | tail -n 5 || true
}

# passes SCRIPT [OPTION-OF-SIMGPU...]: on every release all expectations hold and nobody has anything to complain about: neither
# vramgc nor the simulated device.
passes() {
    local version
    for version in $versions; do
        drive "$version" "$@"
        [ "$status" = 0 ] || return 1
        [ -z "$errors" ] || return 1
    done
}

# fact NAME: the figure's value.
fact() { sed -n "s/^$1 //p" <<<"$facts"; }

# actions PATTERN: how many actions (lines that begin so) there are.
actions() { grep -cE "^action $1" <<<"$facts" || true; }

# capture_finds PASSES: idle memory takes the whole card when a capture begins, nobody has asked the GPU about it, and the capture
# wants some. First the GPU has finished with it by then; then it works for half a second still, and is waited for once.
capture_finds() {
    local fill='alloc a 300MiB; alloc b 180MiB stream=1; fill b 2 stream=1; fill a 1; free a; free b;' i busy=
    local capture='stream 2; capture_begin; alloc g 200MiB; capture_end; expect num_ooms == 0'
    export VRAMGC_THRESHOLD=100 VRAMGC_SAMPLE=10s
    "$1" "$fill synchronize; $capture" --mem 768MiB || return 1
    [ "$(fact page_waits)" = 0 ] || return 1
    for ((i = 0; i < 1800; i++)); do busy+=' fill a 1;'; done
    SIMGPU_LATENCY=card "$1" "${fill/fill a 1;/$busy} $capture" --mem 768MiB || return 1
    [ "$(fact page_waits)" = 1 ] || return 1
    # Where there is enough it goes on at once.
    SIMGPU_LATENCY=card "$1" "${fill/fill a 1;/$busy} $capture" --mem 8GiB || return 1
    [ "$(fact page_waits)" = 0 ]
}
