"""The workloads, each a module with one entry: run(session), which returns what stays loaded
after its last job."""

NAMES = ("sd15", "sdxl", "sdxl_offload", "flux")
OFFLOADED = ("sequential_offload", "group_offload")  # layer by layer
TIMED = ("serve", "loop", "survivors") + OFFLOADED  # what counts is time, and what fits: --default
TOLD = ("encode_loop", "encode_loop_leak", "encode_loop_list", "controlnet_switch", "lora_loader")
ALL = NAMES + TIMED
KNOWN = ALL + TOLD + ("full_card", "survivors_in_rows")  # the last two: --formulas, --survivors
