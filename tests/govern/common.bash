# What the tests of reclaim share. Each test runs against every release in C10_VERSIONS, with the library in VRAMGC_LIBRARY
# (mutants.bats puts broken ones there).

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    versions=${C10_VERSIONS:-2.15.0}
    library=${VRAMGC_LIBRARY:-$PWD/build/libvramgc.so}
    unset "${!VRAMGC_@}" PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING
    export VRAMGC_ALLOC_CONF=keep VRAMGC_LOG=warn
}

# CUDA's major changed with PyTorch 2.11.
cuda_of() { if [ "$(echo "$1" | cut -d. -f2)" -ge 11 ]; then echo 13; else echo 12; fi; }

# lay_out RELEASE VERSION-OR-EMPTY: PyTorch's libraries as in a wheel, torch/lib and torch/version.py. Sets DRIVER.
lay_out() {
    local torch=$BATS_TEST_TMPDIR/site-$1-$2/torch
    mkdir -p "$torch"
    ln -sfn "$PWD/build/c10/$1/lib" "$torch/lib"
    cp build/c10/"$1"/c10drive build/c10/"$1"/libc10drive.so "$torch/"
    if [ -n "$2" ]; then
        printf "from typing import Optional\n\n__all__ = ['__version__', 'debug']\n__version__ = '%s'\ndebug = False\n" "$2" \
            >"$torch/version.py"
    fi
    DRIVER=$torch/c10drive
}

# drive VERSION SCRIPT [OPTION-OF-SIMGPU...]: FRONT: what else to preload, first; sets status, output, errors, and facts: what the statistics file says.
# A script that ends frees what it has, and our own thread may look once more before it stops: where that would show, `_exit 0` ends it.
drive() {
    local version=$1 script=$2 file=$BATS_TEST_TMPDIR/record.vramgc
    shift 2
    rm -f "$file" "$file".*
    status=0
    LD_PRELOAD=${FRONT:+$FRONT:}$library VRAMGC_OUT=$file scripts/simgpu --cuda "$(cuda_of "$version")" "$@" -- \
        "${DRIVER:-build/c10/$version/c10drive}" -c "$script" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
    output=$(cat "$BATS_TEST_TMPDIR/out")
    errors=$(cat "$BATS_TEST_TMPDIR/err")
    facts=
    [ ! -e "$file" ] || facts=$(build/govern/show "$file")
    printf '%s: status %s\n%s\n%s\n' "$version" "$status" "$(tail -n 20 <<<"$output")" "$(tail -n 20 <<<"$errors")"
    grep -E '^(action|refusal) ' <<<"$facts" || true
}

# What PyTorch itself says without us: 2.9.1 that the variable has a new name, 2.15 with expandable segments that the card is not
# a large one.
but_for_pytorch() { grep -vE 'is deprecated|nvmlDeviceGetGpuFabricInfoV' <<<"$errors" || true; }

# passes SCRIPT [OPTION-OF-SIMGPU...]: on every release all expectations hold and nobody has anything to complain about.
passes() {
    local version
    for version in $versions; do
        drive "$version" "$@"
        [ "$status" = 0 ] || return 1
        [ -z "$errors" ] || return 1
    done
}

# until_yes COMMAND: for a script of c10drive: waits until the command says yes of the statistics file $1.
until_yes() {
    printf '#!/usr/bin/env bash\nunset LD_PRELOAD\nset -o pipefail\nset -- "%s"\n%s\n' "$BATS_TEST_TMPDIR/record.vramgc" "$1" >"$BATS_TEST_TMPDIR/yes"
    chmod +x "$BATS_TEST_TMPDIR/yes"
    echo "until $BATS_TEST_TMPDIR/yes"
}

# until_action PATTERN: the same, until an action is in the file.
until_action() { until_yes "build/govern/show \$1 | grep -qE '^action $1'"; }

# fact NAME: the figure's value.
fact() { sed -n "s/^$1 //p" <<<"$facts"; }

# actions PATTERN: how many actions (lines that begin so) there are.
actions() { grep -cE "^action $1" <<<"$facts" || true; }

# field NAME LINE
field() { sed -E "s/.* $1=([^ ]*).*/\1/" <<<"$2"; }

GIB=$((1 << 30))

# 24 GiB, of which the context takes 0.25. Seventeen are reserved, fourteen of them idle; then a request for six more, on a
# stream that cannot use the idle ones, carries utilisation over 80 %: the moment of a refusal.
prepare='alloc a 14GiB; alloc b 3GiB; free a'
cross='alloc c 6GiB stream=1'
untouched='expect vramgc.soft_ooms == 0; expect num_alloc_retries == 0; expect num_ooms == 0'
