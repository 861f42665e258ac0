"""Somebody else has taken what PyTorch has cached: its next block gets no memory, and counts as allocated in PyTorch for ever. It belongs
to nobody. Prints one line of JSON for each check."""

import ctypes

import torch

from names import MIB, named, say, take

runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


def is_refused(work):
    try:
        work()
    except torch.OutOfMemoryError as error:
        return str(error)


def asks_in_vain():
    return torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")


kept = take(150)
take(300)
runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(500 * MIB))
error = is_refused(asks_in_vain)
say("refused", error and "no physical page" in error, error=error)
is_refused(lambda: take(2000))
theirs, vain = named("owners_at_oom", "take"), named("owners_at_oom", "asks_in_vain")
say("nobody's", theirs == 150 * MIB and vain == 0, theirs=theirs, vain=vain)
