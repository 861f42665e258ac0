"""A captured graph writes where its blocks were, without telling: their pages stay, whatever is freed and given back."""

import sys

import torch

import device

MIB = device.MIB
BYTES = 48 * MIB


def capture():
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        with torch.cuda.graph(graph, stream=stream):
            scratch = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
            scratch.zero_()
            middle = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
            middle.zero_()
            result.copy_(scratch[: 4 * MIB])
            del scratch, middle
    return graph, result


def fill_the_device():
    """Takes all memory there is in pieces, writes to it, and gives it back."""
    pieces = []
    try:
        while True:
            pieces.append(torch.empty(16 * MIB, dtype=torch.uint8, device="cuda"))
            pieces[-1].fill_(7)
    except (torch.OutOfMemoryError, RuntimeError) as error:
        assert "out of memory" in str(error), error
    torch.cuda.synchronize()
    return len(pieces)


def main():
    device.require_library()
    warm = torch.empty(400 * MIB, dtype=torch.uint8, device="cuda")  # cached segments for the capture to use
    del warm
    graphs = [capture() for _ in range(3)]
    for _ in range(3):
        pieces = fill_the_device()
        assert pieces > 10, pieces
        device.reclaim()
        torch.cuda.empty_cache()
        device.reclaim()
        for graph, result in graphs:
            result.fill_(1)
            graph.replay()
            torch.cuda.synchronize()
    assert device.errors() == 0, f"{device.errors()} errors of use"
    del graphs, graph, result
    torch.cuda.empty_cache()
    device.reclaim()
    assert device.errors() == 0
    print("graphs ok")


if __name__ == "__main__":
    sys.exit(main())
