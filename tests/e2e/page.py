"""page.py PAGE JSON: is the page that `vramgc report --html` wrote whole, does it say what the JSON report of the same files
says, and could a browser ask anybody for anything? With html.parser, without a browser."""
import json
import re
import sys
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}
TEXT = open(sys.argv[1], encoding="utf-8").read()
REPORT = json.load(open(sys.argv[2], encoding="utf-8"))


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.texts, self.scripts, self.rows = [], [], {}, [], 0

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        assert not [name for name in values if name.startswith("on")], (tag, values)
        self.seen.append((tag, values))
        self.rows += tag == "td" and "data-ns" in values
        if tag == "script":
            self.scripts.append((values, []))
        if tag not in VOID:
            self.open.append((tag, values))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "script":
            self.scripts[-1][1].append(data)
        for tag, values in self.open:
            for name in ("id", "class"):
                if values.get(name):
                    self.texts[values[name]] = self.texts.get(values[name], "") + data


page = Page()
page.feed(TEXT)
page.close()
assert not page.open, page.open
assert TEXT.startswith("<!doctype html>\n<!-- vramgc ") and "{{" not in TEXT.split("<style>")[0]

# Nothing is asked of anybody.
policy = next(v["content"] for t, v in page.seen if v.get("http-equiv") == "Content-Security-Policy")
assert policy.startswith("default-src 'none'; img-src data:;"), policy
for tag, values in page.seen:
    assert tag not in ("img", "iframe", "object", "embed", "base", "form", "video", "audio", "source", "a"), tag
    for name in ("src", "href", "srcset", "action", "poster", "data", "background"):
        assert values.get(name, "data:,") == "data:,", (tag, values)
style = re.search(r"<style>(.*?)</style>", TEXT, re.S).group(1)
assert "url(" not in style and "@import" not in style and "@font-face" not in style

# Served by a web server, too: a browser that has an icon asks for none.
assert any(tag == "link" and values == {"rel": "icon", "href": "data:,"} for tag, values in page.seen)

# One script, which is vramgc's own.
nonce = re.search(r"'nonce-([0-9a-f]{32})'", policy).group(1)
kinds = [values.get("type") for values, _ in page.scripts]
assert kinds == ["application/json", "application/json", None], kinds
assert page.scripts[2][0] == {"nonce": nonce}
assert not re.search(r"fetch\(|XMLHttpRequest|import\(|innerHTML|insertAdjacent|document\.write|eval\(|https?://(?!www\.w3\.org/2000/svg)",
                     "".join(page.scripts[2][1]))

# What it says is what the other report says.
assert json.loads("".join(page.scripts[0][1])) == REPORT
maps = json.loads("".join(page.scripts[1][1]))
verdict = REPORT["verdict"]
for part in ("what", "cause", "do", "sum", "note"):
    assert (verdict[part] or "") in page.texts["verdict"]
for process in REPORT["processes"]:
    assert f"Process {process['pid']}" in page.texts["process"]
    assert (process["command_line"] or "") in page.texts["process"]
rows = sum(min(200, len(p[kind])) for p in REPORT["processes"] for kind in ("actions", "refusals", "marks"))
assert page.rows == rows, (page.rows, rows)
print(len(TEXT), len(maps), sum(len(s["entries"]) for m in maps for s in m["segments"]))
