#!/usr/bin/env python3
"""What `vramgc prove` does not measure, in half a minute, by the driver alone (ctypes) and a little
PyTorch: what the engine's calls cost by size, beside many handles and beside work, and what they do
to launches. One line of JSON for each figure, at once; words choose groups. Without libvramgc.so."""

import contextlib
import ctypes
import json
import statistics
import sys
import threading
import time

import torch

cu = ctypes.CDLL("libcuda.so.1")
PAGE = 2 << 20
NOT_READY = 600
STEPS = ("create", "map", "access", "unmap", "release")
u64 = ctypes.c_uint64


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


ON_DEVICE = Location(1, 0)
PINNED = Properties(type=1, location=ON_DEVICE)
READ_WRITE = Access(ON_DEVICE, 3)


def call(name, *arguments):
    result = getattr(cu, name)(*arguments)
    if result:
        raise RuntimeError(f"{name}: CUresult {result}")


def tell(group, **figures):
    print(json.dumps({"micro": group} | figures), flush=True)


def timed_us(work, *arguments):
    begin = time.perf_counter_ns()
    work(*arguments)
    return (time.perf_counter_ns() - begin) / 1000


def spread(samples):
    samples = sorted(samples)
    return {
        "median_us": round(statistics.median(samples), 2),
        "p99_us": round(samples[int(len(samples) * 0.99)], 2),
        "max_us": round(samples[-1], 2),
    }


# --- the driver's calls ---


def create(size=PAGE):
    handle = u64()
    call("cuMemCreate", ctypes.byref(handle), u64(size), ctypes.byref(PINNED), u64(0))
    return handle


def reserve(size):
    at = u64()
    call("cuMemAddressReserve", ctypes.byref(at), u64(size), u64(0), u64(0), u64(0))
    return at.value


def map_page(at, handle):
    call("cuMemMap", u64(at), u64(PAGE), u64(0), handle, u64(0))


def open_pages(at, size=PAGE):
    call("cuMemSetAccess", u64(at), u64(size), ctypes.byref(READ_WRITE), u64(1))


def unmap(at, size=PAGE):
    call("cuMemUnmap", u64(at), u64(size))


def release(handle):
    call("cuMemRelease", handle)


def free_bytes():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value


class Page:
    """One page's life; each step is timed where a dictionary for it is given."""

    def __init__(self, at, times=None):
        self.at, self.handle, self.times = at, None, times

    def step(self, name):
        us = timed_us(getattr(self, name))
        if self.times is not None:
            self.times.setdefault(name, []).append(us)
        return us

    def steps(self, names):
        for name in names:
            self.step(name)

    def create(self):
        self.handle = create()

    def map(self):
        map_page(self.at, self.handle)

    def access(self):
        open_pages(self.at)

    def unmap(self):
        unmap(self.at)

    def release(self):
        release(self.handle)

    def info(self):
        free_bytes()


# --- the groups ---


def names():
    version, differ = ctypes.c_int(), []
    call("cuDriverGetVersion", ctypes.byref(version))
    for name in (
        "cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemMap cuMemUnmap "
        "cuMemSetAccess cuMemRetainAllocationHandle cuMemExportToShareableHandle "
        "cuMemGetAllocationPropertiesFromHandle"
    ).split():
        found = ctypes.c_void_p()
        cu.cuGetProcAddress(name.encode(), ctypes.byref(found), version, u64(0))
        if found.value != ctypes.cast(getattr(cu, name), ctypes.c_void_p).value:
            differ.append(name)
    tell("names", driver=version.value, differ=differ)


def info():
    tell("cuMemGetInfo", **spread([timed_us(free_bytes) for _ in range(500)]))


def lag():
    """How soon what is released is told as free."""
    lacking = {}
    for wait_ms in (0, 1, 10, 100):
        before = free_bytes()
        handle = create(1 << 30)
        taken = before - free_bytes()
        release(handle)
        time.sleep(wait_ms / 1000)
        lacking[wait_ms] = (before - free_bytes()) >> 20
    tell("free_lag", lacking_mib_after_ms=lacking, taken_mib=taken >> 20)


def new_stream():
    stream = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    return stream


def until_passed(event):
    while cu.cuEventQuery(event) == NOT_READY:
        pass


def one_event_of_all(context, event, streams):
    def record():
        call("cuCtxRecordEvent", context, event)

    recorded, passed = [], []
    for _ in range(100):
        recorded.append(timed_us(record))
        passed.append(timed_us(until_passed, event))
    asked_us = timed_us(lambda: [cu.cuStreamQuery(stream) for stream in streams])
    tell(
        "context_event",
        streams=len(streams),
        record=spread(recorded),
        until_passed=spread(passed),
        query_all_streams_us=round(asked_us, 1),
    )


def context_event():
    """One event for all streams: what it costs, and whether it is ever early."""
    context, event, streams = ctypes.c_void_p(), ctypes.c_void_p(), []
    call("cuCtxGetCurrent", ctypes.byref(context))
    call("cuEventCreate", ctypes.byref(event), 2)
    if not hasattr(cu, "cuCtxRecordEvent"):
        return tell("context_event", there=False)
    for count in (0, 1, 32, 128):
        streams += [new_stream() for _ in range(count - len(streams))]
        one_event_of_all(context, event, streams)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(300_000_000)
    call("cuCtxRecordEvent", context, event)
    early = cu.cuEventQuery(event) != NOT_READY
    torch.cuda.synchronize()
    tell("context_event", early=early, passed_after=cu.cuEventQuery(event) == 0)


BEFORE = {"map": 1, "access": 2, "unmap": 3, "release": 1}  # steps that it needs before it
AFTER = {"create": 4, "map": 3, "access": 3, "unmap": 4}  # the first of those that are left


def beside_work():
    """Whether a call waits for a kernel of 100 ms and more on another stream."""
    page, side, end = Page(reserve(PAGE)), torch.cuda.Stream(), torch.cuda.Event()
    for name in (*STEPS, "info"):
        times, over = [], 0
        for _ in range(3):
            page.steps(STEPS[: BEFORE.get(name, 0)])
            with torch.cuda.stream(side):
                torch.cuda._sleep(200_000_000)
                end.record()
            times.append(round(page.step(name), 1))
            over += end.query()
            torch.cuda.synchronize()
            page.steps(STEPS[AFTER.get(name, 5) :])
        tell("beside_work", call=name, us=times, work_was_over=over)


@contextlib.contextmanager
def pages_moving(counts):
    """Another thread moves a page as fast as it can."""
    stop, at = threading.Event(), reserve(PAGE)

    def move():
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda")
        while not stop.is_set():
            Page(at).steps(STEPS)
            counts.append(1)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def launches():
    """What moving pages in another thread does to the program's launches."""
    tensor = torch.zeros(64, device="cuda")
    tensor.add_(1)
    torch.cuda.synchronize()

    def sample():
        found = []
        for _ in range(20):
            found += [timed_us(tensor.add_, 1) for _ in range(100)]
            torch.cuda.synchronize()
        return spread(found)

    alone, lives = sample(), []
    with pages_moving(lives):
        while not lives:
            time.sleep(0.001)
        beside = sample()
    tell("launch", alone=alone, beside_page_calls=beside, lives_meanwhile=len(lives))


def sizes():
    """cuMemAlloc and cuMemFree stand for cudaMalloc and cudaFree, which call them; and handles."""
    at = u64()
    for mib in (2, 32, 128):
        times = {}
        for _ in range(40):
            size, made = u64(mib << 20), []
            for name, step in (
                ("alloc", lambda: call("cuMemAlloc_v2", ctypes.byref(at), size)),
                ("free", lambda: call("cuMemFree_v2", at)),
                ("create", lambda: made.append(create(mib << 20))),
                ("release", lambda: release(made[0])),
            ):
                times.setdefault(name, []).append(timed_us(step))
        tell("by_size", mib=mib, **{name: spread(samples) for name, samples in times.items()})


def handles():
    """Each call again while so many handles are mapped elsewhere."""
    at, most = reserve(PAGE), min(10000, int(free_bytes() * 0.6) // PAGE)
    base, held = reserve(max(most, 1) * PAGE), []
    for count in sorted({0, min(1000, most), min(5000, most), most}):
        while len(held) < count:
            held.append(create())
            map_page(base + (len(held) - 1) * PAGE, held[-1])
        whole_us = timed_us(open_pages, base, len(held) * PAGE) if held else 0
        times = {}
        for _ in range(60):
            Page(at, times).steps(STEPS)
        told = {name: spread(samples) for name, samples in times.items()}
        tell("beside_handles", handles=count, access_of_all_us=round(whole_us, 1), **told)
    if held:
        whole_us = timed_us(unmap, base, len(held) * PAGE)
        tell("unmap_of_all", handles=len(held), us=round(whole_us, 1))
    for handle in held:
        release(handle)


GROUPS = (names, info, lag, context_event, beside_work, launches, sizes, handles)


def main(words):
    torch.zeros(1, device="cuda")
    for group in GROUPS:
        try:
            if not words or group.__name__ in words:
                group()
        except (RuntimeError, AttributeError) as error:
            tell(group.__name__, error=str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
