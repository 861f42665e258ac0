"""What `make demo` shows: Stable Diffusion 1.5 without and with vramgc side by side, then Flux
with a LoRA on a 24 GiB card, and which setting would have been enough for it.

Each case is one `scripts/lab`, so that everything shown can be repeated by hand. Needs no
package: started by scripts/demo with the system's Python."""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import time

import sizes

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "demo"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    words: tuple
    gpu: bool  # on the machine's GPU, if the user's PyTorch sees one


SIMULATED_SD15_CARD = ("--mem", "12GiB")
SD15_WITHOUT = Case("sd15-without", "SD 1.5 without giving back", ("sd15", "--vramgc", "observe"), True)
SD15_WITH = Case(
    "sd15-with", "SD 1.5 with vramgc", ("sd15", "--vramgc", "auto", "--lowvram"), True
)
FLUX_WITHOUT = Case(
    "flux-without",
    "Flux + LoRA, PyTorch's default",
    ("flux", "--mem", "24GiB", "--vramgc", "observe"),
    False,
)
FLUX_WITH = Case(
    "flux-with", "Flux + LoRA under vramgc", ("flux", "--mem", "24GiB", "--vramgc", "auto"), False
)
CASES = (SD15_WITHOUT, SD15_WITH, FLUX_WITHOUT, FLUX_WITH)


class Failure(Exception):
    """The demo cannot be shown; the text says why."""


def say(text=""):
    print(text, flush=True)


def file_of(case, kind):
    return OUT / f"{case.name}.{kind}"


def shown(path):
    return os.path.relpath(path)


def command(case, on_gpu):
    words = [str(ROOT / "scripts" / "lab"), *case.words]
    if case.gpu and not on_gpu:
        words += SIMULATED_SD15_CARD
    return words + ["--json", str(file_of(case, "json")), "--report", str(file_of(case, "vramgc"))]


def run(case, on_gpu):
    """The case's figures; its output goes to a log file."""
    env = dict(os.environ, VRAMGC_RECORD="1")
    if not (case.gpu and on_gpu):
        env.pop("PYTHON", None)  # the simulated device runs the environment of build/venv
    begin = time.monotonic()
    with open(file_of(case, "log"), "w", encoding="utf-8") as log:
        subprocess.run(command(case, on_gpu), env=env, stdout=log, stderr=log, check=False)
    if not file_of(case, "json").exists():
        tail = file_of(case, "log").read_text(encoding="utf-8").splitlines()[-3:]
        raise Failure(
            "\n".join([f"{case.title} could not be run; see {shown(file_of(case, 'log'))}:", *tail])
        )
    say(f"   done: {case.title:32s} {time.monotonic() - begin:5.0f} s")
    return json.loads(file_of(case, "json").read_text(encoding="utf-8"))


def run_all(on_gpu):
    """The figures of all cases by name. On a GPU one at a time, so that none sees the memory of
    another."""
    workers = 1 if on_gpu else min(4, os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = {case.name: pool.submit(run, case, on_gpu) for case in CASES}
        return {name: future.result() for name, future in futures.items()}


def verdict(case):
    words = [str(ROOT / "build" / "vramgc"), "report", "--json", str(file_of(case, "vramgc"))]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["verdict"]["text"]


def number(value, digits):
    return "-" if value is None else f"{value:,.{digits}f}"


ROWS = (
    ("live memory, at most", lambda r: sizes.show(r["live_peak_bytes"])),
    ("held from the driver, at most", lambda r: sizes.show(r["held_peak_bytes"])),
    ("held at rest, model still loaded", lambda r: sizes.show(r["held_rest_bytes"])),
    ("held / live, on average", lambda r: number(r["held_over_live_weighted"], 2)),
    ("times idle memory was given back", lambda r: number(r["reclaims"], 0)),
    ("  time of all of them", lambda r: f"{r['reclaim_ns'] / 1e6:.1f} ms"),
    ("calls to the driver for memory", lambda r: number(r["driver_calls"], 0)),
    ("  and of vramgc itself for pages", lambda r: number(r["page_calls"], 0)),
    ("PyTorch's retries, out of memory", lambda r: f"{r['retries']}, {r['ooms']}"),
    ("loading and ten jobs", lambda r: f"{r['seconds']:.1f} s"),
)


def table(left, right):
    lines = [f"   {'':34s}{'without it':>18s}{'with vramgc':>18s}"]
    lines += [f"   {name:34s}{show(left):>18s}{show(right):>18s}" for name, show in ROWS]
    return "\n".join(lines)


def outcome(result):
    return "completed" if result["ok"] else "OUT OF MEMORY"


def show_sd15(results):
    left, right = results[SD15_WITHOUT.name], results[SD15_WITH.name]
    say()
    say(
        "1. Stable Diffusion 1.5: ten jobs, 512x512 to 1536x1024 in two passes, batch up to 8,\n"
        "   a LoRA loaded and unloaded"
    )
    say()
    say(table(left, right))
    say()
    say(
        "   with vramgc: vramgc run --mode auto --lowvram; nothing in Python or PyTorch was changed"
    )


def show_flux(results):
    say()
    say("2. Flux (bf16, T5-XXL, 12 billion parameters) with a LoRA on a simulated card of 24 GiB")
    say()
    for case in (FLUX_WITHOUT, FLUX_WITH):
        result = results[case.name]
        say(
            f"   {case.title:32s} {outcome(result):14s} "
            f"live {sizes.show(result['live_peak_bytes'])}, "
            f"held {sizes.show(result['held_peak_bytes'])}, retries {result['retries']}"
        )
        say(textwrap.fill(verdict(case), 90, initial_indent=" " * 6, subsequent_indent=" " * 6))


def show_whatif():
    """Of the run that was out of memory: which card, which setting would have been enough. Its PyTorch has stand-ins for a wheel's
    libraries."""
    vendor = next((ROOT / "build" / "sim" / "vendor").iterdir())
    settings = ("", "expandable_segments:True", "max_split_size_mb:128", "flush", "compact")
    words = [word for setting in settings for word in ("--setting", setting)]
    done = subprocess.run(
        [str(ROOT / "build/vramgc"), "whatif", "--card", "24GiB", *words, str(file_of(FLUX_WITHOUT, "vramgc"))],
        env=dict(os.environ, LD_LIBRARY_PATH=str(vendor)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    say()
    say("3. Which setting would have been enough for Flux with PyTorch's default? `vramgc whatif`, on no card:")
    say()
    say(textwrap.indent(done.stdout.rstrip(), "   "))


def show_files():
    say()
    say(f"Reports: {', '.join(shown(file_of(case, 'vramgc')) for case in CASES)}")
    say(
        f"   one run:   {shown(ROOT / 'build/vramgc')} report {shown(file_of(SD15_WITH, 'vramgc'))}"
    )
    pair = f"{shown(file_of(SD15_WITHOUT, 'vramgc'))} {shown(file_of(SD15_WITH, 'vramgc'))}"
    say(f"   two runs:  {shown(ROOT / 'build/vramgc')} diff {pair}")
    say(f"   figures:   {shown(OUT)}/*.json; output of the runs: {shown(OUT)}/*.log")


def complaints(results):
    """What did not go as it should, a line each."""
    wanted = {SD15_WITHOUT: True, SD15_WITH: True, FLUX_WITHOUT: False, FLUX_WITH: True}
    return [
        f"{case.title}: {outcome(results[case.name])}, which was not expected "
        f"({results[case.name]['error']})"
        for case, ok in wanted.items()
        if results[case.name]["ok"] != ok
    ]


def introduction(on_gpu):
    say("== real PyTorch and diffusers; full-size models from public configurations, no weights")
    if on_gpu:
        say(
            "   Stable Diffusion 1.5 runs on this machine's GPU with the PyTorch of PYTHON;\n"
            "   Flux on a SIMULATED card of 24 GiB."
        )
    else:
        say(
            "   SIMULATED: the CUDA device (a card of 12 GiB, then one of 24 GiB), its driver,\n"
            "   runtime, cuBLAS and cuDNN. Kernels compute nothing; memory is accounted as on a"
        )
        say("   card, but times are those of Python and PyTorch alone.")
    say(f"   four runs, each a Python process; logs in {shown(OUT)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--gpu", action="store_true", help="PYTHON's PyTorch sees a GPU: use it for SD 1.5"
    )
    on_gpu = parser.parse_args().gpu
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    introduction(on_gpu)
    try:
        results = run_all(on_gpu)
    except Failure as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    show_sd15(results)
    show_flux(results)
    show_whatif()
    show_files()
    wrong = complaints(results)
    for line in wrong:
        print(f"demo: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
