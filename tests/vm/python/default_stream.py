"""A program that tries to destroy the default stream is refused; its work there is waited for as before."""

import ctypes

import torch

import device

SIZE = 100 * device.MIB

device.require_library()
hooked, driver = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")


def work():
    return torch.empty(SIZE, dtype=torch.uint8, device="cuda").zero_()


first = work()  # its addresses stay with PyTorch: no new segment tells of the stream
del first
torch.cuda.synchronize()
for handle in range(3):
    assert hooked.cudaStreamDestroy(ctypes.c_void_p(handle)) != 0
told = device.errors()
torch.cuda.synchronize()  # what the stream had to do when it was not destroyed is over
assert driver.simgpu_hold(None) == 0
tensor = work()
del tensor
device.reclaim()
held = device.snapshot_held()
assert driver.simgpu_release(None) == 0
torch.cuda.synchronize()
assert device.errors() == told, "pages went under work on the default stream"
assert held >= SIZE, held
device.wait_until(lambda: device.reclaim() or device.snapshot_held() < SIZE, "nothing went back")
print("default_stream ok")
