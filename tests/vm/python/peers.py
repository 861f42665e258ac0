"""Two devices: what PyTorch believes to be memory of cudaMalloc is reached by the other device as such memory is: by kernels after
cudaDeviceEnablePeerAccess, whether the memory or the access came first, and by copies always. The argument says whether the devices are
peers, and whether the access comes first: peers, early, none."""

import ctypes
import sys

import torch

import device

MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")


def use_there(tensor):
    """A kernel of the other device reads and writes the tensor."""
    other = 1 - tensor.device.index
    with torch.cuda.device(other):
        assert driver.simgpu_use(None, ctypes.c_ulonglong(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes), 1) == 0
        torch.cuda.synchronize()


def copy_both_ways():
    for here, there in ((0, 1), (1, 0)):
        numbers = torch.arange(3000, dtype=torch.int32)
        first = numbers.to(f"cuda:{here}")
        big = torch.empty(64 * MIB, dtype=torch.uint8, device=f"cuda:{here}")
        assert torch.equal(first.to(f"cuda:{there}").cpu(), numbers)
        assert big.to(f"cuda:{there}").device.index == there
        torch.cuda.synchronize()


def free_and_use_again(index):
    """Pages that went and come back are open to the other device as well."""
    for size in (100, 30, 80):
        tensor = torch.empty(size * MIB, dtype=torch.uint8, device=f"cuda:{index}")
        use_there(tensor)
        del tensor
        device.reclaim()


def access_comes_first():
    hooked = ctypes.CDLL(None)
    for index in (0, 1):
        with torch.cuda.device(index):
            assert hooked.cudaDeviceEnablePeerAccess(1 - index, 0) == 0
    for index in (0, 1):
        use_there(torch.empty(50 * MIB, dtype=torch.uint8, device=f"cuda:{index}"))


def main():
    device.require_library()
    peers = sys.argv[1] != "none"
    if sys.argv[1] == "early":
        access_comes_first()
    assert torch.cuda.can_device_access_peer(0, 1) == peers
    before = torch.empty(50 * MIB, dtype=torch.uint8, device="cuda:1") if peers else None
    copy_both_ways()  # PyTorch enables what can be had
    if peers:
        use_there(before)
        later = torch.empty(50 * MIB, dtype=torch.uint8, device="cuda:1")
        use_there(later)
        free_and_use_again(0)
        free_and_use_again(1)
    assert device.errors() == 0
    print("peers ok")


if __name__ == "__main__":
    sys.exit(main())
