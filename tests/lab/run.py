"""Runs one workload in this process and writes what it used as JSON. scripts/lab starts it; it
knows nothing of settings, devices or libvramgc.so beyond what the environment gives it.

run.py --serve imports everything and waits for requests on standard input, a line of JSON each:
{"words": [...], "environment": {...}}. It answers each with {"status": ...} when a fork of it, in
which alone CUDA is used, has run the workload. See runner.py."""

import argparse
import gc
import importlib
import json
import os
import sys
import time
import traceback
import warnings

import measure
import ruler as rulers
import session as sessions
import torch
import workloads

REST_SECONDS = 1


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=workloads.KNOWN)
    parser.add_argument("--collect", choices=["seed"], help="what the web UI does after each stage")
    parser.add_argument(
        "--events", action="store_true", help="compute held ÷ live from PyTorch's trace"
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="have libvramgc.so write its statistics there after the rest",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="a line for each job on standard error"
    )
    parser.add_argument(
        "--pauses",
        action="store_true",
        help="pause after some jobs, and measure over time what is held by the device's own books",
    )
    parser.add_argument("--brief", action="store_true", help="with --pauses: leave them out")
    parser.add_argument(
        "--no-marks", action="store_true", help="set no marks on vramgc's timeline"
    )
    parser.add_argument(
        "--same", action="store_true", help="add what must not depend on libvramgc.so"
    )
    parser.add_argument("--json", required=True, metavar="FILE", help="where the figures go")
    return parser.parse_args(words)


def attempt(run, session):
    """What the workload leaves loaded, and the error that ended it, if any."""
    try:
        return run(session), None
    except RuntimeError as error:  # torch.OutOfMemoryError, or a CUDA call's own error
        if "out of memory" not in str(error):
            raise
        return None, str(error).split("\n")[0]


def quiet():
    from diffusers import DiffusionPipeline
    from diffusers.utils import logging

    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    DiffusionPipeline._progress_bar_config = {"disable": True}


def timed(run, session):
    """What stays loaded, and the figures of time and success."""
    begin, begin_cpu = time.monotonic(), time.process_time()
    latency_ns = measure.device_latency_ns()
    loaded, error = attempt(run, session)
    return loaded, {
        "seconds": round(time.monotonic() - begin, 3),
        "cpu_seconds": round(time.process_time() - begin_cpu, 3),
        "latency_seconds": round((measure.device_latency_ns() - latency_ns) / 1e9, 3),
        "ok": error is None,
        "error": error,
    }


def work(args):
    name, entry = workloads.place(args.workload)
    workload = importlib.import_module(f"workloads.{name}")
    quiet()
    torch.manual_seed(7)
    torch.backends.cudnn.benchmark = False
    result = {"workload": args.workload, "context_bytes": measure.context_bytes()}
    if args.events:
        measure.record_events()
    ruler = rulers.Ruler(result["context_bytes"]) if args.pauses else None
    every = getattr(workload, "PAUSE_AFTER_EVERY", sessions.PAUSE_AFTER_EVERY)
    session = sessions.Session(
        args.collect, args.verbose, ruler, every, marks=not args.no_marks, brief=args.brief
    )
    loaded, times = timed(getattr(workload, entry), session)
    result |= times
    if ruler:
        ruler.rest(sessions.PAUSE_SECONDS)
    else:
        time.sleep(REST_SECONDS)
    result |= {"held_rest_bytes": measure.held_now()} | measure.figures(session)
    result |= ruler.stop() if ruler else {}
    result["notes"] = session.notes
    if args.report:
        measure.write_report(args.report)
    ratios = measure.held_over_live() if args.events else (None, None)
    result |= dict(zip(("held_over_live_mean", "held_over_live_weighted"), ratios))
    if args.same:
        result["same"] = measure.same(session, loaded)
    result["device_errors"] = measure.device_errors()
    with open(args.json, "w", encoding="utf-8") as file:
        json.dump(result, file)
    del loaded


def child(request):
    """Never returns: nothing of the server's may run in a fork of it."""
    status = 1
    try:
        os.environ.update(request["environment"])
        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
        work(arguments(request["words"]))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def serve():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what diffusers prints is no answer
    importlib.import_module("peft")
    for name in workloads.KNOWN:
        importlib.import_module(f"workloads.{workloads.place(name)[0]}")
    if torch.cuda.is_initialized():
        raise RuntimeError("importing started CUDA: a fork could not use it")
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        process = os.fork()
        if process == 0:
            child(json.loads(line))
        _, status = os.waitpid(process, 0)
        answers.write(json.dumps({"status": os.waitstatus_to_exitcode(status)}) + "\n")
        answers.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        work(arguments())
