"""scripts/lab --formulas: what the sums say by which web UIs steer, on a card that gets full, and
what is true, without the library and with it. It knows figures only; workloads/full_card.py takes
them down.

What is true: what is not live can be had, and no more than the card holds. A sum is wrong where it
promises a byte more, or, unless that is its nature, hides one: PyTorch and the simulated device count
in the same pages, and all four are exact at each moment under each setting alone. Moments that
PyTorch alone did not live to see are left out."""

import default
import sizes

DEVICE = "8GiB"
PARTS = ("growing", "random", "loader")


def can_be_had(moment):
    return moment["capacity"] - moment["active"]


def capacity(moment):
    return moment["capacity"]


# name: what it says, what is true, and whether it may say less than that
FORMULAS = {
    "ComfyUI, Forge: free + reserved - active": (
        lambda moment: moment["free"] + moment["reserved"] - moment["active"],
        can_be_had,
        False,
    ),
    "InvokeAI: free + allocated": (
        lambda moment: moment["free"] + moment["allocated"],
        capacity,
        True,  # PyTorch's cache counts as lost
    ),
    "SD.Next, A1111, DiffSynth, diffusers: free": (
        lambda moment: moment["free"],
        can_be_had,
        True,
    ),
    "PyTorch's cacheInfo: free + reserved": (
        lambda moment: moment["free"] + moment["reserved"],
        capacity,
        True,
    ),
}
# For information: mode compact answers cudaMemGetInfo as the card would without it.
BOOKS = (
    lambda moment: moment["total"] - moment["free"],
    lambda moment: moment["total"] - moment["capacity"] + moment["held"],
    False,
)


def error(formula, moment):
    """What it says too much, or, below 0, too little; 0 where it is right."""
    says, true, may_say_less = formula
    more = says(moment) - true(moment)
    return 0 if may_say_less and more < 0 else more


def worst(formula, moments):
    """The moment with the largest error; None where it is right everywhere."""
    wrong = [moment for moment in moments if error(formula, moment)]
    if not wrong:
        return None
    found = max(wrong, key=lambda moment: abs(error(formula, moment)))
    says, true, _ = formula
    return {
        "moment": found["name"],
        "says_bytes": says(found),
        "true_bytes": true(found),
        "wrong": len(wrong),
        "of": len(moments),
    }


def right_alone(formula, base):
    """Names of the moments at which it is right without the library."""
    return {moment["name"] for moment in base["moments"] if not error(formula, moment)}


def judge(notes, base):
    """base: the notes of the same setting alone, or None: its moments count, but for those that it did not live to see.
    What it gets wrong itself is shown, and no fault of the library's."""
    alive = names_alive(base or notes)
    moments = [moment for moment in notes["moments"] if moment["name"] in alive]

    def at_fault(formula):
        right = right_alone(formula, base) if base else alive
        return worst(formula, [moment for moment in moments if moment["name"] in right])

    return {
        "formulas": {name: worst(formula, moments) for name, formula in FORMULAS.items()},
        "at_fault": {name: at_fault(formula) for name, formula in FORMULAS.items()},
        "books": worst(BOOKS, moments),
        "parts": {name: notes[name] for name in PARTS},
        "retries": notes["moments"][-1]["retries"],
    }


def names_alive(notes):
    return {moment["name"] for moment in notes["moments"] if not moment["dead"]}


def notes_of(args, runs, setting, side):
    with runs(default.kind(args, setting, side)) as run:
        result = run("full_card", sizes.parse(DEVICE), pauses=True)
    return {"setting": setting, "side": side, "notes": result["notes"]}


def judged(found):
    """Rows, each against the moments that the same setting alone lived to see."""
    alone = {row["setting"]: row["notes"] for row in found if row["side"] == "without"}
    rows = []
    for row in found:
        named = {"setting": row["setting"], "side": row["side"]}
        rows.append(named | judge(row["notes"], alone.get(row["setting"])))
    return rows


def cell(found):
    if found is None:
        return "right"
    says, true = found["says_bytes"] >> 20, found["true_bytes"] >> 20
    return f"{says:,}, true {true:,} ({found['wrong']} of {found['of']})"


def part_cell(part):
    if not part["completes"]:
        return "out of memory"
    return "completes" + (f", {part['layers']} layers" if part["layers"] else "")


def setting_text(rows):
    """A column for each side."""
    lines = [(f"setting {rows[0]['setting']}", [row["side"] for row in rows])]
    for name in FORMULAS:
        lines.append((name, [cell(row["formulas"][name]) for row in rows]))
    for name in PARTS:
        lines.append((name, [part_cell(row["parts"][name]) for row in rows]))
    lines.append(("retries", [str(row["retries"]) for row in rows]))
    lines.append(("total - free, true: the device's books", [cell(row["books"]) for row in rows]))
    return [f"{name:44s}" + "".join(f"{words:>32s}" for words in cells) for name, cells in lines]


def text(rows):
    lines = [
        f"sums on a card of {DEVICE} that gets full: the worst that each says, what is true, MiB,",
        "and at how many moments it is wrong",
    ]
    for setting in dict.fromkeys(row["setting"] for row in rows):
        lines += ["", *setting_text([row for row in rows if row["setting"] == setting])]
    return "\n".join(lines)


def missed_by(base, row):
    name = f"{row['setting']}, {row['side']}"
    lines = [
        f"{name}: {formula} says {cell(found)}, {found['moment']}"
        for formula, found in row["at_fault"].items()
        if found
    ]
    return lines + [
        f"{name}: {part} runs out of memory"
        for part, found in row["parts"].items()
        if base["parts"][part]["completes"] and not found["completes"]
    ]


def missed(rows):
    """Wrong with the library at a moment at which it is right without; out of memory only with it."""
    alone = {row["setting"]: row for row in rows if row["side"] == "without"}
    return [
        line
        for row in rows
        if row["side"] != "without" and row["setting"] in alone
        for line in missed_by(alone[row["setting"]], row)
    ]


def measure(args, runs):
    def notes(setting, side):
        return notes_of(args, runs, setting, side)

    rows = judged(default.columns(args, notes))
    return {"rows": rows, "text": text(rows), "missed": missed(rows)}
