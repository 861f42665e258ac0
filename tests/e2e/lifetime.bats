#!/usr/bin/env bats
# shellcheck disable=SC2154
# The statistics file after every way in which a process can end, and the silence of those that never use CUDA. The program is
# Python with the runtime opened by ctypes, on the simulated device; its libraries are built by `make hook`.
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
    cat >"$BATS_TEST_TMPDIR/gpu.py" <<'TEXT'
import atexit, ctypes, os, signal, subprocess, sys, threading, time
runtime = ctypes.CDLL("libcudart.so.13")
MIB = 1 << 20

def take(mib):
    pointer = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(mib * MIB)) == 0
    return pointer

def give(pointer):
    return runtime.cudaFree(pointer)
TEXT
    # Python 3.12 warns where a process with threads forks, and vramgc's counts.
    export PYTHONPATH=$BATS_TEST_TMPDIR PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore::DeprecationWarning
}

# with COMMAND...: vramgc in front; status, output (both streams), as `run` does.
with() {
    LD_PRELOAD=$library run timeout -k 5 30 "$@"
    printf 'status %s\n%s\n' "$status" "$output"
}

# python CODE: with `from gpu import *`.
python() {
    with python3 -c "from gpu import *
$1"
}

# The single statistics file here, and what is in it.
peek() {
    local files=(*.vramgc*)
    [ "${#files[@]}" -eq 1 ]
    figures=$("$hook/peek" "${files[0]}")
    printf '%s\n' "$figures"
}

has() {
    case " $figures " in
        *" $1 "*) ;;
        *)
            printf 'expected %s in: %s\n' "$1" "$figures" >&2
            return 1
            ;;
    esac
}

no_file() {
    [ -z "$(ls -A)" ] || {
        ls -lA >&2
        return 1
    }
}

@test "exit: the figures are there, and the file says how it ended" {
    python 'a = take(3); b = take(5); give(a)'
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    peek
    has end=exit
    has "held=$((5 << 20))"
    has "peak=$((8 << 20))"
    has calls=3
    grep -qaF "$(uname -n)" ./*.vramgc
}

@test "sys.exit: the same, and the status is the program's" {
    python 'take(3); sys.exit(7)'
    [ "$status" -eq 7 ]
    peek
    has end=exit
    has "held=$((3 << 20))"
}

@test "os._exit: nothing is lost" {
    python 'take(3); os._exit(8)'
    [ "$status" -eq 8 ]
    peek
    has end=exit
    has "held=$((3 << 20))"
    has calls=1
}

@test "os._exit: what another library does there is done" {
    library="$library $hook/libexit_behind.so" python 'take(3); os._exit(8)'
    [ "$status" -eq 9 ]
    peek
    has end=exit
}

@test "SIGINT: Python unwinds and the file says exit" {
    python 'take(3); os.kill(os.getpid(), signal.SIGINT); time.sleep(5)'
    [ "$status" -eq 130 ] || [ "$status" -eq 1 ]
    [[ $output == *KeyboardInterrupt* ]]
    peek
    has "held=$((3 << 20))"
}

@test "a main thread that ends by pthread_exit: the process ends with its last thread" {
    local ms
    for ms in 0 300; do # 300: our thread has looked before that time has passed
        with "$hook/use" "leave:$ms"
        [ "$status" -eq 0 ]
        peek
        has end=exit
        has "held=$((4 << 20))"
        rm ./*.vramgc
    done
}

@test "SIGTERM, SIGKILL, abort and a crash: nothing is lost, no file is damaged" {
    local code expected
    while read -r expected code; do
        python "take(3); $code"
        [ "$status" -eq "$expected" ]
        peek
        has end=unknown
        has "held=$((3 << 20))"
        rm ./*.vramgc
    done <<'TEXT'
143 os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)
137 os.kill(os.getpid(), signal.SIGKILL); time.sleep(5)
134 signal.signal(signal.SIGABRT, signal.SIG_DFL); os.abort()
139 ctypes.string_at(0)
TEXT
}

# Written by our own thread, about once a second.
@test "after SIGKILL the report says what RAM the program had last" {
    LD_PRELOAD='' run timeout -k 5 60 "$top/build/vramgc" run --no-summary --out killed.vramgc -- python3 -c 'from gpu import *
import json
take(3)
ram = b"x" * (300 * MIB)
def noted():
    report = subprocess.run([sys.argv[1], "report", "--json", "killed.vramgc"], capture_output=True, env={})
    host = json.loads(report.stdout)["processes"][0]["host"]
    return min(host[look]["anon_bytes"] or 0 for look in ("latest", "at_peak"))
end = time.time() + 40
while noted() < 300 * MIB:
    assert time.time() < end
    time.sleep(0.05)
os.kill(os.getpid(), signal.SIGKILL)' "$top/build/vramgc"
    [ "$status" -eq 137 ]
    output=$("$top/build/vramgc" report killed.vramgc | tr -s ' \n' ' ')
    grep -qE 'SIGKILL.* At 0:[0-9.:]+ the program had 3[0-9]{2} MiB of RAM\.' <<<"$output"
    [[ $output != *' HOST '* ]] # that is little
}

@test "killed from outside in the middle of work: sums stay within what was ever held" {
    LD_PRELOAD=$library python3 -c 'from gpu import *
give(take(3))
print("ready", flush=True)
while True:
    give(take(3))' >ready 2>&1 3>&- &
    local pid=$!
    until [ -s ready ]; do
        kill -0 "$pid"
        sleep 0.02
    done
    sleep 0.2
    kill -KILL "$pid"
    wait "$pid" || true
    rm ready
    peek
    has "peak=$((3 << 20))"
    [[ $figures == *" held=0 "* || $figures == *" held=$((3 << 20)) "* ]]
    has "pid=$pid"
}

@test "execv with the same process id: two files, none overwritten" {
    python 'take(3); os.execv(sys.executable, [sys.executable, "-c", "from gpu import *; take(5)"])'
    [ "$status" -eq 0 ]
    [ "$(ls ./*.vramgc* | wc -l)" -eq 2 ]
    local first=(*.vramgc)
    figures=$("$hook/peek" "${first[0]}")
    has end=unknown
    has "held=$((3 << 20))"
    local pid=${figures%% *}
    figures=$("$hook/peek" "${first[0]}.1")
    has end=exit
    has "held=$((5 << 20))"
    has "$pid"
}

@test "fork: a child that ends normally leaves the parent's file alone" {
    python 'take(3)
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
os._exit(0)'
    [ "$status" -eq 0 ]
    peek
    has end=exit
    has "held=$((3 << 20))"
    has calls=1
}

@test "fork: a child that frees and allocates does not touch the parent's file" {
    python 'a = take(3)
child = os.fork()
if child == 0:
    give(a)
    pointer = ctypes.c_void_p()
    for mib in (100, 200):
        runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(mib << 20))
    time.sleep(0.3)
    os._exit(0)
os.waitpid(child, 0)
take(5)'
    [ "$status" -eq 0 ]
    peek
    has end=exit
    has "held=$((8 << 20))"
    has "peak=$((8 << 20))"
    has calls=2
    has mallocs=2
}

@test "fork: a child that goes on is silent, has no thread of ours, and can start programs" {
    python 'take(3)
child = os.fork()
if child == 0:
    tasks = len(os.listdir("/proc/self/task"))
    give(take(0)) if tasks < 0 else None
    code = subprocess.run([sys.executable, "-c", "pass"]).returncode
    sys.exit(tasks * 10 + code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))'
    [ "$status" -eq 0 ]
    [ "$output" = 10 ]
    peek
    has "held=$((3 << 20))"
}

@test "fork before CUDA is used: the child is a process of its own, with a file of its own" {
    python 'child = os.fork()
if child == 0:
    take(5)
    sys.exit(0)
os.waitpid(child, 0)
take(3)'
    [ "$status" -eq 0 ]
    [ "$(ls ./*.vramgc | wc -l)" -eq 2 ]
    local file all=
    for file in ./*.vramgc; do
        all+="$("$hook/peek" "$file") "
    done
    figures=$all
    has "held=$((3 << 20))"
    has "held=$((5 << 20))"
}

@test "fork in another thread while recording begins: the child is inert and touches nothing of the parent's" {
    library="$library $hook/libfork.so" python 'take(3)
take(5)'
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    peek
    has end=exit
    has "held=$((8 << 20))"
    has calls=2
    has mallocs=2
    has internal_errors=0
}

@test "vfork and exec: the programs started so are silent, and the parent goes on" {
    python 'take(3)
for i in range(5):
    assert subprocess.run(["true"], close_fds=False).returncode == 0   # posix_spawn or vfork
    os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)
take(5)'
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    peek
    has "held=$((8 << 20))"
}

@test "vfork: a child that cannot become a program has not ended its parent" {
    python 'take(3)
try:
    subprocess.run(["./missing"])
except FileNotFoundError:
    os.kill(os.getpid(), signal.SIGKILL)'
    peek
    has end=unknown
}

@test "a daemon thread that allocates until the very end: no hang, no crash, the file is there" {
    local i
    for i in 1 2 3 4 5; do
        python 'begun = threading.Barrier(3)
def work():
    give(take(3))
    begun.wait()
    while True:
        give(take(3))
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(0.05)'
        [ "$status" -eq 0 ]
        peek
        has end=exit
        rm ./*.vramgc
    done
}

@test "an exit handler that runs late still allocates: recorded" {
    python 'atexit.register(lambda: take(5)); take(3)'
    [ "$status" -eq 0 ]
    peek
    has end=exit
    has "held=$((8 << 20))"
}

@test "threads that start to use CUDA at the same moment: one file, one record" {
    python 'gate = threading.Barrier(16)
def work():
    gate.wait()
    for _ in range(20):
        give(take(1))
    take(1)
threads = [threading.Thread(target=work) for _ in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]'
    [ "$status" -eq 0 ]
    peek
    has "held=$((16 << 20))"
    has "calls=$((16 * 41))"
}

# --- who does not use CUDA ---

@test "programs without CUDA: no file, no output, no thread" {
    with sh -c 'exit 3'
    [ "$status" -eq 3 ]
    [ -z "$output" ]
    with python3 -c 'import os; print(len(os.listdir("/proc/self/task")))'
    [ "$output" = 1 ]
    with sh -c 'ls /proc/$$/task | wc -l'
    [ "$output" = 1 ]
    if type git >/dev/null 2>&1; then
        with git --version
        [[ $output == "git version"* ]]
        [ "$(wc -l <<<"$output")" -eq 1 ]
    fi
    no_file
}

@test "a bad setting is not worth a word where CUDA is not used" {
    export VRAMGC_THRESHOLD=rubbish VRAMGC_NO_SUCH=1
    with python3 -c 'pass'
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    no_file
}

@test "a program that only opens libcuda, or only asks whether there is a device: no file, no thread" {
    with python3 -c 'import ctypes, os
driver = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
if os.environ.get("ASK"):
    assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
print(len(os.listdir("/proc/self/task")))'
    [ "$output" = 1 ]
    no_file
    ASK=1 with python3 -c 'import ctypes
driver = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value == 1'
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    no_file
}

@test "a context is use of CUDA, whichever function made it" {
    local call
    for call in 'cuCtxCreate_v2(there, 0, 0)' 'cuCtxCreate_v3(there, None, 0, 0, 0)' 'cuCtxCreate_v4(there, None, 0, 0)'; do
        with python3 -c "import ctypes
driver = ctypes.CDLL('libcuda.so.1')
context = ctypes.c_void_p()
there = ctypes.byref(context)
assert driver.cuInit(0) == 0 and driver.$call == 0"
        [ "$status" -eq 0 ]
        [ -z "$output" ]
        peek
        has end=exit
        rm ./*.vramgc
    done
}

@test "importing PyTorch is not using CUDA" {
    local interpreter=$top/build/venv/bin/python
    [ -x "$interpreter" ] && [ -x "$top/tests/on_card" ] || skip "no PyTorch under build/venv"
    LD_PRELOAD=$library run timeout 900 "$top/tests/on_card" -- "$interpreter" -c '
import os, torch
print(any(open(f"/proc/self/task/{t}/comm").read().startswith("vramgc") for t in os.listdir("/proc/self/task")))'
    printf '%s\n' "$output"
    [ "$status" -eq 0 ]
    [ "$output" = False ]
    no_file
}

@test "a process without a usable device is silent, though it asks for memory" {
    SIMGPU_DEVICES=0 python 'pointer = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(3 * MIB)) == 100
print(len(os.listdir("/proc/self/task")), "thread")'
    [ "$status" -eq 0 ]
    [ "$output" = "1 thread" ]
    no_file
}

@test "sixty processes without CUDA: silent, all of them" {
    with sh -c 'i=0; while [ $i -lt 60 ]; do (exec true) & i=$((i + 1)); done; wait; echo done'
    [ "$status" -eq 0 ]
    [ "$output" = "done" ]
    no_file
}

@test "a process without CUDA makes no system call for vramgc but those that load it" {
    type strace >/dev/null 2>&1 || skip "no strace"
    strace -o /dev/null true 2>/dev/null || skip "strace is forbidden here"
    local calls='execve|mmap|mprotect|munmap|openat|read|pread64|fstat|newfstatat|close|brk'
    strace -E LD_PRELOAD="$library" -o with true
    strace -o without true
    diff <(sed 's/(.*//' without | grep -Evx "$calls") <(sed 's/(.*//' with | grep -Evx "$calls")
    # One open, one mapping for each part of the file, and nothing is asked of the heap.
    [ "$(grep -c '^brk' with)" -eq "$(grep -c '^brk' without)" ]
    [ "$(grep -c '^openat' with)" -eq "$(($(grep -c '^openat' without) + 1))" ]
    [ "$(grep -c '^mmap' with)" -le "$(($(grep -c '^mmap' without) + 7))" ]
}

# What is said of each way to end: VERDICT, then the line of the process, as far as both can be known. VERDICT is - where it says
# nothing of the end. By vramgc run itself; with a script between, which passes the status on; with one that does not; and with
# `vramgc env` in a shell, of whose end nobody tells.
endings() {
    cat <<'TABLE'
way | by vramgc run, or with such a script | | with a script that hides the status | | by vramgc env |
normal | - | exit 0 | - | exit 0 | - | exit 0
sys.exit | - | exit 3 | - | exit 3; command exit 0 | - | exit 3
exception | - | exit 1 | - | exit 1; command exit 0 | - | exit 1
os._exit(0) | - | exit 0 | - | exit 0 | - | exit 0
os._exit | - | exit 4 | - | exit 4; command exit 0 | - | exit 4
SIGTERM | - | killed by SIGTERM | Ended without a word | ended, status unknown; command exit 0 | Ended without a word | ended, status unknown
SIGKILL | CRASHED SIGKILL | killed by SIGKILL | Ended without a word | ended, status unknown; command exit 0 | Ended without a word | ended, status unknown
SIGSEGV | CRASHED SIGSEGV | killed by SIGSEGV | Ended without a word | ended, status unknown; command exit 0 | Ended without a word | ended, status unknown
Ctrl-C | - | killed by SIGINT; command stopped by Ctrl-C, killed by SIGINT | - | killed by SIGINT; command stopped by Ctrl-C, killed by SIGINT | - | ended, status unknown
handler | - | exit 0; command stopped by Ctrl-C, exit 0 | - | exit 0; command stopped by Ctrl-C, exit 0 | - | exit 0
restart | - | exit 0, started again; exit 0 | - | exit 0, started again; exit 0 | - | exit 0, started again; exit 0
execv | - | replaced by exec; exit 0 | - | replaced by exec; exit 0 | - | replaced by exec; exit 0
TABLE
}

# ends_as HOW COLUMNS [WAY...]: these rows of the table, or all.
ends_as() {
    cat >end.py <<'TEXT'
from gpu import *
way = sys.argv[1]
take(3)
begins = not os.path.exists("begun")
open("begun", "w")
if way == "handler":
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(0))
if way in ("Ctrl-C", "handler"):
    print("READY", flush=True)
    while True:  # for a signal that comes right before a sleep does not end that
        time.sleep(0.05)
if way == "exception":
    raise ValueError
if way == "restart" and begins:
    os._exit(0)
if way == "execv" and begins:
    os.execv(sys.executable, [sys.executable, *sys.argv])
if way.startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, way))
if way.startswith("os._exit"):
    os._exit(0 if "0" in way else 4)
sys.exit(3 if way == "sys.exit" else 0)
TEXT
    cat >script <<'TEXT'
#!/bin/bash
[ "$1" != restart ] || python3 end.py "$1" # as webui.sh does
python3 end.py "$1"
TEXT
    { cat script; echo 'exit 0'; } >hiding
    local how=$1 columns=$2 way verdict end terminal failed=0 wanted
    shift 2
    wanted=" ${*:-$(endings | sed '1d; s/ .*//' | paste -sd ' ')} "
    chmod +x script hiding
    while IFS='|' read -r way verdict end; do
        [[ $wanted == *" $way "* ]] && [ "$how $way" != "direct restart" ] || continue # which nobody would start again
        rm -rf ./*.vramgc* begun
        terminal=()
        case $way in Ctrl-C | handler) terminal=(timeout 60 python3 "$BATS_TEST_DIRNAME/ctrl_c.py") ;; esac
        case $how in
        direct) "${terminal[@]}" "$top/build/vramgc" run python3 end.py "$way" >said 2>&1 ;;
        env) "${terminal[@]}" bash -c 'eval "$("$1" env)"; ./script "$2"' bash "$top/build/vramgc" "$way" >said 2>&1
            "$top/build/vramgc" report ./*.vramgc* >said 2>&1 ;;
        *) "${terminal[@]}" "$top/build/vramgc" run "./$how" "$way" >said 2>&1 ;;
        esac || true
        sed -E 's/\x1b\[[0-9]*m//g; s/\r//' said >plain
        told=$(sed -n '/^VERDICT/,/^$/p' plain | tr -s ' \n' ' ' | grep -oE 'CRASHED at|Ended without a word|SIG[A-Z]+\.' | tr -d . |
            sed 's/ at$//' | paste -sd ' ')
        ends=$(sed -nE 's/.*   pid [0-9]+   (held [0-9.]+ MiB   )?//p; s/.*  pid [0-9]+   (held [0-9.]+ MiB   )?//p; s/^command  /command /p' plain | paste -sd ';' | sed 's/;/; /g')
        if [ "${told:--} | $ends" != "$verdict | $end" ]; then
            printf '%s, %s: expected: %s | %s\n' "$how" "$way" "$verdict" "$end"
            printf 'but was: %s | %s\n' "${told:--}" "$ends"
            cat plain
            failed=1
        fi
    done < <(endings | sed 1d | sed -E 's/ *\| */|/g; s/ *$//' | cut -d '|' -f "1,$columns")
    return $failed
}

@test "endings: what happens daily is no alarm, and a crash is one" {
    ends_as script 2-3 handler restart SIGSEGV
    ends_as env 6-7 Ctrl-C
}

# bats test_tags=deep
@test "endings: as vramgc run sees them" {
    ends_as direct 2-3
}

# bats test_tags=deep
@test "endings: with a script between that passes the status on" {
    ends_as script 2-3
}

# bats test_tags=deep
@test "endings: with a script between that does not" {
    ends_as hiding 4-5
}

# bats test_tags=deep
@test "endings: with vramgc env in a shell" {
    ends_as env 6-7
}
