#!/usr/bin/env bats
# bats file_tags=deep
# shellcheck disable=SC2154
# A release, and what the README says of it, in bare systems (scripts/bare-systems): from nothing to a first report by two of its
# commands. There they run as root in a root of their own; the "web UI" is a program on the simulated device.

load helpers

setup_file() {
    local top
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    git -C "$top" rev-parse HEAD >/dev/null 2>&1 || return 0
    make -s -C "$top" dist PACKAGES="$BATS_FILE_TMPDIR/release" >"$BATS_FILE_TMPDIR/said" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/said" >&3
        return 1
    }
}

# release: its folder; or the test is skipped.
setup_release() {
    release=$BATS_FILE_TMPDIR/release
    [ -d "$release" ] || skip "SKIPPED: no git, so no release"
}

# said WORD: the commands that make dist told, which begin so.
said() {
    sed -n "s/^  \($1 .*\)/\1/p" "$BATS_FILE_TMPDIR/said"
}

# Those lines of the README that something undoes, with that: "COMMAND|UNDO". What a compiler makes there is the release here, and
# lies where it would.
ways() {
    sed -nE 's/^make (deb|wheel) && //; s/ *# undo: */|/p' "$top/README.md"
}

# Who works there has this home, which every system has.
home=/srv

# A root of its own, with the release and a web UI in that home.
bare() { # SUITE
    [ "$(id -u)" = 0 ] && unshare --mount --pid --fork true 2>/dev/null || skip "SKIPPED: no root of its own can be entered here"
    root=$work/root-$1
    cp -a "$top/build/roots/$1" "$root"
    cp "$release"/* "$root$home"
    mkdir -p "$root$home/build/packages"
    cp "$release"/*.deb "$release"/*.whl "$root$home/build/packages"
    mkdir "$root$home/device"
    cp "$top/build/sim/driver/libcuda.so.1" "$top"/build/sim/rt13/libcudart.so.* "$top/build/hook/use" "$root$home/device"
    script "$root$home/webui.sh" <<<"LD_LIBRARY_PATH=$home/device exec $home/device/use"
    # What this machine's network asks for.
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    cp /etc/resolv.conf "$root/etc/"
}

# in_root LINE: as its user would type it, with the web UI's environment active.
in_root() {
    # shellcheck disable=SC2016
    run unshare --mount --pid --fork sh -c 'mount -t proc proc "$1/proc" && exec chroot "$1" env -i HOME="$6" TERM=dumb \
        DEBIAN_FRONTEND=noninteractive SIMGPU_DATA_LIMIT=0 PIP_CERT="$3" http_proxy="$4" https_proxy="$5" \
        PATH="$6/venv/bin":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -ec "cd; sudo() { \"\$@\"; }; $2"' \
        - "$root" "$1" "${PIP_CERT-}" "${http_proxy-}" "${https_proxy-}" "$home" </dev/null
}

fine() {
    in_root "$1"
    equal "$status" 0 || {
        printf '%s\n%s\n' "$1" "$output" >&2
        return 1
    }
}

# The second command, and that the README's undoing leaves nothing.
tells_and_goes() { # UNDO
    fine 'vramgc run ./webui.sh'
    contains "$output" VERDICT
    contains "$output" 'took 3 MiB'
    fine "$1"
    equal "$(find "$root/usr" "$root$home/venv" -name '*vramgc*' 2>/dev/null)" ''
}

# suites: those of the named systems that are there; or a skip.
systems() {
    suites=$(cd "$top/build/roots" 2>/dev/null && ls -d "$@" 2>/dev/null) || true
    [ -n "$suites" ] || skip "SKIPPED: no bare system; scripts/bare-systems says why"
}

@test "dist: the same bytes, wherever and whenever they are made, in the place of older ones" {
    setup_release
    umask 077
    mkdir -p "$work/further/away"
    touch "$work/further/away/vramgc"{_0.0.1_amd64.deb,-0.0.1-py3-none-any.whl,-0.0.1.tar.gz}
    CFLAGS=-O0 TZ=Asia/Tokyo make -s -C "$top" dist PACKAGES="$work/further/away" >/dev/null 2>&1
    equal "$(cat "$work/further/away/SHA256SUMS")" "$(cat "$release/SHA256SUMS")"
    equal "$(ls "$work/further/away")" "$(ls "$release")"
    equal "$(ls "$release")" "$(printf '%s\n' SHA256SUMS "$(cut -d' ' -f3 "$release/SHA256SUMS")")"
}

@test "dist: a tarball of what git tracks, that tells its version without git" {
    setup_release
    tar xzf "$release"/vramgc-*.tar.gz -C "$work"
    folder=$(echo "$work"/vramgc-*/)
    equal "vramgc-$(cd "$work" && GIT_CEILING_DIRECTORIES=$work "$folder/scripts/version")" "$(basename "$folder")"
    [ -f "$folder/Makefile" ]
}

@test "dist: the commands that it tells sign and check; a changed file is found" {
    setup_release
    command -v gpg >/dev/null || skip "SKIPPED: no gpg"
    cp -r "$release" mine && cd mine
    export HOME=$work GNUPGHOME=$work/gnupg
    mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --passphrase '' --quick-generate-key test@localhost
    tools=gpg
    ! command -v minisign >/dev/null || {
        minisign -G -W -p minisign.pub >/dev/null
        tools='gpg minisign'
    }
    for tool in $tools; do
        [ "$(said "$tool" | wc -l)" -ge 2 ]
        while read -r line; do eval "$line"; done < <(said "$tool")
    done
    eval "$(said sha256sum)"
    echo >>"$(ls ./*.whl)"
    run eval "$(said sha256sum)"
    equal "$status" 1
    gpgconf --kill all
    [ "$tools" != gpg ] || skip "SKIPPED: minisign's commands, no minisign"
}

@test "bare systems: a first report by two of the README's commands, without a compiler; and undone" {
    setup_release
    count=0
    systems bookworm trixie jammy noble
    for suite in $suites; do
        while IFS='|' read -r install undo; do
            [[ $install != make* ]] || continue
            bare "$suite"
            fine 'python3 -m venv venv'
            [ ! -e "$root/usr/bin/gcc" ]
            fine "$install"
            tells_and_goes "${undo/ vramgc/ -y vramgc}"
            count=$((count + 1))
            rm -rf "$root"
        done < <(ways)
    done
    [ "$count" -ge 2 ]
}

@test "bare system: by two with a compiler and the packages that the README names; and undone" {
    setup_release
    systems bookworm jammy
    suite=$(tail -1 <<<"$suites")
    # What `vramgc top` needs is left out: then make names it.
    curses='pkg-config libncurses-dev'
    packages=$(sed -n "s/^sudo apt install \(git gcc .*\) $curses$/\1/p" "$top/README.md")
    [ -n "$packages" ]
    IFS='|' read -r install undo < <(ways | grep '^make')
    bare "$suite"
    in_root "apt-get -q update && apt-get install -q -y --no-install-recommends $packages"
    [ "$status" = 0 ] || skip "SKIPPED: the packages for make cannot be had: $(tail -1 <<<"$output")"
    fine 'tar xzf vramgc-*.tar.gz --strip-components=1'
    fine "$install"
    contains "$output" "$curses"
    tells_and_goes "$undo"
}

@test "a system that is too old: apt and pip refuse the packages, and say why" {
    setup_release
    systems bullseye focal
    suite=$(tail -1 <<<"$suites")
    bare "$suite"
    fine 'python3 -m venv venv'
    in_root 'apt install ./vramgc_*.deb'
    [ "$status" != 0 ]
    contains "$output" 'Depends: libc6 (>='
    in_root 'pip install ./vramgc-*.whl'
    [ "$status" != 0 ]
    contains "$output" 'not a supported wheel'
}
