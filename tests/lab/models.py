"""Full-size diffusers models from their public architecture figures, without weights.

Only sizes matter to a memory allocator, so nothing is downloaded: what parameters contain is
content.py's. Buffers keep their real values.
"""

import functools
import itertools

import content
import torch
from accelerate import init_empty_weights
from diffusers import (
    AutoencoderKL,
    ControlNetModel,
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    StableDiffusionControlNetPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    T5Config,
    T5EncoderModel,
    UMT5Config,
    UMT5EncoderModel,
)

UNET_SD15 = {
    "sample_size": 64,
    "block_out_channels": [320, 640, 1280, 1280],
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
}
CONTROLNET_SD15 = {"cross_attention_dim": 768}  # the rest as the class has it
UNET_SDXL = {
    "sample_size": 128,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "block_out_channels": [320, 640, 1280],
    "cross_attention_dim": 2048,
    "attention_head_dim": [5, 10, 20],
    "transformer_layers_per_block": [1, 2, 10],
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
    "use_linear_projection": True,
}
VAE = {
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "block_out_channels": [128, 256, 512, 512],
    "layers_per_block": 2,
    "latent_channels": 4,
    "sample_size": 512,
}
VAE_SDXL = VAE | {"sample_size": 1024, "scaling_factor": 0.13025}
VAE_FLUX = VAE | {
    "latent_channels": 16,
    "sample_size": 1024,
    "scaling_factor": 0.3611,
    "shift_factor": 0.1159,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
}
SCHEDULER = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "steps_offset": 1,
    "timestep_spacing": "leading",
}


class HostDDIMScheduler(DDIMScheduler):
    """Keeps the timesteps on the host: on the simulated device kernels compute nothing, and the
    loop needs their values."""

    @functools.wraps(DDIMScheduler.set_timesteps)
    def set_timesteps(self, num_inference_steps, device=None):
        super().set_timesteps(num_inference_steps, device="cpu")


CONTENT_BYTES = 64 << 10  # the simulated device moves the content of copies up to this
serial = itertools.count()


def host_tensor(shape, dtype):
    """Small ones have a content of their own, the same in every run: so it can be seen that it came
    back from the device."""
    tensor = torch.empty(shape, dtype=dtype, device="cpu")
    if tensor.dim() > 1 and content.on_card():
        content.fill(tensor)
    elif tensor.numel() * tensor.element_size() <= CONTENT_BYTES:
        tensor.view(-1).copy_((torch.arange(tensor.numel()) + next(serial)) % 251 / 1000)
    return tensor


def materialise(model, dtype):
    """Gives every parameter of a model built on the meta device host memory of the given type; those
    that are kept in 8 bits stay so."""
    made = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            if id(parameter) not in made:  # tied parameters stay tied
                kept = parameter.dtype if parameter.dtype.itemsize == 1 else dtype
                made[id(parameter)] = torch.nn.Parameter(
                    host_tensor(parameter.shape, kept), requires_grad=False
                )
            module._parameters[name] = made[id(parameter)]
    return model.eval()


def from_config(kind, config, dtype):
    with init_empty_weights():
        model = kind.from_config(config)
    return materialise(model, dtype)


def clip(kind, dtype, **config):
    with init_empty_weights():
        model = kind(CLIPTextConfig(eos_token_id=49407, bos_token_id=49406, **config))
    return materialise(model, dtype)


def clip_large(dtype):
    return clip(
        CLIPTextModel,
        dtype,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        projection_dim=768,
    )


def clip_big_g(dtype):
    return clip(
        CLIPTextModelWithProjection,
        dtype,
        hidden_size=1280,
        num_hidden_layers=32,
        num_attention_heads=20,
        intermediate_size=5120,
        projection_dim=1280,
    )


def t5_xxl(dtype):
    config = T5Config(
        d_model=4096,
        d_ff=10240,
        d_kv=64,
        num_heads=64,
        num_layers=24,
        vocab_size=32128,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    with init_empty_weights():
        model = T5EncoderModel(config)
    return materialise(model, dtype)


def umt5_xxl(dtype):
    """The text encoder of Wan 2.1, with gradients as PyTorch has them where nobody turns them off."""
    config = UMT5Config(
        d_model=4096,
        d_ff=10240,
        d_kv=64,
        num_heads=64,
        num_layers=24,
        vocab_size=256384,
        feed_forward_proj="gated-gelu",
    )
    with init_empty_weights():
        model = UMT5EncoderModel(config)
    model.encoder.embed_tokens = model.shared  # one table, of 2 GiB
    return materialise(model, dtype).requires_grad_(True)


def sd15():
    return StableDiffusionPipeline(
        vae=from_config(AutoencoderKL, VAE, torch.half),
        text_encoder=clip_large(torch.half),
        tokenizer=None,
        unet=from_config(UNet2DConditionModel, UNET_SD15, torch.half),
        scheduler=HostDDIMScheduler(**SCHEDULER),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def controlnet_sd15():
    return from_config(ControlNetModel, CONTROLNET_SD15, torch.half)


def with_controlnet(pipe, controlnet):
    """The same models, guided by this one, or by several of a list."""
    return StableDiffusionControlNetPipeline(**pipe.components, controlnet=controlnet)


def sdxl():
    return StableDiffusionXLPipeline(
        vae=from_config(AutoencoderKL, VAE_SDXL, torch.half),
        text_encoder=clip_large(torch.half),
        text_encoder_2=clip_big_g(torch.half),
        tokenizer=None,
        tokenizer_2=None,
        unet=from_config(UNet2DConditionModel, UNET_SDXL, torch.half),
        scheduler=HostDDIMScheduler(**SCHEDULER),
        add_watermarker=False,
    )


def flux():
    return FluxPipeline(
        vae=from_config(AutoencoderKL, VAE_FLUX, torch.bfloat16),
        text_encoder=clip_large(torch.bfloat16),
        text_encoder_2=t5_xxl(torch.bfloat16),
        tokenizer=None,
        tokenizer_2=None,
        transformer=from_config(FluxTransformer2DModel, {"guidance_embeds": True}, torch.bfloat16),
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False),
    )


def tokens(count, vocabulary=49000, end=49407):
    """A prompt of the given length as a tokenizer would make it: one row of numbers that ends
    with the end token."""
    row = torch.randint(1, vocabulary, (1, count))
    row[0, -1] = end
    return row.to("cuda")


def lora_state(model, prefix, rank):
    """A LoRA file's contents for every linear layer of the model, in the names that
    load_lora_weights takes."""
    state = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            dtype = module.weight.dtype
            state[f"{prefix}.{name}.lora_A.weight"] = host_tensor((rank, module.in_features), dtype)
            state[f"{prefix}.{name}.lora_B.weight"] = host_tensor((module.out_features, rank), dtype)
    return state
