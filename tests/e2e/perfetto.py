"""perfetto.py FOLDER TRACE QUERY: rows of a query, one a line, fields apart by |, by Perfetto's own processor: the one of the
Perfetto UI in FOLDER (scripts/fetch-perfetto), in a headless Chromium. Its messages are protocol buffers: here is the little that
three calls need, by protos/perfetto/trace_processor/trace_processor.proto of Perfetto."""
import base64
import functools
import http.server
import json
import sys
import threading

import browser

APPEND, FINISH, QUERY = 1, 2, 3  # TraceProcessorRpc.method
SEQUENCE, METHOD, FATAL, TRACE, ARGUMENTS, RESULT = 1, 2, 5, 101, 103, 203  # fields of TraceProcessorRpc
VARINT, BYTES = 0, 2  # kinds of fields
NULL, INTEGER, TEXT = 1, 2, 4  # kinds of cells

PAGE = """
window.worker = new Worker("engine_bundle.js");
window.channel = new MessageChannel();
window.answers = [];
channel.port1.onmessage = e => answers.push(btoa(Array.from(e.data, b => String.fromCharCode(b)).join("")));
worker.onerror = e => answers.push("error: " + e.message);
worker.postMessage(channel.port2, [channel.port2]);
window.asked = text => {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    channel.port1.postMessage(bytes);
};
window.answered = async () => {
    while (!answers.length) await new Promise(r => setTimeout(r, 10));
    return answers.shift();
};
"""


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """The message's fields, {number: [value...]}: numbers, and the bytes of what has a length."""
    found, at = {}, 0
    sizes = {1: 8, 5: 4}
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == VARINT:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at) if key & 7 == BYTES else (sizes[key & 7], at)
            value, at = data[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def varints(packed):
    values, at = [], 0
    while at < len(packed):
        value, at = read_varint(packed, at)
        values.append(value - (1 << 64) if value >> 63 else value)
    return values


def cells(batch):
    """CellsBatch: the kinds of the cells, then the values of each kind."""
    integers = iter(varints(b"".join(batch.get(2, []))))
    texts = iter(b"".join(batch.get(5, [])).decode().split("\0"))
    for kind in varints(b"".join(batch.get(1, []))):
        if kind not in (NULL, INTEGER, TEXT):
            raise RuntimeError(f"a cell of kind {kind} is not read here: cast it to text")
        yield None if kind == NULL else next(integers) if kind == INTEGER else next(texts)


class Processor:
    def __init__(self, folder):
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
        handler.func.log_message = lambda *_: None
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.look, self.sequence = browser.Browser(), 0
        self.look.ask("Page.navigate", url=f"http://127.0.0.1:{self.server.server_port}/manifest.json")
        self.look.await_event("Page.loadEventFired")
        self.look.run(PAGE)

    def ask(self, method, number=None, body=b""):
        self.sequence += 1
        call = field(SEQUENCE, self.sequence) + field(METHOD, method) + (field(number, body) if number else b"")
        self.look.run(f"asked({json.dumps(base64.b64encode(field(1, call)).decode())})")

    def answer(self):
        """The next answer's messages."""
        text = self.look.run("answered()")
        if text.startswith("error"):
            raise RuntimeError(text)
        return [fields(message) for message in fields(base64.b64decode(text)).get(1, [])]

    def load(self, path):
        with open(path, "rb") as file:
            self.ask(APPEND, TRACE, file.read())
        self.ask(FINISH)
        for message in self.answer() + self.answer():
            if FATAL in message:
                raise RuntimeError(message[FATAL][0].decode())

    def query(self, sql):
        self.ask(QUERY, ARGUMENTS, field(1, sql.encode()))
        names, values, last = [], [], False
        while not last:
            for message in self.answer():
                result = fields(message[RESULT][0])
                if any(result.get(2, [])):
                    raise RuntimeError(result[2][0].decode())
                names += result.get(1, [])
                for batch in map(fields, result.get(3, [])):
                    values += cells(batch)
                    last = last or bool(batch.get(6, [0])[0])
        return [values[i:i + len(names)] for i in range(0, len(values), len(names))]

    def close(self):
        self.look.close()
        self.server.shutdown()


def main():
    folder, trace, sql = sys.argv[1:]
    processor = Processor(folder)
    try:
        processor.load(trace)
        for row in processor.query(sql):
            print(*row, sep="|")
    finally:
        processor.close()


main()
