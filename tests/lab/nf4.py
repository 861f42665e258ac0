"""Linear layers as bitsandbytes keeps them in 4 bits: a byte for two weights, a float for each 64, and a
whole weight for as long as one is computed with. Kernels are left out: an allocator sees sizes only."""

import torch

BLOCK = 64  # weights that share a scale, bitsandbytes' standard


def quantize(weight):
    """What bitsandbytes' quantize_4bit allocates."""
    count = weight.numel()
    scales = torch.zeros(-(-count // BLOCK), device=weight.device)
    return torch.zeros((count + 1) // 2, 1, dtype=torch.uint8, device=weight.device), scales


class Nf4Linear(torch.nn.Module):
    """In the place of torch.nn.Linear."""

    def __init__(self, linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.compute_dtype = linear.weight.dtype
        self.bias = linear.bias
        count = self.in_features * self.out_features
        packed = torch.empty((count + 1) // 2, 1, dtype=torch.uint8)
        self.packed = torch.nn.Parameter(packed, requires_grad=False)
        self.register_buffer("scales", torch.empty(-(-count // BLOCK)))

    def dequantize(self):
        return torch.empty(
            self.out_features,
            self.in_features,
            dtype=self.compute_dtype,
            device=self.packed.device,
        )

    def replace(self, weight):
        packed, self.scales = quantize(weight)
        self.packed = torch.nn.Parameter(packed, requires_grad=False)

    def forward(self, states):
        return torch.nn.functional.linear(states, self.dequantize(), self.bias)


def quantized(model):
    """All linear layers of the model, replaced in it."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Nf4Linear(child))
    return model
