"""Rows of equal small blocks fill the card, then all but a few go. The notes tell for each size and
pattern how many blocks of 100 MiB fit beside those that stay. Sizes are of LoRAs, norms and
embeddings; the number of blocks is in proportion to the card."""

import random

import torch
from workloads.survivors import MIB, PAGE_BYTES, as_far_as_it_goes, block, pages

PAUSE_AFTER_EVERY = 0  # what fits at once is asked
SIZES_MIB = (0.3, 1.1, 2.1, 4.1, 8.2, 19)
EVERY = (2, 4, 12, 32)
RANDOM = "random"
RANDOM_SHARE = 1 / 8
FULL_SHARE = 0.92
BLOCK_MIB = 100


def footprint_mib(size):
    """What a block takes of PyTorch's own segments: of 2 MiB for up to 1 MiB, else of 20 MiB."""
    segment = 2 if size <= 1 else 20
    return segment / (segment // size)


def stay(pattern, count):
    """Places in the row of those that stay."""
    if pattern != RANDOM:
        return range(0, count, pattern)
    source = random.Random(28)
    return [place for place in range(count) if source.random() < RANDOM_SHARE]


def fill(blocks):
    while True:
        blocks.append(block(BLOCK_MIB))


def measure(session, size, pattern, capacity):
    row, blocks = [], []
    count = int(FULL_SHARE * capacity / MIB / footprint_mib(size))
    fits = as_far_as_it_goes(lambda: row.extend(block(size) for _ in range(count)))
    kept = [row[place] for place in stay(pattern, len(row))]
    row.clear()
    note = {"fits": fits, "live_bytes": torch.cuda.memory_allocated()}
    note |= {"own_bytes": pages(kept) * PAGE_BYTES}
    as_far_as_it_goes(lambda: fill(blocks))
    note |= {"blocks": len(blocks), "held_bytes": session.held()}
    session.notes[f"{size} {pattern}"] = note
    session.job(f"{size} MiB, {pattern}")
    del blocks[:], kept[:]
    session.gather()


def run(session):
    capacity = torch.cuda.mem_get_info()[0]
    for size in SIZES_MIB:
        for pattern in EVERY + (RANDOM,):
            measure(session, size, pattern, capacity)
