#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2030,SC2031
# `vramgc top`: which programs are found, whether a card's parts add up, and the screen as a person sees it. Only processes that a
# test has started are asked for: others may run on the same machine.

load helpers

teardown() {
    [ ! -e "$work/pids" ] || xargs -r kill <"$work/pids" 2>/dev/null || true
    [ ! -e "$work/deaf" ] || xargs -r kill -KILL <"$work/deaf" 2>/dev/null || true
}

# Programs stand in the order of their numbers: these must not begin anew between two of a test.
numbers_ahead() {
    local last most
    read -r most </proc/sys/kernel/pid_max
    while read -r _ _ _ _ last </proc/loadavg && [ "$last" -gt $((most - 2000)) ]; do
        /bin/true
    done
}

# hold SCENARIO FILE [HOW]: a process with that file, in held.
hold() {
    [ -e "$work/pids" ] || numbers_ahead
    python3 "$top/tests/e2e/hold.py" "$make_file" "$@" 3>&- &
    held=$!
    pids+=("$held")
    echo "$held" >>"$work/pids"
    await "$2.ready"
}

# --- what it says of recorded files, word by word: golden/top.session. A number there is that of the program that was started as the
# so many'th; times that pass while the test runs are TIME. ---

pids=('')
given() {
    words=()
    for word; do [[ $word =~ ^[0-9]{1,2}$ ]] && words+=("${pids[$word]}") || words+=("$word"); done
}
masked() {
    local i by=()
    for ((i = 1; i < ${#pids[@]}; i++)); do
        by+=(-e "s/^ *${pids[i]} /$(printf '%9s' "pid$i") /" -e "s/\\b${pids[i]}\\b/pid$i/g")
    done
    sed -E "${by[@]}" -e 's/pid pid/pid/; s/ [0-9:]{8}$/ HH:MM:SS/; s/[0-9]+ [hm] [0-9]+ [ms]|[0-9]+[.][0-9] s/TIME/; s/(TIME) +/\1 /; s/(, pid[0-9]+) +/\1  /' \
        -e '/^  [|]/d' # the picture is what its tests are about
}
says() {
    given "$@" && "$vramgc" "${words[@]}" | masked
    local status=${PIPESTATUS[0]}
    [ "$status" = 0 ] || echo "status $status"
}
once() { says top --once "$@"; }
bars() { once "$@" | grep -E '^(GPU|  \[|[+=]|status)'; }
rest() { once "$@" | grep -E '^ {11}'; } # of what is said of a program
found() { once "$@" | grep -E 'program|nique|status' | sed 's/ under.*//'; }
nvml() { LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB "$@"; }
alter() { "$make_file" set "$(printf "\\x$((60 + $1))")" "${@:2}"; }
stops() {
    kill -STOP "${pids[$1]}"
    until grep -q '^State:.T' "/proc/${pids[$1]}/status"; do sleep 0.05; done
}
# beside COMMAND...: another program.
beside() {
    "$@" 3>&- &
    pids+=("$!")
    echo $! >>"$work/pids"
}

@test "top --once, set: what they say of each program" { session top; }

gone() {
    kill "$1"
    wait "$1" || true
}

# on_screen STEPS [ARGUMENT-OF-TOP...]
on_screen() {
    local steps=$1
    shift
    "$top/tests/e2e/screen.py" "$steps" "$vramgc" top "$@" 3>&-
}

# In each block of a card the column of what is held adds up, as it is shown.
adds_up() {
    python3 - "$1" <<'PYTHON'
import re, sys
sums, so_far = 0, 0
for line in open(sys.argv[1]):
    figures = re.findall(r"\d[\d,]*", line[30:])
    if re.match(r"^[ \d]{8}\d [^ ]|^\+ ", line):
        so_far += int(figures[-1].replace(",", ""))
    elif line.startswith("="):
        assert so_far == int(figures[-1].replace(",", "")), (so_far, line)
        sums, so_far = sums + 1, 0
    elif line.startswith("GPU"):
        so_far = 0
assert sums, open(sys.argv[1]).read()
PYTHON
}

# called FILE COMMAND: what the program that holds that file was started as.
called() {
    "$make_file" set "$1" command_line "$2"
}

# What has a name in its arguments, or in a longer name, is another program.
@test "mark, set, park, wake: a program by its name; of several none is meant, and they are listed" {
    local command name
    hold plain a
    first=$held
    hold plain b
    called a 'python /opt/CosyUI/main.py --left-only'
    called b 'python /opt/Anvil/main.py --models /opt/CosyUI'
    for name in CosyUI cosyui 'CosyUI: main.py' "$first"; do
        "$vramgc" mark "$name" "of $name"
        "$vramgc" report --all a | grep -qE "[0-9] +of $name$"
    done
    "$vramgc" set anvil headroom=1GiB
    called b 'python -m anvil'
    "$vramgc" mark anvil 'a module'
    for command in "mark main.py there" "set Main.py cap=1GiB" "park main.py" "wake main.py"; do
        called b 'python main.py'
        # shellcheck disable=SC2086
        run "$vramgc" $command
        equal "$status" 1
        contains "${output,,}" "main.py is the name of several programs under vramgc; give the number of one:"
        contains "$output" "$first  CosyUI: main.py --left-only"
        contains "$output" "$held  "
        called b 'python other.py main.py'
        for name in left-only cosy main opt a; do
            # shellcheck disable=SC2086
            run "$vramgc" ${command/[Mm]ain.py/$name}
            equal "$status" 1
            contains "$output" "no program under vramgc is called $name;"
        done
    done
    "$vramgc" report --all b >report
    equal "$(grep -cE '[0-9] +(there|of .*)$' report)" 0
    equal "$("$vramgc" report --all a | grep -cE '[0-9] +there$')" 0
}

@test "top --once: a program that ends goes away, and a child that keeps its mapping is not taken for it" {
    hold plain a
    "$vramgc" top --once "$held" | grep -q "$held launch.py"
    gone "$held"
    run "$vramgc" top --once "$held"
    equal "$status" 1
    contains "$output" 'None of these processes runs under vramgc now.'
    hold plain b parent
    child=$(cat b.child)
    echo "$child" >>"$work/pids"
    contains "$("$vramgc" top --once "$child")" 'None of these'
}

# As NVML tells it, which the simulated device has, too.
@test "top: how busy a program keeps the card and the processor, and its RAM, where there is room" {
    hold killed a busy
    export LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB
    head=' +PID PROGRAM +GPU%  CPU% RAM MiB    LIVE'
    SIMGPU_BUSY=42 SIMGPU_OTHERS=$held:9GiB TERM=vt100 on_screen "
        see ^ +PID PROGRAM +GPU% +LIVE
        see ^ +$held launch.py --xformers +42 +[1-9]
        resize 24 79
        unseen GPU%
        resize 24 100
        see ^$head
        see ^ +$held launch.py --xformers +42 +[1-9][0-9]* +13,312 +[1-9]
        type q
        end 0" "$held"
    SIMGPU_BUSY=0 SIMGPU_OTHERS=$held:9GiB TERM=vt100 on_screen "
        see ^GPU 0
        resize 24 100
        see ^ +$held launch.py --xformers +0 +[1-9][0-9]* +13,312
        type q
        end 0" "$held"
    SIMGPU_BUSY=none SIMGPU_OTHERS=$held:9GiB TERM=vt100 on_screen "
        see ^GPU 0
        resize 24 100
        see ^ +$held launch.py --xformers +- +[1-9][0-9]* +13,312
        type q
        end 0" "$held"
}

# What is not the program's on a card of 24 GiB: 7 GiB of contexts, then 8 GiB of another program.
@test "top: the picture has the signs of the bar, and what others had before top began is not drawn" {
    export LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB
    hold plain a
    SIMGPU_OTHERS=$held:9GiB "$vramgc" top --once "$held" >out
    cat out
    grep -qE '^  \[#+-{15,} +\]$' out
    grep -qE '^  \| {59}-\|$' out
    equal "$(grep -cE '^  \|.*o.*\|' out)" 0
    SIMGPU_OTHERS=$held:2100MiB,$$:8GiB "$vramgc" top --once "$held" >out
    cat out
    grep -qE '^  \[#+o{15,} +\]$' out
    grep -qE '^  \| {59}o\|$' out
    SIMGPU_OTHERS=$held:2100MiB,$$:8GiB TERM=vt100 on_screen "
        see ^  . {50,}ooo+.\$
        type q
        end 0" "$held"
    "$make_file" set a 'devices[0].stats.other_bytes.current' 1800000000
    SIMGPU_OTHERS=$held:2100MiB "$vramgc" top --once "$held" >out
    cat out
    grep -qE '^  \| *\++\|' out
}

@test "top: how busy the card was, where NVML tells, and there is a line for it" {
    export LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB
    hold plain a
    for signs in "C|4+|busy x 10 %" "C.UTF-8|▄+|GPU busy"; do
        IFS='|' read -r locale row label <<<"$signs"
        LC_ALL=$locale SIMGPU_BUSY=42 SIMGPU_OTHERS=$held:2100MiB TERM=vt100 on_screen "
            see ^  [|] {30,}$row[|] $label\$
            see last 60 s
            resize 12 80
            see last 60 s
            unseen $label
            resize 24 40
            see ^  [|] {10,}$row[|] $label\$
            resize 24 120
            see ^  [|] {70,}$row[|] $label\$
            type q
            end 0" "$held"
    done
    LC_ALL=C SIMGPU_BUSY=100 SIMGPU_OTHERS=$held:2100MiB TERM=vt100 on_screen "
        see ^  [|] +9+[|] busy
        type q
        end 0" "$held"
    LC_ALL=C SIMGPU_BUSY=none SIMGPU_OTHERS=$held:2100MiB TERM=vt100 on_screen "
        see last 60 s
        unseen busy x 10
        type q
        end 0" "$held"
}

@test "top: the word changes whose the picture is" {
    hold plain a
    first=$held
    called a 'python Unique-Left.py'
    hold plain b
    called b 'python Unique-Right.py'
    TERM=vt100 on_screen "
        see 2 programs under
        twice ^  [|]#{60}[|]
        type /
        type unique-left
        see ^ */unique-left_
        see 1 program under
        see ^\\+ +Unique-Right.py, pid $held +2,0
        see ^  [|]o{60}[|]\$
        type \\x7f\\x7f\\x7f\\x7f
        see 2 programs under
        unseen ^\\+ +Unique-Right.py, pid
        type \\r
        see ^ q quit   s sort
        type q
        end 0" "$first" "$held"
}

# Readings are of different moments: the programs say that they hold more than there is.
@test "top: a word that is typed where the page is scrolled shows what matches, and the first card" {
    hold plain a
    TERM=xterm on_screen "
        see ^GPU 0
        resize 6 80
        see PgUp
        type \x1b[6~
        unseen ^GPU 0
        type /
        type zzz
        see ^No program under vramgc matches .zzz.
        see ^GPU 0 .* % of 24,576 MiB in use
        type \r
        type q
        end 0" "$held"
}

# In a folder of that name, as web UIs are started.
# Other programs of this machine may run under vramgc, and have cards of these numbers: only the cards' lines are sure.
@test "top --once: cards that no program under vramgc uses" {
    export LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB SIMGPU_DEVICES=2
    hold plain a
    SIMGPU_OTHERS=$$:4GiB "$vramgc" top --once >out
    cat out
    grep -qE '^GPU [0-9]+ .* 0000:01:00.0 ' out
    grep -qE '^GPU [0-9]+ .* 0000:02:00.0 ' out
    equal "$(sort out | grep '^GPU' | uniq -d)" ''
    equal "$("$vramgc" top --once "$held" | grep -c ^GPU)" 1 # who asks for one program gets its cards
}

# The simulated card's sensors; a file's timeline is of the latest minute, too, since the file says it was written just now.
@test "top --once: the latest minute of a card, and how busy and hot it is where NVML tells" {
    export LD_LIBRARY_PATH=$top/build/sim/nvml:$top/build/sim/driver SIMGPU_MEM=24GiB SIMGPU_BUSY=97
    hold plain a
    LD_DEBUG=files "$vramgc" top --once "$held" >out 2>loaded
    cat out
    contains "$(cat loaded)" libnvidia-ml.so.1
    contains_not "$(grep 'calling init' loaded)" libcuda # it must make no context, and wake no card
    grep -qE '^  busy 97 %   25 C   15 W of 300 W$' out
    equal "$(grep -cE '^  \|.{60}\|' out)" 4
    grep -qE '^  \|.{60}\| 12.0 GiB$' out # as high as half of the card: it had more than a quarter of it at most
    grep -qE '^  \|.{60}\| of 24.0 GiB$' out
    grep -qE '^  \|#{50,60} *\| last 60 s$' out
    SIMGPU_BUSY=none "$vramgc" top --once "$held" | grep -qE '^   25 C   15 W of 300 W$'
    hold compact b
    LD_LIBRARY_PATH='' "$vramgc" top --once | grep -cx 'No NVML: load, heat and power are not known.' | grep -qx 1
}

# Addresses are too short for one; a minute passes.
@test "top --once: a program that has no thread of ours is not called stuck" {
    printf '#!/bin/sh\nfalse\n' >"$work/enough.sh"
    chmod +x "$work/enough.sh"
    (ulimit -S -v $((3 << 20)) && LD_PRELOAD=$top/build/libvramgc.so VRAMGC_OUT=$work/a exec "$top/tests/on_card" --mem 1GiB --cuda 13 -- \
        "$top/build/c10/2.15.0/c10drive" -c "alloc a 300MiB; until $work/enough.sh; _exit 0") 3>&- >"$work/drive" 2>&1 &
    echo $! >>"$work/pids"
    until grep -q 'no thread could be started' "$work/drive"; do sleep 0.05; done
    "$make_file" clock "$work/clock" 86460
    "$vramgc" top --once $! >"$work/out"
    cat "$work/out"
    grep -q c10drive "$work/out"
    contains_not "$(<"$work/out")" 'no sign'
}

# Others may run on the same machine: at most four are told.
@test "top, report: a program that uses CUDA without vramgc, and how to start it with it" {
    "$top/tests/on_card" --mem 2GiB --cuda 13 -- "$top/build/c10/2.15.0/c10drive" -c "alloc a 300MiB; until $work/enough.sh; _exit 0" 3>&- >"$work/drive" 2>&1 &
    echo $! >>"$work/pids"
    until grep -q libcuda.so "/proc/$!/maps"; do sleep 0.05; done
    printf '#!/bin/sh\nfalse\n' >"$work/enough.sh"
    chmod +x "$work/enough.sh"
    "$vramgc" top --once >"$work/out"
    cat "$work/out"
    told=" $! uses CUDA without vramgc; in $work/cwd start it by:" # in lines of 80
    tr -s '[:space:]' ' ' <"$work/out" | grep -qF "$told" || [ "$(grep -c 'uses CUDA without vramgc' "$work/out")" = 4 ]
    script "$work/told" <<<"cd $work && exec '$vramgc' report" # for a person only: at a terminal
    contains_not "$("$work/told" 2>&1)" 'without vramgc'
    python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$work/told" | tr -d '\r' | grep -qE 'pid [0-9]+ uses CUDA without vramgc, and has no report; in .* start it by: vramgc run '
    contains_not "$("$vramgc" top --once 1)" 'without vramgc' # who asks for one program gets that
}

@test "top: 40 columns, and a word that is typed" {
    hold fragmented a
    first=$held
    hold compact b
    TERM=xterm on_screen "
        see GPU 0
        resize 40 40
        see ^      PID PROGRAM +LIVE HELD MiB\$
        see ^ +$first ..--api +1,800    2,048\$
        see ^  11 % of 24,576 MiB in use\$
        see ^= +card +24,576\$
        see ^ q quit
        keep forty
        resize 12 40
        see ^vramgc top  2 programs, by held
        see ^ q quit  s held  PgDn  / word  . help\$
        type \x1b[6~
        see ^= +card +8,192
        unseen ^= +card +24,576
        see ^vramgc top  2 programs, by held
        resize 14 44
        see ^GPU 0 .* 3090
        type \x1b[6~
        unseen ^GPU 0 .* 3090
        see ^vramgc top  2 programs, by held
        type \x1bOB
        see ^ +$first ..--api
        see ^  python launch.py --xformers --api\$
        see ^ q quit  s held  PgDn  Esc back  . help\$
        type ?
        see ^:  idle    held, and used by no tensor\$
        see any other key ends the help
        type q
        see ^ {4}5.0 GiB  load_model .sd_models.py:310
        type \x1b
        resize 40 50
        see ^      PID PROGRAM +LIVE    IDLE HELD MiB\$
        see ^ +$first ..--api +1,800     176    2,048\$
        see ^= +card +24,576\$
        keep fifty
        resize 24 80
        see ^ q quit   s sort
        type /
        type -u launch.pyxx
        see ^ /-u launch.pyxx_
        see 0 programs
        type \\x7f\\x7f
        see ^ /-u launch.py_
        see 1 program under
        type \\r
        see ^ q quit   s sort: held   /-u launch.py   Esc show all   . help
        type \\x1b
        see 2 programs under
        see ^ q quit   s sort: held   / word   up down choose
        type /
        type x?
        see ^No program under vramgc matches .x\\?.\\.\$
        type \\x1b
        see 2 programs under
        type q
        end 0" "$first" "$held"
    equal "$(wc -L <forty)" 40
    equal "$(wc -L <fifty)" 50
    equal "$(awk '/^[ +=] .* [0-9,]+$/ {gsub(",",""); sum += /^=/ ? 0 : $NF} /^=/ {print sum == $NF; sum = 0}' forty | sort -u)" 1
}

@test "top: in 40 columns nothing that is said ends within a word, nor a card's load within a figure" {
    export LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB
    hold plain a
    SIMGPU_OTHERS=$held:2100MiB TERM=vt100 on_screen "
        see GPU 0
        resize 12 40
        see ^  9 % of 24,576 MiB in use  busy 0 %\$
        type q
        end 0" "$held"
    LD_LIBRARY_PATH='' TERM=vt100 on_screen "
        see None of these
        resize 12 40
        see ^None of these processes runs under\$
        see ^vramgc now.\$
        type q
        end 0" 1
}

@test "top: keys, details, help, another size, a program that ends, and the terminal as it was" {
    hold fragmented a
    first=$held
    hold compact b
    # In mode application a terminal sends \eO for the arrows.
    TERM=vt100 on_screen "
        see GPU 0  NVIDIA GeForce RTX 3090
        see GPU 0  NVIDIA GeForce RTX 3070
        see ^ q quit   s sort: held
        keep eighty
        type s
        see by live .*[0-9]:
        type ?
        see used by no tensor
        see Esc        closes them, then shows all\$
        do sleep 2.5
        see used by no tensor
        type x
        unseen used by no tensor
        type \\x1bOB
        see ^ {11}python launch.py --xformers --api\$
        see out of memory: 2
        type \\x1bOB
        see mode compact; peak 7.4 GiB; has used CUDA
        see ^ {11}--xformers --api --listen --medvram\$
        type \\x1bOA
        see mode flush; peak 8.0 GiB;
        see   T end   Esc close   . help
        see ^ {14}LATELY    AT PEAK  WHOSE LIVE MEMORY .lately: within 1
        see ^ {13}5.0 GiB    5.0 GiB  load_model
        see ^ {12}40.0 MiB .* text encode: encode_prompt
        see ^ {19}-    1.6 GiB  VAE: _decode
        see ^ {11}.[ #^:]+. 8.0 GiB\$
        see ^ {11}.[ #^:]*#\^+[ #^:]*.
        type \\x1b
        unseen mode flush
        see   up down choose
        type \\x1bOB
        see mode flush; peak 8.0 GiB;
        resize 50 120
        see ^  \\[.{110}
        resize 8 73
        see PgUp
        type \\x1b[6~
        resize 24 80
        see ^ q quit
        do kill $first
        see 1 program under
        unseen RTX 3090
        see   up down choose
        type q
        end 0" "$first" "$held"
    adds_up eighty
    equal "$(wc -L <eighty)" 80
}

# As root, which other users' programs would hear, too.
@test "top: T or F9 ends the chosen program after y, no other, and nobody else's" {
    hold plain a
    first=$held
    hold plain b
    TERM=xterm on_screen "
        see 2 programs under
        type T
        see ^ up, down: first choose which program ends\$
        type j
        see   Esc close
        type T
        see ^ end $first launch.py. y = SIGTERM\$
        resize 24 40
        see ^ end $first launch.py. y = SIGTERM\$
        resize 24 80
        type n
        see ^ $first goes on\$
        type x
        see   Esc close
        type \x1b[20~
        see ^ end $first launch.py. y = SIGTERM\$
        type y
        see ^ $first has got SIGTERM\$
        see 1 program under
        type j
        see ^ {11}python launch.py
        type T
        see ^ end $held launch.py.
        do kill -9 $held
        see None of these
        type y
        see ^ $held has ended already\$
        type q
        end 0" "$first" "$held"
    status=0
    wait "$first" || status=$?
    equal "$status" 143
    [ "$(id -u)" = 0 ] || return 0
    mkdir -p "$XDG_STATE_HOME/vramgc"
    unset VRAMGC_OUT
    setpriv --reuid 65534 --clear-groups sleep 3600 3>&- &
    echo $! >>"$work/pids"
    until [ "$(stat -c %u "/proc/$!")" = 65534 ]; do sleep 0.05; done
    "$make_file" plain "$XDG_STATE_HOME/vramgc/vramgc-sleep.1.vramgc" pid $!
    TERM=vt100 on_screen "
        see 1 program under
        type j
        see   Esc close
        type T
        see ^ $! is another user's\$
        type y
        see   Esc close
        see 1 program under
        type q
        end 0" $!
    kill -0 $!
}

@test "top: a program that stays after SIGTERM gets SIGKILL: it asks, and of another one it asks for SIGTERM" {
    hold plain a
    first=$held
    hold plain b deaf
    echo "$held" >>"$work/deaf"
    TERM=xterm on_screen "
        see 2 programs under
        type jj
        see ^ {11}python launch.py
        type T
        see ^ end $held launch.py. y = SIGTERM\$
        type n
        see ^ $held goes on\$
        type T
        see ^ end $held launch.py. y = SIGTERM\$
        type y
        see ^ $held has got SIGTERM\$
        type x
        see   T kill  Esc close
        type k
        see   T end   Esc close
        type T
        see ^ end $first launch.py. y = SIGTERM\$
        type n
        see ^ $first goes on\$
        type j
        see   T kill  Esc close
        type T
        see ^ kill $held launch.py. y = SIGKILL\$
        type n
        see ^ $held goes on\$
        type T
        see ^ kill $held launch.py. y = SIGKILL\$
        type y
        see ^ $held has got SIGKILL\$
        see 1 program under
        type q
        end 0" "$first" "$held"
    status=0
    wait "$held" || status=$?
    equal "$status" 137
    kill -0 "$first"
}

@test "top: a card with a program that is looked for stands before those without one, which have a line each" {
    export LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB SIMGPU_DEVICES=8
    hold compact a
    called a 'python Unique-Main.py'
    TERM=xterm on_screen "
        see ^GPU 7  .[#o ]* *.
        type /
        type unique-main\r
        see   Esc show all
        see ^ +$held Unique-Main.py
        unseen ^GPU 7  .*NVIDIA
        see ^GPU 7  .[o ]*. +[0-9]+ % of 24.0 GiB
        keep screen
        resize 12 80
        see ^ +$held Unique-Main.py
        resize 12 40
        see ^ +$held Unique-Main.p
        resize 24 80
        type \x1b
        see ^GPU 7  .[#o ]* *.
        type q
        end 0"
    equal "$(grep -n '^GPU' screen | head -1 | cut -d: -f1)" 3
    sed -n 3p screen | grep -q NVIDIA
    "$vramgc" top --once unique-main >out
    cat out
    adds_up out
    equal "$(grep -c ^GPU.*NVIDIA out)" 1
    equal "$(grep -c '^GPU .*\]' out)" "$(($(grep -c ^GPU out) - 1))"
}

@test "top: rows of two programs do not read the same: the arguments tell them apart" {
    hold plain a
    first=$held
    hold plain b
    second=$held
    alike() {
        "$make_file" set a working_folder "/opt/$1"
        "$make_file" set b working_folder "/opt/$2"
        called a "python $3"
        called b "python $4"
        "$vramgc" top --once "$first" "$second" >out
        grep " #$" out
        grep -qE "^ +$first $5 +- +1,800 " out
        grep -qE "^ +$second $6 +- +1,800 " out
    }
    alike reader_work reader_work "job.py 11" "job.py 12" "job.py 11" "job.py 12"
    alike reader_work reader_work "job.py" "job.py --steps 9" "job.py" "job.py --steps 9"
    alike reader_work other_work "job.py 11" "job.py 12" "reader_work: job.py " "other_work: job.py 1"
    alike w w "launch.py --xformers --steps 30" "launch.py --xformers --steps 40" "launch.py ..30" "launch.py ..40"
    alike w w "launch.py --xformers --api" "launch.py --xformers --api --listen" "launch.py ..--api" "launch.py ..--listen"
    alike w w "job.py --config=/home/u/settings/a.yaml" "job.py --config=/home/u/settings/b.yaml" \
        "job.py ..ttings/a.ya" "job.py ..ttings/b.ya"
    alike stable-diffusion-webui stable-diffusion-webui-forge launch.py launch.py "..iffusion-webui: la" "..iffusion-webui-for"
    alike reader_work reader_work "job.py --api" "job.py --api" "reader_work: job.py" "reader_work: job.py" # nothing differs
}

@test "top: the programs of two cards are seen on 24 lines: the latest minute goes before they do" {
    hold fragmented a
    first=$held
    hold compact b
    TERM=vt100 on_screen "
        see ^[ +] +$first launch.py
        see ^[ +] +$held launch.py
        twice last 60 s
        resize 18 80
        unseen last 60 s
        see ^[ +] +$held launch.py
        resize 40 80
        twice last 60 s
        keep low
        resize 60 140
        twice ^  .{125}. last 124 s\$
        keep high
        type q
        end 0" "$first" "$held"
    equal "$(grep -c '^  |.*|' low)" 10
    equal "$(grep -c '^  |.*|' high)" 30 # where there is room
}

@test "top: the signal that ends it finds the terminal as it was" {
    hold plain a
    TERM=vt100 RAW=raw on_screen "
        see GPU 0
        signal SIGTERM
        end -15" "$held"
    contains "$(tail -c 60 raw | cat -v)" '^[[?1l' # rmkx: keys send what they did before
}

@test "top: colours where there are any, and none with NO_COLOR" {
    hold plain a
    for setting in NO_COLOR= NO_COLOR=1; do
        env "$setting" TERM=xterm RAW=raw "$top/tests/e2e/screen.py" "
            see GPU 0
            type q
            end 0" "$vramgc" top "$held" 3>&-
        equal "$(grep -c $'\033\[[0-9;]*3[0-9]m' raw)" $([ "$setting" = NO_COLOR=1 ] && echo 0 || echo 1)
    done
    export LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB
    SIMGPU_OTHERS=$held:2100MiB,$$:1GiB TERM=xterm RAW=raw "$top/tests/e2e/screen.py" "
        see of 24.0 GiB
        type q
        end 0" "$vramgc" top "$held" 3>&-
    grep -q $'\033\[35mo' raw # others have a colour
    contains "$(cat raw)" '| of 24.0 GiB' # no letter of it is one of the legend
}

@test "top: a terminal that can show nothing, a build without ncurses, and wrong calls" {
    for command in "$vramgc" "$built/vramgc-without-ncurses"; do
        TERM=dumb "$top/tests/e2e/screen.py" "
            see --once works
            end 1" "$command" top 3>&-
    done
    "$built/vramgc-without-ncurses" top --once 1 | grep -q 'None of these'
    for wrong in '--every 1ms' '--every x' '--every 5' '--sort size' --frobnicate 'two words'; do
        # shellcheck disable=SC2086
        run_apart "$vramgc" top --once $wrong
        equal "$status" 2
        one_line "$errors"
    done
}

# No program is asked for: others may run on the same machine, and have cards beside these eight.
@test "top: each of eight cards has its bar on 24 lines; on fewer it says how many are below, and the key" {
    hold plain a
    export LD_LIBRARY_PATH=$top/build/sim/nvml SIMGPU_MEM=24GiB SIMGPU_DEVICES=8 SIMGPU_BUSY=42
    SIMGPU_OTHERS=$held:2100MiB TERM=xterm on_screen "
        see ^GPU 0  .*RTX 3090 .* of 24,576 MiB in use\$
        see ^GPU 0  .[#-]+ *.  [ 1-9][0-9] % of 24.0 GiB  busy 42 %\$
        see ^GPU 7  .o* *.   [0-9] % of 24.0 GiB  busy 42 %\$
        see PgUp PgDn\$
        resize 24 40
        see ^GPU 7  .o* *.   [0-9] % of 24.0 GiB\$
        see ^ q quit  s held  PgDn  / word  . help\$
        resize 6 80
        unseen ^GPU 7
        see   . help   PgDn: [4-9] cards\$
        resize 6 40
        see ^ q quit  PgDn: [4-9] cards  / word  . help\$
        type \x1b[6~
        see ^GPU [4-7]  .o* *. 
        resize 150 80
        see last 60 s
        unseen GiB  busy
        type q
        end 0"
}

# Each of them has a simulated card of its own, which has the same name.
@test "top: two programs of PyTorch at once, with what they hold" {
    cd "$top" || return
    export VRAMGC_OUT=$work/%p.vramgc VRAMGC_MODE=flush VRAMGC_ALLOC_CONF=keep
    printf '#!/bin/sh\ntest -e "%s/enough"\n' "$work" >"$work/enough.sh"
    chmod +x "$work/enough.sh"
    pids=()
    for mib in 300 500; do
        LD_PRELOAD=$top/build/libvramgc.so tests/on_card --mem 24GiB --cuda 13 -- build/c10/2.15.0/c10drive -c \
            "alloc a ${mib}MiB; alloc b 200MiB; free b; until $work/enough.sh; _exit 0" 3>&- >"$work/drive" 2>&1 &
        pids+=($!)
        echo $! >>"$work/pids"
        until [ -s "$work/$!.vramgc" ]; do sleep 0.05; done
    done
    TERM=vt100 on_screen "
        see 2 programs under
        see ^[ +] +${pids[0]} c10drive ..300MiB; a .* 300 +200 +0 +500
        see ^[ +] +${pids[1]} c10drive ..500MiB; a .* 500 +200 +0 +700
        see ^= +card +24,576
        see ^  .{61}. last 60 s
        see ^  .* #+. last 60 s
        see ^ q quit
        keep $work/both
        do touch $work/enough
        see None of these
        type q
        end 0" "${pids[@]}"
    adds_up "$work/both"
}

@test "top: what was live for a part of a step of a long run is another sign; + - 0 draw its picture larger" {
    hold run:3600:40:1:exit a
    TERM=xterm on_screen "
        see GPU 0  NVIDIA
        type \\x1bOB
        see Blockdecode39
        see ^ {11}.[ ^]+. 7.5 GiB
        see ^ {11}.[ #^:]+. 1 h 00 m\$
        type +
        see ^ {11}.[ #^:]+. the last\$
        see ^ {11}.[ #^:]+. 30 m
        type +
        see ^ {11}.[ #^:]+. 15 m
        type -
        see ^ {11}.[ #^:]+. 30 m
        type 0
        unseen the last
        see ^ {11}.[ #^:]+. 1 h 00 m\$
        type q
        end 0" "$held"
}
