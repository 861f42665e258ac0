"""What PyTorch says when memory is refused, which users paste: what is free and what the process has are no more than the card."""

import re

import torch

import device

TOTAL = torch.cuda.mem_get_info()[1]
UNITS = {"GiB": 1 << 30, "MiB": 1 << 20}
ROUNDED = 3 * (1 << 30) // 100  # sizes are told with two digits


def sizes(text):
    said = re.search(r"of which (\S+) (\S+) is free.*?this process has (\S+) (\S+) memory in use", text)
    return [float(number) * UNITS[unit] for number, unit in (said.groups()[:2], said.groups()[2:])]


def refuse(count):
    try:
        torch.empty(count, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        free, used = sizes(str(error))
        assert free + used <= TOTAL + ROUNDED, str(error)
        return
    raise AssertionError("not refused")


def give_up(count):
    idle = torch.empty(count, dtype=torch.uint8, device="cuda")
    del idle


device.require_library()
give_up(TOTAL // 4)
refuse(2 * TOTAL)  # which PyTorch refuses without asking the driver for it
live = torch.empty(TOTAL // 2, dtype=torch.uint8, device="cuda")
give_up(TOTAL // 8)
for _ in range(2):
    refuse(TOTAL // 2)
print("refused_text ok")
