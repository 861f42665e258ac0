"""A device that is full at a block event, because somebody else has taken what PyTorch had cached: the program gets PyTorch's own
error type, and what is smaller works afterwards."""

import torch

import device

device.require_library()


def take(mebibytes):
    return torch.empty(mebibytes * device.MIB, dtype=torch.uint8, device="cuda")


take(300)  # given back at once: PyTorch keeps the addresses
other = device.take(350 * device.MIB)
try:
    take(300)
    raise SystemExit("300 MiB were had although only 162 MiB are free")
except torch.OutOfMemoryError as error:
    assert str(error).startswith("CUDA out of memory. Tried to allocate 300 MiB"), error
smaller = [take(70).fill_(i) for i in range(2)]
del smaller
device.give(other)
larger = take(400).fill_(1)
torch.cuda.synchronize()
assert torch.cuda.memory_stats()["num_ooms"] == 0
assert device.errors() == 0
print("full ok")
