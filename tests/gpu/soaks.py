#!/usr/bin/env python3
"""soak.py with a PyTorch under vramgc, once by each of its allocators:

    tests/gpu/soaks.py VRAMGC PYTHON SECONDS

Passed is what ended well, in mode compact, with pages that moved: a soak of something else proves
nothing. Three seconds on the simulated device move 60,000 pages. Exit status 1: one has failed."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SOAK = pathlib.Path(__file__).resolve().parent / "soak.py"
DOORS = {"native": "", "expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
UNDER = "run --no-summary --prove off --mode compact --async pages --alloc-conf keep --out".split()
ROOM = "--operations 200 --leave-mib 2048 --spare-mib 512".split()  # a desktop has its part
LIMIT_S, LEAST_MOVED = 115, 100


def moved(vramgc, record):
    """Whether pages have moved in mode compact, and what the record says of it."""
    done = subprocess.run([vramgc, "report", "--json", record], capture_output=True, text=True, check=False)
    try:
        process = json.loads(done.stdout)["processes"][0]
        maps, unmaps = (process["devices"][0][name] for name in ("page_maps", "page_unmaps"))
    except (ValueError, LookupError):
        return False, "the library left no record"
    said = f"PyTorch {process['torch_version']}, mode {process['mode']}, {maps} pages mapped, {unmaps} unmapped"
    if process["mode"] != "compact":
        return False, f"{said}; {process['mode_why']}"
    return maps >= LEAST_MOVED and unmaps >= LEAST_MOVED, said


def soak(vramgc, python, door, seconds):
    """The case of one allocator, as tests/gpu/run writes it down."""
    with tempfile.TemporaryDirectory() as folder:
        record = f"{folder}/record.vramgc"
        words = [vramgc, *UNDER, record, "--", python, SOAK, "--seconds", str(seconds), *ROOM]
        environment = os.environ | {"PYTORCH_CUDA_ALLOC_CONF": DOORS[door]}
        environment.pop("PYTORCH_ALLOC_CONF", None)
        begin = time.monotonic()
        try:
            done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            fine, last = done.returncode == 0, (done.stderr + done.stdout).strip().splitlines()[-1:]
        except subprocess.TimeoutExpired:
            fine, last = False, [f"it did not end within {LIMIT_S} s"]
        us = int((time.monotonic() - begin) * 1e6)
        enough, said = moved(vramgc, record)
    return {"case": f"python {door}", "passed": fine and enough, "us": us, "said": "; ".join([said, *last])}


def each(vramgc, python, seconds):
    return (soak(vramgc, python, door, seconds) for door in DOORS if os.access(python, os.X_OK))


def line(case):
    return f"{case['case']}: {'passed' if case['passed'] else 'FAILED'}, {case['us']} us: {case['said']}"


def main():
    cases = []
    for case in each(sys.argv[1], sys.argv[2], float(sys.argv[3])):
        print(line(case), flush=True)
        cases.append(case)
    return 0 if cases and all(case["passed"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
