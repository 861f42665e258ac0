"""The models of 2026 as models.py makes those before them: full size, from their public architecture figures, without weights.

Where a card of 16 GiB is to hold all parts at once, weights are kept in 8 bits (fp8) and become bfloat16 for the call of their
layer, by diffusers' own layerwise casting, as people with such cards do."""

import functools

import models
import torch
from accelerate import init_empty_weights
from diffusers import (
    AutoencoderKLFlux2,
    AutoencoderKLLTX2Audio,
    AutoencoderKLLTX2Video,
    AutoencoderKLLTXVideo,
    AutoencoderKLWan,
    FlowMatchEulerDiscreteScheduler,
    Flux2KleinPipeline,
    Flux2Transformer2DModel,
    LTX2Pipeline,
    LTX2VideoTransformer3DModel,
    LTXPipeline,
    LTXVideoTransformer3DModel,
    WanPipeline,
    WanTransformer3DModel,
    ZImagePipeline,
    ZImageTransformer2DModel,
)
from diffusers.hooks import apply_layerwise_casting
from diffusers.pipelines.ltx2 import LTX2TextConnectors, LTX2Vocoder
from transformers import (
    Gemma3TextConfig,
    Gemma3TextModel,
    MistralConfig,
    MistralModel,
    Qwen3Config,
    Qwen3Model,
    T5Config,
    T5EncoderModel,
    UMT5Config,
    UMT5EncoderModel,
)

KEPT, COMPUTED = torch.float8_e4m3fn, torch.bfloat16
# "wo": T5's layer before it gives it what is of its weight's type.
NOT_CAST = ("norm", "embed", "shared", r"\.wo$")

QWEN3_4B = {
    "vocab_size": 151936,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
}
MISTRAL_SMALL = {
    "vocab_size": 131072,
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": None,
}
GEMMA3_12B = {
    "vocab_size": 262208,
    "hidden_size": 3840,
    "intermediate_size": 15360,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "sliding_window": 1024,
}
T5_XXL = {"d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "num_layers": 24}
FLUX2_KLEIN = {
    "num_layers": 5,
    "num_single_layers": 20,
    "num_attention_heads": 24,
    "joint_attention_dim": 7680,
    "guidance_embeds": False,
}
FLUX2_DEV = {
    "num_attention_heads": 48,
    "joint_attention_dim": 15360,
}
WAN22_5B = {
    "num_attention_heads": 24,
    "in_channels": 48,
    "out_channels": 48,
    "ffn_dim": 14336,
    "num_layers": 30,
}
WAN22_VAE = {
    "base_dim": 160,
    "decoder_base_dim": 256,
    "z_dim": 48,
    "is_residual": True,
    "in_channels": 12,
    "out_channels": 12,
    "patch_size": 2,
    "scale_factor_spatial": 16,
    "latents_mean": [0.0] * 48,
    "latents_std": [1.0] * 48,
}
LTX_13B = {"attention_head_dim": 128, "cross_attention_dim": 4096, "num_layers": 48}
LTX_VAE = {
    "block_out_channels": [128, 256, 512, 1024, 2048],
    "down_block_types": ["LTXVideo095DownBlock3D"] * 4,
    "decoder_block_out_channels": [256, 512, 1024],
    "layers_per_block": [4, 6, 6, 2, 2],
    "decoder_layers_per_block": [5, 5, 5, 5],
    "spatio_temporal_scaling": [True] * 4,
    "decoder_spatio_temporal_scaling": [True] * 3,
    "decoder_inject_noise": [False] * 4,
    "downsample_type": ["spatial", "temporal", "spatiotemporal", "spatiotemporal"],
    "upsample_residual": [True] * 3,
    "upsample_factor": [2, 2, 2],
    "timestep_conditioning": True,
    "decoder_causal": False,
    "spatial_compression_ratio": 32,
    "temporal_compression_ratio": 8,
}


class HostScheduler(FlowMatchEulerDiscreteScheduler):
    """Timesteps stay on the host, by which Wan 2.2 chooses its model; hooks bring them to the device."""

    @functools.wraps(FlowMatchEulerDiscreteScheduler.set_timesteps)
    def set_timesteps(self, *words, device=None, **more):
        super().set_timesteps(*words, device="cpu", **more)


class SteppingScheduler(FlowMatchEulerDiscreteScheduler):
    """Looks up no step by comparing timesteps on the device, where the simulated one compares nothing."""

    @functools.wraps(FlowMatchEulerDiscreteScheduler.set_timesteps)
    def set_timesteps(self, *words, **more):
        super().set_timesteps(*words, **more)
        self.set_begin_index(0)


def in_eight_bits(model):
    """While it has no memory yet: a tensor on the host is never converted."""
    apply_layerwise_casting(model, KEPT, COMPUTED, NOT_CAST)
    return model


def made(model, fp8=False, dtype=COMPUTED):
    if fp8 and hasattr(model, "enable_layerwise_casting"):
        model.enable_layerwise_casting(KEPT, COMPUTED)
    elif fp8:
        in_eight_bits(model)
    return models.materialise(model, dtype)


def text_model(kind, config, fp8=False, tied=None):
    with init_empty_weights():
        model = kind(config)
    if tied:
        tied(model)
    return made(model, fp8)


def diffusion_model(kind, config, fp8=False, dtype=COMPUTED):
    with init_empty_weights():
        model = kind.from_config(config)
    return made(model, fp8, dtype)


def qwen3_4b(fp8=False):
    return text_model(Qwen3Model, Qwen3Config(**QWEN3_4B), fp8)


def mistral_small(**config):
    return text_model(MistralModel, MistralConfig(**MISTRAL_SMALL | config))


def gemma3_12b():
    return text_model(Gemma3TextModel, Gemma3TextConfig(**GEMMA3_12B))


def one_table(model):
    model.encoder.embed_tokens = model.shared


def t5_xxl(fp8=False):
    config = T5Config(**T5_XXL, vocab_size=32128, feed_forward_proj="gated-gelu")
    return text_model(T5EncoderModel, config, fp8, one_table)


def umt5_xxl(fp8=False):
    config = UMT5Config(**T5_XXL, vocab_size=256384, feed_forward_proj="gated-gelu")
    return text_model(UMT5EncoderModel, config, fp8, one_table)


def zimage(fp8=False, **config):
    return ZImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=models.from_config(models.AutoencoderKL, models.VAE_FLUX, COMPUTED),
        text_encoder=qwen3_4b(fp8),
        tokenizer=None,
        transformer=diffusion_model(ZImageTransformer2DModel, config, fp8),
    )


def flux2(text_encoder, config):
    return Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=diffusion_model(AutoencoderKLFlux2, {}),
        text_encoder=text_encoder,
        tokenizer=None,
        transformer=diffusion_model(Flux2Transformer2DModel, config),
        is_distilled=True,
    )


def flux2_klein(fp8=False):
    return flux2(qwen3_4b(fp8), FLUX2_KLEIN)


def flux2_dev(double=8, single=48, encoder=40):
    """32 billion parameters, and 24 of the text encoder, which goes without its eyes. [klein]'s pipeline does the same but
    for guidance; [dev]'s own reads the image's size from the device, where the simulated one has computed none."""
    fewer = {"num_layers": double, "num_single_layers": single}
    return flux2(mistral_small(num_hidden_layers=encoder), FLUX2_DEV | fewer)


def wan22_5b(fp8=False):
    """The VAE is in 32 bits, as its makers have it, where the others are not in 8."""
    return WanPipeline(
        tokenizer=None,
        text_encoder=umt5_xxl(fp8),
        vae=diffusion_model(AutoencoderKLWan, WAN22_VAE, dtype=COMPUTED if fp8 else torch.float32),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=5.0),
        transformer=diffusion_model(WanTransformer3DModel, WAN22_5B, fp8),
        expand_timesteps=True,
    )


def wan22_14b(**config):
    """Two transformers of 14 billion parameters: one for the first steps, one for the others."""
    return WanPipeline(
        tokenizer=None,
        text_encoder=umt5_xxl(),
        vae=diffusion_model(AutoencoderKLWan, {}, dtype=torch.float32),
        scheduler=HostScheduler(shift=3.0),
        transformer=diffusion_model(WanTransformer3DModel, config),
        transformer_2=diffusion_model(WanTransformer3DModel, config),
        boundary_ratio=0.875,
    )


def ltx(config, fp8_transformer=False, fp8_encoder=False):
    return LTXPipeline(
        scheduler=SteppingScheduler(use_dynamic_shifting=True),
        vae=diffusion_model(AutoencoderKLLTXVideo, LTX_VAE),
        text_encoder=t5_xxl(fp8_encoder),
        tokenizer=None,
        transformer=diffusion_model(LTXVideoTransformer3DModel, config, fp8_transformer),
    )


def ltx_2b():
    return ltx({}, fp8_encoder=True)


def ltx_13b():
    return ltx(LTX_13B, fp8_transformer=True)


def ltx2(**config):
    """19 billion parameters for video and sound; the text encoder goes without its eyes."""
    return LTX2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=diffusion_model(AutoencoderKLLTX2Video, {}),
        audio_vae=diffusion_model(AutoencoderKLLTX2Audio, {}),
        text_encoder=gemma3_12b(),
        tokenizer=None,
        connectors=diffusion_model(LTX2TextConnectors, {}),
        transformer=diffusion_model(LTX2VideoTransformer3DModel, config),
        vocoder=diffusion_model(LTX2Vocoder, {}),
    )
