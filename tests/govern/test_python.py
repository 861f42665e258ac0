"""Giving memory back under a whole, unmodified PyTorch in Python, on the simulated device.

    build/venv/bin/python -m unittest tests/govern/test_python.py

Each test starts one script of python/ with libvramgc.so in front; many checks share a process, because PyTorch takes seconds to
start.
"""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests/govern/python"
LIBRARY = os.environ.get("VRAMGC_LIBRARY", str(ROOT / "build/libvramgc.so"))
EAGER = {
    "VRAMGC_LOWVRAM": "1",
    "VRAMGC_TEST_REST": "20ms",
    "VRAMGC_COOLDOWN": "0",
    "VRAMGC_TEST_MIN_GAIN": "0",
}
SDNEXT = re.compile(
    r"GC: current=\{'gpu': \d+\.\d\d\} prev=\{'gpu': \d+\.\d\d\} load=\{'gpu': \d+\.\d\} "
    r"gc=\{'gpu': \d+\.\d\d\} fn=(\S+) why=lowvram time=\d+\.\d+$"
)
POOL = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "VRAMGC_ALLOC_CONF": "keep"}
EACH_ALLOCATOR = (
    {"VRAMGC_MODE": "flush"},
    {"VRAMGC_MODE": "compact"},
    {"VRAMGC_MODE": "flush", "VRAMGC_ASYNC": "driver"} | POOL,
    {"VRAMGC_MODE": "compact", "VRAMGC_ASYNC": "pages"} | POOL,
)


class Run:
    """A finished script: its lines of JSON, what stood on standard error, and the facts in the statistics file.

    In mode flush, which is what most of these scripts are about, if no other is named. timeout: only what hangs is to meet it."""

    def __init__(self, script, *arguments, sim=(), timeout=900, **settings):
        environment = {
            name: value
            for name, value in os.environ.items()
            if name == "VRAMGC_MUTANT" or not name.startswith(("VRAMGC_", "PYTORCH_"))
        }
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, "record.vramgc")
            environment.update(
                LD_PRELOAD=LIBRARY, VRAMGC_OUT=record, PYTHONDONTWRITEBYTECODE="1"
            )
            environment.update({"VRAMGC_MODE": "flush"} | settings)
            command = [
                str(ROOT / "tests/on_card"),
                *sim,
                "--",
                sys.executable,
                str(SCRIPTS / script),
                *arguments,
            ]
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
            self.status, self.errors, self.output = done.returncode, done.stderr, done.stdout
            self.facts = self.read(record)
            self.report = self.read(record, "build/vramgc", "report")
        self.lines = [json.loads(line) for line in self.output.splitlines() if line.startswith("{")]

    @staticmethod
    def read(record, program="build/govern/show", *arguments):
        if not os.path.exists(record):
            return []
        show = subprocess.run(
            [str(ROOT / program), *arguments, record], capture_output=True, text=True, check=True
        )
        return show.stdout.splitlines()

    def fact(self, name):
        return next(line.split(" ", 1)[1] for line in self.facts if line.startswith(name + " "))

    def complaints(self):
        """What was said on standard error beside vramgc's own log and what PyTorch says without us."""
        usual = ("vramgc: ", "UserWarning", "super().capture_end")
        return [
            line for line in self.errors.splitlines() if not any(word in line for word in usual)
        ]


class WholePyTorch(unittest.TestCase):
    def check(self, run, expected):
        """All checks were made and hold, and the process ended well, without a word of the device."""
        self.assertEqual(run.status, 0, run.errors[-2000:])
        for line in run.lines:
            self.assertTrue(line["ok"], line)
        self.assertEqual([line["check"] for line in run.lines], expected)
        self.assertNotIn("simgpu: ERROR", run.errors)
        self.assertEqual(run.fact("internal_errors"), "0")
        self.assertEqual(run.fact("unmatched_blocks"), "0")

    def test_working(self):
        run = Run("working.py", VRAMGC_ALLOC_CONF="keep", VRAMGC_LOG="debug", **EAGER)
        self.check(
            run,
            [
                "computes",
                "sleeps",
                "keeps_the_lock",
                "imports",
                "rests",
                "snapshot",
                "snapshot refuses another size",
                "unknown device",
                "version",
                "mark",
                "write_report",
                "peace",
            ],
        )
        lines = [SDNEXT.search(line) for line in run.errors.splitlines() if "GC: " in line]
        self.assertTrue(lines and all(lines), run.errors[-2000:])
        functions = {line.group(1) for line in lines}
        self.assertEqual(functions - {"?"}, {"take", "rests"})  # which took memory last; ?: none was named yet
        flushes = [line for line in run.facts if line.startswith("action flush lowvram ")]
        self.assertEqual(len(flushes), int(run.fact("flushes")))
        self.assertEqual(len(lines), len(flushes))
        self.assertFalse([line for line in flushes if " took=0 " in line])

    def test_asked_and_the_rest_of_a_refusal(self):
        run = Run(
            "asked.py",
            sim=("--latency", "card", "--devices", "2"),  # a cudaMalloc takes as long as our thread to wake
            SIMGPU_KERNEL_US="2000000",
            PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:512",
            VRAMGC_ALLOC_CONF="keep",
            VRAMGC_TEST_SAMPLE="10s",
            VRAMGC_THRESHOLD="50",
            VRAMGC_TEST_HYSTERESIS="45",
        )
        self.check(run, ["the rest", "asked"])
        self.assertEqual(
            [line.split()[1:3] for line in run.facts if line.startswith("action ")],
            [["soft_oom", "threshold"], ["flush", "threshold"], ["flush", "asked"]],
        )

    def test_holes_after_a_long_wait_for_the_gil(self):
        run = Run("holes.py", VRAMGC_ALLOC_CONF="keep")
        self.check(run, ["holes"])

    def test_no_program_is_refused_before_it_is_alone(self):
        count = 40
        alone, compact = (
            Run("until_refused.py", str(count), sim=("--mem", "2GiB"), VRAMGC_MODE=mode).lines[0]["refused"]
            for mode in ("observe", "compact")
        )
        never = sys.maxsize
        pairs = [[never if step is None else step for step in pair] for pair in zip(alone, compact)]
        self.assertEqual([pair for pair in pairs if pair[1] < pair[0]], [])
        self.assertGreater(len([pair for pair in pairs if pair[0] < never]), count / 4)  # it can fail
        self.assertGreater(len([pair for pair in pairs if pair[1] > pair[0]]), count / 4)

    def test_names(self):
        for settings in EACH_ALLOCATOR:
            with self.subTest(settings):
                run = Run(
                    "names.py",
                    VRAMGC_FUNCTIONS=str(SCRIPTS / "phases.txt"),
                    REPORT_COMMAND=str(ROOT / "build/vramgc"),
                    **settings,
                )
                warned = [line for line in run.errors.splitlines() if "VRAMGC_FUNCTIONS" in line]
                self.assertEqual(len(warned), 1, run.errors[-2000:])
                self.assertIn("line 2 of", warned[0])
                self.check(
                    run,
                    [
                        "named",
                        "kept",
                        "small ones",
                        "nameless",
                        "method",
                        "peak",
                        "over time",
                        "refused",
                        "another thread",
                        "callers",
                        "phase",
                        "a module's move",
                        "all at once",
                        "nothing lives longer",
                    ],
                )

    def test_the_first_tensor_is_named(self):
        """The program waits a second for it, in which a busy machine may not come to it: a few runs, one of which will do."""
        for mode in "flush", "compact":
            with self.subTest(mode=mode):
                for _ in range(5):
                    run = Run("first.py", VRAMGC_MODE=mode, REPORT_COMMAND=str(ROOT / "build/vramgc"))
                    if all(line["ok"] for line in run.lines):
                        break
                self.check(run, ["named", "kept", "the first"])

    def test_a_request_that_was_granted_later_is_no_out_of_memory(self):
        run = Run(
            "granted.py",
            sim=("--mem", "1GiB"),
            PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
            VRAMGC_ALLOC_CONF="keep",
            VRAMGC_ASYNC="driver",
            VRAMGC_MODE="observe",
            VRAMGC_THRESHOLD="100",
            REPORT_COMMAND=str(ROOT / "build/vramgc"),
        )
        self.check(run, ["granted"])

    def test_work_that_goes_on_without_memory_is_no_out_of_memory(self):
        for settings in EACH_ALLOCATOR:
            with self.subTest(settings):
                run = Run(
                    "workspace.py",
                    sim=("--mem", "1GiB"),
                    REPORT_COMMAND=str(ROOT / "build/vramgc"),
                    **settings,
                )
                of_it = ["workspace", "the last of its function", "error", "handled", "workspace while one is handled"]
                self.check(run, [*of_it, "one moment", "six alike", "kept errors", "tiles"])

    def test_the_last_column_is_of_before_python_frees_all(self):
        for how, rest, head, live in (
            ("rest", "20ms", "at rest", 64),
            ("work", "60s", "at the end", 72),
        ):
            for mode in "flush", "compact":
                with self.subTest(how, mode=mode):
                    settings = EAGER | {"VRAMGC_MODE": mode, "VRAMGC_TEST_REST": rest}
                    command = str(ROOT / "build/vramgc")
                    run = Run("at_end.py", how, REPORT_COMMAND=command, **settings)
                    self.check(run, [])
                    rows = [re.split("  +", line.strip()) for line in run.report]
                    self.assertIn(["peak", head], rows)
                    lives = next(row[2] for row in rows if row[0] == "allocated (live)")
                    self.assertEqual(lives, f"{live}.0 MiB")

    def test_names_off(self):
        run = Run("leak.py", "--sound", VRAMGC_FUNCTIONS="off", REPORT_COMMAND=str(ROOT / "build/vramgc"))
        self.check(run, ["nothing grows"])
        self.assertEqual(run.fact("sites"), "0")

    @unittest.skipUnless(importlib.util.find_spec("comfy_aimdo"), "comfy-aimdo is not there")
    def test_beside_aimdo(self):
        for settings in ({"VRAMGC_MODE": "observe"}, {}, {"VRAMGC_LOWVRAM": "1"}, {"VRAMGC_MODE": "compact"}):
            with self.subTest(settings):
                run = Run(
                    "aimdo.py",
                    sim=("--mem", "8GiB"),
                    REPORT_COMMAND=str(ROOT / "build/vramgc"),
                    **POOL | {"VRAMGC_ASYNC": "driver"} | settings,
                )
                self.check(run, ["sums", "live", "given back"])
        run = Run("weights_in_use.py", sim=("--mem", "8GiB"), REPORT_COMMAND=str(ROOT / "build/vramgc"), **POOL)
        self.check(run, ["in use"])
        # Our own thread leaves what was needed within the cool-down.
        run = Run("idle_first.py", sim=("--mem", "8GiB"), VRAMGC_COOLDOWN="60s", **POOL)
        self.check(run, ["weights stay"])
        run = Run("rogues.py", sim=("--mem", "8GiB"), REPORT_COMMAND=str(ROOT / "build/vramgc"), **POOL)
        self.check(run, ["rogues", "breaks", "inner part"])
        table = "\n".join(run.report).partition("\nROGUES ")[2].partition("\n\n")[0]
        self.assertEqual(len(re.findall(r"^ +[12] +[01]  keeps_\d+ \(custom_nodes/plant.py:\d+\)$", table, re.M)), 12, table)

    def test_limits(self):
        for settings in EACH_ALLOCATOR:
            with self.subTest(settings):
                run = Run(
                    "limits.py",
                    str(ROOT / "build/vramgc"),
                    sim=("--mem", "16GiB"),
                    VRAMGC_CAP="3GiB",
                    **settings,
                )
                self.check(
                    run,
                    ["before CUDA", "properties", "mem_get_info", "NVML", "idle memory goes", "told", "beside work, too"],
                )

    def test_peers(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(
                "peers.py",
                sim=("--mem", "4GiB"),
                SIMGPU_CARD=os.path.join(folder, "card"),
                XDG_STATE_HOME=folder,
                VRAMGC_THRESHOLD="100",
            )
        self.check(
            run,
            [
                "it is there",
                "enough came",
                "own memory went first",
                "only what was idle went",
                "each knows the other by its folder and script",
                "it ended well",
            ],
        )
        self.assertIn(int(run.fact("peer_bytes")) >> 20, range(2048, 2100))  # pieces of 12 MiB

    def test_another_library_gets_what_is_idle(self):
        settings = {"sim": ("--mem", "4GiB"), "VRAMGC_THRESHOLD": "100"}
        for conf in "keep", "auto":
            with self.subTest(conf):
                run = Run("library.py", VRAMGC_ALLOC_CONF=conf, **settings)
                self.check(run, ["more than there is", *["it comes"] * 3, "beside the GIL", "it comes"])
                self.assertGreaterEqual(int(run.fact("flush_waits")), 5)
                self.assertGreaterEqual(int(run.fact("flush_wait_ns")), 200_000_000)
                askers = {line.strip() for line in run.report if "which lacked memory" in line}
                self.assertEqual(len(askers), 1, run.report)  # that of ctypes
                self.assertRegex(askers.pop(), r"^to (?!libc10)\S+, which lacked memory$")
        run = Run("library.py", "gil", **settings)
        self.check(run, ["with the GIL"])
        self.assertEqual(run.fact("flush_waits"), "0")

    def test_growth_is_named(self):
        settings = {
            "VRAMGC_THRESHOLD": "100",
            "VRAMGC_TEST_SAMPLE": "10ms",
            "REPORT_COMMAND": str(ROOT / "build/vramgc"),
        }
        leak = Run("leak.py", sim=("--mem", "12GiB"), **settings)
        self.check(leak, ["grows", "fills the card"])
        self.check(Run("leak.py", "--sound", **settings), ["nothing grows"])

    def test_what_piles_up_is_named(self):
        """The driver's own pool keeps a third of the card in pieces then: that is the cause there."""
        for settings in EACH_ALLOCATOR[0], EACH_ALLOCATOR[1], EACH_ALLOCATOR[3]:
            with self.subTest(settings):
                run = Run("pile.py", sim=("--mem", "2GiB"), REPORT_COMMAND=str(ROOT / "build/vramgc"), **settings)
                self.check(run, ["piles up"])

    def test_what_a_refusal_came_from_is_told(self):
        run = Run("told.py", sim=("--mem", "2GiB"), VRAMGC_THRESHOLD="100", REPORT_COMMAND=str(ROOT / "build/vramgc"))
        loads = ["LoRAs", "a load", "the whole load", "another load"]
        errors = ["a failed try", "what it leaves", "another error", "threads"]
        self.check(run, [*loads, *errors, "math_attention", "joins_frames", "trains", "requests", "handled", "no gradients", "gradients"])

    def test_a_block_that_never_got_memory_is_nobodys(self):
        run = Run("unbacked.py", sim=("--mem", "1GiB"), VRAMGC_MODE="compact", REPORT_COMMAND=str(ROOT / "build/vramgc"))
        self.check(run, ["refused", "nobody's"])
        self.assertEqual(run.fact("refused_blocks"), "1")

    def test_what_one_job_keeps_in_ram_is_told(self):
        for mode in "flush", "compact":
            with self.subTest(mode):
                run = Run("chunks.py", sim=("--mem", "2GiB"), VRAMGC_MODE=mode, REPORT_COMMAND=str(ROOT / "build/vramgc"))
                self.check(run, ["in one job"])

    def test_a_kernel_without_room_is_told(self):
        for mode in "flush", "compact":
            with self.subTest(mode):
                sim = ("--mem", "1GiB")
                settings = {"SIMGPU_MODULE_MEM": "128MiB", "REPORT_COMMAND": str(ROOT / "build/vramgc")}
                self.check(Run("kernel.py", sim=sim, VRAMGC_MODE=mode, **settings), ["kernel"])

    def test_what_autograd_made_is_told(self):
        for mode in "flush", "compact":
            with self.subTest(mode):
                run = Run("backward.py", sim=("--mem", "2GiB"), VRAMGC_MODE=mode, REPORT_COMMAND=str(ROOT / "build/vramgc"))
                self.check(run, ["backward"])

    def test_the_first_step_of_an_optimizer_is_no_growth(self):
        for mode in "flush", "compact":
            for card in "1250MiB", "1400MiB":
                with self.subTest(mode, card=card):
                    run = Run("first_step.py", sim=("--mem", card), VRAMGC_MODE=mode, REPORT_COMMAND=str(ROOT / "build/vramgc"))
                    self.check(run, ["first step"])

    def test_models_that_are_moved_without_need_are_told(self):
        settings = {
            "VRAMGC_TEST_REST": "20ms",
            "VRAMGC_FUNCTIONS": str(SCRIPTS / "phases.txt"),
            "REPORT_COMMAND": str(ROOT / "build/vramgc"),
        }
        for mode in "flush", "compact":
            for card in "8GiB", "2GiB":
                with self.subTest(mode, card=card):
                    run = Run("moved.py", card, sim=("--mem", card), VRAMGC_MODE=mode, **settings)
                    self.check(run, ["moved"])

    def test_a_text_encoder_that_stays_is_named(self):
        settings = {"VRAMGC_THRESHOLD": "100", "REPORT_COMMAND": str(ROOT / "build/vramgc")}
        for case in "stays", "denoises", "moved", "of_no_use":
            with self.subTest(case):
                run = Run("encoder.py", case, sim=("--mem", "1GiB"), **settings)
                self.check(run, [case])

    def test_what_private_pools_keep(self):
        keepers = {"graph": "CUDA graphs keep", "pool": "A torch.cuda.MemPool keeps"}
        for keeper, words in keepers.items():
            for setting, kept in (("keep", 500), ("auto", 504)):  # in steps of 12 MiB
                with self.subTest(keeper, setting=setting):
                    run = Run("keeping.py", keeper, sim=("--mem", "1GiB"), VRAMGC_ALLOC_CONF=setting)
                    self.check(run, [])
                    self.assertIn(f"CAUSE    {words} {kept} MiB that nothing else can use.", run.report)

    def test_two_devices(self):
        run = Run("two_devices.py", sim=("--devices", "2"), SIMGPU_ASKED="1000000")
        self.check(run, ["both", "waited"])
        actions = sorted(line.split(" took=")[0] for line in run.facts if line.startswith("action "))
        self.assertEqual(len(actions), 2)
        self.assertTrue(all(line.startswith("action flush asked ") for line in actions), actions)

    def test_captures(self):
        for setting in "keep", "auto":
            with self.subTest(setting):
                self.check(
                    Run(
                        "captures.py", VRAMGC_ALLOC_CONF=setting, **{**EAGER, "VRAMGC_TEST_REST": "2ms"}
                    ),
                    ["captures"],
                )

    def test_blocks(self):
        for setting, expandable in ("keep", 0), ("auto", 1):
            for threads in 1, 4:
                with self.subTest(setting=setting, threads=threads):
                    run = Run(
                        "blocks.py",
                        "--threads",
                        str(threads),
                        "--every",
                        "1000" if threads == 1 else "500",
                        VRAMGC_ALLOC_CONF=setting,
                        **{**EAGER, "VRAMGC_TEST_REST": "1ms"},
                    )
                    self.check(run, [f"blocks, {threads} threads"])
                    self.assertEqual(run.lines[0]["expandable"], expandable)


RELEASE = tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])
CHOICE = ("large_segment_size_mb:12," if RELEASE >= (2, 11) else "") + "expandable_segments:True"


class Setting(unittest.TestCase):
    """What somebody chose of expandable segments stands; where nobody did, PyTorch really becomes expandable."""

    REPLACED = "the program's choice; vramgc put expandable_segments:True in the place of max_split_size_mb"

    def check(self, run, expandable, conf, why):
        self.assertEqual(run.status, 0, run.errors[-2000:])
        self.assertEqual(run.lines[-1]["expandable"], expandable)
        if run.facts:
            self.assertEqual((run.fact("conf"), run.fact("why")), (conf, why))

    def test_nobody_chose(self):
        self.check(
            Run("setting.py", VRAMGC_MODE="auto"),
            True,
            CHOICE,
            "chosen by vramgc: none was set",
        )

    def test_before_import(self):
        self.check(
            Run("setting.py", "--before", "max_split_size_mb:512"),
            True,
            CHOICE,
            self.REPLACED,
        )

    def test_before_import_against_it(self):
        self.check(
            Run("setting.py", "--before", "expandable_segments:False"),
            False,
            "expandable_segments:False",
            "the program's choice",
        )

    def test_after_import(self):
        self.check(
            Run("setting.py", "--after", "max_split_size_mb:512"),
            True,
            CHOICE,
            self.REPLACED,
        )

    def test_after_is_available(self):
        run = Run("setting.py", "--available", "--after", "max_split_size_mb:512")
        self.assertEqual(
            run.lines[-1], {"expandable": False, "environment": "max_split_size_mb:512"}
        )

    def test_restart(self):
        run = Run("setting.py", "--restart")
        self.assertEqual(
            run.lines[-1], {"expandable": True, "environment": CHOICE}
        )


class Host(unittest.TestCase):
    """Memory of the host, by the one call of the allocator that is there."""

    ALLOCATORS = {
        "tcmalloc": "libtcmalloc_minimal.so.4",
        "jemalloc": "libjemalloc.so.2",
        "mimalloc": "libmimalloc.so.2",
    }
    CALLS = {
        None: "malloc_trim",
        "tcmalloc": "MallocExtension_ReleaseToSystem",
        "jemalloc": "mallctl",
        "mimalloc": "mi_collect",
    }

    def host(self, way, allocator=None, *more, **settings):
        preload = LIBRARY + (f":{self.ALLOCATORS[allocator]}" if allocator else "")
        size = "1536" if allocator == "jemalloc" else "512"  # it gives back by itself, after a while
        run = Run("host.py", way, size, *more, LD_PRELOAD=preload, **settings)
        self.assertEqual(run.status, 0, run.errors)
        return run, run.lines[0]

    def test_what_is_unused_goes(self):
        for way, allocator in (
            ("offload", None),
            ("lora", None),
            ("unload", None),
            ("unload", "tcmalloc"),
            ("load", "tcmalloc"),
            ("offload", "tcmalloc"),
            ("lora", "jemalloc"),
            ("load", "mimalloc"),
        ):
            with self.subTest(way=way, allocator=allocator):
                if allocator and not self.installed(allocator):
                    self.skipTest(f"{allocator} is not installed")
                run, told = self.host(way, allocator)
                if "SEED" in os.environ and told["unused"] <= 32:
                    continue  # with another seed the allocator may have given it back by itself
                self.assertGreater(told["unused"], 32)
                self.assertLess(told["stays"], told["unused"] / 4 + 1)
                self.assertGreater(int(run.fact("host_released_bytes")) >> 20, told["unused"] / 2)
                self.assertEqual(run.fact("host_call"), self.CALLS[allocator])

    def test_page_locked(self):
        run, told = self.host("pinned", None)
        self.assertGreater(told["unused"], 5 + 20 + 33 + 64)
        self.assertLess(told["stays"], told["unused"] / 4)
        self.assertGreater(int(run.fact("pinned_released_bytes")) >> 20, 5 + 20 + 33 + 64)

    def test_what_python_refers_to_stays_and_off_is_off(self):
        run, told = self.host("referenced", None, "3")
        self.assertLess(told["unused"], 32)
        self.assertGreaterEqual(int(run.fact("host_in_use_bytes")) >> 20, 512)
        run, told = self.host("load", None, VRAMGC_HOST="off")
        self.assertEqual(run.fact("host_releases"), "0")

    def test_observe_tells_and_does_nothing(self):
        for setting in ({"VRAMGC_HOST": "observe"}, {"VRAMGC_MODE": "observe"}):
            run, told = self.host("lora", None, "3", **setting)
            self.assertGreater(told["stays"], told["unused"] / 2)
            self.assertEqual(run.fact("host_releases"), "0")
            unused = int(run.fact("host_unused_bytes")) >> 20
            self.assertGreater(unused, told["unused"] / 2)
            self.assertLess(unused, told["unused"] * 5 / 4)

    def test_observe_promises_nothing_that_no_call_gives(self):
        for way in ("mapped", "pinned"):
            with self.subTest(way):
                run, told = self.host(way, None, "3", VRAMGC_HOST="observe")
                self.assertGreater(told["unused"], 5 + 20 + 33 + 64)
                self.assertLess(int(run.fact("host_unused_bytes")) >> 20, 16)

    @staticmethod
    def installed(allocator):
        """Whether the loader finds it."""
        found = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False
        )
        return Host.ALLOCATORS[allocator] in found.stdout


class Endings(unittest.TestCase):
    """Nothing that a program does to end is disturbed: same status, no abort, no hang, nothing said."""

    def test_endings(self):
        run = Run(
            "endings.py",
            sim=("--latency", "card", "--mem", "80GiB"),
            VRAMGC_ALLOC_CONF="keep",
            VRAMGC_LOG="warn",
            **{**EAGER, "VRAMGC_TEST_REST": "5ms"},
        )
        self.assertEqual(run.status, 0, run.errors[-2000:])
        self.assertGreaterEqual(len(run.lines), 15)
        for line in run.lines:
            with self.subTest(line["ending"]):
                self.assertEqual(
                    line["statuses"], {str(line["expected"]): line["count"]}, line["said"][-1500:]
                )
                if line["ending"] != "uncaught_exception":
                    self.assertEqual(line["said"], "")


if __name__ == "__main__":
    unittest.main()
