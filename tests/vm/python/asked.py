"""Mode flush: vramgc_reclaim has PyTorch empty its cache: the driver has the memory when that is told."""

import torch

import device

device.require_library()
torch.empty(100 * device.MIB, dtype=torch.uint8, device="cuda")  # given back at once: PyTorch keeps it
torch.cuda.synchronize()
device.reclaim()
device.wait_until(lambda: torch.cuda.memory_reserved() == 0, "PyTorch's cache is emptied")
assert device.errors() == 0
print("asked ok")
