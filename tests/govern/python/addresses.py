"""Takes memory on the device, and then addresses of the host until there are no more: prints how many MiB, and how many threads there are.
Without PyTorch, to be run under ulimit -v."""

import ctypes
import mmap
import os

runtime = ctypes.CDLL("libcudart.so.13")
for _ in range(4):
    assert runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(16 << 20)) == 0
taken = []
for step in 64, 1:
    try:
        while True:
            taken.append(mmap.mmap(-1, step << 20))
    except OSError:
        pass
print(sum(map(len, taken)) >> 20, len(os.listdir("/proc/self/task")))
