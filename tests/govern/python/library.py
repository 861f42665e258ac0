"""Another library than PyTorch asks for memory that PyTorch only keeps: ctypes calls the runtime and the driver, as TensorRT would, first
without the GIL. Then with it, or while another thread has it: what PyTorch keeps comes too late for that request, but for the next one. One
line of JSON for each check: name, ok, and what was seen."""

import ctypes
import json
import sys
import threading
import time

import torch

import vramgc_api

MIB = 1 << 20
runtime = f"libcudart.so.{torch.version.cuda.split('.')[0]}"
free_of_gil, with_gil = ctypes.CDLL(runtime), ctypes.PyDLL(runtime)
driver = ctypes.CDLL("libcuda.so.1")
clock = ctypes.PyDLL(None)  # whose usleep keeps the GIL


def fill():
    """PyTorch keeps 3,000 MiB that it does not need; 744 are free."""
    blocks = [torch.empty(mib * MIB, dtype=torch.uint8, device="cuda") for mib in (1000, 2000)]
    blocks.clear()
    return torch.cuda.memory_reserved() // MIB


def cuda_malloc(library, mib):
    pointer = ctypes.c_void_p()
    if error := library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(mib * MIB)):
        library.cudaGetLastError()
    else:
        library.cudaFree(pointer)
    return error


def mem_alloc(mib):
    pointer = ctypes.c_uint64()
    error = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(mib * MIB))
    return error or driver.cuMemFree_v2(pointer)


def mem_create(mib):
    handle = ctypes.c_uint64()
    pinned, device = 1, 1
    properties = (ctypes.c_uint32 * 12)(pinned, 0, device, 0)
    error = driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(mib * MIB), properties, ctypes.c_uint64())
    return error or driver.cuMemRelease(handle)


def say(name, ok, *seen):
    print(json.dumps({"check": name, "ok": bool(ok), "seen": seen}), flush=True)


def is_empty():
    return torch.cuda.memory_reserved() == 0


def comes(ask):
    """On a busy machine vramgc's own thread may be late for the first."""
    kept = fill()
    say("it comes", kept == 3000 and vramgc_api.wait_until(lambda: ask(3000) == 0) and is_empty(), kept)


def with_the_gil():
    kept, error = fill(), cuda_malloc(with_gil, 3000)
    came = vramgc_api.wait_until(is_empty)
    say("with the GIL", error == 2 and came and cuda_malloc(with_gil, 3000) == 0, kept, error, came)


def beside_the_gil():
    """vramgc's thread may have the GIL before this one keeps it: a few times."""
    errors = []
    while len(errors) < 10 and 2 not in errors:
        fill()
        asking = threading.Thread(target=lambda: errors.append(cuda_malloc(free_of_gil, 3000)))
        asking.start()
        while asking.is_alive():
            clock.usleep(500_000)
            time.sleep(0)
    say("beside the GIL", 2 in errors and vramgc_api.wait_until(is_empty), errors)


torch.cuda.init()
if sys.argv[1:] == ["gil"]:
    with_the_gil()
else:
    say("more than there is", (fill(), cuda_malloc(free_of_gil, 4000)) == (3000, 2) and not is_empty())
    for ask in (lambda mib: cuda_malloc(free_of_gil, mib), mem_alloc, mem_create):
        comes(ask)
    beside_the_gil()
    comes(mem_alloc)
