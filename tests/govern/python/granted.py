"""cudaMallocAsync refuses, PyTorch trims the pool and asks again, and gets it: that is no out-of-memory, of which anybody would have
had a part. Prints one line of JSON."""

import torch

from names import MIB, functions_are_named, had_at_peak, record, say, take


def main():
    functions_are_named()
    blocks = [take(40) for _ in range(12)]
    del blocks[::2]
    known = had_at_peak("take", 480)
    whole = take(300)
    refusals = record()["refusals"]
    granted = bool(refusals) and refusals[-1]["granted"]
    say("granted", granted and known and not record()["devices"][0]["owners_at_oom"]["list"], refusals=refusals)
    del whole


if __name__ == "__main__":
    main()
