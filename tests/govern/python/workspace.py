"""A convolution whose workspace does not fit goes on without it: that is no out-of-memory of the program, and an error that Python
raises is one. On a busy machine the work may go on too late to be told from one, so it is done again. Prints one line of JSON for
each check."""

import torch
import torch.nn.functional as F

from names import is_of_one_moment, record, report, say, take


def takes_too_much():
    step = take(64)
    return step, take(1024)


def latest_went_on():
    return [r["went_on"] for r in report()["processes"][0]["refusals"] if r["reported"]][-1]


def convolves(image):
    """Its workspace is refused, and the next block is not. Each is another convolution, for which PyTorch has no plan yet."""
    for filters in range(128, 0, -1):
        weights = torch.empty(filters, 128, 3, 3, device="cuda", dtype=torch.half)
        made = F.conv2d(image, weights, padding=1)
        take(1)
        del made
        if latest_went_on():
            return True
    return False


def blurs(image):
    weights = torch.empty(20, 128, 3, 3, device="cuda", dtype=torch.half)
    return F.conv2d(image, weights, padding=1)


def ends_with_it(image):
    return blurs(image)


def six_at_once():
    """One right after the other."""
    image = take(100)
    for _ in range(6):
        try:
            take(1500)
        except torch.OutOfMemoryError:
            take(1)
        take(1)
    del image
    latest = [r["went_on"] for r in report()["processes"][0]["refusals"] if r["reported"]][-6:]
    say("six alike", not any(latest), latest=latest)


def errors_that_are_kept():
    """Each keeps what its function had, and the next try is the same call, from the same place."""
    image = take(100)
    errors = []
    for _ in range(6):
        try:
            takes_too_much()
        except torch.OutOfMemoryError as error:
            errors.append(error)
    del image, errors
    latest = [r["went_on"] for r in report()["processes"][0]["refusals"] if r["reported"]][-6:]
    say("kept errors", not any(latest), latest=latest)


VAE = """
def decode(take):
    return take(1500)

def decode_tiled(take):
    return take(40)
"""


def a_vae_in_tiles():
    """Behind the `except` it is work that went on, and not in it. The latest block is not of what failed."""
    image, vae = take(40), {}
    exec(compile(VAE, "/opt/diffusers/models/autoencoders/autoencoder_kl.py", "exec"), vae)
    try:
        vae["decode"](take)
    except torch.OutOfMemoryError:
        vae["decode_tiled"](take)
        inside = latest_went_on()
    failed = False
    try:
        vae["decode"](take)
    except torch.OutOfMemoryError:
        failed = True
    vae["decode_tiled"](take)
    del image
    say("tiles", failed and latest_went_on() and not inside, inside=inside)


def main():
    image = torch.empty(1, 128, 1024, 1024, device="cuda", dtype=torch.half)
    rest = take(200)
    went_on, said = convolves(image), report()["verdict"]["what"]
    say("workspace", went_on and " 512 MiB wanted" in said, said=said)
    made = ends_with_it(image)
    take(1)  # as a program does that has caught an error two functions further out
    refused = len([r for r in report()["processes"][0]["refusals"] if r["reported"]])
    say("the last of its function", latest_went_on(), refused=refused)
    del image, rest, made
    try:
        takes_too_much()
    except torch.OutOfMemoryError:
        pass
    take(64)
    verdict = report()["verdict"]
    known = "2 more were refused, and the work went on at once without them." in (verdict["note"] or "")
    say("error", known and not latest_went_on() and "OUT OF MEMORY" in verdict["what"], verdict=verdict)
    image = torch.empty(1, 128, 1024, 1024, device="cuda", dtype=torch.half)
    rest = take(100)
    try:
        takes_too_much()
    except torch.OutOfMemoryError:  # its step lives as long as it is handled
        take(1)
        say("handled", not latest_went_on())
        say("workspace while one is handled", convolves(image))
        say("one moment", is_of_one_moment(record()))
    six_at_once()
    errors_that_are_kept()
    a_vae_in_tiles()


if __name__ == "__main__":
    main()
