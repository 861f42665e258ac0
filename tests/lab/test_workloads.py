"""Runs workloads on the simulated device and compares what they need with what measurements of
the same models found before. The figures are counts of bytes and so the same on every machine;
slow (15 s each), because PyTorch and diffusers are imported.
"""

import functools
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = (
    "workload setting ok error live_peak_bytes held_peak_bytes held_rest_bytes "
    "held_over_live_mean device_bytes retries ooms driver_calls reclaims reclaim_ns "
    "collections collection_ns seconds"
).split()
GIB = 1 << 30


@functools.cache
def run(*words):
    """The figures and the exit status of scripts/lab; the same words are run once."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        done = subprocess.run(
            [ROOT / "scripts/lab", *words, "--json", path],
            capture_output=True,
            text=True,
            check=False,
        )
        if not os.path.exists(path):
            raise AssertionError(done.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file), done.returncode


class Workloads(unittest.TestCase):
    def assert_mib(self, count, expected):
        """Within 0.3 %: the size of a LoRA's small tensors may change with peft's version, a
        model's may not."""
        self.assertAlmostEqual(count / (1 << 20), expected, delta=expected * 0.003)

    def test_sd15_with_pytorchs_defaults(self):
        result, status = run("sd15", "--mem", "80GiB")
        self.assertEqual((list(result), status), (KEYS, 0))
        self.assertEqual(
            (result["workload"], result["setting"], result["ok"]), ("sd15", "default", True)
        )
        self.assertEqual(result["device_bytes"], 80 * GIB)
        self.assert_mib(result["live_peak_bytes"], 5733)
        self.assert_mib(result["held_peak_bytes"], 9196)
        self.assertEqual(result["held_rest_bytes"], result["held_peak_bytes"])
        self.assertGreater(result["held_over_live_mean"], 1)
        self.assertEqual((result["collections"], result["reclaims"]), (0, 0))

    def test_sd15_with_the_seeds_collection(self):
        result, _ = run("sd15", "--mem", "80GiB", "--collect", "seed")
        self.assertEqual(result["collections"], 38)
        self.assertGreater(result["collection_ns"], 0)
        self.assertLess(result["held_rest_bytes"], 2600 << 20)

    def test_flux_with_a_lora_does_not_fit_24_gib_with_pytorchs_defaults(self):
        result, status = run("flux", "--mem", "24GiB")
        self.assertEqual((result["ok"], status, result["ooms"]), (False, 1, 1))
        self.assertIn("out of memory", result["error"])
        self.assert_mib(result["live_peak_bytes"], 22344)

    def test_flux_fits_24_gib_with_expandable_segments(self):
        result, status = run("flux", "--mem", "24GiB", "--setting", "expandable")
        self.assertEqual((result["ok"], status), (True, 0))
        self.assert_mib(result["live_peak_bytes"], 23328)

    def test_sdxl_loads_fuses_and_unloads_a_lora(self):
        result, _ = run("sdxl", "--mem", "80GiB")
        self.assertTrue(result["ok"])
        self.assert_mib(result["live_peak_bytes"], 12200)
        self.assert_mib(result["held_peak_bytes"], 19014)

    def test_observing_changes_nothing(self):
        plain, _ = run("sd15", "--mem", "80GiB")
        observed, status = run("sd15", "--mem", "80GiB", "--vramgc", "observe")
        self.assertEqual((list(observed), status), (KEYS, 0))
        for key in (
            "live_peak_bytes",
            "held_peak_bytes",
            "held_rest_bytes",
            "retries",
            "ooms",
            "reclaims",
        ):
            self.assertEqual(observed[key], plain[key], key)
        # PyTorch's trace has the sizes that were asked for, vramgc those of the blocks.
        self.assertAlmostEqual(
            observed["held_over_live_mean"] / plain["held_over_live_mean"], 1, delta=0.02
        )

    def test_lowvram_holds_no_more_at_rest_than_the_seeds_collection(self):
        collected, _ = run("sd15", "--mem", "80GiB", "--collect", "seed")
        result, status = run("sd15", "--mem", "80GiB", "--vramgc", "auto", "--lowvram")
        self.assertEqual((result["ok"], status, result["collections"]), (True, 0, 0))
        self.assertLessEqual(result["held_rest_bytes"], collected["held_rest_bytes"])
        self.assertGreater(result["reclaims"], 0)

    def test_flux_with_a_lora_completes_on_24_gib_under_vramgc(self):
        result, status = run("flux", "--mem", "24GiB", "--vramgc", "auto")
        self.assertEqual((result["ok"], status, result["ooms"]), (True, 0, 0))

    def test_stream_ordered_allocator(self):
        result, status = run("sd15", "--mem", "80GiB", "--setting", "async")
        self.assertEqual((result["ok"], status, result["held_over_live_mean"]), (True, 0, None))


if __name__ == "__main__":
    unittest.main()
