"""torch.compile with CUDA graphs frees a graph's inputs in the graph's pool once it has been captured, and copies to them before
each replay: they stay, whatever is given back. Graph breaks and several shapes make trees of graphs that share a pool."""

import logging
import sys

logging.disable(logging.WARNING)  # of Triton, which the simulated device has no use for

import torch

import device

STEPS = 18  # each of three kinds is run, captured, and then replayed four times
ROWS = (1024, 4096, 8192)
WIDTH = 2048


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(WIDTH, 2 * WIDTH, dtype=torch.half)
        self.narrow = torch.nn.Linear(2 * WIDTH, WIDTH, dtype=torch.half)
        self.side = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.half)

    def forward(self, x, with_side):
        y = torch.relu(self.wide(x))
        torch._dynamo.graph_break()
        y = self.narrow(y)
        if with_side:
            y = y + self.side(x)
        torch._dynamo.graph_break()
        return torch.nn.functional.gelu(y), y * 2


@torch.no_grad()
def work(compiled):
    for step in range(STEPS):
        x = torch.zeros(ROWS[step % len(ROWS)], WIDTH, dtype=torch.half, device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        first, second = compiled(x, step % len(ROWS) == 0)
        del x, first, second
        if step % 4 == 0:
            torch.cuda.empty_cache()
        torch.cuda.synchronize()
        device.reclaim()
        assert device.errors() == 0, f"step {step}: {device.errors()} errors of use"


def main():
    device.require_library()
    work(torch.compile(Net().cuda().eval(), backend="cudagraphs", dynamic=False))
    print("graph_trees ok")


if __name__ == "__main__":
    sys.exit(main())
