"""Eight programs on one card ask each other for what they lack (govern/peer_programs.h), and some are killed meanwhile: who is not
ends well, and with what it had written. Rounds, until some were killed, some have asked, and the time is over.

    storm.py FOLDER DRIVER CUDA SECONDS OPERATIONS
"""

import os
import pathlib
import random
import re
import subprocess
import sys
import time

PROGRAMS, KILLED_A_ROUND = 8, 3
folder, driver, cuda = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
end, operations = time.monotonic() + int(sys.argv[4]), sys.argv[5]


def step(name, command):
    """Of a script: waits until the command says yes."""
    path = folder / f"step-{name}"
    path.write_text(f"#!/usr/bin/env bash\nunset LD_PRELOAD\n{command}\n")
    path.chmod(0o755)
    return f"until {path}"


def start(number, seed, everybody):
    """A context needs room: nobody takes more before all are there."""
    here = step(f"here{number}", f"touch {folder}/here.{number}")
    script = folder / f"script.{number}"
    script.write_text(
        f"alloc c 1MiB; {here}; {everybody}; random seed={seed} ops={operations} max=512MiB live=12 fill=1 every={operations}\n"
    )
    environment = os.environ | {
        "LD_PRELOAD": os.environ["STORM_PRELOAD"],
        "VRAMGC_OUT": str(folder / f"record.{number}"),
    }
    command = ["tests/on_card", "--cuda", cuda, "--mem", "8GiB", "--", driver, str(script)]
    with open(folder / f"out.{number}", "wb") as out:
        return subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)


def asked(number):
    record = folder / f"record.{number}"
    facts = subprocess.run(["build/govern/show", record], capture_output=True, text=True, check=True)
    record.unlink()
    return int(re.search(r"^peer_waits (\d+)$", facts.stdout, re.M)[1])


def play(seed):
    """A round. How many were killed, and how often somebody asked."""
    for path in folder.glob("here.*"):
        path.unlink()
    everybody = step("all", f"[ $(ls {folder}/here.* | wc -l) = {PROGRAMS} ]")
    programs = [start(i, seed + i, everybody) for i in range(PROGRAMS)]
    while len(list(folder.glob("here.*"))) < PROGRAMS:
        assert all(program.poll() is None for program in programs)
        time.sleep(0.01)
    for program in random.sample(programs, KILLED_A_ROUND):
        time.sleep(random.random() / 3)
        program.kill()  # it has not been waited for: nobody else has its number
    for i, program in enumerate(programs):
        program.wait()
        said = (folder / f"out.{i}").read_text(errors="replace")
        well = program.returncode == 0 and said.rstrip().endswith(" corrupted=0")
        complains = re.search("Sanitizer|runtime error|ERROR", said)
        if program.returncode != -9 and (not well or complains):
            sys.exit(f"program {i}: status {program.returncode}\n{said[-3000:]}")
    return sum(p.returncode == -9 for p in programs), sum(asked(i) for i in range(PROGRAMS))


rounds = killed = waits = 0
while not killed or not waits or time.monotonic() < end:
    more = play(rounds * PROGRAMS)
    rounds, killed, waits = rounds + 1, killed + more[0], waits + more[1]
print(f"rounds {rounds}, killed {killed}, asked {waits}")
