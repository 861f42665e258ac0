"""Tests of the lab's own logic, without PyTorch or a device: python3 -m unittest discover
tests/lab."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))

import demo
import events
import lab
import sizes

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20


def event(action, size):
    return {"action": action, "size": size}


class Sizes(unittest.TestCase):
    def test_units_are_binary(self):
        for text, expected in (
            ("24GiB", 24 << 30),
            ("24G", 24 << 30),
            ("512MiB", 512 << 20),
            ("1.5k", 1536),
            ("7", 7),
        ):
            self.assertEqual(sizes.parse(text), expected)

    def test_anything_else_is_refused_with_the_text_in_the_message(self):
        for text in ("", "2x", "-1GiB", "GiB", "1 2", "1e9"):
            with self.assertRaisesRegex(ValueError, f"'{text}'"):
                sizes.parse(text)


class Mean(unittest.TestCase):
    def test_mean_over_block_events_only(self):
        trace = [
            event("segment_alloc", 20 * MIB),
            event("alloc", 10 * MIB),  # 20 / 10
            event("alloc", 10 * MIB),  # 20 / 20
            event("free_requested", 10 * MIB),  # 20 / 10
            event("free_completed", 10 * MIB),
        ]
        self.assertAlmostEqual(events.mean_over_events(trace), (2 + 1 + 2) / 3)

    def test_expandable_segments_count_their_mapped_pages(self):
        trace = [
            event("segment_map", 40 * MIB),
            event("segment_unmap", 20 * MIB),
            event("alloc", 10 * MIB),
        ]
        self.assertEqual(events.mean_over_events(trace), 2)

    def test_events_with_hardly_anything_live_do_not_count(self):
        self.assertIsNone(
            events.mean_over_events([event("segment_alloc", 2 * MIB), event("alloc", 512)])
        )


class Search(unittest.TestCase):
    def test_finds_the_smallest_step(self):
        for answer in range(1, 40):
            self.assertEqual(lab.search(lambda step, answer=answer: step >= answer, 0, 40), answer)


def run(live, ok=True, held=9000 * MIB, ooms=0):
    return {
        "ok": ok,
        "ooms": ooms,
        "error": None,
        "context_bytes": 256 * MIB,
        "live_peak_bytes": live,
        "held_peak_bytes": held,
    }


class Smallest(unittest.TestCase):
    def smallest(self, need_bytes, *words, unrefused_bytes=0):
        """The search where the workload needs need_bytes beside the context, and unrefused_bytes to
        have no request refused."""
        args = lab.arguments(["sd15", "--smallest", *words])
        seen = []

        def measure(_args, device_bytes):
            seen.append(device_bytes)
            plenty = device_bytes >= 80 << 30
            live = 5733 * MIB if plenty else 5000 * MIB
            room = device_bytes - 256 * MIB
            return run(live, room >= need_bytes, ooms=room < unrefused_bytes)

        before, lab.measure = lab.measure, measure
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                return lab.smallest(args, 80 << 30), seen
        finally:
            lab.measure = before

    def test_in_steps_of_32_mib_beside_the_context(self):
        found, seen = self.smallest(7150 * MIB)
        self.assertEqual(found["smallest_bytes"], 7168 * MIB)
        self.assertEqual(found["live_peak_bytes"], 5733 * MIB)
        self.assertEqual(found["ratio"], 1.2503)
        self.assertTrue(all((size - 256 * MIB) % (32 * MIB) == 0 for size in seen[1:]))

    def test_outside_the_first_bounds(self):
        self.assertEqual(self.smallest(3000 * MIB)[0]["smallest_bytes"], 3008 * MIB)
        self.assertEqual(self.smallest(9990 * MIB)[0]["smallest_bytes"], 9984 * MIB + 32 * MIB)

    def test_a_refused_request_counts_only_on_request(self):
        needs = (5500 * MIB, 7150 * MIB)
        self.assertEqual(
            self.smallest(needs[0], unrefused_bytes=needs[1])[0]["smallest_bytes"], 5504 * MIB
        )
        self.assertEqual(
            self.smallest(needs[0], "--no-refusals", unrefused_bytes=needs[1])[0]["smallest_bytes"],
            7168 * MIB,
        )

    def test_a_workload_that_never_completes_is_an_error(self):
        with self.assertRaises(lab.Failure):
            self.smallest(100 << 30)


class Environment(unittest.TestCase):
    def environment(self, words):
        args = lab.arguments(["sd15"] + words)
        return lab.environment(args) | lab.vramgc_environment(args, "x.vramgc")

    def test_the_setting_replaces_the_users_own(self):
        os.environ["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:64"
        try:
            self.assertNotIn("PYTORCH_ALLOC_CONF", self.environment([]))
            self.assertNotIn("PYTORCH_CUDA_ALLOC_CONF", self.environment([]))
            chosen = self.environment(["--setting", "sdnext"])["PYTORCH_CUDA_ALLOC_CONF"]
        finally:
            del os.environ["PYTORCH_ALLOC_CONF"]
        self.assertEqual(chosen, "garbage_collection_threshold:0.80,max_split_size_mb:512")

    def test_observing_leaves_the_allocators_setting_alone(self):
        self.assertEqual(self.environment(["--vramgc", "observe"])["VRAMGC_ALLOC_CONF"], "keep")
        self.assertNotIn("VRAMGC_ALLOC_CONF", self.environment(["--vramgc", "auto"]))

    def test_lowvram(self):
        self.assertEqual(self.environment(["--vramgc", "auto", "--lowvram"])["VRAMGC_LOWVRAM"], "1")


def figures(ok=True):
    """What scripts/lab --json would write."""
    result = dict.fromkeys(lab.KEYS, 0)
    return result | {
        "ok": ok,
        "error": None if ok else "CUDA out of memory.",
        "held_over_live_mean": None,
    }


class Demo(unittest.TestCase):
    def results(self, **failed):
        return {
            case.name: figures(
                failed.get(case.name.replace("-", "_"), case is not demo.FLUX_WITHOUT)
            )
            for case in demo.CASES
        }

    def test_nothing_to_complain_of_when_all_went_as_expected(self):
        self.assertEqual(demo.complaints(self.results()), [])

    def test_an_unexpected_outcome_is_told(self):
        self.assertEqual(len(demo.complaints(self.results(sd15_with=False))), 1)
        self.assertEqual(len(demo.complaints(self.results(flux_with=False))), 1)
        self.assertEqual(len(demo.complaints(self.results(flux_without=True))), 1)

    def test_the_table_has_both_runs_beside_each_other(self):
        left = figures() | {"held_peak_bytes": 9196 * MIB, "held_over_live_mean": 3.257}
        lines = demo.table(
            left, figures() | {"held_peak_bytes": 6316 * MIB, "reclaims": 2}
        ).splitlines()
        self.assertRegex(lines[2], r"held from the driver, at most +9,196 MiB +6,316 MiB$")
        self.assertRegex(lines[4], r"mean over all blocks +3.26 +-$")
        self.assertRegex(lines[5], r"reclaims +0 +2$")

    def test_only_sd15_goes_to_the_gpu(self):
        self.assertNotIn("--mem", demo.command(demo.SD15_WITH, on_gpu=True))
        self.assertIn("12GiB", demo.command(demo.SD15_WITH, on_gpu=False))
        self.assertIn("24GiB", demo.command(demo.FLUX_WITH, on_gpu=True))


class BadInput(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run(
            [sys.executable, ROOT / "tests/lab/lab.py", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 2)
        return done.stderr.splitlines()[-1]

    def test_one_line_names_what_is_wrong(self):
        self.assertIn("sd16", self.refused("sd16"))
        self.assertIn("'2x' is not a size", self.refused("sd15", "--mem", "2x"))
        self.assertIn("--lowvram", self.refused("sd15", "--lowvram"))


if __name__ == "__main__":
    unittest.main()
