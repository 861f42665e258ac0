"""How `vramgc whatif` finds the smallest card: replay.py's search, on cards of which it is given which do. whatif_search.py REPLAY.PY"""
import sys

MIB = 1 << 20


def told(does, mode="off"):
    """Of a card of so many MiB, and which try it is, `does` says whether the blocks fit; 500 MiB of them are live."""
    sys.argv = ["-c", source, "", "", "", f"0 {500 * MIB} 0", mode, ""]
    search, tries = {"__name__": "search"}, {}
    exec(source, search)  # pylint: disable=exec-used

    def attempt(_torch, _steps, _setting, size):
        tries[size] = tries.get(size, 0) + 1
        return f"1 {580 * MIB}" if does(size // MIB, tries[size]) else None

    search["attempt"] = attempt
    return int(search["smallest"](None, None, (mode, "")).split()[0]) // MIB


with open(sys.argv[1], encoding="utf-8") as file:
    source = file.read().rpartition("\nmain()")[0]

assert told(lambda mib, _: mib >= 600) == 600
assert told(lambda mib, _: mib >= 3000) == 3000, "more than four times what is live"

# Where memory is in pieces a larger card may fail again, and a smaller one do.
for first in range(560, 700, 6):
    for length in (4, 14, 40):

        def in_pieces(mib, _=1, *, gap=range(first, first + length)):
            return mib >= 600 and mib not in gap or mib in range(gap.start - 8, gap.start)

        card = told(in_pieces)
        assert in_pieces(card) and in_pieces(card + 16) and not in_pieces(card - 16), (first, length, card)

# A thread of vramgc's comes sooner or later: a card does on which the blocks fit each time.
assert told(lambda mib, number: mib >= 640 or mib >= 600 and number != 3, "flush") == 640
assert told(lambda mib, number: mib >= 640 or mib >= 600 and number != 3) == 600
