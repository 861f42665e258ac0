"""A program to be asked about: whatif_pools.py pool|graph|fraction. It keeps memory that nothing else can use: a torch.cuda.MemPool, or
CUDA graphs of one pool, which go before the end; or lets PyTorch have 0.4 of the card. Says 'fits'."""
import sys

import torch


def mib(count):
    return torch.empty(count << 20, dtype=torch.uint8, device="cuda")


def of_a_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensor = mib(200)
    del tensor
    kept = mib(200)
    with torch.cuda.use_mem_pool(pool):
        tensor = mib(180)
    assert pool.id
    kept = [kept, mib(100)]
    del tensor, pool
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        tensor = mib(150)
    return kept, tensor


def captured(count, pool=None):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        mib(count)
    return graph


def of_graphs():
    first = captured(200)
    second = captured(180, first.pool())
    kept = mib(200)
    third = captured(60, torch.cuda.MemPool().id)
    kept = [kept, mib(100)]
    first.reset()
    del second
    return kept, mib(150), third


def main():
    mib(1)
    if sys.argv[1] == "fraction":
        torch.cuda.set_per_process_memory_fraction(0.4)
        kept = mib(200), mib(50)
    else:
        kept = of_a_pool() if sys.argv[1] == "pool" else of_graphs()
    print("fits", len(kept), flush=True)


main()
