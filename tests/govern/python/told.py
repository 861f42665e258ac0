"""What is said of a refusal, where the functions tell: a load under way, a second one beside the first. Prints one line of JSON for
each check."""

import contextlib
import mmap
import tempfile
import threading
import time

import torch

from names import MIB, functions_are_named, is_said, record, report, say, take

kept = []


def converts(mib):
    """Of a weight and its copy one stays, as where weights are brought to another type."""
    raw = take(mib)
    made = take(mib)
    del raw
    return made


def load_model(count, make):
    for _ in range(count):
        kept.append(make(48))


def samples():
    for _ in range(4):
        take(400)


def is_refused(work):
    try:
        work()
    except torch.OutOfMemoryError:
        return report()["verdict"]


def a_load_under_way():
    verdict = is_refused(lambda: load_model(100, converts))
    kept.clear()
    cause = verdict["cause"]
    named = cause.startswith("load_model (told.py:25) had put 1.") and cause.endswith(" GiB on the card and was not done.")
    say("a load", verdict["code"] == "full" and named, cause=cause)
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.truncate(3 << 30)
        with mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ):
            cause = is_refused(lambda: load_model(100, converts))["cause"]
    kept.clear()
    say("the whole load", cause.endswith("; the files of weights that were open have 3.0 GiB."), cause=cause)


def a_load_beside_another():
    load_model(15, converts)
    samples()
    verdict = is_refused(lambda: load_model(100, take))
    kept.clear()
    fine = verdict["cause"].endswith("720 MiB that it put there before are still live.")
    say("another load", fine and "gc.collect()" in verdict["do"], cause=verdict["cause"], do=verdict["do"])


def decode():
    parts = []
    while True:
        parts.append(take(90))


def decode_tiled():
    return take(300)


def decode_somehow():
    try:
        return decode()
    except torch.OutOfMemoryError:
        return decode_tiled()


def a_try_beside_a_failed_one():
    verdict = is_refused(decode_somehow)
    cause = verdict["cause"]
    fine = cause.startswith("take (names.py:") and " had run out of memory just before, and 1.7 GiB of its tensors" in cause
    say("a failed try", fine, cause=cause)


def rests(jobs):
    is_said(lambda: len(record()["jobs"]) >= jobs)


def fills_its_cache():
    while True:
        kept.append(take(130))


def what_an_error_leaves():
    """The first job ended with all that was before."""
    before = len(record()["jobs"]) + 1
    rests(before)
    is_refused(fills_its_cache)
    del kept[8:]
    samples()
    rests(before + 1)
    verdict = report()["verdict"]
    fine = "After the error 1.0 GiB more stayed live at rest than before it, most of take (names.py:" in verdict["note"]
    say("what it leaves", fine, note=verdict["note"], jobs=record()["jobs"])


def reads_text():
    """An error that is none of memory."""
    words = torch.empty(600 * MIB, dtype=torch.uint8, device="cuda")
    raise ValueError(f"{words.numel()} tokens are too many")


def what_another_error_keeps():
    time.sleep(0.3)  # what was freed is no part of the job
    jobs = len(record()["jobs"])
    samples()
    rests(jobs + 1)
    try:
        reads_text()
    except ValueError as error:
        kept.append(error)
    time.sleep(1.3)  # a second is a rest
    verdict = is_refused(lambda: take(1500))
    kept.clear()
    cause = " MiB are tensors of reads_text (told.py:" in verdict["cause"] and "that were there before" in verdict["cause"]
    say("another error", cause and "find what keeps the tensors of reads_text" in verdict["do"], verdict=verdict)


def serves_one(all_of_them):
    words = torch.empty(600 * MIB, dtype=torch.uint8, device="cuda")
    all_of_them.wait()
    with contextlib.suppress(torch.OutOfMemoryError):
        words = words, torch.empty(900 * MIB, dtype=torch.uint8, device="cuda")
    all_of_them.wait()


def threads_at_once():
    all_of_them = threading.Barrier(2)
    threads = [threading.Thread(target=serves_one, args=(all_of_them,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = report()["verdict"]
    cause = verdict["cause"].startswith("Another thread had run out of memory just before, in serves_one (told.py:")
    say("threads", cause and "one thread at a time" in verdict["do"], verdict=verdict)


def load_lora():
    kept.append(torch.empty(100 * MIB, dtype=torch.uint8, device="cuda"))


def loras_that_stay():
    """After each of some jobs; what then lacks is less than they have. A model has more."""
    kept.append(take(700))
    for _ in range(6):
        jobs = len(record()["jobs"])
        load_lora()
        samples()
        rests(jobs + 1)
    verdict = is_refused(lambda: take(900))
    kept.clear()
    fine = verdict["do"].startswith("Each LoRA that was loaded is still there: delete its adapter")
    second = " MiB more than after the first job: load_lora (python/told.py:" in verdict["text"]
    say("LoRAs", fine and second, verdict=verdict)


def recorded_work():
    """Of autograd itself; afterwards this thread has recorded some."""
    x = torch.empty(25 << 20, device="cuda", requires_grad=True)
    y = x
    while True:
        y = torch.relu(y)


def gradients():
    verdict = is_refused(recorded_work)
    say("gradients", verdict["do"].startswith("PyTorch records gradients, and each result"), verdict=verdict)


def no_gradients_any_more():
    """What joins the results of an evaluation is outside its no_grad, and nothing of it is recorded."""
    torch.relu(torch.empty(1 << 20, device="cuda", requires_grad=True))
    for _ in range(10):
        take(10)
    verdict = is_refused(lambda: take(1900))
    say("no gradients", not verdict["do"].startswith("PyTorch records gradients"), verdict=verdict)


def encodes():
    return take(10)


def denoises():
    latents = take(10)  # lives as long as the error
    return latents, is_large()


def is_large():
    return take(1900)


def answers():
    encodes()
    return denoises()


def requests_that_fail():
    """A server keeps each error to answer with it; the next request is there at once, and is no work that goes on without memory."""
    errors = []
    before = len([r for r in record()["refusals"] if r["reported"]])
    for _ in range(4):
        try:
            answers()
        except torch.OutOfMemoryError as error:
            errors.append(error)
    encodes()
    went_on = [r["went_on"] for r in record()["refusals"] if r["reported"]][before:]
    say("requests", went_on == [False] * 4, went_on=went_on)


def tries_smaller():
    step = take(64)
    try:
        return step, take(1900)
    except torch.OutOfMemoryError:
        return step, take(10)


def an_error_that_is_handled():
    """What comes in its `except` is no work that goes on, though no kernel has been started that would tell."""
    before = len([r for r in record()["refusals"] if r["reported"]])
    tries_smaller()
    went_on = [r["went_on"] for r in record()["refusals"] if r["reported"]][before:]
    say("handled", went_on == [False], went_on=went_on)


def math_attention():
    kept.append(take(1000))
    return torch.empty(1100 * MIB, dtype=torch.uint8, device="cuda")


def joins_frames():
    frames = []
    for _ in range(20):
        frames.append(torch.empty(60 * MIB, dtype=torch.uint8, device="cuda"))
    return torch.cat(frames)


def trains():
    """The gradients lie where the weights do: only to need less here."""
    weights = [torch.nn.Parameter(torch.empty(16 << 20, device="cuda")) for _ in range(20)]
    for weight in weights:
        weight.grad = weight.data
    torch.optim.AdamW(weights).step()


def what_one_request_was_for():
    begins = {
        math_attention: ("math_attention (told.py:", "Have math_attention"),
        joins_frames: ("joins_frames (told.py:", "Move each of the 20 to RAM"),
        trains: ("The optimizer that trains (told.py:", "Train a LoRA instead of all weights in trains"),
    }
    for work, (cause, todo) in begins.items():
        verdict = is_refused(work)
        kept.clear()
        fine = verdict["cause"].startswith(cause) and verdict["do"].startswith(todo)
        say(work.__name__, fine, cause=verdict["cause"], do=verdict["do"])


functions_are_named()
loras_that_stay()
a_load_under_way()
a_load_beside_another()
a_try_beside_a_failed_one()
what_an_error_leaves()
kept.clear()
what_another_error_keeps()
threads_at_once()
what_one_request_was_for()
requests_that_fail()
an_error_that_is_handled()
no_gradients_any_more()
gradients()
