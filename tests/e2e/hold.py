"""hold.py MAKE_FILE SCENARIO FILE [unmapped|parent|busy|deaf]: makes a statistics file of itself, and keeps it mapped, as the library does, until
it is killed. unmapped: as where a file system has no shared mappings. parent: what keeps the mapping is a child that outlives it.
busy: it computes. deaf: SIGTERM does not end it."""

import mmap
import os
import signal
import subprocess
import sys
import time

make_file, scenario, path, *how = sys.argv[1:]
subprocess.run([make_file, scenario, path, "pid", str(os.getpid())], check=True)
if how != ["unmapped"]:
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED)
if how == ["parent"] and (child := os.fork()):
    with open(path + ".child", "w") as out:
        out.write(str(child))
    sys.exit()
if how == ["deaf"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(path + ".ready", "w").close()
while how == ["busy"]:
    pass
time.sleep(3600)
