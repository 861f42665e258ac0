# helpers.bash: what the tests of the command share. Each test has a folder of its own with vramgc and, as libvramgc.so, the
# stand-in of fake_library.c, so that nothing here depends on a GPU or on the real library.
# shellcheck shell=bash disable=SC2034

load ../surroundings

setup() {
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    built=$(cd "$top" && cd "${E2E_BUILD:-build/e2e}" && pwd)
    work=$BATS_TEST_TMPDIR
    mkdir -p "$work/bin" "$work/cwd"
    cp "$(dirname "$built")/vramgc" "$work/bin/vramgc"
    cp "$built/libfake.so" "$work/bin/libvramgc.so"
    library=$work/bin/libvramgc.so
    vramgc=$work/bin/vramgc
    make_file=$built/make_file
    cd "$work/cwd" || return 1
    unset "${!VRAMGC_@}"
    export VRAMGC_PROVE=off # whether a card is tested first is the subject of tests/prove/first.bats
    export XDG_STATE_HOME=$work/state VRAMGC_OUT=vramgc-%e.%p.vramgc VRAMGC_TEST_CLOCK=$work/clock
    "$make_file" clock "$work/clock" 86400 # the runs of sample files may have begun before the machine
}

# Runs a command with standard error apart: sets status, output, errors.
run_apart() {
    status=0
    output=$("$@" 2>"$work/stderr") || status=$?
    errors=$(cat "$work/stderr")
}

# Fails with both texts unless they are equal.
equal() {
    [ "$1" = "$2" ] || {
        printf 'expected: %s\nbut was:  %s\n' "$2" "$1" >&2
        return 1
    }
}

contains() {
    case $1 in
        *"$2"*) ;;
        *)
            printf 'expected to find: %s\nin: %s\n' "$2" "$1" >&2
            return 1
            ;;
    esac
}

contains_not() {
    case $1 in
        *"$2"*)
            printf 'expected not to find: %s\nin: %s\n' "$2" "$1" >&2
            return 1
            ;;
    esac
}

one_line() {
    equal "$(printf '%s\n' "$1" | wc -l)" 1
}

# A script $1 with the text of standard input.
script() {
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}

# Waits until the file $1 is there.
await() {
    local i
    for ((i = 0; i < 200; i++)); do
        [ -e "$1" ] && return 0
        sleep 0.05
    done
    echo "$1 did not appear" >&2
    return 1
}

# Compares a text with the file golden/$1; UPDATE_GOLDEN=1 writes it instead.
golden() {
    local file=$BATS_TEST_DIRNAME/golden/$1
    if [ -n "${UPDATE_GOLDEN:-}" ]; then
        printf '%s\n' "$2" >"$file"
    fi
    diff -u "$file" <(printf '%s\n' "$2") >&2
}

# session NAME: golden/NAME.session has commands, behind `$`, and what they printed: they print it again, to the byte. UPDATE_GOLDEN=1
# writes it anew, with its commands and comments.
session() {
    local line text= last=
    while IFS= read -r line; do
        case $line in
            '$ '*)
                eval "${line#??}" >"$work/printed" 2>&1 || true
                text+=$line$'\n'$(cat "$work/printed")
                [ ! -s "$work/printed" ] || text+=$'\n'
                ;;
            '# '*) [[ -z $text || $last == '# '* ]] || text+=$'\n' && text+=$line$'\n' ;;
            *) continue ;;
        esac
        last=$line
    done <"$BATS_TEST_DIRNAME/golden/$1.session"
    golden "$1.session" "${text%$'\n'}"
}

# Reports hold the version, which changes with each commit.
without_version() {
    sed -E 's/^-- vramgc [^ ]+ -+/-- vramgc VERSION ---/; s/("tool": .*"version": )"[^"]*"/\1"VERSION"/'
}
