"""Figures from the trace of PyTorch's allocator, torch.cuda.memory._snapshot()["device_traces"]."""

LEAST_LIVE_BYTES = 1 << 20  # the ratio says nothing while hardly anything is live


def mean_over_events(events):
    """The mean over all block events (a block handed out or given back) of held ÷ live bytes, or
    None without any."""
    held = live = count = 0
    total = 0.0
    for event in events:
        action, size = event["action"], event["size"]
        if action in ("segment_alloc", "segment_map"):
            held += size
        elif action in ("segment_free", "segment_unmap"):
            held -= size
        elif action in ("alloc", "free_requested"):
            live += size if action == "alloc" else -size
            if live >= LEAST_LIVE_BYTES:
                total += held / live
                count += 1
    return total / count if count else None
