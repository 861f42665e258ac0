"""The same loop without torch.no_grad(): each result goes to the host, and on the device stays the
graph that it hangs on, with all that was computed on the way. It ends out of memory."""

from workloads import encode_loop


def with_graph(encoder):
    return encode_loop.encode(encoder).cpu()


def run(session):
    encode_loop.loop(session, with_graph, encode_loop.PROMPTS)
