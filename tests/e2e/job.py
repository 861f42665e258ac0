"""A job as a web UI does it, on a real PyTorch: weights come from the host, one part gives way to the next, results go back, and the
cache stays full. With an argument it then waits until vramgc holds at most so many MiB for it."""

import ctypes
import sys
import time

import torch

MIB = 1 << 20
PARTS, PART_MIB, WEIGHTS_MIB = 4, 96, 64


class Snapshot(ctypes.Structure):
    """The first figures of include/vramgc.h."""

    _fields_ = [("size", ctypes.c_size_t), ("held_bytes", ctypes.c_uint64)]


def held_bytes():
    snapshot = Snapshot(size=ctypes.sizeof(Snapshot))
    assert ctypes.CDLL(None).vramgc_snapshot(0, ctypes.byref(snapshot)) == 0
    return snapshot.held_bytes


def filled(mib, value):
    return torch.full((mib * MIB,), value, dtype=torch.uint8)


def has(tensor, value):
    return int(tensor[0]) == int(tensor[-1]) == value


def job():
    """What is left of it on the device: the weights."""
    weights = filled(WEIGHTS_MIB, 7).to("cuda")
    for part in range(PARTS):
        activations = [filled(PART_MIB // 4, 10 * part + i).to("cuda") for i in range(4)]
        assert all(has(tensor.cpu(), 10 * part + i) for i, tensor in enumerate(activations))
    del activations
    assert has(weights.cpu(), 7)
    return weights


def main():
    weights = job()
    torch.cuda.synchronize()
    limit_bytes = int(sys.argv[1]) * MIB if len(sys.argv) > 1 else None
    deadline = time.monotonic() + 300
    while limit_bytes and held_bytes() > limit_bytes:
        assert time.monotonic() < deadline, f"{held_bytes() / MIB} MiB are held"
        time.sleep(0.01)
    print("reserved", torch.cuda.memory_reserved(), "live", torch.cuda.memory_allocated())
    assert has(weights.cpu(), 7)


if __name__ == "__main__":
    main()
