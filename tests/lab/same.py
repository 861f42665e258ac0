"""scripts/lab --same: what a workload gives out and what PyTorch counts are the same with the
library as without it.

Each workload runs twice without and once with it where memory is plentiful, then with it on a
device that just holds what PyTorch holds there: nothing need be refused, but the device is nearly
full. What differs between the two runs without it is left out and named. PyTorch's
allocator setting is left as it is, or the counters would be those of another setting."""

import cells
from runner import Kind

MORE_STEPS = 2  # for what others than PyTorch's allocator take


def flat(result):
    """Everything to compare, by name."""
    found = result["same"]
    named = {f"counter {name}": value for name, value in found["counters"].items()}
    named |= {f"output {i}": value for i, value in enumerate(found["outputs"])}
    return named | {"contents": found["contents"], "outputs": len(found["outputs"])}


def unsteady(first, second):
    """Names of what is not the same from run to run."""
    return {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}


def differences(first, second, left_out):
    names = (first.keys() | second.keys()) - left_out
    return [
        f"{name} {first.get(name)} -> {second.get(name)}"
        for name in sorted(names)
        if first.get(name) != second.get(name)
    ]


def segment_counters(expected):
    """Names of counters of what PyTorch holds. Emptying its cache, or the driver's pool that it
    takes from, changes them, whoever does it."""
    words = (
        "reserved_bytes",
        "segment",
        "oversize_segments",
        "num_device_",
        "num_sync_all",
        "inactive_split",
    )
    return {name for name in expected if name.startswith(tuple(f"counter {w}" for w in words))}


def workspace_counters(expected):
    """Sums of bytes: a convolution's workspace is as large as PyTorch finds memory free for it, and
    how much is free on a device that is nearly full depends on when idle memory has gone."""
    sums = ("active_bytes", "allocated_bytes", "requested_bytes")
    named = tuple(f"counter {name}" for name in sums)
    return {
        name
        for name in expected
        if name.startswith(named) and name.endswith((".allocated", ".freed"))
    }


def rest_counters(expected):
    """A block keeps the rest of the piece that it is cut from where that is less than 1 MiB. Which
    piece that is depends on what the cache holds."""
    sums = ("counter active_bytes", "counter allocated_bytes")
    return {name for name in expected if name.startswith(sums) and name.endswith(".peak")}


def tight_bytes(base):
    return cells.device_of(cells.search.steps(base["held_peak_bytes"]) + MORE_STEPS, base)


def row(workload, left, right, own_pool=False):
    """own_pool: what the library's pool holds PyTorch counts as reserved, and not the driver's."""
    base = left(workload, cells.PLENTY_BYTES, same=True, number=0)
    again = left(workload, cells.PLENTY_BYTES, same=True, number=1)
    plenty = right(workload, cells.PLENTY_BYTES, same=True)
    tight = right(workload, tight_bytes(base), same=True)
    expected, left_out = flat(base), unsteady(flat(base), flat(again))
    refused = not tight["ok"] or bool(tight["refused"] or tight["retries"])
    emptied = bool(tight["emptied"])
    segments = segment_counters(expected)
    in_plenty = left_out | (segments if own_pool else set())
    of_cache = segments | rest_counters(expected) if emptied else set()
    in_tight = in_plenty | workspace_counters(expected) | of_cache
    return {
        "workload": workload,
        "setting": left.kind.setting,
        "compared": len(expected.keys() - left_out),
        "left_out": sorted(left_out),
        "plenty": differences(expected, flat(plenty), in_plenty),
        "tight": None if refused else differences(expected, flat(tight), in_tight),
        "emptied": emptied,
        "own_pool": own_pool,
        "device_errors": (plenty["device_errors"] or 0) + (tight["device_errors"] or 0),
    }


def verdict(row, key):
    if row[key] is None:
        return "refused"
    if row[key]:
        return f"{len(row[key])} differ"
    return "the same" + "*" * (row["own_pool"] or (key == "tight" and row["emptied"]))


def text(rows):
    lines = [
        "outputs, contents of tensors, PyTorch's counters: with the library against without it",
        "(* it had PyTorch empty its cache, trimmed the driver's pool, or had a pool of its own:",
        "counters of segments left out; nearly full: sums of bytes, too)",
        f"{'workload':12s} {'setting':10s} {'compared':>8s} {'80 GiB':>10s} {'nearly full':>12s}",
    ]
    for found in rows:
        lines.append(
            f"{found['workload']:12s} {found['setting']:10s} {found['compared']:8} "
            f"{verdict(found, 'plenty'):>10s} {verdict(found, 'tight'):>12s}"
        )
        if found["left_out"]:
            lines.append(f"{'':12s} differs from run to run: {', '.join(found['left_out'])}")
    return "\n".join(lines)


def missed(found):
    name = f"{found['workload']} {found['setting']}"
    lines = [
        f"{name}, {where}: {line}"
        for where, key in (("80 GiB", "plenty"), ("nearly full", "tight"))
        for line in found[key] or []
    ]
    if found["device_errors"]:
        lines.append(f"{name}: the simulated device reported errors")
    return lines


def measure(args, runs):
    rows = []
    for setting in args.settings:
        with runs(Kind(setting)) as left, runs(Kind(setting, args.vramgc, keep=True)) as right:
            own_pool = args.own_pool and setting == "async"
            rows += [row(workload, left, right, own_pool) for workload in args.workloads]
    return {
        "rows": rows,
        "text": text(rows),
        "missed": [line for found in rows for line in missed(found)],
    }
