"""What PyTorch keeps idle after a decoding goes before the real comfy-aimdo drops a model's weights for another model's. aimdo asks
what is free every two seconds at the most. Prints one line of JSON."""

import time

import torch

from aimdo import weights
from names import MIB, say, take
from comfy_aimdo import control


def model(mib):
    return weights(mib, after_each=lambda: None)


def main():
    torch.cuda.init()
    assert control.init() and control.init_devices([0])
    image = take(64)
    first = model(4992)
    image = take(1500), take(700)
    del image
    idle = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    time.sleep(2.5)
    second = model(2048)
    loaded = (first.loaded_size() // MIB, second.loaded_size() // MIB)
    say("weights stay", idle >= 2200 * MIB and loaded == (4992, 2048), loaded=loaded, idle=idle // MIB)


if __name__ == "__main__":
    main()
