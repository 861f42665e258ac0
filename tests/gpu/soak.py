"""Random tensors on several streams whose contents are checked: vramgc moves memory under PyTorch
and must not lose, mix or free too early what is in it. Runs on a card, where kernels write and check
every byte, and on the simulated device, where kernels do nothing: there the ends and a random place
of each tensor are written and read back by copies, and the device reports what touches a page that
is not mapped. Needs PyTorch alone.

Prints one line; exit status 1 when anything was wrong."""

import argparse
import ctypes
import math
import random
import sys
import time

import torch

SEED = 1  # any: a fault is found again with the same one
STREAMS = 4
GRAPHS = 3  # kept and replayed
TILE = 4096  # bytes written and checked at each place by copies
SMALLEST, LARGEST = 1024, 256 << 20
MOST_LIVE = 6 << 30
MOST_CAPTURED = 16 << 20
ROOM_TO_CAPTURE = 128 << 20
CHUNK = 8 << 20  # compared at a time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, required=True, help="at least so long")
    parser.add_argument("--operations", type=int, required=True, help="at least so many")
    parser.add_argument("--leave-mib", type=int, default=0, help="a ballast leaves so much; 0: none")
    parser.add_argument("--spare-mib", type=int, default=0, help="PyTorch never takes so much")
    return parser.parse_args()


def device_errors():
    """Wrong uses that the simulated device reported, or None on a card."""
    try:
        function = ctypes.CDLL("libcuda.so.1").simgpu_errors
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_ulong
    return function()


class Patterns:
    """Writes a value into a tensor and finds out whether it is still there."""

    def __init__(self):
        self.kernels = device_errors() is None
        self.tiles = torch.arange(256, dtype=torch.uint8).repeat_interleave(TILE).view(256, TILE)
        self.tiles = self.tiles.pin_memory()

    def places(self, tensor):
        """Where copies write and look: both ends and a place between them."""
        last = max(tensor.numel() - TILE, 0)
        return sorted({0, random.Random(last).randint(0, last), last})

    def copy(self, target, source):
        """The simulated device moves no data in large copies."""
        if self.kernels:
            target.copy_(source, non_blocking=True)
        for place in self.places(source):
            part = source[place : place + TILE]
            target[place : place + TILE].copy_(part, non_blocking=True)

    def write(self, tensor, value):
        if self.kernels:
            tensor.fill_(value)
        for place in self.places(tensor):
            part = tensor[place : place + TILE]
            part.copy_(self.tiles[value][: part.numel()], non_blocking=True)

    def holds(self, tensor, value):
        """Waits for the current stream."""
        if self.kernels and any(bool((part != value).any()) for part in tensor.split(CHUNK)):
            return False
        return all(
            bool((tensor[place : place + TILE].cpu() == value).all())
            for place in self.places(tensor)
        )


class Soak:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(SEED)
        self.patterns = Patterns()
        self.streams = [torch.cuda.default_stream()]
        self.streams += [torch.cuda.Stream() for _ in range(STREAMS - 1)]
        self.live = []  # (tensor, value, stream)
        self.live_bytes = 0
        self.graphs = []  # (graph, source, target)
        self.spare(args.spare_mib << 20)
        self.ballast = self.fill_but(args.leave_mib << 20)
        free, _ = torch.cuda.mem_get_info()
        self.limit = min(MOST_LIVE, int((free - (args.spare_mib << 20)) * 0.85))
        self.operations = self.wrong = 0

    def spare(self, spared):
        """What others have, as a desktop, grows by so much and more."""
        free, total = torch.cuda.mem_get_info()
        if spared:
            torch.cuda.set_per_process_memory_fraction(max(free - spared, 1) / total)

    def fill_but(self, leave):
        """On a card made small pages are short, and have to move."""
        free, _ = torch.cuda.mem_get_info()
        leave += self.args.spare_mib << 20
        if not self.args.leave_mib or free <= leave:
            return None
        return torch.empty(free - leave, dtype=torch.uint8, device="cuda")

    def size(self):
        """As often between 1 and 2 KiB as between 64 and 128 MiB."""
        low, high = math.log(SMALLEST), math.log(LARGEST)
        return int(math.exp(self.random.uniform(low, high)))

    def empty(self, count):
        try:
            return torch.empty(count, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            return None

    def allocate(self):
        count = self.size()
        while self.live and self.live_bytes + count > self.limit:
            self.free()
        stream = self.random.choice(self.streams)
        with torch.cuda.stream(stream):
            tensor = self.empty(count)
            if tensor is None:
                return self.free_half()
            value = self.random.randrange(256)
            self.patterns.write(tensor, value)
        self.live.append((tensor, value, stream))
        self.live_bytes += count

    def pick(self):
        """Takes a tensor out of the list."""
        place = self.random.randrange(len(self.live))
        self.live[place], self.live[-1] = self.live[-1], self.live[place]
        tensor, value, stream = self.live.pop()
        self.live_bytes -= tensor.numel()
        return tensor, value, stream

    def free(self):
        """Mostly after a look; sometimes while another stream still copies from it."""
        tensor, value, stream = self.pick()
        chance = self.random.random()
        if chance < 0.2:
            self.copy_away(tensor, value, stream)
        elif chance < 0.7:
            self.check(tensor, value, stream)

    def copy_away(self, tensor, value, stream):
        """Another stream copies from it after its owner has dropped it: record_stream."""
        other = self.random.choice(self.streams)
        other.wait_stream(stream)
        with torch.cuda.stream(other):
            copy = self.empty(tensor.numel())
            if copy is None:
                return
            self.patterns.copy(copy, tensor)
            tensor.record_stream(other)
        self.live.append((copy, value, other))
        self.live_bytes += copy.numel()

    def free_half(self):
        for _ in range(len(self.live) // 2):
            self.free()

    def check(self, tensor, value, stream):
        with torch.cuda.stream(stream):
            right = self.patterns.holds(tensor, value)
        if not right:
            self.wrong += 1
            print(f"soak: {tensor.numel()} bytes do not hold {value}", file=sys.stderr)

    def capture(self):
        """A graph that copies a tensor into another one of its pool."""
        while self.live_bytes > self.limit * 0.7:
            self.free()
        source = torch.empty(min(self.size(), MOST_CAPTURED), dtype=torch.uint8, device="cuda")
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        if torch.cuda.mem_get_info()[0] < ROOM_TO_CAPTURE:
            return  # an error inside a capture ends the program (PyTorch 2.15, cudaMallocAsync)
        with torch.cuda.graph(graph, stream=stream):
            between = torch.empty_like(source)
            self.patterns.copy(between, source)
            target = torch.empty_like(source)
            self.patterns.copy(target, between)
            del between
        graph.replay()  # cudaMallocAsync: what no launch has allocated yet cannot be freed
        self.graphs.append((graph, source, target))

    def replay(self):
        if len(self.graphs) < GRAPHS:
            return self.capture()
        graph, source, target = self.random.choice(self.graphs)
        value = self.random.randrange(256)
        self.patterns.write(source, value)
        graph.replay()
        self.check(target, value, torch.cuda.current_stream())
        if self.random.random() < 0.1:
            self.graphs.remove((graph, source, target))
            del source, target  # before their graph, which a stream-ordered pool asks for

    def look(self):
        if self.live:
            self.check(*self.random.choice(self.live))

    def attempt(self, operation):
        """The device may be full where an operation needs a little beside the tensors."""
        try:
            operation()
        except torch.cuda.OutOfMemoryError:
            self.free_half()

    def operate(self):
        chance = self.random.random()
        for limit, operation in (
            (0.5, self.allocate),
            (0.8, self.look if not self.live else self.free),
            (0.95, self.look),
            (0.99, self.replay),
            (1.0, torch.cuda.empty_cache),
        ):
            if chance < limit:
                self.attempt(operation)
                break
        self.operations += 1

    def run(self):
        end = time.monotonic() + self.args.seconds
        while time.monotonic() < end or self.operations < self.args.operations:
            self.operate()
        self.finish()

    def finish(self):
        while self.live:
            self.check(*self.pick())
        while self.graphs:  # before the interpreter ends and takes CUDA down in any order
            graph, source, target = self.graphs.pop()
            del source, target
        torch.cuda.synchronize()


def main():
    soak = Soak(arguments())
    soak.run()
    errors = device_errors()
    print(f"{soak.operations} operations, {soak.wrong} tensors wrong, device errors: {errors}")
    return 1 if soak.wrong or errors else 0


if __name__ == "__main__":
    sys.exit(main())
