#!/usr/bin/env python3
"""What libvramgc.so costs: runs the benchmarks, prints a table of ratios, and writes all of it as JSON.

Everything runs on the simulated device without latency, so a call into the driver costs far less than on a
card, and ratios of such calls look worse here than there. Nothing passes or fails by time. See README.md."""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIMGPU = [str(ROOT / "tests/on_card"), "--mem", "24GiB"]
TORCH_ROWS = {
    "empty": "torch.empty + del",
    "step": "training step of a small network",
    "launch": "launch of a kernel by PyTorch",
    "copy": "copy of 1 KiB to the device",
    "event": "event recorded",
    "replay": "graph of eight launches replayed",
}
ALLOCATOR_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def environment(library, record=0):
    """The user's, without his settings of vramgc and PyTorch's allocator; library is None or a path."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VRAMGC_", "SIMGPU_")) and name not in ALLOCATOR_SETTINGS + ("LD_PRELOAD",)
    }
    if library:
        kept.update(LD_PRELOAD=library, VRAMGC_MODE="observe", VRAMGC_OUT=str(ROOT / "build/bench/%p.vramgc"),
                    VRAMGC_RECORD=str(record))
    return kept


def run(command, library, record=0):
    """The JSON lines that the command printed. Its statistics file is removed."""
    process = subprocess.Popen(command, env=environment(library, record), stdout=subprocess.PIPE, text=True)
    output = process.communicate()[0]
    for file in (ROOT / "build/bench").glob(f"{process.pid}.vramgc*"):
        file.unlink()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}")
    return [json.loads(line) for line in output.splitlines()]


def quartiles(values):
    ordered = sorted(values)
    return [ordered[round(share * (len(ordered) - 1))] for share in (0.25, 0.5, 0.75)]


def alternate(measure, pairs):
    """measure(side) for side 0 (without) and 1 (with), as 0 1 1 0 0 1 …: two lists of what it returned."""
    sides = ([], [])
    for pair in range(pairs):
        for side in (pair % 2, 1 - pair % 2):
            sides[side].append(measure(side))
    return sides


def paired_row(name, unit, without, with_library, rounds, **more):
    low, middle, high = quartiles([b - a for a, b in zip(without, with_library)])
    return dict(name=name, unit=unit, without=statistics.median(without), added=middle, added_low=low,
                added_high=high, rounds=rounds, **{"with": statistics.median(with_library)}, **more)


def native_rows(arguments):
    """Block events, cudaMalloc and look-ups: interleaved inside one process each."""
    bench = [*SIMGPU, "--cuda", "13", "--", str(ROOT / "build/bench/bench")]
    for what in ("blocks", "calls"):
        yield from run([*bench, what], arguments.library)
    if arguments.real:
        real = [*SIMGPU, "--cuda", "13", "--", str(ROOT / "build/bench/bench_real"), arguments.real]
        yield from run(real, arguments.library)


def record_rows(arguments):
    """What `--record` adds to a block event: with the library on both sides, and on one with VRAMGC_RECORD=1."""
    bench = [*SIMGPU, "--cuda", "13", "--", str(ROOT / "build/bench/bench"), "blocks"]
    sides = alternate(lambda side: run(bench, arguments.library, side), arguments.pairs)
    for index, row in enumerate(sides[0][0]):
        values = [[rows[index]["with"] for rows in side] for side in sides]
        yield paired_row(f"--record: {row['name']}", "ns", *values, arguments.pairs)


def torch_rows(arguments):
    """A whole PyTorch, in processes of its own, because it cannot be had twice in one."""
    script = str(ROOT / "tests/bench/torch_loop.py")
    command = [*SIMGPU, "--", arguments.python, script]

    def measure(side):
        return run(command, arguments.library if side else None)[0]

    measure(0)  # from now on all files are in the page cache
    sides = alternate(measure, arguments.pairs)
    for key, name in TORCH_ROWS.items():
        values = [[result[key] for result in side] for side in sides]
        yield paired_row(name, "ns", *values, arguments.pairs)


def memory_rows(arguments):
    """Resident memory of a process with so many live blocks."""
    for name, live in (("resident memory, 10^4 live blocks", 10**4), ("resident memory, 10^6 live blocks", 10**6)):
        command = [*SIMGPU, "--cuda", "13", "--", str(ROOT / "build/bench/bench"), "memory", str(live)]

        def measure(side, command=command):
            return run(command, arguments.library if side else None)[0]["resident_kib"]

        yield paired_row(name, "KiB", *alternate(measure, 5), 5)


def spawn_true(library):
    """Microseconds and page faults of a process that does not use CUDA."""
    start = time.perf_counter_ns()
    pid = os.posix_spawn("/bin/true", ["true"], environment(library))
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise RuntimeError("/bin/true failed")
    return (time.perf_counter_ns() - start) / 1000, usage.ru_minflt + usage.ru_majflt


def process_rows(arguments):
    sides = alternate(lambda side: spawn_true(arguments.library if side else None), arguments.processes)
    for name, unit, index in (("start and end of `true`", "us", 0), ("page faults of `true`", "faults", 1)):
        yield paired_row(name, unit, *[[result[index] for result in side] for side in sides], arguments.processes)


def shown(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def show(row):
    ratio = row["with"] / row["without"] if row["without"] else float("nan")
    spread = f"{shown(row['added_low'])} … {shown(row['added_high'])}"
    print(f"{row['name']:50} {row['unit']:6} {shown(row['without']):>10} {shown(row['with']):>10} "
          f"{shown(row['added']):>10}   {spread:20} {ratio:8.3f} {row['rounds']:6}", flush=True)
    return dict(row, ratio=ratio)


def machine():
    model = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {"cpu": model[0] if model else platform.machine(), "cpus": os.cpu_count(), "system": platform.platform()}


def has_torch(python):
    find = [python, str(ROOT / "tests/sim/gen/find_torch.py")]
    return subprocess.run(find, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=os.path.abspath, required=True, help="libvramgc.so")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where the JSON goes")
    parser.add_argument("--real", type=os.path.abspath, help="libreal_allocator.so")
    parser.add_argument("--python", default=os.environ.get("PYTHON", str(ROOT / "build/venv/bin/python")),
                        help="an interpreter with PyTorch")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of processes for each PyTorch row")
    parser.add_argument("--only", choices=("native", "record", "memory", "process", "torch"), action="append",
                        help="only these rows; may be given several times")
    parser.add_argument("--processes", type=int, default=200, help="pairs of processes of `true`")
    return parser.parse_args()


def chosen(arguments):
    """The functions that yield the rows, and a line for everything that is not there."""
    kinds = {"native": native_rows, "record": record_rows, "memory": memory_rows, "process": process_rows, "torch": torch_rows}
    kinds = {name: kind for name, kind in kinds.items() if not arguments.only or name in arguments.only}
    skipped = []
    if "native" in kinds and not arguments.real:
        skipped.append("PyTorch's real allocator: not there (make c10drive)")
    if "torch" in kinds and not has_torch(arguments.python):
        del kinds["torch"]
        skipped.append("torch.empty and training step: no PyTorch (scripts/setup-python, or PYTHON=…)")
    return list(kinds.values()), skipped


def main():
    arguments = parse()
    kinds, skipped = chosen(arguments)
    print(f"{'':50} {'unit':6} {'without':>10} {'with':>10} {'added':>10}   {'quartiles of added':20} {'ratio':>8} "
          f"{'rounds':>6}")
    try:
        rows = [show(row) for kind in kinds for row in kind(arguments)]
    except (OSError, RuntimeError) as error:
        sys.exit(f"bench: {error}")
    for line in skipped:
        print(f"SKIPPED {line}")
    arguments.out.write_text(json.dumps({"machine": machine(), "rows": rows, "skipped": skipped}, indent=1) + "\n")
    print(f"written to {os.path.relpath(arguments.out)}; one round of both sides each, see tests/bench/README.md")


if __name__ == "__main__":
    main()
