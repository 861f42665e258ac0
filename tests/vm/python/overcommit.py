"""PyTorch's cache outgrows the device, in addresses: the block that does it is granted without a
second try, and the library's own thread has the cache emptied."""

import os
import time

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:400"

import device
import torch

MIB = 1 << 20
WORDS = MIB // 4


def device_memory(mib):
    return torch.empty(mib * WORDS, device="cuda", dtype=torch.int32)


def retries():
    return torch.cuda.memory_stats()["num_alloc_retries"]


def main():
    met = device.thread_meets_python()
    tensors = [device_memory(100) for _ in range(10)]
    device.wait_until(met, "the library's thread met Python")
    time.sleep(0.1)
    del tensors
    assert torch.cuda.memory_reserved() == 1000 * MIB
    large = device_memory(1300)
    assert retries() == 0, retries()
    large[-1] = 5
    device.wait_until(lambda: torch.cuda.memory_reserved() == 1300 * MIB, "the cache was emptied")
    free, _ = torch.cuda.mem_get_info()
    assert free == 492 * MIB, free
    assert large[-1].item() >= 0
    assert retries() == 0, retries()
    print("overcommit ok")


main()
