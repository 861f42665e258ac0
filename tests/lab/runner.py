"""Runs of workloads in warm processes.

Importing PyTorch and diffusers takes several times longer than a workload on the simulated device.
So one process for each allocator setting and mode of the library imports them, uses no CUDA, and
forks for every run: in the child CUDA, PyTorch's allocator and libvramgc.so start from nothing.
"""

import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
RUN_SECONDS = 900  # longer than any workload takes on a busy machine

SETTINGS = {
    "default": None,
    "sdnext": "garbage_collection_threshold:0.80,max_split_size_mb:512",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
}


class Failure(Exception):
    """The lab itself could not do what was asked; the text is one line for the user."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a process is started with and cannot be changed later."""

    setting: str = "default"
    vramgc: str = "off"
    lowvram: bool = False
    keep: bool = False  # leave PyTorch's allocator setting alone

    def __str__(self):
        mode = f"vramgc {self.vramgc}" if self.vramgc != "off" else "without vramgc"
        words = [mode] + ["lowvram"] * self.lowvram + ["setting kept"] * self.keep
        return f"{self.setting}, {', '.join(words)}"


def environment(kind):
    """Of a process of this kind."""
    env = dict(os.environ)
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        env.pop(name, None)
    if SETTINGS[kind.setting]:
        env["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[kind.setting]
    env |= {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(BUILD / "lab" / "huggingface"),
        "TRANSFORMERS_VERBOSITY": "error",
        "PYTHONPYCACHEPREFIX": str(BUILD / "pycache"),
    }
    return env


def vramgc_environment(kind, report):
    """Observing must not change what is observed: the allocator's setting is left alone."""
    env = {"VRAMGC_MODE": kind.vramgc, "VRAMGC_OUT": str(report)}
    if kind.vramgc == "observe" or kind.keep:
        env["VRAMGC_ALLOC_CONF"] = "keep"
    if kind.lowvram:
        env["VRAMGC_LOWVRAM"] = "1"
    if kind.vramgc != "auto":  # else a proof would choose the pool of cudaMallocAsync
        env["XDG_STATE_HOME"] = str(BUILD / "lab" / "unproven")
    return env


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def report(path):
    """What `vramgc report --json` says of a statistics file."""
    words = [str(BUILD / "vramgc"), "report", "--json", str(path)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"`{' '.join(words)}` ended with status {done.returncode}")
    return json.loads(done.stdout)


def from_report(report):
    """The figures that only libvramgc.so knows."""
    process = report["processes"][0]
    device = process["devices"][0]
    derived = device["derived"]
    return {
        "mode": process["mode"],
        "held_peak_bytes": device["held_bytes"]["peak"],
        "held_over_live_mean": derived["held_over_live_mean"],
        "held_over_live_weighted": derived["held_over_live_weighted"],
        "driver_calls": device["driver_calls"],
        "page_moves": device["page_maps"] + device["page_unmaps"],
        "page_calls": device["page_calls"],
        "reclaims": device["reclaims"],
        "reclaim_ns": device["reclaim_ns"],
        "vramgc_refusals": device["refusals"],
        "emptied": device["flushes"] + device["soft_ooms"] + device["pool_trims"],
    }


def refused(result, kind):
    """Requests that PyTorch made and was refused for good. backend:cudaMallocAsync counts none
    itself; the library, where it stands in front, and else the simulated device count them."""
    if kind.setting != "async":
        return result["ooms"]
    if kind.vramgc != "off":
        return max(result["ooms"], result["vramgc_refusals"])
    return max(result["ooms"], result["device_refusals"] or 0)


class Warm:
    """One such process. A context manager; not for several threads at once."""

    def __init__(self, kind):
        self.kind = kind
        (BUILD / "lab").mkdir(parents=True, exist_ok=True)
        self.folder = tempfile.TemporaryDirectory(dir=BUILD / "lab")
        self.at_rest = f"{self.folder.name}/at-rest.vramgc"  # the latest run's statistics
        self.log = open(f"{self.folder.name}/log", "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            [*self.device(), sys.executable, str(ROOT / "tests" / "lab" / "run.py"), "--serve"],
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
        )

    def device(self):
        """What the process is started by: on the simulated device."""
        proven = ["--proven"] * (self.kind.vramgc == "auto")
        return [str(ROOT / "tests" / "on_card"), *proven, "--"]

    def environment(self):
        """PyTorch is to ask NVML whether there is a device: asking CUDA would start it here."""
        env = environment(self.kind) | {"TMPDIR": self.folder.name}
        env["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        if self.kind.vramgc == "off":
            return env
        library = BUILD / "libvramgc.so"
        if not library.exists():
            raise Failure("build/libvramgc.so is missing; run make first")
        env["LD_PRELOAD"] = f"{library} {env.get('LD_PRELOAD', '')}".strip()
        return env | vramgc_environment(self.kind, f"{self.folder.name}/%p.vramgc")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()

    def last_words(self):
        self.log.flush()
        self.log.seek(0)
        lines = [line.strip() for line in self.log.read().splitlines() if line.strip()]
        return lines[-1][:200] if lines else "it said nothing"

    def answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], RUN_SECONDS)
        if not ready:
            os.killpg(self.process.pid, 9)
            raise Failure(f"{self.kind}: a run did not end in {RUN_SECONDS} s and was killed")
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{self.kind}: the process ended: {self.last_words()}")
        return json.loads(line)

    def run(self, workload, mem_bytes, latency="none", **flags):
        """One run on a simulated device of mem_bytes (context included); its figures. flags:
        events, same, pauses of run.py."""
        figures = f"{self.folder.name}/figures"
        for path in (figures, self.at_rest):
            pathlib.Path(path).unlink(missing_ok=True)
        words = [workload, "--json", figures]
        words += [f"--{name}" for name, wanted in sorted(flags.items()) if wanted]
        words += [] if self.kind.vramgc == "off" else ["--report", self.at_rest]
        request = {
            "words": words,
            "environment": {"SIMGPU_MEM": str(mem_bytes), "SIMGPU_LATENCY": latency},
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        status = self.answer()["status"]
        if status != 0 or not os.path.exists(figures):
            raise Failure(f"{workload}, {self.kind}: status {status}: {self.last_words()}")
        result = {"reclaims": 0, "reclaim_ns": 0, "mode": "off"} | read_json(figures)
        if self.kind.vramgc != "off":
            result |= from_report(report(self.at_rest))
        return result | {"refused": refused(result, self.kind)}
