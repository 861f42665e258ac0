"""Stable Diffusion 1.5 with tasks in turn: plain, with one ControlNet model and then another, and
with two at a time. A model goes to the device when its task comes and back to the host after it. A
task that runs out of memory is tried again at half the batch, after Python's collection and
empty_cache, as many scripts do."""

import models
import torch
from workloads import sd15
from workloads.sd15 import decode

STEPS = 3
CONTROLNETS = ("canny", "depth", "openpose")

# ControlNet models, width, height, batch
TASKS = [
    ((), 512, 512, 4),
    (("canny",), 768, 768, 4),
    (("depth",), 768, 768, 8),
    ((), 768, 512, 4),
    (("canny", "openpose"), 768, 768, 8),
    (("openpose",), 512, 768, 4),
    (("depth",), 1024, 768, 8),
    ((), 512, 512, 1),
]


class Guided:
    """A pipeline with the ControlNet models of a task on the device."""

    def __init__(self, pipe, controlnets, names):
        self.parts = [controlnets[name] for name in names]
        self.guided = self.parts[0] if len(names) == 1 else self.parts
        self.pipe = models.with_controlnet(pipe, self.guided) if names else pipe

    def __enter__(self):
        for part in self.parts:
            part.to("cuda")
        return self

    def __exit__(self, *_):
        for part in self.parts:
            part.to("cpu")

    def generate(self, session, width, height, batch):
        arguments = {"num_inference_steps": STEPS, "output_type": "latent"}
        if self.parts:
            images = [torch.empty(batch, 3, height, width) for _ in self.parts]
            arguments["image"] = images[0] if len(images) == 1 else images
        prompt = sd15.encode(self.pipe, batch)
        latents = self.pipe(**prompt, **arguments, width=width, height=height).images
        decode(self.pipe.vae, latents, session)


def fits(work, batch):
    """False where it ran out of memory."""
    try:
        work(batch)
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if "out of memory" not in str(error):
            raise
        return False
    return True


@torch.no_grad()
def run(session):
    pipe = models.sd15().to("cuda")
    controlnets = {name: models.controlnet_sd15() for name in CONTROLNETS}
    session.job("loaded")
    halved = 0
    for names, width, height, batch in TASKS:
        with Guided(pipe, controlnets, names) as task:
            while not fits(lambda count: task.generate(session, width, height, count), batch):
                if batch == 1:
                    raise torch.OutOfMemoryError("out of memory at a batch of 1")
                session.gather()
                batch //= 2
                halved += 1
        session.job(f"{'+'.join(names) or 'plain'} {width}x{height} batch {batch}")
    session.notes["halved"] = halved
    return pipe
