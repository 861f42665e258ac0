"""Blocks of 2 to 4.8 GiB, one after the other, with empty_cache between: what PyTorch has given up
itself must not stay on the device longer than without the library. For a device of 8 GiB or more;
on a smaller one sizes are in proportion."""

import time

import torch
from workloads.survivors import block

PAUSE_AFTER_EVERY = 0  # it pauses itself
FULL_BYTES = 8 << 30
SIZES_MIB = (2048, 4915, 2662, 4096, 3379, 2253, 4506, 3072, 2458, 3686, 4710, 2867)
LONG_AFTER = (4, 8)  # these jobs are followed by a long pause
LIVE_SECONDS, GAP_SECONDS = 0.3, 0.15


def run(session):
    part = min(torch.cuda.mem_get_info()[1] / FULL_BYTES, 1)
    for number, size in enumerate(SIZES_MIB):
        tensor = block(int(size * part))
        time.sleep(LIVE_SECONDS)
        del tensor
        time.sleep(GAP_SECONDS)
        session.gather()
        session.job(f"{size} MiB")
        if number in LONG_AFTER:
            session.pause()
        else:
            session.pause(GAP_SECONDS)
