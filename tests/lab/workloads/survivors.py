"""Small blocks that stay among large ones that go: no block may keep more of the device than the
pages that it lies in. After each pattern the notes tell what the survivors keep, and how many
blocks of 500 MiB fit beside them.

Sizes are for a device of 24 GiB; on another one there are as many blocks in proportion."""

import torch

PAUSE_AFTER_EVERY = 0  # it pauses itself
MIB = 1 << 20
PAGE_BYTES = 2 * MIB
FULL_BYTES = 24 << 30
BLOCK_MIB = 500

# name: count, sizes in MiB that are allocated in turn, the last of which stays
PATTERNS = {
    "64+36+1.5": (200, (64, 36, 1.5)),
    "8+1.5": (1000, (8, 1.5)),
    "16+3": (500, (16, 3)),
    "8+0.5": (1000, (8, 0.5)),
    "100+12": (160, (100, 12)),
}
LATE = "120, then 1.5"  # the survivor comes to the cached block of a larger one that has gone
ROUNDS = "4 x (64+36+1.5)"


def block(mib):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


def together(count, sizes):
    """All are live at once, then all but the last of each go."""
    kept, others = [], []
    for _ in range(count):
        others += [block(mib) for mib in sizes[:-1]]
        kept.append(block(sizes[-1]))
    return kept


def late(count):
    """Each 120 MiB go before the survivor comes, and the next 120 MiB find no room in what is
    left."""
    kept, others = [], []
    for _ in range(count):
        others += [block(120)]
    del others[:]
    for _ in range(count):
        kept.append(block(1.5))
        others.append(block(110))
    return kept


def rounds(count, sizes):
    kept = []
    for _ in range(4):
        kept += together(count // 4, sizes)
        torch.cuda.empty_cache()
    return kept


def pages(tensors):
    """Pages that these lie in."""
    found = set()
    for tensor in tensors:
        first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.numel() - 1
        found.update(range(first // PAGE_BYTES, last // PAGE_BYTES + 1))
    return len(found)


def as_far_as_it_goes(work):
    """False where it ran out of memory."""
    try:
        work()
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if "out of memory" not in str(error):
            raise
        return False
    return True


def fill(blocks):
    while True:
        blocks.append(block(BLOCK_MIB))


def measure(session, name, make):
    kept, blocks = [], []
    fits = as_far_as_it_goes(lambda: kept.extend(make()))
    session.gather()
    session.pause()
    note = {
        "fits": fits,
        "live_bytes": torch.cuda.memory_allocated(),
        "own_bytes": pages(kept) * PAGE_BYTES,
        "held_bytes": session.held(),
    }
    as_far_as_it_goes(lambda: fill(blocks))
    note |= {"blocks": len(blocks), "live_full_bytes": torch.cuda.memory_allocated()}
    session.notes[name] = note
    session.job(name)
    del blocks[:], kept[:]
    session.gather()


def run(session):
    part = torch.cuda.mem_get_info()[1] / FULL_BYTES
    for name, (count, sizes) in PATTERNS.items():
        measure(session, name, lambda: together(int(count * part), sizes))
    measure(session, LATE, lambda: late(int(160 * part)))
    sizes = PATTERNS["64+36+1.5"]
    measure(session, ROUNDS, lambda: rounds(int(sizes[0] * part), sizes[1]))
