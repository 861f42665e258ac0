"""What the report says of workloads as scripts and web UIs run them, each on a card of its own: what is true, and no more.
Real PyTorch and diffusers on the simulated device; a minute or two."""

import concurrent.futures
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))

import runner
import sizes

RUNS = {
    "auto": (
        "encode_loop 48GiB",
        "encode_loop_leak 48GiB",
        "encode_loop_leak 24GiB",
        "encode_loop_list 11700MiB",
        "controlnet_switch 6GiB",
        "lora_loader 24GiB",
        "lora_loader 20GiB",
        "sd15 4GiB",
    ),
    # native segments, as PyTorch has them by itself: on these cards the workloads run out of memory
    "observe": (
        "encode_loop_leak 48GiB",
        "sd15 5GiB",
        "sd15 3GiB",
        "sdxl 10GiB",
        "flux 24GiB",
        "controlnet_switch 6GiB",
    ),
}
TOLD = {}


def run_all(mode):
    with runner.Warm(runner.Kind(vramgc=mode)) as warm:
        for name in RUNS[mode]:
            workload, mem = name.split()
            found = warm.run(workload, sizes.parse(mem))
            TOLD[mode, name] = found | {"report": runner.report(warm.at_rest)}


def setUpModule():
    """Both modes side by side."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(run_all, RUNS))


class Told(unittest.TestCase):
    def told(self, name, code, mode="auto"):
        """The verdict on this run, whose code must be this."""
        verdict = TOLD[mode, name]["report"]["verdict"]
        self.assertEqual(verdict["code"], code, verdict["text"])
        return verdict

    def test_a_loop_that_keeps_each_graph_is_growth(self):
        for mode in RUNS:
            verdict = self.told("encode_loop_leak 48GiB", "growth", mode)
            self.assertRegex(verdict["cause"], r"^Tensors (fill the card|leave the card in pieces), and grow: \+")
            self.assertIn("torch.no_grad()", verdict["do"])

    def test_three_prompts_are_enough(self):
        self.assertFalse(TOLD["auto", "encode_loop_leak 24GiB"]["ok"])
        self.told("encode_loop_leak 24GiB", "growth")

    def test_a_loop_that_keeps_its_results_is_growth(self):
        verdict = self.told("encode_loop_list 11700MiB", "growth")
        self.assertIn("results in a list", verdict["do"])

    def test_a_loop_without_a_leak_is_fine(self):
        self.told("encode_loop 48GiB", "ok")

    def test_a_task_tried_again_at_half_the_batch_went_on(self):
        """How often it runs out of memory hangs on the workspace that a convolution finds room for."""
        for mode, causes in (("auto", ("full",)), ("observe", ("fragmentation", "full"))):
            found = TOLD[mode, "controlnet_switch 6GiB"]
            self.assertTrue(found["ok"])
            self.assertGreater(found["notes"]["halved"], 0)
            verdict = found["report"]["verdict"]
            self.assertIn(verdict["code"], causes, verdict["text"])
            self.assertRegex(verdict["what"], r"^OUT OF MEMORY \dx, (last )?at ")
            self.assertIn(" free. The program went on.", verdict["what"])

    def test_three_loras_fit_24_gib_and_their_peak_is_told(self):
        found = TOLD["auto", "lora_loader 24GiB"]
        self.assertEqual((found["ok"], found["ooms"]), (True, 0))
        self.assertAlmostEqual(found["live_peak_bytes"] >> 20, 20227, delta=60)
        self.assertIn("for 19.8 GiB of tensors", self.told("lora_loader 24GiB", "ok")["what"])

    def test_what_loading_loras_needed_beyond_all_else_is_told(self):
        note = self.told("lora_loader 24GiB", "ok")["note"]
        process = TOLD["auto", "lora_loader 24GiB"]["report"]["processes"][0]
        times = {mark["label"]: mark["time_ns"] for mark in process["marks"]}
        took = times["LoRAs loaded"] - times["832x1216"]
        if took > process["elapsed_ns"] / 8:
            self.skipTest("the machine was so busy that loading was a large part of the run")
        self.assertRegex(note, r"The peak was short: 19.8 GiB were live around [0-9:.]+, 18.2 GiB")

    def test_loras_that_do_not_fit_are_no_growth(self):
        self.assertFalse(TOLD["auto", "lora_loader 20GiB"]["ok"])
        self.told("lora_loader 20GiB", "full")

    def test_images_that_are_too_large_are_no_growth(self):
        """sd15, sdxl and flux as they are, on cards that are too small for them."""
        for mode, name in TOLD:
            if name.split()[0] in ("sd15", "sdxl", "flux"):
                self.assertGreater(TOLD[mode, name]["ooms"], 0, (mode, name))
                code = TOLD[mode, name]["report"]["verdict"]["code"]
                self.assertIn(code, ("full", "fragmentation"), (mode, name))


if __name__ == "__main__":
    unittest.main()
