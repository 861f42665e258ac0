"""vramgc's own thread waits a second and a half for the GIL at its first look; holes are measured every second all the same."""

import ctypes
import json

import torch

import vramgc_api

MIB = 1 << 20


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


tensors = [take(20)]
ctypes.PyDLL(None).usleep(1_500_000)  # does not let go of the GIL
tensors += [take(40), take(80), take(20)]
del tensors[1:3]
came = vramgc_api.wait_until(
    lambda: vramgc_api.snapshot().largest_hole_bytes == 80 * MIB, seconds=20
)
seen = vramgc_api.snapshot().largest_hole_bytes
print(json.dumps({"check": "holes", "ok": came, "seen": seen}))
