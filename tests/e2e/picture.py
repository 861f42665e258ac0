"""picture.py PAGE PNG: the upper part of a report's page as Chromium shows it. picture.py PAGE PAGE PNG: the timelines of two runs
of the same work side by side, without vramgc's work and with it. For README and guide (scripts/docs --sample)."""
import base64
import json
import sys

import browser

WIDTH, HEIGHT = 960, 752
PAIR_HEIGHT = 356
TITLES = "Without vramgc, on a simulated card", "With vramgc"

BEGIN = "state.view.samples.time_ns[state.view.samples.held_bytes.findIndex(b => b > 0)]"
SPAN = f"state.view.end - {BEGIN}"

# What the timeline looks like in half of the picture; both are drawn as high as the card and as long as the longer run, and the lanes are
# left out, as is what was refused without an error: PyTorch then takes another way.
CHART = """(() => { const view = state.view, box = byId("chart");
    box.style.width = "462px";
    view.from = BEGIN;
    view.until = view.from + LONGEST;
    view.refusals = new Map([...view.refusals].filter(([, r]) => r.reported && !r.granted && !r.went_on));
    Object.assign(view, {read: 0, bands: [], events: [], ending: null, top: 1.2 * view.total});
    drawChart(box, view, pick, zoom);
    const s = view.samples, most = Math.max(...s.held_bytes), last = s.time_ns.findLastIndex((ns, i) => ns <= view.end && s.allocated_bytes[i] > GIB);
    const unused = bytes(s.held_bytes[last] - s.allocated_bytes[last], 2);
    const says = (view.refusals.size ? "Out of memory." : "No error.") + " Held: " + bytes(most, 2) + " at most, " + unused + " idle at the end";
    return [box.innerHTML, says, byId("legend").innerHTML, document.querySelector("style").textContent]; })()"""


def pair(window, pages):
    spans, charts = [], []
    for page in pages:
        window.look(page, width=WIDTH, height=900)
        spans.append(window.run(SPAN))
    for page in pages:
        window.look(page, width=WIDTH, height=900)
        charts.append(window.run(CHART.replace("BEGIN", BEGIN).replace("LONGEST", str(max(spans)))))
    halves = "".join(f"<div><h2>{title}</h2><p class='quiet'>{says}</p><div class='chart'>{svg}</div></div>"
                     for title, (svg, says, _, _) in zip(TITLES, charts))
    body = f"<section style='margin:0;border:0'><div style='display:grid;grid-template-columns:1fr 1fr;gap:20px'>{halves}</div>" \
           "<ul class='legend' style='margin:0'></ul></section>"
    window.look("data:,", width=WIDTH, height=PAIR_HEIGHT)
    window.run(f"document.head.innerHTML = '<style>' + {json.dumps(charts[0][3])} + '</style>'; document.body.innerHTML = {json.dumps(body)};"
               f"document.querySelector('.legend').innerHTML = {json.dumps(charts[0][2])};"
               "[...document.querySelectorAll('.legend li')].forEach(l => { if (!/^(live|idle|others|wanted)/.test(l.textContent)) l.remove(); })")


def main():
    *pages, png = sys.argv[1:]
    if not browser.find():
        sys.exit("picture.py: no chromium here; the picture stays as it was")
    window, height = browser.Browser(), PAIR_HEIGHT if len(pages) == 2 else HEIGHT
    try:
        if len(pages) == 2:
            pair(window, pages)
        else:
            window.look(pages[0], width=WIDTH, height=HEIGHT)
        shot = window.ask("Page.captureScreenshot", format="png", clip={"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1})
    finally:
        window.close()
    with open(png, "wb") as out:
        out.write(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
