"""What is said of a refusal, where the functions tell: a load under way, a second one beside the first. Prints one line of JSON for
each check."""

import torch

from names import MIB, functions_are_named, report, say, take

kept = []


def converts(mib):
    """Of a weight and its copy one stays, as where weights are brought to another type."""
    raw = take(mib)
    made = take(mib)
    del raw
    return made


def load_model(count, make):
    for _ in range(count):
        kept.append(make(48))


def samples():
    for _ in range(4):
        take(400)


def is_refused(work):
    try:
        work()
    except torch.OutOfMemoryError:
        return report()["verdict"]


def a_load_under_way():
    verdict = is_refused(lambda: load_model(100, converts))
    kept.clear()
    cause = verdict["cause"]
    named = cause.startswith("load_model (told.py:19) had put 1.") and cause.endswith(" GiB on the card and was not done.")
    say("a load", verdict["code"] == "full" and named, cause=cause)


def a_load_beside_another():
    load_model(15, converts)
    samples()
    verdict = is_refused(lambda: load_model(100, take))
    kept.clear()
    fine = verdict["cause"].endswith("720 MiB that it put there before are still live.")
    say("another load", fine and "gc.collect()" in verdict["do"], cause=verdict["cause"], do=verdict["do"])


functions_are_named()
a_load_under_way()
a_load_beside_another()
