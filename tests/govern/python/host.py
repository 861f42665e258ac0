"""Uses host memory in one of the ways in which web UIs use it, lets it go, and rests until most of what nobody uses is with the
system again. Arguments: the way; MiB of tensors; for how many seconds at most."""

import json
import mmap
import os
import pathlib
import random
import sys
import threading
import time

import torch

torch.set_num_threads(1)
torch.zeros(1, device="cuda")


way, total = sys.argv[1], int(sys.argv[2]) << 20


def anonymous_mib():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) >> 10


def sizes():
    """Of SD 1.5's UNet, about, in bytes."""
    base = [320 * 320 * 9, 640 * 640 * 9, 1280 * 1280 * 9, 320 * 1280, 640 * 2560, 1280 * 5120, 1280, 768 * 320]
    chosen = random.Random(1 + int(os.environ.get("SEED", 0)))
    left = total
    while left > 0:
        size = 2 * chosen.choice(base)
        left -= size
        yield size


def make(wanted):
    return [torch.zeros(size, dtype=torch.uint8) for size in wanted]


def load():
    make(sizes())
    return []


def offload():
    """The model comes to the host and goes again, in changing threads; previews and prompts stay between."""
    kept = []

    def once():
        model = make(sizes())
        kept.append([torch.zeros(200_000, dtype=torch.uint8) for _ in range(20)])
        del model

    for _ in range(4):
        thread = threading.Thread(target=once)
        thread.start()
        thread.join()
    return sum(kept, [])


def lora():
    """Tensors are replaced one by one; then most of them go."""
    model = make(sizes())
    for _ in range(3):
        for i in range(0, len(model), 2):
            model[i] = model[i].clone()
    return model[::16]


def unload():
    """What is unused goes while a model stays; then most of that goes, into its allocator's hands: the process has no more than before."""
    make(sizes())
    model, junk = make(sizes()), make(sizes())
    had = anonymous_mib()
    junk = junk[::16]
    while anonymous_mib() > had - (total >> 21):
        time.sleep(0.02)
    return model[::16] + junk


def referenced():
    return make(sizes())


def mapped():
    """Memory that is nobody's to give back but the program's: no malloc has it."""
    view = mmap.mmap(-1, total, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, total, mmap.PAGESIZE):
        view[at] = 1
    kept.append(view)
    return []


def pinned():
    for size in (5, 20, 33, 65):
        torch.empty(size << 20, dtype=torch.uint8, pin_memory=True).fill_(1)
    return []


kept = []
if way in ("mapped", "pinned") and len(sys.argv) > 3:
    time.sleep(1.5)  # what it has so far, vramgc has seen by then, where it only observes
start = anonymous_mib()
live = globals()[way]()
live_mib = sum(tensor.numel() for tensor in live) >> 20
before = anonymous_mib()
unused = before - start - live_mib
until = time.monotonic() + float(sys.argv[3] if len(sys.argv) > 3 else 600)
while (live_mib > before / 2 or unused > 32 and anonymous_mib() > before - unused * 3 / 4) and time.monotonic() < until:
    time.sleep(0.02)
print(json.dumps({"unused": unused, "stays": anonymous_mib() - start - live_mib}))
