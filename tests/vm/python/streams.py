"""Streams that are destroyed with work under way, a forked child, and the end of the device: the engine goes on, or ends, without an
error of use."""

import ctypes
import gc
import os
import random
import sys

import torch

import device

MIB = 1 << 20


def functions():
    """cudaStreamCreate of the runtime that PyTorch uses, and what the library stands in front of."""
    major = torch.version.cuda.split(".")[0]
    return ctypes.CDLL(f"libcudart.so.{major}"), ctypes.CDLL(None)


def new_stream(runtime):
    handle = ctypes.c_void_p()
    assert runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
    return handle


def work_on(handle, size):
    with torch.cuda.stream(torch.cuda.ExternalStream(handle.value)):
        return torch.empty(size, dtype=torch.uint8, device="cuda").zero_()


def pressure(count):
    """More than the device holds, one after the other, each written to."""
    for _ in range(count):
        for size in (90, 33, 150):
            torch.empty(size * MIB, dtype=torch.uint8, device="cuda").zero_()


def destroyed_streams(runtime, hooked):
    for _ in range(12):
        handle = new_stream(runtime)
        tensor = work_on(handle, random.randrange(20, 120) * MIB)
        if random.random() < 0.5:
            device.reclaim()
        del tensor
        assert hooked.cudaStreamDestroy(handle) == 0
        pressure(2)
        torch.cuda.empty_cache()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    device.wait_until(lambda: device.reclaim() or device.snapshot_held() == 0, "something is held")


def forked_child():
    tensor = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda").zero_()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        pressure(1)
    del tensor
    pressure(3)


def reset(hooked):
    torch.cuda.synchronize()
    gc.collect()
    assert hooked.cudaDeviceReset() == 0
    assert device.snapshot_held() == 0, device.snapshot_held()


def main():
    device.require_library()
    random.seed(2026 + int(os.environ.get("SEED", 0)))
    runtime, hooked = functions()
    destroyed_streams(runtime, hooked)
    forked_child()
    assert device.errors() == 0, device.errors()
    reset(hooked)
    print("streams ok", flush=True)
    os._exit(0)  # PyTorch does not survive a reset


if __name__ == "__main__":
    sys.exit(main())
