"""max_split_size_mb makes expandable segments outgrow the device: large blocks that lie idle serve
requests of nearly their own size only. The library's own thread has the cache emptied."""

import os
import warnings

warnings.filterwarnings("ignore", message="nvmlDeviceGetGpuFabricInfoV")
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True,max_split_size_mb:100"

import device
import torch

MIB = 1 << 20


def device_memory(mib):
    return torch.empty(mib * MIB, device="cuda", dtype=torch.uint8)


def reserved_mib():
    return torch.cuda.memory_reserved() // MIB


def main():
    met = device.thread_meets_python()
    live = [device_memory(20)]
    device.wait_until(met, "the library's thread met Python")
    for mib in range(200, 1200, 50):  # each serves none of those that follow
        large = device_memory(mib)
        live.append(device_memory(20))  # behind it, so that it cannot grow
        del large
        if torch.cuda.max_memory_reserved() > 2016 * MIB:
            break
    device.wait_until(lambda: reserved_mib() < 1000, "the cache was emptied")
    free, _ = torch.cuda.mem_get_info()
    idle = reserved_mib() - torch.cuda.memory_allocated() // MIB
    assert free // MIB + idle <= 1792, (free, idle)
    assert torch.cuda.memory_stats()["num_alloc_retries"] == 0
    print("overcommit_expandable ok")


main()
