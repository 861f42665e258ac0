"""VRAMGC_ASYNC=pages under a whole PyTorch on backend:cudaMallocAsync, and what other programs call: PyTorch's statistics and the sums
that ComfyUI makes of them, frees by every road, captures, other pools, threads without a context, peers, an end of the device."""

import ctypes
import os
import random
import sys
import threading

import torch

import device

MIB = 1 << 20
SUCCESS, INVALID_VALUE, NO_MEMORY = 0, 1, 2
USED, USED_HIGH, RESERVED = 7, 8, 5


class Api:
    """The runtime as an application of C would have it: hooked functions from the front, the rest from the library."""

    def __init__(self):
        self.hooked = ctypes.CDLL(None)
        self.runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")

    def malloc(self, size, stream=None, call="cudaMallocAsync", pool=None):
        address = ctypes.c_void_p(0)
        words = [ctypes.byref(address), ctypes.c_size_t(size)] + ([pool] if pool else [])
        return getattr(self.hooked, call)(*words, ctypes.c_void_p(stream)), address

    def free(self, address, stream=None, call="cudaFreeAsync"):
        return getattr(self.hooked, call)(address, ctypes.c_void_p(stream))

    def default_pool(self, ordinal=0):
        pool = ctypes.c_void_p()
        assert self.runtime.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), ordinal) == SUCCESS
        return pool

    def attribute(self, which, pool=None):
        value = ctypes.c_uint64()
        assert self.runtime.cudaMemPoolGetAttribute(pool or self.default_pool(), which, ctypes.byref(value)) == SUCCESS
        return value.value

    def stream(self):
        handle = ctypes.c_void_p()
        assert self.runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == SUCCESS
        return handle.value


def is_ours(address):
    """Whether the address is mapped page by page: the driver's pools know no handle behind their memory."""
    driver, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    ours = driver.cuMemRetainAllocationHandle(ctypes.byref(handle), address) == SUCCESS
    if ours:
        assert driver.cuMemRelease(handle) == SUCCESS
    return ours


def allocate(api, size, **words):
    result, address = api.malloc(size, **words)
    assert result == SUCCESS, result
    return address


def frees_by_every_road(api):
    """The number of bytes in use comes back each time, and whose memory it was shows."""
    streams = [api.stream(), api.stream()]
    before = api.attribute(USED)
    for road, stream in [("cudaFreeAsync", 0), ("cudaFreeAsync", streams[1]), ("cudaFreeAsync_ptsz", None)]:
        address = allocate(api, 5 * MIB + 1, stream=streams[0])
        assert is_ours(address)
        assert api.attribute(USED) - before == 5 * MIB + 512
        assert api.free(address, stream, call=road) == SUCCESS
        assert api.attribute(USED) == before
    for call in ("cudaFree", "cuMemFree_v2"):
        address = allocate(api, 3 * MIB, call="cudaMallocAsync_ptsz")
        assert is_ours(address) and getattr(api.hooked, call)(address) == SUCCESS
        assert api.attribute(USED) == before
    address = ctypes.c_void_p()
    for call in ("cuMemAllocAsync", "cuMemAllocAsync_ptsz"):
        assert getattr(api.hooked, call)(ctypes.byref(address), ctypes.c_size_t(MIB), ctypes.c_void_p(streams[0])) == SUCCESS
        assert is_ours(address)
        assert api.hooked.cuMemFreeAsync(address, ctypes.c_void_p(streams[1])) == SUCCESS
    assert api.attribute(USED) == before
    for stream in streams:
        assert api.hooked.cudaStreamDestroy(ctypes.c_void_p(stream)) == SUCCESS


def what_is_the_drivers(api):
    """Other pools, no bytes, nonsense: all as without the library."""
    properties = (ctypes.c_uint32 * 22)(1, 0, 1, 0)  # pinned, no handles, location: device 0
    pool = ctypes.c_void_p()
    assert api.runtime.cudaMemPoolCreate(ctypes.byref(pool), properties) == SUCCESS
    address = allocate(api, MIB, call="cudaMallocFromPoolAsync", pool=pool)
    assert not is_ours(address) and api.attribute(USED, pool) >= MIB
    assert api.free(address) == SUCCESS
    address = allocate(api, MIB, call="cudaMallocFromPoolAsync", pool=api.default_pool())
    assert is_ours(address) and api.free(address) == SUCCESS
    assert api.runtime.cudaDeviceSetMemPool(0, pool) == SUCCESS
    address = allocate(api, MIB)
    assert not is_ours(address) and api.free(address) == SUCCESS
    assert api.runtime.cudaDeviceSetMemPool(0, api.default_pool()) == SUCCESS
    assert api.hooked.cudaMallocAsync(None, ctypes.c_size_t(MIB), None) == INVALID_VALUE
    result, address = api.malloc(0)
    assert result == SUCCESS and not address.value
    assert api.hooked.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(0), None) == INVALID_VALUE
    assert api.malloc(1 << 60)[0] == NO_MEMORY
    torch.cuda.synchronize()
    assert api.runtime.cudaMemPoolDestroy(pool) == SUCCESS
    api.runtime.cudaGetLastError()  # PyTorch shall not hear of all that


def statistics():
    """PyTorch's own, of which ComfyUI computes what can be had: free + reserved - active."""
    torch.cuda.empty_cache()
    capacity = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    tensors = [torch.empty(size * MIB + 3, dtype=torch.uint8, device="cuda") for size in (3, 70, 20, 1)]
    live = torch.cuda.memory_allocated()
    assert live - base == 94 * MIB + 4 * 512, live
    assert live <= torch.cuda.memory_reserved() <= live + 5 * 4 * MIB
    assert torch.cuda.max_memory_allocated() == live
    del tensors[1]
    assert torch.cuda.memory_allocated() == live - 70 * MIB - 512
    assert torch.cuda.max_memory_allocated() == live
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == live - 70 * MIB - 512
    for _ in range(2):  # with what is idle, and without
        free, total = torch.cuda.mem_get_info()
        had = free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        assert abs(capacity - had - sum(t.numel() for t in tensors)) <= 8 * MIB, (capacity, had)
        assert free + torch.cuda.memory_allocated() <= total  # PyTorch asserts it when memory is out
        torch.cuda.empty_cache()
        device.reclaim()
    filler = torch.empty(had - 16 * MIB, dtype=torch.uint8, device="cuda").zero_()  # and it can be had
    del filler


def out_of_memory():
    before = torch.cuda.memory_allocated()
    for _ in range(2):
        try:
            torch.empty(2048 * MIB, dtype=torch.uint8, device="cuda")
            raise SystemExit("what does not fit was not refused")
        except torch.OutOfMemoryError as error:
            assert "would exceed" in str(error) or "out of memory" in str(error).lower(), error
    assert torch.cuda.memory_allocated() == before
    torch.empty(300 * MIB, dtype=torch.uint8, device="cuda").fill_(7)


def fill(api, tensor, value):
    """On the current stream, both ends: the simulated device's kernels write nothing, its memsets do."""
    stream = ctypes.c_void_p(torch.cuda.current_stream(tensor.device).cuda_stream)
    size = min(tensor.numel(), 2048)
    for address in (tensor.data_ptr(), tensor.data_ptr() + tensor.numel() - size):
        assert api.runtime.cudaMemsetAsync(ctypes.c_void_p(address), value, ctypes.c_size_t(size), stream) == SUCCESS


def patterns(api, count=160):
    """Tensors used on several streams, freed while that goes on: each keeps its own pattern."""
    streams = [torch.cuda.Stream() for _ in range(3)]
    live = []
    for number in range(count):
        stream, value = random.choice(streams), number % 251
        with torch.cuda.stream(stream):
            tensor = torch.empty(random.choice([3000, MIB, 9 * MIB, 40 * MIB]), dtype=torch.uint8, device="cuda")
            fill(api, tensor, value)
        other = random.choice(streams)
        if random.random() < 0.5 and other != stream:
            other.wait_stream(stream)
            with torch.cuda.stream(other):
                fill(api, tensor, value)
            tensor.record_stream(other)
        live.append((tensor, value))
        if random.random() < 0.6 or sum(t.numel() for t, _ in live) > 250 * MIB:
            tensor, value = live.pop(random.randrange(len(live)))
            if random.random() < 0.3:
                torch.cuda.synchronize()
                check(tensor, value)
            del tensor
        if number % 40 == 39:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    for tensor, value in live:
        check(tensor, value)


def check(tensor, value):
    """The first and last bytes: small copies bring what is there."""
    for part in (tensor[:16], tensor[-16:]):
        assert part.cpu().tolist() == [value] * 16, (value, part.cpu().tolist())


def a_thread_without_a_context(api):
    """Its first call is a free, or an allocation, on the default stream."""
    address, results = allocate(api, 4 * MIB), []
    for work in (lambda: api.free(address), lambda: api.free(api.malloc(2 * MIB)[1])):
        thread = threading.Thread(target=lambda: results.append(work()))
        thread.start()
        thread.join()
    assert results == [SUCCESS, SUCCESS], results


def marks_of_two_pools(api):
    """A stream of another context is the driver's business: what both pools have used at one moment is their mark, not the sum."""
    driver = api.hooked
    context, stream, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    tensor = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    assert is_ours(ctypes.c_void_p(tensor.data_ptr()))
    del tensor
    assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == SUCCESS
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == SUCCESS
    assert driver.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(48 * MIB), stream) == SUCCESS
    assert not is_ours(address)
    assert ctypes.CDLL("libcuda.so.1").cuCtxPopCurrent_v2(ctypes.byref(context)) == SUCCESS
    assert torch.cuda.memory_allocated() == base + 48 * MIB
    assert torch.cuda.max_memory_allocated() == base + 64 * MIB, torch.cuda.max_memory_allocated() - base
    tensor = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.max_memory_allocated() == base + 80 * MIB, torch.cuda.max_memory_allocated() - base
    del tensor
    assert driver.cuMemFree_v2(address) == SUCCESS
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated() == base
    assert driver.cuCtxDestroy_v2(context) == SUCCESS


def captures(api):
    """What is allocated in a captured stream belongs to the graph; other streams go on as ever."""
    stream, other = api.stream(), api.stream()
    graph = ctypes.c_void_p()
    used = api.attribute(USED)
    address = allocate(api, MIB, stream=other)
    assert api.hooked.cudaStreamBeginCapture(ctypes.c_void_p(stream), 2) == SUCCESS
    captured = allocate(api, 4 * MIB, stream=stream)
    assert api.free(captured, stream) == SUCCESS
    assert api.free(address, other) == SUCCESS
    address = allocate(api, 2 * MIB, stream=other)
    assert is_ours(address) and api.free(address, other) == SUCCESS
    assert api.hooked.cudaStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph)) == SUCCESS
    assert api.runtime.cudaGraphDestroy(graph) == SUCCESS
    assert api.attribute(USED) == used


def peers(api):
    """Another device is let in by the pool's access, before its blocks and after."""
    if not torch.cuda.can_device_access_peer(0, 1):
        return
    first = torch.empty(MIB, dtype=torch.uint8, device="cuda:0")
    fill(api, first, 5)
    access = (ctypes.c_int * 3)(1, 1, 3)  # device 1, read and write
    assert api.runtime.cudaMemPoolSetAccess(api.default_pool(0), access, ctypes.c_size_t(1)) == SUCCESS
    second = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda:0")
    fill(api, second, 6)
    torch.cuda.synchronize(0)
    for source, value in ((first, 5), (second, 6)):
        target = torch.zeros(4096, dtype=torch.uint8, device="cuda:1")
        with torch.cuda.device(1):
            places = [ctypes.c_void_p(t.data_ptr()) for t in (target, source)]
            assert api.runtime.cudaMemcpyAsync(*places, ctypes.c_size_t(2048), 3, None) == SUCCESS
        torch.cuda.synchronize(1)
        assert target[:16].cpu().tolist() == [value] * 16


def threads(api):
    """Several threads at once, each with a stream of its own."""
    failed = []

    def work(seed):
        chance, stream = random.Random(seed + int(os.environ.get("SEED", 0))), api.stream()
        held = []
        for _ in range(300):
            if held and chance.random() < 0.5:
                failed.append(api.free(held.pop(), stream))
            else:
                result, address = api.malloc(chance.choice([700, MIB // 2, 3 * MIB]), stream=stream)
                failed.append(result)
                held.append(address)
        failed.extend(api.free(address, stream) for address in held)

    used = api.attribute(USED)
    all_threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    assert not any(failed), failed
    assert api.attribute(USED) == used


def main():
    device.require_library()
    random.seed(2026 + int(os.environ.get("SEED", 0)))
    api = Api()
    torch.empty(1, device="cuda")
    assert torch.cuda.memory.get_allocator_backend() == "cudaMallocAsync"
    frees_by_every_road(api)
    what_is_the_drivers(api)
    statistics()
    patterns(api)
    out_of_memory()
    a_thread_without_a_context(api)
    marks_of_two_pools(api)
    captures(api)
    peers(api)
    threads(api)
    assert device.errors() == 0, device.errors()
    torch.cuda.synchronize()
    assert api.hooked.cudaDeviceReset() == SUCCESS
    assert device.snapshot_held() == 0, device.snapshot_held()
    print("pools ok", flush=True)
    os._exit(0)  # PyTorch does not survive a reset


if __name__ == "__main__":
    sys.exit(main())
