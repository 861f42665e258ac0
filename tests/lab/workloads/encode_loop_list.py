"""The same loop with torch.no_grad(), but the results stay in a list on the device, 4 MiB each. It
ends out of memory on a card that has little room beside the encoder."""

import torch
from workloads import encode_loop

PROMPTS = 150  # 600 MiB of results


@torch.no_grad()
def on_device(encoder):
    return encode_loop.encode(encoder)


def run(session):
    encode_loop.loop(session, on_device, PROMPTS)
