"""Tests of what tests/gpu is made of: the costs as a table and as a row, names of results, the
soak's eye for a wrong byte. Run from the top: python3 -m unittest tests/gpu/test_gpu.py."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def script(name):
    """The module in a script without a suffix."""
    loader = importlib.machinery.SourceFileLoader(f"gpu_{name}", str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
costs, run = script("costs"), script("run")


def figures(**changes):
    """What the program writes: 2 MiB cost 1000 ns, each further MiB 10 ns, each further handle 5."""
    calls = []
    for name in costs.MAPPED + ("cuMemAlloc", "cuMemFree"):
        for mib in (2, 8, 32, 128):
            calls.append((name, mib, 1, 1000 + 10 * (mib - 2)))
    calls += [(name, 2, 64, 1000 + 63 * 5) for name in ("cuMemSetAccess", "cuMemUnmap")]
    calls += [(name, 0, 1, 70) for name in ("cuEventRecord", "cuEventQuery", "cuMemGetInfo")]
    head = {"card": "Card X", "date": "2026-11-21", "simulated": False}
    head |= {"driver": "570.1", "cuda": "12.8"}
    keys = ("call", "mib", "handles", "median_ns")
    listed = [dict(zip(keys, call)) | {"busy": False, "p99_ns": 2000} for call in calls]
    return head | {"calls": listed} | changes


class Costs(unittest.TestCase):
    def test_table_says_that_it_is_simulated(self):
        self.assertNotIn("SIMULATED", costs.table(figures()))
        self.assertIn("(SIMULATED)", costs.table(figures(simulated=True)))

    def test_kept_figures_are_read_alone_and_inside_of_results(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            for found in (figures(), {"soak": [], "costs": figures()}):
                file.seek(0)
                file.truncate()
                json.dump(found, file)
                file.flush()
                self.assertEqual(costs.read(file.name), figures())

    def test_missing_figures_are_one_line(self):
        done = subprocess.run(
            [HERE / "costs", "--from", "/nowhere"], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))


class Results(unittest.TestCase):
    def test_name_of_the_file(self):
        known = {"date": "2026-11-21", "card": "NVIDIA GeForce RTX 4090 (x)"}
        self.assertEqual(run.result_path(known), "2026-11-21-NVIDIA-GeForce-RTX-4090-x.json")

    def test_what_did_not_pass_counts_and_what_did_not_run_does_not(self):
        self.assertEqual(run.failed([{"passed": True}, {"passed": False}]), [{"passed": False}])
        self.assertEqual(run.failed({"not_run": "no diffusers"}), [])


class Soak(unittest.TestCase):
    """On the simulated device, where the Python environment is there."""

    WRONG_BYTE = """
import soak, torch
patterns = soak.Patterns()
tensor = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
patterns.write(tensor, 7)
assert patterns.holds(tensor, 7) and not patterns.holds(tensor, 8)
tensor[-1:].copy_(torch.tensor([8], dtype=torch.uint8))
assert not patterns.holds(tensor, 7)
print("seen")
"""
    NEW_GRAPH = """
import soak
soaked = soak.Soak(soak.arguments())
soaked.capture()
soaked.finish()
print(soak.device_errors())
"""

    def says(self, code, expected, **env):
        python = ROOT / "build/venv/bin/python"
        if not python.exists():
            self.skipTest("no build/venv")
        words = [ROOT / "scripts/simgpu", "--", python, "-c", code]
        done = subprocess.run(
            words, cwd=HERE, env=os.environ | env, capture_output=True, text=True, check=False
        )
        self.assertEqual((done.stdout, done.returncode), (expected, 0), done.stderr)

    def test_one_wrong_byte_is_seen(self):
        self.says(self.WRONG_BYTE, "seen\n")

    def test_may_end_right_after_a_capture(self):
        for conf in ("", "backend:cudaMallocAsync"):
            self.says(self.NEW_GRAPH, "0\n", PYTORCH_CUDA_ALLOC_CONF=conf)


if __name__ == "__main__":
    unittest.main()
