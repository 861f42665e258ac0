"""Figures over time from samples of the device's own books, for with and without libvramgc.so
alike. Pure: nothing here knows PyTorch or a device."""

import bisect
import collections

# time: seconds; held: bytes of the device in use, the context left out; needed: bytes of whole
# pages in which something is live; live: bytes of live blocks; live_peak: the most of these since
# the sample before.
Sample = collections.namedtuple("Sample", "time held needed live live_peak")

LEAST_BYTES = 32 << 20  # less is not worth a call, see VRAMGC_MIN_GAIN
WINDOW_SECONDS = 1  # VRAMGC_COOLDOWN
LEAST_LIVE_BYTES = 1 << 20


def begin(samples):
    """When the work began: from the first sample on at which something was live."""
    for sample in samples:
        if sample.live_peak >= LEAST_LIVE_BYTES:
            return sample.time
    return samples[-1].time if samples else 0


def integral(samples, start, end, value):
    """Of value(sample) from start to end; a sample's value holds until the next one."""
    total = 0.0
    for this, after in zip(samples, samples[1:]):
        seconds = min(after.time, end) - max(this.time, start)
        if seconds > 0:
            total += value(this) * seconds
    return total


def average(samples, spans, value):
    """Over all of these (start, end)."""
    seconds = sum(end - start for start, end in spans)
    total = sum(integral(samples, start, end, value) for start, end in spans)
    return total / seconds if seconds else 0


def between(span, pauses):
    """What of the span is outside the pauses, which are in order and do not overlap."""
    found, start = [], span[0]
    for pause_start, pause_end in pauses:
        if pause_start > start:
            found.append((start, min(pause_start, span[1])))
        start = max(start, pause_end)
    if start < span[1]:
        found.append((start, span[1]))
    return found


def at(samples, time):
    """The latest sample not after this time."""
    place = bisect.bisect_right([sample.time for sample in samples], time)
    return samples[max(place - 1, 0)]


def unwanted(samples):
    """For each sample: held memory that lies in no page of live memory, and without which
    everything would have done that was live at any moment of the last WINDOW_SECONDS. What is idle
    between two uses that follow each other sooner is not in it."""
    window, found = collections.deque(), []
    for sample in samples:
        while window and window[-1].live_peak <= sample.live_peak:
            window.pop()
        window.append(sample)
        while window[0].time < sample.time - WINDOW_SECONDS:
            window.popleft()
        found.append(min(sample.held - sample.needed, sample.held - window[0].live_peak))
    return found


def idle(samples):
    return [sample.held - sample.needed for sample in samples]


def longest(samples, spare, least_held):
    """The longest time in seconds for which more than least_held was held and at least LEAST_BYTES
    of it were spare."""
    most, since = 0.0, None
    for sample, count in zip(samples, spare):
        if sample.held > least_held and count >= LEAST_BYTES:
            since = sample.time if since is None else since
            most = max(most, sample.time - since)
        else:
            since = None
    return most


def figures(samples, pauses, least_held):
    """pauses: (start, end) of each pause after a job; least_held: the threshold, context left
    out."""
    span = (begin(samples), samples[-1].time)
    after = [at(samples, end).held for _, end in pauses]
    return {
        "held_average_bytes": round(average(samples, [span], lambda sample: sample.held)),
        "held_working_bytes": round(
            average(samples, between(span, pauses), lambda sample: sample.held)
        ),
        "live_average_bytes": round(average(samples, [span], lambda sample: sample.live)),
        "held_after_bytes": round(sum(after) / len(after)) if after else None,
        "held_after_most_bytes": max(after, default=None),
        "held_end_bytes": samples[-1].held,
        "held_most_bytes": max(sample.held for sample in samples),
        "live_most_bytes": max(sample.live_peak for sample in samples),
        "idle_above_seconds": round(longest(samples, idle(samples), least_held), 2),
        "unwanted_above_seconds": round(longest(samples, unwanted(samples), least_held), 2),
        "samples": len(samples),
    }
