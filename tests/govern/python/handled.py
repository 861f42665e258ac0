"""A try that has run out of memory is kept by the error that the program handles: the next try, within `except`, may lie in RAM where
vramgc may map that. Not another error's, and not after it. Prints one line of JSON for each check."""

import torch

from names import functions_are_named, record, say, take


def decode():
    parts = []
    while True:
        parts.append(take(20))


def decode_tiled():
    return take(120)


def is_served():
    try:
        decode_tiled()
        return True
    except torch.OutOfMemoryError:
        return False


def spilled():
    return record()["devices"][0]["spilled_bytes"]


def while_it_is_handled():
    try:
        decode()
    except torch.OutOfMemoryError:
        served = is_served()
        say("is served", served, spilled=spilled())
    say("goes back", take(600) is not None)


def after_it():
    kept = None
    try:
        decode()
    except torch.OutOfMemoryError as error:
        kept = error.__traceback__
    say("not after it", not is_served())
    try:
        raise ValueError
    except ValueError:
        say("nor while another is handled", not is_served())
    del kept


functions_are_named()
while_it_is_handled()
after_it()
