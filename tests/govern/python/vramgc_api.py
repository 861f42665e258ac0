"""The functions of include/vramgc.h through ctypes, for the tests."""

import ctypes
import time

_library = ctypes.CDLL(None, use_errno=True)


class Snapshot(ctypes.Structure):
    NAMES = (
        "held_bytes",
        "reserved_bytes",
        "allocated_bytes",
        "active_bytes",
        "inactive_split_bytes",
        "releasable_bytes",
        "idle_bytes",
        "largest_hole_bytes",
        "segments",
        "blocks",
        "reclaims",
        "refusals",
        "soft_ooms",
        "flushes",
    )
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in NAMES]


class Block(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("address", "bytes", "segment_address", "segment_bytes", "stream")
    ] + [("state", ctypes.c_uint32), ("expandable", ctypes.c_uint32)]


def snapshot(device=0):
    result = Snapshot(size=ctypes.sizeof(Snapshot))
    if _library.vramgc_snapshot(device, ctypes.byref(result)) != 0:
        raise LookupError(f"vramgc_snapshot: no device {device}")
    return result


def snapshot_beside(ask):
    """The figures, and an answer of the same moment: vramgc's own thread may empty the cache between two looks."""
    while True:
        figures, answer = snapshot(), ask()
        if figures.reserved_bytes == snapshot().reserved_bytes:
            return figures, answer


def blocks(device=0):
    count = ctypes.c_size_t()
    capacity = 0
    while True:
        array = (Block * capacity)()
        if (
            _library.vramgc_blocks(device, array, ctypes.c_size_t(capacity), ctypes.byref(count))
            != 0
        ):
            raise LookupError(f"vramgc_blocks: no device {device}")
        if count.value <= capacity:
            return array[: count.value]
        capacity = count.value + 64


def call(name, *arguments):
    """Result and errno."""
    ctypes.set_errno(0)
    result = getattr(_library, name)(*arguments)
    return result, ctypes.get_errno()


def wait_until(condition, seconds=30):
    """Whether the condition came true, on however busy a machine."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.002)
    return condition()
