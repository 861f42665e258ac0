"""A captured graph writes where its blocks were, without telling: their pages stay, whatever is freed and given back."""

import sys

import torch

import device

MIB = device.MIB
BYTES = 48 * MIB


def capture(pool):
    """What is captured comes from segments of the pool that are there already: those are ours to map and unmap; those made during
    a capture are the driver's own."""
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        with torch.cuda.use_mem_pool(pool):
            warm = [torch.empty(n, dtype=torch.uint8, device="cuda") for n in (BYTES, 3 * MIB)]
            del warm
        result = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        with torch.cuda.graph(graph, stream=stream, pool=pool.id):
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
    pools = [torch.cuda.MemPool() for _ in range(3)]
    graphs = [capture(pool) for pool in pools]
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
    del graphs, graph, result, pools
    torch.cuda.empty_cache()
    device.reclaim()
    assert device.errors() == 0
    print("graphs ok")


if __name__ == "__main__":
    sys.exit(main())
