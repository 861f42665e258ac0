"""Twelve functions each keep a tensor of a step in the real comfy-aimdo's graph, beside such as keep one that aimdo counts for none:
before the first step, between two, and in a part that is not over. Prints one line of JSON for each check."""

import torch

from names import MIB, functions_are_named, record, say, take
from comfy_aimdo import control

kept = []
PLANTED = 12


def plant(number):
    """Each in a line of its own; every other tensor is a small one."""
    text = "\n" * (10 * number) + f"def keeps_{number}(bytes):\n    kept.append(torch.empty(bytes, dtype=torch.uint8, device='cuda'))\n"
    exec(compile(text, "custom_nodes/plant.py", "exec"), globals())


def outside():
    return take(10)


def works():
    return take(30), take(50)


def differs():
    torch.empty(44 * MIB, dtype=torch.uint8, device="cuda")


def inner(graph, size):
    """A part of its own, which goes as recorded."""
    graph.push("inner")
    hidden = take(size)
    del hidden
    graph.pop()


def told(what):
    return {
        f"{site['function']} {site['source']}:{site['line']}": site[what] for site in record()["sites"] if site[what]
    }


def main():
    torch.cuda.init()
    assert control.init() and control.init_devices([0])
    for number in range(PLANTED):
        plant(number)
    functions_are_named()
    graph = control.record(torch.cuda.current_stream())
    before = outside()
    broken = 0
    for step in range(PLANTED + 3):
        graph.push("step")
        works_on = works()
        inner(graph, 7)
        if 1 <= step <= PLANTED:
            globals()[f"keeps_{step - 1}"](512 if step % 2 else 3 * MIB)
        if step == PLANTED + 1:
            differs()
        del works_on
        broken += graph.pop()
        if step == 0:
            between = outside()
    expected = {f"keeps_{n} custom_nodes/plant.py:{10 * n + 1}": 1 for n in range(PLANTED)}
    rogues, breaks = told("rogues"), told("breaks")
    say("rogues", graph.rogue_count == PLANTED and rogues == expected, count=graph.rogue_count, told=rogues)
    del expected["keeps_0 custom_nodes/plant.py:1"]  # aimdo recorded that step anew
    expected[f"differs python/rogues.py:{differs.__code__.co_firstlineno}"] = 1
    say("breaks", broken == PLANTED and breaks == expected, broken=broken, told=breaks)
    del graph, before, between
    graph = control.record(torch.cuda.current_stream())
    graph.push("step")
    works_on = works()
    graph.push("inner")
    keeps_0(MIB)
    graph.pop()
    say("inner part", graph.rogue_count == 1 and sum(told("rogues").values()) == PLANTED + 1, told=told("rogues"))
    del works_on


if __name__ == "__main__":
    main()
