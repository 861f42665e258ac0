"""A web UI at work: jobs of changing size with pauses between them, for Stable Diffusion 1.5 and
SDXL in turn. After each job what the web UIs do: Python's collection, empty_cache, ipc_collect.

Models go to the device when a job wants them and back to the host when another needs the room, by
the sum with which ComfyUI and Forge steer (free + reserved − active), or, as SD.Next's balanced
offload does, part by part within a job."""

import models
import torch
from workloads import sd15, sdxl, sdxl_offload
from workloads.sd15 import decode

PAUSE_AFTER_EVERY = 0  # it pauses itself
SHORT, LONG = 0.3, 2.5
RESERVE_BYTES = 1 << 30  # for inference, Forge's standard
LEAST_FACTOR = 1.3  # of a model's size, Forge's

# model, width, height, batch, factor of the second pass or None, pause
JOBS = [
    ("sd15", 512, 512, 1, None, SHORT),
    ("sd15", 768, 512, 2, None, LONG),
    ("sd15", 512, 768, 1, 2.0, SHORT),
    ("sdxl", 1024, 1024, 1, None, LONG),
    ("sdxl", 832, 1216, 1, None, SHORT),
    ("sd15", 640, 640, 4, None, SHORT),
    ("sd15", 512, 512, 1, 1.5, LONG),
    ("sdxl", 1216, 832, 1, None, SHORT),
    ("sd15", 960, 544, 1, None, LONG),
]


def available():
    """As ComfyUI and Forge compute it."""
    stats = torch.cuda.memory_stats()
    free, _ = torch.cuda.mem_get_info()
    idle = stats["reserved_bytes.all.current"] - stats["active_bytes.all.current"]
    return free + idle


def model_bytes(pipe):
    parts = (part for part in pipe.components.values() if isinstance(part, torch.nn.Module))
    return sum(p.numel() * p.element_size() for part in parts for p in part.parameters())


class Models:
    """Those that are loaded; only sd15 stays on the device between jobs."""

    def __init__(self):
        self.pipes = {"sd15": models.sd15(), "sdxl": models.sdxl()}
        self.resident = False
        self.moves = 0

    def make_room(self, count):
        if self.resident and available() < count * LEAST_FACTOR + RESERVE_BYTES:
            self.pipes["sd15"].to("cpu")
            torch.cuda.empty_cache()
            self.resident = False
            self.moves += 1

    def sd15(self):
        if not self.resident:
            self.pipes["sd15"].to("cuda")
            self.resident = True
        return self.pipes["sd15"]

    def sdxl(self):
        self.make_room(model_bytes(self.pipes["sdxl"]))
        return self.pipes["sdxl"]


def generate_sdxl(pipe, session, width, height, batch):
    """Part by part, with empty_cache after each, as SD.Next's balanced offload."""
    encoders = (pipe.text_encoder, pipe.text_encoder_2)
    sdxl_offload.move(encoders, "cuda")
    prompt = sdxl.encode(pipe, batch)
    sdxl_offload.move(encoders, "cpu")
    torch.cuda.empty_cache()
    pipe.unet.to("cuda")
    latents = sdxl.sample(pipe, prompt, width, height)
    pipe.unet.to("cpu")
    torch.cuda.empty_cache()
    pipe.vae.to("cuda")
    decode(pipe.vae, latents, session)
    pipe.vae.to("cpu")


@torch.no_grad()
def run(session):
    loaded = Models()
    for name, width, height, batch, factor, pause in JOBS:
        if name == "sd15":
            sd15.generate(loaded.sd15(), session, width, height, batch, factor)
        else:
            generate_sdxl(loaded.sdxl(), session, width, height, batch)
        session.gather()
        hires = f" hires {factor}" if factor else ""
        session.job(f"{name} {width}x{height} batch {batch}{hires}")
        session.pause(pause)
    session.notes["moves"] = loaded.moves
    return loaded.pipes["sd15"]
