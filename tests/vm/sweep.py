#!/usr/bin/env python3
"""Lets each call of the library into the driver fail in turn, and sees that the program does not notice.

A small program on PyTorch's own allocator runs without the library, and with it while the N-th call of one driver function that comes
from the library fails, for each function and each N. What the program prints must be the same; nobody may use memory that is not
there, leave some behind, or hang. A call that the library only passes on fails without it as well: then that is the measure.

  sweep.py [--full N] [--codes 2,700] [--calls cuMemMap,...] [--libc] [WORKLOAD...]

Every index up to N is tried, then ever fewer. It must test nothing but what the program can see: how the library gets along is its own.
"""
import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
LIMIT_S = 300  # only what hangs meets it: on a busy machine a run took 17 s
OUT_OF_MEMORY = 2
NEARLY = 0.9  # of 27 requests that a small card refuses it is one more or less, as our own thread comes to run
ALWAYS = ":1000000"

SCRIPT = """alloc a 30MiB; fill a 1; alloc b 5MiB stream=1; fill b 2 stream=1; stream 1; verify b 2; stream 0; record a 2; free a
alloc c 28MiB; fill c 3; verify c 3; alloc d 1MiB; fill d 4; cuda_malloc x 4MiB; fill x 9; verify x 9; free b; alloc e 60MiB
fill e 5; verify e 5; verify d 4; verify c 3
random seed={seed} ops=100 fill=1 every=50 max=40MiB live=20 streams=3
verify e 5; free c; free e; alloc f 50MiB; fill f 6; verify f 6; free f; empty_cache; verify d 4; alloc g 90MiB; fill g 7; verify g 7
{capture}
free_all; empty_cache; synchronize
"""
CAPTURE = "stream 1; capture_begin; alloc h 24MiB; capture_end; stream 0; alloc i 9MiB; fill i 8; verify i 8; graph_release"

# Questions: they may also fail always, from the N-th on.
QUESTIONS = ["cuMemGetInfo_v2", "cuStreamQuery", "cuEventQuery", "cuEventRecord", "cuEventCreate", "cuCtxGetCurrent",
             "cuMemGetAllocationGranularity", "cuCtxRecordEvent", "cuCtxSynchronize"]

# name: (environment, capture or not[, what is set besides where the library is there])
COMPACT = {"VRAMGC_MODE": "compact", "VRAMGC_ALLOC_CONF": "keep", "VRAMGC_TEST_REST": "5ms", "VRAMGC_COOLDOWN": "10ms", "SIMGPU_MEM": "8GiB"}
NATIVE = {**COMPACT, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}
EXPANDABLE = {**COMPACT, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
ASYNC = {**COMPACT, "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "VRAMGC_ASYNC": "pages"}
LOWVRAM = {"VRAMGC_LOWVRAM": "1", "SIMGPU_MEM": "1GiB"}
SPILL = {"VRAMGC_SPILL": "1GiB", "SIMGPU_MEM": "370MiB"}  # of which the context takes 256 MiB
WORKLOADS = {
    "native": (NATIVE, CAPTURE),
    "native-lowvram": ({**NATIVE, **LOWVRAM}, ""),
    "expandable": (EXPANDABLE, ""),
    "expandable-lowvram": ({**EXPANDABLE, **LOWVRAM}, CAPTURE),
    "native-spill": (NATIVE, "", SPILL),
    "expandable-spill": (EXPANDABLE, "", SPILL),
    "async": (ASYNC, ""),
    "async-lowvram": ({**ASYNC, **LOWVRAM}, ""),
}


def simulated_environment(cuda):
    """What simgpu sets, asked once: it looks for a PyTorch each time."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("VRAMGC", "SIMGPU", "PYTORCH"))}
    text = subprocess.run([ROOT + "/tests/on_card", "--cuda", cuda, "env", "-0"], env=keep, capture_output=True, text=True, check=True)
    return dict(item.split("=", 1) for item in text.stdout.split("\0") if item)


def lacks(fail):
    """Whether the call is refused for a lack of memory, and not by an error of the device."""
    return not fail or fail.split("@")[0].endswith(f":{OUT_OF_MEMORY}")


COUNTS = re.compile(r"allocations=\d+ ooms=\d+")


class Run:
    """One run of the program: how it ended, what it saw, and what was left."""

    def __init__(self, sweep, name, library, fail=None, libc=None, **besides):
        # Nobody may be left who gives memory back, or the device takes none.
        stays = "+" in (fail or "") or (libc or "").endswith(ALWAYS) or not lacks(fail)
        settings, capture, *with_library = WORKLOADS[name]
        with tempfile.TemporaryDirectory() as folder:
            for more in [*(with_library if library else []), besides]:
                settings = {**settings, **more}
            environment = {**sweep.environment, **settings, "VRAMGC_OUT": folder + "/stats", "VRAMGC_LOG": "error",
                           "SIMGPU_CALLS": folder + "/calls", "C10DRIVE_PATIENCE_MS": "20000"}
            preload = [environment.get("LD_PRELOAD", "")]
            if libc:
                environment["LIBFAIL"] = libc
                environment["LIBFAIL_COUNT"] = folder + "/libc"
                preload.insert(0, ROOT + "/build/vm/liblibfail.so")
            if library:
                preload.insert(0, sweep.library)
            environment["LD_PRELOAD"] = " ".join(preload)
            if fail:
                environment["SIMGPU_FAIL"] = fail
            self.run(sweep, folder, SCRIPT.format(seed=sweep.seed, capture=capture) +
                     ("reclaim; await vramgc.held_bytes == 0\n" if library and not stays else ""), environment)
            self.read_calls(folder)
            self.used = None if library and stays else self.used
            self.libc_calls = self.read_libc(folder + "/libc")

    def run(self, sweep, folder, script, environment):
        with open(folder + "/script", "w") as file:
            file.write(script)
        try:
            done = subprocess.run([sweep.driver, folder + "/script"], env=environment, capture_output=True, text=True, errors="replace",
                                  timeout=LIMIT_S, cwd=folder, stdin=subprocess.DEVNULL)
            self.status, self.printed, self.errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as hung:
            self.status, self.printed, self.errors = "hangs", str(hung.stdout), str(hung.stderr)

    def read_calls(self, folder):
        self.calls, self.all_calls, self.failed, self.used = {}, {}, 0, None
        if not os.path.exists(folder + "/calls"):
            return
        for line in open(folder + "/calls"):
            word = line.split()
            if word[0] == "call":
                self.all_calls[word[1]] = self.all_calls.get(word[1], 0) + int(word[3])
            if word[0] == "call" and word[2] == "libvramgc.so":
                self.calls[word[1]] = int(word[3])
            elif word[0] == "failed":
                self.failed = int(word[1])
            elif word[0] == "used":
                self.used = int(word[1])

    def read_libc(self, path):
        return dict((a, (int(b), int(c))) for a, b, c in re.findall(r"(\w+) (\d+) (\d+)", open(path).read())) if os.path.exists(path) else {}

    def ooms(self):
        return sum(map(int, re.findall(r"ooms=(\d+)", self.printed)))

    def complaints(self, measure, counted=True):
        """In what it differs from the other run, for the worse. Not counted: but for how often memory was refused."""
        found = []
        if self.status != measure.status:
            found.append(f"status {self.status}, not {measure.status}")
        if self.printed != measure.printed and (counted or COUNTS.sub("", self.printed) != COUNTS.sub("", measure.printed)):
            found.append("prints something else")
        if "simgpu: ERROR" in self.errors:
            found.append("the device complains")
        if self.used is not None and self.used > measure.used:
            found.append(f"{self.used} bytes left, not {measure.used}")
        return found

    def takes_it_for_a_lack_of_memory(self):
        """Of an error that says something else: whatever else comes of it, that must not."""
        printed = self.printed.replace("oom x", "")  # cudaMalloc, whatever it answered
        found = ["out of memory"] if re.search(r"oom |ooms=[1-9]", printed) or "out of memory" in printed + self.errors else []
        killed = self.status == "hangs" or (self.status < 0 and not self.is_ended_by_pytorch())
        return found + ([f"status {self.status}"] if killed else [])

    def is_ended_by_pytorch(self):
        """It throws the error also where a tensor is freed, which nobody may catch."""
        return self.status == -signal.SIGABRT and "terminate called after throwing an instance of 'c10::" in self.errors


def indices(count, full):
    """Each up to full, then ever fewer; the last one always."""
    chosen, k = set(range(1, min(count, full) + 1)), full
    while k < count:
        k = int(k * 1.5) + 1
        chosen.add(min(k, count))
    return sorted(chosen)


class Sweep:
    def __init__(self, options):
        self.options = options
        self.library = os.environ.get("VRAMGC_LIBRARY", ROOT + "/build/libvramgc.so")
        self.driver = f"{ROOT}/build/c10/{options.version}/c10drive"
        self.seed = options.seed
        self.environment = simulated_environment("13" if int(options.version.split(".")[1]) >= 11 else "12")
        self.failures = 0
        self.differences = []

    def small_cards(self, name):
        """What a workload that spills prints on its small card where nothing lies in the host, and without the library: where a trial of
        the library fails it can do no better."""
        if SPILL not in WORKLOADS[name]:
            return []
        return [Run(self, name, True, VRAMGC_SPILL="0"), Run(self, name, False, SIMGPU_MEM=SPILL["SIMGPU_MEM"])]

    def judge(self, name, run, fail, measure, small):
        """A call that is only passed on fails without the library as well. Which requests a full card refuses is a matter of
        time, too: they may be others than on the small cards, and not more; after another error about as many, else that error was
        taken for a lack of memory."""
        ooms = [card.ooms() for card in small]
        full = small and run.ooms() <= max(ooms) and (lacks(fail) or run.ooms() >= min(ooms) * NEARLY)
        if full and any(not run.complaints(other, counted=False) for other in small):
            return []
        if not lacks(fail):
            return run.takes_it_for_a_lack_of_memory()
        complaints = run.complaints(measure)
        if complaints and fail and self.is_passed_on(name, fail, run, measure, small):
            complaints = []
        return complaints

    def is_passed_on(self, name, fail, run, measure, small):
        """The library answers some calls itself, so that it is not the same index: one of them must be no better. On a small card PyTorch
        alone is refused memory anyhow: there the end must be as bad, or as much must be left."""
        function, n, code = fail.split("@")[0].split(":")
        settings = {"SIMGPU_MEM": SPILL["SIMGPU_MEM"]} if small else {}
        if small and not run.status:
            return False
        for k in range(1, min((small or [measure])[-1].all_calls.get(function, 0), 60) + 1):
            plain = Run(self, name, False, f"{function}:{k}:{code}", **settings)
            crashed = plain.status != 0 and not plain.failed  # it could not write down that a call was made to fail
            if ((plain.failed or crashed) and plain.complaints(measure) and "simgpu: ERROR" not in run.errors and
                    (plain.status == run.status or (plain.used == run.used and (plain.used or not small)))):
                return True
        return False

    def tell(self, name, what, run, complaints):
        """At once, for who watches, and once more at the end, where who reads only the end of a log finds it."""
        lines = run.printed.splitlines()[-3:] + run.errors.splitlines()[-3:]
        self.differences.append("\n    ".join([f"{name} {what}: {'; '.join(complaints)}"] + [line[:200] for line in lines]))
        print(self.differences[-1], flush=True)

    def jobs(self, base):
        for function, count in sorted(base.calls.items()):
            if self.options.calls and function not in self.options.calls:
                continue
            for n in indices(count, self.options.full):
                for code in self.options.codes:
                    yield f"{function}:{n}:{code}@libvramgc.so"
            for n in indices(count, 2) if function in QUESTIONS else []:
                yield f"{function}:{n}+:{self.options.codes[0]}@libvramgc.so"

    def libc_jobs(self, base):
        for function, (count, _) in sorted(base.libc_calls.items()):
            if self.options.calls and function not in self.options.calls:
                continue
            for n in indices(count, self.options.full):
                yield f"{function}:{n}:1"
            for n in indices(count, 2):
                yield f"{function}:{n}{ALWAYS}"

    def one(self, name, measure, small, job):
        run = Run(self, name, True, libc=job) if self.options.libc else Run(self, name, True, job)
        failed = sum(hits for _, hits in run.libc_calls.values()) if self.options.libc else run.failed
        return job, run, failed, self.judge(name, run, None if self.options.libc else job, measure, small)

    def workload(self, name, pool):
        measure = Run(self, name, False)
        base = Run(self, name, True, libc="none:0:0" if self.options.libc else None)
        small = self.small_cards(name)
        complaints = base.complaints(measure) + ["nothing lies in the host" for other in small if not other.complaints(measure)]
        if complaints or measure.status != 0:
            self.tell(name, "without a failure", base, complaints or ["fails without the library"])
            return
        jobs = list(self.libc_jobs(base) if self.options.libc else self.jobs(base))
        made = 0
        for job, run, failed, complaints in pool.map(lambda job: self.one(name, measure, small, job), jobs):
            made += failed
            if complaints:
                self.tell(name, job, run, complaints)
        self.failures += made
        print(f"{name}: {len(jobs)} runs, {made} failures", flush=True)

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for name in self.options.workloads or WORKLOADS:
                if self.options.libc and SPILL in WORKLOADS[name]:
                    continue  # a host that has no memory has none for blocks either: they are rightly refused
                self.workload(name, pool)
        print(f"{self.failures} injected failures, {len(self.differences)} differences")
        for difference in self.differences:
            print(difference)
        return 1 if self.differences or not self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--full", type=int, default=12, help="every index up to this one")
    parser.add_argument("--codes", type=lambda text: [int(code) for code in text.split(",")], default=[OUT_OF_MEMORY])
    parser.add_argument("--calls", type=lambda text: text.split(","), help="only these functions")
    parser.add_argument("--libc", action="store_true", help="calls into libc instead")
    parser.add_argument("--jobs", type=int, default=4, help="most of a run is waiting")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--version", required=True, help="of PyTorch, whose c10drive is built")
    sys.exit(Sweep(parser.parse_args()).run())


if __name__ == "__main__":
    main()
