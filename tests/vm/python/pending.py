"""Room for a block is made by one that only waits for another stream: nothing was refused, so cudaMemGetInfo tells no more than
what is there."""

import torch

import device

device.require_library()


def take(mebibytes):
    return torch.empty(mebibytes * device.MIB, dtype=torch.uint8, device="cuda")


def available():
    """What ComfyUI and Forge take for free, in MiB."""
    stats = torch.cuda.memory_stats()
    free = torch.cuda.mem_get_info()[0]
    return (free + stats["reserved_bytes.all.current"] - stats["active_bytes.all.current"]) // device.MIB


other = torch.cuda.Stream()
for round_ in range(3):
    take(250)  # given back at once: PyTorch keeps the addresses
    waiting = take(300)
    with torch.cuda.stream(other):
        waiting.fill_(1)
    waiting.record_stream(other)
    del waiting
    block = take(250)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    said = available()
    assert 250 <= said <= 512 - 250, f"round {round_}: {said} MiB said to be available beside 250 of 512"
    del block
assert torch.cuda.memory_stats()["num_ooms"] == 0
assert device.errors() == 0
print("pending ok")
