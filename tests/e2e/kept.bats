#!/usr/bin/env bats
# shellcheck disable=SC2154
# The statistics files that nobody names: where they are found, which is the newest, and which go.

load helpers


# kept NAME STARTED [SCENARIO [RUN]]: a file in the state folder that began at that Unix time.
kept() {
    mkdir -p "$XDG_STATE_HOME/vramgc"
    "$make_file" "${3:-plain}" "$XDG_STATE_HOME/vramgc/$1"
    "$make_file" set "$XDG_STATE_HOME/vramgc/$1" started_unix_ns "${2}000000000" run_id "${4:-}"
}

# ended_by FILE SIGNAL: the process of that file was ended so.
ended_by() {
    "$make_file" set "$1" end 2 end_status "$2"
}

# setup_kept [UNIX TIME]
setup_kept() {
    local first=${1:-1700000000}
    unset VRAMGC_OUT
    kept vramgc-a.1.vramgc "$first"
    kept vramgc-b.2.vramgc $((first + 100)) fragmented run1
    kept vramgc-c.3.vramgc $((first + 90)) two-devices run1
    kept vramgc-d.4.vramgc 1600000000
    echo other >"$XDG_STATE_HOME/vramgc/vramgc-e.5.vramgc"
}

names() {
    sed 's|.*/||' | tr '\n' ' '
}

@test "list: newest first, a line each, with what became of it; nothing else of the folder" {
    setup_kept
    equal "$("$vramgc" list --paths | names)" 'vramgc-b.2.vramgc vramgc-c.3.vramgc vramgc-a.1.vramgc vramgc-d.4.vramgc '
    run "$vramgc" list
    equal "$(cut -c19- <<<"$output")" \
        '    pid       ran      held  result         program
4194305  1 h 12 m   8.0 GiB  out of memory  launch.py --xformers --api
4194305  1 h 12 m  16.0 GiB  idle           launch.py --xformers --api
4194305  1 h 12 m   8.0 GiB  ok             launch.py --xformers --api
4194305  1 h 12 m   8.0 GiB  ok             launch.py --xformers --api

c report PID. Files: vramgc list --paths'
    # At a terminal a line fits into it.
    script "$work/seen" <<<"stty cols 80; exec '$vramgc' list"
    python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$work/seen" </dev/null | tr -d '\r' >seen
    equal "$(sed -n 's/.*idle  *//p' seen)" 'launch.py --xforme'
    XDG_STATE_HOME=$work/none run_apart "$vramgc" list
    equal "$status:$output" 0:
    one_line "$errors"
}

@test "list: how a run ended that the report finds no fault with, where it did not end well" {
    unset VRAMGC_OUT
    kept vramgc-a.1.vramgc 1700000000
    result() { "$vramgc" list | sed -nE '2s/^.{47}(.{13}).*/\1/p' | sed 's/ *$//'; }
    equal "$(result)" ok
    "$make_file" set "$XDG_STATE_HOME/vramgc/vramgc-a.1.vramgc" end 2 end_status 768
    equal "$(result)" 'exit 3'
    "$make_file" set "$XDG_STATE_HOME/vramgc/vramgc-a.1.vramgc" end 2 end_status 15
    equal "$(result)" SIGTERM
    head -c 5000 "$XDG_STATE_HOME/vramgc/vramgc-a.1.vramgc" >"$XDG_STATE_HOME/vramgc/short"
    mv "$XDG_STATE_HOME/vramgc/short" "$XDG_STATE_HOME/vramgc/vramgc-a.1.vramgc"
    contains "$("$vramgc" list)" "$XDG_STATE_HOME/vramgc/vramgc-a.1.vramgc"
}

@test "report, diff, export: what is kept goes by its pid, or the name of its file, too" {
    setup_kept
    "$make_file" set "$XDG_STATE_HOME/vramgc/vramgc-b.2.vramgc" pid 5800
    "$make_file" set "$XDG_STATE_HOME/vramgc/vramgc-d.4.vramgc" pid 5800
    equal "$("$vramgc" report 5800 | sed -n 's/^Details .*--all //p' | names)" 'vramgc-b.2.vramgc '
    equal "$("$vramgc" report vramgc-d.4.vramgc | sed -n 's/^Details .*--all //p' | names)" 'vramgc-d.4.vramgc '
    contains "$("$vramgc" diff vramgc-a.1.vramgc 5800)" "B  $XDG_STATE_HOME/vramgc/vramgc-b.2.vramgc"
    equal "$("$vramgc" export --perfetto 5800)" "$("$vramgc" export --perfetto "$XDG_STATE_HOME/vramgc/vramgc-b.2.vramgc")"
    "$make_file" plain 5800 # a file of that name
    contains "$("$vramgc" report 5800)" 'Details  vramgc report --all 5800'
    run_apart "$vramgc" report 580
    equal "$status:$errors" '1:vramgc: 580: cannot be read: No such file or directory; `vramgc list` shows what is kept'
}

@test "diff: without files it compares the latest two runs, the older one first, each by the process that its report is about" {
    setup_kept
    run "$vramgc" diff
    contains "$output" 'The latest two runs of the program, the older one as A'
    equal "$(grep -E '^[AB]  ' <<<"$output" | names)" 'vramgc-a.1.vramgc vramgc-b.2.vramgc '
    was vramgc-a.1.vramgc /opt/sd/ 'python main.py'
    run "$vramgc" diff # of another web UI
    equal "$(grep -E '^[AB]  ' <<<"$output" | names)" 'vramgc-d.4.vramgc vramgc-b.2.vramgc '
    was vramgc-d.4.vramgc /opt/sd/ 'python main.py'
    run "$vramgc" diff
    contains "$output" 'The latest two runs, the older one as A, are of different programs'
    equal "$(grep -E '^[AB]  ' <<<"$output" | names)" 'vramgc-a.1.vramgc vramgc-b.2.vramgc '
    rm "$XDG_STATE_HOME"/vramgc/vramgc-[ad].*
    run_apart "$vramgc" diff
    equal "$status:$output" 1:
    contains "$errors" 'diff needs two runs, and fewer are kept'
    run "$vramgc" diff a
    equal "$status" 2
}

# was NAME FOLDER COMMAND: what the run in that file was, and where.
was() {
    "$make_file" set "$XDG_STATE_HOME/vramgc/$1" working_folder "$2" command_line "$3"
}

@test "list: each row says which web UI it was, whatever it was started with" {
    unset VRAMGC_OUT
    while IFS='|' read -r folder command shown; do
        kept vramgc-a.1.vramgc 1700000000
        was vramgc-a.1.vramgc "$folder" "$command"
        equal "$("$vramgc" list | sed -n '2s/^.\{62\}//p')" "$shown"
    done <<'TABLE'
/opt/ComfyUI/|python main.py --listen|ComfyUI: main.py --listen
/opt/sd/|python3.10 -u -X dev ./launch.py --api|sd: launch.py --api
/srv/|/opt/venv/bin/python3 /opt/forge/launch.py|forge: launch.py
/opt/|python -W ignore automatic/launch.py|automatic: launch.py
/opt/my ui/|python -m invokeai --x|my ui: -m invokeai --x
/opt/ui|/usr/bin/python3.11 -B -c from multiprocessing.spawn import spawn_main; spawn_main()|ui: multiprocessing.spawn import spawn_main; spawn_main()
/opt/my ui/|python -c import torch|my ui: -c import torch
/opt/x/|/usr/bin/blender -b|x: blender -b
/home/me/|/opt/invoke/.venv/bin/python /opt/invoke/.venv/bin/invokeai-web --root .|me: invokeai-web --root .
/opt/x/|invokeai-web|x: invokeai-web
/opt/x/|bin/invokeai-web|x: invokeai-web
/opt/sd/|/main.py|sd: main.py
/opt/sd/|python ../ui/main.py|ui: main.py
/|sh|sh
|python|python
TABLE
}

@test "list: names from outside do not steer the terminal; scripts get a file's name as it is" {
    unset VRAMGC_OUT
    bad=$(printf 'vramgc-a\033[2J\342\200\256.1.vramgc')
    kept "$bad" 1700000000
    LC_ALL=C equal "$("$vramgc" list | LC_ALL=C grep -c '[^[:print:]]')" 0
    contains "$("$vramgc" list --paths)" "$bad"
    RAW=seen "$top/tests/e2e/screen.py" 'end 0' "$vramgc" list --paths
    contains "$(cat seen)" 'vramgc-a?[2J?.1.vramgc'
}

@test "report and export without a file: the newest run, with all of its processes" {
    setup_kept
    equal "$("$vramgc" report --json | grep -c '"file": ')" 2
    "$vramgc" report --json | grep -q 'vramgc-b.2.vramgc'
    "$vramgc" report --json | grep -q 'vramgc-c.3.vramgc'
    equal "$("$vramgc" export --perfetto | grep -c '"process_name"')" 2
    rm "$XDG_STATE_HOME"/vramgc/vramgc-[bc]*
    equal "$("$vramgc" report --json | grep -c '"file": ')" 1
    "$vramgc" report --json | grep -q 'vramgc-a.1.vramgc'
    rm -r "$XDG_STATE_HOME/vramgc"
    run_apart "$vramgc" report
    equal "$status" 1
    one_line "$errors"
}

@test "export --prometheus without a file: what runs now, and nothing is fine too" {
    setup_kept
    equal "$("$vramgc" export --prometheus | grep -vc '^#')" 0
    FAKE_CUDA=sh "$vramgc" run --no-summary sh -c "'$vramgc' export --prometheus >now.prom; :"
    equal "$(grep -c '^vramgc_process_info.* 1$' now.prom)" 1
}

@test "VRAMGC_OUT: list and report look where it says" {
    setup_kept
    mkdir 'here %'
    "$make_file" plain 'here %/mine.77'
    VRAMGC_OUT='here %%/mine.%p' run "$vramgc" list --paths
    equal "$output" 'here %/mine.77'
}

@test "run: what is too old or too much goes, with what lies beside it; what runs, and other files, stay" {
    now=$(date +%s)
    setup_kept $((now - 20 * 86400))
    touch "$XDG_STATE_HOME"/vramgc/vramgc-d.4.vramgc.{pickle,oom0,html,blocks,whatif} "$XDG_STATE_HOME/vramgc/GPU-1.proof"
    kept vramgc-f.6.vramgc $((now - 6000))
    VRAMGC_KEEP=0 "$vramgc" run --no-summary true
    equal "$("$vramgc" list --paths | wc -l)" 5
    kept vramgc-d.4.vramgc $((now - 25 * 86400))
    VRAMGC_KEEP=3 "$vramgc" run --no-summary true
    equal "$(ls "$XDG_STATE_HOME/vramgc" | names)" \
        'GPU-1.proof vramgc-a.1.vramgc vramgc-b.2.vramgc vramgc-c.3.vramgc vramgc-e.5.vramgc vramgc-f.6.vramgc '
    setup_kept $((now - 31 * 86400))
    kept vramgc-g.7.vramgc $((now - 30 * 86400)) # it ran for 72 minutes
    "$vramgc" run --no-summary true
    equal "$("$vramgc" list --paths | names)" 'vramgc-f.6.vramgc vramgc-g.7.vramgc '
    FAKE_CUDA=sh "$vramgc" run --no-summary sh -c "VRAMGC_KEEP=1 VRAMGC_OUT=auto '$vramgc' run --no-summary true; '$vramgc' list --paths >during"
    contains "$(cat during)" vramgc-sh.
}

@test "run: good runs do not push out one that ran out of memory or crashed; those are counted apart" {
    unset VRAMGC_OUT
    then=$(($(date +%s) - 86400))
    for i in 1 2 3 4; do kept "vramgc-good.$i.vramgc" $((then + 10 + i)); done
    for i in 1 2 3; do kept "vramgc-oom.$i.vramgc" $((then + i)) limit; done
    kept vramgc-crash.1.vramgc "$then"
    ended_by "$XDG_STATE_HOME/vramgc/vramgc-crash.1.vramgc" 11
    kept vramgc-stopped.1.vramgc $((then + 9))
    ended_by "$XDG_STATE_HOME/vramgc/vramgc-stopped.1.vramgc" 15
    VRAMGC_KEEP=4 "$vramgc" run --no-summary true
    equal "$("$vramgc" list --paths | names)" "$(printf 'vramgc-%s.vramgc ' good.4 good.3 good.2 good.1 oom.3 oom.2 oom.1 crash.1)"
    VRAMGC_KEEP=2 "$vramgc" run --no-summary true
    equal "$("$vramgc" list --paths | names)" "$(printf 'vramgc-%s.vramgc ' good.4 good.3 oom.3 oom.2)"
    kept vramgc-good.4.vramgc 1700000004
    kept vramgc-oom.2.vramgc 1700000002 limit
    VRAMGC_KEEP=2 "$vramgc" run --no-summary true
    equal "$("$vramgc" list --paths | names)" "$(printf 'vramgc-%s.vramgc ' good.3 oom.3)"
}

# Nothing tells that it has ended: it may run in another container, or on another machine with the same home.
@test "run: what was alive a moment ago and has not ended stays" {
    setup_kept
    kept vramgc-g.7.vramgc $(($(date +%s) - 4400)) full
    kept vramgc-h.8.vramgc $(($(date +%s) - 4390)) full
    VRAMGC_KEEP=1 "$vramgc" run --no-summary true
    equal "$("$vramgc" list --paths | names)" 'vramgc-h.8.vramgc vramgc-g.7.vramgc '
    "$make_file" set "$XDG_STATE_HOME/vramgc/vramgc-g.7.vramgc" started_unix_ns $(($(date +%s) - 86400 - 4400))000000000 run_id ''
    VRAMGC_KEEP=1 "$vramgc" run --no-summary true
    equal "$("$vramgc" list --paths | names)" 'vramgc-h.8.vramgc '
}

@test "run: with a pattern of one's own nothing is removed" {
    setup_kept
    VRAMGC_KEEP=1 VRAMGC_OUT=own.%p "$vramgc" run --no-summary true
    equal "$("$vramgc" list --paths | wc -l)" 4
}
