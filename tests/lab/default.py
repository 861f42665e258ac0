"""scripts/lab --default: what is held over time in the mode that users get (no --lowvram, threshold
80), against the same setting of PyTorch's allocator without the library: on average, after jobs, at
rest, and how long idle memory stays above the threshold. All by the device's own books.

Three sides: without the library; `auto`, what a user gets; and `keep`, VRAMGC_ALLOC_CONF=keep,
which leaves PyTorch its native segments where the setting says nothing of expandable ones."""

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
    "loop": "8GiB",
    "survivors": "8GiB",
    "sequential_offload": "2GiB",
    "group_offload": "5GiB",
    "zimage_whole": "16GiB",
    "zimage_by_model": "16GiB",
    "zimage_by_group": "8GiB",
    "flux2_whole": "16GiB",
    "flux2_by_model": "12GiB",
    "flux2_by_group": "8GiB",
    "wan22_whole": "16GiB",
    "wan22_by_model": "16GiB",
    "wan22_by_group": "12GiB",
    "ltx_whole": "16GiB",
    "ltx_by_model": "16GiB",
    "ltx_by_group": "8GiB",
}
LARGE = {"survivors": "24GiB"}  # it fills whatever there is
DEVICES = ("plenty", "small")
SIDES = ("without", "auto", "keep")
HELD = {
    "held_average_bytes": "on average",
    "held_working_bytes": "at work",
    "held_after_bytes": "after jobs",
    "held_end_bytes": "at rest",
}
FIGURES = tuple(HELD) + tuple(
    "live_average_bytes live_working_bytes held_after_most_bytes live_peak_bytes "
    "working_seconds idle_above_seconds unneeded_above_seconds samples retries refused seconds ok error mode "
    "device_errors notes".split()
)
# Less of a difference comes from when the samples were taken, and averages vary with the pace of
# the machine: from run to run by up to 3 %.
SAME_SHARE, SAME_AVERAGE, SAME_BYTES = 1.01, 1.03, 32 << 20
LEAST_WORKING_SECONDS = 4  # an average of less says how fast memory is taken and given back
MOST_SECONDS = 0.5  # beyond the second for which unneeded memory may wait above the threshold


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


def columns(args, make):
    """make(setting, side) of each side of each setting, some at a time."""
    wanted = [(setting, side) for setting in args.settings for side in sides(args, setting)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        return list(pool.map(lambda names: make(*names), wanted))


def how(args):
    """Runs without latencies and with them are different runs."""
    return {"pauses": True} | ({"latency": args.latency} if args.latency != "none" else {})


def column(args, runs, setting, side):
    """All runs of one kind."""
    rows = []
    with runs(kind(args, setting, side)) as run:
        for workload in args.workloads:
            for device, size in devices(workload, args.devices):
                result = run(workload, sizes.parse(size), **how(args))
                named = {"workload": workload, "setting": setting, "side": side}
                named |= {"device": device, "size": size}
                rows.append(named | {name: result.get(name) for name in FIGURES})
    return rows


def place(row):
    names = (workloads.ALL, DEVICES, list(SETTINGS), SIDES)
    keys = ("workload", "device", "setting", "side")
    return [list(known).index(row[key]) for known, key in zip(names, keys)]


def all_rows(args, runs):
    parts = columns(args, lambda setting, side: column(args, runs, setting, side))
    return sorted((row for part in parts for row in part), key=place)


def base_of(rows, row):
    """The same without the library, or None."""
    keys = ("workload", "setting", "device")
    for other in rows:
        if other["side"] == "without" and all(other[key] == row[key] for key in keys):
            return other
    return None


def over_live(row, key="average"):
    """The average of what was held ÷ the average of what was live. The pace of the machine, which
    decides how long each phase lasts, is in both."""
    return row[f"held_{key}_bytes"] / max(row[f"live_{key}_bytes"], 1)


def mib(count):
    return "-" if count is None else f"{count / (1 << 20):,.0f}"


def ratio(base, row, key):
    """Without ÷ with, where both hold anything."""
    if base is None or base is row or not base[key] or not row[key]:
        return ""
    share = base[key] / row[key]
    return f"{share:.2f}" if share < 100 else f"{share:,.0f}"


HEAD = (
    "held by the device's own books, MiB, and without ÷ with; ÷ live: average held ÷ average live;\n"
    "the longest time in seconds above 80 % with 32 MiB of idle memory, and with 32 MiB that\n"
    "nothing needed for a second; PyTorch's retries and refusals\n\n"
    f"{'':41s}|{'average':>14s} {'÷ live':>6s}{'at work':>14s}{'after jobs':>14s}{'at rest':>14s} |"
    f"{'idle':>6s}{'unneeded':>9s} |{'retr.':>5s}{'ref.':>5s}"
)


def row_text(base, row):
    held = [f"{mib(row[key]):>8s}{ratio(base, row, key):>6s}" for key in HELD]
    held.insert(1, f" {over_live(row):6.2f}")
    return (
        f"{row['workload']:12s} {row['size']:>6s} {row['setting']:10s} {row['side']:>9s} |"
        f"{''.join(held)} |{row['idle_above_seconds']:6.1f}{row['unneeded_above_seconds']:9.1f} |"
        f"{row['retries']:5}{row['refused']:5}{'' if row['ok'] else '  out of memory'}"
    )


def survivors_text(rows):
    """What the survivors of each pattern keep, and the blocks that fit beside them."""
    heads = [f"{row['setting']}, {row['side']}" for row in rows]
    lines = [
        "",
        f"survivors on {rows[0]['size']}: MiB that are live; of their own pages, and that they keep;",
        "blocks of 500 MiB that fit then",
        f"{'':24s}{'live':>7s} |" + " |".join(f"{head:>22s}" for head in heads),
    ]
    for pattern, first in rows[0]["notes"].items():
        cells = [survivors_cell(row["notes"][pattern]) for row in rows]
        lines.append(f"{pattern:24s}{mib(first['live_bytes']):>7s} |" + " |".join(cells))
    return lines


def survivors_cell(note):
    if not note["fits"]:
        return f"{'out of memory':>22s}"
    return f"{mib(note['own_bytes']):>8s}{mib(note['held_bytes']):>8s}{note['blocks']:6}"


def of_survivors(rows, device):
    return [row for row in rows if (row["workload"], row["device"]) == ("survivors", device)]


def text(rows):
    lines = [HEAD] + [row_text(base_of(rows, row), row) for row in rows]
    for device in DEVICES:
        found = of_survivors(rows, device)
        lines += survivors_text(found) if found else []
    return "\n".join(lines)


def holds_more(base, row, key):
    """An average counts where it is more in relation to what was live, too."""
    which = {"held_average_bytes": "average", "held_working_bytes": "working"}.get(key)
    share = SAME_AVERAGE if which else SAME_SHARE
    if row[key] is None or row[key] <= base[key] * share + SAME_BYTES:
        return False
    if which == "working" and base["working_seconds"] < LEAST_WORKING_SECONDS:
        return False
    return which is None or over_live(row, which) > over_live(base, which) * share


def name_of(row):
    return f"{row['workload']} on {row['size']}, {row['setting']}, {row['side']}"


def missed_by(base, row):
    """What a side with the library does not reach, a sentence each."""
    name = name_of(row)
    both = base["ok"] and row["ok"]  # else the figures are of different work
    more = [
        f"{words} {mib(row[key])} ({mib(base[key])})"
        for key, words in HELD.items()
        if both and holds_more(base, row, key)
    ]
    found = [f"{name}: holds more, MiB (without): {', '.join(more)}"] if more else []
    if row["unneeded_above_seconds"] > MOST_SECONDS:
        found.append(f"{name}: unneeded above 80 % for {row['unneeded_above_seconds']} s more")
    for key in ("retries", "refused"):
        if both and row[key] > base[key]:
            found.append(f"{name}: {key} {row[key]}, without {base[key]}")
    if row["device_errors"]:
        found.append(f"{name}: the simulated device reported errors")
    if base["ok"] and not row["ok"]:
        found.append(f"{name}: out of memory")
    return found


def blocks_of(note):
    return note["blocks"] if note["fits"] else 0


def missed_blocks(rows, row):
    """Fewer than with the best of PyTorch's settings alone, of those that were run. The driver's
    pool is measured by itself: its memory is not the library's to place."""
    alone = [
        other["notes"]
        for other in of_survivors(rows, row["device"])
        if other["side"] == "without" and (other["setting"] == "async") == (row["setting"] == "async")
    ]
    best = {name: max(map(blocks_of, (notes[name] for notes in alone))) for name in row["notes"]}
    return [
        f"{name_of(row)}, {pattern}: {note['blocks']} blocks, alone {best[pattern]}"
        for pattern, note in row["notes"].items()
        if blocks_of(note) < best[pattern]
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
