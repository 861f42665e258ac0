"""What of a device is in use, by its own books: on a card NVML's. It must need no PyTorch: who compares
programs asks it, too."""

import ctypes


class Memory(ctypes.Structure):
    """struct nvmlMemory_t of nvml.h."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


def of_simulated(name):
    told = getattr(ctypes.CDLL("libcuda.so.1"), name, None)
    if told is None:
        return None
    told.restype = ctypes.c_size_t
    return lambda: told(0)


def device_peak():
    """A function: the most bytes in use at once since it was last asked; None: the device does not tell."""
    return of_simulated("simgpu_most_used_bytes")


def device_books():
    """A function: bytes of the device in use, by whom ever."""
    used = of_simulated("simgpu_used_bytes")
    if used is not None:
        return used
    nvml, card, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), Memory()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)):
        raise OSError("NVML tells of no card")

    def told():
        nvml.nvmlDeviceGetMemoryInfo(card, ctypes.byref(memory))
        return memory.used

    return told
