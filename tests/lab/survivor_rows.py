"""scripts/lab --survivors: how many blocks of 100 MiB fit beside small blocks that stay of a row,
without the library and with it. It knows figures only; workloads/survivors_in_rows.py takes them down."""

import default
import sizes

DEVICE = "8GiB"


def row_of(args, runs, setting, side):
    with runs(default.kind(args, setting, side)) as run:
        result = run("survivors_in_rows", sizes.parse(DEVICE), pauses=True)
    return {"setting": setting, "side": side} | {key: result[key] for key in ("mode", "notes")}


def cell(note):
    return str(note["blocks"]) if note["fits"] else "-"


def words_of(name):
    """Of a pattern's name: "1.1 12", "1.1 random"."""
    size, pattern = name.split()
    return f"{size} MiB", f"1 in {pattern}" if pattern.isdigit() else "at random, 1 in 8"


def text(rows):
    """Markdown: FIGURES.md has it."""
    heads = [f"`{row['setting']}`, {row['side']}" for row in rows]
    lines = [
        f"| blocks | stay | {' | '.join(heads)} |",
        "|---|---" + "|--:" * len(rows) + "|",
    ]
    for name in rows[0]["notes"]:
        found = [cell(row["notes"][name]) for row in rows]
        lines.append(f"| {' | '.join((*words_of(name), *found))} |")
    modes = ", ".join(sorted({row["mode"] for row in rows} - {"off"}))
    head = f"blocks of 100 MiB that fit beside those that stay, on {DEVICE} (with: {modes or '-'})"
    return "\n".join([head, "", *lines])


def blocks_of(note):
    return note["blocks"] if note["fits"] else -1


def missed(rows):
    """Fewer than with the same setting alone."""
    alone = {row["setting"]: row["notes"] for row in rows if row["side"] == "without"}
    return [
        f"{row['setting']}, {row['side']}, {', '.join(words_of(name))}: "
        f"{cell(note)} blocks, alone {cell(alone[row['setting']][name])}"
        for row in rows
        if row["setting"] in alone
        for name, note in row["notes"].items()
        if blocks_of(note) < blocks_of(alone[row["setting"]][name])
    ]


def measure(args, runs):
    rows = default.columns(args, lambda setting, side: row_of(args, runs, setting, side))
    return {"rows": rows, "text": text(rows), "missed": missed(rows)}
