#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2016,SC2046
# The guides of src/guides: each command line runs as it stands there, on the simulated device, with the real library and PyTorch's
# own allocator. Web UIs, docker, kubectl and sudo are stand-ins, which know the options that the guides use and refuse all others;
# nothing is installed outside the test's folder.

load helpers

# The machine of somebody who follows a guide: his home, his web UI's folder, his commands.
setup_machine() {
    . "$top/tests/c10/releases"
    allocator=$top/build/c10/$NEWEST_RELEASE/c10drive
    [ -x "$allocator" ] || skip "SKIPPED: build/c10/$NEWEST_RELEASE/c10drive is not there (make c10drive)"
    [ -e "$top/build/proven/stamp" ] || skip "SKIPPED: build/proven is not there (make proven)"
    unset VRAMGC_OUT XDG_STATE_HOME PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF
    export HOME=$work/home STAND_INS=$work/commands SIMGPU_MEM=2GiB SIMGPU_DATA_LIMIT=0
    export LD_LIBRARY_PATH=$top/build/sim/driver:$top/build/sim/nvml:$top/build/sim/rt13:$work/lib
    mkdir -p "$HOME" "$STAND_INS" "$work/lib"
    cp "$built/libempty.so" "$work/lib/libjemalloc.so.2"
    cp "$(dirname "$built")/libvramgc.so" "$work/bin/libvramgc.so"
    script no-trial <<<"proofs='$top/build/proven/vramgc'"'
        state=${XDG_STATE_HOME:-$HOME/.local/state}/vramgc
        case $1 in prove | run | env) mkdir -p -m 700 "$state" && cp "$proofs"/*.proof "$state" ;; esac
        [ "$1" != prove ] || set -- "$@" --show
        [ "$1" != prove ] || "$(readlink -f "$0").real" "$@" >"$STAND_INS/trial" || cp "$STAND_INS/trial" "$STAND_INS/failed"
        exec "$(readlink -f "$0").real" "$@"'
    mv no-trial "$STAND_INS"
    tries_no_card "$work/bin"
    ln -s "$work/bin/vramgc" "$STAND_INS/vramgc"
    script "$STAND_INS/sudo" <<<'exec "$@"'
    script "$STAND_INS/make" <<<"$(command -v make) -s -C '$top' -o all BUILD='$(dirname "$built")' \"\$@\" || exit
        $(declare -f tries_no_card); tries_no_card '$work/opt/vramgc/bin'"
    for name in docker kubectl; do
        script "$STAND_INS/$name" <<<"exec '$top/build/venv/bin/python' '$BATS_TEST_DIRNAME/containers.py' $name \"\$@\""
    done
    export PATH=$STAND_INS:$PATH
    # /opt is a folder of the test's where it is the machine's, and not a container's.
    here="s|/opt/vramgc:/opt|$work/&|; s|prefix=/opt|prefix=$work/opt|; s|cp -r /opt|cp -r $work/opt|"
}

# A trial of the card takes seconds, so that the command finds, or shows, what `make proven` found instead, but with the options it is given.
tries_no_card() {
    mv "$1/vramgc" "$1/vramgc.real"
    cp "$STAND_INS/no-trial" "$1/vramgc"
}

# python that runs FILE... with OPTION...: of those named here, and no others; then it is PyTorch's allocator with a model and an image.
# settings is what the web UI puts into the environment before it loads PyTorch.
python_for() {
    cat >"$STAND_INS/python" <<SH
#!/bin/sh
case " $1 " in *" \$1 "*) shift ;; *) echo "python: no file \$1" >&2; exit 2 ;; esac
options="\$*"
for option; do
    case \$option in -*) case " $2 " in *" \$option "*) ;; *) echo "no option \$option" >&2; exit 2 ;; esac ;; esac
done
$settings
exec '$allocator' -c 'alloc model 200MiB; alloc image 300MiB; free image; alloc vae 100MiB; _exit 0' 2>/dev/null
SH
    chmod +x "$STAND_INS/python"
}

# The folder's webui.sh, as those of the web UIs begin and end; with WORDS in between.
web_ui() {
    script webui.sh <<<"[ ! -f webui-user.sh ] || . ./webui-user.sh
        ${1:-}
        exec python launch.py \"\$@\""
}

# Writes the blocks of the guide that are files, named by their first line.
files_of() {
    python3 - "$top/src/guides/$1" <<'PYTHON'
import pathlib, re, sys
for text in re.findall(r"```(?:yaml|dockerfile)\n(.*?)```", pathlib.Path(sys.argv[1]).read_text(), re.S):
    name = re.fullmatch(r"# ([\w.]+)", text.split("\n")[0])[1]
    pathlib.Path(name).write_text(text)
PYTHON
}

# follow GUIDE LINES: each line of its shell blocks, each block in a shell of its own, as whoever pastes them does. The line that fails
# is told; said is all that they printed, runs how many of them used the card.
follow() {
    awk '$0 == "```sh" { inside = 1; print "("; next } /^```/ { if (inside) print ")"; inside = 0 } inside' "$top/src/guides/$1" |
        sed "$here" >commands
    local count line
    count=$(grep -cvx '[()]' commands)
    [ "$count" = "$2" ] || {
        echo "$1 has $count command lines, the test knows of $2" >&2
        return 1
    }
    {
        echo 'set -u'
        while read -r line; do
            case $line in
                '(') echo '(' ;;
                ')') echo ') || exit' ;;
                *) printf '%s || { echo "status $? in %s: %s" >&2; exit 1; }\n' "$line" "$1" "${line//[\"\$\`]/}" ;;
            esac
        done <commands
    } >as-pasted
    said=$(bash as-pasted 2>&1) || {
        echo "$said" >&2
        return 1
    }
    [ ! -e "$STAND_INS/failed" ] # also where the guide lets it fail
    runs=$("$vramgc" list --paths | wc -l)
}

# No line of the guide may start anything without the library, or in another mode than the guide says.
all_compact() {
    equal "$runs" "$1"
    equal "$("$vramgc" report --json $("$vramgc" list --paths) | grep -c '"mode": "compact"')" "$1"
}

@test "guides, index: its lines" {
    setup_machine
    web_ui
    python_for launch.py ''
    follow README.md 2
    contains "$said" 'passed'
    all_compact 1
}

@test "guides, SD.Next: its lines, and what becomes of its setting of the allocator" {
    setup_machine
    web_ui
    settings='export PYTORCH_CUDA_ALLOC_CONF="${PYTORCH_CUDA_ALLOC_CONF:-garbage_collection_threshold:0.99,max_split_size_mb:512}"'
    python_for launch.py '--lowvram --medvram'
    follow sdnext.md 11
    contains "$said" '**vramgc:** No allocation failed'
    contains "$said" 'allocator: garbage_collection_threshold:0.99,large_segment_size_mb:12,'
    all_compact 6
}

@test "guides, SD.Next: a GC threshold of 100 keeps PyTorch from starting, 99 does not" {
    setup_machine
    export PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.99
    "$allocator" -c 'alloc a 2MiB'
    PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:1.00 run "$allocator" -c 'alloc a 2MiB'
    [ "$status" != 0 ]
    contains "$output" 'set it in (0.0, 1.0)'
}

@test "guides, ComfyUI: its lines, with the driver's pool and without" {
    setup_machine
    settings='case $options in *--disable-cuda-malloc*) ;; *) export PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync ;; esac'
    python_for main.py '--listen --disable-cuda-malloc --disable-dynamic-vram'
    follow comfyui.md 9
    contains "$said" 'allocator: backend:cudaMallocAsync'
    contains "$said" 'allocator: large_segment_size_mb:12,expandable_segments:True'
    all_compact 5
}

@test "guides, Forge and A1111: their lines" {
    setup_machine
    cp "$built/libempty.so" "$work/lib/libtcmalloc_minimal.so.4"
    web_ui '[ -n "$LD_PRELOAD" ] || export LD_PRELOAD=libtcmalloc_minimal.so.4'
    settings='echo "$LD_PRELOAD" >>preloads'
    python_for launch.py --medvram-sdxl
    follow forge-a1111.md 9
    all_compact 4
    equal "$(grep -c "^$library:.*libtcmalloc_minimal.so.4" preloads)" 4
}

@test "guides, InvokeAI: its lines" {
    setup_machine
    python_for invokeai ''
    script "$STAND_INS/invokeai-web" <<<'exec python invokeai "$@"'
    follow invokeai.md 8
    contains "$said" "allocator: large_segment_size_mb:12,expandable_segments:True"
    all_compact 4
}

@test "guides, scripts: their lines, and what they write" {
    setup_machine
    python_for generate.py ''
    # What the guide marks from outside runs already.
    script "$work/started" <<<"echo >'$work/runs'"
    script "$work/marked" <<<"LD_PRELOAD= '$vramgc' report '$HOME'/.local/state/vramgc/*.\$(cat '$work/pid').vramgc | grep -q ' upscaling\$'"
    ln -s "$allocator" "$work/generate-$$" # others may run on the same machine
    here+="; s|mark generate.py|mark generate-$$|"
    "$vramgc" run --no-summary sh -c 'echo $$ >"$1/pid"; exec "$2" -c "alloc a 8MiB; until $1/started; until $1/marked"' - "$work" "$work/generate-$$" 2>/dev/null &
    await "$work/runs"
    follow scripts.md 13
    wait $!
    contains "$said" 'held, peak'
    contains "$(cat run.json)" '"verdict"'
    python3 -m json.tool trace.json >trace
    python3 -c 'import pickle; assert pickle.load(open("blocks.pickle", "rb"))["segments"] is not None'
    awk '$0 == "```python" { inside = 1; next } /^```/ { inside = 0 } inside' "$top/src/guides/scripts.md" >marks.py
    python3 marks.py
}

@test "guides, alerts: its lines; the commands are started" {
    setup_machine
    web_ui
    settings="exec '$allocator' -c 'alloc model 3GiB; _exit 0' 2>/dev/null"
    python_for launch.py ''
    script "$STAND_INS/notify-send" <<<'[ $# = 2 ] && echo "$2" >>told'
    for name in full oom; do script "$name.sh" <<<"touch $name"; done
    script "$STAND_INS/curl" <<<'case "$#:$1:$3" in 3:--data-raw:https:* | 3:--data-urlencode:https:*) echo "$2" >>sent ;; *) exit 2 ;; esac'
    script "$STAND_INS/systemctl" <<<'[ "$*" = "--user enable --now vramgc-watch" ]'
    script "$STAND_INS/loginctl" <<<'[ "$*" = enable-linger ]'
    follow alerts.md 11
    contains "$(cat told)" 'OUT OF MEMORY'
    equal "$(grep -c '^content=.*OUT OF MEMORY' sent):$(grep -c 'OUT OF MEMORY' sent)" 1:2
    # The service's line, in quotes that systemd reads as a shell does.
    eval "$(sed -n 's/^ExecStart=vramgc watch/vramgc watch --test/p' "$top/src/guides/alerts.md")"
    contains "$(tail -1 sent)" 'A test of oom'
    contains "$(cat alerts.txt)" 'OUT OF MEMORY'
    [ ! -e full ]
    "$vramgc" report oom.vramgc >/dev/null
    ./webui.sh
    await oom
    contains "$(cat vramgc-rules.yml)" VramgcOutOfMemory
    contains "$(cat vramgc-dashboard.json)" vramgc_held_bytes
}

@test "guides, containers: their lines, the files for compose, docker build and the pod" {
    setup_machine
    "$top/build/venv/bin/python" -c 'import yaml' || skip "SKIPPED: no yaml in build/venv"
    python_for launch.py ''
    files_of containers.md
    sed -i "$here" compose.yaml
    follow containers.md 15
    for state in "$HOME/vramgc-state" "$STAND_INS/var/lib/vramgc"; do
        XDG_STATE_HOME=$state run "$vramgc" report
        contains "$output" 'mode     compact'
    done
    contains "$said" 'vramgc_held_bytes'
}

@test "guides, report and questions: their lines" {
    setup_machine
    web_ui
    python_for launch.py ''
    "$vramgc" run --no-summary python launch.py 2>/dev/null
    export BROWSER=any
    script "$STAND_INS/xdg-open" <<<'case $1 in *.html) grep -q "<html" "$1" && echo "$1" >"$STAND_INS/opened" ;; *) exit 1 ;; esac'
    follow report.md 8
    [ -s "$STAND_INS/opened" ]
    contains "$said" 'held, peak'
    contains "$(cat report.md)" '**vramgc:**'
    follow faq.md 7
    contains "$said" 'vramgc proof'
    follow ram.md 3
}

@test "guides: each verdict, and each kind of line of the sample, is explained" {
    run python3 - "$top" <<'PYTHON'
import json, pathlib, re, sys
top = pathlib.Path(sys.argv[1])
guide = (top / "src/guides/report.md").read_text()
codes = re.search(r'"code": .*?"description": "([^"]*)"', (top / "src/show/schema.json").read_text())[1]
for code in re.findall(r"[a-z_]+(?=[,;]|$)", codes):
    if f"\n| `{code}` |" not in guide:
        print("no row for the verdict", code)
sample = re.search(r"<!-- sample -->\n\n```\n(.*?)```", guide, re.S)[1]
for line in sample.splitlines():
    if "|" in line or "+---" in line or not re.match(r"[-+=(A-Za-z0-9]|  [a-z]", line) or line.startswith(("--", "python")):
        continue
    words = re.sub(r"\([^)]*\)?|^[+=] | {2,}.*|:.*|(?<=RETURNED).*", "", line.strip())
    if words.strip() and words.split(" ")[0] not in ("Details", "Compare") and words.strip() not in guide:
        print("no row for the line", words)
PYTHON
    equal "$output" ''
}

@test "guides: each web UI's begins with figures without and with vramgc, all of them from FIGURES.md, and with the line that starts it" {
    run python3 - "$top" <<'PYTHON'
import pathlib, re, sys
top = pathlib.Path(sys.argv[1])
figures = set(re.findall(r"[\d,.]*\d", (top / "tests/lab/FIGURES.md").read_text()))
for name in ("comfyui", "forge-a1111", "invokeai", "sdnext"):
    begin = (top / f"src/guides/{name}.md").read_text().split("\n## ")[0]
    rows = re.findall(r"\| ([\d,.]+)[^|]*\| ([\d,.]+)[^|]*\|$", begin, re.M)
    if not 2 <= len(rows) <= 3 or "| without | with vramgc |" not in begin or "\nvramgc run " not in begin:
        print(name, "does not begin with figures and a line")
    print(*(f"{name}: FIGURES.md has no {figure}\n" for row in rows for figure in row if figure not in figures), end="")
PYTHON
    equal "$output" ''
}

@test "guides: each link leads to a file, and to a heading in it; the index has each guide" {
    run python3 - "$top" <<'PYTHON'
import pathlib, re, sys
folder = pathlib.Path(sys.argv[1]) / "src/guides"
def anchors(path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)", text, re.M)}
for path in sorted(folder.glob("*.md")):
    for file, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", path.read_text()):
        target = path.parent / file if file else path
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            print(f"{path.name}: nothing is at {file}#{anchor}")
    # Installed, only these two places are there.
    for file in re.findall(r"\]\(([^)#]+)", path.read_text()):
        if "/" in file and file != "../LIMITS.md":
            print(f"{path.name}: {file} is not installed")
    if path.name != "README.md" and f"({path.name})" not in (folder / "README.md").read_text():
        print(f"README.md: no {path.name}")
PYTHON
    equal "$output" ''
}
