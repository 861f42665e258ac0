"""A training keeps a gradient of each step, which autograd's own thread has made. Prints one line of JSON."""

import torch

from names import functions_are_named, report, say, take


def trains(x, kept):
    y = x * 2
    y.sum().backward()
    kept.append(x.grad)
    x.grad = None
    take(200)


functions_are_named()
x = torch.empty(2 << 20, device="cuda", requires_grad=True)
kept = []
try:
    while True:
        trains(x, kept)
except torch.OutOfMemoryError:
    verdict = report()["verdict"]
grown = "backward.py:8), backward. " in verdict["cause"] and " of these are live, of 8.0 MiB on average." in verdict["cause"]
told = verdict["do"].startswith("Autograd made them as it went back through trains (backward.py:8): find what keeps a gradient")
say("backward", grown and told, verdict=verdict)
