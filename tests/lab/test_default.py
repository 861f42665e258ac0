"""Tests of what scripts/lab --default, --formulas and --survivors compute, without PyTorch or a device; see
test_lab.py for the rest."""

import contextlib
import io
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))

import default
import formulas
import sizes
import survivor_rows
import table
import timeline
import workloads
from timeline import Sample

MIB = 1 << 20


def samples(*rows, step=0.25):
    """(held, needed, live, live_peak) in MiB, one each `step` seconds; short rows repeat their
    last."""
    found = []
    for number, row in enumerate(rows):
        full = tuple(row) + (row[-1],) * (4 - len(row))
        found.append(Sample(number * step, *(count * MIB for count in full)))
    return found


class OverTime(unittest.TestCase):
    def test_what_was_held_between_two_samples_counts(self):
        rows = [Sample(0, 10, 0, 9, 9), Sample(1, 10, 0, 9, 9, 70)]
        self.assertEqual(timeline.figures(rows, [], 100)["held_peak_bytes"], 70)

    def test_the_average_is_of_time_not_of_samples(self):
        rows = [Sample(0, 10, 0, 0, 0), Sample(1, 20, 0, 0, 0), Sample(4, 90, 0, 0, 0)]
        self.assertEqual(timeline.average(rows, [(0, 4)], "held"), round((10 + 3 * 20) / 4))
        self.assertEqual(timeline.average(rows, [(0, 1), (3, 4)], "held"), 15)
        self.assertEqual(timeline.average(rows, [(0.5, 1.5)], "held"), 15)
        self.assertEqual(timeline.average(rows, [], "held"), 0)

    def test_work_is_what_is_outside_the_pauses(self):
        self.assertEqual(timeline.without((0, 9), []), [(0, 9)])
        self.assertEqual(timeline.without((1, 9), [(0, 2), (3, 4), (8, 9)]), [(2, 3), (4, 8)])

    def test_it_begins_when_something_is_live(self):
        rows = samples((0, 0), (0, 0), (8, 8), (8, 8))
        self.assertEqual(timeline.begin(rows), 0.5)
        self.assertEqual(timeline.begin(rows[:2]), 0.25)  # nothing ever was

    def test_held_at_the_end_of_each_pause(self):
        rows = samples((1, 0), (2, 0), (3, 0), (4, 0))
        self.assertEqual(timeline.held_at(rows, [0.3, 0.75, 9]), [2 * MIB, 4 * MIB, 4 * MIB])

    def test_memory_between_two_uses_is_idle_but_not_unneeded(self):
        """2000 MiB are live in every second sample, the cache keeps them in between."""
        rows = samples(*[(2000, 2000), (2000, 0, 0, 2000)] * 8)
        self.assertEqual(timeline.idle(rows)[:2], [0, 2000 * MIB])
        self.assertEqual(set(timeline.unneeded(rows)), {0})

    def test_what_was_not_needed_for_a_second_is_unneeded(self):
        rows = samples((2000, 2000), *[(2000, 500, 400)] * 8)
        found = timeline.unneeded(rows)
        self.assertEqual(found[:5], [0] * 5)
        self.assertEqual(found[5:], [1500 * MIB] * 4)
        # pages that live blocks only touch are needed
        self.assertEqual(timeline.unneeded(samples(*[(500, 500, 100)] * 9))[-1], 0)

    def test_the_longest_time_above_the_threshold(self):
        rows = samples((900, 0), (900, 0), (700, 0), (900, 0), (900, 0), (900, 0), (900, 880))
        self.assertEqual(timeline.longest(rows, timeline.idle(rows), 800 * MIB), 0.5)
        self.assertEqual(timeline.longest(rows, timeline.idle(rows), 900 * MIB), 0)

    def test_figures(self):
        rows = samples((0, 0), (100, 100), (100, 50), (100, 50), (60, 50))
        found = timeline.figures(rows, [(0.5, 0.75)], 50 * MIB)
        self.assertEqual(found["held_average_bytes"], 100 * MIB)
        self.assertEqual(found["held_after_bytes"], 100 * MIB)
        self.assertEqual((found["held_end_bytes"], found["live_peak_bytes"]), (60 * MIB, 100 * MIB))
        self.assertEqual((found["idle_above_seconds"], found["unneeded_above_seconds"]), (0.25, 0))
        self.assertEqual(found["working_seconds"], 0.5)
        rested = timeline.figures(rows, [(0.5, 0.75)], 50 * MIB, rows[-1].time - 0.25)
        self.assertEqual(rested["working_seconds"], 0.25)
        self.assertIsNone(timeline.figures(rows, [], 0)["held_after_bytes"])


def note(blocks=48, fits=True):
    counts = {"live_bytes": 300 * MIB, "own_bytes": 308 * MIB, "held_bytes": 320 * MIB}
    return counts | {"fits": fits, "blocks": blocks, "live_full_bytes": 0}


def figures(**changed):
    """What a run of a Warm with pauses gives."""
    held = dict.fromkeys(default.HELD, 1000 * MIB) | {"live_working_bytes": 500 * MIB}
    found = dict.fromkeys(table.KEPT, 0) | held | {"live_average_bytes": 500 * MIB}
    found |= {"ok": True, "working_seconds": 5, "context_bytes": 256 * MIB, "notes": {"64+36+1.5": note()}}
    return found | changed


class Default(unittest.TestCase):
    def rows(self, give, *words):
        """give(kind, workload): what changes in a run's figures."""
        args = table.arguments(["--default", "--jobs", "1", *words])
        self.asked = []

        @contextlib.contextmanager
        def runs(kind):
            def run(workload, mem_bytes, **what):
                self.asked.append((str(kind), workload, mem_bytes >> 30, what))
                return figures(**give(kind, workload))

            yield run

        return default.all_rows(args, runs)

    def test_each_side_runs_on_both_devices_with_pauses(self):
        rows = self.rows(lambda *_: {}, "--workloads", "sd15")
        self.assertEqual([row["side"] for row in rows], ["without", "auto", "keep"] * 2)
        asked = [(gib, what) for _, _, gib, what in self.asked]
        self.assertEqual(asked, [(80, {"pauses": True}), (8, {"pauses": True})] * 3)
        self.assertIn("setting kept", self.asked[-1][0])
        self.assertEqual(default.missed(rows), [])

    def test_latencies_are_the_runs_own(self):
        self.rows(lambda *_: {}, "--workloads", "loop", "--latency", "card", "--devices", "small")
        self.assertEqual(self.asked[0][3], {"pauses": True, "latency": "card"})

    def test_keeping_a_setting_that_speaks_of_segments_is_no_other_side(self):
        rows = self.rows(lambda *_: {}, "--settings", "async,expandable", "--workloads", "loop")
        self.assertEqual({row["side"] for row in rows}, {"without", "auto"})

    def test_the_text_has_ratios_and_blocks(self):
        def give(kind, _):
            without = kind.vramgc == "off"
            held = {"held_after_bytes": (1000 if without else 2) * MIB}
            return held | {"held_end_bytes": 0 if without else 500 * MIB}

        lines = default.text(self.rows(give, "--workloads", "survivors")).splitlines()
        self.assertRegex(lines[5], r"survivors +24GiB default +without \| +1,000 +2\.00")
        self.assertRegex(lines[6], r"auto \| +1,000  1\.00 +2\.00 .* 2   500 +500 +\|")
        self.assertRegex(lines[-1], r"64\+36\+1\.5 +300 \| +308 +320 +48 \|")

    def missed(self, *words, **changed):
        """How much is complained of where the library makes this of a run."""
        rows = self.rows(
            lambda kind, _: {} if kind.vramgc == "off" else changed,
            *("--workloads", "survivors", "--devices", "small", "--sides", "without,auto", *words),
        )
        return default.missed(rows)

    def test_what_is_worse_with_the_library_is_named(self):
        self.assertEqual(self.missed(), [])
        for changed in (
            {"held_after_bytes": 1100 * MIB},
            {"held_end_bytes": 1100 * MIB},
            {"held_average_bytes": 1100 * MIB},
            {"held_working_bytes": 1100 * MIB},
            {"unneeded_above_seconds": 0.6},
            {"retries": 1},
            {"refused": 1},
            {"device_errors": 1},
            {"ok": False},
            {"notes": {"64+36+1.5": note(47)}},
            {"notes": {"64+36+1.5": note(48, fits=False)}},
        ):
            self.assertEqual(len(self.missed(**changed)), 1, changed)

    def test_blocks_are_compared_with_the_best_setting_of_the_same_allocator(self):
        def give(kind, _):
            blocks = {"default": 48, "expandable": 40, "async": 30}[kind.setting]
            return {"notes": {"64+36+1.5": note(blocks)}}

        words = ("--workloads", "survivors", "--devices", "small", "--sides", "without,auto")
        rows = self.rows(give, *words, "--settings", "default,expandable,async")
        expected = ["survivors on 8GiB, expandable, auto, 64+36+1.5: 40 blocks, alone 48"]
        self.assertEqual(default.missed(rows), expected)

    def test_the_machines_pace_is_not_complained_of(self):
        """On average more was held, and more was live: the phase lasted longer."""
        slower = {"held_average_bytes": 1100 * MIB, "live_average_bytes": 550 * MIB}
        self.assertEqual(self.missed(**slower), [])
        self.assertEqual(self.missed(held_after_bytes=1020 * MIB), [])

    def test_what_runs_out_of_memory_alone_is_no_measure(self):
        def give(kind, _):
            if kind.vramgc == "off":
                return {"ok": False, "held_after_bytes": 500 * MIB}
            return {"retries": 3, "refused": 1}

        words = ("--workloads", "loop", "--sides", "without,auto")
        self.assertEqual(default.missed(self.rows(give, *words)), [])

    def test_short_work_has_no_average(self):
        def give(kind, _):
            more = {} if kind.vramgc == "off" else {"held_working_bytes": 1100 * MIB}
            return {"working_seconds": 0.8} | more

        self.assertEqual(default.missed(self.rows(give, "--workloads", "survivors")), [])

    def test_every_workload_has_its_devices(self):
        for name in workloads.ALL:
            least = 1 if name in workloads.OFFLOADED else 6
            for _, size in default.devices(name, default.DEVICES):
                self.assertGreater(sizes.parse(size), least << 30)


def moment(name="now", **changed):
    """A card of 8,192 MiB that holds 7,936 of others' memory; 2,000 are live, 3,000 reserved."""
    found = {"capacity": 7936, "total": 8192, "free": 4936, "reserved": 3000, "active": 2000}
    found |= {"allocated": 2000, "held": 3000} | changed
    counts = {key: count * MIB for key, count in found.items()}
    return counts | {"name": name, "retries": 0, "dead": False}


def notes(*moments, **parts):
    part = {"completes": True, "layers": 28}
    return {name: parts.get(name, part) for name in formulas.PARTS} | {"moments": list(moments)}


def found(side, *moments, **parts):
    return {"setting": "default", "side": side, "notes": notes(*moments, **parts)}


class Formulas(unittest.TestCase):
    FIRST = "ComfyUI, Forge: free + reserved - active"

    def test_a_card_as_it_is_is_right(self):
        rows = formulas.judged([found("without", moment())])
        self.assertEqual(set(rows[0]["formulas"].values()), {None})
        self.assertIsNone(rows[0]["books"])

    def test_a_cache_beyond_the_card_makes_the_sum_wrong(self):
        beyond = moment("full", free=0, reserved=8280, active=7688, allocated=7688, held=7936)
        row = formulas.judged([found("auto", moment(), beyond)])[0]
        worst = row["formulas"][self.FIRST]
        self.assertEqual((worst["says_bytes"] >> 20, worst["true_bytes"] >> 20), (592, 248))
        self.assertEqual((worst["moment"], worst["wrong"], worst["of"]), ("full", 1, 2))
        self.assertEqual(formulas.cell(worst), "592, true 248 (1 of 2)")

    def test_some_sums_may_say_less(self):
        row = formulas.judged([found("auto", moment(free=3000))])[0]
        wrong = [name for name, worst in row["formulas"].items() if worst]
        self.assertEqual(wrong, [self.FIRST])

    def test_moments_that_pytorch_alone_did_not_live_to_see_do_not_count(self):
        beyond = moment("late", free=0, reserved=8280)
        rows = formulas.judged([found("without", moment()), found("auto", moment(), beyond)])
        self.assertEqual(formulas.missed(rows), [])
        rows = formulas.judged(
            [found("without", moment(), moment("late")), found("auto", moment(), beyond)]
        )
        self.assertEqual(len(formulas.missed(rows)), 2)

    def test_a_moment_that_is_wrong_alone_excuses_no_other(self):
        wrong = {"free": 0, "reserved": 8280}
        alone = found("without", moment("a", **wrong), moment("b"))
        same = formulas.judged([alone, found("auto", moment("a", **wrong), moment("b"))])
        self.assertEqual(formulas.missed(same), [])
        more = formulas.judged([alone, found("auto", moment("a", **wrong), moment("b", **wrong))])
        self.assertEqual(len(formulas.missed(more)), 2)
        self.assertIn("(1 of 1)", formulas.missed(more)[0])

    def test_out_of_memory_only_with_the_library(self):
        dead = {"completes": False, "layers": None}
        without, auto = found("without", moment()), found("auto", moment(), loader=dead)
        rows = formulas.judged([without, auto])
        self.assertEqual(formulas.missed(rows), ["default, auto: loader runs out of memory"])
        self.assertIn("out of memory", formulas.text(rows))
        both = formulas.judged([found("without", moment(), loader=dead), auto])
        self.assertEqual(formulas.missed(both), [])


class Survivors(unittest.TestCase):
    def row(self, side, blocks, fits=True):
        notes = {"1.1 12": {"blocks": blocks, "fits": fits}, "19 random": {"blocks": 7, "fits": True}}
        mode = "off" if side == "without" else "compact"
        return {"setting": "default", "side": side, "mode": mode, "notes": notes}

    def test_fewer_blocks_than_the_same_setting_alone_are_missed(self):
        rows = [self.row("without", 6), self.row("auto", 5)]
        words = ["default, auto, 1.1 MiB, 1 in 12: 5 blocks, alone 6"]
        self.assertEqual(survivor_rows.missed(rows), words)
        self.assertEqual(survivor_rows.missed([self.row("without", 6), self.row("auto", 6)]), [])
        self.assertEqual(survivor_rows.missed([self.row("auto", 0)]), [])  # nothing to compare with

    def test_a_row_that_does_not_fit_is_worse_than_none_beside_it(self):
        rows = [self.row("without", 0), self.row("auto", 9, fits=False)]
        self.assertEqual(len(survivor_rows.missed(rows)), 1)
        self.assertIn("| 1.1 MiB | 1 in 12 | 0 | - |", survivor_rows.text(rows))
        self.assertIn("| 19 MiB | at random, 1 in 8 | 7 | 7 |", survivor_rows.text(rows))


class Words(unittest.TestCase):
    def test_the_other_tables_leave_these_workloads_out(self):
        self.assertEqual(table.arguments(["--table"]).workloads, list(workloads.NAMES))
        self.assertEqual(table.arguments(["--default"]).workloads, list(workloads.ALL))
        for words in (["--table", "--workloads", "serve"], ["--default", "--sides", "flush"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                table.arguments(words)


if __name__ == "__main__":
    unittest.main()
