"""A model's step fills the card beside weights of the real comfy-aimdo that are in use: they cannot be dropped, and nobody is to turn
them off. Prints one line of JSON, and ends at once: a tensor of the step could not be freed."""

import os

import torch

from names import MIB, report, say, take
from comfy_aimdo import control


def main():
    torch.cuda.init()
    assert control.init() and control.init_devices([0])
    from comfy_aimdo import model_vbar

    own = take(64)
    buffer = model_vbar.ModelVBAR(4000 * MIB, 0)
    in_use = [model_vbar.vbar_fault(buffer.alloc(32 * MIB)) for _ in range(4000 // 32)]
    graph = control.record(torch.cuda.current_stream())
    graph.push("step")
    kept = [own, take(1000), take(700)]
    try:
        kept.append(take(3000))
    except torch.OutOfMemoryError:
        verdict = report()["verdict"]
        told = " + DynamicVRAM's weights 3.9 GiB + " in verdict["sum"] and " + kept for a model's step " in verdict["sum"]
        right = "OUT OF MEMORY 1x" in verdict["what"] and verdict["cause"].startswith("The card is ")
        say("in use", all(in_use) and told and right and verdict["code"] == "full", verdict=verdict)
    os._exit(0)


if __name__ == "__main__":
    main()
