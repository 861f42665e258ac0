#!/usr/bin/env bats
# Which function of Python runs is read from memory whose layout each release changes: every Python at hand is asked whether it is so.
load common

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

@test "frames, names and exceptions of a thread are read as Python tells them" {
    local python tried=0
    for python in build/venv/bin/python $(compgen -c python3 | grep -E '^python3(\.[0-9]+)?$' | sort -u); do
        is_new_enough "$python" || continue
        run "$python" tests/govern/frames.py build/govern/libframes.so
        echo "$python: $output"
        [ "$status" = 0 ]
        tried=$((tried + 1))
    done
    [ "$tried" -gt 0 ]
}
