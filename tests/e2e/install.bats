#!/usr/bin/env bats
# shellcheck disable=SC2154
# `make install` and the packages, into an empty folder each: the command there finds its library, and runs a program with it. Nothing
# is built here: `make e2e` has been run.

load helpers

# The real library this time, on the simulated device.
setup_real() {
    build=$(dirname "$built")
    export LD_LIBRARY_PATH=$top/build/sim/driver:$top/build/sim/rt13 SIMGPU_DATA_LIMIT=0
    [ -x "$top/build/hook/use" ] || skip "SKIPPED: build/hook/use is not there (make hook)"
}

# works COMMAND: it loads the installed library into a program, and tells of it.
works() {
    run "$1" run -o "$work/at-work.%p" "$top/build/hook/use"
    contains "$output" VERDICT
    contains "$output" 'took 3 MiB'
    rm "$work"/at-work.*
}

@test "make install: prefix, folders and DESTDIR are obeyed; each file is there" {
    setup_real
    make -s -C "$top" BUILD="$build" DESTDIR="$work/root" prefix=/opt/x mandir=/opt/man libdir=/opt/x/lib64 install >/dev/null
    cmp "$top/LICENSE" "$work/root/opt/x/share/doc/vramgc/LICENSE"
    equal "$(cd "$work/root/opt/x/share/doc/vramgc" && find . -type f ! -name LICENSE | sort)" \
        "$(cd "$top/src" && { echo ./prometheus-rules.yml; echo ./grafana-dashboard.json; find ./LIMITS.md ./guides -type f; } | sort)"
    equal "$(cd "$work/root/opt" && find . -type f ! -path '*/doc/*' | sort | tr '\n' ' ')" \
        './man/man1/vramgc.1 ./x/bin/vramgc ./x/include/vramgc.h ./x/lib64/pkgconfig/vramgc.pc ./x/lib64/vramgc/libvramgc.so '`
        `'./x/lib64/vramgc/whatif/libcuda.so.1 ./x/lib64/vramgc/whatif/libcudart.so.11.0 ./x/lib64/vramgc/whatif/libcudart.so.12 '`
        `'./x/lib64/vramgc/whatif/libcudart.so.13 ./x/lib64/vramgc/whatif/libnvidia-ml.so.1 '`
        `'./x/share/bash-completion/completions/vramgc ./x/share/fish/vendor_completions.d/vramgc.fish ./x/share/zsh/site-functions/_vramgc '
    works "$work/root/opt/x/bin/vramgc"
    equal "$(make -s -C "$top" BUILD="$build" DESTDIR="$work/root" prefix=/opt/x mandir=/opt/man libdir=/opt/x/lib64 uninstall 2>&1)" ""
    equal "$(find "$work/root" -mindepth 1)" "$work/root/opt"
}

@test "make install: one word of what to type next; what a system has from its start stays when it is undone" {
    setup_real
    equal "$(make -s -C "$top" BUILD="$build" prefix="$work/usr" install | sed '/^  /d')" \
        "Installed. Next: $work/usr/bin/vramgc run ./webui.sh"
    run make -s -C "$top" BUILD="$build" DESTDIR="$work/root" prefix=here install
    [ "$status" != 0 ]
    contains "$output" 'prefix is to be a whole path, not here'
    contains "$(PATH=$work/usr/bin:$PATH make -s -C "$top" BUILD="$build" prefix="$work/usr" install)" 'Next: vramgc run'
    make -s -C "$top" BUILD="$build" prefix="$work/usr" uninstall
    [ ! -e "$work/usr" ]
    make -s -C "$top" BUILD="$build" DESTDIR="$work/root" install
    touch "$work/root/usr/local/share/fish/others"
    make -s -C "$top" BUILD="$build" DESTDIR="$work/root" uninstall
    equal "$(cd "$work/root/usr/local" && find . -mindepth 1 | sort | tr '\n' ' ')" \
        './bin ./include ./lib ./share ./share/doc ./share/fish ./share/fish/others ./share/man ./share/man/man1 '
}

@test "make install: what was built is installed, however old, and nothing is written where it lies; without it all is built" {
    setup_real
    cd "$work" && mkdir built
    cp "$build/vramgc" "$build/libvramgc.so" built
    touch -d 2020-01-01 built/*
    before=$(stat -c '%n %Y' built built/*)
    output=$(make -s -C "$top" BUILD="$work/built" prefix="$work/usr" install)
    contains "$output" 'NOTE: the source has changed since the build that is installed now; for the newer one: make'
    equal "$(stat -c '%n %Y' built built/*)" "$before"
    cmp built/libvramgc.so usr/lib/vramgc/libvramgc.so
    touch built/*
    equal "$(make -s -C "$top" BUILD="$work/built" prefix="$work/usr" install | grep -c NOTE)" 0
    for goals in install 'clean install' 'all install'; do
        [ "$goals" != install ] || rm built/vramgc
        # shellcheck disable=SC2086
        contains "$(make -n -C "$top" BUILD="$work/built" $goals)" "LINK $work/built/vramgc"
    done
}

@test "make install: below HOME, without root, whoever writes the ~; everybody may read it; undone, nothing is left" {
    setup_real
    export HOME=$work/home
    umask 077
    make -s -C "$top" BUILD="$build" prefix='~/.local' install >/dev/null
    works "$HOME/.local/bin/vramgc"
    equal "$(find "$HOME/.local" -type f ! -perm -444)" ''
    make -s -C "$top" BUILD="$build" prefix='~/.local' uninstall
    [ ! -e "$HOME/.local" ]
}

@test "make: what to type next is to install, or how to go on without" {
    setup_real
    contains "$(env -u MAKELEVEL -u MAKEFLAGS -u V make -n -C "$top" -W "$build/vramgc" BUILD="$build" all)" \
        "Built. Next: sudo make install, or without it $build/vramgc run ./webui.sh"
}

@test "make install: bindir and libdir between which the command finds its library, or none is installed" {
    setup_real
    make -s -C "$top" BUILD="$build" prefix="$work/usr" bindir="$work/here/bin" libdir="$work/here/lib64" install >/dev/null
    works "$work/here/bin/vramgc"
    run make -s -C "$top" BUILD="$build" prefix="$work/other" bindir="$work/other/commands" libdir="$work/libraries" install
    [ "$status" != 0 ]
    contains "$output" "$work/other/commands/vramgc would not find its library in $work/libraries: choose libdir=$work/other/lib"
    [ ! -e "$work/other" ]
}

@test "make install: PREFIX is prefix" {
    equal "$(make -s -C "$top" PREFIX=/opt/y -n install DESTDIR="$work/root" | grep -o "$work/root/opt/y/bin" | sort -u)" "$work/root/opt/y/bin"
}

@test "pkg-config: a program is built with what it says" {
    setup_real
    command -v pkg-config >/dev/null || skip "SKIPPED: no pkg-config"
    make -s -C "$top" BUILD="$build" prefix="$work/here" install >/dev/null
    export PKG_CONFIG_PATH=$work/here/lib/pkgconfig
    equal "$(pkg-config --modversion vramgc)" "$("$vramgc" version | sed -E 's/vramgc ([0-9.]+).*/\1/')"
    equal "$(pkg-config --variable=preload vramgc)" "$work/here/lib/vramgc/libvramgc.so"
    echo '#include <vramgc.h>
int main(void) { return vramgc_version && vramgc_version() == VRAMGC_VERSION_NUMBER ? 0 : 3; }' >has.c
    # shellcheck disable=SC2046
    gcc $(pkg-config --cflags vramgc) has.c -o has
    run ./has
    equal "$status" 3
    LD_PRELOAD=$(pkg-config --variable=preload vramgc) ./has
}

@test "manual: troff has no complaint, and each command, setting and figure is there" {
    "$top/scripts/texts" man "$vramgc" >vramgc.1
    command -v man >/dev/null || skip "SKIPPED: no man"
    equal "$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z vramgc.1 2>&1 >/dev/null)" ""
    page=$(LC_ALL=C.UTF-8 MANWIDTH=200 man -l vramgc.1 | col -b)
    for word in 'vramgc export' 'vramgc list' VRAMGC_KEEP= held_bytes --snapshot-on-oom 'EXIT STATUS'; do
        grep -qF -- "$word" <<<"$page" || contains "$page" "$word"
    done
}

# offered WORD...: what bash offers for the last word of the line.
offered() {
    COMP_WORDS=(vramgc "$@") COMP_CWORD=$#
    _vramgc
    printf '%s\n' "${COMPREPLY[@]}"
}

@test "completion, bash: commands, options of each, values, files" {
    "$top/scripts/texts" completion-bash "$vramgc" >completion
    bash -n completion
    # shellcheck disable=SC1091
    . ./completion
    equal "$(offered exp)" export
    equal "$(offered report --js)" --json
    equal "$(offered run --thr)" --threshold
    equal "$(offered run --mode c)" compact
    [ "$(offered run -- ba | grep -cx bash)" -ge 1 ]
    touch a.vramgc
    equal "$(offered report a.)" a.vramgc
    equal "$(offered run --malloc '' | sort | tr '\n' ' ')" 'glibc jemalloc mimalloc tcmalloc '
    equal "$(offered run --give-back a)" at-once
    equal "$(offered run --out a | sort | tr '\n' ' ')" 'a.vramgc auto '
    equal "$(offered run --threshold a)" ''
}

@test "completion, zsh and fish: the shell takes the file" {
    "$top/scripts/texts" completion-zsh "$vramgc" >_vramgc
    "$top/scripts/texts" completion-fish "$vramgc" >vramgc.fish
    contains "$(cat _vramgc)" "'--mode=["
    contains "$(cat vramgc.fish)" "-l mode -r -f -a 'off observe flush compact auto'"
    ! command -v zsh >/dev/null || zsh -n _vramgc
    ! command -v fish >/dev/null || {
        fish --no-execute vramgc.fish
        contains "$(fish -c 'source vramgc.fish; complete -C "vramgc run --mode c"')" compact
    }
    for shell in zsh fish; do
        command -v "$shell" >/dev/null || skip "SKIPPED: no $shell"
    done
}

# bats test_tags=deep
@test "Debian package: into an empty root, and it works from there" {
    setup_real
    command -v dpkg-deb >/dev/null || skip "SKIPPED: no dpkg-deb"
    deb=$(cd "$top" && scripts/package deb "$work/packages" "$build")
    equal "$(ls "$work/packages")" "$(basename "$deb")" # nothing beside it
    dpkg-deb --extract "$deb" "$work/root"
    equal "$(dpkg-deb --field "$deb" Package)" vramgc
    equal "$(dpkg-deb --field "$deb" Maintainer)" "$(git -C "$top" log -1 --format='%an <%ae>' || echo 'The vramgc authors <root@localhost>')"
    equal "$(dpkg-deb --field "$deb" Homepage)" ''
    # What Debian's policy asks for.
    description=$(dpkg-deb --field "$deb" Description)
    equal "$(awk 'length > 80 || (NR > 1 && !/^ /)' <<<"$description")" ''
    equal "$(dpkg-deb --contents "$deb" | awk '{ print $1 }' | sort -u | tr '\n' ' ')" '-rw-r--r-- -rwxr-xr-x drwxr-xr-x '
    equal "$(find "$work/root" -type f \( -name vramgc -path '*/bin/*' -o -name '*.so' \) -exec readelf -SW {} + | grep -c '\.symtab\|\.debug')" 0
    dpkg-deb --control "$deb" "$work/control"
    (cd "$work/root" && md5sum --quiet -c "$work/control/md5sums")
    equal "$(find "$work/root" -type f | wc -l)" "$(wc -l <"$work/control/md5sums")"
    [ -s "$work/root/usr/share/man/man1/vramgc.1.gz" ]
    grep -q 'contains parts of ncurses' "$work/root/usr/share/doc/vramgc/copyright"
    equal "$(dpkg-deb --contents "$deb" | awk '{ print $2 }' | sort -u)" root/root
    works "$work/root/usr/bin/vramgc"
}

# bats test_tags=deep
@test "packages: MAINTAINER and HOMEPAGE are told; a maintainer without an address is refused; a package replaces an older one of its kind" {
    setup_real
    command -v dpkg-deb >/dev/null || skip "SKIPPED: no dpkg-deb"
    mkdir "$work/packages"
    touch "$work/packages/vramgc_0.0.1_amd64.deb" "$work/packages/vramgc-0.0.1-py3-none-any.whl"
    export MAINTAINER='Ada Byron <ada@example.org>' HOMEPAGE=https://example.org/vramgc
    cd "$top"
    deb=$(scripts/package deb "$work/packages" "$build")
    equal "$(dpkg-deb --field "$deb" Maintainer Homepage)" "Maintainer: $MAINTAINER
Homepage: $HOMEPAGE"
    wheel=$(scripts/package wheel "$work/packages" "$build")
    equal "$(python3 -m zipfile -e "$wheel" "$work/wheel" && grep -E '^(Maintainer|Project)' "$work"/wheel/*.dist-info/METADATA)" \
        "Maintainer-email: $MAINTAINER
Project-URL: Homepage, $HOMEPAGE"
    equal "$(cd "$work/packages" && echo *)" "$(basename "$wheel") $(basename "$deb")"
    MAINTAINER=Ada run scripts/package deb "$work/refused" "$build"
    equal "$status" 2
    equal "$output" "package: MAINTAINER is to be 'Name <address>', not 'Ada'"
    [ ! -e "$work/refused" ]
}

# bats test_tags=deep
@test "wheel: pip installs it into an empty environment, where command and library work; and removes it" {
    setup_real
    python3 -c 'import ensurepip, venv' 2>/dev/null || skip "SKIPPED: no venv"
    wheel=$(cd "$top" && scripts/package wheel "$work/packages" "$build")
    equal "$(ls "$work/packages")" "$(basename "$wheel")"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
    works "$work/venv/bin/vramgc"
    equal "$(readelf -d "$work/venv/bin/vramgc" | grep -c 'NEEDED.*\(ncurses\|tinfo\)')" 0
    "$work/venv/bin/pip" uninstall --quiet --yes vramgc
    [ ! -e "$work/venv/bin/vramgc" ]
}
