#!/usr/bin/env python3
"""A card of others: a process that leaves so many GiB of it free, until its standard input ends: ballast.py GIB"""

import sys

import torch

free = torch.cuda.mem_get_info()[0]
held = torch.empty(max(free - int(float(sys.argv[1]) * 2**30), 0), dtype=torch.uint8, device="cuda")
print("ballast:", free >> 20, "MiB were free,", torch.cuda.mem_get_info()[0] >> 20, "are", flush=True)
sys.stdin.read()
