"""Ends a process in every way a Python program can end, while vramgc's own thread empties the cache or is about to.

Run by test_python.py. PyTorch is imported once; each ending is a forked child that uses CUDA for the first time itself, so to
vramgc it is a process of its own. Prints one line of JSON for each ending: how often, which statuses, the slowest, what was
said on standard error.
"""

import argparse
import atexit
import collections
import ctypes
import json
import os
import signal
import sys
import tempfile
import threading
import time
import warnings

import torch

import vramgc_api

MIB = 1 << 20
PATIENCE = 30
kept = []  # until Python's end: to free a tensor would wait for the flush


def fill_cache(count=60):
    """Makes a cache whose emptying takes a while, and starts the rest that leads to it."""
    keep = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    tensors = [torch.empty(20 * MIB, dtype=torch.uint8, device="cuda") for _ in range(count)]
    tensors.clear()
    return keep


def begin_flush(seconds=3):
    """Returns in the middle of a flush that takes a third of a second: longer than Python needs to get to its point of no
    return, where a thread that comes back from PyTorch is ended inside it."""
    kept.append(fill_cache(2000))
    vramgc_api.wait_until(lambda: vramgc_api.snapshot().segments < 1990, seconds)


def at_once(_):
    fill_cache()


def in_a_flush(_):
    begin_flush()


def exit_in_a_flush(_):
    begin_flush()
    sys.exit(7)


def after_a_while(number):
    """Ends at another moment of rest and flush each time."""
    fill_cache()
    time.sleep(number * 0.002)


def first_flush_long_ago(number):
    fill_cache()
    time.sleep(0.2)
    fill_cache()
    time.sleep(number * 0.002)


def uncaught_exception(number):
    fill_cache()
    time.sleep(number * 0.002)
    raise RuntimeError("on purpose")


def exit_in_thread(number):
    """sys.exit in a thread ends the thread only."""

    def work():
        fill_cache()
        time.sleep(number * 0.002)
        sys.exit(5)

    threading.Thread(target=work).start()


def slow_atexit(number):
    """The program's own handlers take time, use the device and let other threads run."""

    def handler():
        fill_cache(20)
        time.sleep(0.05)
        fill_cache(20)
        time.sleep(number * 0.002)

    atexit.register(handler)
    fill_cache(20)


def first_use_in_atexit(_):
    """Too late for vramgc to be waited for: nothing may be flushed."""
    atexit.register(begin_flush, 0.3)


def daemon_thread(number):
    def work():
        while True:
            time.sleep(0.001)

    threading.Thread(target=work, daemon=True).start()
    fill_cache()
    time.sleep(number * 0.002)


def working_threads(number):
    """Threads that go on taking and freeing memory while the main thread has ended."""

    def work():
        for _ in range(3):
            fill_cache(10)
            time.sleep(0.01)

    for _ in range(3):
        threading.Thread(target=work).start()
    time.sleep(number * 0.001)


def os_exit(_):
    begin_flush()
    os._exit(0)


def c_exit(_):
    """The C library's exit, past Python's own end."""
    begin_flush()
    ctypes.CDLL(None).exit(0)


def c_exit_with_gil(_):
    begin_flush()
    ctypes.PyDLL(None).exit(0)


def exec_again(_):
    begin_flush()
    os.execv("/bin/true", ["true"])


def terminated(number):
    fill_cache()
    time.sleep(number * 0.002)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)


def fork_children(_):
    """Children that inherit tensors, and the lock of PyTorch's allocator as it is, and end in good order."""
    warnings.simplefilter("ignore", DeprecationWarning)  # Python from 3.12 on: the process has several threads, as with any driver
    for _ in range(2):
        begin_flush()
        child = os.fork()
        if child == 0:
            kept.clear()
            sys.exit(0)
        status = wait_for(child, time.monotonic() + 20)
        if status != 0:
            raise RuntimeError(f"a forked child: {status}")


ENDINGS = {
    function.__name__: (function, count, expected)
    for function, count, expected in [
        (at_once, 50, 0),
        (in_a_flush, 8, 0),
        (exit_in_a_flush, 4, 7 << 8),
        (after_a_while, 20, 0),
        (first_flush_long_ago, 6, 0),
        (uncaught_exception, 4, 1 << 8),
        (exit_in_thread, 4, 0),
        (slow_atexit, 6, 0),
        (first_use_in_atexit, 3, 0),
        (daemon_thread, 4, 0),
        (working_threads, 6, 0),
        (os_exit, 4, 0),
        (c_exit, 6, 0),
        (c_exit_with_gil, 4, 0),
        (exec_again, 4, 0),
        (terminated, 3, signal.SIGTERM),
        (fork_children, 3, 0),
    ]
}


def wait_for(child, deadline):
    """The wait status, or "hangs"."""
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


def start(function, number, errors):
    """The child's id; None in the child, which then ends as a script does: by falling off its end."""
    child = os.fork()
    if child == 0:
        os.dup2(errors.fileno(), 2)
        function(number)
        return None
    return child, time.monotonic()


def collect(child, begun, result):
    status = wait_for(child, begun + PATIENCE)
    result["statuses"][status] += 1
    result["slowest"] = max(result["slowest"], round(time.monotonic() - begun, 3))


def run_all(function, count, at_a_time, errors):
    """None in a child."""
    result = {"statuses": collections.Counter(), "slowest": 0}
    running = collections.deque()
    for number in range(count):
        if len(running) == at_a_time:
            collect(*running.popleft(), result)
        begun = start(function, number, errors)
        if begun is None:
            return None
        running.append(begun)
    while running:
        collect(*running.popleft(), result)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endings", nargs="*", default=list(ENDINGS))
    parser.add_argument(
        "--at-a-time", type=int, default=3, metavar="N", help="children (default 3)"
    )
    arguments = parser.parse_args()
    for name in arguments.endings or ENDINGS:
        function, count, expected = ENDINGS[name]
        with tempfile.TemporaryFile("w+") as errors:
            result = run_all(function, count, arguments.at_a_time, errors)
            if result is None:
                return
            errors.seek(0)
            said = errors.read()
        print(
            json.dumps(
                {"ending": name, "count": count, "expected": expected, "said": said, **result}
            ),
            flush=True,
        )


main()
