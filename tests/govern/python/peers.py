"""Two programs in turn on a card of 4 GiB: the first has 2 GiB in PyTorch's cache, and has forked, when the second needs them. One
line of JSON for each check: name, ok, and what was seen.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import torch

MIB = 1 << 20
PATIENCE_S = 60  # on a busy machine


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def first():
    kept = take(300)
    idle = take(2048)
    del idle
    if os.fork() == 0:
        sys.exit()
    os.wait()
    print("there", flush=True)
    sys.stdin.read()
    print(torch.cuda.memory_reserved() // MIB, kept.numel() // MIB, flush=True)


def say(name, ok, **seen):
    print(json.dumps({"check": name, "ok": bool(ok), **seen}), flush=True)


def each_knows_the_other():
    paths = os.environ["VRAMGC_OUT"], os.environ["VRAMGC_OUT"] + ".first"
    return [b"\0python: peers.py\0" in pathlib.Path(path).read_bytes() for path in paths]


def second():
    environment = os.environ | {"VRAMGC_OUT": os.environ["VRAMGC_OUT"] + ".first"}
    command = [sys.executable, __file__, "first"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as giver:
        say("it is there", giver.stdout.readline() == "there\n")
        own = take(700)
        del own  # goes first
        deadline, mine = time.monotonic() + PATIENCE_S, None
        while mine is None and time.monotonic() < deadline:
            try:
                mine = take(2500)
            except torch.OutOfMemoryError:
                time.sleep(0.1)  # the other has not looked yet
        say("enough came", mine is not None)
        say("own memory went first", torch.cuda.memory_reserved() <= 2520 * MIB, seen=torch.cuda.memory_reserved() // MIB)
        giver.stdin.close()
        left, kept = map(int, giver.stdout.readline().split())
        say("only what was idle went", left == kept == 300, seen=[left, kept])
    known = each_knows_the_other()
    say("each knows the other by its folder and script", all(known), seen=known)
    say("it ended well", giver.returncode == 0)


first() if sys.argv[1:] == ["first"] else second()
