#!/usr/bin/env python3
"""What only a card can show, beside first-micro.py: second_look.py VRAMGC GROUP... One line of JSON
for each finding, at once. It starts itself as the programs that it looks at; these work on mapped
memory only, and what they compute must be the same with libvramgc.so as without."""

import json
import os
import pathlib
import select
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))

GIB = 1 << 30
MIB = 1 << 20

failed = []


def tell(group, **figures):
    """What is not the same has failed."""
    print(json.dumps({"look": group} | figures), flush=True)
    failed.extend([group] * (not figures.get("same", True)))


# --- the programs ---


def sums(held):
    """Of all words, a piece at a time, and of some in their order."""
    import torch

    some = held[::997]
    order = (some * torch.arange(1, some.numel() + 1, device="cuda")).sum()
    return [sum(part.sum(dtype=torch.int64).item() for part in held.split(1 << 26)), order.item()]


def answer(**figures):
    print(json.dumps(figures), flush=True)


def holding(gib):
    """Holds memory with something in it; tells what, again after each line that it reads."""
    import torch

    generator = torch.Generator("cuda").manual_seed(5)
    held = torch.randint(0, 1 << 30, (int(float(gib) * GIB) // 4,), dtype=torch.int32, device="cuda", generator=generator)
    answer(pid=os.getpid())
    for _ in sys.stdin:
        begin = time.monotonic()
        answer(sums=sums(held), seconds=round(time.monotonic() - begin, 3))


def launching(gib):
    """Holds memory; after each line that it reads all that it does on the card is to launch kernels, which add 1 to it."""
    import torch

    held = torch.zeros(int(float(gib) * GIB) // 4, dtype=torch.int32, device="cuda")
    held.add_(1)
    torch.cuda.synchronize()
    answer(pid=os.getpid())
    for _ in sys.stdin:
        begin = time.monotonic()
        held.add_(1)
        took = time.monotonic() - begin
        answer(launch_seconds=round(took, 3), added=[held[0].item(), held[-1].item(), held.min().item(), held.max().item()])


def compiled():
    """Graphs of torch.compile, beside memory that comes and goes between their replays."""
    import content
    import torch

    torch.manual_seed(3)
    layers = [layer for _ in range(6) for layer in (torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.SiLU())]
    network = torch.nn.Sequential(*layers).cuda().half().eval()
    begin = time.monotonic()
    with torch.no_grad():
        fast = torch.compile(network, mode="reduce-overhead")
        found = []
        for number in range(60):
            size = (64, 96)[number // 10 % 2]
            image = torch.randn(2, 64, size, size, device="cuda", dtype=torch.float16)
            found.append(fast(image).clone())
            block = torch.empty((number * 37 % 11 + 1) * 30 * MIB, dtype=torch.uint8, device="cuda")
            del block
            if number % 15 == 14:
                time.sleep(0.4)  # what is idle goes back
    digest = content.digest(torch.cat([tensor.flatten() for tensor in found]).cpu())
    answer(digest=digest, seconds=round(time.monotonic() - begin, 1))


def memory_mib():
    """Of this process and of the machine."""
    names = ("RssAnon", "RssFile", "RssShmem", "VmPin", "MemAvailable")
    lines = (pathlib.Path("/proc/self/status").read_text() + pathlib.Path("/proc/meminfo").read_text()).splitlines()
    return {line.split(":")[0]: int(line.split()[1]) >> 10 for line in lines if line.startswith(names)}


def pinned():
    """640 MiB page-locked, then freed, then at rest."""
    import torch

    torch.zeros(1, device="cuda")
    before = memory_mib()
    block = torch.empty(640 * MIB, dtype=torch.uint8, pin_memory=True)
    block.fill_(1)
    block.cuda()
    time.sleep(0.3)
    there = memory_mib()
    del block
    time.sleep(2.5)
    answer(before=before, there=there, after=memory_mib())


def working(name, gib):
    """A second program: takes memory, computes, tells, ends."""
    import torch

    begin = time.monotonic()
    held = torch.full((int(float(gib) * GIB) // 4,), 3, dtype=torch.int32, device="cuda")
    taken = time.monotonic() - begin
    answer(name=name, bytes=sums(held)[0] // 3 * 4, taken_seconds=round(taken, 3))


PROGRAMS = (holding, launching, compiled, pinned, working)


# --- who looks at them ---


class Program:
    """One of them; under vramgc where `under` is a list of its options, else alone."""

    def __init__(self, vramgc, under, *words):
        command = [sys.executable, __file__, vramgc, "--program", *words]
        if under is not None:
            command = [vramgc, "run", "--no-summary", *under, "--", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        """What stands still for a minute is ended."""
        if not select.select([self.process.stdout], [], [], 60)[0]:
            self.process.kill()
            return {"stood_still": True}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"ended": self.process.wait()}

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def used_mib():
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0])
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def command(vramgc, *words):
    begin = time.monotonic()
    done = subprocess.run([vramgc, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return {"status": done.returncode, "seconds": round(time.monotonic() - begin, 2), "said": done.stdout.strip()[-300:]}


def same_twice(vramgc, name, under):
    """The program alone and with, at the same time."""
    sides = [Program(vramgc, None, name), Program(vramgc, under, name)]
    return [side.answer() | {"status": side.end()} for side in sides]


def look_compiled(vramgc):
    alone, under = same_twice(vramgc, "compiled", ["--lowvram"])
    tell("compiled", same="digest" in alone and alone.get("digest") == under.get("digest"), alone=alone, under=under)


def look_pinned(vramgc):
    for under in (None, []):
        program = Program(vramgc, under, "pinned")
        tell("pinned", under=under is not None, **program.answer(), status=program.end())


def look_park(vramgc):
    """By hand, with 8 GiB."""
    program = Program(vramgc, [], "holding", "8")
    pid = str(program.answer().get("pid"))
    before, used = program.ask(), used_mib()
    out = command(vramgc, "park", pid)
    used_out = used_mib()
    back = command(vramgc, "wake", pid)
    after = program.ask()
    same = "sums" in before and before["sums"] == after.get("sums")
    tell("park", same=same, used_mib=[used, used_out, used_mib()], out=out, back=back, status=program.end())


def two_programs(vramgc, name):
    """On what a third leaves free: the first, which is asked before and after, has to leave the card for the second."""
    import torch

    free = torch.cuda.mem_get_info()[0]
    rest = torch.empty(max(free - 11 * GIB, 0), dtype=torch.uint8, device="cuda")
    first = Program(vramgc, ["--park", "2s"], name, "6")
    first.answer()
    before = first.ask()
    time.sleep(3)
    second = Program(vramgc, ["--park", "2s"], "working", "second", "7")
    worked = second.answer() | {"status": second.end()}
    after = first.ask()
    return before, after, {"second": worked, "status": first.end(), "ballast_mib": rest.numel() >> 20}


def look_pair(vramgc):
    before, after, figures = two_programs(vramgc, "holding")
    same = "sums" in before and before["sums"] == after.get("sums")
    tell("pair", same=same, first=[before, after], **figures)


def look_launch(vramgc):
    """The first comes back because it launches a kernel. (On the simulated device that adds nothing.)"""
    before, after, figures = two_programs(vramgc, "launching")
    added = [before.get("added"), after.get("added")]
    tell("launch", same=added in ([[2] * 4, [3] * 4], [[0] * 4] * 2), first=[before, after], **figures)


GROUPS = (look_pinned, look_park, look_pair, look_launch, look_compiled)


def main(vramgc, *words):
    if words and words[0] == "--program":
        return {program.__name__: program for program in PROGRAMS}[words[1]](*words[2:])
    for group in GROUPS:
        if not words or group.__name__.removeprefix("look_") in words:
            group(vramgc)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
