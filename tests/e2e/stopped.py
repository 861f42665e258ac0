"""A web UI that is told to stop frees its model, and ends some time after that. Argument: the command vramgc."""

import json
import os
import signal
import subprocess
import sys

import torch

stopped = []
signal.signal(signal.SIGINT, lambda number, frame: stopped.append(number))


def told():
    """What the report knows of this process now, and of its device."""
    quiet = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [sys.argv[1], "report", "--json", os.environ["VRAMGC_OUT"]]
    said = subprocess.run(command, env=quiet, capture_output=True, text=True, check=True).stdout
    process = json.loads(said)["processes"][0]
    return process, process["devices"][0]


model = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
while told()[1]["division_at_rest"]["held_bytes"] < 64 << 20:
    pass
os.kill(os.getppid(), signal.SIGINT)
while not stopped or not told()[0]["stop_asked"]:
    pass
del model


def seen_without_ns():
    """For how long vramgc's own thread has seen nothing live: ten rests, and it would have kept one."""
    samples = told()[1]["samples"]
    ages = [time for time, live in zip(samples["time_ns"], samples["allocated_bytes"]) if live]
    return samples["time_ns"][-1] - ages[-1]


while seen_without_ns() < 500_000_000:
    pass
