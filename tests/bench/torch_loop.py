"""Times torch.empty/del, a small training step, and calls that PyTorch makes for each of its operations, in this process;
started by bench.py with and without libvramgc.so.

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


def launch():
    vector = torch.zeros(64, device="cuda")
    return lambda: vector.add_(1)


def copy():
    """A kilobyte to the device, as samplers do with their steps."""
    there, here = torch.zeros(256, device="cuda"), torch.zeros(256)
    return lambda: there.copy_(here)


def event():
    one = torch.cuda.Event()
    return one.record


def replay():
    """Of a graph of eight launches."""
    vector, graph = torch.zeros(64, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(8):
            vector.add_(1)
    return graph.replay


if __name__ == "__main__":
    told = {"empty": lower_quartile(empty_and_del, 1000), "step": lower_quartile(training_step(), 20)}
    told |= {make.__name__: lower_quartile(make(), 500) for make in (launch, copy, event, replay)}
    print(json.dumps(told))
