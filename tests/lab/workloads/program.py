"""Any program in Python, the file PROGRAM, as if it were started by itself; what it leaves at its end stays loaded."""

import os
import pathlib
import runpy
import sys


def run(session):
    file = pathlib.Path(os.environ["PROGRAM"])
    sys.path.insert(0, str(file.parent))
    return runpy.run_path(str(file), run_name="__main__")
