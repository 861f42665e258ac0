"""Samples the device's own books (on a card NVML's) while a workload runs. The ruler is the same with
libvramgc.so and without: it asks neither of cuMemGetInfo, which the library answers, nor believes
the library's figure of what is held. It must not call the driver, nor change what PyTorch does."""

import ctypes
import threading
import time

import books
import timeline
import torch

SAMPLE_SECONDS = 0.005
THRESHOLD = 0.80


class Snapshot(ctypes.Structure):
    """The beginning of struct vramgc_snapshot in include/vramgc.h."""

    _fields_ = [("size", ctypes.c_size_t)] + [
        (name, ctypes.c_uint64)
        for name in (
            "held_bytes reserved_bytes allocated_bytes active_bytes inactive_split_bytes "
            "releasable_bytes idle_bytes"
        ).split()
    ]


def pages_needed(snapshot_of, live):
    """Bytes of the pages in which something is live. Without the library what is live itself, for
    that is what PyTorch's own figures say: reserved − active is idle."""
    snapshot = Snapshot(size=ctypes.sizeof(Snapshot))
    native = torch.cuda.memory.get_allocator_backend() == "native"
    if not native or snapshot_of is None or snapshot_of(0, ctypes.byref(snapshot)) != 0:
        return live
    return max(live, snapshot.reserved_bytes - snapshot.idle_bytes)


class Ruler:
    """Starts with the first sample; stop() gives the figures."""

    def __init__(self, context_bytes):
        self.context_bytes = context_bytes
        self.device_bytes = torch.cuda.mem_get_info()[1]
        self.used, self.peak = books.device_books(), books.device_peak() or books.device_books()
        self.base_bytes = self.used()
        self.peak()
        self.snapshot = getattr(ctypes.CDLL(None), "vramgc_snapshot", None)
        self.samples, self.pauses, self.worked_until = [], [], None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, name="ruler", daemon=True)
        self.thread.start()

    def held(self):
        return self.used() - self.base_bytes

    def sample(self):
        stats = torch.cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]
        torch.cuda.reset_peak_memory_stats()
        held, held_peak = self.held(), self.peak() - self.base_bytes
        needed = pages_needed(self.snapshot, stats["current"])
        live, peak = stats["current"], stats["peak"]
        self.samples.append(timeline.Sample(time.monotonic(), held, needed, live, peak, held_peak))

    def run(self):
        while not self.done.wait(SAMPLE_SECONDS):
            self.sample()

    def pause(self, seconds):
        start = time.monotonic()
        time.sleep(seconds)
        self.pauses.append((start, time.monotonic()))

    def rest(self, seconds):
        """After the last job: neither work nor a pause between jobs."""
        self.worked_until = time.monotonic()
        time.sleep(seconds)

    def stop(self):
        self.done.set()
        self.thread.join()
        self.sample()
        most_held = self.device_bytes * THRESHOLD - self.context_bytes
        return timeline.figures(self.samples, self.pauses, most_held, self.worked_until)
