#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2016,SC2034,SC2030,SC2031
# Alerts: the commands of VRAMGC_ON, started by `vramgc run` and `vramgc watch`. The program is a shell by another name that "uses
# CUDA": its file is a scenario's from its start.

load helpers

eval "$(declare -f setup | sed '1s/setup/setup_work/')"

setup() {
    setup_work
    export FAKE_CUDA=user FAKE_SCENARIO=fragmented
    ln -s /bin/sh "$work/user"
    user=$work/user
    # Runs until the file $1 is there; 20 s are for a hang.
    script "$work/until" <<<'i=0; until [ -e "$1" ] || [ $((i += 1)) = 400 ]; do sleep 0.05; done; [ -e "$1" ]'
    script "$work/told" <<<'env >"$1.env"; echo told >>"$1"'
}

# named FILE NAME: a variable that the command was given.
named() {
    sed -n "s/^VRAMGC_ALERT_$2=//p" "$1"
}

@test "run --on oom: told once, while the program runs, with the report's words; nothing of vramgc is in the command" {
    run_apart "$vramgc" run --no-summary --on "oom:$work/told oom" "$user" "$work/until" oom
    equal "$status:$output:$errors" 0::
    equal "$(cat oom)" told
    equal "$(grep -cE '^(LD_PRELOAD|VRAMGC_(ON|OUT|RUN_ID))=' oom.env)" 0
    file=$(named oom.env FILE)
    pid=$(named oom.env PID)
    contains "$(named oom.env MESSAGE)" ": user (pid $pid): OUT OF MEMORY 2x: "
    contains "$("$vramgc" report "$file" | tr -s ' \n' ' ')" "$(named oom.env MESSAGE | sed 's/.* 2x: //; s/ The .*//')"
    # One sentence each: what, why, what to do.
    equal "$(named oom.env MESSAGE | sed 's/.* 2x: //')" \
        '1.5 GiB wanted by encode_prompt (sd/pipeline.py:212), 700 MiB free. The card is full: 836 MiB more were needed. Do: Make image or batch smaller, or offload models (--medvram).'
    equal "$(grep '^VRAMGC_ALERT=' oom.env)" VRAMGC_ALERT=oom
    equal "$pid" "$("$vramgc" report --json "$file" | python3 -c 'import json, sys; print(json.load(sys.stdin)["processes"][0]["pid"])')"
    python3 - <<'PYTHON'
variables = dict(line.rstrip("\n").split("=", 1) for line in open("oom.env") if line.startswith("VRAMGC_ALERT"))
number = {name[len("VRAMGC_ALERT_"):]: int(value) for name, value in variables.items() if value.isdigit()}
assert number["DEVICE"] == 0 and number["COUNT"] >= 1
assert 0 < number["REQUEST_BYTES"] and number["LIVE_BYTES"] <= number["HELD_BYTES"] <= number["USED_BYTES"] <= number["TOTAL_BYTES"]
PYTHON
}

@test "run --on: a program that ends at once is told of, too, and one without an out-of-memory is not" {
    "$vramgc" run --no-summary --on "oom:$work/told oom" "$user" -c :
    equal "$(cat oom)" told
    FAKE_SCENARIO=plain "$vramgc" run --no-summary --on "oom|growth:$work/told none" "$user" -c :
    [ ! -e none ]
}

@test "run --on: one rule's command is started once a minute at most, each rule's on its own; at the end without the pause" {
    "$vramgc" run --no-summary --on "oom:$work/told a" --on "oom:$work/told b" \
        sh -c '"$2" "$1" a; "$2" "$1" b; mv a.env first.env; "$2" -c "sleep 1; cat a b >meanwhile"; [ ! -e a.env ] && touch paused' \
        - "$work/until" "$user"
    equal "$(cat meanwhile)" "told
told"
    [ -e paused ]
    # What ended the program is told although the command was started less than a minute ago.
    equal "$(cat a b)" "told
told
told
told"
    [ "$(named a.env PID)" != "$(named first.env PID)" ]
    equal "$(named first.env COUNT):$(named a.env COUNT)" 2:4 # two of each program, one of which is told of
    contains "$(named a.env MESSAGE)" ': OUT OF MEMORY 4x: '
}

@test "run --on: a command that the end cuts off is named" {
    nap=9912.$$ # nobody else on this machine sleeps so long
    run_apart "$vramgc" run --no-summary --on "oom:sleep $nap" "$user" -c :
    equal "$errors" "vramgc: --on oom: \`sleep $nap\` was ended 5 s after the program"
    run_apart "$vramgc" run --no-summary --on "oom:!touch began; exec sleep $nap" "$user" -c 'sh "$1" began; exec "$0" -c :' "$user" "$work/until"
    equal "$errors" "vramgc: --on oom: \`touch began; exec sleep $nap\` was ended 5 s after the program, and not told what came meanwhile"
    equal "$(pgrep -fx "sleep $nap" || true)" ''
}

@test "run --on: commands that hang, crash, are missing or fill the screen change nothing for the program" {
    mkfifo "never.$$"
    printf '#!/no/such/interpreter\n' >broken
    chmod +x broken
    run_apart timeout 60 "$vramgc" run --no-summary --on "oom:sleep 9911.$$" --on 'oom:!kill -SEGV $$' --on 'oom:./broken' \
        --on 'oom:!trap "" TERM INT HUP; echo from the command; touch began; cat never*' \
        "$user" -c 'sh "$1" began && echo from the program; exit 7' - "$work/until"
    equal "$status:$output" '7:from the program'
    contains "$errors" 'from the command'
    contains "$errors" '`./broken` cannot be run'
    contains "$errors" 'signal 11'
    # The standard streams may be closed: what is written there then is no word of ours.
    "$vramgc" run --no-summary --on 'oom:!echo words; sleep 1; touch slow' "$user" -c : >&- 2>&-
    [ -e slow ]
    # What did not end by itself is gone with the run.
    equal "$(pgrep -fx "sleep 9911.$$" || true)" ''
    equal "$(pgrep -fx "cat never.$$" || true)" ''
}

@test "run --on: the program has no child, no file and no signal of ours; killed, nobody of us stays" {
    script "$work/looks" <<<'"$1" oom; ls -l /proc/$$/fd | grep -c socket: >sockets; read -r all </proc/$$/task/$$/children; echo "$all ${VRAMGC_ON-}" >children; echo $PPID >launcher; exec sleep 60'
    "$vramgc" run --no-summary --on "oom:$work/told oom" "$user" "$work/looks" "$work/until" 3>&- &
    await launcher
    until program=$(pgrep -P "$(cat launcher)" -x sleep); do sleep 0.05; done
    equal "$(cat sockets)" 0
    equal "$(tr -d ' ' <children)" ''
    launcher=$(cat launcher)
    beside=$(pgrep -P "$launcher" -x 'vramgc watch')
    [ -n "$beside" ]
    kill -KILL "$launcher" "$program"
    wait || true
    for ((i = 0; i < 400; i++)); do
        [ -e "/proc/$beside" ] || break
        sleep 0.05
    done
    [ ! -e "/proc/$beside" ]
}

@test "run --on: words are words, a shell reads only what stands behind !" {
    "$vramgc" run --no-summary --on 'oom:touch a$HOME b|c d>; oom : printf %s\n {} ;oom:!printf "%s;" "$VRAMGC_ALERT" >shell; touch "$VRAMGC_ALERT_COUNT times"' \
        "$user" -c : >said 2>&1
    [ -e 'a$HOME' ] && [ -e 'b|c' ] && [ -e 'd>' ] && [ -e '2 times' ]
    contains "$(cat said)" 'OUT OF MEMORY 2x'
    equal "$(cat shell)" 'oom;'
}

@test "run --on: a share of the card, by everybody; growth" {
    FAKE_SCENARIO=full "$vramgc" run --no-summary --on "30%|100%:$work/told full" --on "growth:$work/told none" "$user" "$work/until" full
    equal "$(cat full)" told
    equal "$(grep '^VRAMGC_ALERT=' full.env)" VRAMGC_ALERT=30%
    contains "$(named full.env MESSAGE)" ' in use for a moment; now 11 % are: 2.0 GiB by this program, 600 MiB by others and the driver; 21.4 GiB are free.'
    [ ! -e none ]
    FAKE_SCENARIO=host-growth "$vramgc" run --no-summary --on "growth:$work/told grows" "$user" "$work/until" grows
    contains "$(named grows.env MESSAGE)" 'Host memory grows: +122 MiB a job'
}

@test "VRAMGC_ON: what is wrong is said in one line; typed it starts nothing" {
    for wrong in oom 'oom:' 'oom: ;' 'omo:true' '90:true' '0%:true' 'oom|:true' 'oom:!' 'oom:no-such-command {}' "$(printf 'oom:true;%.0s' {1..17})"; do
        run_apart "$vramgc" run --on "$wrong" touch started
        equal "$status" 125
        one_line "$errors"
        [ ! -e started ]
        run_apart "$vramgc" watch --on "$wrong"
        equal "$status" 2
        VRAMGC_ON=$wrong run_apart "$vramgc" run --no-summary sh -c 'echo "on ${VRAMGC_ON-}"'
        equal "$status:$output" '0:on '
        contains "$errors" 'there will be no alerts'
    done
    for on in 'oom:!echo "{}"' "oom:echo 'a b' {}"; do
        run_apart "$vramgc" run --on "$on" touch started
        equal "$status" 125
        [ ! -e started ]
    done
    run_apart "$vramgc" run --on ' ' touch started
    equal "$status" 125
    contains "$errors" '--on needs WHEN:COMMAND'
    [ ! -e started ]
    if ! command -v notify-send >/dev/null; then
        run_apart "$vramgc" watch --on 'oom:notify-send {}'
        contains "$errors" 'libnotify-bin'
    fi
    run_apart "$vramgc" watch --on 'oom:no-such-command {}'
    contains "$errors" 'vramgc: --on: oom:no-such-command {}: there is'
    VRAMGC_ON='oom:no-such-command {}' run_apart "$vramgc" watch
    contains "$errors" 'vramgc: VRAMGC_ON: oom:no-such-command {}: there is'
    run_apart "$vramgc" run --on 'oom:no-such-command {}' touch started
    contains "$errors" 'there is no program no-such-command; touch is not started'
    run_apart "$vramgc" watch
    equal "$status" 2
    run_apart "$vramgc" run --on oom:true --out '' touch started
    equal "$status" 125
    [ ! -e started ]
    VRAMGC_ON=oom:true run_apart "$vramgc" run --out '' touch started
    equal "$status" 0
    contains "$errors" 'VRAMGC_ON: it needs a statistics file'
}

@test "watch --test: each rule's command runs once, with a sample; how it ended is said, and is the exit status" {
    run_apart "$vramgc" watch --test --on "oom|90%:$work/told a" --on 'growth:!cp "$VRAMGC_ALERT_FILE" copied'
    equal "$status" 0
    equal "$(grep -c ' runs, for 30 s at most$' <<<"$errors")" 3
    equal "$(grep -v ' runs, for ' <<<"$errors" | LC_ALL=C sort)" "vramgc: --on 90%: \`$work/told a\` ended well, exit status 0
vramgc: --on growth: \`cp \"\$VRAMGC_ALERT_FILE\" copied\` ended well, exit status 0
vramgc: --on oom: \`$work/told a\` ended well, exit status 0"
    equal "$(cat a)" "told
told"
    # With the words and figures of a real one.
    run_apart "$vramgc" watch --test --on "oom:$work/told oom" --on "85%:$work/told use" --on "growth:$work/told growth"
    contains "$(named oom.env MESSAGE)" 'A test of oom, nothing has happened: vramgc (pid '
    contains "$(named oom.env MESSAGE)" '): OUT OF MEMORY 1x: 2.0 GiB wanted, 300 MiB free and 927 MiB idle. The card is full: 822 MiB more were needed. Do: '
    contains "$(named use.env MESSAGE)" '): GPU 0: 85 % of 8.0 GiB are in use: 6.3 GiB by this program, 480 MiB by others and the driver; 1.2 GiB are free.'
    contains "$(named growth.env MESSAGE)" '): GPU 0: live memory grows: '
    for name in TOTAL USED HELD LIVE REQUEST; do
        ((0 < $(named oom.env "${name}_BYTES")))
    done
    equal "$(named a.env COUNT)" 1
    [ -e copied ] && [ ! -e "$(named a.env FILE)" ]
    # Who ends the process that is told of ends none that was there before.
    run_apart "$vramgc" watch --test --on 'oom:!kill "$VRAMGC_ALERT_PID"'
    equal "$status" 143
    printf '#!/no/such/interpreter\n' >broken
    chmod +x broken
    for failed in 'false:failed, exit status 1' '!kill -SEGV $$:failed, signal 11' './broken:cannot be run'; do
        run_apart "$vramgc" watch --test --on "oom:${failed%:*}" --on oom:true
        equal "$status" 1
        contains "$errors" "${failed##*:}"
        contains "$errors" '`true` ended well'
    done
    # One whose program is missing leaves the others theirs.
    run_apart "$vramgc" watch --test --on 'oom:no-such-command {}' --on "oom:$work/told left" --on 'growth:nor-this'
    equal "$status:$(cat left)" 1:told
    contains "$errors" 'vramgc: --on: oom:no-such-command {}: there is no program no-such-command'
    contains "$errors" 'vramgc: --on: growth:nor-this: there is no program nor-this'
    run_apart "$vramgc" watch --test --on 'oom:no-such-command {}'
    equal "$status" 2
    for none in '' '--park 5m'; do
        # shellcheck disable=SC2086
        run_apart "$vramgc" watch --test $none
        equal "$status" 2
        eval "\"\$vramgc\" ${errors#*Type: vramgc } >sample 2>&1"
        contains "$(cat sample)" 'A test of oom'
    done
    run_apart "$vramgc" watch
    equal "$status" 2
    contains "$errors" "vramgc watch --on 'oom:notify-send vramgc {}'"
    "$vramgc" watch --test --on "oom:sleep 9913.$$" 3>&- &
    until pgrep -fx "sleep 9913.$$"; do sleep 0.05; done
    kill "$!"
    wait "$!" || equal "$?" 143
    while pgrep -fx "sleep 9913.$$" >/dev/null; do sleep 0.05; done # it was sent SIGKILL
}

# alone LINES: in a machine of their own, so that no other test's programs run there.
alone() {
    local apart="unshare --pid --fork --mount-proc"
    $apart true 2>/dev/null || apart="unshare --map-root-user --pid --fork --mount-proc"
    $apart true 2>/dev/null || skip "SKIPPED: no process namespace can be made here"
    $apart bash -euc "$1" 3>&-
}

@test "watch: programs that begin later, under LD_PRELOAD alone; what was before is not told" {
    export vramgc library user work make_file
    alone '
        LD_PRELOAD=$library "$user" -c "touch began; \"\$0\" end; :" "$work/until" &
        before=$!
        until [ -e began ]; do sleep 0.05; done
        "$make_file" clock "$work/clock" 86410 # 10 s later: what began no longer ago is looked at from its start
        "$vramgc" watch --on "oom:$work/told oom" 2>said &
        watch=$!
        until [ -s said ]; do sleep 0.05; done
        LD_PRELOAD=$library "$user" "$work/until" oom &
        later=$!
        wait "$later"
        echo "$later" >later
        touch end
        wait "$before"
        kill "$watch"
        status=0
        wait "$watch" || status=$?
        echo "$status" >status'
    equal "$(named oom.env PID)" "$(cat later)"
    equal "$(cat status)" 143
    equal "$(cat said)" 'vramgc: watching 1 program, and those that begin'
    equal "$(cat oom)" told
}

@test "watch PID: it and what it starts, until it ends" {
    sh -c 'until [ -e go ]; do sleep 0.05; done; LD_PRELOAD=$1 "$2" "$3" oom; :' - "$library" "$user" "$work/until" 3>&- &
    parent=$!
    "$vramgc" watch --on "oom:$work/told oom" "$parent" 3>&- &
    watch=$!
    LD_PRELOAD=$library "$user" "$work/until" end 3>&- &
    other=$!
    "$vramgc" watch --on "oom:$work/told other" "$other" 3>&- &
    await other
    equal "$(named other.env PID)" "$other"
    [ ! -e oom ]
    touch go
    wait "$watch" "$parent"
    equal "$(cat oom)" told
    [ "$(named oom.env PID)" != "$other" ]
    touch end
    wait
    # Nobody who reads these lines in a script's log can press a key there, or asked for them.
    VRAMGC_ON=oom:true run_apart timeout 20 "$vramgc" watch "$(sh -c 'sleep 3 >&- 2>&- & echo $!')"
    equal "$status:$errors" 0:
    run_apart "$vramgc" watch --on oom:true 4194304
    equal "$status" 2
}

@test "watch: what ended a program is told without the pause" {
    export vramgc library user work
    alone '
        "$vramgc" watch --on "oom:$work/told a" 2>said &
        until [ -s said ]; do sleep 0.05; done
        LD_PRELOAD=$library "$user" "$work/until" a
        mv a.env first.env
        LD_PRELOAD=$library "$user" -c :
        "$work/until" a.env
        kill $!'
    [ "$(named a.env PID)" != "$(named first.env PID)" ]
}

@test "env --on: what is wrong is said, and no line is written" {
    run_apart "$vramgc" env --on 'oom:no-such-command {}'
    equal "$status:$output" 2:
    contains "$errors" 'there is no program no-such-command'
    script plain.sh <<<true
    chmod -x plain.sh
    run_apart "$vramgc" watch --test --on 'oom:./plain.sh {}'
    contains "$errors" './plain.sh cannot be run: did you mean bash ./plain.sh?'
    chmod +x plain.sh
    run_apart "$vramgc" watch --test --on 'oom:plain.sh {}'
    contains "$errors" 'plain.sh cannot be run: did you mean ./plain.sh?'
    run_apart "$vramgc" watch --test --on 'oom:echo {} > file'
    contains "$errors" 'need ! in front of the command'
}

@test "env --on: a program of this folder is found from the web UI's, too" {
    script tell <<<'echo "$VRAMGC_ALERT" >>"$1"'
    "$vramgc" env --on "oom|30%:./tell $PWD/oom; growth:true" --on 'growth:!./tell x; true' --on oom:../cwd/tell >lines
    contains "$(cat lines)" "VRAMGC_ON='oom:$PWD/tell $PWD/oom;30%:$PWD/tell $PWD/oom;growth:true;growth:!./tell x; true
oom:$PWD/../cwd/tell'"
    mkdir "web ui"
    cd "web ui"
    script webui.sh <<<". ../lines 2>errors; wait; $user $work/until ../oom"
    timeout 60 ./webui.sh
    [ -s ../oom ]
    script tell <<<true
    run_apart "$vramgc" env --on oom:./tell
    equal "$status:$output" 2:
    contains "$errors" "this folder's name has a space"
    "$vramgc" env --on oom:true --on "90%:!'$PWD/tell'" | grep -qF "oom:true;90%:!"
}

@test "env --on: the lines start the watch, which is no child of the script" {
    ln -s /bin/true "$work/it's"
    "$vramgc" env --on "oom:$work/told oom" --on "90%:$work/it's" >webui-user.sh
    contains_not "$(cat webui-user.sh)" 'export VRAMGC_ON'
    script webui.sh <<<". ./webui-user.sh; wait; $user $work/until oom"
    timeout 60 ./webui.sh
    equal "$(cat oom)" told
}
