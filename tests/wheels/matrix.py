#!/usr/bin/env python3
"""Drives PyTorch's own allocator of many releases on the simulated device: every release, with
each mode of vramgc and each allocator setting, under random operations, delays and far too little
memory. A drive passes when it ends by itself, nothing in a tensor was corrupted, vramgc's blocks
equal PyTorch's, and nobody complained. It must not build or download anything: wheels.mk does."""
import argparse
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

FRUGAL = {"VRAMGC_LOWVRAM": "1", "VRAMGC_TEST_REST": "2ms", "VRAMGC_COOLDOWN": "0"}
MODES = {
    "none": None,
    "observe": {"VRAMGC_MODE": "observe"},
    "flush": {"VRAMGC_MODE": "flush"},
    "compact": {"VRAMGC_MODE": "compact"},
    "auto": {"VRAMGC_MODE": "auto"},
    "compact-lowvram": {"VRAMGC_MODE": "compact", **FRUGAL},
    "auto-lowvram": {"VRAMGC_MODE": "auto", **FRUGAL},
}
SETTINGS = {
    "default": "",
    "split": "max_split_size_mb:512",
    "expandable": "expandable_segments:True",
    "gc": "garbage_collection_threshold:0.8",
}
# What PyTorch itself writes: refused requests (2.13, 2.14), NVML's fabric query, the old name of
# the setting's variable (2.9).
PYTORCHS_OWN = re.compile(r"CUDACachingAllocator\.cpp|GpuFabricInfo|is deprecated")
# What vramgc writes when PyTorch reports out of memory, as it must here now and then.
OUT_OF_MEMORY = re.compile(r"^vramgc: .* warn  gpu\d+: out of memory: ")


def release(version):
    return tuple(int(part) for part in version.split(".")[:2])


def cuda_of(version):
    """The major of the CUDA runtime that a release was built for."""
    if release(version) < (2, 1):
        return "11"
    return "12" if release(version) < (2, 11) else "13"


def can_do(version, setting):
    return setting != "expandable" or release(version) >= (2, 1)


def script(args, compared):
    drive = (f"random seed={args.seed} ops={args.ops} streams=4 threads={args.threads} "
             f"max=96MiB live=180 every=500 compare={int(compared)} fill=1")
    return f"{drive}; free_all; synchronize; stats"


def environment(mode, setting, record):
    """The caller's environment with nothing of vramgc or PyTorch but what is tried."""
    names = {k: v for k, v in os.environ.items() if not k.startswith(("VRAMGC_", "PYTORCH_"))}
    names["SIMGPU_STRICT"] = "report"
    names["SIMGPU_NVML_FABRIC"] = "1"  # else 2.13 has no expandable segments at all
    if SETTINGS[setting]:
        names["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[setting]
    if MODES[mode] is not None:
        names.update(MODES[mode], LD_PRELOAD=str(ROOT / "build/libvramgc.so"),
                     VRAMGC_OUT=str(record), VRAMGC_ALLOC_CONF="keep")
    return names


def drive(args, version, mode, setting, record):
    """One run: its status (or "hangs"), what it printed, what was said on standard error."""
    compared = MODES[mode] is not None and args.threads == 1
    command = [ROOT / "tests/on_card", "--cuda", cuda_of(version), "--latency", args.latency,
               "--mem", args.mem, "--proven", "--", ROOT / f"build/c10/{version}/c10drive", "-c",
               script(args, compared)]
    try:
        done = subprocess.run(command, env=environment(mode, setting, record), text=True,
                              capture_output=True, timeout=args.limit, check=False)
    except subprocess.TimeoutExpired:
        return "hangs", "", ""
    return done.returncode, done.stdout, done.stderr


def faults(args, mode, status, out, err, record):
    """What is wrong with a run; nothing when it passed."""
    found = [] if status == 0 else [f"status {status}"]
    words = dict(re.findall(r"(\w+)=(\d+)", out.split("\n", 1)[0]))
    if words.get("corrupted") != "0":
        found.append(f"corrupted={words.get('corrupted')}")
    if MODES[mode] is not None:
        if args.threads == 1 and (words.get("differences") != "0" or words.get("checks") == "0"):
            found.append(f"differences={words.get('differences')} checks={words.get('checks')}")
        if not record.exists():
            found.append("no statistics file")
    lines = [line for line in err.splitlines() if not PYTORCHS_OWN.search(line)]
    if counters(out).get("num_ooms", 0) > 0:
        lines = [line for line in lines if not OUT_OF_MEMORY.search(line)]
    return found + lines[:5]


def counters(out):
    """What `stats` printed last."""
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def figures(out):
    """What is worth a look in a line of the table."""
    stats = counters(out)
    names = ["num_alloc_retries", "num_ooms", "vramgc.reclaims", "vramgc.soft_ooms"]
    return " ".join(f"{name.split('.')[-1]}={stats[name]}" for name in names if name in stats)


def one(args, version, mode, setting):
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "drive.vramgc"
        start = time.monotonic()
        status, out, err = drive(args, version, mode, setting, record)
        took = time.monotonic() - start
        wrong = faults(args, mode, status, out, err, record)
    print(f"{'FAILED' if wrong else 'ok':6} {version:7} {mode:15} {setting:10} {took:5.1f} s  "
          f"{figures(out)}", flush=True)
    for line in wrong:
        print(f"       {line}", flush=True)
    return not wrong


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="+", help="releases whose c10drive is built: 2.4.1 …")
    parser.add_argument("--modes", default=",".join(MODES), help="(default: %(default)s)")
    parser.add_argument("--settings", default=",".join(SETTINGS), help="(default: %(default)s)")
    parser.add_argument("--mem", default="2GiB", help="memory of the device (default: %(default)s)")
    parser.add_argument("--latency", default="card", choices=["none", "card"])
    parser.add_argument("--ops", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=1, help="more than one: no comparing")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one drive")
    args = parser.parse_args(argv)
    for given, known in ((args.modes, MODES), (args.settings, SETTINGS)):
        for name in given.split(","):
            if name not in known:
                parser.error(f"'{name}' is none of {', '.join(known)}")
    return args


def main(argv):
    args = parse(argv)
    results = [one(args, version, mode, setting) for version, mode, setting in itertools.product(
        args.version, args.modes.split(","), args.settings.split(",")) if can_do(version, setting)]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
