"""FLUX.1 with its transformer in 4 bits, all parts on a card of 24 GiB, and three LoRAs that a loader
fuses into the weights before the third job.

Of each layer the loader makes a whole weight and, from all files, the whole change; those of a block
live together until the block is done. So loading needs more than what comes of it, and more than any
job: the peak of the run is there."""

import models
import nf4
import torch

STEPS = 4
RANKS = (128, 64, 32)
STRENGTHS = (1.0, 0.8, 0.6)
LORAS_BEFORE = 2

# width, height, length of the prompt in T5 tokens
JOBS = [
    (1024, 1024, 512),
    (832, 1216, 256),
    (1024, 1024, 512),
    (1344, 768, 128),
    (832, 1216, 512),
    (1024, 1024, 256),
]


def layers(module):
    return [child for child in module.modules() if isinstance(child, nf4.Nf4Linear)]


def lora_file(transformer, rank):
    """For each layer the two matrices whose product is its change."""
    return {
        layer: (
            models.host_tensor((layer.out_features, rank), layer.compute_dtype),
            models.host_tensor((rank, layer.in_features), layer.compute_dtype),
        )
        for layer in layers(transformer)
    }


def change(layer, files):
    """In single precision, as loaders compute it."""
    total = 0
    for file, strength in zip(files, STRENGTHS):
        up, down = file[layer]
        total = total + strength * (up.float() @ down.float())
    return total


def fuse(block, files):
    changes = {layer: change(layer, files) for layer in layers(block)}
    for layer, delta in changes.items():
        layer.replace((layer.dequantize().float() + delta).to(layer.compute_dtype))


def load_loras(transformer):
    files = [
        {layer: (up.to("cuda"), down.to("cuda")) for layer, (up, down) in file.items()}
        for file in (lora_file(transformer, rank) for rank in RANKS)
    ]
    for block in [*transformer.transformer_blocks, *transformer.single_transformer_blocks]:
        fuse(block, files)


def prompt_of(pipe, length):
    pooled = pipe.text_encoder(models.tokens(77)).pooler_output
    embeds = pipe.text_encoder_2(models.tokens(length, vocabulary=32000, end=1))[0]
    return {"prompt_embeds": embeds, "pooled_prompt_embeds": pooled}


def generate(pipe, session, width, height, length):
    latents = pipe(
        **prompt_of(pipe, length),
        width=width,
        height=height,
        num_inference_steps=STEPS,
        output_type="latent",
    ).images
    session.stage()
    latents = pipe._unpack_latents(latents, height, width, pipe.vae_scale_factor)
    session.output(pipe.vae.decode(latents).sample.cpu())
    session.stage()


@torch.no_grad()
def run(session):
    pipe = models.flux()
    for blocks in (pipe.transformer.transformer_blocks, pipe.transformer.single_transformer_blocks):
        nf4.quantized(blocks)
    pipe.to("cuda")
    session.job("loaded")
    for number, (width, height, length) in enumerate(JOBS):
        if number == LORAS_BEFORE:
            load_loras(pipe.transformer)
            session.job("LoRAs loaded")
        generate(pipe, session, width, height, length)
        session.job(f"{width}x{height}" + (" 3 LoRAs" if number >= LORAS_BEFORE else ""))
    return pipe
