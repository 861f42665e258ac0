# How tests call PyTorch's own allocator (c10drive) on the simulated device, with the library in front. Each test runs against every
# release in C10_VERSIONS, with the library in VRAMGC_LIBRARY (tests/mutants/ puts a broken one there).

load ../surroundings

# begin: at the top of the repository, with no setting but those that the tests share.
begin() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    . tests/c10/releases
    versions=${C10_VERSIONS:-$NEWEST_RELEASE}
    library=${VRAMGC_LIBRARY:-$PWD/build/libvramgc.so}
    local mutant=${VRAMGC_MUTANT:-}
    unset "${!VRAMGC_@}"
    export VRAMGC_ALLOC_CONF=keep VRAMGC_LOG=warn ${mutant:+VRAMGC_MUTANT="$mutant"}
    export XDG_STATE_HOME=$BATS_TEST_TMPDIR/state # nothing is proven but with --proven
}

# CUDA's major changed with PyTorch 2.11.
cuda_of() { if [ "$(echo "$1" | cut -d. -f2)" -ge 11 ]; then echo 13; else echo 12; fi; }

# since VERSION RELEASE: whether it is that release or a later one.
since() { [ "$(printf '%s\n' "$@" | sort -V | head -n 1)" = "$2" ]; }

# only_since RELEASE, only_before RELEASE: of the versions these are left; the test is skipped where that is none.
only_since() { only since "$1"; }
only_before() { only before "$1"; }
before() { ! since "$@"; }

only() {
    local version left=
    for version in $versions; do
        ! "$1" "$version" "$2" || left+=" $version"
    done
    versions=${left# }
    [ -n "$versions" ] || skip "no release $1 $2 is tried here"
}

# Standard input without the line that vramgc writes when memory ran out: a test of something else expects that memory does.
but_for_ooms() { grep -vE '^vramgc: .* warn  (gpu[0-9]+: out of memory|the host refused page-locked memory): ' || true; }

# drive VERSION SCRIPT [OPTION-OF-SIMGPU...]: the script or its file; sets status, output, errors (but for out-of-memory lines), and facts:
# what the statistics file says. FRONT, BEHIND: more to preload, before the library and after it. DRIVER: another c10drive.
# A script that ends frees what it has, and our own thread may look once more before it stops: where that would show, `_exit 0` ends it.
drive() {
    local version=$1 script=$2 file=$BATS_TEST_TMPDIR/record.vramgc
    [ -e "$script" ] || { echo "$script" >"$BATS_TEST_TMPDIR/drive" && script=$BATS_TEST_TMPDIR/drive; }
    shift 2
    rm -f "$file" "$file".*
    status=0
    local state=$XDG_STATE_HOME
    [[ " $* " != *" --proven "* ]] || state+=.proven # what is proven here is not proven in the test's next run
    XDG_STATE_HOME=$state LD_PRELOAD=${FRONT:+$FRONT:}$library${BEHIND:+:$BEHIND} VRAMGC_OUT=$file tests/on_card --cuda "$(cuda_of "$version")" "$@" -- \
        "${DRIVER:-build/c10/$version/c10drive}" "$script" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
    output=$(cat "$BATS_TEST_TMPDIR/out")
    errors=$(but_for_ooms <"$BATS_TEST_TMPDIR/err")
    facts=
    [ ! -e "$file" ] || facts=$(build/govern/show "$file")
    printf '%s: status %s\n%s\n%s\n' "$version" "$status" "$(tail -n 20 <<<"$output")" "$(tail -n 20 <<<"$errors")"
    grep -E '^(action|refusal) ' <<<"$facts" | tail -n 20 || true
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

# step NAME COMMAND: of a script: waits until the command says yes. Another program may be running the same step just now: it never finds
# an empty file, which would say yes.
step() {
    local file=$BATS_TEST_TMPDIR/step-$1
    printf '#!/usr/bin/env bash\nunset LD_PRELOAD\n%s\n' "$2" >"$file.new"
    chmod +x "$file.new"
    mv "$file.new" "$file"
    echo "until $file"
}

# fact NAME: the figure's value.
fact() { sed -n "s/^$1 //p" <<<"$facts"; }

# actions PATTERN: how many actions (lines that begin so) there are.
actions() { grep -cE "^action $1" <<<"$facts" || true; }
