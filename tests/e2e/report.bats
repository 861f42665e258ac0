#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2016,SC2238,SC2034,SC2030,SC2031,SC2209
# What is read and said: report, diff, env, help; good files and bad ones.

load helpers

scenarios='plain fragmented full two-devices unknown observe compact pool pool-idle others others-idle limit'

make() {
    "$make_file" "$@"
}

# --- what recorded files say, word by word: golden/*.session ---

# file SCENARIO [NAME]: what follows is of this one. alter FIELD VALUE...: of it.
file() {
    rm -f ./*.vramgc
    of=${2:-a.vramgc}
    make "$1" "$of"
}
alter() {
    page >before
    "$make_file" set "$of" "$@"
}

page() { "$vramgc" report "$@" "$of"; }
exports() { "$vramgc" export "$@" "$of"; }

# Verdict, causes and advice; what is noted below them.
paragraphs() { page | sed '1d; /^$/,$d' | awk -v names="$1" '/^[A-Z]/ { shown = $1 ~ names } shown'; }
said() { paragraphs '^(VERDICT|CAUSE|DO)$'; }
advised() { paragraphs '^(CAUSE|DO)$'; }
noted() { paragraphs '^(MOST|NOTE)$'; }

# The lines of the rest of its page that are new since it was altered.
changed() { page "$@" | sed '1,/^$/d' | grep -vxFf before; }

@test "report: what it says of each recorded file" { session report; }

# two SCENARIO SCENARIO: a and b; b is the one that is altered. first: what is said first of the two.
two() {
    file "$2" b.vramgc
    make "$1" a.vramgc
}
alter_both() { alter "$@" && "$make_file" set a.vramgc "$@"; }
differ() { "$vramgc" diff "$@" a.vramgc b.vramgc; }
first() { differ | sed '/^$/,$d'; }

@test "diff: what it says of each two" { session diff; }

@test "report: the page of each kind of file is as it should be" {
    for scenario in $scenarios killed hostile; do
        make "$scenario" "$scenario.vramgc"
        run "$vramgc" report "$scenario.vramgc"
        equal "$status" 0
        golden "$scenario.txt" "$(without_version <<<"$output")"
    done
}

# Of several processes the largest is not always the one that ran out of memory: full's devices hold as much as plain's.
@test "report: of several processes the page shows the one where memory ran out, else the one that held most" {
    make plain first.vramgc pid 11
    make plain second.vramgc pid 12
    make full third.vramgc pid 13
    contains "$("$vramgc" report first.vramgc second.vramgc)" 'What follows is number 1 of these, pid 11, which held most.'
    contains "$("$vramgc" report first.vramgc second.vramgc third.vramgc)" 'What follows is number 3 of these, pid 13, where memory ran out.'
    contains "$("$vramgc" report first.vramgc second.vramgc third.vramgc)" 'NO ROOM'
}

@test "report: the JSON of each kind of file is as it should be" {
    for scenario in fragmented unknown; do
        make "$scenario" "$scenario.vramgc"
        run "$vramgc" report --json "$scenario.vramgc"
        equal "$status" 0
        golden "$scenario.json" "$(without_version <<<"$output")"
    done
}

@test "report: every kind of JSON is valid by the schema" {
    python=$top/build/venv/bin/python
    "$python" -c 'import jsonschema' 2>/dev/null || python=python3
    "$python" -c 'import jsonschema' 2>/dev/null || skip "SKIPPED: Python's jsonschema is not there"
    for scenario in $scenarios hostile; do
        make "$scenario" "$scenario.vramgc"
    done
    "$vramgc" report --json ./*.vramgc >all.json
    FAKE_CUDA=true "$vramgc" run --no-summary --json run.json true
    "$vramgc" run --no-summary --json none.json true
    "$python" - "$top/src/show/schema.json" all.json run.json none.json <<'PYTHON'
import copy, json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
check = jsonschema.Draft202012Validator(schema)
for name in sys.argv[2:]:
    check.validate(json.load(open(name)))
report = json.load(open(sys.argv[2]))
for spoil in (lambda r: r["processes"][0].pop("pid"),
              lambda r: r["processes"][0]["devices"][0]["held_bytes"].update(peak="much"),
              lambda r: r["processes"][1]["actions"][0].pop("kind")):
    spoiled = copy.deepcopy(report)
    spoil(spoiled)
    assert not check.is_valid(spoiled), "the schema accepts what it must not"
PYTHON
}

@test "help schema: the checked-in schema is what the program writes (else: make schema)" {
    "$vramgc" help schema >schema.json
    diff -u "$top/src/show/schema.json" schema.json
}

@test "report: pages are at most 80 columns wide, but for commands to paste" {
    for scenario in $scenarios hostile; do
        make "$scenario" "$scenario.vramgc"
        widest=$("$vramgc" report "$scenario.vramgc" | grep -v '^Details\|^Picture\|^Compare' |
            LC_ALL=C.UTF-8 awk '{ if (length($0) > n) n = length($0) } END { print n }')
        [ "$widest" -le 80 ]
    done
}

@test "report: the table adds up" {
    make plain p.vramgc
    "$vramgc" report --json p.vramgc | python3 -c '
import json, sys
d = json.load(sys.stdin)["processes"][0]["devices"][0]
for name in ("division_at_peak", "division_at_end"):
    part = d[name]
    assert part["held_bytes"] + part["others_bytes"] + part["free_bytes"] == d["total_bytes"], part
assert d["division_at_peak"]["held_bytes"] == d["held_bytes"]["peak"]'
}

@test "report: nothing in a file can steer the terminal" {
    make hostile h.vramgc
    for form in "" --all --json; do
        "$vramgc" report ${form:+"$form"} h.vramgc >out
        equal "$(LC_ALL=C grep -c '[^[:print:]]' out)" 0
    done
}

@test "report: a running process is told from one that is gone" {
    sleep 60 &
    pid=$!
    make plain r.vramgc pid "$pid"
    run "$vramgc" report r.vramgc
    contains "$output" 'still running'
    contains "$output" ' now'
    run "$vramgc" report --json r.vramgc
    contains "$output" '"how": "running"'
    kill "$pid"
    wait "$pid" || true
    run "$vramgc" report r.vramgc
    contains "$output" 'killed, or crashed'
}

@test "report: a process that has ended runs no more, though nobody has waited for it" {
    python3 -c 'import os, time
child = os.fork()
if child == 0:
    time.sleep(0.2)
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
open("child", "w").write(str(child))
time.sleep(60)' &
    parent=$!
    until [ -s child ]; do sleep 0.02; done
    make plain r.vramgc pid "$(cat child)"
    run "$vramgc" report r.vramgc
    kill "$parent"
    contains "$output" 'killed, or crashed'
}

@test "report: bad files are told in one line each, with status 1" {
    make plain good
    head -c 100000 good >cut
    head -c 20 good >stub
    : >empty
    echo 'import torch' >foreign
    cp good version && printf '\x07\0\0\0' | dd of=version bs=1 seek=8 conv=notrunc status=none
    cp good order && printf '\0\0\0\x01' | dd of=order bs=1 seek=8 conv=notrunc status=none
    head -c 1000000 good >older && printf '\x40\x42\x0f' | dd of=older bs=1 seek=16 conv=notrunc status=none # 1,000,000
    cp good damaged && printf '\x07' | dd of=damaged bs=1 seek=16 conv=notrunc status=none
    mkdir folder
    mkfifo pipe
    while IFS='|' read -r file words; do
        run_apart timeout 60 "$vramgc" report "$file"
        equal "$status" 1
        equal "$output" ''
        one_line "$errors"
        contains "$errors" "vramgc: $file: $words"
    done <<'TABLE'
missing|cannot be read: No such file or directory; `vramgc list` shows what is kept
empty|not a statistics file of vramgc
foreign|not a statistics file of vramgc
stub|cut short: 20 of
cut|cut short: 100000 of
version|written in format 7; this vramgc
order|written on a machine with another byte order
older|written by another build than this vramgc (
damaged|written by another build than this vramgc (
folder|not a regular file
pipe|not a regular file
/dev/zero|not a regular file
TABLE
}

@test "report: of good and bad files together the good ones are shown, with status 1" {
    make plain good
    echo x >bad
    run_apart "$vramgc" report --json bad good
    equal "$status" 1
    one_line "$errors"
    equal "$(python3 -c 'import json, sys; print(len(json.load(sys.stdin)["processes"]))' <<<"$output")" 1
}

@test "report: -o writes a whole file, replaces only its own kind, and leaves nothing behind" {
    make plain p.vramgc
    "$vramgc" report --json -o out p.vramgc
    "$vramgc" report -o out p.vramgc
    contains "$(cat out)" VERDICT
    echo precious >mine
    run_apart "$vramgc" report -o mine p.vramgc
    equal "$status" 1
    one_line "$errors"
    equal "$(cat mine)" precious
    run "$vramgc" report -o p.vramgc p.vramgc
    equal "$status" 1
    "$vramgc" report p.vramgc >/dev/null
    "$vramgc" report -f -o mine p.vramgc
    contains "$(cat mine)" VERDICT
    ln -s out link
    "$vramgc" report -o link p.vramgc
    [ -L link ]
    equal "$(echo ./*)" './link ./mine ./out ./p.vramgc'
}

# plant TARGET LINK: a link of another user, as anybody can put one into /tmp.
plant() {
    [ "$(id -u)" -eq 0 ] || skip "only root can make a link of another user"
    ln -s "$1" "$2" && chown -h 65534 "$2"
}

@test "report: -o does not write through a link that another user has planted" {
    make plain p.vramgc
    "$vramgc" report -o victim p.vramgc
    cp victim before
    plant "$PWD/victim" out
    run_apart "$vramgc" report --all -o out p.vramgc
    equal "$status" 1
    one_line "$errors"
    contains "$errors" 'out is a link that is not followed: Operation not permitted'
    cmp victim before
    plant missing dangling
    run "$vramgc" report -f -o dangling p.vramgc
    equal "$status" 1
    [ ! -e missing ]
    ln -s out through # our own link, which leads to it
    run "$vramgc" report --all -o through p.vramgc
    equal "$status" 1
    cmp victim before
    ln -s round round
    run_apart "$vramgc" report -o round p.vramgc
    equal "$status" 1
    contains "$errors" 'Too many levels'
}

@test "report: -o writes to the file that our own links lead to, wherever that is" {
    make plain p.vramgc
    mkdir there
    ln -s there/link link
    ln -s out there/link
    "$vramgc" report -o link p.vramgc
    contains "$(cat there/out)" VERDICT
    equal "$(echo ./* there/*)" './link ./p.vramgc ./there there/link there/out'
    "$vramgc" report -o /dev/stdout p.vramgc >shown
    contains "$(cat shown)" VERDICT
    contains "$("$vramgc" report -o /dev/stdout p.vramgc | cat)" VERDICT
}

@test "report: a file with the name of the temporary one is left alone" {
    make plain p.vramgc
    bash -c 'echo precious >out.$$.0.tmp; exec "$@"' - "$vramgc" report -o out p.vramgc
    contains "$(cat out)" VERDICT
    equal "$(cat out.*.tmp)" precious
}

@test "report, diff: names from outside do not steer the terminal, wherever they are shown" {
    make plain p.vramgc
    cp p.vramgc "$(printf 'p\033[2J.vramgc')"
    local bad
    bad=$(printf '\033[2J\342\200\256\342\200\217x')
    "$vramgc" report "$bad" >out 2>&1 || true
    "$vramgc" report "p"*J.vramgc >>out 2>&1
    "$vramgc" "$bad" >>out 2>&1 || true
    "$vramgc" report "--$bad" >>out 2>&1 || true
    "$vramgc" run "$bad" >>out 2>&1 || true
    "$vramgc" run --json "$bad/x" true >>out 2>&1 || true
    VRAMGC_MODE=$bad "$vramgc" run --verbose -o "$bad" true >>out 2>&1
    "$vramgc" run --mode "$bad" true >>out 2>&1 || true
    contains "$(cat out)" '?[2J??x'
    equal "$(LC_ALL=C grep -c '[^[:print:]]' out)" 0
}

@test "report: -o without the name of a file is told" {
    make plain p.vramgc
    run "$vramgc" report -o '' p.vramgc
    equal "$status" 1
    contains "$output" 'is not the name of a file to be written'
}

@test "report: a full disk is told" {
    [ -c /dev/full ] || skip "SKIPPED: no /dev/full here"
    make plain p.vramgc
    run_apart "$vramgc" report -o /dev/full p.vramgc
    equal "$status" 1
    contains "$errors" 'cannot be written'
    status=0
    "$vramgc" report p.vramgc >/dev/full 2>errors || status=$?
    equal "$status" 1
    one_line "$(cat errors)"
    for command in help env 'top --once' "diff p.vramgc p.vramgc"; do
        status=0
        # shellcheck disable=SC2086
        VRAMGC_OUT=auto "$vramgc" $command >/dev/full 2>errors || status=$?
        equal "$status" 1
        equal "$(tail -n 1 errors)" 'vramgc: standard output cannot be written'
    done
}

@test "report: wrong calls are 2" {
    touch launch.py start.sh
    ln -s "$(command -v python3)" "$work/bin/python"
    export PATH=$work/bin:$PATH
    script webui.sh <<<:
    run "$vramgc"
    equal "$status" 2
    run_apart "$vramgc" reprot x
    equal "$status" 2
    equal "$errors" 'vramgc: reprot is not a command; did you mean `vramgc report`?'
    while IFS='|' read -r typed told; do
        # shellcheck disable=SC2086
        run_apart "$vramgc" $typed
        equal "$status:$errors" "2:vramgc: $told"
    done <<'TABLE'
start.sh x|start.sh is no command of vramgc; did you mean: vramgc run bash start.sh x
webui.sh x|webui.sh is no command of vramgc; did you mean: vramgc run ./webui.sh x
bash launch.py --api|bash is no command of vramgc; did you mean: vramgc run bash launch.py --api
./webui.sh --api|./webui.sh is no command of vramgc; did you mean: vramgc run ./webui.sh --api
launch.py|launch.py is no command of vramgc; did you mean: vramgc run python launch.py
no-such-program x|no-such-program is not a command; see `vramgc help`
--lowvram sh|--lowvram stands before the command of vramgc; see `vramgc help`, or: vramgc run --lowvram COMMAND
list x|x is too much; `vramgc list` takes options only
env -t 60 x|x is too much; `vramgc env` takes options only
prove --quick x|x is too much; `vramgc prove` takes options only
diff -ax|-x is not an option of `vramgc diff`; see `vramgc help diff`
env -mode flush|-mode is not an option of `vramgc env`; did you mean --mode?
export --every|--every needs a value: DURATION; see `vramgc help export`
report --html=1|--html takes no value; see `vramgc help report`
TABLE
    # What a newcomer types, and how it is done: the command that is named is one, and takes that option.
    while IFS='|' read -r typed told; do
        for word in $typed; do
            run_apart "$vramgc" "$word" # of some there is a program in PATH
            equal "$status:$errors" "2:vramgc: $word is not a command; $told"
            run_apart "$vramgc" help "$word"
            [ "$status" -eq 0 ] || equal "$status:$errors" "2:vramgc: there is no help on $word; $told" # log is a setting
        done
        while read -r command option; do
            case $command in '' | *COMMAND*) continue ;; help) "$vramgc" help "$option" >/dev/null ;; *) contains "$("$vramgc" help "$command")" "${option:-$command}" ;; esac
        done < <(grep -o '`vramgc [^`]*`' <<<"$told" | tr -d '`' | sed 's/^vramgc //; s/ PID$//; s/ COMMAND$//')
    done <<'TABLE'
status ps monitor dashboard memory vram usage|did you mean `vramgc top`?
stats show summary STATS|did you mean `vramgc report`?
log logs|did you mean `vramgc report --all`?
open view html web page browser|did you mean `vramgc report --open`?
start launch exec|did you mean `vramgc run COMMAND`?
test|did you mean `vramgc prove`?
check info install|did you mean `vramgc doctor`?
config options environment variables|did you mean `vramgc help settings`?
modes observe compact auto|did you mean `vramgc help VRAMGC_MODE`?
prometheus grafana csv markdown perfetto|did you mean `vramgc help export`?
clean clear free gc flush empty release|vramgc gives idle memory back by itself; `vramgc park PID` moves all of a program to RAM
man manual completion completion-bash|the manual and what shells complete come with `make install` and the packages
stop kill end quit|vramgc cannot do that; press Ctrl-C where the program runs
TABLE
    equal "$("$vramgc" version)" "$("$vramgc" -V)"
    run_apart "$vramgc" help anything
    equal "$status" 2
    contains "$errors" 'there is no help on anything; there is on each command, setting and figure, and on settings, metrics'
    for topic in settings metrics json schema alerts tables; do "$vramgc" help "$topic" >/dev/null; done
    run_apart "$vramgc" report --jsno x
    equal "$status" 2
    contains "$errors" 'did you mean --json?'
    run "$vramgc" diff x
    equal "$status" 2
    run "$vramgc" env x
    equal "$status" 2
    run "$vramgc" help nothing
    equal "$status" 2
}

@test "a name that resembles none is not taken for another" {
    run "$vramgc" run --bogus true
    contains_not "$output" 'did you mean'
    VRAMGC_FOO=1 run "$vramgc" run true
    contains_not "$output" 'did you mean'
    VRAMGC_TRESHOLD=1 run "$vramgc" run true
    contains "$output" 'did you mean VRAMGC_THRESHOLD?'
}

@test "a size without its unit, and a value without its =, are told" {
    run "$vramgc" run --spill 3 true
    equal "$status" 125
    contains "$output" '--spill 3 lacks its unit: KiB, MiB or GiB'
    run "$vramgc" run --lowvram 1 true
    equal "$status" 125
    contains "$output" 'a value goes with its option: --lowvram=1'
}

@test "report: a terminal gets its width and bold headings, a pipe 80 plain columns" {
    make two-devices t.vramgc
    for setting in NO_COLOR= NO_COLOR=1; do
        env "$setting" TERM=xterm python3 - "$vramgc" report t.vramgc >seen <<'PYTHON'
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
try:
    while chunk := os.read(terminal, 65536):
        seen += chunk
except OSError:
    pass
sys.stdout.buffer.write(seen.replace(b"\r", b""))
PYTHON
        if [ "$setting" = NO_COLOR=1 ]; then
            equal "$(grep -c $'\033' seen)" 0
            sed '/^$/q' seen | grep -qE '^.{81}'
        else
            contains "$(cat seen)" $'\033[1mVERDICT'
        fi
    done
}

@test "diff: two files side by side: what became of each, and the figures that matter" {
    make plain a.vramgc
    make two-devices b.vramgc
    run "$vramgc" diff a.vramgc b.vramgc
    equal "$status" 0
    golden diff.txt "$output"
    equal "$("$vramgc" diff a.vramgc b.vramgc | grep -c 'mean of block events')" 0
    make plain runs.vramgc pid $$
    contains "$("$vramgc" diff runs.vramgc a.vramgc)" 'A still runs after 1 h'
    run "$vramgc" diff --all a.vramgc a.vramgc
    contains "$output" 'pinned_bytes, peak'
    contains_not "$output" 'managed_bytes' # 0 in both
    contains "$output" 'mean of block events'
    run_apart "$vramgc" diff a.vramgc missing
    equal "$status" 1
    one_line "$errors"
}

@test "report: what an ended program held last is told to be gone; of one that runs, or held nothing, nothing is" {
    local gone='all that the program held was freed when it ended'
    make plain a.vramgc
    contains "$("$vramgc" report a.vramgc)" "$gone"
    contains "$("$vramgc" report --html -o - a.vramgc)" "$gone"
    make plain runs.vramgc pid $$
    contains_not "$("$vramgc" report runs.vramgc)" "$gone"
    "$make_file" set a.vramgc devices[0].stats.held_bytes.current 0
    contains_not "$("$vramgc" report a.vramgc)" "$gone"
}

@test "diff: a device that one of the files does not count is not looked at there" {
    make two-devices a.vramgc
    make uncounted b.vramgc
    make plain c.vramgc
    "$vramgc" diff --all a.vramgc b.vramgc >out
    "$vramgc" diff --all a.vramgc c.vramgc >other
    grep -A 200 '^GPU 2' out >of_2
    grep -A 200 '^GPU 2' other | diff - of_2
    "$vramgc" diff b.vramgc a.vramgc
}

@test "env: lines that a shell can take" {
    run "$vramgc" env -t 70 --alloc-conf "it's"
    equal "$status" 0
    eval "$(grep -v LD_PRELOAD <<<"$output")"
    equal "$VRAMGC_THRESHOLD" 70
    equal "$VRAMGC_ALLOC_CONF" "it's"
    line=$(grep 'export LD_PRELOAD' <<<"$output")
    equal "$(LD_PRELOAD='' sh -c "$line; printenv LD_PRELOAD" | cut -d: -f1)" "$library"
    run "$vramgc" env -t lots
    equal "$status" 2
}

@test "env: behind a line without its end, twice, and undone as its first line says" {
    printf '#!/bin/sh\nexport COMMANDLINE_ARGS=--api' >webui-user.sh
    "$vramgc" env >>webui-user.sh
    "$vramgc" env -t 70 >>webui-user.sh
    # shellcheck disable=SC2016
    ask='set -eu; . ./webui-user.sh; echo "$COMMANDLINE_ARGS $VRAMGC_THRESHOLD"; printenv LD_PRELOAD | cut -d: -f1; printenv LD_PRELOAD | grep -o libvramgc.so | wc -l'
    equal "$(sh -c "$ask")" "--api 70
$library
1"
    equal "$(LD_PRELOAD=/other/libvramgc.so sh -c "$ask" 2>/dev/null | tail -n 1)" 1
    mv "$library" gone # nothing that is not there is named
    equal "$(sh -c '. ./webui-user.sh; printenv LD_PRELOAD' 2>&1)" ""
    eval "$(sed -n 's/^# vramgc begin. To undo: \(.*\) FILE$/\1 webui-user.sh/p; /vramgc begin/q' webui-user.sh)"
    equal "$(grep -v '^$' webui-user.sh)" '#!/bin/sh
export COMMANDLINE_ARGS=--api'
}

@test "help: every command, every topic, every setting and figure" {
    for topic in '' run report top diff help version env metrics json schema tables; do
        # shellcheck disable=SC2086
        run_apart "$vramgc" help $topic
        equal "$status" 0
        equal "$errors" ''
        [ -n "$output" ]
    done
    all=$("$vramgc" help)
    equal "$(sed -n 's/^  \([a-z]*\) .*/\1/p' <<<"$all" | tr '\n' ' ')" \
        "$("$top/scripts/texts" completion-bash "$vramgc" | sed -n "s/^        words='\([a-z].*\)'$/\1/p") "
    equal "$(grep -v '^  ' <<<"$all" | sed '1d; /^`vramgc/,$d' | tr '\n' ' ')" 'Start Look While a program runs Help '
    # With the next line to type it is a screen of 80x24.
    [ "$(wc -l <<<"$all")" -le 23 ]
    equal "$(awk 'length > 79' <<<"$all")" ''
    run_apart "$vramgc"
    equal "$status" 2
    equal "$output" ''
    equal "$(sed -n 's/^  vramgc \([a-z]*\) .*/\1/p' <<<"$errors" | tr '\n' ' ')" 'run run report top prove doctor '
    equal "$(tail -1 <<<"$errors")" '`vramgc help` has all commands.'
    for command in run report diff env help version; do
        run "$vramgc" "$command" --help
        equal "$status" 0
        contains "$output" "vramgc $command"
    done
    equal "$("$vramgc" report -a --help x)" "$("$vramgc" help report)" # behind other options, too
    env_help=$("$vramgc" help settings)
    table=$("$top/scripts/texts" markdown-settings "$vramgc")
    equal "$("$top/scripts/texts" markdown-often-set "$vramgc" | grep -vxFf <(printf '%s\n' "$table"))" ''
    equal "$("$top/scripts/texts" markdown-often-set "$vramgc" | grep -c '^.VRAMGC_')" 7
    run_help=$("$vramgc" run --help)
    while read -r variable; do
        contains "$env_help" "$variable="
        contains "$table" "\`$variable="
        contains "$("$vramgc" help "$variable")" "$variable="
    done < <(grep -o 'VRAMGC_[A-Z_]*' "$top/src/options.def" | sort -u | grep -v 'VRAMGC_$')
    equal "$("$vramgc" help VRAMGC_LOG_FILE | wc -l)" 2
    for name in LOG_FILE log-file --log_file vramgc_log_file; do
        equal "$("$vramgc" help "$name")" "$("$vramgc" help VRAMGC_LOG_FILE)"
    done
    contains "$("$vramgc" help give-back)" at-once
    for word in alerts oom growth; do
        equal "$("$vramgc" help "$word")" "$("$vramgc" help watch)"
    done
    contains "$("$vramgc" help held_bytes)" 'held_bytes (bytes)'
    run "$vramgc" help VRAMGC_SPIL
    contains "$output" 'did you mean `vramgc help VRAMGC_SPILL`?'
    contains "$run_help" '-t, --threshold PERCENT'
    equal "$(sed -nE '/^Often set:/,/^Of the command:/s/^  (-[to], )?--([a-z]*).*/\2/p' <<<"$run_help" | tr '\n' ' ')" \
        'mode threshold lowvram spill headroom cap on '
    equal "$(sed -n '/^Of the command:/,$p' <<<"$run_help" | grep -cE '^  (-.*, )?--(lowvram|on)')" 0
    contains "$run_help" '--log-file'
    [ "$(wc -l <<<"$run_help")" -le 60 ] # a screen and a half
    run "$vramgc" help held_over_live_mea
    contains "$output" 'did you mean `vramgc help held_over_live_mean`?'
    metrics=$("$vramgc" help metrics)
    while read -r name; do
        contains "$metrics" "  $name ("
        [[ $("$vramgc" help "$name") == "  $name ("* ]]
        # As the report says it: held.
        [[ $("$vramgc" help "${name%_bytes}") == "  $name ("* ]]
    done < <(sed -nE 's/^(DEVICE_GAUGE|DEVICE_TOTAL|DEVICE_SUM|PROCESS_TOTAL|DERIVED)\(([a-z_]+),.*/\2/p' \
        "$top/src/stats.def" "$top/src/read/derived.def")
    contains "$("$vramgc" --version)" 'vramgc 0.'
}

@test "help: texts are at most 80 columns wide" {
    for topic in '' run report top diff help version env metrics; do
        # shellcheck disable=SC2086
        equal "$("$vramgc" help $topic | grep -cE '^.{81}')" 0
    done
}

@test "manual: a page without warnings" {
    command -v groff >/dev/null || skip "SKIPPED: groff is not installed"
    "$top/scripts/texts" man "$vramgc" >vramgc.1
    run groff -man -Tutf8 -ww -z vramgc.1
    equal "$output" ''
    contains "$(groff -man -Tutf8 vramgc.1)" VRAMGC_THRESHOLD
}
