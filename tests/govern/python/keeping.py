"""A captured graph, or a torch.cuda.MemPool, keeps what nothing lies in, and memory runs out beside it."""

import sys

import torch


def take(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


model = take(100)
if sys.argv[1] == "graph":
    keeper = torch.cuda.CUDAGraph()
    within = torch.cuda.graph(keeper)
else:
    keeper = torch.cuda.MemPool()
    within = torch.cuda.use_mem_pool(keeper)
with within:
    work = take(500)
    work += 1
    del work
try:
    take(300)
except torch.OutOfMemoryError:
    pass
