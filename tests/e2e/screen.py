#!/usr/bin/env python3
"""screen.py STEPS COMMAND...: runs COMMAND on a terminal of its own, whose screen it keeps, and takes the steps, a line each:

    see REGEX       waits until a line of the screen matches
    twice REGEX     until two do
    unseen REGEX    waits until none does
    type TEXT       types; \\e[A and the like as Python reads them
    resize R C      gives the terminal so many rows and columns
    do COMMAND      runs a shell command
    signal NAME     sends COMMAND a signal
    keep FILE       writes the screen there
    end STATUS      waits until COMMAND has ended so: an exit status, or minus the number of a signal

It ends with 1, and shows the screen, when a minute did not bring what is awaited. RAW: a file for all that COMMAND wrote.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

SEQUENCE = re.compile(rb"\x1b\[([?>!]?)([0-9;]*)([@-~])|\x1b[()]([0-9A-Za-z])|\x1b([=>78McDE])|\x1b\][^\x07]*\x07")


class Screen:
    def __init__(self, rows, columns):
        self.row = self.column = 0
        self.rest = b""
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.first, self.last = 0, rows - 1  # what scrolls
        self.cells = [[" "] * columns for _ in range(rows)]

    def lines(self):
        return ["".join(row).rstrip().encode("latin-1").decode(errors="replace") for row in self.cells]

    def put(self, character):
        if self.row < self.rows and self.column < self.columns:
            self.cells[self.row][self.column] = character
        self.column += 1

    def erase(self, row, begin, end):
        if row < self.rows:
            for column in range(begin, min(end, self.columns)):
                self.cells[row][column] = " "

    def erase_screen(self, which):
        first, last = {0: (self.row + 1, self.rows), 1: (0, self.row), 2: (0, self.rows)}[which]
        for row in range(first, last):
            self.erase(row, 0, self.columns)
        if which != 2:
            self.erase_line(which)

    def erase_line(self, which):
        begin, end = {0: (self.column, self.columns), 1: (0, self.column + 1), 2: (0, self.columns)}[which]
        self.erase(self.row, begin, end)

    def scroll(self, down):
        for _ in range(abs(down)):
            self.cells.pop(self.last if down > 0 else self.first)
            self.cells.insert(self.first if down > 0 else self.last, [" "] * self.columns)

    def escape(self, letter):
        if letter == "M" and self.row == self.first:
            self.scroll(1)
        elif letter == "M":
            self.row -= 1
        elif letter in "DE":
            self.single(10)

    def control(self, numbers, letter):
        first = numbers[0] if numbers else 0
        count = max(first, 1)
        if letter == "H":
            self.row, self.column = count - 1, max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif letter in "ABCD":
            step = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1)}[letter]
            self.row, self.column = max(self.row + step[0] * count, 0), max(self.column + step[1] * count, 0)
        elif letter == "G":
            self.column = count - 1
        elif letter == "d":
            self.row = count - 1
        elif letter == "J":
            self.erase_screen(first)
        elif letter == "K":
            self.erase_line(first)
        elif letter == "X":
            self.erase(self.row, self.column, self.column + count)
        elif letter in "P@":
            row, blanks = self.cells[self.row], [" "] * count
            row[self.column :] = (row[self.column + count :] + blanks if letter == "P" else blanks + row[self.column :])[: self.columns - self.column]
        elif letter in "ST":
            self.scroll(count if letter == "T" else -count)
        elif letter in "LM":
            first, self.first = self.first, self.row
            self.scroll(count if letter == "L" else -count)
            self.first = first
        elif letter == "r":
            self.first, self.last = count - 1, (numbers[1] if len(numbers) > 1 and numbers[1] else self.rows) - 1
            self.row = self.column = 0
        elif letter == "b":
            for _ in range(count):
                self.put(self.cells[self.row][self.column - 1])
        else:
            assert letter in "mhlt", f"the terminal does not know {letter}"

    def single(self, byte):
        if byte == 13:
            self.column = 0
        elif byte == 10:
            if self.row == self.last:
                self.scroll(-1)
            self.row = min(self.row + 1, self.last if self.row <= self.last else self.rows - 1)
        elif byte == 8:
            self.column = max(self.column - 1, 0)
        elif 0x80 <= byte < 0xC0 and self.row < self.rows and 0 < self.column <= self.columns:
            self.cells[self.row][self.column - 1] += chr(byte)  # the rest of a character in UTF-8
        elif byte >= 32:
            self.put(chr(byte))

    def write(self, data):
        data = self.rest + data
        at = 0
        while at < len(data):
            match = SEQUENCE.match(data, at)
            if match:
                if match[3] and not match[1]:
                    self.control([int(n or 0) for n in match[2].decode().split(";")], match[3].decode())
                elif match[5]:
                    self.escape(match[5].decode())
                at = match.end()
            elif data[at] == 27:
                break  # the rest of it is on its way
            else:
                self.single(data[at])
                at += 1
        self.rest = data[at:]


class Session:
    def __init__(self, command):
        self.screen = Screen(24, 80)
        self.raw = b""
        self.status = None
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            os.execvp(command[0], command)

    def read(self, seconds):
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # Linux reports the end of a terminal as EIO
            data = b""
        self.raw += data
        self.screen.write(data)
        return bool(data)

    def wait(self, step, done):
        deadline = time.monotonic() + 60
        while not done():
            if time.monotonic() > deadline or (not self.read(0.1) and not done()):
                self.fail(step)

    def fail(self, step):
        os.kill(self.pid, signal.SIGKILL)
        print(f"in vain: {step}\n" + "\n".join(self.screen.lines()), file=sys.stderr)
        sys.exit(1)

    def sees(self, pattern, lines=1):
        return sum(bool(re.search(pattern, line)) for line in self.screen.lines()) >= lines

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def take_end(self, step, wanted):
        self.wait(step, lambda: not self.read(0.1))
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if status != wanted:
            self.fail(f"{step}: it ended with {status}")

    def take(self, step):
        word, _, rest = step.partition(" ")
        if word == "see":
            self.wait(step, lambda: self.sees(rest))
        elif word == "twice":
            self.wait(step, lambda: self.sees(rest, 2))
        elif word == "unseen":
            self.wait(step, lambda: not self.sees(rest))
        elif word == "type":
            os.write(self.terminal, rest.encode().decode("unicode_escape").encode())
        elif word == "resize":
            self.resize(*map(int, rest.split()))
        elif word == "do":
            subprocess.run(rest, shell=True, check=True)
        elif word == "signal":
            os.kill(self.pid, getattr(signal, rest))
        elif word == "keep":
            with open(rest, "w") as out:
                print("\n".join(self.screen.lines()), file=out)
        elif word == "end":
            self.take_end(step, int(rest))
        else:
            self.fail(step)


def main():
    session = Session(sys.argv[2:])
    for step in filter(None, map(str.strip, sys.argv[1].splitlines())):
        session.take(step)
    if "RAW" in os.environ:
        with open(os.environ["RAW"], "wb") as out:
            out.write(session.raw)


if __name__ == "__main__":
    main()
