"""Random programs on a card that they nearly fill, each until PyTorch refuses it memory. Tells for each at which step that was; null:
it was not. Argument: how many."""

import json
import random
import sys

import torch

MIB = 1 << 20
STEPS = 4000
SIZES = (  # in bytes; as images, weights, small tensors, convolutions' workspaces and pages come
    lambda dice: dice.randint(1, 64) * MIB,
    lambda dice: int(10 ** dice.uniform(3, 8.4)),
    lambda dice: dice.randint(20, 400) * MIB,
    lambda dice: int(10 ** dice.uniform(3, 6.3)),
    lambda dice: dice.choice((9, 18, 36, 72, 144, 11, 30)) * MIB + dice.choice((0, 0, 512, 70_000)),
    lambda dice: dice.choice((5, 10, 12, 20, 25, 30)) * MIB,
    lambda dice: dice.choice((2, 4, 6, 8, 10, 12, 14, 16)) * MIB,
)


def program(seed):
    """It fills the card to some part, lets go to another, mostly in no order, and so on."""
    dice = random.Random(seed)
    size = dice.choice(SIZES)
    most = dice.uniform(0.85, 1) * torch.cuda.mem_get_info()[0]
    least = dice.choice((0.2, 0.5, 0.8)) * most
    empties = dice.choice((0, 0, 0.01, 0.05))
    live, live_bytes, grows = [], 0, True
    for step in range(STEPS):
        if grows:
            bytes_ = size(dice)
            try:
                live.append(torch.empty(bytes_, dtype=torch.uint8, device="cuda"))
            except torch.cuda.OutOfMemoryError:
                return step
            live_bytes += bytes_
        else:
            live_bytes -= live.pop(dice.randrange(len(live)) if dice.random() < 0.7 else -1).numel()
        grows = live_bytes < most and (grows or live_bytes <= least or dice.random() < 0.01)
        if dice.random() < empties:
            torch.cuda.empty_cache()
    return None


def refused():
    for seed in range(int(sys.argv[1])):
        yield program(seed)
        torch.cuda.empty_cache()


print(json.dumps({"refused": list(refused())}))
