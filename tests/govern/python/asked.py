"""Above the threshold (VRAMGC_THRESHOLD=50), and before vramgc's own thread looks again (VRAMGC_TEST_SAMPLE is long): one refusal, upon
which PyTorch with max_split_size_mb gives back one block. The thread does the rest, whatever the hysteresis, but not while another
GPU is at work: PyTorch would wait for it. Then vramgc_reclaim: in a program below the threshold nothing is given back until
somebody asks."""

import json
import time

import torch

import vramgc_api

GIB = 1 << 30


def take(gib):
    return torch.empty(int(gib * GIB), dtype=torch.uint8, device="cuda")


busy = torch.empty(1 << 20, device="cuda:1")
for _ in range(12):
    busy.mul_(2)  # on average a second each
tensors = [take(gib) for gib in (7, 6, 2)]
keep = tensors.pop()
tensors.clear()
more = take(5.5)
half = torch.cuda.memory_stats()
time.sleep(2.5)  # vramgc's own thread looks after each second
at_work = vramgc_api.snapshot()
torch.cuda.synchronize(1)
came = vramgc_api.wait_until(
    lambda: vramgc_api.snapshot().releasable_bytes == 0 and vramgc_api.snapshot().flushes == 1
)  # it is counted when it is over
figures = vramgc_api.snapshot()
print(
    json.dumps(
        {
            "check": "the rest",
            "ok": came
            and at_work.flushes == 0
            and figures.soft_ooms == 1
            and figures.flushes == 1
            and half["num_ooms"] == 0
            and half["num_alloc_retries"] == 0,
            "seen": [at_work.flushes, figures.soft_ooms, figures.flushes, figures.reserved_bytes / GIB],
        }
    )
)

del more, keep
time.sleep(1.2)
flushes = vramgc_api.snapshot().flushes
answer = vramgc_api.call("vramgc_reclaim", 0)[0]
came = vramgc_api.wait_until(lambda: vramgc_api.snapshot().flushes > flushes)
print(
    json.dumps(
        {
            "check": "asked",
            "ok": flushes == 1 and answer == 0 and came and torch.cuda.memory_reserved() == 0,
        }
    )
)
