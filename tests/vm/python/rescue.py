"""Whoever else asks for device memory, by whichever call, gets what is only kept or idle for PyTorch; and nobody hears of the refusal
in between."""

import ctypes
import sys

import torch

import device

MIB = 1 << 20
BYTES = 300 * MIB


class AllocationProperties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int), ("location", ctypes.c_int)]
    _fields_ += [("rest", ctypes.c_char * 64)]


def callers(hooked):
    """name -> a function that allocates BYTES and gives a function that frees them again."""
    pointer, stream = ctypes.c_void_p(), ctypes.c_void_p()

    def runtime():
        assert hooked.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(BYTES)) == 0
        return lambda: hooked.cudaFree(pointer)

    def pool():
        assert hooked.cudaMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(BYTES), stream) == 0

        def free():
            assert hooked.cudaFreeAsync(pointer, stream) == 0
            torch.cuda.synchronize()

        return free

    def pitch():
        step = ctypes.c_size_t()
        assert hooked.cudaMallocPitch(ctypes.byref(pointer), ctypes.byref(step), ctypes.c_size_t(MIB), ctypes.c_size_t(300)) == 0
        return lambda: hooked.cudaFree(pointer)

    def driver():
        assert hooked.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(BYTES)) == 0
        return lambda: hooked.cuMemFree_v2(pointer)

    def handle():
        properties = AllocationProperties(type=1, location_type=1)
        made = ctypes.c_uint64()
        assert hooked.cuMemCreate(ctypes.byref(made), ctypes.c_size_t(BYTES), ctypes.byref(properties), ctypes.c_ulonglong(0)) == 0
        return lambda: hooked.cuMemRelease(made)

    return {"cudaMalloc": runtime, "cudaMallocAsync": pool, "cudaMallocPitch": pitch, "cuMemAlloc": driver, "cuMemCreate": handle}


def fill_with_idle():
    """Nearly the whole device is idle pages, with work on them under way."""
    tensor = torch.empty(450 * MIB, dtype=torch.uint8, device="cuda").zero_()
    del tensor


def main():
    device.require_library()
    hooked = ctypes.CDLL(None)
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    torch.empty(1, device="cuda")
    for name, allocate in callers(hooked).items():
        fill_with_idle()
        free = allocate()
        assert runtime.cudaPeekAtLastError() == 0, f"{name}: the refusal is remembered"
        free()
    assert device.errors() == 0
    print("rescue ok")


if __name__ == "__main__":
    sys.exit(main())
