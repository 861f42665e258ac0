"""Compares the table that a report shows with the books of others: lines of JSON are what PyTorch counts, and what the simulated
device has in use (c10drive's `stats`), at the peak, at the out-of-memory and at the end; CALLS is who called which function of the
driver. Sizes are whole MiB below 1 GiB, which the report shows exactly.

    first_screen.py REPORT STATS CALLS OTHERS-MIB"""

import json
import re
import sys

CARD = 1024
CHANGING = "cuMemAlloc cuMemFree cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease".split()


def show(mib):
    return f"{mib} MiB" if mib >= 100 else f"{mib:.1f} MiB" if mib else "0 B"


def mib(moment, name):
    return moment[name] >> 20


def held(moment, others):
    return mib(moment, "device.used_bytes") - others


def card_rows(moments, others):
    """What adds up to the card, by the device's books."""
    used = [held(moment, others) for moment in moments]
    return {
        "held by this program": [show(each) for each in used],
        "+ held by others and the driver": [show(others)] * 3,
        "+ free": [show(CARD - others - each) for each in used],
        "= card": ["1.0 GiB"] * 3,
    }


def allocator_rows(moments, paged, others):
    """By PyTorch's own count, but for the pages, and what is idle of them."""
    last = moments[-1]
    reserved = [mib(moment, "reserved_bytes") for moment in moments]
    live = [mib(moment, "allocated_bytes") for moment in moments]
    idle = [a - b for a, b in zip(reserved, live)]
    rows = {
        "reserved (addresses only)" if paged else "reserved": [
            show(mib(last, "reserved_peak_bytes")),
            show(reserved[1]),
            show(reserved[2]),
        ],
        "allocated (live)": [
            show(mib(last, "allocated_peak_bytes")),
            show(live[1]),
            show(live[2]),
        ],
    }
    if last["segments_peak"]:  # it counts no expandable ones
        rows["segments"] = [str(last["segments_peak"]), "-", str(last["segments"])]
    if paged:
        rows["physical pages, used or cached"] = [
            show(held(moments[0], others)),
            "-",
            show(held(last, others)),
        ]
    else:
        rows["idle pages"] = [show(max(idle)), show(idle[1]), show(idle[2])]
    return rows


def line_of(report, label):
    return next(line for line in report if line.strip(" ").startswith(label + "  "))


def after(report, label):
    """The number behind this label."""
    return int(re.search(label + r":? +([\d,]+)", " ".join(report)).group(1).replace(",", ""))


def calls_made(lines):
    found = (re.match(r"call ([A-Za-z]+)\S* \S+ (\d+)", line) for line in lines)
    return sum(int(match[2]) for match in found if match and match[1] in CHANGING)


def main():
    report, stats, calls = (open(name, encoding="utf-8").read().splitlines() for name in sys.argv[1:4])
    others = int(sys.argv[4])
    moments = [json.loads(line) for line in stats if line.startswith("{")]
    last = moments[-1]
    paged = any("addresses only" in line for line in report)
    rows = card_rows(moments, others) | allocator_rows(moments, paged, others)
    for label, wanted in rows.items():
        shown = re.findall(r"  (-|[\d.,]+(?: [KMG]?i?B)?)(?=  |$)", line_of(report, label))
        assert shown == wanted, (label, shown, wanted)
    assert after(report, "requests refused") == last["num_alloc_retries"]
    assert after(report, "out of memory in PyTorch") == last["num_ooms"]
    used = max(mib(moment, "device.used_bytes") for moment in moments)
    assert after(report, "at most") == round(100 * used / CARD), used
    peak = held(moments[0], others) / mib(last, "allocated_peak_bytes")
    assert any(f"of tensors: {peak:.2f}x" in line for line in report) or peak < 1.05, peak
    if not paged:
        assert after(report, "driver calls") == calls_made(calls), calls
    else:
        pages = after(report, "page_maps"), after(report, "page_unmaps")
        assert 2 * (pages[0] - pages[1]) == held(last, others), pages


main()
