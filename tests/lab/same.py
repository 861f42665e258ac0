"""scripts/lab --same: what a workload gives out and what PyTorch counts are the same with the
library as without it.

Each workload runs twice without and once with it where memory is plentiful, then with it at 1.05
times the live memory. What differs between the two runs without it is left out and named. PyTorch's
allocator setting is left as it is, or the counters would be those of another setting."""

import cells
from runner import Kind
from speed import PRESSURE


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


def tight_bytes(base):
    return cells.device_of(cells.search.steps(int(base["live_peak_bytes"] * PRESSURE)), base)


def row(workload, left, right):
    base = left(workload, cells.PLENTY_BYTES, same=True, number=0)
    again = left(workload, cells.PLENTY_BYTES, same=True, number=1)
    plenty = right(workload, cells.PLENTY_BYTES, same=True)
    tight = right(workload, tight_bytes(base), same=True)
    expected, left_out = flat(base), unsteady(flat(base), flat(again))
    refused = not tight["ok"] or bool(tight["refused"] or tight["retries"])
    return {
        "workload": workload,
        "setting": left.kind.setting,
        "compared": len(expected.keys() - left_out),
        "left_out": sorted(left_out),
        "plenty": differences(expected, flat(plenty), left_out),
        "tight": None if refused else differences(expected, flat(tight), left_out),
        "device_errors": (plenty["device_errors"] or 0) + (tight["device_errors"] or 0),
    }


def verdict(found):
    if found is None:
        return "refused"
    return "the same" if not found else f"{len(found)} differ"


def text(rows):
    lines = [
        "outputs, contents of tensors, PyTorch's counters: with the library against without it",
        f"{'workload':12s} {'setting':10s} {'compared':>8s} {'80 GiB':>10s} {'1.05 live':>10s}",
    ]
    for found in rows:
        lines.append(
            f"{found['workload']:12s} {found['setting']:10s} {found['compared']:8} "
            f"{verdict(found['plenty']):>10s} {verdict(found['tight']):>10s}"
        )
        if found["left_out"]:
            lines.append(f"{'':12s} differs from run to run: {', '.join(found['left_out'])}")
    return "\n".join(lines)


def missed(found):
    name = f"{found['workload']} {found['setting']}"
    lines = [
        f"{name}, {where}: {line}"
        for where, key in (("80 GiB", "plenty"), ("1.05 x live", "tight"))
        for line in found[key] or []
    ]
    if found["device_errors"]:
        lines.append(f"{name}: the simulated device reported errors")
    return lines


def measure(args, runs):
    rows = []
    for setting in args.settings:
        with runs(Kind(setting)) as left, runs(Kind(setting, args.vramgc, keep=True)) as right:
            rows += [row(workload, left, right) for workload in args.workloads]
    return {
        "rows": rows,
        "text": text(rows),
        "missed": [line for found in rows for line in missed(found)],
    }
