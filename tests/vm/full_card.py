"""Writes a script for c10drive: blocks come and go on two streams, so that PyTorch's cache fills the card again and again while the
blocks themselves fit well. No block waits for another stream, so that PyTorch's counters hang on nothing but its requests."""

import argparse
import os
import random

SIZES_MIB = [1, 3, 7, 12, 25, 40, 60, 90]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--live", type=int, default=260, help="MiB of live blocks at most")
    parser.add_argument("--empty-cache", type=float, default=0, help="how likely after each step")
    arguments = parser.parse_args()
    choice = random.Random(arguments.seed + int(os.environ.get("SEED", 0)))
    live = {}
    for step in range(300):
        size = choice.choice(SIZES_MIB)
        if live and (choice.random() < 0.45 or sum(live.values()) + size > arguments.live):
            name = choice.choice(list(live))
            del live[name]
            print(f"free {name}")
        else:
            live[f"t{step}"] = size
            print(f"alloc t{step} {size}MiB stream={choice.choice([0, 0, 1])}")
        if choice.random() < arguments.empty_cache:
            print("empty_cache")
    print("stats")


main()
