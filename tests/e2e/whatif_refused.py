"""On a card of 1 GiB: what PyTorch has idle is taken by another library, so that its next block gets no memory; a smaller one does."""
import ctypes

import torch

MIB = 1 << 20


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def main():
    kept, first = take(50), take(300)
    del first
    with open("/proc/self/maps", encoding="utf-8") as maps:
        runtime = next(line.split(None, 5)[5].strip() for line in maps if "libcudart.so" in line)
    assert ctypes.CDLL(runtime).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(600 * MIB)) == 0
    try:
        take(300)
    except torch.OutOfMemoryError:
        print("out of memory, as it is to be")
    take(20)
    del kept


main()
