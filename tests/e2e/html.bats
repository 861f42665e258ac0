#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2034
# `vramgc report --html` and `--open`: the page by its structure here, and in a real browser in `make check-deep`.

load helpers

scenarios='plain fragmented full two-devices unknown observe compact pool limit markup'

# page NAME FILE...: the page of the files is NAME.html, and whole; sets output to its size, maps and entries.
page() {
    local name=$1
    shift
    "$vramgc" report --html -o "$name.html" "$@"
    "$vramgc" report --json "$@" >"$name.json"
    output=$(python3 "$BATS_TEST_DIRNAME/page.py" "$name.html" "$name.json")
}

map() {
    python3 "$BATS_TEST_DIRNAME/make_map.py" "$@"
}

@test "report --html: each kind of file is a whole page that asks nobody for anything, and says what the JSON report says" {
    for scenario in $scenarios; do
        "$make_file" "$scenario" "$scenario.vramgc"
        page "$scenario" "$scenario.vramgc"
    done
    "$make_file" killed killed.vramgc
    page killed killed.vramgc
    contains "$(cat killed.html)" 'vramgc gave back 5.0 GiB by malloc_trim, 1.0 GiB by torch._C._host_emptyCache.'
    page all ./*.vramgc
    [ "$(wc -c <all.html)" -lt 2000000 ]
}

@test "report --html FILE: who means it for the page to be written is told of -o" {
    run_apart "$vramgc" report --html page.html
    equal "$status:$output" 1:
    equal "$errors" 'vramgc: page.html: cannot be read: No such file or directory; --html writes to standard output: use -o FILE'
    run_apart "$vramgc" report page.html
    equal "$errors" 'vramgc: page.html: cannot be read: No such file or directory; `vramgc list` shows what is kept'
    "$make_file" plain plain.vramgc
    run_apart "$vramgc" report --html page.html plain.vramgc
    equal "$status:$output" 1:
    equal "$errors" 'vramgc: page.html: cannot be read: No such file or directory; --html writes to standard output: use -o FILE'
    run_apart "$vramgc" report --html -o page.html plain.vramgc missing.vramgc
    equal "$status:$output" 1:
    one_line "$errors"
    [ ! -e page.html ]
}

@test "report --html: a file of nothing but extremes is a page of a few MB" {
    "$make_file" hostile hostile.vramgc
    page hostile hostile.vramgc
    [ "$(wc -c <hostile.html)" -lt 8000000 ]
}

@test "report --html: what a program says is text, wherever it says it" {
    "$make_file" markup markup.vramgc
    mv markup.vramgc '<i>"&.vramgc'
    page markup '<i>"&.vramgc'
    contains_not "$(cat markup.html)" '<script>owned'
    contains_not "$(cat markup.html)" '<img src=x'
    contains_not "$(cat markup.html)" '<i>"'
    contains_not "$(cat markup.html)" '<b onclick'
}

@test "report --html: another number lets the scripts of each page run" {
    "$make_file" plain plain.vramgc
    for i in 1 2; do
        "$vramgc" report --html plain.vramgc >$i.html
    done
    contains_not "$(cat 1.html)" "$(grep -o "'nonce-[^']*'" 2.html)"
    equal "$(sed -E 's/[0-9a-f]{32}//' 1.html)" "$(sed -E 's/[0-9a-f]{32}//' 2.html)"
}

@test "report --html: above all pictures it says which web UI it was, who had most, and of which process the verdict is" {
    "$make_file" plain plain.vramgc
    "$make_file" fragmented fragmented.vramgc
    page several plain.vramgc fragmented.vramgc
    contains "$(cat several.html)" '<div class="verdict bad" id="verdict" data-process="1">'
    contains "$(cat several.html)" '<dt>Most</dt><dd>5.0 GiB of 6.0 GiB live then: load_model (modules/sd_models.py:310)</dd>'
    contains "$(cat several.html)" '<td class="t">encode_prompt (sd/pipeline.py:212), text encode</td>'
    "$make_file" set fragmented.vramgc working_folder /home/me/ComfyUI command_line '/home/me/ComfyUI/venv/bin/python main.py --listen'
    "$vramgc" report --html fragmented.vramgc >comfy.html
    contains "$(cat comfy.html)" '<h1>ComfyUI: main.py</h1>'
    contains "$(cat comfy.html)" '<td class="t wrap">/home/me/ComfyUI/venv/bin/python main.py <span class="opt">--listen</span></td>'
}

@test "report --html: when it was, for how long and on which machine stands at its head; what grows has no green verdict" {
    export TZ=UTC
    "$make_file" growing growing.vramgc
    "$make_file" set growing.vramgc host_name '<box>'
    page growing growing.vramgc
    contains "$(grep 'class="from"' growing.html)" '2025-01-01 11:59, ran 1 h 12 m, exit 0, on &#60;box&#62;, mode flush; vramgc '
    contains "$(grep 'id="verdict"' growing.html)" '<div class="verdict warn"'
    contains "$(cat growing.html)" 'Memory grows: '
    "$make_file" host-growth host-growth.vramgc
    contains "$("$vramgc" report --html host-growth.vramgc | grep 'id="verdict"')" '<div class="verdict warn"'
    "$make_file" plain plain.vramgc
    contains "$("$vramgc" report --html plain.vramgc | grep 'id="verdict"')" '<div class="verdict good"'
}

# heads FILE HEAD: of the table with that head.
heads() {
    "$vramgc" report --html "$1" | grep -F "<th class=\"t\">$2</th>" | grep -oP '(?<=>)[^<>]+(?=</th>)' | paste -sd,
}

@test "report --html: a table has no column in which nothing is told" {
    "$make_file" compact a
    equal "$(heads a by)" 'at,until,GPU,by,why,gave back,in all,left,took,Python ran'
    "$make_file" set a 'actions[0].until_ns' 0
    "$make_file" set a 'actions[0].phase' VAE
    equal "$(heads a by)" 'at,GPU,by,why,gave back,in all,left,took,Python ran,phase'
    "$make_file" set a 'actions[0].phase' '' 'actions[0].function' ''
    equal "$(heads a by)" 'at,GPU,by,why,gave back,in all,left,took'
    "$make_file" full b
    equal "$(heads b granted)" 'at,GPU,wanted,free,idle pages,live,largest hole,why,granted,from'
    "$make_file" observe c
    equal "$(heads c by)" 'at,GPU,by,why,memory,Python ran'
    equal "$(heads c 'Python function')" 'Python function,at the peak,phase'
    "$make_file" set c 'sites[0].phase' '' 'sites[2].phase' ''
    equal "$(heads c 'Python function')" 'Python function,at the peak'
    "$make_file" fragmented d
    contains "$(heads d granted)" ',from,Python function'
}

# note RUN PID PARENT: what is noted where another process had that.
note() {
    "$make_file" set other.vramgc run_id "$1" pid "$2" parent_pid "$3"
    "$vramgc" report --html ran-out.vramgc other.vramgc | grep -o '<dt>Note</dt>.*'
}

@test "report --html: runs that have nothing to do with each other are not judged together" {
    "$make_file" fragmented ran-out.vramgc
    "$make_file" plain other.vramgc
    "$make_file" set ran-out.vramgc pid 20 parent_pid 1 run_id run-1
    alone=$("$vramgc" report --html ran-out.vramgc | grep -oP '<dt>Note</dt>.*(?=</dd>)')
    contains "$alone" 'in all'
    equal "$(note run-2 21 20)" "$alone Processes of other runs, of which this says nothing: 1.</dd>"
    contains_not "$(note run-1 21 1)" "${alone%.*}"
    "$make_file" set ran-out.vramgc run_id ''
    contains_not "$(note '' 21 20)" "${alone%.*}"
    equal "$(note '' 21 1)" "$alone Processes of other runs, of which this says nothing: 1.</dd>"
}

@test "report --html: each phase has a colour of its own, light and dark, that no other part of the page has, and that is seen" {
    "$make_file" plain plain.vramgc
    page plain plain.vramgc
    run python3 - "$top/src/phases.def" <<'PYTHON'
import itertools, json, re, sys
page = open("plain.html", encoding="utf-8").read()
phases = json.loads(re.search(r"const PHASES = (\[.*?\]);", page)[1])
named = dict.fromkeys(re.findall(r'^PHASE\("([^"]+)"', open(sys.argv[1]).read(), re.M))
if sorted(phases) != sorted(named):
    print("colours of", phases, "and not of", list(named))
style = re.search(r"<style>(.*?)</style>", page, re.S)[1]
def light(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
for scheme in (0, 1):
    colours = {}
    for name, colour in re.findall(r"--(phase\d|own\d|live|idle|code|sheet): (#\w{6});", style):
        colours.setdefault(name, []).append(colour)
    colours = {name: both[scheme] for name, both in colours.items()}
    if len(colours) != len(phases) + 7 + 4:
        print("colours of", list(colours))
    for a, b in itertools.combinations(colours, 2):
        if max(abs(int(colours[a][i:i + 2], 16) - int(colours[b][i:i + 2], 16)) for i in (1, 3, 5)) < 24:
            print(a, "and", b, "look the same")
    for name in colours.keys() - {"sheet", "idle"}:
        high, low = sorted((light(colours[name]), light(colours["sheet"])), reverse=True)
        if (high + 0.05) / (low + 0.05) < 3:
            print(name, colours[name], "is hardly seen on", colours["sheet"])
PYTHON
    equal "$status:$output" 0:
}

@test "report --html: the blocks of an out-of-memory are in it, and of very many the small ones are drawn together" {
    "$make_file" fragmented fragmented.vramgc
    map fragmented.vramgc 0 1000
    page few fragmented.vramgc
    equal "$(cut -d' ' -f2- <<<"$output")" '1 1001'
    map fragmented.vramgc 0 200000
    page many fragmented.vramgc
    [ "$(wc -c <many.html)" -lt 1000000 ]
    python3 - <<'PYTHON'
import json, re
text = open("many.html", encoding="utf-8").read()
map = json.loads(re.search(r'id="maps">(.*?)</script>', text, re.S).group(1))[0]
sums = [sum(e[i] for s in map["segments"] for e in s["entries"]) for i in range(4)]
mib = 1 << 20
assert sums == [240000 * mib, 80000 * mib, 80000 * mib + 96 * mib, 200001], sums
assert sum(s["segments"] for s in map["segments"]) == 20001
assert [0, 0, 96 * mib, 1] in [e for s in map["segments"] for e in s["entries"]]
PYTHON
}

@test "report --html: a page of vramgc is replaced, another file is not, and a terminal gets none" {
    "$make_file" plain plain.vramgc
    "$vramgc" report --html -o page.html plain.vramgc
    "$vramgc" report --html -o page.html plain.vramgc
    echo '<!doctype html><p>mine' >mine.html
    run_apart "$vramgc" report --html -o mine.html plain.vramgc
    equal "$status" 1
    equal "$(cat mine.html)" '<!doctype html><p>mine'
    run python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' \
        "$vramgc" report --html plain.vramgc
    equal "$status" 2
    contains "$output" 'give -o FILE, or --open'
    run_apart "$vramgc" report --html --json plain.vramgc
    equal "$status" 2
}

# A browser that writes down what it was given; $1 is its status.
browser() {
    mkdir -p "$work/openers"
    script "$work/openers/xdg-open" <<SH
echo "\$#:\$1" >>"$work/opened"
exit $1
SH
    script "$work/openers/wslview" <<<'exit 1'
    PATH=$work/openers:$PATH
}

@test "report --open: the page lies beside the file, or where -o says, and the browser gets its whole path" {
    browser 0
    export DISPLAY=:7
    "$make_file" plain plain.vramgc
    run_apart "$vramgc" report --open plain.vramgc
    equal "$status:$output" 0:
    equal "$errors" "vramgc: opened $PWD/plain.vramgc.html"
    equal "$(cat "$work/opened")" "1:$PWD/plain.vramgc.html"
    equal "$(stat -c %a plain.vramgc.html)" 600
    "$vramgc" report --json plain.vramgc >plain.json
    python3 "$BATS_TEST_DIRNAME/page.py" plain.vramgc.html plain.json
    "$vramgc" report --open -o there.html plain.vramgc
    equal "$(tail -1 "$work/opened")" "1:$PWD/there.html"
    run_apart "$vramgc" report --open -o - plain.vramgc
    equal "$status" 2
}

@test "report --open: what lies beside the file and is no page stays, and the page goes elsewhere" {
    browser 0
    export DISPLAY=:7
    "$make_file" plain plain.vramgc
    echo mine >plain.vramgc.html
    "$vramgc" report --open plain.vramgc
    equal "$(cat plain.vramgc.html)" mine
    elsewhere=$(cut -d: -f2 "$work/opened")
    equal "$(stat -c %a "$(dirname "$elsewhere")")" 700
    contains "$(head -2 "$elsewhere")" '<!-- vramgc report'
    rm -r "$(dirname "$elsewhere")"
}

@test "report --open: without a screen, or a browser, it says where the page is" {
    browser 3
    "$make_file" plain plain.vramgc
    unset DISPLAY WAYLAND_DISPLAY BROWSER WSL_DISTRO_NAME
    run_apart "$vramgc" report --open plain.vramgc
    equal "$status" 1
    equal "$errors" "vramgc: no screen for a browser: open $PWD/plain.vramgc.html in one"
    [ ! -e "$work/opened" ]
    DISPLAY=:7 run_apart "$vramgc" report --open plain.vramgc
    equal "$status" 1
    equal "$errors" "vramgc: no browser was found: open $PWD/plain.vramgc.html in one"
}

# bats test_tags=deep
@test "report --html: in Chromium it is drawn, light and dark, from 360 to 1600 pixels; slider, keys, pointer and buttons work" {
    python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import browser; sys.exit(not browser.find())' \
        "$BATS_TEST_DIRNAME" || skip "SKIPPED: no Chromium; scripts/setup-system --for deep"
    for scenario in fragmented went-on two-devices unknown unread markup hostile plain observe; do
        "$make_file" "$scenario" "$scenario.vramgc"
    done
    map fragmented.vramgc 0 1000
    for scenario in fragmented went-on unknown unread markup hostile plain observe; do
        page "$scenario" "$scenario.vramgc"
    done
    "$make_file" set plain.vramgc command_line "python launch.py --xformers --ckpt=/home/me/$(printf 'models/%.0s' {1..15})"
    page options plain.vramgc
    page several fragmented.vramgc two-devices.vramgc
    for run in 10-1-1-exit 10-2-2-oom 600-2-1-exit 600-40-2-exit 36000-40-1-exit 36000-2-1-oom 600-2-1-crash 10-1-1-empty; do
        "$make_file" "run:${run//-/:}" "run-$run.vramgc"
        page "run-$run" "run-$run.vramgc"
    done
    page later plain.vramgc fragmented.vramgc
    python3 -B "$BATS_TEST_DIRNAME/page_in_browser.py"
}
