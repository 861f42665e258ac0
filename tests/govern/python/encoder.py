"""The VAE or a UNet of diffusers runs out of memory: while a text encoder of transformers lies on the card, after it was moved away and
other tensors lie there, or for so much that without it nothing would have fitted, either. Prints one line of JSON."""

import re
import sys

import torch
from diffusers import AutoencoderKL, UNet2DModel
from transformers import CLIPTextConfig, CLIPTextModel

from names import MIB, functions_are_named, record, report, say

WORDS = re.compile(
    r"A model of the transformers library, a text encoder as a rule, has (\d+) MiB while (the VAE|denoising) runs: move it to host memory first"
)


def unet():
    return UNet2DModel(
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(32,),
        down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",),
    )


def text_encoder():
    """Of 273 MiB, nearly all of it one table."""
    config = CLIPTextConfig(
        vocab_size=1 << 16, hidden_size=1024, intermediate_size=64, num_hidden_layers=1, num_attention_heads=1
    )
    encoder = CLIPTextModel(config)
    encoder.to("cuda")
    return encoder


def work(model, mib):
    """So much is needed twice, and eight times as much by the first layer, of 32 channels."""
    side = int((mib * MIB / 16) ** 0.5)
    latents = torch.empty(1, 4, side, side, device="cuda")
    try:
        model.decode(latents) if isinstance(model, AutoencoderKL) else model(latents, 1)
    except torch.OutOfMemoryError:
        pass


def encoder_bytes(now):
    owners = now["devices"][0]["owners_at_oom"]["list"]
    return sum(o["bytes"] for o in owners if now["sites"][o["site"]]["source"] == "transformers/modeling_utils.py")


def names_known(encoder):
    now = record()
    site = now["refusals"][-1]["site"] if now["refusals"] else None
    asked = site is not None and now["sites"][site]["phase"] == ("denoise" if sys.argv[1] == "denoises" else "VAE")
    return asked and (not encoder or encoder_bytes(now) >= 256 * MIB)


def main():
    case = sys.argv[1]
    functions_are_named()
    model = unet() if case == "denoises" else AutoencoderKL(block_out_channels=(32,), latent_channels=4)
    model = model.to("cuda").eval()
    with torch.no_grad():
        encoder = text_encoder()
        if case == "moved":
            encoder.to("cpu")
            other = torch.empty(273 * MIB, dtype=torch.uint8, device="cuda")
        work(model, 60 if case != "of_no_use" else 90)
    verdict = report()["verdict"]
    said = WORDS.match(verdict["do"])
    at_work = {"stays": "the VAE", "denoises": "denoising"}.get(case)
    right = said and 256 <= int(said[1]) <= 290 and said[2] == at_work if at_work else not said
    say(case, verdict["code"] == "full" and names_known(case != "moved") and right, verdict=verdict, encoder_bytes=encoder_bytes(record()))


if __name__ == "__main__":
    main()
