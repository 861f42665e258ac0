"""browser.py: a headless Chromium, driven through its pipe for debugging, so that it needs no package beside it. What a
page asks of the network, throws or prints is kept; nothing is answered by a server."""
import json
import os
import select
import shutil
import subprocess
import tempfile

SECONDS = 60  # that one answer may take on a busy machine


def find():
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for path in map(shutil.which, names) if path), None)


def contrast_of(foreground, background):
    """As the accessibility guidelines of the W3C count it."""
    def light(colour):
        parts = [int(p) / 255 for p in colour[4:-1].split(",")]
        red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    high, low = sorted((light(foreground), light(background)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="vramgc-browser-")
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()
        command = [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                   "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
                   "--remote-debugging-pipe", "--user-data-dir=" + self.folder, "about:blank"]
        wrapped = ["sh", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "sh", *command]
        with open(os.path.join(self.folder, "log"), "w") as log:
            self.process = subprocess.Popen(wrapped, pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env={**os.environ, "TMPDIR": self.folder})
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(domain + ".enable")

    def receive(self):
        while b"\0" not in self.rest:
            if not select.select([self.reader], [], [], SECONDS)[0]:
                raise RuntimeError("the browser does not answer")
            more = os.read(self.reader, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended: " + open(os.path.join(self.folder, "log")).read()[-2000:])
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def await_event(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def look(self, path, width=1280, height=1000, dark=False, touch=False):
        """Opens the file in a window of that width."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events = []
        self.ask("Page.navigate", url=path if ":" in path else "file://" + os.path.abspath(path))
        self.await_event("Page.loadEventFired")

    def run(self, script):
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(script + ": " + str(result["exceptionDetails"]))
        return result["result"].get("value")

    def of(self, method):
        return [event["params"] for event in self.events if event.get("method") == method]

    def complaints(self):
        """What the page threw or printed, and what the browser had to say of it."""
        said = [e["exceptionDetails"].get("exception", {}).get("description", e["exceptionDetails"]["text"])
                for e in self.of("Runtime.exceptionThrown")]
        said += [str(e["args"]) for e in self.of("Runtime.consoleAPICalled")]
        return said + [e["entry"]["text"] for e in self.of("Log.entryAdded")]

    def requests(self):
        return [e["request"]["url"] for e in self.of("Network.requestWillBeSent")]

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def point_at(self, x, y, click=False):
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, x, to_x, y):
        for kind, at, button in ("mouseMoved", x, "none"), ("mousePressed", x, "left"), ("mouseMoved", to_x, "left"), ("mouseReleased", to_x, "left"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=at, y=y, button=button, clickCount=1)

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.writer)
        os.close(self.reader)
        shutil.rmtree(self.folder, ignore_errors=True)
