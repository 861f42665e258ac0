"""VRAMGC_CAP is the same wherever it is asked for; then head-room is set from outside, and what is idle goes. One line of JSON for
each check: name, ok, and what was seen.
"""

import ctypes
import json
import os
import subprocess
import sys
import time

MIB = 1 << 20
CARD, CAP, HEADROOM = 4096, 3072, 2048  # MiB; the script is run with that card and cap
PATIENCE_S = 60  # on a busy machine


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


say("before CUDA", of_nvml() == [[CAP, CAP, 0]] * 2, seen=of_nvml())

import torch  # NVML was asked before

kept = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
idle = torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
free, total = (size // MIB for size in torch.cuda.mem_get_info())
held = CAP - of_nvml()[0][1]
say("properties", torch.cuda.get_device_properties(0).total_memory == CAP * MIB)
say("mem_get_info", total == CAP and CAP - 1600 < free <= CAP - 1536, seen=[free, total])
say("NVML", of_nvml() == [[CAP, CAP - held, held]] * 2 and 1536 <= held < 1600, seen=of_nvml())

del idle
time.sleep(1)  # a rest before it
environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
command = [sys.argv[1], "set", str(os.getpid()), f"headroom={HEADROOM + 1024}MiB", "cap=0"]
subprocess.run(command, env=environment, check=True)
deadline = time.monotonic() + PATIENCE_S
while torch.cuda.memory_reserved() > 600 * MIB and time.monotonic() < deadline:
    time.sleep(0.01)
free, total = (size // MIB for size in torch.cuda.mem_get_info())
say("idle memory goes", torch.cuda.memory_reserved() <= 600 * MIB)
say("told", total == CARD and free <= CARD - HEADROOM - 1024 - 512, seen=[free, total])
