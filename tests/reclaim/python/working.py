"""A program at work under VRAMGC_LOWVRAM=1: idle memory goes back while the main thread computes, sleeps, keeps Python's lock, or
imports. Then the functions of vramgc.h. Prints one line of JSON for each check: name, ok, and what was seen.
"""

import json
import os
import random
import sys
import tempfile
import time

import torch

import vramgc_api

MIB = 1 << 20
live = []


def say(name, ok, **seen):
    print(json.dumps({"check": name, "ok": bool(ok), **seen}), flush=True)


def make_idle():
    """One GiB that nobody needs any more."""
    tensors = [torch.empty(128 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    tensors.clear()
    return vramgc_api.snapshot().flushes


def computes():
    before = make_idle()
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        sum(range(1000))
    say(
        "computes",
        vramgc_api.snapshot().flushes > before and torch.cuda.memory_reserved() < 128 * MIB,
    )


def sleeps():
    before = make_idle()
    time.sleep(0.4)
    say(
        "sleeps",
        vramgc_api.snapshot().flushes > before and torch.cuda.memory_reserved() < 128 * MIB,
    )


def keeps_the_lock():
    """One call into C that does not let go of Python's lock for long: the flush waits, and nobody is harmed."""
    values = [random.random() for _ in range(1_500_000)]
    before = make_idle()
    began = time.monotonic()
    values.sort()
    took = time.monotonic() - began
    came = vramgc_api.wait_until(lambda: vramgc_api.snapshot().flushes > before)
    say("keeps_the_lock", came and took > 0.2, took=took)


def imports():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "slow_module.py"), "w", encoding="ascii") as file:
            file.write(
                "import time, working_again\nworking_again.flushes = working_again.make_idle()\n"
                "deadline = time.monotonic() + 0.5\nwhile time.monotonic() < deadline:\n    sum(range(1000))\n"
                "working_again.later = working_again.vramgc_api.snapshot().flushes\n"
            )
        sys.path.insert(0, folder)
        sys.modules["working_again"] = sys.modules["__main__"]
        import slow_module  # noqa: F401

        module = sys.modules["__main__"]
        say("imports", module.later > module.flushes)


def rests():
    """After each quiet moment PyTorch holds what its own empty_cache would leave, not a byte more."""
    generator = random.Random(1)
    seen = []
    for _ in range(15):
        for _ in range(60):
            live.append(
                torch.empty(generator.randrange(1, 64 * MIB), dtype=torch.uint8, device="cuda")
            )
            if len(live) > 12:
                live.pop(generator.randrange(len(live)))
        vramgc_api.wait_until(lambda: vramgc_api.snapshot().releasable_bytes == 0, 2)
        at_rest = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        seen.append(at_rest - torch.cuda.memory_reserved())
    live.clear()
    say(
        "rests",
        not any(seen) and vramgc_api.snapshot().reserved_bytes == torch.cuda.memory_reserved(),
        more=seen,
    )


def interface():
    path = os.path.join(tempfile.mkdtemp(), "report.vramgc")
    figures = vramgc_api.snapshot()
    say(
        "snapshot",
        figures.reserved_bytes == torch.cuda.memory_reserved()
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
