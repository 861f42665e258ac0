"""The workloads, each a module with one entry: run(session), which returns what stays loaded
after its last job."""

NAMES = ("sd15", "sdxl", "sdxl_offload", "flux")
TIMED = ("serve", "loop", "survivors")  # what counts in them is time, and what fits: --default
ALL = NAMES + TIMED
KNOWN = ALL + ("full_card",)  # --formulas
