#!/usr/bin/env python3
"""Runs a command on a terminal of its own, types Ctrl-C once it says READY, and prints what it wrote.

Ends with the command's status as a shell shows it. What is tested with it: that Ctrl-C reaches the program behind
`vramgc run` exactly once, and that the terminal's foreground group is left alone.
"""

import os
import pty
import sys


def read_until(terminal, word):
    text = b""
    while word not in text:
        text += os.read(terminal, 1024)
    return text


def read_rest(terminal):
    text = b""
    while True:
        try:
            part = os.read(terminal, 1024)
        except OSError:  # Linux reports the end of a terminal as EIO
            return text
        if not part:
            return text
        text += part


def main():
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    text = read_until(terminal, b"READY")
    os.write(terminal, b"\x03")
    text += read_rest(terminal)
    status = os.waitpid(child, 0)[1]
    sys.stdout.write(text.decode(errors="replace"))
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main())
