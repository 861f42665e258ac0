"""Runs a workload of the lab in a process of its own and says what it used; see README.md.
Started by scripts/lab."""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import search
import sizes
import table
import workloads
from runner import BUILD, ROOT, SETTINGS, Failure, Kind
from runner import environment, from_report, read_json, report, vramgc_environment

KEYS = (
    "workload setting ok error live_peak_bytes held_peak_bytes held_rest_bytes "
    "held_over_live_mean held_over_live_weighted device_bytes retries ooms driver_calls page_moves "
    "page_calls reclaims reclaim_ns collections collection_ns seconds mode device_errors"
).split()


def arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="scripts/lab",
        description="Runs a workload of real PyTorch and diffusers and says what memory it used.",
        epilog="All workloads under all settings, without and with the library, in one table: "
        "scripts/lab --table (what memory they need), --speed, --same, --default, --formulas, --survivors; each has "
        "a --help. "
        "Exit status: 0 completed, 1 out of memory, 2 could not be run.",
    )
    parser.add_argument("workload", choices=workloads.ALL + workloads.TOLD)
    parser.add_argument(
        "--setting", choices=SETTINGS, default="default", help="of PyTorch's allocator"
    )
    parser.add_argument(
        "--collect",
        choices=["seed"],
        help="gc.collect, empty_cache and ipc_collect after each stage",
    )
    parser.add_argument(
        "--mem", type=size, metavar="SIZE", help="simulate a device of this size (standard: 80GiB)"
    )
    parser.add_argument(
        "--vramgc",
        choices=["off", "observe", "flush", "compact", "auto"],
        default="off",
        help="libvramgc.so's mode",
    )
    parser.add_argument("--lowvram", action="store_true", help="VRAMGC_LOWVRAM=1")
    parser.add_argument(
        "--smallest", action="store_true", help="search the smallest device on which it completes"
    )
    parser.add_argument(
        "--no-refusals",
        action="store_true",
        help="with --smallest: a refused request is a failure even where PyTorch goes on without it, "
        "as with a convolution's workspace",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the figures there; - is standard output"
    )
    parser.add_argument("--report", metavar="FILE", help="keep vramgc's statistics file there")
    parser.add_argument("--quiet", action="store_true", help="no line for each job")
    args = parser.parse_args(words)
    if args.vramgc == "off" and (args.lowvram or args.report):
        parser.error("--lowvram and --report need --vramgc observe, flush, compact or auto")
    if args.no_refusals and not args.smallest:
        parser.error("--no-refusals needs --smallest")
    return args


def size(text):
    try:
        return sizes.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def check_packages():
    """Packages of the user's own interpreter are the user's business, so say what is missing and
    install nothing."""
    needed = ("torch", "diffusers", "transformers", "accelerate", "peft")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(
            f"{sys.executable} lacks {', '.join(missing)}; its pip can install them, "
            "or leave PYTHON unset"
        )


def sees_gpu(python):
    """Whether this interpreter's PyTorch can use a GPU of this machine, or is in a simulated one."""
    if not os.path.exists("/dev/nvidiactl") and "SIMGPU_MEM" not in os.environ:
        return False
    check = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return (
        subprocess.run([python, "-c", check], stderr=subprocess.DEVNULL, check=False).returncode
        == 0
    )


def simulated_size(args, python):
    """The size of the device to simulate, or None to use the one that is there."""
    if args.mem or args.smallest or not sees_gpu(python):
        return args.mem or sizes.parse("80GiB")
    return None


def command(args, device_bytes, figures, at_rest):
    words = []
    if device_bytes is not None:
        words += [ROOT / "tests" / "on_card", "--mem", str(device_bytes)]
        words += ["--proven", "--"] if args.vramgc == "auto" else ["--"]
    if args.vramgc != "off":
        if not (BUILD / "vramgc").exists():
            raise Failure("build/vramgc is missing; run make first")
        words += [BUILD / "vramgc", "run", "--"]
    words += [sys.executable, ROOT / "tests" / "lab" / "run.py", args.workload, "--json", figures]
    words += ["--collect", args.collect] if args.collect else []
    words += ["--events"] if args.vramgc == "off" else ["--report", at_rest]
    words += [] if args.quiet else ["--verbose"]
    return [str(word) for word in words]


def measure(args, device_bytes):
    """One run; every key of KEYS, and context_bytes."""
    (BUILD / "lab").mkdir(parents=True, exist_ok=True)
    kind = Kind(args.setting, args.vramgc, args.lowvram)
    with tempfile.TemporaryDirectory(dir=BUILD / "lab") as folder:
        figures, at_rest = f"{folder}/figures.json", f"{folder}/at-rest.vramgc"
        env = environment(kind) | {"TMPDIR": folder}
        if args.vramgc != "off":
            env |= vramgc_environment(kind, os.path.abspath(args.report or f"{folder}/run.vramgc"))
        words = command(args, device_bytes, figures, at_rest)
        status = subprocess.run(words, env=env, stdout=sys.stderr, check=False).returncode
        if not os.path.exists(figures):
            raise Failure(f"the workload's process ended with status {status} and left no figures")
        ours = {"mode": "off", "page_moves": 0, "page_calls": 0, "reclaims": 0, "reclaim_ns": 0}
        result = ours | read_json(figures) | {"setting": args.setting}
        if args.vramgc != "off":
            result |= from_report(report(at_rest))
    return result


def smallest(args, device_bytes):
    """The figures on the smallest device, in steps of 32 MiB beside the context.
    live_peak_bytes stays that of the first run, where memory is plentiful: under pressure PyTorch
    may choose algorithms that need less, and the ratio would flatter.
    """
    plenty = measure(args, device_bytes)
    if not plenty["ok"]:
        raise Failure(
            f"it does not complete on {sizes.show(device_bytes)} either: {plenty['error']}"
        )
    context = plenty["context_bytes"]
    runs = {}

    def completes(step):
        runs[step] = measure(args, context + step * search.STEP_BYTES)
        outcome = "ok" if runs[step]["ok"] else "out of memory"
        if runs[step]["ok"] and runs[step]["ooms"]:
            outcome += f", {runs[step]['ooms']} requests refused"
        say(f"== {sizes.show(step * search.STEP_BYTES)} beside the context: {outcome}")
        return runs[step]["ok"] and not (args.no_refusals and runs[step]["ooms"])

    step = search.smallest(completes, search.steps(plenty["live_peak_bytes"]))
    found = runs[step] | {
        "live_peak_bytes": plenty["live_peak_bytes"],
        "smallest_bytes": step * search.STEP_BYTES,
    }
    return found | {"ratio": round(found["smallest_bytes"] / found["live_peak_bytes"], 4)}


def say(text):
    print(text, file=sys.stderr, flush=True)


def describe(args, device_bytes):
    where = (
        "this machine's GPU"
        if device_bytes is None
        else f"a simulated device of {sizes.show(device_bytes)}"
    )
    conf = SETTINGS[args.setting] or "PyTorch's own"
    say(
        f"== {args.workload} on {where}, allocator setting {args.setting} ({conf}), "
        f"vramgc {args.vramgc}"
    )


def table_wanted(words):
    """--smallest with a workload is a run of that one alone."""
    several = any(word.startswith("--workloads") for word in words)
    return words[0] != "--smallest" or several or not set(words) & set(workloads.NAMES)


def write(result, path):
    text = json.dumps(result, indent=2) + "\n"
    if path == "-":
        sys.stdout.write(text)
    elif path:
        pathlib.Path(path).write_text(text, encoding="utf-8")


def summary(result):
    bytes_of = {
        key: sizes.show(result[key])
        for key in ("live_peak_bytes", "held_peak_bytes", "held_rest_bytes")
    }
    verdict = "completed" if result["ok"] else f"out of memory ({result['error'][:70]} …)"
    text = (
        "{verdict}; live at most {live_peak_bytes}, held at most {held_peak_bytes}, "
        "held at rest {held_rest_bytes}"
    )
    lines = [text.format(verdict=verdict, **bytes_of)]
    if "smallest_bytes" in result:
        lines.append(
            f"smallest device: {sizes.show(result['smallest_bytes'])} beside the context, "
            f"{result['ratio']} x live"
        )
    return "\n".join(lines)


def main():
    if sys.argv[1:2] and sys.argv[1] in table.MODES and table_wanted(sys.argv[1:]):
        return table.main(sys.argv[1:])
    args = arguments()
    try:
        check_packages()
        device_bytes = simulated_size(args, sys.executable)
        describe(args, device_bytes)
        found = smallest(args, device_bytes) if args.smallest else measure(args, device_bytes)
    except (Failure, OSError) as error:
        say(f"lab: {error}")
        return 2
    keys = KEYS + (["smallest_bytes", "ratio"] if args.smallest else [])
    result = {key: found[key] for key in keys}
    say(summary(result))
    write(result, args.json)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
