"""What a workload runs in: stages, jobs, and what a web UI does between them.

A web UI's generation is a chain of stages (encode, sample, hires pass, decode). The seeds collect
after each: Python's garbage collection, then PyTorch's empty_cache, then ipc_collect.
`collect="seed"` does exactly that, and times it.
"""

import ctypes
import gc
import sys
import time

import measure
import torch


class Session:
    def __init__(self, collect=None, verbose=False):
        self.collect = collect
        self.verbose = verbose
        self.simulated = measure.device_errors() is not None
        self.collections = 0
        self.collection_ns = 0
        self.outputs = []

    def output(self, tensor):
        """A result that came to the host. On the simulated device nothing has been computed, so
        that its content says nothing; on a card it does."""
        text = f"{tuple(tensor.shape)} {tensor.dtype} {tuple(tensor.stride())}"
        if not self.simulated:
            text += f" {tensor.double().nan_to_num().abs().sum().item():.6g}"
        self.outputs.append(text)

    def stage(self):
        """The end of a stage."""
        if self.collect != "seed":
            return
        begin = time.perf_counter_ns()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.ipc_collect()
        self.collections += 1
        self.collection_ns += time.perf_counter_ns() - begin

    def job(self, name):
        """The end of a job, or of loading a model: a mark on vramgc's timeline, and a line where
        wanted."""
        mark = getattr(ctypes.CDLL(None), "vramgc_mark", None)
        if mark is not None:
            mark(name.encode())
        if self.verbose:
            live, held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
            live_peak, held_peak = (
                torch.cuda.max_memory_allocated(),
                torch.cuda.max_memory_reserved(),
            )
            print(
                f"  {name:32s} live {live >> 20:6} MiB, peak {live_peak >> 20:6}; "
                f"reserved {held >> 20:6}, peak {held_peak >> 20:6}",
                file=sys.stderr,
                flush=True,
            )
