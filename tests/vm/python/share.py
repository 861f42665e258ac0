"""Whether another process can open a tensor's memory, as torch.multiprocessing has it done."""

import ctypes
import sys

import torch

import device

MIB = 1 << 20


def ask_for_handle(tensor):
    segment = next(s for s in torch.cuda.memory_snapshot() if s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"])
    handle = (ctypes.c_char * 64)()
    return ctypes.CDLL(None).cudaIpcGetMemHandle(handle, ctypes.c_void_p(segment["address"]))


def main():
    device.require_library()
    tensor = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    first, second = ask_for_handle(tensor), ask_for_handle(tensor)
    assert first == second
    assert device.errors() == 0
    print("share ok" if first == 0 else "share refused")


if __name__ == "__main__":
    sys.exit(main())
