"""Times torch.empty/del and a small training step in this process; started by bench.py with and without libvramgc.so.

Prints one line of JSON: nanoseconds per operation, the lower quartile over short rounds."""
import json
import time

import torch

ROUNDS = 40


def timed(operation, count):
    start = time.perf_counter_ns()
    for _ in range(count):
        operation()
    return (time.perf_counter_ns() - start) / count


def lower_quartile(operation, count):
    timed(operation, count)
    return sorted(timed(operation, count) for _ in range(ROUNDS))[ROUNDS // 4]


def empty_and_del():
    tensor = torch.empty(25000, device="cuda")
    del tensor


def training_step():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.zeros(32, 64, device="cuda")

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    print(json.dumps({"empty": lower_quartile(empty_and_del, 1000), "step": lower_quartile(training_step(), 20)}))
