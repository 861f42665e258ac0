"""Does `vramgc whatif` tell the truth? Records each program once on a large card, in mode flush, asks whatif for the smallest card with each setting,
and then runs the program itself there: it is to complete on a card 16 MiB larger than was told, and to run out on one 32 MiB smaller than
that. What mode flush does depends on when its thread has its turn: there it runs TRIES times, and completes if it does so each time.
Prints a table for FIGURES.md, and the misses. whatif.py [PROGRAM...]: `mix3` is a made-up program, FILE.py any other, all else are workloads
of the lab."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
MARGIN = 16 * MIB
TRIES = 3
LARGE = 128 << 30
SETTINGS = {  # as whatif calls it: PyTorch's setting, mode
    "PyTorch's default": ("", "off"),
    "expandable_segments:True": ("expandable_segments:True", "off"),
    "max_split_size_mb:128": ("max_split_size_mb:128", "off"),
    "roundup_power2_divisions:8": ("roundup_power2_divisions:8", "off"),
    "vramgc --mode flush": ("", "flush"),
    "vramgc --mode compact": ("", "compact"),
}
PROGRAMS = (
    [f"mix{number}" for number in range(1, 13)]
    + ["sd15", "sdxl", "sdxl_offload", "flux", "loop", "encode_loop", "encode_loop_list", "lora_loader"]
    + [f"{family}_{kept}" for family in ("zimage", "flux2", "wan22", "ltx") for kept in ("whole", "by_model", "by_group")]
)


def refused(record):
    """Requests that vramgc answered with an out-of-memory of its own, which PyTorch does not count."""
    if not record.exists():
        return 0
    done = subprocess.run([ROOT / "build/vramgc", "report", "--json", record], capture_output=True, text=True, check=True)
    return sum(device["refused_blocks"] for process in json.loads(done.stdout)["processes"] for device in process["devices"])


class Server:
    """run.py --serve with one of PyTorch's settings, which it reads once; the library is in front, and off unless a run wants it."""

    def __init__(self, setting, folder):
        environment = dict(os.environ, VRAMGC_OUT="", LD_PRELOAD=str(ROOT / "build/libvramgc.so"), PYTORCH_NVML_BASED_CUDA_CHECK="1",
                           HF_HUB_OFFLINE="1", HF_HOME=str(ROOT / "build/lab/huggingface"), XDG_STATE_HOME=str(folder),
                           PYTHONPYCACHEPREFIX=str(ROOT / "build/pycache"))
        if setting:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
        self.log = open(folder / "log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [ROOT / "tests/on_card", "--", ROOT / "build/venv/bin/python", ROOT / "tests/lab/run.py", "--serve"],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def run(self, program, folder, **environment):
        """True: it went to its end, and nobody was refused memory for good."""
        name = "mix" if program.startswith("mix") else "program" if program.endswith(".py") else program
        result, out = folder / "result.json", pathlib.Path(environment["VRAMGC_OUT"])
        for file in (result, out):
            file.unlink(missing_ok=True)
        environment |= {"mix": {"MIX": program[3:]}, "program": {"PROGRAM": program}}.get(name, {})
        self.process.stdin.write(json.dumps({"words": [name, "--no-marks", "--json", str(result)], "environment": environment}) + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        figures = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {"ok": False}
        return figures["ok"] and not figures["ooms"] and not refused(out)


def ask(record, folder):
    """What whatif says, by setting."""
    words = [word for setting in SETTINGS for word in ("--setting", setting.rpartition(" ")[2] if "vramgc" in setting else SETTINGS[setting][0])]
    vendor = next((ROOT / "build/sim/vendor").iterdir())
    done = subprocess.run([ROOT / "build/vramgc", "whatif", "--json", *words, record], capture_output=True, text=True,
                          env=dict(os.environ, LD_LIBRARY_PATH=str(vendor), XDG_STATE_HOME=str(folder)))
    if done.returncode:
        raise ValueError(done.stderr.strip())
    answer = json.loads(done.stdout)
    return answer["events"], {row["setting"]: row["card_bytes"] for row in answer["settings"]}


def judge(servers, program, folder):
    """A row of the table, and its misses."""
    shown = pathlib.Path(program).stem
    record = folder / f"{shown}.vramgc"
    if not servers[""].run(program, folder, SIMGPU_MEM=str(LARGE), VRAMGC_MODE="flush", VRAMGC_RECORD="1", VRAMGC_OUT=str(record)):
        return f"| `{shown}` | does not run |", []
    events, told = ask(record, folder)
    cells, misses = [], []
    for setting, (configuration, mode) in SETTINGS.items():
        card, wrong = told[setting], []
        for size, expected in ((card + MARGIN, True), (card - MARGIN, False)):
            other = {"SIMGPU_MEM": str(size), "VRAMGC_MODE": mode, "VRAMGC_OUT": str(folder / "other.vramgc")}
            tries = TRIES if mode == "flush" else 1
            done = all(servers[configuration].run(program, folder, **other) for _ in range(tries))
            if done != expected:
                wrong.append(f"{'completes' if done else 'runs out'} on {size // MIB:,} MiB")
        cells.append(f"{card // MIB:,}{' **!**' if wrong else ''}")
        misses += [f"`{shown}`, {setting}: {card // MIB:,} MiB told, {', '.join(wrong)}"] if wrong else []
    for file in folder.glob(f"{shown}.vramgc*"):
        file.unlink()
    return f"| `{shown}` | {events:,} | {' | '.join(cells)} |", misses


def main():
    programs = sys.argv[1:] or PROGRAMS
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=ROOT / "build")))
        servers = {setting: Server(setting, folder) for setting in dict.fromkeys(setting for setting, _ in SETTINGS.values())}
        print("| program | block events | " + " | ".join(SETTINGS) + " |")
        print("|---|--:|" + "--:|" * len(SETTINGS), flush=True)
        misses = []
        for program in programs:
            row, missed = judge(servers, program, folder)
            print(row, flush=True)
            misses += missed
        for server in servers.values():
            server.process.stdin.close()
            server.process.wait()
        print(f"\n{len(programs) * len(SETTINGS)} answers, {len(misses)} misses")
        print("\n".join(f"* {miss}" for miss in misses))


main()
