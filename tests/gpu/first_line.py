"""One line of figures of a run of tests/lab, for first-minutes.sh: from what the run wrote, as far as
it came: first_line.py NAME WORKLOAD MODE STATUS FILES (FILES.json, FILES.report)."""

import json
import pathlib
import sys

OF_THE_RUN = (
    "ok error seconds live_peak_bytes held_peak_bytes held_rest_bytes retries ooms driver_calls"
).split()


def read(path):
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def of_report(report):
    """What only libvramgc.so knows."""
    process = report["processes"][0]
    device = process["devices"][0]
    return {
        "mode": process["mode"],
        "held_peak_bytes": device["held_bytes"]["peak"],
        "held_over_live": device["derived"]["held_over_live_mean"],
        "page_moves": device["page_maps"] + device["page_unmaps"],
        "page_calls": device["page_calls"],
        "reclaims": device["reclaims"],
        "reclaim_ms": device["reclaim_ns"] / 1e6,
        "refusals": device["refusals"],
    }


def line(label, workload, asked, status, files):
    figures, report = read(f"{files}.json"), read(f"{files}.report")
    told = {"label": label, "workload": workload, "asked": asked, "rc": int(status)}
    told |= {key: figures.get(key) for key in OF_THE_RUN}
    told["outputs"] = (figures.get("same") or {}).get("outputs")
    return told | (of_report(report) if report.get("processes") else {})


if __name__ == "__main__":
    print(json.dumps(line(*sys.argv[1:])))
