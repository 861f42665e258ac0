#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2030,SC2031,SC2086
# What README.md and the documents beside the source promise: each command is run as it stands there, each file is there, and the
# sample of a report is one of today's. A command that no test knows how to run fails.

load helpers

# The lines of the blocks ```$2 of a document, without comments.
block() {
    awk -v fence='```'"$2" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' "$top/$1" | sed -E 's/(^| +)#.*//; /^$/d'
}

# Works as the user's folder: a web UI, an interpreter named python, and two statistics files.
user_folder() {
    script webui.sh <<<'exit 0'
    echo 'pass' | tee launch.py >main.py
    mkdir "$work/commands"
    ln -s "$(command -v python3)" "$work/commands/python"
    export PATH=$work/bin:$work/commands:$PATH FAKE_CUDA='sh python'
    "$make_file" plain before.vramgc
    "$make_file" compact after.vramgc
    "$make_file" fragmented vramgc-python.1.vramgc
}

# Runs a command of the README where it changes nothing but the test's own folder, and looks at what it said.
follow() {
    case $1 in
        'sudo apt install git gcc '* | 'make deb && sudo apt install '* | 'make wheel && pip install '*) ;; # packages.bats, in bare systems
        'sudo dnf install git gcc '* | 'sudo pacman -S '*) ;; # of systems that no test has, as the README says
        make | make\ [a-z]*) make -C "$top" -n ${1#make} >/dev/null ;;
        'make && sudo make install' | 'make && make install prefix='*)
            local at=$work/system/usr/local where=DESTDIR=$work/system
            [[ $1 == *sudo* ]] || at=$work/system/.local where=${1##* }
            HOME=$work/system make -C "$top" BUILD="$(dirname "$built")" install "$where"
            contains "$("$at/bin/vramgc" env)" "$at/lib/vramgc/libvramgc.so"
            ;;
        'vramgc prove')
            contains "$(XDG_STATE_HOME=$work/state "$top/tests/on_card" --mem 2GiB -- vramgc prove --quick 2>&1)" 'auto is compact'
            ;;
        'vramgc run '*) contains "$(eval "$1" 2>&1)" VERDICT ;;
        'vramgc report --open') contains "$(BROWSER=true eval "$1" 2>&1)" .html ;;
        'vramgc report' | 'vramgc report '*) contains "$(eval "$1")" VERDICT ;;
        'vramgc top') contains "$(eval "$1")" 'vramgc top' ;;
        'vramgc list') contains "$(eval "$1")" 'vramgc list --paths' ;;
        'vramgc export --markdown') contains "$(eval "$1")" '**vramgc:** OUT OF MEMORY' ;;
        'vramgc doctor') contains "$(eval "$1" || true)" "$library" ;;
        'vramgc diff '*) contains "$(eval "$1")" 'held, peak' ;;
        'vramgc whatif '*) contains "$(eval "$1" 2>&1 || true)" '`vramgc run --record` makes one' ;; # whatif.bats
        'vramgc help'*) contains "$(eval "$1")" 'vramgc run' ;;
        'vramgc env >> webui-user.sh')
            eval "$1"
            equal "$(bash -c '. ./webui-user.sh && printenv LD_PRELOAD' | cut -d: -f1)" "$library"
            ;;
        *)
            echo "README.md has a command that no test runs: $1" >&2
            return 1
            ;;
    esac
}

@test "README: each command does what it says" {
    user_folder
    count=0
    while read -r line; do
        follow "$line" || {
            echo "in README.md: $line" >&2
            return 1
        }
        count=$((count + 1))
    done < <(block README.md sh)
    [ "$count" -ge 8 ]
}

@test "include/README.md: its shell and Python blocks work, and it names the functions of vramgc.h" {
    user_folder
    equal "$(eval "$(block include/README.md sh)" | wc -l)" 1
    block include/README.md python >program.py
    python3 program.py
    equal "$(grep -oE '^\| `vramgc_[a-z_]+' "$top/include/README.md" | cut -c4- | sort)" \
        "$(grep -oE '^VRAMGC_API .*vramgc_[a-z_]+\(' "$top/include/vramgc.h" | grep -oE 'vramgc_[a-z_]+' | sort)"
}

# scripts/docs --sample makes it.
@test "README: its pictures are pictures, and small" {
    sed -nE 's/^!\[.*\]\((.*\.png)\)$/\1/p' "$top/README.md" >pictures
    equal "$(wc -l <pictures)" 2
    while read -r picture; do
        equal "$(head -c 8 "$top/$picture" | od -An -c | tr -d ' ')" '211PNG\r\n032\n'
        [ "$(stat -c %s "$top/$picture")" -le 102400 ]
    done <pictures
}

@test "README: each figure of its table is one of FIGURES.md, in GiB" {
    run python3 - "$top" <<'PYTHON'
import pathlib, re, sys
top = pathlib.Path(sys.argv[1])
known = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", (top / "tests/lab/FIGURES.md").read_text())}
known = {f"{number:g}" for number in known} | {f"{number / 1024:.1f}" for number in known}
rows = re.findall(r"^\| (?:A1111|Forge|SD\.Next|ComfyUI|InvokeAI|diffusers) .*", (top / "README.md").read_text(), re.M)
told = [figure for row in rows for pair in re.findall(r"([\d.]+) → ([\d.]+)", row) for figure in pair]
print(*(f"FIGURES.md has no {figure}" for figure in told if f"{float(figure):g}" not in known and figure not in known), end="")
print("" if len(rows) == 6 and len(told) > 20 else "the table is another", end="")
PYTHON
    equal "$output" ''
}

@test "README: it is read in a few minutes" {
    [ "$(wc -w <"$top/README.md")" -le 900 ]
}

# Numbers, sizes and times are those of a run; so are the graph, the rows of the lists, and what the verdict says. The rest is the
# same in each report.
shape() {
    sed -E '/^VERDICT/,/^$/d; /^WHO/,/^$/{/^WHO/!d; s/ at OOM//}; /^(-- vramgc|python|mode|PyTorch  |GPU|Details|Picture)|^ {9}[0-9(]|^ +[0-9.]+ .?i?B [|+]|^ +[|0]|^ *[a-zA-Z -]+\|[0-9. ]*$/d
        s/[0-9][0-9,.]* ?([KMGTP]iB|B)?/N/g; s/ at rest/ at the end/; s/ +/ /g; s/^ //; /^$/d'
}

@test "guide of the report: its sample is made of the lines of today's report" {
    for scenario in compact plain fragmented; do
        "$make_file" "$scenario" "$scenario.vramgc"
        "$vramgc" report "$scenario.vramgc" | shape >>now
    done
    awk '/^<!-- sample -->/ { inside = 1; next } /^<!-- end -->/ { inside = 0 } inside && !/^```/' "$top/src/guides/report.md" >sample
    contains "$(cat sample)" '-- vramgc 0.'
    contains "$(cat sample)" RETURNED
    contains "$(cat sample)" VERDICT
    equal "$(shape <sample | grep -vxFf now)" ''
    [ "$(shape <sample | wc -l)" -ge 6 ]
}

@test "README: the sample of an out-of-memory has what happened, why and what to do, in the order of today's report" {
    headings() { grep -oE '^(VERDICT  OUT OF MEMORY|CAUSE|DO)' | tr '\n' ' '; }
    "$make_file" fragmented oom.vramgc
    equal "$(awk '/^<!-- sample: oom -->/ { inside = 1 } /^<!-- end -->/ { inside = 0 } inside' "$top/README.md" | headings)" "$("$vramgc" report oom.vramgc | headings)"
}

@test "documents: each file and folder that they name is there" {
    missing=$(python3 - "$top" <<'PYTHON'
import pathlib, re, sys
top = pathlib.Path(sys.argv[1])
documents = ["README.md", "CONTRIBUTING.md", "src/README.md", "src/LIMITS.md", "include/README.md", "tests/lab/FIGURES.md"]
documents += sorted(str(path.relative_to(top)) for path in top.glob("src/guides/*.md"))
for name in documents:
    text = re.sub(r"```.*?```", "", (top / name).read_text(), flags=re.S)
    places = [top, (top / name).parent, top / "src", top / "tests"]
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    words = [word for quoted in re.findall(r"`([^`]+)`", text) for word in quoted.split()]
    paths = [w.rstrip(":,") for w in words if re.fullmatch(r"[\w*./-]+\.(c|h|def|md|bats|py)|[a-z_]+/[\w/-]*", w.rstrip(":,"))]
    for path in links + paths:
        there = [place.glob(path) for place in places]
        if "/" not in path:
            there += [(top / "src").rglob(path), (top / "tests").rglob(path)]
        if not path.startswith("build/") and not any(any(found) for found in there):
            print(f"{name} names {path}")
PYTHON
)
    equal "$missing" ''
}

@test "the way through the source: the walks are the source's, and one that is not is told" {
    run "$top/scripts/walks"
    equal "$status" 0
    sed 's/`hand_out`/`pass_out`/; /`refused_call`/d' "$top/src/README.md" >wrong.md
    run "$top/scripts/walks" wrong.md
    equal "$status" 1
    contains "$output" 'walks: the address of a block: track/block.c has no pass_out'
    contains "$output" 'walks: the cause of an out-of-memory: nothing before it names describe_refusal (track/oom.c)'
}
