"""vramgc_reclaim: in a program far below the threshold nothing is given back until somebody asks."""
import json
import time

import torch

import vramgc_api

x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
del x
time.sleep(1.2)
before = vramgc_api.snapshot().flushes
answer = vramgc_api.call("vramgc_reclaim", 0)[0]
came = vramgc_api.wait_until(lambda: vramgc_api.snapshot().flushes > before)
print(json.dumps({"check": "asked", "ok": before == 0 and answer == 0 and came and torch.cuda.memory_reserved() == 0}))

# Above the threshold, and before our thread looks again (VRAMGC_SAMPLE is long): one refusal, which with max_split_size_mb gives back one block; our own thread does the rest.
GIB = 1 << 30
torch.cuda.memory._set_allocator_settings("max_split_size_mb:512")
tensors = [torch.empty(n * GIB, dtype=torch.uint8, device="cuda") for n in (7, 6, 5, 2)]
keep = tensors.pop()
tensors.clear()
early = vramgc_api.snapshot()
more = torch.empty(int(5.5 * GIB), dtype=torch.uint8, device="cuda")
half = torch.cuda.memory_stats()
came = vramgc_api.wait_until(lambda: vramgc_api.snapshot().releasable_bytes == 0)
figures = vramgc_api.snapshot()
print(json.dumps({"check": "the rest", "ok": came and figures.soft_ooms == 1 and figures.flushes == 2 and
                  half["num_ooms"] == 0 and half["num_alloc_retries"] == 0,
                  "seen": [figures.soft_ooms, figures.flushes, figures.reserved_bytes / GIB, early.flushes]}))
