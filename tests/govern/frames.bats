#!/usr/bin/env bats
# Which function of Python runs is read from memory whose layout each release changes: every Python at hand is asked whether it is so.
load common

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

# each_python COMMAND...: with each as its first argument; those of pyenv, too, where python3 is one of these.
each_python() {
    local python tried=0 pyenv
    pyenv=$(command -v pyenv || true)
    for python in build/venv/bin/python $(compgen -c python3 | grep -E '^python3(\.[0-9]+)?$' | sort -u) \
        $(compgen -G "${pyenv%/*}/../versions/*/bin/python3"); do
        is_new_enough "$python" || continue
        run "$@" "$python"
        echo "$python: $output"
        [ "$status" = 0 ]
        tried=$((tried + 1))
    done
    [ "$tried" -gt 0 ]
}

reads_frames() { "$1" tests/govern/frames.py build/govern/libframes.so; }

@test "frames, names and exceptions of a thread are read as Python tells them" { each_python reads_frames; }

hears_nothing() {
    rm -f "$BATS_TEST_TMPDIR"/record*
    VRAMGC_OUT=$BATS_TEST_TMPDIR/record LD_PRELOAD=$library timeout 60 tests/on_card --cuda 13 --mem 1GiB -- \
        "$1" tests/govern/python/hooks.py build/govern/show "$BATS_TEST_TMPDIR/record"
}

@test "no hook of the program's is told of vramgc: trace, profile, sys.monitoring, audit, gc, threading" { each_python hears_nothing; }
