"""A kernel's first run finds no room for its code: PyTorch raises CUDA's error, and no allocation has failed. Prints one line of JSON."""

import torch

from names import functions_are_named, report, say, take


def samples():
    return take(700)


def decodes(x):
    return torch.sin(x)


functions_are_named()
x = torch.empty(1 << 20, device="cuda")
model = samples()
try:
    decodes(x)
except RuntimeError as error:
    verdict = report()["verdict"]
    named = "CUDA itself wanted some for decodes (python/kernel.py:" in verdict["text"]
    told = verdict["cause"].startswith("CUDA itself needs some of the card, for a kernel at its first run")
    say("kernel", "out of memory" in str(error) and verdict["code"] == "full" and named and told, verdict=verdict)
