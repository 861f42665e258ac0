"""PyTorch empties the caches of all devices at once: what vramgc has it do for one is told of each
that lost something. Both have finished by then: PyTorch before 2.15 waits for one only. The
simulated GPU works until somebody waits for it."""

import json

import torch
import vramgc_api

empty = torch._C._cuda_emptyCache
finished = []


def watched():
    finished.extend(torch.cuda.current_stream(index).query() for index in (0, 1))
    empty()


torch._C._cuda_emptyCache = watched
for index in (1, 0):
    torch.ones(1 << 20, device=f"cuda:{index}").mul_(2)
    torch.empty(1 << 30, dtype=torch.uint8, device=f"cuda:{index}")
answer = vramgc_api.call("vramgc_reclaim", 0)[0]
came = vramgc_api.wait_until(lambda: all(vramgc_api.snapshot(i).flushes for i in (0, 1)))
seen = [(s.flushes, s.reclaims, s.reserved_bytes) for s in map(vramgc_api.snapshot, (0, 1))]
print(
    json.dumps(
        {"check": "both", "ok": answer == 0 and came and seen == [(1, 1, 0)] * 2, "seen": seen}
    )
)
print(json.dumps({"check": "waited", "ok": finished == [True, True], "seen": finished}))
