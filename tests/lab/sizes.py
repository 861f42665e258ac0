"""Sizes as people write them."""

import re

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse(text):
    """Bytes from 24GiB, 24G, 512MiB or a plain number; ValueError with one clear line otherwise."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:iB|B)?\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"'{text}' is not a size such as 24GiB or 512MiB")
    return int(float(match[1]) * UNITS[match[2].upper()])


def show(count):
    return f"{count / (1 << 20):,.0f} MiB"
