#!/usr/bin/env python3
"""Writes checkpoints as large as SD 1.5 and SDXL, made of ComfyUI's own modules with random weights, so that nothing has to be
fetched: checkpoints.py COMFYUI FOLDER [DEVICE]. The images are noise, but the same noise each time."""

import pathlib
import sys

sys.path.insert(0, sys.argv[1])
folder, device = pathlib.Path(sys.argv[2]), (*sys.argv[3:], "cuda")[0]
del sys.argv[1:]  # ComfyUI reads its options from there

import comfy.ops
import comfy.supported_models
import torch
from comfy.ldm.models.autoencoder import AutoencoderKL
from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel
from safetensors.torch import save_file

# As comfy/model_detection.py finds them in the published checkpoints.
BOTH = {
    "image_size": 32, "in_channels": 4, "out_channels": 4, "model_channels": 320, "use_spatial_transformer": True,
    "legacy": False, "use_temporal_attention": False, "use_temporal_resblock": False, "dtype": torch.float16,
}  # fmt: skip
SD15 = {
    "adm_in_channels": None, "num_res_blocks": [2] * 4, "channel_mult": [1, 2, 4, 4], "context_dim": 768, "num_heads": 8,
    "num_head_channels": -1, "transformer_depth": [1] * 6 + [0] * 2, "transformer_depth_middle": 1,
    "transformer_depth_output": [1] * 9 + [0] * 3, "use_linear_in_transformer": False,
}  # fmt: skip
SDXL = {
    "adm_in_channels": 2816, "num_classes": "sequential", "num_res_blocks": [2] * 3, "channel_mult": [1, 2, 4],
    "context_dim": 2048, "num_head_channels": 64, "transformer_depth": [0, 0, 2, 2, 10, 10], "transformer_depth_middle": 10,
    "transformer_depth_output": [0, 0, 0, 2, 2, 2, 10, 10, 10], "use_linear_in_transformer": True,
}  # fmt: skip
VAE = {
    "double_z": True, "z_channels": 4, "resolution": 256, "in_channels": 3, "out_ch": 3, "ch": 128, "ch_mult": [1, 2, 4, 4],
    "num_res_blocks": 2, "attn_resolutions": [], "dropout": 0.0,
}  # fmt: skip


def value(name, shape, generator):
    """What keeps a signal as large as it was, so that nothing overflows in 16 bits."""
    if len(shape) < 2:
        return torch.full(shape, float(not name.endswith("bias")))
    scale = 0.02 if "embedding" in name else shape[1:].numel() ** -0.5
    return torch.randn(shape, generator=generator, device=device) * scale


def weights(module, generator):
    there = module.state_dict().items()
    return {name: value(name, of.shape, generator).half().cpu() for name, of in there if of.is_floating_point()}


def checkpoint(kind, config, seed):
    generator = torch.Generator(device).manual_seed(seed)
    kind = kind(config)
    with torch.device("meta"):
        unet = UNetModel(**config, device="meta", operations=comfy.ops.disable_weight_init)
        vae = AutoencoderKL(ddconfig=VAE, embed_dim=4)
        clip = kind.clip_target({}).clip(device="meta", dtype=torch.float16, model_options={})
    found = kind.process_unet_state_dict_for_saving(weights(unet, generator))
    found |= kind.process_vae_state_dict_for_saving(weights(vae, generator))
    found |= kind.process_clip_state_dict_for_saving(weights(clip, generator))
    return {name: tensor.contiguous() for name, tensor in found.items()}


folder.mkdir(parents=True, exist_ok=True)
for seed, name, kind, config in (
    (1, "sd15", comfy.supported_models.SD15, BOTH | SD15),
    (2, "sdxl", comfy.supported_models.SDXL, BOTH | SDXL),
):
    save_file(checkpoint(kind, config, seed), folder / f"{name}.safetensors")
