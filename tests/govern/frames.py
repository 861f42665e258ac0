"""What src/python/frames.c reads of a thread's own frames is what Python tells of them. Run by every Python that is at hand; ends with 0
if all is equal, and says what was not."""

import ctypes
import sys
import threading

with_gil, without_gil = ctypes.PyDLL(sys.argv[1]), ctypes.CDLL(sys.argv[1])
for library in with_gil, without_gil:
    library.learn.restype = ctypes.c_bool
    library.error.restype = ctypes.c_uint64
    library.frames.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
wrong = []


def as_read(text, capacity):
    """In UTF-8, whole letters; what is no text as "?"."""
    told = b""
    for letter in text:
        none = "\x7f" <= letter < "\xa0" or "\ud800" <= letter < "\ue000"
        if len(told) + 4 < capacity:
            told += b"?" if none else letter.encode()
    return told.decode()


def told(frame):
    while frame:
        code = frame.f_code
        long_name = getattr(code, "co_qualname", code.co_name)
        texts = as_read(code.co_name, 64), as_read(long_name, 128), as_read(code.co_filename, 512)
        yield "%s %s %s %d" % (*texts, code.co_firstlineno)
        frame = frame.f_back


def look(error=None):
    """From inside a call, with the lock and without it."""
    for library in with_gil, without_gil:
        out = ctypes.create_string_buffer(1 << 16)
        library.frames(out, len(out))
        lines = [line for line in out.value.decode().splitlines() if not line.startswith("<shim>")]
        expected = list(told(sys._getframe()))
        if [line for line in lines if "trampoline" not in line] != expected:
            wrong.append((lines, expected))
        if library.error() != (id(error) if error is not None else 0):
            wrong.append((hex(library.error()), error))


def generator():
    look()
    yield 1
    try:
        raise KeyError
    except KeyError as inner:
        look(inner)
        yield 2


def while_another_is_handled():
    try:
        raise ValueError
    except ValueError as outer:
        look(outer)
        for _ in generator_within(outer):
            look(outer)
        look(outer)
    look()


def generator_within(outer):
    look(outer)
    yield 1
    look(outer)


class Méthode:
    def größe(self):
        look()


def deep(n):
    return deep(n - 1) if n else look()


def elsewhere(name):
    scope = {"look": look}
    exec(compile("def f():\n    look()\n", name, "exec"), scope)
    scope["f"]()


def all_of_it():
    look()
    list(generator())
    while_another_is_handled()
    Méthode().größe()
    [look() for _ in range(2)]
    (lambda: look())()
    deep(200)
    for name in "/home/müller/ui.py", "/дом/ui.py", "/家/ui.py", "/🏠/ui.py", "/\udcff/ui.py", "<string>", "", "/" + "long/" * 200:
        elsewhere(name)


def main():
    learner = []
    thread = threading.Thread(target=lambda: learner.append(with_gil.learn()))
    thread.start()
    thread.join()
    if not learner[0]:
        sys.exit("not learned")
    all_of_it()
    threads = [threading.Thread(target=all_of_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        sys.exit("%d wrong, the first: %s\n%s" % (len(wrong), wrong[0][0], wrong[0][1]))


main()
