"""A job whose tensors are 1.1 times the device: it completes with VRAMGC_SPILL, else it is refused as ever; a smaller one works after
both."""

import sys

import torch

import device

MIB = 1 << 20
DEVICE = 512  # MiB beside the context


def job(mib):
    """So many MiB of tensors at once, in pieces whose content is checked."""
    tensors = [torch.full((8 * MIB,), i, dtype=torch.uint8).to("cuda") for i in range(mib // 8)]
    free = torch.cuda.mem_get_info()[0]
    torch.cuda.synchronize()
    assert all(int(t[-1].cpu()) == i and int(t[0].cpu()) == i for i, t in enumerate(tensors))
    return free


def main():
    device.require_library()
    try:
        free = job(DEVICE * 11 // 10)
        print("spilled ok")
        assert free == 0, free
    except torch.OutOfMemoryError:
        print("refused ok")
    torch.cuda.empty_cache()
    job(DEVICE // 2)
    assert device.snapshot_held() <= DEVICE * MIB
    assert device.errors() == 0


if __name__ == "__main__":
    sys.exit(main())
