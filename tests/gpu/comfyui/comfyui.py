#!/usr/bin/env python3
"""An unmodified ComfyUI, alone and with vramgc, on the card that is there: comfyui.py --comfyui FOLDER SIDE...
A side is a name and what stands before python: alone=, with="vramgc run --". For each a ComfyUI is started, does the jobs that
come through its own HTTP API, rests, frees its models, and ends by Ctrl-C. A line of JSON tells of each, at once.
With --leave GIB another process holds the rest of the card meanwhile: so is a large card a small one."""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lab"))

import books

MIB = 1 << 20
PORT = 8199
HERE = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy there is for others
STEPS = 12
REST_LIMIT_SECONDS = 30
# checkpoint, width, height, images
JOBS = (
    ("sd15", 512, 512, 1), ("sd15", 768, 768, 2), ("sdxl", 1024, 1024, 1), ("sdxl", 832, 1216, 2), ("sd15", 512, 512, 4),
    ("sdxl", 1024, 1024, 1), ("sd15", 1024, 1024, 1), ("sdxl", 1344, 768, 1),
)  # fmt: skip


class Card:
    """What all programs hold of it. Nobody who is measured has a say in it."""

    def __init__(self):
        self.used = books.device_books()
        self.base = self.used()
        self.samples = []
        threading.Thread(target=self.look, daemon=True).start()

    def held_mib(self):
        return (self.used() - self.base) // MIB

    def look(self):
        while True:
            self.samples.append((time.monotonic(), self.held_mib()))
            time.sleep(0.01)

    def between(self, begin, end):
        return [held for when, held in list(self.samples) if begin <= when <= end] or [self.held_mib()]


def workflow(checkpoint, width, height, images, seed):
    """The default one of ComfyUI, with other numbers."""

    def node(kind, **inputs):
        return {"class_type": kind, "inputs": inputs}

    return {
        "1": node("CheckpointLoaderSimple", ckpt_name=f"{checkpoint}.safetensors"),
        "2": node("CLIPTextEncode", clip=["1", 1], text="a lighthouse in the fog, oil on canvas"),
        "3": node("CLIPTextEncode", clip=["1", 1], text="blurry"),
        "4": node("EmptyLatentImage", width=width, height=height, batch_size=images),
        "5": node(
            "KSampler", model=["1", 0], positive=["2", 0], negative=["3", 0], latent_image=["4", 0], seed=seed, steps=STEPS,
            cfg=7.0, sampler_name="euler", scheduler="normal", denoise=1.0,
        ),
        "6": node("VAEDecode", samples=["5", 0], vae=["1", 2]),
        "7": node("SaveImage", images=["6", 0], filename_prefix="card"),
    }  # fmt: skip


def ask(path, body=None, seconds=30):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, {"Content-Type": "application/json"})
    with HERE.open(request, timeout=seconds) as reply:
        words = reply.read()
    return json.loads(words) if words else None


def picture_sum(folder, output):
    """Of the pixels: the file has the workflow in it, too."""
    import PIL.Image

    with PIL.Image.open(folder / output["subfolder"] / output["filename"]) as image:
        return hashlib.sha256(image.tobytes()).hexdigest()[:12]


def memory_of(process):
    """Of the process that holds the most RAM below `process`, in MiB."""
    names = ("RssAnon", "RssFile", "RssShmem", "VmPin", "VmLck")
    found = [{}]
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            if os.getpgid(int(status.parent.name)) == process:
                lines = [line.split() for line in status.read_text().splitlines() if line.startswith(names)]
                found.append({words[0][:-1]: int(words[1]) >> 10 for words in lines})
        except (OSError, ValueError):
            pass
    return max(found, key=lambda rss: rss.get("RssAnon", 0))


class Side:
    def __init__(self, name, before, options, card):
        self.name, self.card, self.figures, self.folder = name, card, {"side": name, "before": before}, options.out / name
        self.folder.mkdir(parents=True, exist_ok=True)
        words = ["main.py", "--port", str(PORT), "--front-end-root", str(self.folder), "--disable-api-nodes"]
        words += ["--output-directory", str(self.folder), "--database-url", "sqlite:///:memory:"]
        self.log = open(self.folder / "log.txt", "w", encoding="utf-8")
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            [*shlex.split(before), sys.executable, *words, *options.comfyui_options.split()], cwd=options.comfyui,
            stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # Ctrl-C ends it, whoever ignores that here
        )  # fmt: skip
        self.limit, self.rest = options.limit, options.rest

    def waits(self, for_what):
        while True:
            if self.process.poll() is not None:
                raise OSError(f"ComfyUI ended with {self.process.returncode}")
            if time.monotonic() - self.begin > self.limit:
                raise OSError(f"not done after {self.limit} s")
            try:
                found = for_what()
                if found:
                    return found
            except (urllib.error.URLError, ConnectionError):
                pass
            time.sleep(0.02)

    def job(self, number):
        begin = time.monotonic()
        prompt = ask("/prompt", {"prompt": workflow(*JOBS[number], seed=number)})["prompt_id"]
        history = self.waits(lambda: ask(f"/history/{prompt}"))[prompt]
        end = time.monotonic()
        outputs = [image for node in history["outputs"].values() for image in node.get("images", [])]
        held = self.card.between(begin, end)
        return {
            "seconds": round(end - begin, 2), "ok": history["status"]["status_str"] == "success", "most_mib": max(held),
            "average_mib": sum(held) // len(held), "sums": [picture_sum(self.folder, output) for output in outputs],
        }  # fmt: skip

    def at_rest(self, name):
        """Where nothing has changed for some seconds."""
        before, until = None, time.monotonic() + REST_LIMIT_SECONDS
        while time.monotonic() < until:
            time.sleep(self.rest)
            now = (self.card.held_mib(), memory_of(self.process.pid).get("RssAnon", 0) // 16)
            if now == before:
                break
            before = now
        told = ask("/system_stats")["devices"][0]
        free = {word: told[word] // MIB for word in ("vram_free", "torch_vram_total", "torch_vram_free")}
        self.figures[name] = {"held_mib": self.card.held_mib(), **free, **memory_of(self.process.pid)}

    def work(self):
        stats = self.waits(lambda: ask("/system_stats"))
        self.figures |= {"start_seconds": round(time.monotonic() - self.begin, 1), "device": stats["devices"][0]["name"]}
        self.figures["start"] = {"held_mib": self.card.held_mib(), **memory_of(self.process.pid)}
        begin = time.monotonic()
        jobs = self.figures["jobs"] = []
        for number in range(len(JOBS)):
            jobs.append(self.job(number))
        held = self.card.between(begin, time.monotonic())
        self.figures |= {"most_mib": max(held), "average_mib": sum(held) // len(held)}
        self.figures |= {"seconds": round(sum(job["seconds"] for job in jobs), 2), "failed": sum(not job["ok"] for job in jobs)}
        self.at_rest("rest")
        ask("/free", {"unload_models": True, "free_memory": True})
        self.at_rest("freed")

    def run(self):
        try:
            self.work()
        except OSError as error:
            self.figures["error"] = str(error)
        for end in (signal.SIGINT, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, end)
                self.figures["status"] = self.process.wait(15)
                break
            except subprocess.TimeoutExpired:
                pass
            except ProcessLookupError:
                self.figures["status"] = self.process.wait()
                break
        self.log.close()
        log = (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace")
        self.figures |= {"out_of_memory": log.count("OutOfMemory"), "loaded_partially": log.count("loaded partially")}
        print(json.dumps(self.figures), flush=True)
        return self.figures


BALLAST = pathlib.Path(__file__).resolve().parents[1] / "ballast.py"


@contextlib.contextmanager
def small_card(leave_gib):
    if not leave_gib:
        yield None
        return
    with subprocess.Popen(
        [sys.executable, BALLAST, leave_gib], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as ballast:
        yield ballast.stdout.readline().strip()
        ballast.stdin.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comfyui", type=pathlib.Path, required=True)
    parser.add_argument("--comfyui-options", default="", metavar="WORDS")
    parser.add_argument("--out", type=pathlib.Path, default="build/gpu/comfyui")
    parser.add_argument("--leave", metavar="GIB")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a side")
    parser.add_argument("--rest", type=float, default=3, help="seconds in which nothing changes")
    parser.add_argument("sides", nargs="+", metavar="NAME=COMMAND")
    options = parser.parse_args()
    options.out = options.out.resolve()
    with small_card(options.leave) as left:
        card = Card()
        print(json.dumps({"left": left, "others_mib": card.base // MIB}), flush=True)
        sides = [Side(*side.split("=", 1), options, card).run() for side in options.sides]
    sums = [[job["sums"] for job in side.get("jobs", [])] for side in sides]
    same = all(found == sums[0] for found in sums)
    print(json.dumps({"images": sum(map(len, sums[0])), "same": same}), flush=True)
    return any("error" in side or side.get("failed") for side in sides)


if __name__ == "__main__":
    sys.exit(main())
