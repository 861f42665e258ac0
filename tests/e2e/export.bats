#!/usr/bin/env bats
# shellcheck disable=SC2154
# `vramgc export`: each format in the tool that it is for, with the figures of the JSON report.

load helpers

# A Python with the packages of the tests, or the system's.
python() {
    local python=$top/build/venv/bin/python
    [ -x "$python" ] || python=python3
    "$python" "$@"
}

files() {
    "$make_file" fragmented fragmented.vramgc
    "$make_file" two-devices two.vramgc
    "$vramgc" report --json fragmented.vramgc two.vramgc >report.json
}

@test "export --prometheus: the figures of the report, in families, each sample once" {
    files
    "$make_file" hostile hostile.vramgc
    "$vramgc" export --prometheus -o all.prom fragmented.vramgc two.vramgc ./hostile.vramgc two.vramgc
    python - <<'PYTHON'
import json, re
samples, family, done = {}, None, set()
for line in open("all.prom", encoding="utf-8"):
    if line.startswith("# "):
        name = line.split()[2]
        assert line.startswith("# TYPE") or name not in done, "a family in two pieces"
        family, _ = name, done.add(name)
        continue
    name, labels, value = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\} ([-+.e\d]+)\n', line).groups()
    assert name == family and (name, labels) not in samples
    samples[name, labels] = float(value)
in_order = [l for n, l in samples if n == "vramgc_process_pid"]
for p, labels in zip(json.load(open("report.json"))["processes"], in_order):
    assert samples["vramgc_process_pid", labels] == p["pid"]
    for d in p["devices"]:
        of = {n: v for (n, l), v in samples.items() if l.startswith(f'{labels},device="{d["index"]}"')}
        assert of["vramgc_held_bytes"] == d["held_bytes"]["current"]
        assert of["vramgc_held_bytes_peak"] == d["held_bytes"]["peak"]
        assert of["vramgc_reclaims_total"] == d["reclaims"]
        assert abs(of["vramgc_reclaim_seconds_total"] * 1e9 - d["reclaim_ns"]) < 1
        peak = d["derived"]["utilisation_peak_percent"]
        assert peak is None or abs(of["vramgc_utilisation_peak_ratio"] * 100 - peak) < 1e-6
PYTHON
}

# as_run PID COMMAND: the series of a program that ran so.
as_run() {
    "$make_file" plain run.vramgc pid "$1"
    python - "$2" <<'PYTHON'
import sys
path, old = "run.vramgc", b"python launch.py"
data = open(path, "rb").read()
at = data.index(old)
new = sys.argv[1].encode().ljust(data.index(b"\0\0", at) - at, b"\0")
open(path, "wb").write(data[:at] + new + data[at + len(new):])
PYTHON
    "$vramgc" export --prometheus run.vramgc | sed -n 's/ [^ ]*$//; /^vramgc/p'
}

@test "export --prometheus: a new run makes no new series; two at once have their own" {
    as_run 100 'python launch.py --a' >first
    as_run 200 '/usr/bin/python3 -u launch.py' >second
    equal "$(cat second)" "$(cat first)"
    contains "$(cat first)" 'vramgc_held_bytes{program="launch.py",folder='
    as_run 300 'python -m other.program' >third
    contains "$(cat third)" 'program="other.program"'
    cp run.vramgc again.vramgc
    "$vramgc" export --prometheus run.vramgc again.vramgc | sed -n 's/ [^ ]*$//; /^vramgc/p' >both
    equal "$(sort both | uniq -d)" ''
    equal "$(sed -n 's/.*\(slot="[0-9]*"\).*/\1/p' both | sort -u | tr '\n' ' ')" 'slot="0" slot="1" '
}

# A rule of its own for each query, so that promtool reads all of them.
queries() {
    python - <<'PYTHON'
import json, re
dashboard = json.load(open("dashboard.json"))
panels = dashboard["panels"]
assert len({p["id"] for p in panels}) == len(panels) > 50
queries = [t["expr"] for p in panels for t in p.get("targets", [])]
print("groups:\n  - name: dashboard\n    rules:")
for i, query in enumerate(queries):
    query = query.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$program", ".*")
    print(f"      - record: query:{i}\n        expr: '{query}'")
known = set(re.findall(r"^# TYPE (\w+)", open("all.prom").read(), re.M))
used = set(re.findall(r"vramgc_\w+", " ".join(queries) + open("rules.yml").read())) - {"vramgc_process_info"}
assert used <= known, used - known
shown = set(re.findall(r"vramgc_\w+", " ".join(queries)))
missed = {n for n in known if n + "_peak" in known or n.endswith("_total")} - shown
assert not missed, missed
for p in panels:
    x, w = p["gridPos"]["x"], p["gridPos"]["w"]
    assert x + w <= 24
PYTHON
}

@test "Prometheus' rules, Grafana's dashboard: each metric is exported, each figure has a panel" {
    files
    "$vramgc" export --prometheus fragmented.vramgc >all.prom
    "$vramgc" help prometheus-rules >rules.yml
    "$vramgc" help grafana-dashboard >dashboard.json
    queries >queries.yml
}

# bats test_tags=deep
@test "Prometheus' rules: promtool takes them and the dashboard's queries; each fires once it should" {
    promtool=$(command -v promtool || echo "$top/build/promtool")
    [ -x "$promtool" ] || skip "SKIPPED: no promtool; scripts/fetch-promtool says why"
    files
    "$vramgc" export --prometheus fragmented.vramgc >all.prom
    "$vramgc" help prometheus-rules >rules.yml
    "$vramgc" help grafana-dashboard >dashboard.json
    queries >queries.yml
    "$promtool" check rules rules.yml queries.yml
    python - >cases.yml <<'PYTHON'
import json
GIB = 1 << 30
process = '{program="launch.py",folder="ui",slot="0"}'
device = process[:-1] + ',device="0",bus_id="0000:01:00.0"}'
def series(name, labels, values):
    return {"series": name + labels, "values": values}
def case(alert, at, summary, *inputs, **labels):
    expected = [{"exp_labels": {"severity": "warning", **labels}, "exp_annotations": {"summary": summary}}] if summary else []
    print_tests.append({"interval": "1m", "input_series": list(inputs),
                        "alert_rule_test": [{"alertname": alert, "eval_time": at, "exp_alerts": expected}]})
print_tests = []
whole = {"program": "launch.py", "folder": "ui", "slot": "0", "device": "0", "bus_id": "0000:01:00.0"}
# It began and ended between two scrapes; its series moves to another slot when the next one begins.
oom = [series("vramgc_latest_oom_time_seconds", process.replace('"0"', f'"{slot}"'), values) for slot, values in enumerate(("_x7 400x2", "_x9 400x3"))]
case("VramgcOutOfMemory", "10m", "launch.py ran out of GPU memory", *oom, program="launch.py", folder="ui")
case("VramgcOutOfMemory", "20m", None, *oom)
case("VramgcInternalError", "10m", "vramgc has a fault in launch.py: please report it", series("vramgc_internal_errors_total", process, "0x7 1x20"), program="launch.py", folder="ui", slot="0")
card = series("vramgc_device_memory_bytes", device[:-1] + ',name="card"}', f"{8 * GIB}x60")
case("VramgcCardFull", "10m", "GPU 0000:01:00.0 is 98.75% full", series("vramgc_used_bytes", device, f"{7.9 * GIB}x60"), card, bus_id="0000:01:00.0")
case("VramgcCardFull", "10m", None, series("vramgc_used_bytes", device, f"{7 * GIB}x60"), card)
for idle in (3, 0.5):
    case("VramgcIdleMemory", "20m", "launch.py keeps 3GiB of GPU memory that it does not use" if idle > 1 else None, series("vramgc_held_bytes", device, f"{(4 + idle) * GIB}x60"),
         series("vramgc_other_bytes", device, "0x60"), series("vramgc_live_bytes", device, f"{4 * GIB}x60"), **(whole if idle > 1 else {}))
for start, fires in (("1000x240", True), ("1000x160 9000x80", False)):
    case("VramgcMemoryGrows", "230m", "launch.py keeps 240MiB more than an hour ago" if fires else None, series("vramgc_live_bytes", device, f"{GIB}+{4 << 20}x240"),
         series("vramgc_process_start_time_seconds", process, start), **(whole if fires else {}))
print(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": print_tests}))
PYTHON
    "$promtool" test rules cases.yml
}

# bats test_tags=deep
@test "export --prometheus: promtool has nothing to say" {
    promtool=$(command -v promtool || echo "$top/build/promtool")
    [ -x "$promtool" ] || skip "SKIPPED: no promtool; scripts/fetch-promtool says why"
    files
    "$make_file" hostile hostile.vramgc
    "$vramgc" export --prometheus ./*.vramgc >all.prom
    run "$promtool" check metrics <all.prom
    equal "$status:$output" 0:
}

@test "export --prometheus --every: the collector sees the program as it runs" {
    files
    "$vramgc" export --prometheus --every 100ms -o now.prom two.vramgc 3>&- &
    exporter=$!
    await now.prom
    rm now.prom
    await now.prom
    kill "$exporter"
    contains "$(cat now.prom)" 'vramgc_held_bytes{'
}

# ended_ago SECONDS FILE [SCENARIO]: a program that ended so long ago.
ended_ago() {
    "$make_file" "${3:-fragmented}" "$2"
    "$make_file" set "$2" latest_ns 0 started_unix_ns "$(($(date +%s) - $1))000000000"
}

@test "export --prometheus: a program that has ended stays for five minutes, with what happened and without what it held" {
    ended_ago 280 vramgc-a.1.vramgc
    ended_ago 320 vramgc-a.2.vramgc
    "$vramgc" export --prometheus >ended.prom
    equal "$(grep -c '^vramgc_process_info{.* 0$' ended.prom):$(grep -c '^vramgc_process_info' ended.prom)" 1:1
    grep -q '^vramgc_ooms_total{program="launch.py",.* 2$' ended.prom
    grep -q '^vramgc_held_bytes_peak{' ended.prom
    equal "$(grep -E '^vramgc_(held_bytes|live_bytes|used_bytes|device_memory_bytes|host_anon_bytes|idle_share|cap_bytes)[{]' ended.prom)" ''
    equal "$("$vramgc" export --prometheus vramgc-a.1.vramgc | grep -c '^vramgc_held_bytes{')" 1
    # The one that runs has the series that the ended one had; of those the latest is next.
    "$make_file" plain vramgc-a.3.vramgc pid $$
    ended_ago 20 vramgc-a.4.vramgc plain
    "$vramgc" export --prometheus >now.prom
    equal "$(sed -n 's/^vramgc_process_info.*slot="\([0-9]\)".* \([01]\)$/\1:\2/p' now.prom | sort | tr '\n' ' ')" '0:1 1:0 2:0 '
    equal "$(sed -n 's/^vramgc_held_bytes{.*slot="\([0-9]\)".*/\1/p' now.prom)" 0
    equal "$(sed -n 's/^vramgc_ooms_total{.*slot="\([0-9]\)".* 2$/\1/p' now.prom)" 2
}

@test "export --prometheus: when a program was last out of memory, by which the rule of Prometheus is told of one that ended by it" {
    ended_ago 100 vramgc-a.1.vramgc
    "$make_file" plain vramgc-a.2.vramgc pid $$
    "$vramgc" export --prometheus >now.prom
    equal "$(grep -c '^vramgc_latest_oom_time_seconds{' now.prom)" 1
    time=$("$vramgc" report --json vramgc-a.1.vramgc | python -c 'import json, sys; print(max(r["time_ns"] for r in json.load(sys.stdin)["processes"][0]["refusals"] if not r["granted"]))')
    started=$(sed -n 's/^vramgc_process_start_time_seconds{.*slot="1"} //p' now.prom)
    told=$(sed -n 's/^vramgc_latest_oom_time_seconds{.*slot="1"} //p' now.prom)
    python -c 'import sys; started, told, time = map(float, sys.argv[1:]); assert abs(told - started - time / 1e9) < 1e-3' "$started" "$told" "$time"
    contains "$("$vramgc" help prometheus-rules)" 'time() - max by (instance, program, folder) (vramgc_latest_oom_time_seconds) < 300'
}

@test "export --prometheus --every: a program that begins and ends between two writings is told of" {
    "$vramgc" export --prometheus --every 1s -o now.prom 3>&- &
    exporter=$!
    await now.prom
    FAKE_CUDA=sh FAKE_SCENARIO=fragmented "$vramgc" run --no-summary sh -c :
    "$make_file" set vramgc-*.vramgc latest_ns 0 started_unix_ns "$(date +%s)000000000"
    rm now.prom
    await now.prom
    kill "$exporter"
    grep -q '^vramgc_ooms_total{.* 2$' now.prom
}

# await_lines FILE N: waits until the file has so many lines.
await_lines() {
    local i
    for ((i = 0; i < 200; i++)); do
        [ "$(wc -l <"$1")" -lt "$2" ] || return 0
        sleep 0.05
    done
    cat "$1" >&2
    return 1
}

@test "export --every: what is wrong is said once, and once that it is over; the same fault later is said anew" {
    files
    mkdir folder
    "$vramgc" export --markdown --every 100ms -o folder/now.md fragmented.vramgc later.vramgc 3>&- 2>said &
    exporter=$!
    turns() { for _ in 1 2 3; do rm -f folder/now.md && await folder/now.md; done; }
    await said
    turns
    cp two.vramgc part && mv part later.vramgc
    await_lines said 2
    turns
    rm later.vramgc
    await_lines said 3
    mv folder elsewhere
    await_lines said 4
    mv elsewhere folder
    turns
    cp two.vramgc part && mv part later.vramgc
    await_lines said 5
    turns
    kill "$exporter"
    missing='vramgc: later.vramgc: cannot be read: No such file or directory; `vramgc list` shows what is kept'
    over='vramgc: that is over: folder/now.md is written again'
    equal "$(cat said)" "$missing
$over
$missing
vramgc: folder/now.md cannot be written: No such file or directory
$over"
}

@test "export --perfetto: events of the trace format, counters with the figures of the report" {
    files
    "$vramgc" export --perfetto -o trace.json fragmented.vramgc
    python - <<'PYTHON'
import json
p = json.load(open("report.json"))["processes"][0]
events = json.load(open("trace.json"))["traceEvents"]
assert all({"ph", "name", "pid", "tid"} <= e.keys() and (e["ph"] == "M" or "ts" in e) for e in events)
held = [(e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C" and e["name"] == "GPU 0 held"]
samples = p["devices"][0]["samples"]
assert held == [(t // 1000, b) for t, b in zip(samples["time_ns"], samples["held_bytes"])]
assert [e["dur"] for e in events if e["ph"] == "X"] == [a["took_ns"] // 1000 for a in p["actions"]]
assert [e["args"]["cause"] for e in events if e["ph"] == "i" and "args" in e] == [r["cause"] for r in p["refusals"]]
assert [e["name"] for e in events if e["ph"] == "i" and "args" not in e] == [m["label"] for m in p["marks"]]
PYTHON
}

# bats test_tags=deep
@test "export --perfetto: Perfetto's own processor has nothing to say, and finds counters, slices, instants and names" {
    for need in "$(PYTHONPATH=$BATS_TEST_DIRNAME python3 -B -c 'import browser; print(browser.find() or "")')" "$top/build/perfetto/engine_bundle.js"; do
        [ -e "$need" ] || skip "SKIPPED: no Chromium (scripts/setup-system --for deep) or no processor; scripts/fetch-perfetto says why"
    done
    files
    ask() { python3 -B "$BATS_TEST_DIRNAME/perfetto.py" "$top/build/perfetto" trace.json "$1"; }
    "$vramgc" export --perfetto -o trace.json fragmented.vramgc
    equal "$(ask "select name from stats where value > 0 and severity != 'info'")" ''
    equal "$(ask "select t.name, count(*), cast(max(c.value) as int) from counter c join counter_track t on c.track_id = t.id
        where t.name like 'GPU 0 held%' or t.name like 'GPU 0 live%' group by t.name order by t.name")" "$(python3 - <<'PYTHON'
import json
samples = json.load(open("report.json"))["processes"][0]["devices"][0]["samples"]
for name in ("held", "live"):
    values = samples["held_bytes" if name == "held" else "allocated_bytes"]
    print(f"GPU 0 {name} bytes|{len(values)}|{max(values)}")
PYTHON
)"
    equal "$(ask "select count(*) from slice where name like 'reclaim%' and dur > 0")" 12
    equal "$(ask "select name, count(*) from slice where name like 'refused%' group by name order by name")" \
        $'refused|2\nrefused, then granted|1'
    contains "$(ask "select name from process")" 'python launch.py'
    contains "$(ask "select name from thread")" 'GPU 0 NVIDIA GeForce RTX 3090: reclaims, refusals'
}

@test "export --markdown: tables and one folded page, whatever the program's texts are" {
    python -c 'import markdown_it' 2>/dev/null || skip "SKIPPED: Python's markdown_it is not there"
    for scenario in fragmented two-devices hostile; do
        "$make_file" "$scenario" "$scenario.vramgc"
        "$vramgc" export --markdown -o "$scenario.md" "$scenario.vramgc"
    done
    python - <<'PYTHON'
from markdown_it import MarkdownIt
md = MarkdownIt("commonmark", {"html": True}).enable("table")
for name, tables in ("fragmented", 3), ("two-devices", 3), ("hostile", None):
    tokens = md.parse(open(name + ".md", encoding="utf-8").read())
    kinds = [t.type for t in tokens]
    assert kinds.count("fence") == 1 and kinds.count("html_block") == 2, kinds
    assert tables is None or kinds.count("table_open") == tables
    inner = {c.type for t in tokens for c in t.children or []}
    assert inner <= {"text", "strong_open", "strong_close", "softbreak", "text_special"}, inner
PYTHON
    contains "$(cat fragmented.md)" '**vramgc:** OUT OF MEMORY 2x, last at 1:09:09: 1.5 GiB wanted by encode\_prompt'
}

# Here without a reader of Markdown: each sign by itself, in the names that a program has a say in.
@test "export --markdown: signs of markup, and of mathematics, are escaped in names; a line break is none" {
    "$make_file" fragmented f.vramgc
    for name in command_line 'devices[0].name' 'sites[0].function'; do
        "$make_file" set f.vramgc "$name" $'a|b*c_d<e`f[g]$h$~i\n# j'
    done
    "$vramgc" export --markdown f.vramgc >f.md
    sed '/<details>/,$d' f.md >page.md
    equal "$(grep -cF 'a\|b\*c\_d&#60;e\`f\[g\]\$h\$\~i \# j' page.md)" 4 # the verdict, command, card, function
    equal "$(grep -cF 'a|b' page.md)" 0
}

@test "a card's rows are the same on the terminal, in Markdown and in HTML; with an out-of-memory there is a column of it" {
    for scenario in fragmented compact; do
        "$make_file" "$scenario" "$scenario.vramgc"
        "$vramgc" report --all "$scenario.vramgc" >"$scenario.txt"
        "$vramgc" export --markdown -o "$scenario.md" "$scenario.vramgc"
        "$vramgc" report --html -o "$scenario.html" "$scenario.vramgc"
    done
    python - <<'PYTHON'
import html, re
for name, columns in ("fragmented", 4), ("compact", 3):
    text, markdown, page = (open(f"{name}.{end}", encoding="utf-8").read() for end in ("txt", "md", "html"))
    table = re.search(r"^GPU 0 .*\n[^\n]*at the end\n(.*?)^(?:[0-9]|what|all that|PyTorch held|at most)", text, re.M | re.S)[1]
    rows = [re.split(r"  +", line.strip()) for line in table.splitlines() if not line.startswith("PyTorch's allocator")]
    assert len(rows) > 8 and {len(row) for row in rows} == {columns}, rows
    last = markdown.index("at the end |\n")
    lines = markdown[markdown.rindex("\n", 0, last):].split("\n\n")[0].splitlines()[1:]
    assert ("at the out-of-memory" in lines[0]) == (columns == 4), lines[0]
    cells = [[re.sub(r"\\(.)", r"\1", cell).strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    assert cells == rows, (cells, rows)
    table = re.search(r"<h3>GPU 0 .*?</table>", page, re.S)[0]
    assert ("at the out-of-memory" in table) == (columns == 4)
    cells = [[html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in re.findall(r"<tr>(<td.*?)</tr>", table, re.S)]
    assert cells == rows, (cells, rows)
PYTHON
}

@test "where the work went on there was a refusal and no out-of-memory, in Markdown and HTML as on the terminal" {
    "$make_file" went-on on.vramgc
    says='requests refused: 3; out of memory in PyTorch: 0; the work went on without: 2'
    contains "$("$vramgc" report on.vramgc)" "$says"
    for format in 'export --markdown' 'report --html'; do
        # shellcheck disable=SC2086
        tables=$("$vramgc" $format on.vramgc | sed '/<script/,$d; /id="words"/,/<\/section>/d')
        contains "$tables" "$says; memory returned: "
        equal "$(grep -oE '(\||<th>) ?at the (refusal|out-of-memory)' <<<"$tables" | grep -oE 'at .*')" $'at the refusal\nat the refusal'
    done
}

@test "whose live memory was has a column of the out-of-memory only where there was one" {
    for scenario in fragmented observe; do
        "$make_file" "$scenario" "$scenario.vramgc"
        columns=$([ "$scenario" = observe ] && echo 0 || echo 1)
        equal "$("$vramgc" export --markdown "$scenario.vramgc" | sed -n '/live memory of/,/^$/p' | grep -c 'out-of-memory')" "$columns"
        equal "$("$vramgc" report --html "$scenario.vramgc" | grep -o 'Whose live.*' | grep -c 'out-of-memory')" "$columns"
        widths=$("$vramgc" export --markdown "$scenario.vramgc" | sed -n '/live memory of/,/^$/p' | grep . | tr -cd '|\n' | sort -u)
        equal "${#widths}" $((4 + columns)) # a bar for each cell
    done
    contains "$("$vramgc" export --markdown fragmented.vramgc)" '| smaller ones, or without a name |'
    "$make_file" pile pile.vramgc
    "$make_file" set pile.vramgc devices[0].owners_at_oom.live_bytes $((9 * 1536 << 20)) # there are no smaller ones
    equal "$("$vramgc" export --markdown pile.vramgc | grep -c 'smaller ones')" 0
    contains "$("$vramgc" export --markdown fragmented.vramgc)" '| ended | killed by SIGKILL |'
    contains "$("$vramgc" export --markdown fragmented.vramgc)" '| encode\_prompt \(sd/pipeline.py:212\) | text encode | - | 700 MiB |'
}

@test "export --torch: a pickle of the opcodes that memory_viz knows; without a map, the timeline" {
    files
    "$vramgc" export --torch -o live.pickle fragmented.vramgc
    python - <<'PYTHON'
import json, pickle, pickletools
data = open("live.pickle", "rb").read()
assert {o.name for o, _, _ in pickletools.genops(data)} <= {
    "PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "LONG1", "STOP"}
snapshot = pickle.loads(data)
device = json.load(open("report.json"))["processes"][0]["devices"][0]
live, heights, ooms = 0, {}, []
for event in snapshot["device_traces"][0]:
    live += {"alloc": 1, "free_completed": -1}.get(event["action"], 0) * event["size"]
    heights[event["time_us"]] = live
    if event["action"] == "oom":
        ooms.append(event["size"])
        assert [f["name"] for f in event["frames"]][:1] == ["cudaMalloc+0x14 (libcudart.so.12)"]
for t, allocated in zip(device["samples"]["time_ns"], device["samples"]["allocated_bytes"]):
    assert heights[t // 1000] == allocated
assert ooms == [3 << 29, 3 << 29]
(segment,) = snapshot["segments"]
assert segment["total_size"] == max(device["samples"]["allocated_bytes"]) == sum(b["size"] for b in segment["blocks"])
PYTHON
}

@test "export: one format, and files of others are left alone" {
    files
    for wrong in "" "--perfetto --markdown" "--markdown=all" "--csv" "--prometheus --every 5s" "--prometheus --every 1ms -o x"; do
        # shellcheck disable=SC2086
        run_apart "$vramgc" export $wrong two.vramgc
        equal "$status" 2
        one_line "$errors"
    done
    run_apart "$vramgc" export --markdown missing.vramgc
    equal "$status" 1
    for format in markdown prometheus perfetto torch; do
        "$vramgc" export --$format -o again two.vramgc
        "$vramgc" export --$format -o again two.vramgc
    done
    echo mine >precious
    run_apart "$vramgc" export --markdown -o precious two.vramgc
    equal "$status:$(cat precious)" 1:mine
}
