"""Fills the card with PyTorch's cache again and again, and prints what PyTorch and cudaMemGetInfo say after each step: with and
without mode compact it is to be the same, for where PyTorch alone is alive nobody may see a difference."""

import os
import random

import torch

import device

SIZES_MIB = [1, 3, 7, 12, 25, 40, 60, 90]
LIVE_MIB = 340


def main():
    device.require_library()
    choice = random.Random(5 + int(os.environ.get("SEED", 0)))
    streams = [torch.cuda.default_stream(), torch.cuda.Stream()]
    live = []
    for step in range(250):
        size = choice.choice(SIZES_MIB)
        if live and (choice.random() < 0.45 or sum(tensor.numel() for tensor in live) // device.MIB + size > LIVE_MIB):
            live.pop(choice.randrange(len(live)))
        else:
            with torch.cuda.stream(choice.choice(streams)):
                live.append(torch.empty(size * device.MIB, dtype=torch.uint8, device="cuda"))
        stats = torch.cuda.memory_stats()
        free, _ = torch.cuda.mem_get_info()
        print(
            f"free {free >> 20} reserved {stats['reserved_bytes.all.current'] >> 20} active {stats['active_bytes.all.current'] >> 20}",
            f"retries {stats['num_alloc_retries']} out of memory {stats['num_ooms']}",
        )
    assert device.errors() == 0


main()
