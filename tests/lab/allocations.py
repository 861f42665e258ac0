"""How long PyTorch takes for one tensor while a card of 8 GiB fills up: 5 GiB of weights come and go, and work beside them fills the card
to 97 % with tensors of many sizes. Prints a line of JSON. SIMGPU_LATENCY=card tests/on_card --mem 8GiB [--proven] -- [vramgc run --] python FILE"""

import json
import random
import time

import torch

MIB = 1 << 20
took_ns = []


def take(mib):
    start = time.perf_counter_ns()
    tensor = torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")
    took_ns.append(time.perf_counter_ns() - start)
    return tensor


def work(dice, most_mib):
    tensors, mib = [], 0
    while True:
        size = dice.choice((1.5, 6, 20, 64, 130, 256)) * dice.uniform(0.7, 1)
        if mib + size > most_mib:
            return
        tensors.append(take(size))
        mib += size


def main():
    dice = random.Random(1)
    torch.cuda.init()
    torch.empty(1, device="cuda")
    refused = 0
    for _ in range(6):
        weights = [take(size) for _ in range(150) for size in (26, 6.5, 1.6)]
        for _ in range(10):
            try:
                work(dice, 0.97 * 7900 - sum(w.numel() for w in weights) / MIB)
            except torch.OutOfMemoryError:
                refused += 1
            torch.cuda.synchronize()
        del weights
    took_ns.sort()
    us = [ns / 1000 for ns in took_ns]
    print(json.dumps({"tensors": len(us), "median_us": us[len(us) // 2], "p99_us": us[len(us) * 99 // 100], "longest_us": us[-1],
                      "retries": torch.cuda.memory_stats()["num_alloc_retries"], "refused": refused}))


main()
