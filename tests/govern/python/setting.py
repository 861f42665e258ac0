"""Which setting PyTorch's allocator ends up with. With --before the program chooses before it imports torch, as SD.Next does;
with --after when torch is there and CUDA is not yet used; with --restart it starts itself again by execv first.
"""

import argparse
import json
import os
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--before", metavar="SETTING")
parser.add_argument("--after", metavar="SETTING")
parser.add_argument(
    "--available", action="store_true", help="ask torch.cuda.is_available() before --after"
)
parser.add_argument("--restart", action="store_true")
arguments = parser.parse_args()

if arguments.before:
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", arguments.before)

import torch  # noqa: E402

if arguments.available:
    torch.cuda.is_available()
if arguments.after:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = arguments.after
keep = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
if arguments.restart:
    os.execv(sys.executable, [sys.executable, __file__])
print(
    json.dumps(
        {
            "expandable": torch.cuda.memory_snapshot()[0]["is_expandable"],
            "environment": os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
        }
    )
)
