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

import torch

MIB = 1 << 20
PATIENCE = 30


def fill_cache(count=60):
    """Makes a cache whose emptying takes a while, and starts the rest that leads to it."""
    keep = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    tensors = [torch.empty(40 * MIB, dtype=torch.uint8, device="cuda") for _ in range(count)]
    tensors.clear()
    return keep


def at_once(_):
    fill_cache()


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
    atexit.register(lambda: (fill_cache(), time.sleep(0.05)))


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


def os_exit(number):
    fill_cache()
    time.sleep(number * 0.002)
    os._exit(0)


def c_exit(number):
    """The C library's exit, past Python's own end."""
    fill_cache()
    time.sleep(number * 0.002)
    ctypes.CDLL(None).exit(0)


def c_exit_with_gil(number):
    fill_cache()
    time.sleep(number * 0.002)
    ctypes.PyDLL(None).exit(0)


def exec_again(number):
    fill_cache()
    time.sleep(number * 0.002)
    os.execv("/bin/true", ["true"])


def terminated(number):
    fill_cache()
    time.sleep(number * 0.002)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)


def fork_children(number):
    """Children that inherit tensors, and the lock of PyTorch's allocator as it is, and end in good order."""
    keep = fill_cache()
    time.sleep(number * 0.001)
    for _ in range(3):
        fill_cache(20)
        time.sleep(0.02 + number * 0.0005)
        child = os.fork()
        if child == 0:
            del keep
            sys.exit(0)
        status = wait_for(child, time.monotonic() + 10)
        if status != 0:
            raise RuntimeError(f"a forked child: {status}")


ENDINGS = {
    function.__name__: (function, count, expected)
    for function, count, expected in [
        (at_once, 50, 0),
        (after_a_while, 30, 0),
        (first_flush_long_ago, 12, 0),
        (uncaught_exception, 5, 1 << 8),
        (exit_in_thread, 6, 0),
        (slow_atexit, 10, 0),
        (first_use_in_atexit, 4, 0),
        (daemon_thread, 6, 0),
        (working_threads, 8, 0),
        (os_exit, 8, 0),
        (c_exit, 12, 0),
        (c_exit_with_gil, 8, 0),
        (exec_again, 8, 0),
        (terminated, 4, signal.SIGTERM),
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
    parser.add_argument("--at-a-time", type=int, default=3, metavar="N", help="children (default 3)")
    arguments = parser.parse_args()
    for name in arguments.endings or ENDINGS:
        function, count, expected = ENDINGS[name]
        with tempfile.TemporaryFile("w+") as errors:
            result = run_all(function, count, arguments.at_a_time, errors)
            if result is None:
                return
            errors.seek(0)
            said = errors.read()
        print(json.dumps({"ending": name, "count": count, "expected": expected, "said": said, **result}), flush=True)


main()
