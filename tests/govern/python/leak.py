"""Each job keeps what encode_prompt made: the report says so before memory runs out, and when it has. With --sound nothing is kept, and
nothing is said. Prints one line of JSON for each check."""

import itertools
import sys

import torch

from names import MIB, functions_are_named, is_said, report, say

JOBS = 24
kept = []
turns = itertools.count()


def load_model():
    parts = []
    for _ in range(8):
        parts.append(torch.empty(96 * MIB, dtype=torch.uint8, device="cuda"))
    return parts


def encode_prompt():
    embeddings = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    return embeddings


def denoise():
    """Takes more each time, so that its peak is the latest; little, for on a busy machine there are many turns."""
    latents = torch.empty(512 * MIB + next(turns) * MIB // 64, dtype=torch.uint8, device="cuda")
    del latents


def jobs(count, keep):
    for _ in range(count):
        embeddings = encode_prompt()
        denoise()
        if keep:
            kept.append(embeddings)


def grows():
    return "encode_prompt (leak.py:" in report()["verdict"]["what"]


def fills_the_card():
    try:
        jobs(10 * JOBS, True)
    except torch.OutOfMemoryError:
        pass
    verdict = report()["verdict"]
    return verdict["code"] == "growth" and "most comes from encode_prompt" in verdict["cause"]


def main():
    functions_are_named()
    model = load_model()
    if "--sound" in sys.argv:
        jobs(3 * JOBS, False)
        what = report()["verdict"]["what"]
        say("nothing grows", "grows" not in what, what=what)
        return
    jobs(JOBS, True)
    say("grows", is_said(grows), what=report()["verdict"]["what"])
    say("fills the card", fills_the_card(), cause=report()["verdict"]["cause"])
    del model


if __name__ == "__main__":
    main()
