"""How the models of 2026 are kept on the card: all parts at once ("whole"), one part at a time (diffusers' model
offload: "by_model"), or a few layers at a time (its group offload: "by_group")."""

import models
import torch
from diffusers.hooks import apply_group_offloading

LEAVES = {"offload_type": "leaf_level"}


def whole(pipe):
    return pipe.to("cuda")


def one_model(pipe):
    pipe.enable_model_cpu_offload(device="cuda")
    return pipe


def groups(pipe, **more):
    """Blocks of the transformers, and the layers of all else: some VAEs cannot be moved by blocks."""
    for name, part in pipe.components.items():
        if isinstance(part, torch.nn.Module):
            blocks = name.startswith("transformer")
            how = {"offload_type": "block_level", "num_blocks_per_group": 1} | more if blocks else LEAVES
            apply_group_offloading(part, torch.device("cuda"), torch.device("cpu"), **how)
    return pipe


def hidden_states(encoder, length, vocabulary, **more):
    """Of a prompt of that many tokens; nothing is padded, so no mask is needed."""
    ids = models.tokens(length, vocabulary=vocabulary, end=1)
    return encoder(input_ids=ids, output_hidden_states=True, use_cache=False, **more).hidden_states


@torch.no_grad()
def videos(pipe, session, prompt, todo, steps, **more):
    """Of each width, height and number of frames; prompt(pipe) is what the pipeline is told of the prompt."""
    session.job("loaded")
    for width, height, frames in todo:
        made = pipe(
            **prompt(pipe),
            width=width,
            height=height,
            num_frames=frames,
            num_inference_steps=steps,
            output_type="pt",
            **more,
        )
        to_host(session, made.frames)
        del made
        session.job(f"{width}x{height}, {frames} frames")
    return pipe


def to_host(session, result):
    """As a web UI takes it, to write it to a file."""
    result = result.cpu()
    session.output(result)
