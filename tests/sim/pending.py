"""PyTorch's issue 189504 without a GPU (README.md): a block that fits is free, but another stream has not finished with
it. The request is told that the card is full; a moment later the same request succeeds."""

import torch

MIB = 1 << 20


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def fill():
    """All that the card has, so that nothing new can be had."""
    taken = []
    try:
        while True:
            taken.append(take(256))
    except torch.OutOfMemoryError:
        return taken


whole = take(4000)
del whole  # one segment of the cache,
small, large = take(1000), take(2900)  # in two pieces
others = fill()
with torch.cuda.stream(torch.cuda.Stream()) as _:
    side = torch.cuda.current_stream()
    torch.cuda._sleep(1 << 34)
large.record_stream(side)
del large
for attempt in ("first", "second"):
    try:
        take(2800)
        print(f"{attempt} try: got it")
    except torch.OutOfMemoryError:
        print(f"{attempt} try: out of memory")
