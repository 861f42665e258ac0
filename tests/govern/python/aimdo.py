"""Beside the real comfy-aimdo: a step of a model in aimdo's own graph, whose tensors count once, beside weights. Prints one line of
JSON for each check."""

import ctypes

import torch

import vramgc_api
from names import MIB, functions_are_named, is_said, record, say, take
from comfy_aimdo import control

CONTEXT_BYTES = 256 * MIB
driver = ctypes.CDLL("libcuda.so.1")
driver.simgpu_used_bytes.restype = ctypes.c_uint64
apart = []


def compare():
    """What the process holds, by the device's own books and by vramgc's, is the same within 2 MiB: once vramgc's thread has asked
    the driver's pool what it keeps beside the tensors."""
    torch.cuda.synchronize()
    used = driver.simgpu_used_bytes(0) - CONTEXT_BYTES

    def held():
        return vramgc_api.snapshot().held_bytes

    if not apart and not is_said(lambda: abs(used - held()) <= 2 * MIB):
        apart.append((used // MIB, held() // MIB))


def step(graph, kept=()):
    graph.push("step")
    image = [take(11) for _ in range(12)]
    for block in range(6):
        graph.iterate("block")
        hidden = take(90 + 30 * (block % 3))
        heads = [take(24 + 7 * k) for k in range(3)]
        compare()
        del heads
        wide = take(210)
        compare()
        del hidden, wide
    graph.iterate(None)
    wide = take(300)
    compare()
    del wide, image
    graph.pop()
    compare()


def weights(mib, after_each=compare):
    """Weights that aimdo may take away. It looks for its library once."""
    from comfy_aimdo import model_vbar

    buffer = model_vbar.ModelVBAR(mib * MIB, 0)
    for _ in range(mib // 32):
        part = buffer.alloc(32 * MIB)
        if model_vbar.vbar_fault(part) is not None:
            model_vbar.vbar_unpin(part)
        after_each()
    return buffer


def main():
    torch.cuda.init()
    assert control.init() and control.init_devices([0])
    own = take(640)
    functions_are_named()
    compare()
    buffer = weights(1024)
    graph = control.record(torch.cuda.current_stream())
    for _ in range(4):
        step(graph)
    say("sums", not apart and graph.physical_bytes > 0, apart=apart)
    stats = record()["devices"][0]
    say("live", stats["live_bytes"]["peak"] > own.nbytes + 450 * MIB, stats=stats["live_bytes"])
    del graph
    compare()
    buffer.close()
    compare()
    last = record()["devices"][0]
    say("given back", not apart and last["other_bytes"]["current"] == 0, apart=apart, others=last["other_bytes"])


if __name__ == "__main__":
    main()
