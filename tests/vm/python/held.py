"""A program rests while the GPU waits for it: nobody empties PyTorch's cache meanwhile, which waits with the allocator's lock held."""

import ctypes
import os
import signal
import time

import torch

import device


def take(stream):
    with torch.cuda.stream(stream):
        return torch.zeros(64 * device.MIB, dtype=torch.uint8, device="cuda")


device.require_library()
driver = ctypes.CDLL("libcuda.so.1")
main, other = torch.cuda.Stream(), torch.cuda.Stream()
signal.alarm(max(int(os.environ.get("C10DRIVE_PATIENCE_MS", 60000)) // 1000, 1))
first = take(main)
torch.cuda.synchronize()
assert driver.simgpu_hold(ctypes.c_void_p(main.cuda_stream)) == 0
second = take(main)
del first, second
time.sleep(0.5)  # a rest, at which the cache would be emptied
third = take(other)
assert driver.simgpu_release(ctypes.c_void_p(main.cuda_stream)) == 0
torch.cuda.synchronize()
signal.alarm(0)
device.wait_until(lambda: torch.cuda.memory_reserved() < 100 * device.MIB, "the cache was not emptied")
print("held ok")
