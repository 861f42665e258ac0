"""The workloads, each a module with one entry: run(session), which returns what stays loaded
after its last job."""

NAMES = ("sd15", "sdxl", "sdxl_offload", "flux")
OFFLOADED = ("sequential_offload", "group_offload")  # layer by layer
TIMED = ("serve", "loop", "survivors") + OFFLOADED  # what counts is time, and what fits: --default
# The models of 2026, each with all parts on the card, one part at a time, and a few layers at a time; also for --default.
FAMILIES, KEPT = ("zimage", "flux2", "wan22", "ltx"), ("whole", "by_model", "by_group")
RECENT = tuple(f"{family}_{kept}" for family in FAMILIES for kept in KEPT)
TOLD = ("encode_loop", "encode_loop_leak", "encode_loop_list", "controlnet_switch", "lora_loader")
ALL = NAMES + TIMED + RECENT
# The last four: --formulas, --survivors, whatif.py.
KNOWN = ALL + TOLD + ("full_card", "survivors_in_rows", "mix", "program")


def place(name):
    """The module of a workload, and its function there."""
    return name.split("_", 1) if name in RECENT else (name, "run")
