"""Each job keeps what encode_prompt made: the report says so before memory runs out, and when it has. With --sound nothing is kept, and
nothing is said. Prints one line of JSON for each check."""

import itertools
import sys
import time

import torch

from names import MIB, PATIENCE, named, report, say

JOBS = 24
kept = []
turns = itertools.count()


def load_model():
    parts = []
    for _ in range(8):
        parts.append(torch.empty(96 * MIB, dtype=torch.uint8, device="cuda"))
        time.sleep(0.02)
    return parts


def encode_prompt():
    embeddings = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    time.sleep(0.02)
    return embeddings


def denoise():
    """Takes more each time, so that its peak is the latest; little, for on a busy machine there are many turns."""
    latents = torch.empty(512 * MIB + next(turns) * MIB // 64, dtype=torch.uint8, device="cuda")
    time.sleep(0.02)
    del latents


def job(keep):
    """What is kept has its name in the statistics file: a job whose name was missed is done again."""
    for _ in range(PATIENCE):
        embeddings = encode_prompt()
        denoise()
        if not keep:
            return
        if named("owners_at_peak", "encode_prompt") >= (len(kept) + 1) * 64 * MIB:
            kept.append(embeddings)
            return
        del embeddings


def jobs(count, keep):
    for _ in range(count):
        job(keep)


def grows():
    return "encode_prompt (leak.py:" in report()["verdict"]["note"]


def fills_the_card():
    try:
        jobs(PATIENCE, True)
    except torch.OutOfMemoryError:
        pass
    verdict = report()["verdict"]
    return verdict["code"] == "growth" and "most comes from encode_prompt" in verdict["cause"]


def main():
    model = load_model()
    if "--sound" in sys.argv:
        jobs(3 * JOBS, False)
        note = report()["verdict"]["note"]
        say("nothing grows", not note or "grows" not in note, note=note)
        return
    for _ in range(4):
        jobs(JOBS, True)
        if grows():
            break
    say("grows", grows(), note=report()["verdict"]["note"])
    say("fills the card", fills_the_card(), cause=report()["verdict"]["cause"])
    del model


if __name__ == "__main__":
    main()
