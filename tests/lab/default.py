"""scripts/lab --default: what is held over time in the mode that users get (no --lowvram, threshold
80), against the same setting of PyTorch's allocator without the library: on average, two seconds
after jobs, at rest, and how long idle memory stays above the threshold.

Three sides: without the library; `auto`, what a user gets; and `keep`, VRAMGC_ALLOC_CONF=keep,
which leaves PyTorch its own segments where the setting says nothing of expandable ones."""

import concurrent.futures

import sizes
import workloads
from runner import SETTINGS, Kind

PLENTY = "80GiB"
# Devices that the workload nearly fills.
SMALL = {
    "sd15": "8GiB",
    "sdxl": "16GiB",
    "sdxl_offload": "7GiB",
    "flux": "26GiB",
    "serve": "8GiB",
    "survivors": "8GiB",
}
LARGE = {"survivors": "24GiB"}  # it fills whatever there is
SIDES = ("without", "auto", "keep")
FIGURES = (
    "held_average_bytes held_working_bytes live_average_bytes held_after_bytes "
    "held_after_most_bytes held_end_bytes held_most_bytes live_most_bytes idle_above_seconds "
    "unwanted_above_seconds retries ooms refused seconds ok error mode device_errors notes"
).split()
# Held and idle: what differs by less than this much is noise of when the samples are taken.
SAME_SHARE, SAME_BYTES = 1.01, 32 << 20
MOST_SECONDS = 0.5  # of unwanted memory above the threshold, after the second that it may wait


def devices(workload, chosen):
    found = {"plenty": LARGE.get(workload, PLENTY), "small": SMALL[workload]}
    return [(name, size) for name, size in found.items() if name in chosen]


def sides(args, setting):
    """Where the setting speaks of segments already, keeping it is no other side."""
    spoken = setting in ("expandable", "async")
    return [side for side in args.sides if not (spoken and side == "keep")]


def kind(args, setting, side):
    if side == "without":
        return Kind(setting)
    return Kind(setting, args.vramgc, keep=side == "keep")


def column(args, runs, setting, side):
    """All runs of one kind."""
    rows = []
    with runs(kind(args, setting, side)) as run:
        for workload in args.workloads:
            for device, size in devices(workload, args.devices):
                result = run(workload, sizes.parse(size), pauses=True)
                named = {"workload": workload, "setting": setting, "side": side}
                named |= {"device": device, "size": size}
                rows.append(named | {name: result.get(name) for name in FIGURES})
    return rows


def place(args, row):
    names = (workloads.ALL, ["plenty", "small"], list(SETTINGS), SIDES)
    keys = ("workload", "device", "setting", "side")
    return [list(known).index(row[key]) for known, key in zip(names, keys)]


def all_rows(args, runs):
    columns = [(setting, side) for setting in args.settings for side in sides(args, setting)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        parts = pool.map(lambda names: column(args, runs, *names), columns)
        rows = [row for part in parts for row in part]
    return sorted(rows, key=lambda row: place(args, row))


def base_of(rows, row):
    for other in rows:
        keys = ("workload", "setting", "device")
        if other["side"] == "without" and all(other[key] == row[key] for key in keys):
            return other
    return None


def ratio(base, row, key):
    """Without ÷ with, or None where one of them says nothing."""
    if base is None or base is row or not base[key] or not row[key]:
        return None
    return base[key] / row[key]


HELD = ("held_average_bytes", "held_working_bytes", "held_after_bytes", "held_end_bytes")


def mib(count):
    return "-" if count is None else f"{count / (1 << 20):,.0f}"


def held_text(base, row, key):
    share = ratio(base, row, key)
    return f"{mib(row[key]):>7s}{'' if share is None else format(share, '.2f'):>6s}"


def row_text(base, row):
    held = " ".join(held_text(base, row, key) for key in HELD)
    seconds = f"{row['idle_above_seconds']:6.1f} {row['unwanted_above_seconds']:6.1f}"
    return (
        f"{row['workload']:12s} {row['size']:>6s} {row['setting']:10s} {row['side']:8s}| {held} | "
        f"{seconds} | {row['retries']:4} {row['refused']:4}" + ("" if row["ok"] else "  out of memory")
    )


HEAD = (
    "held by the device's own books, MiB, and without ÷ with; seconds: the longest time above 80 %\n"
    "with 32 MiB that are idle, and that nothing needed for a second\n"
    f"{'':41s}| {'average':>13s} {'at work':>13s} {'2 s after job':>13s} {'at rest':>13s} | "
    f"{'idle':>6s} {'waits':>6s} | retr. ooms"
)


def name_of(row):
    return row["side"] if row["side"] != "without" else "alone"


def survivors_text(rows):
    """A table for each device: what the survivors keep, and the blocks that fit beside them."""
    lines = []
    for device in ("plenty", "small"):
        found = [r for r in rows if r["workload"] == "survivors" and r["device"] == device]
        if not found:
            continue
        lines += ["", f"survivors on {found[0]['size']}: MiB that they keep, blocks of 500 MiB that fit"]
        heads = [f"{row['setting']}, {name_of(row)}" for row in found]
        lines.append(f"{'':18s}{'live':>6s} | " + " | ".join(f"{head:>17s}" for head in heads))
        for pattern, note in found[0]["notes"].items():
            cells = [f"{mib(r['notes'][pattern]['held_bytes']):>12s} {r['notes'][pattern]['blocks']:4}" for r in found]
            lines.append(f"{pattern:18s}{mib(note['live_bytes']):>6s} | " + " | ".join(cells))
    return lines


def text(rows):
    lines = [HEAD] + [row_text(base_of(rows, row), row) for row in rows]
    return "\n".join(lines + survivors_text(rows))


def missed_by(base, row):
    """What a side with the library does not reach, a sentence each."""
    name = f"{row['workload']} on {row['size']}, {row['setting']}, {row['side']}"
    found = [
        f"{name}: {key} {mib(row[key])}, without {mib(base[key])}"
        for key in HELD
        if row[key] is not None and row[key] > base[key] * SAME_SHARE + SAME_BYTES
    ]
    if row["unwanted_above_seconds"] > MOST_SECONDS:
        found.append(f"{name}: unwanted above 80 % for {row['unwanted_above_seconds']} s")
    for key in ("retries", "refused"):
        if row[key] > base[key]:
            found.append(f"{name}: {key} {row[key]}, without {base[key]}")
    if row["device_errors"]:
        found.append(f"{name}: the simulated device reported errors")
    return found


def best_blocks(rows, row, pattern):
    """The most that fit with any of PyTorch's settings alone."""
    return max(
        other["notes"][pattern]["blocks"]
        for other in rows
        if (other["workload"], other["device"], other["side"])
        == ("survivors", row["device"], "without")
    )


def missed_blocks(rows, row):
    name = f"survivors on {row['size']}, {row['setting']}, {row['side']}"
    return [
        f"{name}, {pattern}: {note['blocks']} blocks, alone {best_blocks(rows, row, pattern)}"
        for pattern, note in row["notes"].items()
        if note["blocks"] < best_blocks(rows, row, pattern)
    ]


def missed(rows):
    lines = []
    for row in rows:
        base = base_of(rows, row)
        if base is None or base is row:
            continue
        lines += missed_by(base, row)
        lines += missed_blocks(rows, row) if row["workload"] == "survivors" else []
    return lines


def measure(args, runs):
    rows = all_rows(args, runs)
    return {"rows": rows, "text": text(rows), "missed": missed(rows)}
