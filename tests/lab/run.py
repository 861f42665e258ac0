"""Runs one workload in this process and writes what it used as JSON. scripts/lab starts it; it
knows nothing of settings, devices or libvramgc.so beyond what the environment gives it."""

import argparse
import importlib
import json
import time
import warnings

import measure
import session as sessions
import torch
import workloads

REST_SECONDS = 0.5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=workloads.NAMES)
    parser.add_argument("--collect", choices=["seed"], help="what the web UI does after each stage")
    parser.add_argument(
        "--events", action="store_true", help="compute held_over_live_mean from PyTorch's trace"
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="have libvramgc.so write its statistics there after the rest",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="a line for each job on standard error"
    )
    parser.add_argument("--json", required=True, metavar="FILE", help="where the figures go")
    return parser.parse_args()


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


def main():
    args = arguments()
    run = importlib.import_module(f"workloads.{args.workload}").run
    quiet()
    torch.manual_seed(7)
    torch.backends.cudnn.benchmark = False
    result = {"workload": args.workload, "context_bytes": measure.context_bytes()}
    if args.events:
        measure.record_events()
    session = sessions.Session(args.collect, args.verbose)
    begin = time.monotonic()
    loaded, error = attempt(run, session)
    result |= {"seconds": round(time.monotonic() - begin, 3), "ok": error is None, "error": error}
    time.sleep(REST_SECONDS)
    result |= {"held_rest_bytes": measure.held_now()} | measure.figures(session)
    if args.report:
        measure.write_report(args.report)
    result["held_over_live_mean"] = measure.held_over_live_mean() if args.events else None
    with open(args.json, "w", encoding="utf-8") as file:
        json.dump(result, file)
    del loaded


if __name__ == "__main__":
    main()
