"""VRAMGC_CAP is the same wherever it is asked for; then head-room is set from outside, and what is idle goes; then a cap far below
what is held, beside work. One line of JSON for each check: name, ok, and what was seen.
"""

import ctypes
import json
import os
import subprocess
import sys
import time

MIB = 1 << 20
CARD, CAP, HEADROOM = 16384, 3072, 15360  # MiB; the script is run with that card and cap
PATIENCE_S = 60  # on a busy machine
AT_ONCE_S = 10  # there: a tenth of a second without other work; a fifth of the cap each half second would take 19


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [
        (name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")
    ]


nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
card = ctypes.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card))


def say(name, ok, **seen):
    print(json.dumps({"check": name, "ok": bool(ok), **seen}), flush=True)


def of_nvml():
    plain, second = Memory(), MemoryV2()
    nvml.nvmlDeviceGetMemoryInfo(card, ctypes.byref(plain))
    nvml.nvmlDeviceGetMemoryInfo_v2(card, ctypes.byref(second))
    return [[m.total // MIB, m.free // MIB, m.used // MIB] for m in (plain, second)]


def held_mib():
    """Asks neither the driver nor NVML, which would make vramgc read the card."""
    return vramgc_api.snapshot().held_bytes // MIB


def set_from_outside(*limits):
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([sys.argv[1], "set", str(os.getpid()), *limits], env=environment, check=True)


say("before CUDA", of_nvml() == [[CAP, CAP, 0]] * 2, seen=of_nvml())

import torch  # NVML was asked before
import vramgc_api

kept = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
idle = torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
free, total = (size // MIB for size in torch.cuda.mem_get_info())
held = CAP - of_nvml()[0][1]
say("properties", torch.cuda.get_device_properties(0).total_memory == CAP * MIB)
say("mem_get_info", total == CAP and CAP - 1600 < free <= CAP - 1536, seen=[free, total])
say("NVML", of_nvml() == [[CAP, CAP - held, held]] * 2 and 1536 <= held < 1600, seen=of_nvml())

del idle
time.sleep(1)  # a rest before it
set_from_outside(f"headroom={HEADROOM}MiB", "cap=0")
deadline = time.monotonic() + PATIENCE_S
while torch.cuda.memory_reserved() > 600 * MIB and time.monotonic() < deadline:
    time.sleep(0.01)
free, total = (size // MIB for size in torch.cuda.mem_get_info())
say("idle memory goes", torch.cuda.memory_reserved() <= 600 * MIB)
say("told", total == CARD and free <= CARD - HEADROOM - 512, seen=[free, total])

set_from_outside("headroom=0")
idle = [torch.empty(512 * MIB, dtype=torch.uint8, device="cuda") for _ in range(16)]
del idle
time.sleep(1.2)  # longer than the cool-down
set_from_outside("cap=1GiB")
deadline = time.monotonic() + AT_ONCE_S
while held_mib() > 819 and time.monotonic() < deadline:
    kept.fill_(1)
    torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
    time.sleep(0.01)
say("beside work, too", held_mib() <= 819, seen=[held_mib(), deadline - time.monotonic()])
