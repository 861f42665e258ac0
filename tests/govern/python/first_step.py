"""A training runs out of memory at its first step, where AdamW makes its states, though gradients have come just before. Prints one line of
JSON."""

import torch

from names import functions_are_named, report, say, take


def load_model():
    return torch.nn.ModuleList(torch.nn.Linear(2048, 2048, bias=False, device="cuda") for _ in range(24))


def trains(model, optimizer):
    x = torch.empty(64, 2048, device="cuda")
    for layer in model:
        x = layer(x)
    x.sum().backward()
    optimizer.step()


functions_are_named()
take(200)
model = load_model()
try:
    trains(model, torch.optim.AdamW(model.parameters()))
except torch.OutOfMemoryError:
    verdict = report()["verdict"]
told = verdict["cause"].startswith("The optimizer that trains (first_step.py:") and "Train a LoRA" in verdict["do"]
say("first step", verdict["code"] == "full" and told, verdict=verdict)
