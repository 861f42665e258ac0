# What the tests of reclaim share: they drive PyTorch's own allocator, in the mode that each of them names.
load ../c10/drive

setup() { begin; }

# lay_out RELEASE VERSION-OR-EMPTY: PyTorch's libraries as in a wheel, which says that it is of that version, or nothing. Sets DRIVER.
lay_out() {
    local site=$BATS_TEST_TMPDIR/site-$1-$2 torch=$BATS_TEST_TMPDIR/site-$1-$2/torch
    mkdir -p "$torch"
    ln -sfn "$PWD/build/c10/$1/lib" "$torch/lib"
    cp build/c10/"$1"/c10drive build/c10/"$1"/libc10drive.so "$site/"
    if [ -n "$2" ]; then
        printf "from typing import Optional\n\n__all__ = ['__version__', 'debug']\n__version__ = '%s'\ndebug = False\n" "$2" \
            >"$torch/version.py"
    fi
    DRIVER=$site/c10drive
}

# choice_for RELEASE: PyTorch ends with an error at a name that it does not know.
choice_for() {
    local step=
    [ "$(printf '%s\n' 2.11 "$1" | sort -V | head -n 1)" != 2.11 ] || step=large_segment_size_mb:12,
    echo "${step}expandable_segments:True"
}

# What PyTorch itself says without us: 2.9.1 that the variable has a new name, 2.15 with expandable segments that the card is not
# a large one.
but_for_pytorch() { grep -vE 'is deprecated|nvmlDeviceGetGpuFabricInfoV' <<<"$errors" || true; }

# until_yes COMMAND: for a script of c10drive: waits until the command says yes of the statistics file $1.
until_yes() {
    printf '#!/usr/bin/env bash\nunset LD_PRELOAD\nset -o pipefail\nset -- "%s"\n%s\n' "$BATS_TEST_TMPDIR/record.vramgc" "$1" >"$BATS_TEST_TMPDIR/yes"
    chmod +x "$BATS_TEST_TMPDIR/yes"
    echo "until $BATS_TEST_TMPDIR/yes"
}

# until_action PATTERN: the same, until an action is in the file.
until_action() { until_yes "build/govern/show \$1 | grep -qE '^action $1'"; }

# until_rest MIB: the same, until the file tells of a rest at which so much was held.
until_rest() {
    local rested="import json, sys; sys.exit(json.load(sys.stdin)['processes'][0]['devices'][0]['division_at_rest']['held_bytes'] != $1 << 20)"
    until_yes "build/vramgc report --json \$1 | python3 -c \"$rested\""
}

# field NAME LINE
field() { sed -E "s/.* $1=([^ ]*).*/\1/" <<<"$2"; }

GIB=$((1 << 30))

# 24 GiB, of which the context takes 0.25. Seventeen are reserved, fourteen of them idle; then a request for six more, on a
# stream that cannot use the idle ones, carries utilisation over 80 %: the moment of a refusal.
prepare='alloc a 14GiB; alloc b 3GiB; free a'
cross='alloc c 6GiB stream=1'
untouched='expect vramgc.soft_ooms == 0; expect num_alloc_retries == 0; expect num_ooms == 0'
