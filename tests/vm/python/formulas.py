"""The sums that applications make of cudaMemGetInfo and PyTorch's counters, at random moments (a card with room to spare): each is
compared with what can really be had, which is found out by taking it."""

import os
import random
import sys

import torch

import device

MIB = 1 << 20
# PyTorch's kMinLargeAlloc: from here on a request has a segment of its own, rounded up to 2 MiB, which is no more than this.
# Smaller ones share segments of 20 MiB, so that what is left of the last one would count as missing.
PIECE = 10 * MIB


def take_all():
    """Takes memory in pieces until there is none. A piece that is refused may count as allocated for ever; the sums must stand
    that."""
    pieces = []
    try:
        while True:
            pieces.append(torch.empty(PIECE, dtype=torch.uint8, device="cuda"))
    except (torch.OutOfMemoryError, RuntimeError) as error:
        assert "out of memory" in str(error), error
    return len(pieces) * PIECE


class Figures:
    def __init__(self):
        self.free, self.total = torch.cuda.mem_get_info()
        stats = torch.cuda.memory_stats()
        self.reserved = stats["reserved_bytes.all.current"]
        self.active = stats["active_bytes.all.current"]
        self.allocated = stats["allocated_bytes.all.current"]

    def __str__(self):
        return " ".join(f"{name}={value / MIB:.1f}" for name, value in vars(self).items())


def check_ranges(now):
    assert 0 <= now.free <= now.total, now  # SD.Next: (total - free) / total in percent; A1111's "Sys" peak


def check_sums(now, live, capacity, phantom=0):
    had = take_all()
    slack = 2 * PIECE + 4 * MIB * (live.count + 1)  # the last piece; pages that a block does not fill
    available = now.free + now.reserved - now.active  # ComfyUI, Forge
    assert abs(available - had) <= slack, f"{available / MIB} said, {had / MIB} had; {now}"
    assert now.free <= had + slack, now  # DiffSynth and diffusers: free alone is never too much
    assert now.free + now.allocated - phantom <= now.total + slack, now  # InvokeAI; PyTorch's own assertion on cudaMallocAsync
    assert now.total - now.free + slack >= live.bytes, now  # used is never less than what is live
    assert available <= capacity + slack, now


class Live:
    def __init__(self, limit):
        self.limit, self.tensors, self.bytes = limit, [], 0

    @property
    def count(self):
        return len(self.tensors)

    def step(self):
        size = random.choice([1, 3, 10, 25, 60, 90]) * MIB
        if self.tensors and (random.random() < 0.5 or self.bytes + size > self.limit):
            tensor = self.tensors.pop(random.randrange(len(self.tensors)))
            self.bytes -= tensor.numel()
        else:
            self.tensors.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            self.bytes += size


def refuse_a_cached_block(capacity):
    """PyTorch keeps a large block whose pages are needed elsewhere, and then hands it out: refused, and counted as allocated for
    ever. It is not PyTorch who needs them: then its cache outgrows the device, and the library's thread has it emptied."""
    large = torch.empty(capacity * 3 // 5, dtype=torch.uint8, device="cuda")
    del large
    other = device.take(capacity // 2)
    before = torch.cuda.memory_allocated()
    try:
        torch.empty(capacity * 3 // 5, dtype=torch.uint8, device="cuda")
        raise SystemExit("the block was not refused")
    except (torch.OutOfMemoryError, RuntimeError) as error:
        assert "out of memory" in str(error), error
    assert torch.cuda.memory_allocated() - before >= capacity * 3 // 5
    device.give(other)


def main():
    device.require_library()
    random.seed(2026 + int(os.environ.get("SEED", 0)))
    start = torch.empty(1, device="cuda")
    capacity = torch.cuda.mem_get_info()[0] + 2 * MIB
    live = Live(capacity // 3)
    for moment in range(240):
        live.step()
        check_ranges(Figures())
        if moment % 12 == 11:
            if random.random() < 0.3:
                device.reclaim()
            check_sums(Figures(), live, capacity)
            torch.cuda.empty_cache()
    live = Live(0)
    torch.cuda.empty_cache()
    refuse_a_cached_block(capacity)
    check_sums(Figures(), live, capacity, phantom=capacity * 3 // 5)
    assert device.errors() == 0
    del start
    print("formulas ok")


if __name__ == "__main__":
    sys.exit(main())
