"""The cells of the table: what one workload needs under one allocator setting, without and with
the library. Nothing here knows how a run is made: `run` is a function."""

import search
import sizes

PLENTY_BYTES = sizes.parse("80GiB")
MOST_RATIO = 1.02  # the targets of the page engine, see tests/lab/README.md
MOST_REST = 1.03
MOST_MEAN = 1.10


def plenty(run, workload):
    """The run without the library on a device where memory is plentiful."""
    result = run(workload, PLENTY_BYTES, events=True)
    if not result["ok"]:
        raise ValueError(f"{workload} does not complete on 80 GiB: {result['error']}")
    return result


def device_of(step, base):
    return base["context_bytes"] + step * search.STEP_BYTES


def fits_unrefused(result):
    return result["ok"] and not result["refused"]


def smallest(run, workload, base, hint=None):
    """The smallest device on which the workload completes and no request is refused: there it does
    the same work as where memory is plentiful. base: the run where it is."""

    def fits(step):
        return fits_unrefused(run(workload, device_of(step, base)))

    first = hint or search.steps(base["live_peak_bytes"])
    step = search.smallest(fits, first, gap=1 if hint else None)
    found = run(workload, device_of(step, base))
    count = step * search.STEP_BYTES
    return {
        "smallest_bytes": count,
        "smallest_over_live": round(count / base["live_peak_bytes"], 4),
        "retries": found["retries"],
        "device_errors": found["device_errors"],
        "mode": found["mode"],
    }


def rest(result):
    """held ÷ live at rest and its means."""
    means = {
        short: None if result[name] is None else round(result[name], 4)
        for short, name in (
            ("mean_held_over_live", "held_over_live_mean"),
            ("weighted_held_over_live", "held_over_live_weighted"),
        )
    }
    return {
        "rest_held_over_live": round(result["held_rest_bytes"] / result["live_rest_bytes"], 4)
        if result["live_rest_bytes"] >= 1 << 20  # with hardly anything live it says nothing
        else None,
        "rest_held_bytes": result["held_rest_bytes"],
        "rest_live_bytes": result["live_rest_bytes"],
    } | means


def missed(row, expandable):
    """What a row of the table does not reach, a sentence each. expandable: the smallest bytes with
    PyTorch's expandable segments alone, or None if that was not measured."""
    name, side = f"{row['workload']} {row['setting']}", row["with"]
    found = []
    if "smallest_bytes" in side:
        if side["smallest_over_live"] > MOST_RATIO:
            found.append(f"{name}: {side['smallest_over_live']} x live, more than {MOST_RATIO}")
        if expandable and side["smallest_bytes"] > expandable:
            found.append(f"{name}: more than expandable segments alone")
        if side["retries"]:
            found.append(f"{name}: {side['retries']} retries there")
    if (side.get("rest_held_over_live") or 0) > MOST_REST:
        found.append(f"{name}: at rest {side['rest_held_over_live']}, more than {MOST_REST}")
    if (side.get("mean_held_over_live") or 0) > MOST_MEAN:
        found.append(f"{name}: in the mean {side['mean_held_over_live']}, more than {MOST_MEAN}")
    if side.get("device_errors") or row["without"].get("device_errors"):
        found.append(f"{name}: the simulated device reported errors")
    return found
