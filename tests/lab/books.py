"""What of a device is in use, by its own books: on a card NVML's. It must need no PyTorch: who compares
programs asks it, too."""

import ctypes


class Memory(ctypes.Structure):
    """struct nvmlMemory_t of nvml.h."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


def device_books():
    """A function: bytes of the device in use, by whom ever."""
    used = getattr(ctypes.CDLL("libcuda.so.1"), "simgpu_used_bytes", None)
    if used is not None:
        used.restype = ctypes.c_size_t
        return lambda: used(0)
    nvml, card, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), Memory()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)):
        raise OSError("NVML tells of no card")

    def told():
        nvml.nvmlDeviceGetMemoryInfo(card, ctypes.byref(memory))
        return memory.used

    return told
