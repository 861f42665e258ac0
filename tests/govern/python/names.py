"""Who took memory is known by the Python function, however short it runs: what is kept, what was at the peak, who was refused. Once
functions are named at all each is named the first time. Prints one line of JSON for each check."""

import gc
import json
import os
import subprocess
import sys
import threading
import time

import torch

MIB = 1 << 20
kept = []


def say(name, ok, **seen):
    print(json.dumps({"check": name, "ok": bool(ok), **seen}), flush=True)


def report():
    """What `vramgc report` makes of the file of this process."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [os.environ["REPORT_COMMAND"], "report", "--json", os.environ["VRAMGC_OUT"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def record():
    return report()["processes"][0]


def is_of_one_moment(process):
    """What was live when the latest of the errors came, and whose it was."""
    latest = [r for r in process["refusals"] if r["reported"] and not r["went_on"]][-1]
    return latest["allocated_bytes"] == process["devices"][0]["owners_at_oom"]["live_bytes"]


def named(owners, function):
    """The bytes of a function in a list of owners."""
    now = record()
    sites = now["sites"]
    return sum(
        owner["bytes"]
        for owner in now["devices"][0][owners]["list"]
        if sites[owner["site"]]["function"] == function
    )


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def keeps_embeddings():
    kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))


def keeps_small_ones():
    kept.extend(torch.empty(MIB // 4, dtype=torch.uint8, device="cuda") for _ in range(64))


def keeps_by_a_lambda():
    """What has no name of its own belongs to the function around it."""
    step = lambda: kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))
    [step() for _ in range(1)]


class Keeper:
    def keeps(self):
        kept.append(torch.empty(72 * MIB, dtype=torch.uint8, device="cuda"))


def decodes():
    image = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    del image


def is_said(question):
    """Lists of owners are written now and then."""
    deadline = time.monotonic() + 20
    while not question() and time.monotonic() < deadline:
        time.sleep(0.01)
    return question()


def functions_are_named():
    """vramgc begins with it in its own thread."""
    return is_said(lambda: take(1) is not None and record()["sites"])


def had_at_peak(function, least_mib, most_mib=None):
    """One small block stands for others, before and after it."""
    most_mib = most_mib or least_mib
    return is_said(lambda: least_mib * MIB <= named("owners_at_peak", function) <= most_mib * MIB)


def no_site_is_nameless():
    nameless = {"<lambda>", "<listcomp>", "<genexpr>"}
    return not nameless & {site["function"] for site in record()["sites"]}


def was_live_for_a_moment(function, mib):
    """Each look finds who had it at the highest since the one before: a point of then, and one of later, both of the timeline."""
    now = record()
    points = now["devices"][0]["who_over_time"]
    had = [
        sum(b for s, b in zip(p["sites"], p["bytes"]) if now["sites"][s]["function"] == function)
        for p in points
    ]
    times = now["devices"][0]["samples"]["time_ns"]
    in_timeline = all(point["time_ns"] in times for point in points)
    at_rest = points[-1]["live_bytes"] == now["devices"][0]["live_bytes"]["current"]
    return mib * MIB in had and had[-1] == 0 and points[-1]["works"] and in_timeline and at_rest


def decodes_beside_more():
    kept.append(take(16))
    decodes()


def asks_for_too_much():
    try:
        take(1 << 20)
    except torch.OutOfMemoryError:
        return


def refused():
    asks_for_too_much()
    now = record()
    return now["sites"][now["refusals"][-1]["site"]]["function"] == "take"


def of_another_thread():
    """The thread that asks is the one that is looked at."""

    def works_apart():
        kept.append(torch.empty(96 * MIB, dtype=torch.uint8, device="cuda"))

    thread = threading.Thread(target=works_apart)
    thread.start()
    thread.join()
    asks_for_too_much()
    return named("owners_at_oom", "works_apart") == 96 * MIB


def is_called_by():
    """The same function by two ways: each has its own memory, below main and what called it, without the lambda."""

    def by_one_way():
        (lambda: kept.append(take(24)))()

    def by_another():
        kept.append(take(40))

    by_one_way()
    by_another()
    asks_for_too_much()
    now = record()
    names = [site["function"] for site in now["sites"]]
    had = {
        tuple(names[site] for site in stack["sites"][-4:]): stack["bytes"] // MIB
        for stack in now["devices"][0]["calls_at_oom"]
    }
    one = had.get(("main", "is_called_by", "by_one_way", "take"))
    return one == 24 and had.get(("main", "is_called_by", "by_another", "take")) == 40


def in_its_phase():
    """A row of the file that VRAMGC_FUNCTIONS names, although one before it is wrong."""

    def restores_faces():
        kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))

    restores_faces()
    return phases_of("restores_faces") == ["face fix"]


def phases_of(function):
    return [site["phase"] for site in record()["sites"] if site["function"] == function]


def a_move_is_one():
    """Of a module, by PyTorch's own function; what the caller takes else is none."""

    def moves_a_module():
        kept.append(torch.nn.Linear(4096, 4096).to("cuda"))
        kept.append(torch.empty(32 * MIB, dtype=torch.uint8, device="cuda"))

    moves_a_module()
    return set(phases_of("moves_a_module")) == {None, "model move"}


def all_at_once():
    """Ten functions within a moment, which the next one follows at once."""
    scope = {"kept": kept, "torch": torch}
    for i in range(10):
        exec(f"def f{i}(): kept.append(torch.empty({i + 2} << 20, dtype=torch.uint8, device='cuda'))", scope)
    for i in range(10):
        scope[f"f{i}"]()
    asks_for_too_much()
    return all(named("owners_at_oom", f"f{i}") == (i + 2) * MIB for i in range(2, 10))


def nothing_lives_longer():
    """What a function had is free when it has ended, however often it was looked at."""
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        decodes()
        if torch.cuda.memory_allocated() != before:
            return False
    return gc.isenabled() and not sys.exc_info()[0]


def main():
    say("named", functions_are_named())
    keeps_embeddings()
    say("kept", had_at_peak("keeps_embeddings", 64))
    keeps_small_ones()
    say("small ones", had_at_peak("keeps_small_ones", 15, 17))
    keeps_by_a_lambda()
    say("nameless", had_at_peak("keeps_by_a_lambda", 64) and no_site_is_nameless())
    Keeper().keeps()
    say("method", had_at_peak("Keeper.keeps" if sys.version_info >= (3, 11) else "keeps", 72))
    decodes_beside_more()
    say("peak", had_at_peak("decodes", 512))
    say("over time", is_said(lambda: was_live_for_a_moment("decodes", 512)))
    kept.clear()
    say("refused", refused())
    say("another thread", of_another_thread())
    kept.clear()
    say("callers", is_called_by())
    kept.clear()
    say("phase", in_its_phase())
    say("a module's move", a_move_is_one())
    kept.clear()
    say("all at once", all_at_once())
    kept.clear()
    say("nothing lives longer", nothing_lives_longer())


if __name__ == "__main__":
    main()
