#!/usr/bin/env python3
"""In ComfyUI's place, for the test of comfyui.py: what that asks of it, and nothing else. Its images depend on the job alone, or with
SPOILT on who asks; jobs with the checkpoint BROKEN fail."""

import http.server
import json
import os
import sys
from pathlib import Path

import PIL.Image

out = Path(sys.argv[sys.argv.index("--output-directory") + 1])
done = {}


def work(prompt):
    size = prompt["4"]["inputs"]
    colour = (prompt["5"]["inputs"]["seed"] + 1) * (os.getpid() if "SPOILT" in os.environ else 1) % 251
    name = f"{len(done)}.png"
    PIL.Image.new("L", (size["width"], size["height"]), colour).save(out / name)
    status = "error" if prompt["1"]["inputs"]["ckpt_name"] == os.environ.get("BROKEN") else "success"
    images = [{"subfolder": "", "filename": name}]
    done[name] = {"status": {"status_str": status}, "outputs": {"7": {"images": images}}}
    return {"prompt_id": name}


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, found):
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        free = {"vram_free": 1 << 30, "torch_vram_total": 0, "torch_vram_free": 0}
        self.answer({"devices": [{"name": "none", **free}]} if self.path == "/system_stats" else done)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(work(asked["prompt"]) if self.path == "/prompt" else {})

    def log_message(self, *words):
        pass


try:
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
except KeyboardInterrupt:
    sys.exit(0)
