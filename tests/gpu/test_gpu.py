"""Tests of what tests/gpu is made of: the proof as cases, what a run of the lab must show, and the
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
run = script("run")

PROOF = """vramgc proof 1
result failed
driver 13.0 580.82.07
engine 1
name NVIDIA GeForce RTX 4090
memory 24564 MiB
form full
made 2026-11-23 by vramgc 0.1.0
check grain: passed, 7 us: granularity 2048 KiB
check soak lowvram: failed, 45000000 us: 3 words or uses were wrong
check context event: left out, 1 us: no
"""


class Proof(unittest.TestCase):
    def test_head_and_cases(self):
        head, cases = run.read_proof(PROOF)
        self.assertEqual((head["name"], head["result"]), ("NVIDIA GeForce RTX 4090", "failed"))
        self.assertEqual(
            [(case["case"], case["passed"]) for case in cases],
            [
                ("check grain", True),
                ("check soak lowvram", False),
                ("check context event", True),
            ],
        )


class Judgement(unittest.TestCase):
    GOOD = {"ok": True, "mode": "compact", "page_moves": 7, "device_errors": None}

    def wrong(self, mode="compact", simulated=False, **changes):
        return run.judge(self.GOOD | changes, mode, simulated)

    def test_passes(self):
        self.assertIsNone(self.wrong())
        self.assertIsNone(self.wrong(mode="off", page_moves=0))
        self.assertIsNone(self.wrong(simulated=True, device_errors=0))

    def test_another_mode_device_or_no_pages_do_not(self):
        for changes in ({"mode": "flush"}, {"page_moves": 0}, {"ok": False}, {"device_errors": 0}):
            found = self.GOOD | changes
            self.assertIsNotNone(run.judge(found, "compact", False), changes)

    def test_a_case_that_hangs_is_ended(self):
        done = run.run(["sh", "-c", "sleep 1000 & sleep 1000"], 0.1)
        self.assertEqual(run.last_line(done), "not over after 0.1 s")


class Results(unittest.TestCase):
    def test_each_case_is_written_at_once(self):
        results = run.Results({"name": "NVIDIA GeForce RTX 4090 (x)"}, False)
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(results.paths[0].name.endswith("-NVIDIA-GeForce-RTX-4090-x.json"))
            results.paths = [pathlib.Path(folder) / "deep" / "x.json"]
            for count in (1, 2):
                results.add([{"case": str(count), "passed": count == 1}])
                found = json.loads(results.paths[0].read_text(encoding="utf-8"))
                self.assertEqual(len(found["cases"]), count)
        self.assertEqual(results.failed(), ["2"])


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
import sys, soak
sys.argv += ["--seconds", "0", "--operations", "1"]
soaked = soak.Soak(soak.arguments())
soaked.capture()
soaked.finish()
print(soak.device_errors())
"""

    def says(self, code, expected, **env):
        venv = ROOT / "build/venv/bin/python"
        if not venv.exists():
            self.skipTest("no build/venv")
        words = [ROOT / "tests/on_card", "--", venv, "-B", "-c", code]
        done = subprocess.run(
            words,
            cwd=HERE,
            env=os.environ | env,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.stdout, done.returncode), (expected, 0), done.stderr)

    def test_one_wrong_byte_is_seen(self):
        self.says(self.WRONG_BYTE, "seen\n")

    def test_may_end_right_after_a_capture(self):
        for conf in ("", "backend:cudaMallocAsync"):
            self.says(self.NEW_GRAPH, "0\n", PYTORCH_CUDA_ALLOC_CONF=conf)


if __name__ == "__main__":
    unittest.main()
