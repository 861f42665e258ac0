"""What a workload runs in: stages, jobs, and what a web UI does between them.

A web UI's generation is a chain of stages (encode, sample, hires pass, decode). The seeds collect
after each: Python's garbage collection, then PyTorch's empty_cache, then ipc_collect.
`collect="seed"` does exactly that, and times it.
"""

import ctypes
import gc
import sys
import time

import content
import measure
import torch

PAUSE_SECONDS = 2.5  # longer than anything that PyTorch gave up may wait for its next use
PAUSE_AFTER_EVERY = 3  # jobs, beginning with the first, of workloads that do not pause themselves


class Session:
    """ruler: measures over time; where there is one, workloads that do not pause themselves pause
    after some jobs (every: after how many; 0: they do)."""

    def __init__(self, collect=None, verbose=False, ruler=None, every=PAUSE_AFTER_EVERY, marks=True, brief=False):
        self.collect = collect
        self.verbose = verbose
        self.ruler = ruler
        self.every = every if ruler else 0
        self.marks = marks
        self.brief = brief  # nobody looks at images
        self.collections = 0
        self.collection_ns = 0
        self.outputs = []
        self.jobs = 0
        self.notes = {}

    def output(self, tensor):
        """A result that came to the host. On the simulated device nothing has been computed, so
        that its content says nothing; on a card it does."""
        text = f"{tuple(tensor.shape)} {tensor.dtype} {tuple(tensor.stride())}"
        if content.on_card():
            text += f" {content.digest(tensor)}"
        self.outputs.append(text)

    def gather(self):
        """What the seeds do."""
        begin = time.perf_counter_ns()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.ipc_collect()
        self.collections += 1
        self.collection_ns += time.perf_counter_ns() - begin

    def stage(self):
        """The end of a stage."""
        if self.collect == "seed":
            self.gather()

    def held(self):
        """What is held of the device now."""
        return self.ruler.held() if self.ruler else measure.held_now()

    def pause(self, seconds=PAUSE_SECONDS):
        """The user looks at the image. What is held at the end of a long pause is measured."""
        if self.brief:
            return
        if self.ruler and seconds >= PAUSE_SECONDS:
            self.ruler.pause(seconds)
        else:
            time.sleep(seconds)

    def job(self, name):
        """The end of a job, or of loading a model: a mark on vramgc's timeline, and a line where
        wanted."""
        mark = getattr(ctypes.CDLL(None), "vramgc_mark", None)
        if self.marks and mark is not None:
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
        if self.every and self.jobs % self.every == 0:
            self.pause()
        self.jobs += 1
