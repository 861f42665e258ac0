"""A library call on memory that was freed under it is an error, as on a card: run under scripts/simgpu with what to call,
"product", "linear" or "convolution". Exit status 0 when PyTorch reports the illegal access."""
import ctypes
import sys

import torch

CALLS = {
    "product": lambda x: torch.bmm(x.view(1, 1024, 1024), x.view(1, 1024, 1024)),
    "linear": lambda x: torch.nn.functional.linear(x, x, x[0]),
    "convolution": lambda x: torch.nn.functional.conv2d(x.view(1, 16, 256, 256), x[:3].reshape(-1)[:2304].view(16, 16, 3, 3)),
}


def free_behind_pytorch(tensor):
    """What PyTorch would never do: its segment goes back to the driver while a tensor lies in it."""
    runtime = ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0])
    segment = next(s for s in torch.cuda.memory_snapshot() if 0 <= tensor.data_ptr() - s["address"] < s["total_size"])
    assert runtime.cudaFree(ctypes.c_void_p(segment["address"])) == 0


def main(call):
    with torch.no_grad():
        tensor = torch.empty(1024, 1024, device="cuda", dtype=torch.half)
        call(tensor)
        torch.cuda.synchronize()
        # A reserve of its own, so that results come from memory that is still there.
        reserve = torch.empty(64 << 20, device="cuda", dtype=torch.uint8)
        del reserve
        free_behind_pytorch(tensor)
        try:
            call(tensor)
            torch.cuda.synchronize()
        except RuntimeError as error:
            return 0 if "illegal memory access" in str(error) else f"another error: {error}"
    return "no error"


if __name__ == "__main__":
    sys.exit(main(CALLS[sys.argv[1]]))
