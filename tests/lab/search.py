"""The smallest device on which something fits, in few trials."""

STEP_BYTES = 32 << 20
MOST = 64  # times the first guess: nothing that runs at all needs more


def steps(count):
    """Bytes in whole steps, rounded up."""
    return -(-count // STEP_BYTES)


def bisect(fits, low, high):
    """The smallest step for which fits(step) holds, given that low does not and high does."""
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def down(fits, high):
    """A step below high, which fits, that does not fit, and the lowest one known to fit."""
    gap = 1
    while high > 1:
        low = max(high - gap, 1)
        if not fits(low):
            return low, high
        high, gap = low, 2 * gap
    return 0, high


def up(fits, low, gap):
    """The highest step known not to fit, from low on, which does not, and one that fits."""
    most = (low + MOST) * MOST
    while not fits(low + gap):
        low, gap = low + gap, 2 * gap
        if low > most:
            raise ValueError(f"it does not fit into {MOST} times the first guess either")
    return low, low + gap


def smallest(fits, first, gap=None):
    """The smallest step that fits, looked for from `first` on: the next trials are 1, 3, 7, ...
    hundredths (or gaps) above it, then the interval is halved. Who fits is taken to fit on every
    larger device too."""
    if fits(first):
        return bisect(fits, *down(fits, first))
    return bisect(fits, *up(fits, first, gap or max(1, first // 100)))
