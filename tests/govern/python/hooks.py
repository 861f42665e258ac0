"""Every hook that Python has for a program to see what runs is set; no one may be told of what vramgc does in its own thread. Run by
every Python that is at hand, without PyTorch. Argument: a command that prints what the statistics file says."""

import atexit
import ctypes
import gc
import subprocess
import sys
import threading
import time

main = threading.get_ident()
seen = set()


def note(kind, what):
    if threading.get_ident() != main:
        seen.add(kind + ": " + str(what))


def trace(frame, event, argument):
    note("trace", frame.f_code)
    return trace


def wait_until_named(runtime):
    """vramgc names who was refused."""
    while True:
        assert runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 40)) != 0
        told = subprocess.run([sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
        if any(line.startswith("sites ") and line != "sites 0" for line in told):
            return
        time.sleep(0.01)


runtime = ctypes.CDLL("libcudart.so.13")
sys.addaudithook(lambda event, arguments: note("audit", event))
for set_one in sys.settrace, sys.setprofile, threading.settrace, threading.setprofile:
    set_one(trace)
for name in "settrace_all_threads", "setprofile_all_threads":  # from 3.12 on
    getattr(threading, name, lambda function: None)(trace)
if hasattr(sys, "monitoring"):
    events = sys.monitoring.events
    sys.monitoring.use_tool_id(0, "hooks")
    for event in "PY_START", "PY_RETURN", "CALL", "LINE", "RAISE", "EXCEPTION_HANDLED", "JUMP", "BRANCH":
        sys.monitoring.register_callback(0, getattr(events, event), lambda code, *more, event=event: note("monitoring", (event, code)))
    sys.monitoring.set_events(0, events.PY_START | events.PY_RETURN | events.CALL | events.LINE | events.RAISE | events.EXCEPTION_HANDLED)
gc.callbacks.append(lambda phase, about: note("collector", phase))
gc.set_threshold(1)
for name in "excepthook", "unraisablehook":
    setattr(sys, name, lambda *about: seen.add("error"))
threading.excepthook = lambda about: seen.add("error")
wait_until_named(runtime)
sys.settrace(None)
sys.setprofile(None)
if len(threading.enumerate()) != 1:
    seen.add("threads: " + str(threading.enumerate()))
atexit.register(lambda: print("the program's own end"))
print(*sorted(seen), sep="\n")
sys.exit(len(seen))
