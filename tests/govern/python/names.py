"""Who took memory is known by the Python function: what is kept, what was at the peak, who was refused. A name may be missed on a busy
machine, so each is asked for again until it is in the statistics file. Prints one line of JSON for each check."""

import gc
import json
import os
import subprocess
import sys
import threading
import time

import torch

MIB = 1 << 20
PATIENCE = 200
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
    time.sleep(0.02)


def keeps_small_ones():
    kept.extend(torch.empty(MIB // 4, dtype=torch.uint8, device="cuda") for _ in range(64))
    time.sleep(0.02)


def keeps_by_a_lambda():
    """What has no name of its own belongs to the function around it."""
    step = lambda: (kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")), time.sleep(0.02))
    [step() for _ in range(1)]


def decodes():
    image = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    time.sleep(0.02)
    del image


def until(work, owners, least_mib):
    """Works until the function is named for so much. What it keeps makes each peak higher than the one before."""
    for _ in range(PATIENCE):
        work()
        if named(owners, work.__name__) >= least_mib * MIB:
            return True
    return False


def no_site_is_nameless():
    nameless = {"<lambda>", "<listcomp>", "<genexpr>"}
    return not nameless & {site["function"] for site in record()["sites"]}


def grows():
    """Its peak is higher each time, so that it is the latest."""
    for i in range(PATIENCE):
        kept.append(take(16))
        decodes()
        if named("owners_at_peak", "decodes") >= 512 * MIB:
            return True
    return False


def asks_for_too_much():
    try:
        take(1 << 20)
    except torch.OutOfMemoryError:
        return


def refused():
    for _ in range(PATIENCE):
        asks_for_too_much()
        now = record()
        site = now["refusals"][-1]["site"]
        if site is not None and now["sites"][site]["function"] == "take":
            return True
    return False


def of_another_thread():
    """The thread that asks is the one that is looked at."""
    done = []

    def works_apart():
        kept.append(torch.empty(96 * MIB, dtype=torch.uint8, device="cuda"))
        time.sleep(0.02)

    for _ in range(PATIENCE):
        kept.clear()
        thread = threading.Thread(target=works_apart)
        thread.start()
        thread.join()
        asks_for_too_much()
        if named("owners_at_oom", "works_apart") >= 96 * MIB:
            return True
    return False


def in_its_phase():
    """A row of the file that VRAMGC_FUNCTIONS names, although one before it is wrong."""

    def restores_faces():
        kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))
        time.sleep(0.02)

    for _ in range(PATIENCE):
        restores_faces()
        for site in record()["sites"]:
            if site["function"] == "restores_faces":
                return site["phase"] == "face fix"
    return False


def nothing_lives_longer():
    """What a function had is free when it has ended, however often it was looked at."""
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        decodes()
        if torch.cuda.memory_allocated() != before:
            return False
    return gc.isenabled() and not sys.exc_info()[0]


def main():
    say("kept", until(keeps_embeddings, "owners_at_peak", 64))
    say("small ones", until(keeps_small_ones, "owners_at_peak", 8))
    kept.clear()
    say("nameless", until(keeps_by_a_lambda, "owners_at_peak", 64) and no_site_is_nameless())
    kept.clear()
    say("peak", grows())
    kept.clear()
    say("refused", refused())
    say("another thread", of_another_thread())
    kept.clear()
    say("phase", in_its_phase())
    kept.clear()
    say("nothing lives longer", nothing_lives_longer())


if __name__ == "__main__":
    main()
