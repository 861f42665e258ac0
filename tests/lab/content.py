"""What a model's weights contain. On a card values that keep a signal about its size from layer to
layer, the same in every run, so that images can be compared. On the simulated device, where kernels
compute nothing, nothing: there they stay untouched virtual memory."""

import ctypes
import functools
import hashlib

import torch

PATTERN = 1 << 20  # values that are drawn once and repeated


def on_card():
    try:
        return not hasattr(ctypes.CDLL("libcuda.so.1"), "simgpu_errors")
    except OSError:
        return False


@functools.cache
def pattern():
    return torch.randn(PATTERN, generator=torch.Generator().manual_seed(11))


def fill(tensor):
    """As networks are initialised: the variance is 1 ÷ what each output sums up."""
    summed = tensor.numel() / tensor.shape[0]
    values = (pattern() / summed**0.5).to(tensor.dtype)
    for part in tensor.view(-1).split(PATTERN):
        part.copy_(values[: part.numel()])


def digest(tensor):
    """The same for the same bits, and a number by which a person sees that something was computed."""
    numbers = tensor.double()
    finite = numbers[numbers.isfinite()]
    bits = hashlib.sha256(tensor.contiguous().view(-1).view(torch.uint8).numpy()).hexdigest()
    lost = numbers.numel() - finite.numel()
    return f"mean {finite.abs().mean():.4g}, {lost} not finite, {bits[:12]}"
