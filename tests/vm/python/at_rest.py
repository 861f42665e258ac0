"""At rest, where the device is fuller than the threshold as the program sees it, the library's own thread empties PyTorch's cache:
then cudaMemGetInfo tells the card as it is. argument: 'empties', or 'stays': it is not so full."""

import sys
import time

import torch

import device

MIB = device.MIB


def take(mebibytes):
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda")


def main():
    device.require_library()
    met = device.thread_meets_python()
    live = take(100)
    before, _ = torch.cuda.mem_get_info()
    device.wait_until(met, "the library's thread met Python")
    cached = take(300)
    del cached
    if sys.argv[1] == "empties":
        device.wait_until(lambda: torch.cuda.memory_reserved() == 100 * MIB, "the cache was emptied")
        device.wait_until(lambda: torch.cuda.mem_get_info()[0] == before, "cudaMemGetInfo tells it")
    else:
        time.sleep(1)
        assert torch.cuda.memory_reserved() == 400 * MIB
        assert torch.cuda.mem_get_info()[0] == before - 300 * MIB
    stats = torch.cuda.memory_stats()
    assert stats["num_alloc_retries"] == 0 and stats["num_ooms"] == 0
    assert live.numel() == torch.cuda.memory_allocated() == 100 * MIB
    assert device.errors() == 0
    print("at_rest ok")


main()
