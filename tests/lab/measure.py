"""What one run of a workload used, by PyTorch's own account.

PyTorch keeps no means of held ÷ live, so without libvramgc.so it is computed afterwards from the
allocator's trace; under the library the trace is not recorded, because the library keeps the same
figures itself.
"""

import ctypes
import hashlib

import events
import models
import torch

MOST_EVENTS = 20_000_000


class Snapshot(ctypes.Structure):
    """The beginning of struct vramgc_snapshot in include/vramgc.h."""

    _fields_ = [("size", ctypes.c_size_t), ("held_bytes", ctypes.c_uint64)]


def vramgc_held_bytes():
    """What libvramgc.so says is held now, or None where it is not loaded or not recording."""
    function = getattr(ctypes.CDLL(None), "vramgc_snapshot", None)
    snapshot = Snapshot(size=ctypes.sizeof(Snapshot))
    if function is None or function(0, ctypes.byref(snapshot)) != 0:
        return None
    return snapshot.held_bytes


def write_report(path):
    """vramgc's statistics so far: what comes later, the interpreter's own end, is no part of the
    workload."""
    function = getattr(ctypes.CDLL(None), "vramgc_write_report", None)
    if function is None or function(path.encode()) != 0:
        raise OSError(f"libvramgc.so did not write {path}")


def record_events():
    """Switches the trace on where the allocator keeps one; backend:cudaMallocAsync keeps none."""
    if torch.cuda.memory.get_allocator_backend() == "native":
        torch.cuda.memory._record_memory_history(
            context=None, stacks="python", max_entries=MOST_EVENTS
        )


def held_over_live():
    """Its mean over block events and its weighted mean; None, None where there is no trace."""
    if torch.cuda.memory.get_allocator_backend() != "native":
        return None, None
    trace = torch.cuda.memory._snapshot()["device_traces"]
    return events.held_over_live(trace[0] if trace else [])


def context_bytes():
    """What the device lacks before PyTorch has allocated anything: the context, where nobody else
    uses the device."""
    torch.cuda.init()
    free, total = torch.cuda.mem_get_info()
    return total - free


def simulated(name, kind):
    """What a function of the simulated device says, or None on a card."""
    try:
        function = getattr(ctypes.CDLL("libcuda.so.1"), name)
    except (OSError, AttributeError):
        return None
    function.restype = kind
    return function()


def device_errors():
    """Wrong uses that the simulated device reported."""
    return simulated("simgpu_errors", ctypes.c_ulong)


def device_refusals():
    return simulated("simgpu_refusals", ctypes.c_ulong)


def device_latency_ns():
    return simulated("simgpu_latency_ns", ctypes.c_ulonglong) or 0


def small_tensors(loaded):
    """Names and tensors of what stays loaded, those whose content the simulated device moves."""
    for name, part in sorted(loaded.components.items()):
        if isinstance(part, torch.nn.Module):
            held = [*part.named_parameters(), *part.named_buffers()]
            for inner, tensor in held:
                there = not tensor.is_meta  # else accelerate keeps it elsewhere
                if there and 0 < tensor.numel() * tensor.element_size() <= models.CONTENT_BYTES:
                    yield f"{name}.{inner}", tensor


def contents(loaded):
    """A hash over the small tensors of the models: they went to the device, some of them several
    times, and must be what they were."""
    digest, count = hashlib.sha256(), 0
    for name, tensor in small_tensors(loaded):
        flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(bytes(flat.tolist()))
        count += 1
    return f"{count} tensors, {digest.hexdigest()[:16]}"


def same(session, loaded):
    """What must be the same with libvramgc.so as without."""
    return {
        "outputs": session.outputs,
        "contents": contents(loaded) if loaded else None,
        "counters": torch.cuda.memory_stats(),
    }


def figures(session):
    stats = torch.cuda.memory_stats()
    return {
        "live_rest_bytes": torch.cuda.memory_allocated(),
        "device_refusals": device_refusals(),
        "live_peak_bytes": torch.cuda.max_memory_allocated(),
        "held_peak_bytes": torch.cuda.max_memory_reserved(),
        "device_bytes": torch.cuda.mem_get_info()[1],
        "retries": stats.get("num_alloc_retries", 0),
        "ooms": stats.get("num_ooms", 0),
        "driver_calls": stats.get("num_device_alloc", 0) + stats.get("num_device_free", 0),
        "collections": session.collections,
        "collection_ns": session.collection_ns,
    }


def held_now():
    seen = vramgc_held_bytes()
    return torch.cuda.memory_reserved() if seen is None else seen
