"""Keeps memory until Python's end, which then frees it: at rest, or while it works (at_end.py rest, at_end.py work)."""

import json
import os
import subprocess
import sys

import torch

MIB = 1 << 20


def device():
    """What the report knows now of the device and of the Python functions that took memory."""
    quiet = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [os.environ["REPORT_COMMAND"], "report", "--json", os.environ["VRAMGC_OUT"]]
    said = subprocess.run(command, env=quiet, capture_output=True, text=True, check=True).stdout
    process = json.loads(said)["processes"][0]
    return process["devices"][0], process["sites"]


def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


kept = take(64 * MIB)
while sys.argv[1] == "rest" and device()[0]["division_at_rest"]["held_bytes"] < 64 * MIB:
    pass
more = take(8 * MIB) if sys.argv[1] == "work" else None
while sys.argv[1] == "work" and not device()[1]:  # until vramgc and Python know each other
    more = take(8 * MIB)
