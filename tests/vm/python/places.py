"""To the program a segment is one allocation of cudaMalloc, whatever pages lie behind it just now; and who takes hold of its physical
memory finds it where it was."""

import ctypes
import sys

import torch

import device

MIB = 1 << 20
CONTEXT, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, MANAGED, ORDINAL, IPC, START, SIZE, MAPPED = 1, 2, 3, 4, 8, 9, 10, 11, 12, 13
SYNC_MEMOPS = 6
DEVICE_MEMORY = 2
INVALID_VALUE = 1

driver = ctypes.CDLL("libcuda.so.1")


def ask(attribute, address, kind=ctypes.c_uint64):
    """The answer to cuPointerGetAttribute, and the same by cuPointerGetAttributes."""
    value, again = kind(77), kind(78)
    result = driver.cuPointerGetAttribute(ctypes.byref(value), attribute, ctypes.c_uint64(address))
    assert result == 0, f"attribute {attribute}: {result}"
    attributes = (ctypes.c_int * 1)(attribute)
    places = (ctypes.c_void_p * 1)(ctypes.addressof(again))
    assert driver.cuPointerGetAttributes(1, attributes, places, ctypes.c_uint64(address)) == 0
    assert value.value == again.value
    return value.value


def address_range(address):
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    assert driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)) == 0
    return base.value, size.value


def answers_are_those_of_an_allocation():
    tensor = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    base = tensor.data_ptr()
    segment = next(s for s in torch.cuda.memory_snapshot() if s["address"] <= base < s["address"] + s["total_size"])
    inside = base + 7 * MIB + 100
    assert address_range(inside) == (segment["address"], segment["total_size"])
    assert (ask(START, inside), ask(SIZE, inside)) == (segment["address"], segment["total_size"])
    assert ask(MEMORY_TYPE, inside, ctypes.c_uint) == DEVICE_MEMORY
    assert ask(ORDINAL, inside, ctypes.c_int) == 0
    assert ask(DEVICE_POINTER, inside) == inside
    assert ask(MANAGED, inside, ctypes.c_uint) == 0
    assert ask(MAPPED, inside, ctypes.c_uint) == 1
    assert ask(IPC, inside, ctypes.c_uint) == 0  # the truth: it is not
    current = ctypes.c_uint64()
    assert driver.cuCtxGetCurrent(ctypes.byref(current)) == 0
    assert ask(CONTEXT, inside) == current.value
    host = ctypes.c_uint64()
    assert driver.cuPointerGetAttribute(ctypes.byref(host), HOST_POINTER, ctypes.c_uint64(inside)) == INVALID_VALUE
    handle = ctypes.c_uint64()
    assert driver.cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(inside)) == INVALID_VALUE


def answers_do_not_change_when_pages_go():
    tensor = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    address = tensor.data_ptr() + 50 * MIB
    before = address_range(address)
    del tensor
    torch.cuda.synchronize()
    device.reclaim()
    assert address_range(address) == before
    assert ask(ORDINAL, address, ctypes.c_int) == 0


def what_is_held_on_to_stays():
    tensor = torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")
    address, on = tensor.data_ptr(), ctypes.c_uint(1)
    assert driver.cuPointerSetAttribute(ctypes.byref(on), SYNC_MEMOPS, ctypes.c_uint64(address)) == 0
    del tensor
    torch.cuda.synchronize()
    device.reclaim()
    assert device.snapshot_held() >= 60 * MIB
    torch.cuda.empty_cache()  # ends the segment
    device.wait_until(lambda: device.reclaim() or device.snapshot_held() < 60 * MIB, "held")


def main():
    device.require_library()
    torch.empty(1, device="cuda")
    answers_are_those_of_an_allocation()
    answers_do_not_change_when_pages_go()
    torch.cuda.empty_cache()
    device.reclaim()
    what_is_held_on_to_stays()
    assert device.errors() == 0
    print("places ok")


if __name__ == "__main__":
    sys.exit(main())
