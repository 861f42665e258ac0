#!/usr/bin/env python3
"""Prints where the running interpreter finds PyTorch, without importing it (that would need the
device): folder, version and CUDA major, one a line. Exit status 1 without a PyTorch that uses CUDA."""
import importlib.util
import pathlib
import re
import sys


def main():
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return 1
    folder = pathlib.Path(spec.submodule_search_locations[0])
    text = (folder / "version.py").read_text(encoding="utf-8")
    version = re.search(r"__version__\s*=\s*'([^']+)'", text)
    major = re.search(r"cuda\b[^=\n]*=\s*'(\d+)\.", text)
    if version is None or major is None:
        return 1
    print(folder, version.group(1), major.group(1), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
