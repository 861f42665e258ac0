"""Figures from the trace of PyTorch's allocator, torch.cuda.memory._snapshot()["device_traces"]."""

LEAST_LIVE_BYTES = 1 << 20  # the ratio says nothing while hardly anything is live


def held_over_live(events):
    """Over all block events (a block handed out or given back): the mean of held ÷ live bytes, and
    the sum of held ÷ the sum of live bytes, which is the same mean weighted by what is live. None
    without any event."""
    held = live = count = held_sum = live_sum = 0
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
                held_sum += held
                live_sum += live
                count += 1
    return (total / count, held_sum / live_sum) if count else (None, None)
