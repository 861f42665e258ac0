"""The first tensor that a program puts on the card has a name, too, although a thread of the program computes meanwhile, from which
vramgc gets Python's lock 40 ms later only: whoever does not wait has the tensor long before. Prints one line of JSON for each check."""

import sys
import threading

import names

computing = threading.Event()
done = threading.Event()


def computes():
    while not done.is_set():
        computing.set()


def keeps_the_first():
    names.kept.append(names.torch.empty(72 * names.MIB, dtype=names.torch.uint8, device="cuda"))


def keeps_another():
    names.kept.append(names.torch.empty(40 * names.MIB, dtype=names.torch.uint8, device="cuda"))


def main():
    sys.setswitchinterval(0.04)
    thread = threading.Thread(target=computes)
    thread.start()
    computing.wait()
    keeps_the_first()
    done.set()
    thread.join()
    names.say("named", names.functions_are_named())
    keeps_another()
    names.say("kept", names.had_at_peak("keeps_another", 40))
    seen = names.named("owners_at_peak", "keeps_the_first")
    names.say("the first", seen == 72 * names.MIB, bytes=seen)


if __name__ == "__main__":
    main()
