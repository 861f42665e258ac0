"""The figures of free memory and PyTorch's counters by which web UIs steer, on a card that gets
full: growing activations beside a model; random requests; blocks that do not fit between others,
and a loader that stops when 512 MiB are left. The notes tell the figures of each moment; what they
are worth is the business of formulas.py. For a card of 8 GiB; on another one sizes are in
proportion."""

import random

import torch
from workloads.survivors import MIB, block

PAUSE_AFTER_EVERY = 0  # there is nothing to look at
FULL_BYTES = 8 << 30
MODEL_BLOCKS, MODEL_BLOCK_MIB = 100, 20
GROWING_MIB = (300, 500, 700, 1000, 1400, 1900, 2500, 3200, 4200, 5000, 5600)
RANDOM_MIB = (1.5, 3, 20, 60, 120, 300, 800, 1500)
LIVE_SHARE = 0.8  # of the card: plain PyTorch fragments, and is to stay alive
MOMENTS = 300
BETWEEN, BETWEEN_MIB, WIDE_MIB = 56, 100, 900
LAYER_MIB, LEAST_MIB = 60, 512
INFERENCE_MIB = (40, 36, 30, 24) * 3  # less than what the loader leaves


class Card:
    """Takes down the figures at each moment."""

    def __init__(self, session):
        self.session = session
        self.capacity, self.total = torch.cuda.mem_get_info()
        self.part = self.total / FULL_BYTES
        self.moments = []

    def block(self, mib):
        return block(int(mib * self.part))

    def look(self, name, dead=False):
        """Returns what ComfyUI and Forge take for available. dead: it ran out of memory before."""
        free, total = torch.cuda.mem_get_info()
        stats = torch.cuda.memory_stats()
        found = {
            key: stats[f"{key}_bytes.all.current"] for key in ("reserved", "active", "allocated")
        }
        found |= {"name": name, "free": free, "total": total, "capacity": self.capacity}
        found |= {"retries": stats.get("num_alloc_retries", 0), "held": self.session.held()}
        self.moments.append(found | {"dead": dead})
        return free + found["reserved"] - found["active"]


def grow(card):
    for mib in GROWING_MIB:
        parts = [card.block(mib / 2), card.block(mib / 4), card.block(mib / 4)]
        card.look(f"{mib} MiB live")
        del parts
        card.look(f"{mib} MiB gone")


def at_random(card):
    source, live = random.Random(14), []
    total = MODEL_BLOCKS * MODEL_BLOCK_MIB
    most = LIVE_SHARE * card.capacity / MIB / card.part
    for moment in range(MOMENTS):
        mib = source.choice(RANDOM_MIB)
        if live and (source.random() < 0.5 or total + mib > most):
            total -= live.pop(source.randrange(len(live)))[0]
        else:
            live.append((mib, card.block(mib)))
            total += mib
        card.look(f"random {moment}")
        if moment % 100 == 99:
            torch.cuda.empty_cache()
            card.look(f"random {moment}, emptied")


def load_between(card):
    """Every second of many blocks goes; what comes then does not fit into the gaps; layers do."""
    kept = [card.block(BETWEEN_MIB) for _ in range(BETWEEN)][::2]
    card.look("every second block gone")
    kept.append(card.block(WIDE_MIB))
    layers = []
    while card.look(f"layer {len(layers)}") > (LEAST_MIB + LAYER_MIB) * MIB * card.part:
        layers.append(card.block(LAYER_MIB))
    for number in range(4):
        parts = [card.block(mib) for mib in INFERENCE_MIB]
        card.look(f"inference {number}")
        del parts
    return len(layers)


def attempt(card, work):
    """Each part may run out of memory, which ends that part alone."""
    try:
        return {"completes": True, "layers": work(card)}
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if "out of memory" not in str(error):
            raise
        name = f"{work.__name__}: out of memory"
    card.look(name, dead=True)
    return {"completes": False, "layers": None}


def run(session):
    card = Card(session)
    model = [card.block(MODEL_BLOCK_MIB) for _ in range(MODEL_BLOCKS)]
    card.look("model loaded")
    for name, work in (("growing", grow), ("random", at_random), ("loader", load_between)):
        session.notes[name] = attempt(card, work)
    session.notes["moments"] = card.moments
    del model
