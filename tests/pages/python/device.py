"""What the simulated device and libvramgc.so say, for the scripts of this folder."""

import ctypes
import os
import time

MIB = 1 << 20

_driver = ctypes.CDLL("libcuda.so.1")
_driver.simgpu_errors.restype = ctypes.c_ulong
_runtime = ctypes.CDLL(None)


def errors():
    """Errors of use that the simulated device has seen in this process."""
    return _driver.simgpu_errors()


def really_free_bytes():
    """Of the device, without the library in between: an entry point that it does not stand in front of does not exist, so the
    copy of libcuda.so.1 that was loaded is asked by its own symbol."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert _driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value


def reclaim():
    """Has vramgc give back what is idle, and waits until it has had the time to do so."""
    assert _runtime.vramgc_reclaim(0) == 0
    time.sleep(0.15)


def require_library():
    assert "libvramgc" in os.environ.get("LD_PRELOAD", ""), "to be run with libvramgc.so"
