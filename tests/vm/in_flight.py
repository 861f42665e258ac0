"""Writes a random script for c10drive in which tensors are freed while work on them is under way: nobody waits before a free,
blocks are used by several streams, and the live tensors always fit the device, so that none may be refused."""

import argparse
import os
import random

MIB = 1 << 20
PAGE = 2 * MIB


class Script:
    def __init__(self, seed, budget_bytes, streams):
        self.random = random.Random(seed + int(os.environ.get("SEED", 0)))
        self.budget_bytes = budget_bytes
        self.streams = streams
        self.live = {}  # name -> (cost, byte, stream)
        self.owed_bytes = 0  # freed, but another stream may still use it
        self.count = 0
        self.lines = []

    def say(self, line):
        self.lines.append(line)

    def cost(self, size):
        """At most, whatever its place: it may reach into two pages that it does not fill, and a small one lies in a page."""
        return size + 2 * PAGE if size > MIB else PAGE

    def used_bytes(self):
        return sum(cost for cost, _, _ in self.live.values()) + self.owed_bytes

    def size(self):
        kind = self.random.random()
        largest = 1 * MIB if kind < 0.3 else 12 * MIB if kind < 0.7 else self.budget_bytes // 5
        return self.random.randint(1, largest)

    def alloc(self):
        size = self.size()
        if self.used_bytes() + self.cost(size) > self.budget_bytes:
            return self.free()
        name, stream, byte = f"t{self.count}", self.random.randrange(self.streams), self.random.randrange(256)
        self.count += 1
        self.live[name] = (self.cost(size), byte, stream)
        self.say(f"alloc {name} {size} stream={stream}")
        self.say(f"fill {name} {byte} stream={stream}")
        return None

    def free(self):
        if not self.live:
            return
        name = self.random.choice(list(self.live))
        cost, byte, stream = self.live.pop(name)
        kind = self.random.random()
        if kind < 0.25:
            self.say(f"stream {stream}")
            self.say(f"verify {name} {byte}")
        elif kind < 0.5:
            other = self.random.randrange(self.streams)
            self.say(f"record {name} {other}")
            self.say(f"fill {name} {byte ^ 1} stream={other}")
            self.owed_bytes += cost
        else:
            self.say(f"fill {name} {byte} stream={stream}")
        self.say(f"free {name}")

    def synchronize(self):
        self.say("synchronize")
        self.say("alloc poll 512 stream=0")  # PyTorch looks after its pending blocks when it allocates
        self.say("free poll")
        self.owed_bytes = 0

    def seldom(self):
        choice = self.random.randrange(6)
        if choice == 0:
            self.say("empty_cache")
        elif choice == 1 and self.count:  # before CUDA is used there is nobody to ask
            self.say("reclaim")
        elif choice == 2:
            self.say("sleep 2")
        else:
            self.synchronize()

    def check_all(self):
        for name, (_, byte, stream) in self.live.items():
            self.say(f"stream {stream}")
            self.say(f"verify {name} {byte}")

    def write(self, operations):
        for _ in range(operations):
            chance = self.random.random()
            if chance < 0.04:
                self.seldom()
            elif chance < 0.55:
                self.alloc()
            else:
                self.free()
        self.check_all()
        self.say("expect num_ooms == 0")
        return "\n".join(self.lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=1500)
    parser.add_argument("--budget-mib", type=int, default=480)
    parser.add_argument("--streams", type=int, default=4)
    args = parser.parse_args()
    print(Script(args.seed, args.budget_mib * MIB, args.streams).write(args.operations), end="")


if __name__ == "__main__":
    main()
