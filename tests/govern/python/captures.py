"""Captures stay valid while another thread frees memory and vramgc, in lowvram, empties the cache again and again."""

import json
import threading
import time

import torch

import vramgc_api

MIB = 1 << 20
done = threading.Event()


def take_and_free():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while not done.is_set():
            tensors = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(6)]
            tensors.clear()
            time.sleep(0.03)


def capture():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        x = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
        y = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
        time.sleep(0.03)  # several looks of vramgc's thread
        x.add_(1)
        del y
    graph.replay()
    torch.cuda.synchronize()


thread = threading.Thread(target=take_and_free)
thread.start()
error = None
try:
    for _ in range(60):
        capture()
        time.sleep(0.01)
except Exception as exception:  # said below
    error = repr(exception)
done.set()
thread.join()
stats = torch.cuda.memory_stats()
print(
    json.dumps(
        {
            "check": "captures",
            "ok": error is None and vramgc_api.snapshot().flushes >= 5 and stats["num_ooms"] == 0,
            "error": error,
            "flushes": vramgc_api.snapshot().flushes,
        }
    )
)
