"""Results of runs on disk, so that an interrupted table goes on where it stopped.

A result is kept under all that it depends on: what was run, and a hash of the sources that decide
its outcome. Several processes may add to one file.
"""

import fcntl
import hashlib
import importlib.metadata
import json
import os
import pathlib
import threading

from runner import BUILD, ROOT

WORKLOADS = ("tests/lab/*.py", "tests/lab/workloads/*.py", "tests/sim/**/*", "scripts/simgpu", "tests/on_card")
NOT_RUN = {"demo.py", "table.py", "speed.py", "same.py", "default.py", "formulas.py", "cells.py", "store.py"}
NOT_RUN |= {"search.py", "lab.py", "survivor_rows.py"}
LIBRARY = ("src/**/*", "include/*", "Makefile")
PACKAGES = ("torch", "diffusers", "transformers", "peft")


def files(patterns):
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    kept = (path for path in found if path.is_file() and path.suffix not in (".md", ".bats"))
    return sorted(path for path in kept if decides(path))


def decides(path):
    """Whether what a run gives depends on this file."""
    return not (path.name in NOT_RUN or path.name.startswith("test_") or "pycache" in str(path))


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def source_hash(library):
    """Of the workloads, the simulated device and the packages, and of the library if it is used."""
    digest = hashlib.sha256(" ".join(map(version, PACKAGES)).encode())
    for path in files(WORKLOADS + (LIBRARY if library else ())):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class Store:
    """A dictionary of results in a JSON file. put is durable when it returns."""

    def __init__(self, path=BUILD / "lab" / "table.json", fresh=False):
        self.path = pathlib.Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.mutex = threading.Lock()
        self.results = {} if fresh else self.read()

    def read(self):
        try:
            return json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def get(self, key):
        with self.mutex:
            return self.results.get(key)

    def put(self, key, value):
        with self.mutex, open(f"{self.path}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.results[key] = value
            written = self.path.with_suffix(f".{os.getpid()}.tmp")
            everybodys = self.read() | self.results
            written.write_text(json.dumps(everybodys, indent=1), encoding="utf-8")
            written.replace(self.path)
