"""Tests of the lab's own logic, without PyTorch or a device: python3 -m unittest discover
tests/lab."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.dirname(__file__))

import cells
import demo
import events
import lab
import runner
import same
import search
import sizes
import speed
import store
import table

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
        mean, weighted = events.held_over_live(trace)
        self.assertAlmostEqual(mean, (2 + 1 + 2) / 3)
        self.assertAlmostEqual(weighted, 60 / 40)

    def test_expandable_segments_count_their_mapped_pages(self):
        trace = [
            event("segment_map", 40 * MIB),
            event("segment_unmap", 20 * MIB),
            event("alloc", 10 * MIB),
        ]
        self.assertEqual(events.held_over_live(trace), (2, 2))

    def test_events_with_hardly_anything_live_do_not_count(self):
        trace = [event("segment_alloc", 2 * MIB), event("alloc", 512)]
        self.assertEqual(events.held_over_live(trace), (None, None))


class Search(unittest.TestCase):
    def trials(self, answer, first, gap=None):
        asked = []

        def fits(step):
            asked.append(step)
            return step >= answer

        self.assertEqual(search.smallest(fits, first, gap), answer)
        self.assertEqual(len(asked), len(set(asked)))  # none is asked for twice
        return asked

    def test_finds_the_smallest_step_from_anywhere(self):
        for answer in range(1, 200):
            for first in (1, 2, 50, 100, 199):
                self.trials(answer, first)

    def test_looks_near_the_first_guess_first(self):
        self.assertEqual(self.trials(730, 730), [730, 729])
        self.assertEqual(self.trials(735, 730)[:2], [730, 737])
        self.assertEqual(self.trials(731, 730, gap=1), [730, 731])
        self.assertLess(len(self.trials(1000, 730)), 16)

    def test_what_never_fits_ends(self):
        with self.assertRaises(ValueError):
            search.smallest(lambda step: False, 10)


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


def result(**figures):
    """What a run of a Warm gives."""
    base = {
        "ok": True,
        "error": None,
        "mode": "compact",
        "context_bytes": 256 * MIB,
        "live_peak_bytes": 5733 * MIB,
        "live_rest_bytes": 2000 * MIB,
        "held_rest_bytes": 2100 * MIB,
        "held_over_live_mean": 1.25,
        "held_over_live_weighted": 1.2,
        "retries": 0,
        "refused": 0,
        "emptied": 0,
        "held_peak_bytes": 9000 * MIB,
        "device_errors": 0,
        "seconds": 2.0,
        "cpu_seconds": 1.0,
        "latency_seconds": 0.5,
        "same": {"outputs": ["a"], "contents": "c", "counters": {"n": 1}},
    }
    return base | figures


class Device:
    """Stands for runner.Warm: completes from so many bytes beside the context on, and refuses
    requests below unrefused_bytes."""

    def __init__(self, kind, need_bytes, unrefused_bytes=0):
        self.kind, self.need, self.unrefused = kind, need_bytes, unrefused_bytes
        self.seen = []

    def run(self, workload, mem_bytes, **what):
        self.seen.append(mem_bytes)
        room = mem_bytes - 256 * MIB
        return result(ok=room >= self.need, error="oom", refused=int(room < self.unrefused))

    def close(self):
        pass


class MemoryTable(unittest.TestCase):
    def asked(self, latency):
        """What each run is asked for, and the names under which results are kept."""
        kept, asked = {}, []
        kept_as = types.SimpleNamespace(get=kept.get, put=kept.__setitem__)
        runs = table.Runs(runner.Kind(), kept_as, latency)
        runs.make = lambda workload, mem_bytes, what: asked.append(what) or result()
        with contextlib.redirect_stderr(io.StringIO()):
            table.search_smallest(runs, "sd15", cells.plenty(runs, "sd15"))
        return asked, set(kept)

    def test_its_runs_lag_if_told(self):
        plain, names = self.asked("none")
        lagging, others = self.asked("card")
        self.assertFalse(any("latency" in what for what in plain))
        self.assertTrue(all(what["latency"] == "card" for what in lagging))
        self.assertFalse(names & others)


class Cells(unittest.TestCase):
    def smallest(self, need_mib, unrefused_mib=0, hint=None):
        device = Device(runner.Kind(), need_mib * MIB, unrefused_mib * MIB)
        return cells.smallest(device.run, "sd15", result(), hint), device.seen

    def test_smallest_is_where_nothing_is_refused(self):
        found, seen = self.smallest(5000, 5800)
        self.assertEqual(found["smallest_bytes"], 5824 * MIB)
        self.assertEqual(found["smallest_over_live"], 1.0159)
        self.assertEqual(seen[0], (5760 + 256) * MIB)
        self.assertLess(len(seen), 8)

    def test_a_hint_saves_trials(self):
        found, seen = self.smallest(7150, hint=224)
        self.assertEqual((found["smallest_bytes"], len(set(seen))), (7168 * MIB, 2))

    def test_rest(self):
        self.assertEqual(cells.rest(result())["rest_held_over_live"], 1.05)
        self.assertIsNone(cells.rest(result(live_rest_bytes=512))["rest_held_over_live"])
        self.assertEqual(cells.rest(result())["weighted_held_over_live"], 1.2)
        self.assertIsNone(cells.rest(result(held_over_live_mean=None))["mean_held_over_live"])

    def test_what_misses_a_target_is_named(self):
        side = {"smallest_bytes": 100, "smallest_over_live": 1.02, "retries": 0}
        side |= {"rest_held_over_live": 1.03, "mean_held_over_live": 1.1, "device_errors": 0}
        row = {"workload": "sd15", "setting": "default", "with": side, "without": {}}
        self.assertEqual(cells.missed(row, 100), [])
        worse = {"smallest_over_live": 1.021, "retries": 1, "rest_held_over_live": 1.031}
        worse |= {"mean_held_over_live": 1.11, "device_errors": 1}
        for key, value in worse.items():
            self.assertEqual(len(cells.missed(row | {"with": side | {key: value}}, 100)), 1, key)
        self.assertEqual(len(cells.missed(row, 99)), 1)


class Table(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.made = []
        before = table.Warm
        table.Warm = self.warm
        self.addCleanup(setattr, table, "Warm", before)

    def warm(self, kind):
        need = {"off": 6000, "auto": 5733}[kind.vramgc]
        self.made.append(Device(kind, need * MIB))
        return self.made[-1]

    def part(self, *words, fresh=False):
        args = table.arguments(["--table", "--workloads", "sd15,flux", "--jobs", "1", *words])
        kept = store.Store(f"{self.folder.name}/table.json", fresh)
        with contextlib.redirect_stderr(io.StringIO()):
            return table.memory_part(args, kept)

    def test_rows_have_both_sides(self):
        found = self.part("--settings", "default,async")
        names = [(row["workload"], row["setting"]) for row in found["rows"]]
        self.assertEqual(names[:2], [("sd15", "default"), ("sd15", "async")])
        row = found["rows"][0]
        self.assertEqual(row["without"]["smallest_over_live"], 1.0494)
        self.assertEqual(row["with"]["smallest_over_live"], 1.0047)
        self.assertIn("1.049", found["text"])
        text = self.part("--settings", "default,async", "--markdown")["text"]
        self.assertIn("\n| sd15 | 1.049 → 1.005 | 1.049 → 1.005 |\n", text)
        self.assertIn("\n| flux | 1.05 → 1.05 | 1.05 → 1.05 |", text)
        # at rest 1.05 and in the mean 1.25 in each of four rows
        self.assertEqual(len(found["missed"]), 8)

    def test_an_interrupted_table_goes_on(self):
        first = self.part("--settings", "default")
        runs = sum(len(device.seen) for device in self.made)
        self.assertGreater(runs, 10)
        self.made.clear()
        self.assertEqual(self.part("--settings", "default")["rows"], first["rows"])
        self.assertEqual(self.made, [])  # no process was needed at all
        self.part("--settings", "default", fresh=True)
        self.assertGreater(sum(len(device.seen) for device in self.made), 10)

    def test_other_sources_are_run_anew_but_start_near_the_answer(self):
        self.part("--settings", "default", "--only", "smallest")
        before = table.source_hash
        self.addCleanup(setattr, table, "source_hash", before)
        table.source_hash = lambda library: "other" if library else before(library)
        self.made.clear()
        self.part("--settings", "default", "--only", "smallest")
        self.assertEqual([len(device.seen) for device in self.made], [4])  # two for each workload

    def test_the_hash_follows_the_sources(self):
        self.assertNotEqual(store.source_hash(True), store.source_hash(False))
        names = {path.name for path in store.files(store.WORKLOADS + store.LIBRARY)}
        self.assertTrue({"sd15.py", "run.py", "alloc.c", "heap.c", "simgpu"} <= names)
        self.assertFalse({"table.py", "README.md", "test_lab.py"} & names)

    def test_words_choose_table_or_single_run(self):
        self.assertTrue(lab.table_wanted(["--table"]))
        self.assertTrue(lab.table_wanted(["--smallest"]))
        self.assertTrue(lab.table_wanted(["--smallest", "--workloads", "sd15"]))
        self.assertFalse(lab.table_wanted(["--smallest", "sd15"]))

    def test_wrong_words_are_refused(self):
        for words in (["--workloads", "sd16"], ["--settings", "x"], ["--jobs", "0"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                table.arguments(["--table", *words])


class Speed(unittest.TestCase):
    def rows(self, left, right, rounds=3):
        """left, right: functions of the run's number that give a result."""
        args = table.arguments(["--speed", "--rounds", str(rounds)])
        order = []

        def side(name, give):
            def run(workload, mem_bytes, number=None, **what):
                order.append(name)
                return result() if number is None else give(number)

            run.kind = runner.Kind()
            return run

        found = speed.row(args, side("A", left), side("B", right), "sd15", True)
        return found, "".join(order[1:])  # the first is where memory is plentiful

    def test_pairs_alternate_and_ratios_are_of_pairs(self):
        found, order = self.rows(
            lambda number: result(seconds=2.0 * (number + 1)),
            lambda number: result(seconds=1.0 * (number + 1)),
        )
        self.assertEqual(order, "ABBAAB")
        self.assertEqual((found["ratio"], found["work_ratio"]), (0.5, 1.0))
        self.assertEqual(found["without"]["seconds"], 3.0)
        self.assertEqual(speed.missed(found), [])
        self.assertEqual(len(speed.missed(found | {"ratio": 1.01})), 1)
        self.assertEqual(len(speed.missed(found | {"ratio": 1.006, "pressure": False})), 1)

    def test_who_runs_out_of_memory_is_not_tried_again(self):
        found, order = self.rows(lambda _: result(ok=False), lambda _: result())
        self.assertEqual((order, found["ratio"]), ("AB", None))
        self.assertEqual(speed.missed(found), [])
        self.assertIn("out of memory", speed.text([found]))
        found, _ = self.rows(lambda _: result(), lambda _: result(ok=False))
        self.assertEqual(len(speed.missed(found)), 1)


class Same(unittest.TestCase):
    def row(self, left, right, own_pool=False):
        def side(give):
            def run(workload, mem_bytes, number=None, **what):
                return result(**give(mem_bytes, number))

            run.kind = runner.Kind()
            return run

        return same.row("sd15", side(left), side(right), own_pool)

    @staticmethod
    def counted(value, **figures):
        counters = {"n": value, "m": 5}
        return {"same": {"outputs": ["a"], "contents": "c", "counters": counters}} | figures

    def test_the_same(self):
        found = self.row(lambda *_: self.counted(1), lambda *_: self.counted(1))
        self.assertEqual((found["plenty"], found["tight"], found["compared"]), ([], [], 5))
        self.assertEqual(same.missed(found), [])

    def test_a_difference_is_named(self):
        found = self.row(lambda *_: self.counted(1), lambda *_: self.counted(2))
        self.assertEqual(found["plenty"], ["counter n 1 -> 2"])
        self.assertEqual(len(same.missed(found)), 2)

    def test_what_differs_from_run_to_run_is_left_out(self):
        found = self.row(lambda _, number: self.counted(number), lambda *_: self.counted(9))
        self.assertEqual((found["left_out"], found["plenty"]), (["counter n"], []))

    def test_an_emptied_cache_changes_counters_of_segments_only(self):
        def give(size, _):
            changed = size < cells.PLENTY_BYTES
            counters = {"segment.all.current": int(changed), "n": 1}
            named = {"outputs": ["a"], "contents": "c", "counters": counters}
            return {"same": named, "emptied": int(changed)}

        found = self.row(lambda *_: give(cells.PLENTY_BYTES, None), give)
        self.assertEqual((found["tight"], found["emptied"]), ([], True))
        self.assertIn("the same*", same.text([found]))

    def test_another_pool_holds_something_else(self):
        def give(reserved):
            counters = {"reserved_bytes.all.peak": reserved, "n": 1}
            return {"same": {"outputs": ["a"], "contents": "c", "counters": counters}}

        sides = (lambda *_: give(1), lambda *_: give(2))
        found = self.row(*sides, own_pool=True)
        self.assertEqual((found["plenty"], found["tight"]), ([], []))
        self.assertEqual(same.text([found]).count("the same*"), 2)
        self.assertTrue(self.row(*sides)["plenty"])

    def test_counters_may_differ_where_something_was_refused(self):
        plenty = lambda size: size >= cells.PLENTY_BYTES
        found = self.row(
            lambda *_: self.counted(1),
            lambda size, _: self.counted(1 if plenty(size) else 2, refused=int(not plenty(size))),
        )
        self.assertEqual((found["plenty"], found["tight"]), ([], None))


class Environment(unittest.TestCase):
    def environment(self, words):
        args = lab.arguments(["sd15"] + words)
        kind = runner.Kind(args.setting, args.vramgc, args.lowvram)
        return runner.environment(kind) | runner.vramgc_environment(kind, "x.vramgc")

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
        "held_over_live_weighted": None,
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
        left = figures() | {"held_peak_bytes": 9196 * MIB, "held_over_live_weighted": 3.257}
        lines = demo.table(
            left, figures() | {"held_peak_bytes": 6316 * MIB, "reclaims": 2}
        ).splitlines()
        self.assertRegex(lines[2], r"held from the driver, at most +9,196 MiB +6,316 MiB$")
        self.assertRegex(lines[4], r"live, on average +3.26 +-$")
        self.assertRegex(lines[5], r"given back +0 +2$")

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
