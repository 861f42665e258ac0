"""A program at work under VRAMGC_LOWVRAM=1: idle memory goes back while the main thread computes, sleeps, keeps Python's lock, or
imports. Then the functions of vramgc.h. Prints one line of JSON for each check: name, ok, and what was seen.
"""

import ctypes
import json
import os
import random
import sys
import tempfile
import time

import torch

import vramgc_api

MIB = 1 << 20
PATIENCE = 40  # looks at what a busy machine takes longer for
live = []


def say(name, ok, **seen):
    print(json.dumps({"check": name, "ok": bool(ok), **seen}), flush=True)


def take():
    """One GiB, and how many flushes there were before it was there."""
    before = vramgc_api.snapshot().flushes
    return [torch.empty(128 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)], before


def is_flushed(before):
    return vramgc_api.snapshot().flushes > before and torch.cuda.memory_reserved() < 128 * MIB


def computes():
    tensors, before = take()
    tensors.clear()
    for _ in range(PATIENCE):
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            sum(range(1000))
        if is_flushed(before):
            break
    say("computes", is_flushed(before))


def sleeps():
    tensors, before = take()
    tensors.clear()
    for _ in range(PATIENCE):
        time.sleep(0.4)
        if is_flushed(before):
            break
    say("sleeps", is_flushed(before))


def keeps_the_lock():
    """One call into C that does not let go of Python's lock for long: the flush waits, and nobody is harmed."""
    tensors, before = take()
    tensors.clear()
    ctypes.PyDLL(None).usleep(300_000)
    say("keeps_the_lock", vramgc_api.wait_until(lambda: is_flushed(before)))


def imports():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "slow_module.py"), "w", encoding="ascii") as file:
            file.write(
                "import time, working_again\ntensors, before = working_again.take()\ntensors.clear()\n"
                "for _ in range(working_again.PATIENCE):\n    deadline = time.monotonic() + 0.5\n"
                "    while time.monotonic() < deadline:\n        sum(range(1000))\n"
                "    if working_again.is_flushed(before):\n        break\n"
            )
        sys.path.insert(0, folder)
        sys.modules["working_again"] = sys.modules["__main__"]
        import slow_module

        say("imports", is_flushed(slow_module.before))


def rests():
    """After each quiet moment PyTorch holds what its own empty_cache would leave, not a byte more."""
    generator = random.Random(1 + int(os.environ.get("SEED", 0)))
    seen = []
    for _ in range(15):
        for _ in range(60):
            live.append(
                torch.empty(generator.randrange(1, 64 * MIB), dtype=torch.uint8, device="cuda")
            )
            if len(live) > 12:
                live.pop(generator.randrange(len(live)))
        vramgc_api.wait_until(lambda: vramgc_api.snapshot().releasable_bytes == 0)
        at_rest = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        seen.append(at_rest - torch.cuda.memory_reserved())
    live.clear()
    figures, reserved_bytes = vramgc_api.snapshot_beside(torch.cuda.memory_reserved)
    say("rests", not any(seen) and figures.reserved_bytes == reserved_bytes, more=seen)


def interface():
    path = os.path.join(tempfile.mkdtemp(), "report.vramgc")
    figures, reserved_bytes = vramgc_api.snapshot_beside(torch.cuda.memory_reserved)
    say(
        "snapshot",
        figures.reserved_bytes == reserved_bytes
        and figures.allocated_bytes == torch.cuda.memory_allocated(),
    )
    wrong = vramgc_api.Snapshot(size=3)
    say(
        "snapshot refuses another size",
        vramgc_api.call("vramgc_snapshot", 0, vramgc_api.ctypes.byref(wrong))[0] == -1,
    )
    say(
        "unknown device",
        all(
            vramgc_api.call(name, number, None, 0, None)[0] == -1
            for number in (-1, 7, 1000)
            for name in ("vramgc_snapshot", "vramgc_blocks", "vramgc_reclaim")
        ),
    )
    say("version", vramgc_api.call("vramgc_version")[0] >= 100)
    say("mark", vramgc_api.call("vramgc_mark", b"a point")[0] == 0)
    first = vramgc_api.call("vramgc_write_report", path.encode())
    again = vramgc_api.call("vramgc_write_report", path.encode())
    nowhere = vramgc_api.call("vramgc_write_report", b"/nowhere/at/all")
    say(
        "write_report",
        first[0] == 0
        and again == (-1, 17)
        and nowhere == (-1, 2)
        and b"a point" in open(path, "rb").read(),
        seen=[first, again, nowhere],
    )


def at_exit():
    say(
        "peace",
        not torch._C._cuda_isCurrentStreamCapturing()
        and torch.cuda.memory_stats()["num_ooms"] == 0,
    )


torch.empty(1, device="cuda")
for check in (computes, sleeps, keeps_the_lock, imports, rests, interface, at_exit):
    check()
