"""What the simulated device and libvramgc.so say, for the scripts of this folder."""

import atexit
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


def reclaim():
    """Has vramgc give back what is idle, and waits until it has had the time to do so."""
    assert _runtime.vramgc_reclaim(0) == 0
    time.sleep(0.15)


def take(count):
    """Device memory for somebody who is not PyTorch; its address."""
    address = ctypes.c_uint64()
    assert _driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(count)) == 0
    return address.value


def give(address):
    assert _driver.cuMemFree_v2(ctypes.c_uint64(address)) == 0


def wait_until(happened, what):
    """Only what hangs meets the limit, which is nearer for mutants, as that of c10drive."""
    for _ in range(int(os.environ.get("C10DRIVE_PATIENCE_MS", 60000)) // 10):
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError(what)


def thread_meets_python():
    """A function that says whether the library's own thread has met Python since: then it has had
    itself called at Python's end."""
    callbacks = atexit._ncallbacks()
    return lambda: atexit._ncallbacks() > callbacks


def require_library():
    assert "libvramgc" in os.environ.get("LD_PRELOAD", ""), "to be run with libvramgc.so"


def snapshot_held():
    """vramgc's own figure of what the process holds."""

    class Snapshot(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("held_bytes", ctypes.c_uint64)]

    snapshot = Snapshot(size=ctypes.sizeof(Snapshot))
    assert _runtime.vramgc_snapshot(0, ctypes.byref(snapshot)) == 0
    return snapshot.held_bytes
