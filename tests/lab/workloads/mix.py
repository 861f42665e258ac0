"""Tensors of odd sizes that come and go, on one stream or two, with an emptied cache now and then: another program for each MIX."""

import os
import random

import torch

MIB = 1 << 20


def size(chance, kind):
    if kind == 0:  # activations: a few sizes, again and again
        return chance.choice((3, 5, 12, 37, 80, 150, 290)) * MIB
    if kind == 1:  # anything
        return int(2 ** chance.uniform(9, 28))
    return chance.randrange(1, 400) * 700_000


def run(session):
    seed = int(os.environ["MIX"])
    chance = random.Random(seed)
    kind, kept = seed % 3, []
    side = torch.cuda.Stream() if seed % 2 else None
    weights = [torch.empty(chance.randrange(1, 60) * MIB, dtype=torch.uint8, device="cuda") for _ in range(40)]
    for _ in range(6):
        for _ in range(300):
            tensor = torch.empty(size(chance, kind), dtype=torch.uint8, device="cuda")
            if side and chance.random() < 0.2:
                with torch.cuda.stream(side):
                    torch.empty(size(chance, kind), dtype=torch.uint8, device="cuda")
                tensor.record_stream(side)
            kept.append(tensor)
            del tensor
            while len(kept) > chance.randrange(2, 30):
                kept.pop(chance.randrange(len(kept)))
        if chance.random() < 0.4:
            kept.clear()
            torch.cuda.empty_cache()
    return weights
