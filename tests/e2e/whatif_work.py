"""A program to be asked about: whatif_work.py [EVENTS]. Weights, tensors of many sizes on two streams, an emptied cache, one large
tensor at the end; before that, so many block events of small ones. Says 'fits'."""
import sys

import torch


def main():
    weights = [torch.empty(i * 100_000 + 5, device="cuda") for i in range(1, 40)]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        other = torch.empty(3 << 20, device="cuda")
    other.record_stream(torch.cuda.default_stream())
    del other
    for _ in range(int(sys.argv[1]) // 2 if len(sys.argv) > 1 else 0):
        torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(4096, 0, 0))
    for k in range(200):
        tensor = torch.empty((k % 17 + 1) << 20, dtype=torch.uint8, device="cuda")
        weights[k % 39] = torch.empty((k % 5 + 1) * 700_000, dtype=torch.uint8, device="cuda")
        del tensor
    del weights[::2]
    torch.cuda.empty_cache()
    last = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    print("fits", last.numel(), flush=True)


main()
