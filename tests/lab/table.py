"""scripts/lab --table, --speed and --same: all workloads under all allocator settings, without and
with the library, side by side. See README.md for what the figures mean."""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import cells
import default
import formulas
import same
import sizes
import speed
import survivor_rows
import workloads
from runner import ROOT, SETTINGS, Failure, Kind, Warm
from store import Store, source_hash

MODES = ("--table", "--smallest", "--speed", "--same", "--default", "--formulas", "--survivors")
PARTS = {"--table": ("smallest", "lowvram"), "--smallest": ("smallest",), "--speed": ("speed",)}
PARTS |= {"--same": ("same",), "--default": ("default",), "--formulas": ("formulas",)}
PARTS |= {"--survivors": ("survivors",)}
KEPT = default.FIGURES + tuple(
    "ok error mode context_bytes live_peak_bytes live_rest_bytes held_peak_bytes held_rest_bytes "
    "held_over_live_mean held_over_live_weighted retries refused emptied device_errors seconds "
    "cpu_seconds latency_seconds driver_calls same".split()
)


def names(known):
    def parse(text):
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(known)}")
        return chosen

    return parse


def jobs(mostly_waiting):
    return min(2, os.cpu_count() or 1) + mostly_waiting


def arguments(words):
    of_default = words[0] in ("--default", "--formulas", "--survivors")  # of the mode that users get
    known = workloads.ALL if of_default else workloads.NAMES
    parser = argparse.ArgumentParser(
        prog=f"scripts/lab {words[0]}",
        description="Runs all workloads under all allocator settings on the simulated device, "
        "without and with the library, and prints one table.",
        epilog="Results of runs are kept in build/lab/table.json, so that an interrupted call "
        "goes on. Exit status: 0 all targets are met, 1 some are missed (they are listed), 2 could "
        "not be run.",
    )
    parser.add_argument(
        "--workloads",
        type=names(known),
        default=list(known),
        metavar="NAME,…",
        help=f"some of {','.join(known)}",
    )
    parser.add_argument(
        "--settings",
        type=names(list(SETTINGS)),
        default=["default"] if of_default else list(SETTINGS),
        metavar="NAME,…",
        help=f"some of {','.join(SETTINGS)}",
    )
    parts = ["smallest", "lowvram", "speed", "same", "default", "formulas", "survivors"]
    parser.add_argument("--only", choices=parts)
    parser.add_argument(
        "--vramgc",
        choices=["observe", "flush", "compact", "auto"],
        default="auto",
        help="the library's mode (standard: auto, what a user gets)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=jobs(of_default),
        metavar="N",
        help="settings at a time; --speed always does one",
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="--speed: pairs of runs")
    parser.add_argument(
        "--own-pool",
        action="store_true",
        help="VRAMGC_ASYNC=pages: with the setting async the library's own pool",
    )
    parser.add_argument(
        "--sides",
        type=names(default.SIDES),
        default=list(default.SIDES),
        metavar="NAME,…",
        help=f"--default: some of {','.join(default.SIDES)}",
    )
    parser.add_argument(
        "--devices",
        type=names(("plenty", "small")),
        default=["plenty", "small"],
        metavar="NAME,…",
        help="--default: where memory is plentiful, or one that is nearly full",
    )
    parser.add_argument(
        "--latency",
        choices=["none", "card"],
        default="none",
        help="calls and kernels take no time, or about a card's; --speed is always a card's",
    )
    parser.add_argument("--fresh", action="store_true", help="run all anew")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--markdown", action="store_true", help="the memory table for a README")
    args = parser.parse_args(words[1:])
    if args.jobs < 1 or args.rounds < 1:
        parser.error("--jobs and --rounds are at least 1")
    if args.own_pool:
        os.environ["VRAMGC_ASYNC"] = "pages"
    args.parts = (args.only,) if args.only else PARTS[words[0]]
    return args


class Runs:
    """Runs of one kind, made where their result is not known yet."""

    def __init__(self, kind, store, latency="none"):
        self.kind, self.store, self.warm = kind, store, None
        self.always = {} if latency == "none" else {"latency": latency}
        self.hash = source_hash(kind.vramgc != "off")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.warm:
            self.warm.close()

    def key(self, workload, mem_bytes, what):
        details = "".join(f" {name}={value}" for name, value in sorted(what.items()))
        pool = ", own pool" if os.environ.get("VRAMGC_ASYNC") and self.kind.vramgc != "off" else ""
        return f"{self.hash} {workload}, {self.kind}{pool}, {mem_bytes}{details}"

    def make(self, workload, mem_bytes, what):
        self.warm = self.warm or Warm(self.kind)
        return self.warm.run(workload, mem_bytes, **what)

    def __call__(self, workload, mem_bytes, number=None, **what):
        """number: of a run that is made several times."""
        what = self.always | what
        named = what if number is None else what | {"number": number}
        key = self.key(workload, mem_bytes, named)
        result = self.store.get(key)
        if result is None:
            begin = time.monotonic()
            made = self.make(workload, mem_bytes, what)
            result = {name: made.get(name) for name in KEPT}
            self.store.put(key, result)
            say(f"{workload:12s} {self.kind}: {outcome(result, mem_bytes, begin)}")
        return result


def outcome(result, mem_bytes, begin):
    room = sizes.show(mem_bytes - result["context_bytes"])
    said = "completes" if result["ok"] else "out of memory"
    if result["ok"] and result["refused"]:
        said += f", {result['refused']} requests refused"
    return f"{room}: {said} ({time.monotonic() - begin:.0f} s)"


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def hint_key(workload, runs):
    lag = "".join(f", {name} {value}" for name, value in runs.always.items())
    return f"smallest step of {workload}, {runs.kind}{lag}"


def search_smallest(runs, workload, base):
    """Starts where an earlier search of the same cell, perhaps of other sources, ended."""
    key = hint_key(workload, runs)
    found = cells.smallest(runs, workload, base, runs.store.get(key))
    runs.store.put(key, cells.search.steps(found["smallest_bytes"]))
    return found


def without(args, store, setting):
    """The left side of each workload's row."""
    rows = {}
    with Runs(Kind(setting), store, args.latency) as runs:
        for workload in args.workloads:
            base = cells.plenty(runs, workload)
            side = cells.rest(base) if "lowvram" in args.parts else {}
            if "smallest" in args.parts:
                side |= search_smallest(runs, workload, base)
            rows[workload] = {
                "workload": workload,
                "setting": setting,
                "live_bytes": base["live_peak_bytes"],
                "base": base,
                "without": side,
                "with": {},
            }
    return rows


def with_library(args, store, setting, rows):
    """Fills the right sides."""
    if "smallest" in args.parts:
        with Runs(Kind(setting, args.vramgc), store, args.latency) as runs:
            for workload, row in rows.items():
                row["with"] |= search_smallest(runs, workload, row["base"])
    if "lowvram" in args.parts:
        with Runs(Kind(setting, args.vramgc, lowvram=True), store, args.latency) as runs:
            for workload, row in rows.items():
                result = runs(workload, cells.PLENTY_BYTES)
                row["with"] |= cells.rest(result) | {"mode": result["mode"]}


def rows_of(args, store, setting):
    rows = without(args, store, setting)
    with_library(args, store, setting, rows)
    for row in rows.values():
        del row["base"]
    return list(rows.values())


def all_rows(args, store):
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        parts = pool.map(lambda setting: rows_of(args, store, setting), args.settings)
        rows = [row for part in parts for row in part]
    return sorted(rows, key=lambda row: workloads.NAMES.index(row["workload"]))


def number(value, form):
    return "-" if value is None else format(value, form)


HEAD = (
    f"{'':12s} {'':10s} {'':>8s} | {'smallest device, x live, retries':^47s} | "
    f"{'held / live at rest, mean (lowvram)':^35s}\n"
    f"{'workload':12s} {'setting':10s} {'live MiB':>8s} | {'without':>23s} {'with':>23s} | "
    f"{'without':>17s} {'with':>17s}"
)


def smallest_text(side):
    if "smallest_bytes" not in side:
        return f"{'-':>23s}"
    mib = side["smallest_bytes"] >> 20
    return f"{mib:8,} {side['smallest_over_live']:8.3f} {side['retries']:5}"


def rest_text(side):
    values = (side.get("rest_held_over_live"), side.get("mean_held_over_live"))
    return " ".join(f"{number(value, '8.3f'):>8s}" for value in values)


def row_text(row):
    left, right = row["without"], row["with"]
    return (
        f"{row['workload']:12s} {row['setting']:10s} {row['live_bytes'] >> 20:8,} | "
        f"{smallest_text(left)} {smallest_text(right)} | {rest_text(left)} {rest_text(right)}"
    )


def table_text(rows, args):
    mode = ", ".join(sorted({row["with"].get("mode") or "-" for row in rows}))
    pool = ", VRAMGC_ASYNC=pages" if args.own_pool else ""
    head = f"simulated device, latency {args.latency}; with: vramgc --mode {args.vramgc}{pool}"
    return "\n".join(
        [f"{head} (it took: {mode})", HEAD]
        + [row_text(row) for row in rows]
    )


MARKDOWN = (
    ("smallest device ÷ live", "smallest_over_live", ".3f"),
    ("held ÷ live, mean over block events, lowvram", "mean_held_over_live", ".2f"),
    ("average held ÷ average live, lowvram", "weighted_held_over_live", ".2f"),
    ("held ÷ live at rest, lowvram", "rest_held_over_live", ".2f"),
)


def markdown_cell(row, key, form):
    """without → with, and the retries that it took."""
    left, right = (number(row[side].get(key), form) for side in ("without", "with"))
    retries = row["with"].get("retries") if key == "smallest_over_live" else 0
    return f"{left} → {right}" + (f" ({retries} retries)" if retries else "")


def markdown_rows(args, rows, title, key, form):
    """A line for each workload, a column for each setting, below a line that names the figure."""
    found = {(row["workload"], row["setting"]): row for row in rows}
    lines = [f"| **{title}** |" + " |" * len(args.settings)]
    for workload in args.workloads:
        cells_of = [markdown_cell(found[workload, name], key, form) for name in args.settings]
        lines.append(f"| {workload} | {' | '.join(cells_of)} |")
    return lines


def markdown(args, rows):
    """For the README."""
    head = f"| without → with | {' | '.join(args.settings)} |"
    lines = [head, "|---" * (len(args.settings) + 1) + "|"]
    for figure in MARKDOWN:
        lines += markdown_rows(args, rows, *figure)
    return "\n".join(lines)


def expandable_bytes(rows, workload):
    for row in rows:
        if (row["workload"], row["setting"]) == (workload, "expandable"):
            return row["without"].get("smallest_bytes")
    return None


def missed(rows):
    return [
        line
        for row in rows
        for line in cells.missed(row, expandable_bytes(rows, row["workload"]))
    ]


def memory_part(args, store):
    rows = all_rows(args, store)
    text = markdown(args, rows) if args.markdown else table_text(rows, args)
    return {"rows": rows, "text": text, "missed": missed(rows)}


def build():
    """So that what is measured is what the sources say."""
    words = ["make", "-s", "-j2", "-C", str(ROOT), "all", "sim"]
    if subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise Failure("make all sim failed")


def measure(args):
    store = Store(fresh=args.fresh)

    def runs(kind):
        return Runs(kind, store)

    if "speed" in args.parts:
        return speed.measure(args, runs)
    if "same" in args.parts:
        return same.measure(args, runs)
    if "default" in args.parts:
        return default.measure(args, runs)
    if "formulas" in args.parts:
        return formulas.measure(args, runs)
    if "survivors" in args.parts:
        return survivor_rows.measure(args, runs)
    return memory_part(args, store)


def show(found, args):
    print(found["text"])
    for line in found["missed"]:
        print(f"missed: {line}")
    print("all targets met" if not found["missed"] else f"{len(found['missed'])} targets missed")
    if args.json:
        written = {key: found[key] for key in ("rows", "missed")}
        written |= {"date": datetime.date.today().isoformat(), "simulated": True}
        written |= {"vramgc": args.vramgc, "parts": args.parts}
        text = json.dumps(written, indent=2) + "\n"
        pathlib.Path(args.json).write_text(text, encoding="utf-8")


def main(words):
    args = arguments(words)
    try:
        build()
        found = measure(args)
        show(found, args)
    except (Failure, ValueError, OSError) as error:
        say(str(error))
        return 2
    return 1 if found["missed"] else 0
