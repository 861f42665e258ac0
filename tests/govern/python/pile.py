"""A loop keeps each tensor until memory runs out: nothing is freed, and no floor rises. Prints one line of JSON."""

import torch

from names import MIB, functions_are_named, report, say


def gather(kept):
    kept.append(torch.empty(20 * MIB, dtype=torch.uint8, device="cuda"))


functions_are_named()
kept = []
try:
    while True:
        gather(kept)
except torch.OutOfMemoryError:
    verdict = report()["verdict"]
fine = verdict["code"] == "growth" and "grow by 20.0 MiB at a time" in verdict["cause"] and "of gather (pile.py:8)" in verdict["cause"]
say("piles up", fine, cause=verdict["cause"])
