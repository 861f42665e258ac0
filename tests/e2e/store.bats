#!/usr/bin/env bats
# shellcheck disable=SC2154
# Where the statistics file goes and what happens when it cannot be had; bad settings. The program must never notice.
load ../surroundings

setup() {
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    hook=$top/build/hook
    library=${VRAMGC_LIBRARY:-$top/build/libvramgc.so}
    local mutant=${VRAMGC_MUTANT:-}
    unset "${!VRAMGC_@}"
    [ -z "$mutant" ] || export VRAMGC_MUTANT=$mutant
    export XDG_STATE_HOME=$BATS_TEST_TMPDIR/state VRAMGC_OUT=vramgc-%e.%p.vramgc
    export LD_LIBRARY_PATH=$top/build/sim/driver:$top/build/sim/rt13
    mkdir "$BATS_TEST_TMPDIR/cwd"
    cd "$BATS_TEST_TMPDIR/cwd" || return 1
}

# use WORD...: runs the small program of tests/hook/use.c: it must end well and say what it always says. Sets errors and
# messages (how many of vramgc's lines there were).
use() {
    LD_PRELOAD="$library${BEHIND:+ $BEHIND}" run bash -c 'exec timeout -k 5 30 "$@" 2>../errors' - "$hook/use" "$@"
    errors=$(cat ../errors)
    messages=$(grep -c '^vramgc: ' ../errors || true)
    printf 'status %s\n%s\n%s\n' "$status" "$output" "$errors"
    [[ $output == "took 3 MiB"* ]]
}

no_file() {
    [ -z "$(ls -A)" ] || {
        ls -lA >&2
        return 1
    }
}

# one_warning TEXT: exactly one line, and it has the text.
one_warning() {
    [ "$status" -eq 0 ]
    [ "$messages" -eq 1 ]
    [ "$(wc -l <<<"$errors")" -eq 1 ]
    [[ $errors == *" warn "*"$1"* ]]
}

holds() {
    "$hook/peek" "$1" | grep -q " held=$((3 << 20)) "
}

@test "a test can set the clock; a file that is none sets nothing" {
    started() { sed -E 's/.* started=([0-9]+) .*/\1/' <<<"$("$hook/peek" "$1")"; }
    printf '\0\0\0\0\0\0\0\1' >clock # 2^56 ns, 2 years
    VRAMGC_TEST_CLOCK=clock VRAMGC_OUT=ahead use
    [ "$(started ahead)" -gt $((1 << 56)) ]
    for clock in /dev/null /dev/zero no-such-file ahead .; do
        VRAMGC_TEST_CLOCK=$clock VRAMGC_OUT=same-$((++n)) use
        [ "$status" -eq 0 ]
        [ -z "$errors" ]
        [ "$(started "same-$n")" -lt $((1 << 56)) ]
    done
}

@test "the file lies in the state folder, which is made for the user only; its name says program and process" {
    unset VRAMGC_OUT
    umask 022
    use
    [ "$status" -eq 0 ]
    [ -z "$errors" ]
    no_file
    local files=("$XDG_STATE_HOME"/vramgc/*.vramgc) all=("$XDG_STATE_HOME"/vramgc/*)
    [[ ${files[0]} =~ /vramgc-use\.[0-9]+\.vramgc$ ]]
    [ "${#files[@]}" -eq 1 ]
    [ "${#all[@]}" -eq 2 ] # and what the user's programs share
    [[ ${all[0]} == */peers2-* ]]
    [ "$(stat -c %a "$XDG_STATE_HOME/vramgc")" = 700 ]
    holds "${files[0]}"
    XDG_STATE_HOME='' HOME=$BATS_TEST_TMPDIR/'100% home' use
    holds "$BATS_TEST_TMPDIR/100% home"/.local/state/vramgc/*.vramgc
}

@test "a home that cannot be had, or where others write: the file lies in a folder of the user's beside it" {
    unset VRAMGC_OUT
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    XDG_STATE_HOME=/proc/none use
    one_warning "statistics go to $TMPDIR/vramgc-$EUID/vramgc-use."
    holds "$TMPDIR/vramgc-$EUID"/*.vramgc
    rm -r "$TMPDIR/vramgc-$EUID"
    mkdir -p "$XDG_STATE_HOME/vramgc"
    chmod 777 "$XDG_STATE_HOME/vramgc"
    use
    one_warning "statistics go to $TMPDIR/vramgc-$EUID/vramgc-use."
    holds "$TMPDIR/vramgc-$EUID"/*.vramgc
    [ -z "$(ls "$XDG_STATE_HOME/vramgc")" ]
    chmod 777 "$TMPDIR/vramgc-$EUID"
    use
    one_warning "no folder for statistics"
}

@test "nobody else reads the file" {
    umask 022
    VRAMGC_OUT=file use
    [ "$(stat -c %a file)" = 600 ]
}

@test "what looks like a secret is masked in the file" {
    # The words come after `end:0`: the program never reads them.
    VRAMGC_OUT=file use end:0 --gradio-auth me:geheim --hf-token=geheim --proxy http://me:geheim@host x
    grep -qF -e '--gradio-auth *** --hf-token=*** --proxy http://***@host x' file
    ! grep -q geheim file
    grep -qF "$PWD/" file
    COMMANDLINE_ARGS='--medvram --gradio-auth me:geheim --api' VRAMGC_OUT=of_webui use end:0
    grep -qF -e ' end:0 (COMMANDLINE_ARGS: --medvram --gradio-auth *** --api)' of_webui
    ! grep -q geheim of_webui
}

@test "a program whose name climbs: the file stays where it belongs" {
    mkdir -p a/unnamed
    LD_PRELOAD=$library VRAMGC_OUT=a/%e/file bash -c 'exec -a .. "$0"' "$hook/use"
    [ -e a/unnamed/file ]
    [ "$(find . -type f | wc -l)" -eq 1 ]
}

@test "the letters of a pattern" {
    VRAMGC_OUT='a-%e-%p-%h-%t-%%-%q-%' use
    local files=(*)
    printf '%s\n' "${files[0]}"
    [[ ${files[0]} =~ ^a-use-[0-9]+-$(uname -n)-[0-9]{10,}-%-%q-%$ ]]
    holds "${files[0]}"
}

@test "no file is ever overwritten" {
    echo precious >mine
    export VRAMGC_OUT=mine
    use
    use
    [ "$(cat mine)" = precious ]
    holds mine.1
    holds mine.2
    [ "$(ls | wc -l)" -eq 3 ]
    # Neither is what a link points to.
    ln -s "$PWD/target" link
    VRAMGC_OUT="link" use
    [ ! -e target ]
    holds link.1
}

@test "VRAMGC_OUT empty: no file and no word" {
    VRAMGC_OUT='' use
    [ "$status" -eq 0 ]
    [ -z "$errors" ]
    no_file
}

@test "what is no plain file gets no neighbour with .1: /dev/null means none, of others one line tells" {
    mkdir dir
    mkfifo pipe
    ln -s /dev/null null
    VRAMGC_OUT=/dev/null use
    [ "$status" -eq 0 ]
    [ -z "$errors" ]
    for name in dir pipe null /dev/stderr; do
        VRAMGC_OUT=$name use
        one_warning "cannot keep statistics in $name: it is no plain file"
    done
    [ "$(echo *)" = 'dir null pipe' ]
    [ ! -e /dev/null.1 ]
}

@test "a folder that is missing: one warning, and the program goes on" {
    VRAMGC_OUT=missing/folder/file use
    one_warning missing/folder/file
    no_file
}

@test "no write permission: one warning, and the program goes on" {
    VRAMGC_OUT=/proc/vramgc-test use
    one_warning /proc/vramgc-test
    if [ "$(id -u)" -eq 0 ]; then
        type setpriv >/dev/null 2>&1 || skip "no setpriv to be another user with"
        chmod 755 "$BATS_TEST_TMPDIR" "$PWD"
        touch ../errors && chmod 666 ../errors
        setpriv --reuid=65534 --clear-groups test -x "$hook/use" || skip "another user cannot come here"
        LD_PRELOAD=$library run setpriv --reuid=65534 --clear-groups sh -c 'exec "$1" 2>../errors' - "$hook/use"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^vramgc: ' ../errors)" -eq 1 ]
        grep -q 'Permission denied' ../errors
    else
        chmod 555 .
        use
        chmod 755 .
        one_warning 'Permission denied'
    fi
    no_file
}

@test "a full disk: one warning, no rest of a file, and the program goes on" {
    FAIL_ALLOT=1 BEHIND=$hook/libfail.so use
    one_warning 'No space left'
    no_file
}

@test "a signal while the file is made: it is made all the same" {
    FAIL_ALLOT=4 BEHIND=$hook/libfail.so VRAMGC_OUT=figures use
    [ "$status" -eq 0 ]
    [ -z "$errors" ]
    holds figures
}

@test "a full disk, a real one" {
    mkdir full
    mount -t tmpfs -o size=64k none full 2>/dev/null || skip "no file system can be mounted here"
    VRAMGC_OUT=full/file use
    local rest
    rest=$(ls -A full)
    umount full
    one_warning 'No space left'
    [ -z "$rest" ]
}

@test "a limit on file sizes: one warning; the signal that ends a program is never sent" {
    local limit
    limit=$(ulimit -S -f)
    ulimit -S -f 100
    use
    ulimit -S -f "$limit"
    one_warning 'File too large'
    no_file
}

@test "a file system without shared mappings: one warning, and the file is written all the same" {
    FAIL_MAP=1 BEHIND=$hook/libfail.so use
    one_warning 'cannot be mapped'
    local files=(*)
    "$hook/peek" "${files[0]}" | grep -q end=exit
    holds "${files[0]}"
}

@test "the same, killed: what was known within the last second or so is there" {
    FAIL_MAP=1 BEHIND=$hook/libfail.so use kill || true
    local files=(*)
    "$hook/peek" "${files[0]}"
    rm "${files[0]}"
    FAIL_MAP=1 LD_PRELOAD="$library $hook/libfail.so" "$hook/use" sleep:60000 >../output 2>../errors 3>&- &
    local pid=$!
    until files=(*) && holds "${files[0]}" 2>/dev/null; do
        kill -0 "$pid"
        sleep 0.05
    done
    kill -KILL "$pid"
    wait "$pid" || true
    holds "${files[0]}"
}

@test "a program that closes descriptors it does not know: its own file is not written to" {
    FAIL_MAP=1 BEHIND=$hook/libfail.so VRAMGC_LOG=debug VRAMGC_LOG_FILE=log VRAMGC_OUT=figures \
        use fds own:mine sleep:2200
    [ "$status" -eq 0 ]
    local file
    for file in mine.*; do
        [ "$(cat "$file")" = precious ]
    done
    [ "$(ls mine.* | wc -l)" -eq 20 ]
}

@test "a program without standard streams: our files do not take their place" {
    FAIL_MAP=1 VRAMGC_LOG=info VRAMGC_LOG_FILE=log VRAMGC_OUT=figures LD_PRELOAD="$library $hook/libfail.so" \
        timeout -k 5 30 "$hook/use" streams <&- >&- 2>&-
    cat log
    grep -q 'info  recording to figures' log
    ! grep -q -e took -e 'into the' log
    holds figures
    ! grep -q -a 'into the' figures
}

@test "a log that the program writes and has locked, too, stays locked" {
    export VRAMGC_LOG=info VRAMGC_LOG_FILE=log VRAMGC_OUT=figures
    use lock:log locked
    [ "$status" -eq 0 ]
    LD_PRELOAD="$library" timeout -k 5 30 "$hook/use" lock:log locked <&- >&- 2>&-
    grep -q 'info  recording to figures' log
}

@test "a daemon that puts a file of its own in the place of standard error: no message goes there" {
    VRAMGC_LOG=debug use errors:data
    [ "$(cat data)" = precious ]
    [ -z "$errors" ]
}

# --- settings ---

@test "a bad value: one line that names variable, value, what is accepted and what is used" {
    VRAMGC_THRESHOLD=rubbish use
    one_warning 'VRAMGC_THRESHOLD=rubbish is not a percentage from 0 to 100, such as 80; using 80'
    [ "$(ls | wc -l)" -eq 1 ]
}

@test "an unknown name: one line with the nearest name" {
    VRAMGC_TRESHOLD=50 use
    one_warning 'VRAMGC_TRESHOLD is not a setting; did you mean VRAMGC_THRESHOLD?'
}

@test "several bad settings: a line for each" {
    VRAMGC_THRESHOLD=101 VRAMGC_COOLDOWN=-1 VRAMGC_MODE=fast VRAMGC_XYZZY=1 use
    [ "$status" -eq 0 ]
    [ "$messages" -eq 4 ]
    [[ $errors == *"VRAMGC_MODE=fast is not one of off|"*"|auto; using auto"* ]]
}

@test "the launcher has said it already: not a word" {
    VRAMGC_RUN_ID=1 VRAMGC_THRESHOLD=rubbish use
    [ -z "$errors" ]
}

@test "VRAMGC_MODE=off: no file, no thread, not a word" {
    VRAMGC_MODE=off VRAMGC_THRESHOLD=rubbish use threads
    [ "$status" -eq 0 ]
    [ -z "$errors" ]
    no_file
    LD_PRELOAD='' run "$hook/use" threads
    local without=${output##*threads=}
    VRAMGC_MODE=off use threads
    [ "${output##*threads=}" -eq "$without" ]
}

@test "VRAMGC_LOG_FILE: messages go there, standard error stays empty" {
    VRAMGC_LOG=info VRAMGC_LOG_FILE='log-%e' VRAMGC_OUT=figures use
    [ -z "$errors" ]
    grep -q '^vramgc: .* info  recording to figures' log-use
    VRAMGC_LOG_FILE=missing/log VRAMGC_OUT=figures2 use
    one_warning missing/log
}

@test "VRAMGC_LOG_FILE: a link that another user has planted is not written through" {
    [ "$(id -u)" -eq 0 ] || skip "only root can make a link of another user"
    : >victim
    ln -s victim log && chown -h 65534 log
    ln -s target own
    VRAMGC_LOG_FILE=log VRAMGC_LOG=info use
    [ ! -s victim ]
    [[ $errors == *"cannot write log"* ]]
    VRAMGC_LOG_FILE=own VRAMGC_LOG=info use
    grep -q recording target
}

@test "VRAMGC_LOG_FILE: a pipe that nobody reads holds nobody up" {
    mkfifo pipe
    VRAMGC_LOG=info VRAMGC_LOG_FILE=pipe VRAMGC_OUT=figures use
    [ "$status" -eq 0 ]
    [[ $errors == *"cannot write pipe"*"info  recording to figures"* ]]
}

@test "VRAMGC_LOG_FILE: a file that may not grow any more ends nobody" {
    local limit
    limit=$(ulimit -S -f)
    head -c 2048 /dev/zero >log
    ulimit -S -f 2
    VRAMGC_LOG=info VRAMGC_LOG_FILE=log VRAMGC_OUT=figures use
    ulimit -S -f "$limit"
    [ "$status" -eq 0 ]
    [ -z "$errors" ]
    [ "$(wc -c <log)" -eq 2048 ]
}

@test "VRAMGC_LOG=off: not a word, whatever happens" {
    VRAMGC_LOG=off VRAMGC_OUT=missing/file VRAMGC_XYZZY=1 use
    [ "$status" -eq 0 ]
    [ -z "$errors" ]
}

@test "threads run beside libraries with much thread-local memory" {
    local kib
    for kib in 504 4096; do
        BEHIND=$hook/libstatic_tls-$kib.so use sleep:300 threads
        [ "$status" -eq 0 ]
        [ -z "$errors" ]
        [ "${output##*threads=}" -gt 1 ]
    done
}
