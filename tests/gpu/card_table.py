#!/usr/bin/env python3
"""The lab's default table on the card that is there: what is held over time, and the time of the
jobs, alone and in the mode that a user gets. A row is a line of JSON, at once.

card_table.py [--build DIR] [--seconds N] [--rounds N] WORKLOAD=SIZE...: VRAMGC_CAP makes the card as small as SIZE for both sides. Alone
is therefore PyTorch under mode observe, which changes nothing of PyTorch; what the hooks cost is tests/bench's.
All processes are started at once, so that importing takes its time once; the work is done one after the other. Rounds
after the first do not pause: they tell the time only. What would not end within the seconds is left out."""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))

import default
import runner
import sizes

CONTEXT_BYTES = 256 << 20  # of the simulated device: there it is part of the size
KINDS = {"alone": runner.Kind(vramgc="observe"), "auto": runner.Kind(vramgc="auto")}
LATENCY = os.environ.get("SIMGPU_LATENCY", "none")
FIRST_SECONDS = 40  # what a run may take that was never made


class Capped(runner.Warm):
    """On the device that is there."""

    def __init__(self, kind, cap_bytes):
        self.cap_bytes = cap_bytes
        super().__init__(kind)

    def device(self):
        return []

    def environment(self):
        return super().environment() | {"VRAMGC_CAP": str(self.cap_bytes)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=runner.BUILD, help="has vramgc and libvramgc.so")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("rows", nargs="+", metavar="WORKLOAD=SIZE")
    return parser.parse_args()


def row(workload, side, number, process):
    begin = time.monotonic()
    try:
        result = process.run(
            workload, sizes.parse("80GiB"), LATENCY, same=True, pauses=True, brief=number > 0
        )
    except runner.Failure as failure:
        result = {"ok": False, "error": str(failure)}
    kept = {name: result.get(name) for name in (*default.FIGURES, "page_moves", "page_calls", "reclaims", "reclaim_ns")}
    outputs = (result.get("same") or {}).get("outputs")
    told = {"workload": workload, "side": side, "round": number} | kept | {"outputs": outputs}
    return told | {"took_seconds": round(time.monotonic() - begin, 1)}


def main():
    args, begin = arguments(), time.monotonic()
    runner.BUILD = args.build
    rows = [word.split("=") for word in args.rows]
    processes = {
        (workload, side): Capped(kind, sizes.parse(size) - CONTEXT_BYTES)
        for workload, size in rows
        for side, kind in KINDS.items()
    }
    took = {}
    for number in range(args.rounds):
        for workload, _ in rows:
            for side in list(KINDS)[:: (-1) ** number]:
                if time.monotonic() - begin + took.get(workload, FIRST_SECONDS) > args.seconds:
                    continue
                told = row(workload, side, number, processes[workload, side])
                took[workload] = told["took_seconds"]
                print(json.dumps(told), flush=True)
    for process in processes.values():
        process.process.kill()
        process.close()


if __name__ == "__main__":
    main()
