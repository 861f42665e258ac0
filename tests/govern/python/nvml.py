"""What NVML says is used, by either form of the question, what it says each process has, by every form, and what CUDA says agree.
Without PyTorch. Prints one line: MiB used, and of this process and of all in the list."""

import ctypes
import os

MIB = 1 << 20
SIZES = {"": 16, "_v2": 24, "_v3": 24}  # of an entry

runtime, nvml = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
card = ctypes.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card))


def entries(name, entry):
    there, buffer = ctypes.c_uint(16), (ctypes.c_uint64 * (16 * entry // 8))()
    assert getattr(nvml, name)(card, ctypes.byref(there), buffer) == 0
    return [(buffer[i * entry // 8] & 0xFFFFFFFF, buffer[i * entry // 8 + 1]) for i in range(there.value)]


assert runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(512 * MIB)) == 0
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
first, second = (ctypes.c_uint64 * 3)(), (ctypes.c_uint64 * 5)(2 << 24 | 40)
assert nvml.nvmlDeviceGetMemoryInfo(card, first) == nvml.nvmlDeviceGetMemoryInfo_v2(card, second) == 0
assert first[0] == second[1] == second[2] + second[3] + second[4] and first[1] == second[3], (list(first), list(second))
used = first[2] - second[2]  # the driver's own
assert used == second[4] == total.value - free.value and first[0] - second[2] == total.value, (list(second), total, free)
for form, size in SIZES.items():
    told = entries("nvmlDeviceGetComputeRunningProcesses" + form, size)
    own, everybody = sum(used for pid, used in told if pid == os.getpid()), sum(used for pid, used in told)
    assert everybody <= used, (form, told, used)
    entries("nvmlDeviceGetGraphicsRunningProcesses_v3", 24)
print(used // MIB, own // MIB, everybody // MIB)
