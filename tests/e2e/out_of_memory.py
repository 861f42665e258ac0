"""Runs out of memory once, and keeps what PyTorch says of its segments then; --compare: the snapshot that vramgc made is the same, and
PyTorch's memory_viz draws it."""

import json
import pickle
import sys

import torch
from torch.cuda import _memory_viz

MIB = 1 << 20


def segments(snapshot):
    """What both say of each segment; an expandable segment's free pages have no stream and no request."""
    return sorted(
        [s["address"], s["total_size"], s["allocated_size"], [[b["size"], b["state"]] for b in s["blocks"]]]
        for s in snapshot
    )


def run(path):
    blocks = [torch.empty(mib * MIB, dtype=torch.uint8, device="cuda") for mib in (64, 3, 64, 5, 64, 1, 64)]
    del blocks[1::2]
    try:
        torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("nothing was refused")
    with open(path + ".expected", "w", encoding="utf-8") as out:
        json.dump(segments(torch.cuda.memory_snapshot()), out)


def compare(path):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    with open(path + ".expected", encoding="utf-8") as file:
        assert segments(snapshot["segments"]) == json.load(file)
    assert "raise OutOfMemoryError" in _memory_viz.trace(snapshot)
    assert "total_reserved" in _memory_viz.segsum(snapshot)
    assert "MemoryViz.js" in _memory_viz.trace_plot(snapshot)


if __name__ == "__main__":
    compare(sys.argv[2]) if sys.argv[1] == "--compare" else run(sys.argv[1])
