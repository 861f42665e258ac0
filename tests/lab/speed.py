"""scripts/lab --speed: how long the workloads take with the latencies of a card, without and with
the library in turn: at 1.05 times the live memory, and where memory is plentiful.

Pairs alternate (A B, B A, ...). The time is that of Python, PyTorch, the driver's calls, and kernels
that all last as long as one of Stable Diffusion 1.5 at 512x512 in the mean (see the simulated
device's latency.h); those of larger images last longer, so that every difference is a smaller part
there."""

import statistics

import cells
from runner import Kind

PRESSURE = 1.05
MOST_WITHOUT_PRESSURE = 1.005


def pairs(args, left, right, workload, mem_bytes):
    """The results of all rounds, [(without, with)]."""
    found = []
    for number in range(args.rounds):
        what = {"number": number, "latency": "card"}
        sides = (left, right) if number % 2 == 0 else (right, left)
        results = {side: side(workload, mem_bytes, **what) for side in sides}
        found.append((results[left], results[right]))
        if not all(result["ok"] for result in found[0]):
            break  # it will not complete the next time either
    return found


def side(results):
    """The lower quartile of the times: what is above it is other programs' work."""
    if not all(result["ok"] for result in results):
        return {"ok": False}
    keys = ("seconds", "cpu_seconds", "latency_seconds")
    return {"ok": True, "refused": max(result["refused"] for result in results)} | {
        key: round(lower_quartile([result[key] for result in results]), 3) for key in keys
    }


def lower_quartile(values):
    return statistics.quantiles(values, n=4, method="inclusive")[0] if values[1:] else values[0]


def work_seconds(result):
    """Of the processor, and what the driver's calls were made to last. The device lets the last 60
    µs of each call pass busily, which so count twice: to the disadvantage of whoever calls more."""
    return result["cpu_seconds"] + result["latency_seconds"]


def ratio(found, seconds):
    """Median of the ratios of the pairs, with ÷ without, or None."""
    if not all(result["ok"] for pair in found for result in pair):
        return None
    return round(statistics.median(seconds(right) / seconds(left) for left, right in found), 4)


def row(args, left, right, workload, pressure):
    base = cells.plenty(left, workload)
    mem_bytes = cells.PLENTY_BYTES
    if pressure:
        live = int(base["live_peak_bytes"] * PRESSURE)
        mem_bytes = cells.device_of(cells.search.steps(live), base)
    found = pairs(args, left, right, workload, mem_bytes)
    return {
        "workload": workload,
        "setting": left.kind.setting,
        "pressure": pressure,
        "device_bytes": mem_bytes,
        "without": side([pair[0] for pair in found]),
        "with": side([pair[1] for pair in found]),
        "ratio": ratio(found, lambda result: result["seconds"]),
        "work_ratio": ratio(found, work_seconds),
    }


def seconds_text(side):
    if not side["ok"]:
        return f"{'out of memory':>22s}"
    mark = "*" if side["refused"] else " "
    return f"{side['seconds']:7.2f} {side['cpu_seconds']:6.2f} {side['latency_seconds']:6.2f}{mark}"


def text(rows):
    lines = [
        "simulated device with the latencies of a card: seconds, of the processor, of the driver's",
        "calls (* requests were refused: less work); with / without: wall, processor + driver",
        f"{'workload':12s} {'setting':10s} {'device':10s} | {'without':>22s} | {'with':>22s} | "
        f"{'wall':>6s} {'work':>6s}",
    ]
    for found in rows:
        device = "1.05 live" if found["pressure"] else "80 GiB"
        ratios = " ".join(
            f"{'-' if found[key] is None else format(found[key], '6.3f'):>6s}"
            for key in ("ratio", "work_ratio")
        )
        lines.append(
            f"{found['workload']:12s} {found['setting']:10s} {device:10s} | "
            f"{seconds_text(found['without'])} | {seconds_text(found['with'])} | {ratios}"
        )
    return "\n".join(lines)


def missed(found):
    name = f"{found['workload']} {found['setting']}"
    if not found["with"]["ok"]:
        return [f"{name}: out of memory with the library"]
    if found["ratio"] is None:
        return []
    if found["pressure"] and found["ratio"] > 1:
        return [f"{name} at 1.05 x live: {found['ratio']} times as long as without"]
    if not found["pressure"] and found["ratio"] > MOST_WITHOUT_PRESSURE:
        return [f"{name} without pressure: {found['ratio']} times as long as without"]
    return []


def measure(args, runs):
    rows = []
    for setting in args.settings:
        with runs(Kind(setting)) as left, runs(Kind(setting, args.vramgc)) as right:
            for workload in args.workloads:
                rows += [row(args, left, right, workload, pressure) for pressure in (True, False)]
    return {
        "rows": rows,
        "text": text(rows),
        "missed": [line for found in rows for line in missed(found)],
    }
