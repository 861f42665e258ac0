"""One long job keeps what it made of each part in RAM. Prints one line of JSON."""

import re
import time

import torch

from names import MIB, functions_are_named, is_said, report, say, take


def upscales():
    take(300)
    return torch.ones(20 * MIB, dtype=torch.uint8)


functions_are_named()
frames = []
for _ in range(40):
    frames.append(upscales())
    time.sleep(0.03)
grows = r"Host memory grows: \+(1[89]|2[01])\.\d MiB a round of work on the card, \d+ rounds\. "
said = is_said(lambda: re.search(grows, report()["verdict"]["what"]))
say("in one job", said, verdict=report()["verdict"])
