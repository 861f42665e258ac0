#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2016,SC2238,SC2034,SC2030,SC2031,SC2209
# The launcher: how programs are started, what they find, how they end, and what is said about it.

load helpers

# says COMMAND..., runs [OPTION...] COMMAND...: what `vramgc` and `vramgc run` print, with our folder as WORK, and a status that is not 0.
says() {
    local status=0
    "$vramgc" "$@" >"$work/said" 2>&1 || status=$?
    sed "s|$work|WORK|g" "$work/said"
    [ $status = 0 ] || echo "status $status"
}
runs() { says run "$@"; }

@test "run: what it says of each call" { session run; }

# in_terminal ROWS OPTION...: of such a run.
in_terminal() { FAKE_CUDA=sh command script -qec "stty rows $1 cols 100 && $vramgc run ${*:2} sh -c :" /dev/null </dev/null | tr -d '\r'; }

@test "run: a terminal is told that it works, and the verdict again where the report does not fit; nothing else is" {
    type -P script >/dev/null || skip "SKIPPED: no script (util-linux)"
    shown=$(in_terminal 10)
    equal "${shown%%$'\n'*}" 'vramgc: on; a report follows at the end'
    contains "${shown##*$'\n\n'}" 'vramgc: No allocation failed'
    shown=$(in_terminal 100)
    contains "${shown##*$'\n\n'}" 'Details '
    contains_not "$(in_terminal 10 -q)" 'vramgc: on'
    FAKE_CUDA=sh run_apart "$vramgc" run sh -c :
    contains_not "$errors" 'vramgc: '
}

@test "run: the exit status of the program is ours" {
    run "$vramgc" run true
    equal "$status" 0
    run "$vramgc" run -- sh -c 'exit 7'
    equal "$status" 7
}

@test "run: a program ended by a signal ends us by the same signal" {
    for signal in TERM KILL SEGV; do
        run python3 -c 'import subprocess, sys; print(subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL).returncode)' \
            "$vramgc" run -- sh -c "kill -$signal \$\$"
        equal "$output" "-$(kill -l "$signal")"
    done
}

@test "run: a core of the program is not followed by one of ours" {
    ulimit -c unlimited || skip "SKIPPED: core files are forbidden here"
    case $(cat /proc/sys/kernel/core_pattern) in
        core*) ;;
        *) skip "SKIPPED: core files go elsewhere here" ;;
    esac
    run "$vramgc" run -- sh -c 'ulimit -c 0; kill -ABRT $$'
    equal "$status" 134
    equal "$(ls)" ""
}

@test "run: signals sent to us alone are passed on, and we live on" {
    script trapper <<'TEXT'
for s in TERM HUP QUIT USR1 USR2 INT; do trap "echo got $s >> got; exit 9" $s; done
touch ready
for i in $(seq 100); do sleep 0.05; done
exit 1
TEXT
    for signal in TERM HUP QUIT USR1 USR2 INT; do
        rm -f ready got
        # A shell without job control starts background commands with SIGINT and SIGQUIT ignored; python3 does not.
        python3 -c 'import signal, os, sys
for s in (signal.SIGINT, signal.SIGQUIT): signal.signal(s, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$vramgc" run --no-summary ./trapper &
        launcher=$!
        await ready
        kill -s "$signal" "$launcher"
        status=0
        wait "$launcher" || status=$?
        equal "$status" 9
        equal "$(cat got)" "got $signal"
    done
}

@test "run: Ctrl-C at a terminal reaches the program once, in the terminal's foreground group" {
    # Each signal writes a byte, where a handler of a shell or of Python would take two in a row for one.
    cat >counter.py <<'PYTHON'
import os, signal, time
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
signal.signal(signal.SIGINT, lambda number, frame: None)
if os.tcgetpgrp(0) == os.getpgrp():
    print("foreground", flush=True)
print("READY", flush=True)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    pass
print("interrupt\n" * len(os.read(reader, 100)), flush=True)
os._exit(6)
PYTHON
    # Two signals in a row may still become one on a busy machine, so a fault might hide once, but not thrice.
    for _ in 1 2 3; do
        run python3 "$BATS_TEST_DIRNAME/ctrl_c.py" "$vramgc" run python3 counter.py
        equal "$status" 6
        equal "$(grep -c interrupt <<<"$output")" 1
        contains "$output" foreground
    done
}

@test "run: what Ctrl-C ended has not crashed, though Python ends by a fault then, as while weights load" {
    FAKE_CUDA=sh run python3 "$BATS_TEST_DIRNAME/ctrl_c.py" "$vramgc" run --no-summary -- sh -c \
        'ulimit -c 0; trap "sleep 0.3; kill -ABRT $$" INT; echo READY; while :; do sleep 0.05; done'
    equal "$status" 134
    run "$vramgc" report vramgc-sh.*.vramgc
    contains "$output" 'killed by SIGABRT'
    contains_not "$output" CRASHED
}

@test "run: a signal reaches the program once, whoever else it was sent to" {
    # Each signal writes a byte. A second one would come at once, or after the tenth of a second in which vramgc listens.
    cat >counter.py <<'PYTHON'
import os, signal, time
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
signal.signal(signal.SIGTERM, lambda number, frame: None)
open("ready", "w")
first = os.read(reader, 1)
time.sleep(0.5)
os.set_blocking(reader, False)
try:
    first += os.read(reader, 100)
except BlockingIOError:
    pass
open("got", "w").write(str(len(first)))
PYTHON
    sent() {
        rm -f ready got
        setsid "$vramgc" run --no-summary --out "$work/of-launcher" python3 counter.py "$work/of-program" &
        launcher=$!
        await ready
        "$@"
        wait "$launcher"
        equal "$(cat got)" 1
    }
    to_group() { kill -TERM -- "-$launcher"; }
    to_launcher() { kill -TERM "$launcher"; }
    # As pkill -f; grep finds itself, too.
    to_all_with() { kill -TERM $(grep -lzsF "$1" /proc/[0-9]*/cmdline | cut -d / -f 3) || true; }
    sent to_group
    sent to_launcher
    sent to_all_with "$work/of-program"
    sent to_all_with "$work/of-launcher"
}

@test "run: the summary says that Ctrl-C was pressed even when the status is 0" {
    script polite <<'TEXT'
trap 'exit 0' INT
echo READY
for i in $(seq 100); do sleep 0.05; done
exit 1
TEXT
    FAKE_CUDA=sh run python3 "$BATS_TEST_DIRNAME/ctrl_c.py" "$vramgc" run ./polite
    printf '%s\n' "$output"
    equal "$status" 0
    contains "$output" 'stopped by Ctrl-C, exit 0'
}

# The command ends at once on Ctrl-C, what it has started a moment later, as with `accelerate launch`.
@test "run: after Ctrl-C what the program has started may end, and is told as it ended" {
    cat >worker.py <<'PYTHON'
import os, signal, time
def stop(number, frame):
    time.sleep(0.2)
    open("stopped", "w")
    os._exit(0)
signal.signal(signal.SIGINT, stop)
open("ready", "w")
time.sleep(60)
PYTHON
    script parent <<'TEXT'
trap 'exit 3' INT
FAKE_CUDA=python3 python3 worker.py &
until [ -e ready ]; do sleep 0.01; done
echo READY
while :; do sleep 0.05; done
TEXT
    run python3 "$BATS_TEST_DIRNAME/ctrl_c.py" "$vramgc" run ./parent
    equal "$status" 3
    [ -e stopped ]
    contains "$output" 'stopped by Ctrl-C, exit 3'
    contains "$output" ' at the end'
    contains_not "$output" 'still running'
}

@test "run: after Ctrl-C a process that does not end is waited for no longer than a moment" {
    script parent <<'TEXT'
trap 'exit 3' INT
FAKE_CUDA=python3 python3 -c 'import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
open("pid", "w").write(str(os.getpid()))
time.sleep(60)' >out 2>&1 &
until [ -s pid ]; do sleep 0.01; done
echo READY
while :; do sleep 0.05; done
TEXT
    SECONDS=0
    run python3 "$BATS_TEST_DIRNAME/ctrl_c.py" "$vramgc" run ./parent
    kill "$(cat pid)" || true # it may have gone with its terminal
    equal "$status" 3
    [ "$SECONDS" -lt 50 ] # it sleeps for 60
    contains "$output" 'still running'
    contains "$output" 'command  stopped by Ctrl-C, exit 3; the process above runs on'
}

@test "run: orphans that come to us, as to process 1 of a container, are waited for" {
    cat >as_reaper.py <<'TEXT'
import ctypes, os, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
TEXT
    script orphans <<'TEXT'
for i in 1 2 3; do
    sh -c 'sleep 0.1 & echo $! >>pids'
done
for i in $(seq 400); do # until none of them is there, not even as a zombie
    alive=
    for pid in $(cat pids); do [ ! -e "/proc/$pid" ] || alive=yes; done
    [ "$alive" ] || exit 7
    sleep 0.05
done
TEXT
    run python3 as_reaper.py "$vramgc" run --no-summary ./orphans
    equal "$status" 7
}

@test "run: the program finds signals, process group, files and input as without us" {
    script look <<'TEXT'
grep -E '^(SigBlk|SigIgn|SigCgt)' /proc/self/status
ls /proc/self/fd | wc -l
ps -o pgid=,sid= -p $$
cat
TEXT
    alone=$(echo input | ./look)
    watched=$(echo input | "$vramgc" run --no-summary ./look)
    equal "$watched" "$alone"
    ignoring='import signal, os, sys
for s in (signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGINT])
os.execvp(sys.argv[1], sys.argv[1:])'
    alone=$(echo input | python3 -c "$ignoring" grep -E '^Sig(Blk|Ign)' /proc/self/status)
    watched=$(echo input | python3 -c "$ignoring" "$vramgc" run --no-summary grep -E '^Sig(Blk|Ign)' /proc/self/status)
    equal "$watched" "$alone"
}

@test "run: the library is in front of LD_PRELOAD, once, and what was there stays" {
    run "$vramgc" run --no-summary printenv LD_PRELOAD
    equal "$output" "$library"
    cp "$built/libempty.so" other.so
    LD_PRELOAD=$work/cwd/other.so run "$vramgc" run --no-summary printenv LD_PRELOAD
    equal "$output" "$library:$work/cwd/other.so"
    LD_PRELOAD="$work/cwd/other.so $library" run "$vramgc" run --no-summary printenv LD_PRELOAD
    equal "$output" "$library:$work/cwd/other.so"
}

# Web UIs have a --lowvram that moves models to RAM.
@test "run, help: where --lowvram is named it is said that no model is moved to RAM" {
    for command in '' 'help run' 'help env'; do
        # shellcheck disable=SC2086
        contains "$({ "$vramgc" $command || true; } 2>&1 | tr -s ' \n' ' ')" 'no model'
    done
    contains "$("$vramgc" env --give-back=at-once)" "VRAMGC_LOWVRAM='1'"
    manual=$("$top/scripts/texts" man "$vramgc")
    contains "$manual" 'give\-back threshold|at\-once'
    contains "$manual" 'No model'
}

@test "run: a path too long for VRAMGC_OUT is refused before anything runs" {
    long=$(printf 'x%.0s' $(seq 200))
    mkdir -p "$long/$long/$long/$long/$long/$long" && cd "$long/$long/$long/$long/$long/$long"
    run_apart "$vramgc" run touch ran
    equal "$status" 125
    one_line "$errors"
    contains "$errors" 'is longer than'
    [ ! -e ran ]
    run "$vramgc" run -o "$work/x.%p" true
    equal "$status" 0
}

@test "run: the library is found beside us, in ../lib/vramgc, in ../lib, and nowhere else" {
    for place in lib/vramgc lib; do
        mkdir -p "$work/$place"
        mv "$library" "$work/$place/libvramgc.so"
        library=$work/$place/libvramgc.so
        run "$vramgc" run --no-summary printenv LD_PRELOAD
        equal "$output" "$library"
    done
    mv "$library" ./libvramgc.so
    run_apart "$vramgc" run touch ran
    equal "$status" 125
    one_line "$errors"
    contains "$errors" 'libvramgc.so is neither in'
    [ ! -e ran ]
}

@test "run, env: a path that the loader cannot take has a link in the state folder, which stays" {
    for folder in 'my dir ü' 'a:b' 'a$b'; do
        cp -r "$work/bin" "$work/$folder"
        run_apart "$work/$folder/vramgc" run --no-summary printenv LD_PRELOAD
        equal "$errors" ''
        link=$output
        contains "$link" "$work/state/vramgc/preload-"
        [ "$link" -ef "$work/$folder/libvramgc.so" ]
        equal "$("$work/$folder/vramgc" run --no-summary printenv LD_PRELOAD)" "$link"
        "$work/$folder/vramgc" env >lines
        equal "$(sh -c '. ./lines; printenv LD_PRELOAD')" "$link"
        FAKE_CUDA=sh run_apart "$work/$folder/vramgc" run sh -c :
        contains "$errors" VERDICT
    done
    equal "$(find "$work/state/vramgc" -name 'preload-*' | wc -l)" 3
}

@test "run: a path that the loader cannot take is refused, not run without us, where no link can be had" {
    for folder in 'a b' 'a:b' 'a$b'; do
        cp -r "$work/bin" "$work/$folder"
        XDG_STATE_HOME=$work/$folder run_apart "$work/$folder/vramgc" run touch ran
        equal "$status" 125
        one_line "$errors"
        contains "$errors" 'the loader cannot preload a path with a '
        [ ! -e ran ]
    done
}

@test "run: a link to vramgc finds the library beside the real one" {
    mkdir "$work/links"
    ln -s "$vramgc" "$work/links/vramgc"
    run "$work/links/vramgc" run --no-summary printenv LD_PRELOAD
    equal "$output" "$library"
}

@test "run: --malloc puts an installed allocator behind the library" {
    mkdir "$work/allocators"
    cp "$built/libempty.so" "$work/allocators/libjemalloc.so.2"
    cp "$built/libempty.so" "$work/allocators/libtcmalloc_minimal.so.4"
    export LD_LIBRARY_PATH=relative:$work/allocators
    run "$vramgc" run --no-summary --malloc jemalloc printenv LD_PRELOAD
    equal "$output" "$library:$work/allocators/libjemalloc.so.2"
    LD_PRELOAD=$built/libempty.so run "$vramgc" run --no-summary --malloc tcmalloc printenv LD_PRELOAD
    equal "$output" "$library:$work/allocators/libtcmalloc_minimal.so.4:$built/libempty.so"
    run "$vramgc" run --no-summary --malloc glibc printenv LD_PRELOAD
    equal "$output" "$library"
    run_apart "$vramgc" run --malloc nedmalloc touch ran
    equal "$status" 125
    one_line "$errors"
    [ ! -e ran ]
}

@test "run: an allocator that is not installed is 125" {
    # TCMalloc is looked for in LD_LIBRARY_PATH and in the system's folders; a machine that has it cannot show this.
    for found in /usr/lib/*/libtcmalloc*.so.4 /usr/lib/libtcmalloc*.so.4 /usr/lib64/libtcmalloc*.so.4 \
        /usr/local/lib/libtcmalloc*.so.4; do
        [ ! -e "$found" ] || skip "SKIPPED: TCMalloc is installed here"
    done
    run_apart "$vramgc" run --malloc tcmalloc touch ran
    equal "$status" 125
    one_line "$errors"
    contains "$errors" 'not installed'
    [ ! -e ran ]
}

@test "run: the TCMalloc that webui.sh would have added is added" {
    mkdir "$work/allocators"
    cp "$built/libempty.so" "$work/allocators/libtcmalloc_minimal.so.4"
    export LD_LIBRARY_PATH=$work/allocators
    script webui.sh <<'TEXT'
# prepare_tcmalloc would look for libtcmalloc here
printenv LD_PRELOAD
TEXT
    both=$library:$work/allocators/libtcmalloc_minimal.so.4
    run_apart "$vramgc" run --no-summary ./webui.sh
    equal "$output" "$both"
    equal "$errors" ""
    run_apart "$vramgc" run --no-summary --log info bash webui.sh --api
    equal "$output" "$both"
    equal "$errors" "vramgc: added $work/allocators/libtcmalloc_minimal.so.4, as the start script does itself while LD_PRELOAD is empty"
    NO_TCMALLOC=1 run "$vramgc" run --no-summary ./webui.sh
    equal "$output" "$library"
    LD_PRELOAD=$built/libempty.so run "$vramgc" run --no-summary ./webui.sh
    equal "$output" "$library:$built/libempty.so"
    run "$vramgc" run --no-summary --malloc glibc ./webui.sh
    equal "$output" "$library"
    sed -i /tcmalloc/d webui.sh
    run "$vramgc" run --no-summary ./webui.sh
    equal "$output" "$library"
}

# So ComfyUI and InvokeAI, and SD.Next, whose webui.sh adds none, keep the allocator that they have.
@test "env: TCMalloc is added for the webui.sh that would have added it, and for no other script" {
    mkdir "$work/allocators"
    cp "$built/libempty.so" "$work/allocators/libtcmalloc_minimal.so.4"
    export LD_LIBRARY_PATH=$work/allocators
    "$vramgc" env >webui-user.sh
    "$vramgc" env >>webui-user.sh
    script webui.sh <<'TEXT'
set -eu
. ./webui-user.sh
[ "$LD_PRELOAD" ] || prepare_tcmalloc
printenv LD_PRELOAD
TEXT
    both=$library:$work/allocators/libtcmalloc_minimal.so.4
    equal "$(./webui.sh)" "$both"
    equal "$(bash webui.sh)" "$both"
    equal "$(NO_TCMALLOC=1 ./webui.sh)" "$library"
    equal "$(LD_PRELOAD=$built/libempty.so ./webui.sh)" "$library:$built/libempty.so"
    sed -i /tcmalloc/d webui.sh
    equal "$(./webui.sh)" "$library"
    equal "$(bash -c '. ./webui-user.sh; printenv LD_PRELOAD')" "$library"
}

@test "run: no home to write to: one line tells where the file goes, and without any folder the program runs all the same" {
    unset VRAMGC_OUT XDG_STATE_HOME
    export TMPDIR=$work/tmp
    mkdir "$TMPDIR"
    (
        unset HOME
        run_apart "$vramgc" run --no-summary printenv VRAMGC_OUT
        equal "$status:$output" "0:$TMPDIR/vramgc-$EUID/vramgc-%e.%p.vramgc"
        one_line "$errors"
        contains "$errors" "statistics go to $TMPDIR/vramgc-$EUID/"
    )
    HOME=/proc run_apart "$vramgc" run --no-summary printenv VRAMGC_OUT
    equal "$output" "$TMPDIR/vramgc-$EUID/vramgc-%e.%p.vramgc"
    HOME=/proc TMPDIR=/proc/none run_apart "$vramgc" run sh -c 'echo "ran with <$VRAMGC_OUT>"; exit 7'
    equal "$status:$output" '7:ran with <>'
    one_line "$errors"
    contains "$errors" 'no folder for statistics'
    HOME=/proc TMPDIR=/proc/none run_apart "$vramgc" run --json x.json true
    equal "$status" 125
}

@test "run: the summary is on standard error, with how the program ended" {
    FAKE_CUDA=sh run_apart "$vramgc" run -- sh -c 'echo hello; exit 3'
    equal "$status" 3
    equal "$output" hello
    contains "$errors" 'VERDICT  No allocation failed'
    contains "$errors" 'exit 3'
    contains "$errors" '= card '
    contains "$errors" "Details  vramgc report --all vramgc-sh."
}

# Its file is there before it says whose it is.
@test "run: a process that is left behind is not said to have ended as the command did" {
    script parent <<'TEXT'
FAKE_CUDA=sleep sleep 60 >out 2>&1 &
echo $! >pid
until grep -qs "$VRAMGC_RUN_ID" vramgc-sleep.*; do sleep 0.01; done
exit 7
TEXT
    run_apart "$vramgc" run ./parent
    kill "$(cat pid)"
    equal "$status" 7
    [[ $errors == *"pid $(cat pid)   still running"$'\n'"command  exit 7; the process above runs on"* ]]
    contains "$errors" ' now'
}

# The file that the stand-in writes tells of five seconds.
@test "run: of two durations the second is told for what it is" {
    FAKE_CUDA=true run_apart "$vramgc" run true
    title=$(grep -E '^-- vramgc' <<<"$errors")
    grep -qE ' [0-9.]+ (us|ms|s), 5.0 s since CUDA began$' <<<"$title"
    equal "${#title}" 80
}

@test "run: the end status is in the file afterwards" {
    FAKE_CUDA=sh run "$vramgc" run --no-summary -- sh -c 'exit 3'
    run "$vramgc" report vramgc-sh.*.vramgc
    contains "$output" 'exit 3'
    rm ./*.vramgc
    FAKE_CUDA=sh run "$vramgc" run --no-summary -- sh -c 'kill -KILL $$'
    equal "$status" 137
    run "$vramgc" report vramgc-sh.*.vramgc
    contains "$output" 'killed by SIGKILL'
    contains "$output" 'VERDICT  CRASHED at '
    equal "$(grep -c 'CRASHED at 0:05.000' <<<"$output")" 0 # the last that the program itself wrote
    contains "$(tr -s ' \n' ' ' <<<"$output")" ': SIGKILL. No allocation had failed'
    contains "$("$vramgc" report --json vramgc-sh.*.vramgc)" '"code": "crashed"'
    contains "$(tr -s ' \n' ' ' <<<"$output")" 'CAUSE SIGKILL often comes from the kernel, for lack of RAM'
    rm ./*.vramgc
    FAKE_CUDA=sh run "$vramgc" run --no-summary -- sh -c 'kill -SEGV $$'
    run "$vramgc" report vramgc-sh.*.vramgc
    contains "$output" ': SIGSEGV. No allocation'
    equal "$(grep -c '^CAUSE' <<<"$output")" 0
    rm ./*.vramgc
    FAKE_CUDA=sh run "$vramgc" run --no-summary -- sh -c 'kill -TERM $$'
    run "$vramgc" report vramgc-sh.*.vramgc
    contains "$output" 'VERDICT  No allocation failed'
}

# Where the kernel counts that for the control group of this test.
@test "run: after SIGKILL it is in the file whether Linux ended a process for lack of RAM" {
    local first=/sys/fs/cgroup/memory second=/sys/fs/cgroup
    grep -qs '^oom_kill ' "$first"/memory.oom_control "$second"/memory.events \
        "$first$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)"/memory.oom_control \
        "$second$(sed -n 's/^0:://p' /proc/self/cgroup)"/memory.events || skip 'it is not counted here'
    FAKE_CUDA=sh FAKE_KILLS=1 run "$vramgc" run --no-summary --out "$PWD/lack.vramgc" -- sh -c 'kill -KILL $$'
    contains "$("$vramgc" report --json lack.vramgc)" '"after_latest": "killed"'
    contains "$("$vramgc" report lack.vramgc)" 'Linux ended a process of its control group for lack of RAM'
    FAKE_CUDA=sh FAKE_KILLS=0 run "$vramgc" run --no-summary --out "$PWD/none.vramgc" -- sh -c 'kill -KILL $$'
    contains "$("$vramgc" report --json none.vramgc)" '"after_latest": "none"'
    FAKE_CUDA=sh FAKE_KILLS=another run "$vramgc" run --no-summary --out "$PWD/another.vramgc" -- sh -c 'kill -KILL $$'
    contains "$("$vramgc" report --json another.vramgc)" '"after_latest": null'
    FAKE_CUDA=tail FAKE_KILLS=1 timeout 60 "$vramgc" run --no-summary --out "$PWD/stays.vramgc" -- sh -c \
        'tail -f /dev/null 3>&- & echo $! >pid; until "$1" report --json stays.vramgc | grep -q running; do sleep 0.05; done' - "$vramgc"
    output=$("$vramgc" report --json stays.vramgc)
    kill "$(cat pid)"
    contains "$output" '"how": "running"'
    contains "$output" '"after_latest": null'
    cp "$(command -v sh)" inner # of whose end `vramgc run` is not told
    FAKE_CUDA=inner FAKE_KILLS=1 "$vramgc" run --no-summary --out "$PWD/inner.vramgc" -- sh -c './inner -c "kill -KILL \$\$"; exit 0'
    output=$("$vramgc" report inner.vramgc | tr -s ' \n' ' ')
    contains "$output" 'VERDICT Ended without a word'
    contains "$output" 'CAUSE Linux ended a process of its control group for lack of RAM'
}

@test "run: killed where nobody noted it is not told as all well" {
    FAKE_CUDA=sh LD_PRELOAD=$library VRAMGC_OUT=$PWD/left.vramgc sh -c 'kill -KILL $$' || true
    run "$vramgc" report left.vramgc
    contains "$(tr -s ' \n' ' ' <<<"$output")" 'VERDICT Ended without a word at '
    contains "$(tr -s ' \n' ' ' <<<"$output")" 'No allocation had failed'
}

@test "run: of several processes each has a line, and the largest a block" {
    script parent <<'TEXT'
FAKE_SCENARIO=unknown FAKE_CUDA=tail tail -n0 /dev/null
FAKE_CUDA=head head -n0 /dev/null
TEXT
    run_apart "$vramgc" run ./parent
    equal "$(grep -c '   held ' <<<"$errors")" 2
    contains "$errors" 'killed, or crashed'
    read -r number pid < <(sed -n 's/^What follows is number \([0-9]*\) of these, pid \([0-9]*\), .*/\1 \2/p' <<<"$errors")
    contains "$(grep '   held ' <<<"$errors" | sed -n "${number}p")" "pid $pid   held"
    equal "$(grep -c '^GPU 0' <<<"$errors")" 1
}

@test "run: a program that went on by exec has two records; the later one has the end" {
    FAKE_CUDA=sh,tail run_apart "$vramgc" run -- sh -c 'exec tail -n0 /dev/null'
    contains "$errors" 'replaced by exec'
    contains "$errors" 'exit 0'
}

@test "run: files of other runs are not taken for ours" {
    FAKE_CUDA=true run "$vramgc" run --no-summary true
    run_apart "$vramgc" run true
    equal "$errors" 'vramgc: no CUDA use was seen in this run; `vramgc doctor -- true` looks for the reason'
}

@test "run: --json writes what is known, also without any use of CUDA" {
    FAKE_CUDA=sh run_apart "$vramgc" run --no-summary --json out.json -- sh -c 'exit 3'
    equal "$status" 3
    equal "$(python3 -c 'import json; d = json.load(open("out.json"))
print(d["schema"], d["run"]["exit_code"], d["run"]["command"], d["processes"][0]["end"]["exit_code"])')" '1 3 sh -c exit 3 3'
    run_apart "$vramgc" run --no-summary --json out.json true
    equal "$(python3 -c 'import json; d = json.load(open("out.json")); print(d["verdict"]["code"], d["processes"])')" 'none []'
    equal "$(ls)" "$(ls out.json vramgc-sh.*)"
}

@test "run: --json does not write through a link that another user has planted" {
    [ "$(id -u)" -eq 0 ] || skip "only root can make a link of another user"
    echo '' >victim
    ln -s victim out && chown -h 65534 out
    : >victim
    run_apart "$vramgc" run --json out touch ran
    equal "$status" 125
    contains "$errors" 'out is a link that is not followed'
    [ ! -e ran ]
    equal "$(cat victim)" ''
}

@test "run: standard error that is closed or not read changes no status" {
    status=0
    FAKE_CUDA=sh "$vramgc" run -- sh -c 'exit 3' 2>&- || status=$?
    equal "$status" 3
    status=0
    { FAKE_CUDA=sh "$vramgc" run -- sh -c 'exit 3' 2>&1 || echo "$?" >status; } | true
    equal "$(cat status)" 3
}

@test "run: a folder that cannot be written costs the statistics only" {
    [ "$(id -u)" != 0 ] || skip "SKIPPED: root may write everywhere"
    mkdir closed && chmod 555 closed && cd closed
    FAKE_CUDA=sh run "$vramgc" run -- sh -c 'exit 3'
    equal "$status" 3
}

@test "run: the real library is quiet in a program without CUDA" {
    [ -e "$top/build/libvramgc.so" ] || skip "SKIPPED: build/libvramgc.so is not built"
    run_apart "$top/build/vramgc" run -- sh -c 'cat /proc/self/maps; exit 4'
    equal "$status" 4
    contains "$output" /libvramgc.so
    equal "$errors" 'vramgc: no CUDA use was seen in this run; `vramgc doctor -- COMMAND` looks for the reason'
    equal "$(ls)" ""
}
