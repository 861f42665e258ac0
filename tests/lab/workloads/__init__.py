"""The workloads, each a module with one entry: run(session), which returns what stays loaded
after its last job."""

NAMES = ("sd15", "sdxl", "sdxl_offload", "flux")
TIMED = ("serve", "survivors")  # what counts in them is time, or what fits at the end: --default
ALL = NAMES + TIMED
