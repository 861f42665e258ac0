"""Figures over time from samples of the device's own books, the same with libvramgc.so and
without. It knows neither PyTorch nor a device."""

import bisect
import collections

# time: seconds; held: bytes of the device in use, the context left out; needed: bytes of the pages
# in which something is live; live: bytes of live blocks; live_peak, held_peak: the most of these
# since the sample before.
Sample = collections.namedtuple("Sample", "time held needed live live_peak held_peak", defaults=(0,))

LEAST_BYTES = 32 << 20  # less is not worth a call: src/base/standards.h
WINDOW_SECONDS = 1  # VRAMGC_COOLDOWN
LEAST_LIVE_BYTES = 1 << 20


def begin(samples):
    """When the work began: at the first sample at which something was live."""
    times = (sample.time for sample in samples if sample.live_peak >= LEAST_LIVE_BYTES)
    return next(times, samples[-1].time)


def integral(samples, start, end, key):
    """From start to end; what a sample says holds until the next one."""
    total = 0.0
    for this, after in zip(samples, samples[1:]):
        seconds = min(after.time, end) - max(this.time, start)
        if seconds > 0:
            total += getattr(this, key) * seconds
    return total


def average(samples, spans, key):
    """Over all of these (start, end), a whole number."""
    seconds = sum(end - start for start, end in spans)
    total = sum(integral(samples, start, end, key) for start, end in spans)
    return round(total / seconds) if seconds else 0


def without(span, pauses):
    """What of the span is outside the pauses, which are in order and do not overlap."""
    found, start = [], span[0]
    for pause_start, pause_end in pauses:
        if pause_start > start:
            found.append((start, min(pause_start, span[1])))
        start = max(start, pause_end)
    if start < span[1]:
        found.append((start, span[1]))
    return found


def held_at(samples, times):
    """By the latest sample not after each of these."""
    known = [sample.time for sample in samples]
    return [samples[max(bisect.bisect_right(known, time) - 1, 0)].held for time in times]


def idle(samples):
    return [sample.held - sample.needed for sample in samples]


def unneeded(samples):
    """For each sample the idle memory without which all would have done that was live at any moment
    of the last WINDOW_SECONDS: what lies idle between two uses that follow each other sooner is not
    in it."""
    window, found = collections.deque(), []
    for sample in samples:
        while window and window[-1].live_peak <= sample.live_peak:
            window.pop()
        window.append(sample)
        while window[0].time < sample.time - WINDOW_SECONDS:
            window.popleft()
        found.append(sample.held - max(sample.needed, window[0].live_peak))
    return found


def longest(samples, spare, most_held):
    """The longest time in seconds for which more than most_held was held and at least LEAST_BYTES
    were spare."""
    most, since = 0.0, None
    for sample, count in zip(samples, spare):
        if sample.held > most_held and count >= LEAST_BYTES:
            since = sample.time if since is None else since
            most = max(most, sample.time - since)
        else:
            since = None
    return round(most, 2)


def figures(samples, pauses, most_held, worked_until=None):
    """pauses: (start, end) of each long pause after a job; most_held: the threshold, context left
    out; worked_until: when the last job was over, if the samples go on."""
    whole = [(begin(samples), samples[-1].time)]
    work = without((whole[0][0], worked_until or samples[-1].time), pauses)
    after = held_at(samples, [end for _, end in pauses])
    return {
        "held_average_bytes": average(samples, whole, "held"),
        "live_average_bytes": average(samples, whole, "live"),
        "held_working_bytes": average(samples, work, "held"),
        "live_working_bytes": average(samples, work, "live"),
        "working_seconds": round(sum(end - start for start, end in work), 2),
        "held_after_bytes": round(sum(after) / len(after)) if after else None,
        "held_after_most_bytes": max(after, default=None),
        "held_end_bytes": samples[-1].held,
        "held_peak_bytes": max(max(sample.held, sample.held_peak) for sample in samples),
        "live_peak_bytes": max(sample.live_peak for sample in samples),
        "idle_above_seconds": longest(samples, idle(samples), most_held),
        "unneeded_above_seconds": longest(samples, unneeded(samples), most_held),
        "samples": len(samples),
    }
