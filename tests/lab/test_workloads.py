"""Runs workloads on the simulated device and compares what they need with what measurements of
the same models found before. The figures are counts of bytes and so the same on every machine;
slow (15 s each), because PyTorch and diffusers are imported.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))

import runner

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = (
    "workload setting ok error live_peak_bytes held_peak_bytes held_rest_bytes "
    "held_over_live_mean held_over_live_weighted device_bytes retries ooms driver_calls page_moves page_calls "
    "reclaims reclaim_ns collections collection_ns seconds mode device_errors"
).split()
GIB = 1 << 30


RUNS = {
    "sd15": "sd15 --mem 80GiB",
    "sd15 seed": "sd15 --mem 80GiB --collect seed",
    "sd15 async": "sd15 --mem 80GiB --setting async",
    "sd15 observe": "sd15 --mem 80GiB --vramgc observe",
    "sd15 lowvram": "sd15 --mem 80GiB --vramgc auto --lowvram",
    "sdxl": "sdxl --mem 80GiB",
    "sdxl_offload": "sdxl_offload --mem 80GiB",
    "flux": "flux --mem 24GiB",
    "flux expandable": "flux --mem 24GiB --setting expandable",
    "flux auto": "flux --mem 24GiB --vramgc auto",
    "zimage": "zimage_by_model --mem 16GiB",
    "wan22 auto": "wan22_by_group --mem 12GiB --vramgc auto",
}
RESULTS = {}


def lab(words):
    """The figures and the exit status of scripts/lab, or what it said if there are no figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        done = subprocess.run(
            [ROOT / "scripts/lab", *words.split(), "--json", path],
            capture_output=True,
            text=True,
            check=False,
        )
        if not os.path.exists(path):
            return done.stderr, None
        with open(path, encoding="utf-8") as file:
            return json.load(file), done.returncode


def setUpModule():
    """All runs, two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        RESULTS.update(zip(RUNS, pool.map(lab, RUNS.values())))


def run(name):
    result, status = RESULTS[name]
    if status is None:
        raise AssertionError(result)
    return result, status


class Workloads(unittest.TestCase):
    def assert_mib(self, count, expected):
        """Within 0.3 %: the size of a LoRA's small tensors may change with peft's version, a
        model's may not."""
        self.assertAlmostEqual(count / (1 << 20), expected, delta=expected * 0.003)

    def test_sd15_with_pytorchs_defaults(self):
        result, status = run("sd15")
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
        result, _ = run("sd15 seed")
        self.assertEqual(result["collections"], 38)
        self.assertGreater(result["collection_ns"], 0)
        self.assertLess(result["held_rest_bytes"], 2600 << 20)

    def test_flux_with_a_lora_does_not_fit_24_gib_with_pytorchs_defaults(self):
        result, status = run("flux")
        self.assertEqual((result["ok"], status, result["ooms"]), (False, 1, 1))
        self.assertIn("out of memory", result["error"])
        self.assert_mib(result["live_peak_bytes"], 22344)

    def test_flux_fits_24_gib_with_expandable_segments(self):
        result, status = run("flux expandable")
        self.assertEqual((result["ok"], status), (True, 0))
        self.assert_mib(result["live_peak_bytes"], 23328)

    def test_sdxl_loads_fuses_and_unloads_a_lora(self):
        result, _ = run("sdxl")
        self.assertTrue(result["ok"])
        self.assert_mib(result["live_peak_bytes"], 12200)
        self.assert_mib(result["held_peak_bytes"], 19014)

    def test_sdxl_with_its_parts_moved_in_turn(self):
        result, _ = run("sdxl_offload")
        self.assertTrue(result["ok"])
        self.assert_mib(result["live_peak_bytes"], 5612)
        self.assert_mib(result["held_peak_bytes"], 6262)
        self.assertLess(result["held_rest_bytes"], result["held_peak_bytes"])

    def test_observing_changes_nothing(self):
        plain, _ = run("sd15")
        observed, status = run("sd15 observe")
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
        collected, _ = run("sd15 seed")
        result, status = run("sd15 lowvram")
        self.assertEqual((result["ok"], status, result["collections"]), (True, 0, 0))
        self.assertLessEqual(result["held_rest_bytes"], collected["held_rest_bytes"])
        self.assertGreater(result["reclaims"], 0)

    def test_flux_with_a_lora_completes_on_24_gib_under_vramgc(self):
        result, status = run("flux auto")
        self.assertEqual((result["ok"], status, result["ooms"]), (True, 0, 0))

    def test_zimage_part_by_part(self):
        result, status = run("zimage")
        self.assertEqual((result["ok"], status, result["ooms"]), (True, 0, 0))
        self.assert_mib(result["live_peak_bytes"], 12833)

    def test_wan22_block_by_block_under_vramgc(self):
        result, status = run("wan22 auto")
        self.assertEqual((result["ok"], status, result["device_errors"]), (True, 0, 0))
        self.assertEqual(result["retries"], 0)

    def test_stream_ordered_allocator(self):
        result, status = run("sd15 async")
        self.assertEqual((result["ok"], status, result["held_over_live_mean"]), (True, 0, None))


class OverTime(unittest.TestCase):
    """What scripts/lab --default measures, without the library."""

    @classmethod
    def setUpClass(cls):
        with runner.Warm(runner.Kind()) as warm:
            cls.loop = warm.run("loop", 8 * GIB, pauses=True)
            cls.survivors = warm.run("survivors", 24 * GIB, pauses=True)

    def test_what_is_given_up_is_gone(self):
        self.assertEqual((self.loop["held_after_bytes"], self.loop["held_end_bytes"]), (0, 0))
        self.assertEqual(self.loop["live_peak_bytes"] >> 20, 4916)
        held_over_live = self.loop["held_average_bytes"] / self.loop["live_average_bytes"]
        self.assertAlmostEqual(held_over_live, 1.5, delta=0.2)  # 0.15 s cached after 0.3 s live
        self.assertEqual(self.loop["unneeded_above_seconds"], 0)

    def test_survivors_keep_segments(self):
        blocks = {name: note["blocks"] for name, note in self.survivors["notes"].items()}
        self.assertEqual((blocks["64+36+1.5"], blocks["8+1.5"]), (48, 28))
        note = self.survivors["notes"]["64+36+1.5"]
        self.assertEqual((note["held_bytes"] >> 20, note["live_bytes"] >> 20), (320, 307))


class WarmProcesses(unittest.TestCase):
    """Processes that fork for each run give what fresh ones give."""

    def assert_same(self, kind, name, keys):
        fresh, _ = run(name)
        with runner.Warm(kind) as warm:
            for _ in range(2):
                found = warm.run("sd15", 80 * GIB, events=kind.vramgc == "off")
                for key in keys:
                    self.assertEqual(found[key], fresh[key], key)
            self.assertEqual((found["refused"], found["device_errors"]), (0, 0))
            with self.assertRaisesRegex(runner.Failure, "sd16.*status 1"):
                warm.run("sd16", 80 * GIB)

    def test_without_the_library(self):
        keys = "live_peak_bytes held_peak_bytes held_rest_bytes held_over_live_mean driver_calls"
        self.assert_same(runner.Kind(), "sd15", keys.split())

    def test_with_it(self):
        keys = "live_peak_bytes held_peak_bytes held_rest_bytes driver_calls reclaims"
        self.assert_same(runner.Kind(vramgc="observe"), "sd15 observe", keys.split())


if __name__ == "__main__":
    unittest.main()
