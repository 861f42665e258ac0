#!/usr/bin/env bats
# The set-up scripts on machines that lack something: a PATH of links stands for such a machine.
load ../surroundings

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    bin=$BATS_TEST_TMPDIR/bin
    mkdir "$bin"
    ln -s /usr/bin/* "$bin"
    if ! [ -e "$bin/gcc" ]; then ln -s "$(command -v gcc)" "$bin/gcc"; fi
}

# machine USER [MISSING...]: a user with this number, on a machine without these commands
machine() {
    local name
    printf '#!/bin/sh\necho %s\n' "$1" >"$BATS_TEST_TMPDIR/id"
    shift
    for name in id apt-get "$@"; do rm -f "$bin/$name"; done
    mv "$BATS_TEST_TMPDIR/id" "$bin/id"
    printf '#!/bin/sh\necho "$@" >>%s/apt\n' "$BATS_TEST_TMPDIR" >"$bin/apt-get"
    chmod +x "$bin/id" "$bin/apt-get"
}

@test "setup-system: where all is there it says nothing and installs nothing" {
    machine 0
    PATH=$bin run scripts/setup-system
    [ "$status" = 0 ]
    [ -z "$output" ]
    [ ! -e "$BATS_TEST_TMPDIR/apt" ]
}

@test "setup-system: without root one line names what is missing and the command" {
    machine 1000 bats clang
    PATH=$bin run scripts/setup-system --for check
    [ "$status" = 1 ]
    [ "$output" = "setup-system: missing: bats clang; as root: apt-get update && apt-get install bats clang" ]
    [ ! -e "$BATS_TEST_TMPDIR/apt" ]
}

@test "setup-system: what only the tests need is not asked for to build or show" {
    machine 1000 bats clang ctags
    for purpose in build demo; do
        PATH=$bin run scripts/setup-system --for "$purpose"
        [ "$status" = 0 ]
        [ -z "$output" ]
    done
}

@test "setup-system: what only the long tests want is not asked for before" {
    machine 1000 chromium chromium-browser google-chrome debootstrap gpg minisign
    for name in debootstrap gpg minisign; do # whether they are here or not
        printf '#!/bin/sh\n' >"$bin/$name"
        chmod +x "$bin/$name"
    done
    PATH=$bin run scripts/setup-system
    [ -z "$output" ]
    PATH=$bin run scripts/setup-system --for deep
    [ "$status" = 0 ]
    [[ $output == *"their checks are skipped: chromium "* ]]
    printf '#!/bin/sh\n' >"$bin/google-chrome"
    chmod +x "$bin/google-chrome"
    PATH=$bin run scripts/setup-system --for deep
    [ -z "$output" ]
}

@test "setup-system: what is only wanted is said and tolerated" {
    machine 1000 shellcheck
    PATH=$bin run scripts/setup-system
    [ "$status" = 0 ]
    [[ $output == *"not there, their checks are skipped: shellcheck "* ]]
}

@test "setup-system: root has it installed, with one update" {
    machine 0 bats clang
    PATH=$bin run scripts/setup-system
    [ "$status" = 1 ] # this apt-get installs nothing, and that is noticed
    [ "$(grep -c update "$BATS_TEST_TMPDIR/apt")" = 1 ]
    grep -q 'install .*bats clang$' "$BATS_TEST_TMPDIR/apt"
}

@test "setup-system: who builds needs pip, which fetches the headers of CUDA" {
    machine 1000 python3
    printf '#!/bin/sh\n[ "$2" != "import pip" ] || exit 1\nexec /usr/bin/python3 "$@"\n' >"$bin/python3"
    chmod +x "$bin/python3"
    PATH=$bin run scripts/setup-system --for build
    [ "$status" = 1 ]
    [ "$output" = "setup-system: missing: python3-pip; as root: apt-get update && apt-get install python3-pip" ]
}

# old_python NAME: a command that says it is Python 3.10
old_python() {
    printf '%s\n' '#!/bin/sh' \
        'exec /usr/bin/python3 -c "import sys; sys.version_info = (3, 10, 12); exec(sys.argv[2])" "$@"' >"$1"
    chmod +x "$1"
}

@test "setup-system: a package that apt does not know keeps no other from being installed" {
    machine 0 bats clang
    # Refuses two at a time, as where one of them is unknown.
    printf '#!/bin/sh\necho "$@" >>%s/apt\ncase "$*" in *bats\ clang*) exit 100 ;; esac\n' "$BATS_TEST_TMPDIR" >"$bin/apt-get"
    PATH=$bin run scripts/setup-system
    [ "$status" = 1 ]
    grep -q 'install [^=]*=0 bats$' "$BATS_TEST_TMPDIR/apt"
    grep -q 'install [^=]*=0 clang$' "$BATS_TEST_TMPDIR/apt"
}

@test "setup-system: where python3 is too old a newer one beside it is named" {
    machine 1000 python3 python3.11 python3.12 python3.13 python3.14
    old_python "$bin/python3"
    PATH=$bin run scripts/setup-system --for demo
    [ "$status" = 1 ]
    [ "$output" = "setup-system: missing: python3.11-venv; as root: apt-get update && apt-get install python3.11-venv" ]
    PATH=$bin run scripts/setup-system --for build
    [ "$status" = 0 ]
}

@test "setup-system: nothing but an old Python to be had: the newer one is installed in the same call" {
    machine 0 python3 python3.11 python3.12 python3.13 python3.14
    old_python "$BATS_TEST_TMPDIR/old"
    printf '#!/bin/sh\necho "$@" >>%s/apt\ncase "$*" in *python3\ *) cp %s/old %s/python3 ;; esac\n' \
        "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR" "$bin" >"$bin/apt-get"
    PATH=$bin run scripts/setup-system --for demo
    [ "$status" = 1 ]
    [[ ${lines[-1]} == "setup-system: missing: python3.11-venv; "* ]]
    grep -q 'install .*python3 python3-pip python3-venv$' "$BATS_TEST_TMPDIR/apt"
    grep -q 'install [^=]*=0 python3.11-venv$' "$BATS_TEST_TMPDIR/apt"
}

@test "setup-system: a wrong call is status 2" {
    for words in '--for nothing' '--for' 'check' '--what'; do
        # shellcheck disable=SC2086 # words are words
        run scripts/setup-system $words
        [ "$status" = 2 ]
        [[ ${lines[0]} == usage:* ]]
    done
}

@test "setup-python: an interpreter without PyTorch is refused in one line" {
    PYTHON=/usr/bin/python3 run scripts/setup-python --print
    [ "$status" = 1 ]
    [ "$output" = "setup-python: PYTHON=/usr/bin/python3 cannot import torch" ]
    PYTHON=/nowhere/python run scripts/setup-python
    [ "$status" = 1 ]
    [ "$output" = "setup-python: PYTHON=/nowhere/python cannot import torch" ]
}

@test "setup-python: where bats is too old there is another one in build/bats, once" {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/scripts" "$tree/tests/lab"
    cp scripts/setup-python "$tree/scripts"
    cp tests/lab/scripts.bats "$tree/tests/lab"
    cp tests/surroundings.bash "$tree/tests"
    machine 1000 bats
    printf '#!/bin/sh\necho "Bats 1.2.1"\n[ "$*" = --version ]\n' >"$bin/bats"
    # Has torch, as far as is asked, and pip.
    printf '#!/bin/sh\n[ "$1" = -c ] || exec %s/build/venv/bin/python "$@"\n' "$PWD" >"$BATS_TEST_TMPDIR/python"
    chmod +x "$bin/bats" "$BATS_TEST_TMPDIR/python"
    PATH=$bin PYTHON=$BATS_TEST_TMPDIR/python run "$tree/scripts/setup-python"
    [[ $output != *"pip could not fetch"* ]] || skip "SKIPPED: no network"
    [ "$status" = 0 ]
    [[ $output == "== bats: Bats 1.2.1 is too old"* ]]
    run "$tree/build/bats/bin/bats" --filter-tags none --count "$tree/tests/lab/scripts.bats"
    [ "$output" = 0 ]
    PATH=$bin PYTHON=$BATS_TEST_TMPDIR/python run "$tree/scripts/setup-python"
    [ -z "$output" ]
}

@test "setup-python: the versions installed are those that are pinned" {
    run scripts/setup-python --print
    [ "$status" = 0 ]
    [ "$output" = "$PWD/build/venv/bin/python" ]
    build/venv/bin/python - tests/lab/requirements.txt <<'PYTHON'
import importlib.metadata, sys
for line in open(sys.argv[1], encoding="utf-8"):
    if not line.startswith("#"):
        name, version = line.strip().split("==")
        assert importlib.metadata.version(name) == version, line
PYTHON
}

@test "fetch-c10: what is no release is refused in one line, what is there is left alone" {
    . tests/c10/releases
    run scripts/fetch-c10 2.15
    [ "$status" = 1 ]
    [ "$output" = "fetch-c10: '2.15' is not a release such as 2.15.0" ]
    run scripts/fetch-c10
    [ "$status" = 2 ]
    run scripts/fetch-c10 "$NEWEST_RELEASE"
    [ "$status" = 0 ]
    [ -e build/c10/$NEWEST_RELEASE/torch/lib/libc10_cuda.so ]
    [ -e build/c10/$NEWEST_RELEASE/torch/version.py ]
    run scripts/fetch-c10 "$NEWEST_RELEASE"
    [ "$status" = 0 ]
    [ -z "$output" ]
}
