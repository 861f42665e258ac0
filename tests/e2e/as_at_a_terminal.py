#!/usr/bin/env python3
"""Runs a command with the signals of a terminal at work: nohup, and a shell that starts something in the background, have had
them ignored, and what is ignored at the start no shell script can trap. It must change nothing else."""
import os
import signal
import sys

for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
