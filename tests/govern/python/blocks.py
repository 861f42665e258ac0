"""Random operations on real tensors: vramgc's table of blocks equals torch.cuda.memory_snapshot() block for block."""

import argparse
import json
import os
import random
import threading

import torch

import vramgc_api

STATES = {"inactive": 0, "active_allocated": 1, "active_pending_free": 2, "active_awaiting_free": 2}


def of_torch():
    rows = []
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            rows.append(
                (
                    address,
                    block["size"],
                    segment["address"],
                    segment["total_size"],
                    STATES[block["state"]],
                    int(segment["is_expandable"]),
                    0 if segment["is_expandable"] else segment["stream"],
                )
            )
            address += block["size"]
    return sorted(rows)


def of_vramgc():
    return sorted(
        (
            b.address,
            b.bytes,
            b.segment_address,
            b.segment_bytes,
            b.state,
            b.expandable,
            0 if b.expandable else b.stream,
        )
        for b in vramgc_api.blocks()
    )


class Worker:
    """Takes and frees tensors on several streams, 15 % of them after use on another stream."""

    def __init__(self, seed, operations, every):
        self.random = random.Random(seed + int(os.environ.get("SEED", 0)))
        self.operations, self.every = operations, every
        self.streams = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(3)]
        self.live = []

    def step(self):
        r = self.random
        if len(self.live) < 5 or (len(self.live) < 120 and r.random() < 0.5):
            size = int(2 ** r.uniform(9, 26))
            with torch.cuda.stream(r.choice(self.streams)):
                self.live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            return
        tensor = self.live.pop(r.randrange(len(self.live)))
        if r.random() < 0.15:
            tensor.record_stream(r.choice(self.streams))

    def run(self, between):
        for number in range(1, self.operations + 1):
            self.step()
            if self.random.random() < 0.0005:
                torch.cuda.empty_cache()
            if number % self.every == 0:
                between()


def leave_pending(stream):
    """A block that is freed while another stream uses it, whatever vramgc's own thread has completed before."""
    with torch.cuda.stream(stream):
        torch.empty(1 << 20, dtype=torch.uint8, device="cuda").zero_()
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda").record_stream(stream)


OTHER_STREAM = torch.cuda.Stream()


class Comparison:
    def __init__(self):
        self.checks = self.blocks = self.pending = self.differences = 0
        self.first = None

    def compare(self):
        leave_pending(OTHER_STREAM)
        mine, theirs, again = None, None, ()
        while mine != again:  # vramgc's own thread emptied the cache between the two looks
            mine, theirs, again = of_vramgc(), of_torch(), of_vramgc()
        self.checks += 1
        self.blocks += len(theirs)
        self.pending += sum(row[4] == 2 for row in theirs)
        difference = set(mine) ^ set(theirs)
        self.differences += len(difference)
        if difference and self.first is None:
            self.first = sorted(difference)[:6]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--operations", type=int, default=100_000, metavar="N", help="in all (default 100000)"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument(
        "--every", type=int, default=1000, metavar="N", help="operations between two comparisons"
    )
    arguments = parser.parse_args()
    comparison = Comparison()
    barrier = threading.Barrier(arguments.threads, action=comparison.compare)
    count = arguments.operations // arguments.threads
    workers = [Worker(seed, count, arguments.every) for seed in range(arguments.threads)]
    threads = [threading.Thread(target=worker.run, args=(barrier.wait,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures, reserved_bytes = vramgc_api.snapshot_beside(torch.cuda.memory_reserved)
    ok = (
        comparison.differences == 0
        and comparison.checks == count // arguments.every
        and comparison.pending > 0
        and figures.allocated_bytes == torch.cuda.memory_allocated()
        and figures.reserved_bytes == reserved_bytes
    )
    print(
        json.dumps(
            {
                "check": f"blocks, {arguments.threads} threads",
                "ok": ok,
                **vars(comparison),
                "flushes": figures.flushes,
                "expandable": of_torch()[0][5] if of_torch() else None,
            }
        )
    )


main()
