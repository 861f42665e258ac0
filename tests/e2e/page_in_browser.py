"""page_in_browser.py: the pages that html.bats has made, in a real browser. The page's own script is asked for nothing but
what it has drawn."""
import json
import re

import browser

SECOND, GIB = 10**9, 1 << 30
look = browser.Browser()


def canvas(name):
    return look.run(f"document.getElementById('{name}').toDataURL()")


def text(name):
    return look.run(f"document.getElementById('{name}').textContent")


def middle_of(name):
    return look.run(f"(box => [box.left + box.width / 2, box.top + box.height / 2])(document.getElementById('{name}').getBoundingClientRect())")


def press(name):
    look.run(f"document.getElementById('{name}').scrollIntoView({{block: 'center'}})")
    look.point_at(*middle_of(name), click=True)


def is_quiet(page):
    assert look.complaints() == [], (page, look.complaints())
    assert len(look.requests()) == 1 and look.requests()[0].endswith(page), look.requests()


def fits(page, width):
    assert look.run("document.documentElement.scrollWidth") <= width, f"{page} is wider than {width}"


def every_page():
    """Each is drawn at each width, in both colours, without a complaint or a request."""
    for page in ("fragmented.html", "several.html", "unknown.html", "markup.html", "hostile.html"):
        for width in (360, 1600):
            papers = set()
            for dark in (False, True):
                look.look(page, width=width, dark=dark, touch=width < 400)
                is_quiet(page)
                fits(page, width)
                papers.add(look.run("getComputedStyle(document.body).backgroundColor"))
            assert len(papers) == 2, papers
    assert look.run("typeof owned") == "undefined"


def nothing_is_cut_off():
    """No table, and no text of a flame graph, is wider than the screen, however long its names; on a wide one a file of the tests' own size fits."""
    for page, widths in ("fragmented.html", (360, 768, 1280)), ("several.html", (360, 768)), ("markup.html", (360, 768)):
        for width in widths:
            look.look(page, width=width, touch=width < 400)
            wide = look.run("[...document.querySelectorAll('.scroll, .flame, .flame .name')].filter(e => e.clientWidth > 0 && "
                            "e.scrollWidth > e.clientWidth).map(e => e.textContent.slice(0, 60))")
            assert wide == [], (page, width, wide)


def a_table_is_stacked_only_where_it_does_not_fit():
    """Memory that was returned fits a tablet; requests have more columns, and on a telephone neither fits. There, too, only what is
    long scrolls by itself."""
    tables = ("Object.fromEntries([...document.querySelectorAll('table.wide')].filter(e => e.offsetWidth > 0)"
              ".map(e => [e.closest('div').previousElementSibling.textContent, getComputedStyle(e).display]))")
    for width, returned in (360, "block"), (768, "table"), (1280, "table"):
        look.look("fragmented.html", width=width)
        shown = look.run(tables)
        assert shown["Memory that was returned"] == returned, (width, shown)
        assert "table" in shown.values() or width == 360, (width, shown)
    look.look("fragmented.html", width=360, touch=True)
    cut = look.run("[...document.querySelectorAll('.process .scroll')].filter(e => e.scrollHeight > e.clientHeight + 1).map(e => e.firstChild.rows.length)")
    assert all(rows > 8 for rows in cut), cut


def no_line_ends_within_an_option():
    """However wide the page is, in what HTML and script have written; and whoever copies it gets the text alone."""
    broken = """(() => {
        const found = new Set(), texts = document.createTreeWalker(byId("verdict").parentElement, NodeFilter.SHOW_TEXT), range = document.createRange();
        const main = document.querySelector("main"), options = [];
        while (texts.nextNode())
            if (!texts.currentNode.parentElement.closest("pre"))
                for (const option of texts.currentNode.data.matchAll(/(?<![^ (`'"])--?[a-z][\\w-]*/g))
                    options.push([texts.currentNode, option.index, option[0]]);
        document.querySelectorAll("details").forEach(details => { details.open = true; });
        for (let width = 300; width < 800; width += 7) {
            main.style.width = width + "px";
            for (const [node, at, option] of options) {
                range.setStart(node, at);
                range.setEnd(node, at + option.length);
                if (new Set([...range.getClientRects()].map(box => box.top)).size > 1)
                    found.add(option + " at " + width);
            }
        }
        return [[...new Set(options.map(option => option[2]))], [...found]]; })()"""
    seen = set()
    for page in "fragmented.html", "went-on.html", "plain.html", "lasts-6.5.html", "options.html":
        look.look(page, width=800)
        options, found = look.run(broken)
        assert found == [], (page, found)
        seen |= set(options)
    assert {"--snapshot-on-oom", "--medvram", "--ckpt"} <= seen, seen
    look.look("options.html", width=360, touch=True)
    fits("options.html", 360)
    copied = look.run("getSelection().selectAllChildren(document.querySelector('main')) || getSelection().toString()")
    assert "python launch.py --xformers --ckpt" in copied, copied


def no_time_is_cut_off():
    """Also where the last one stands at the end of the line. Of a short run the page says how long a step is."""
    def ends_at(seconds):
        def change(process):
            process.update(elapsed_ns=seconds * 10**9, actions=[], marks=[], jobs=[], refusals=[])
            process["devices"][0]["samples"]["step_ns"] = 10**8
            times = process["devices"][0]["samples"]["time_ns"]
            times[:] = [round(ns * seconds * 10**9 / times[-1]) for ns in times]
        return change

    for seconds in 6.5, 10, 3600, 36000:
        page = f"lasts-{seconds}.html"
        write_changed(page, ends_at(seconds), of="plain.html")
        for width in 360, 1280:
            look.look(page, width=width)
            beyond = look.run("[...document.querySelectorAll('#chart text')].filter(t => t.getBoundingClientRect().right > "
                              "byId('chart').getBoundingClientRect().right).map(t => t.textContent)")
            assert beyond == [], (page, width, beyond)
        assert look.run("byId('steps').hidden") == (seconds >= 10), page
        assert text("steps").startswith("A step of the picture is 100 ms long, "), text("steps")


def the_tip_says_what_the_table_says():
    """Wherever the pointer is, a click there changes no figure; other code is told, too."""
    look.look("fragmented.html", height=1400)
    look.run("document.getElementById('chart').scrollIntoView({block: 'center'})")
    left, top, width, height = look.run("(b => [b.left, b.top, b.width, b.height])(document.getElementById('chart').getBoundingClientRect())")
    for part in (0.2, 0.41, 0.6, 0.799, 0.88, 0.93, 0.957, 0.98):
        look.point_at(left + part * width, top + height / 3)
        tip = look.run("[...document.querySelectorAll('.tip tr')].map(r => [...r.cells].map(c => c.textContent))")
        at = look.run("document.querySelector('.tip b').textContent")
        look.point_at(left + part * width, top + height / 3, click=True)
        table = look.run("[...document.querySelectorAll('#sum tr')].map(r => [...r.cells].slice(0, 2).map(c => c.textContent))")
        assert tip == [row for row in table if row in tip] and len(tip) >= 4, (part, tip, table)
        assert text("when") == "The card at " + at, (part, at, text("when"))


def what_was_wanted_is_shown():
    """Above what was in use, and as a figure; where memory never ran out there is no list of blocks."""
    look.look("fragmented.html", height=1400)
    drawn = look.run("[...document.querySelectorAll('#chart .wanted')].map(r => Number(r.getAttribute('height')))")
    assert len(drawn) == 3 and min(drawn) >= 3, drawn
    legend = look.run("[...document.querySelectorAll('#legend li')].map(l => l.textContent)")
    assert legend[:4] == ["live", "live at times", "on average", "idle"], legend
    assert "wanted, but refused1.50 GiB" in text("sum"), text("sum")
    look.look("plain.html")
    assert look.run("document.getElementById('blocks').hidden") and look.run("document.getElementById('who').hidden")


def what_was_lacking_follows_the_card():
    """In red, beyond what was free or idle; of very much a card's worth, and that is said."""
    red = """(() => { const canvas = document.getElementById('cells'), red = colour('refused').slice(1);
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const is = i => [0, 1, 2].every(c => data[i + c] === parseInt(red.slice(2 * c, 2 * c + 2), 16));
        let count = 0;
        for (let i = 0; i < data.length; i += 4)
            count += is(i);
        return Math.round(count / 144 / devicePixelRatio ** 2); })()"""

    def of(idle, total, cause):
        def change(process):
            process["refusals"][-1].update(idle_bytes=idle, cause=cause)
            process["devices"][0]["total_bytes"] = total
        return change

    for idle, total, cause, squares, says in (
            (0, 24 << 30, "full", 14, "64.0 MiB of the card; red: lacking, 836 MiB"),
            (836 << 20, 24 << 30, "fragmented", 0, "64.0 MiB of the card; enough was free and idle, in pieces"),
            (836 << 20, 24 << 30, "rounded", 0, "64.0 MiB of the card; PyTorch takes 12 or 20 MiB at a time"),
            (0, 512 << 20, "full", 256, "2.00 MiB of the card; red: lacking, 836 MiB, of which one card's worth is drawn")):
        page = f"lacks-{squares}-{cause}.html"
        write_changed(page, of(idle, total, cause))
        look.look(page)
        assert text("cells-title") == f"Each square is {says}. The squares show how much each has, not where it lies.", text("cells-title")
        assert look.run(red) == squares, (page, look.run(red))


def the_pictures_end_where_python_did():
    """Where that is known, the program has ended, and the card was looked at before; and that is said there. What happened later is
    still told."""
    def of(ended, how):
        def change(process):
            process["python_ended_ns"] = ended and ended(process["devices"][0]["samples"]["time_ns"])
            process["end"]["how"] = how
        return change

    for number, (ended, how, cut) in enumerate(((lambda times: times[-40], "exited", True), (lambda times: times[-20], "exited", True),
                                                (None, "exited", False), (lambda times: times[-40], "running", False),
                                                (lambda times: times[0] - 1, "exited", False))):
        page = f"ends-{number}.html"
        write_changed(page, of(ended, how))
        look.look(page)
        wanted = look.run("state.view.process.python_ended_ns" if cut else "Math.max(state.view.process.elapsed_ns, state.view.samples.time_ns.at(-1))")
        assert look.run("state.view.end") == wanted, (page, wanted)
        assert look.run("[...document.querySelectorAll('.ending')].map(t => t.textContent)") == (
            2 * ["Python ended at " + look.run("exactClock(state.view.end)")] if cut else []), page
        assert look.run("Math.max(...state.view.moments.filter(m => !m.event).map(m => m.ns))") <= wanted, page
        look.run("show(state.view.moments.findLastIndex(m => m.event))")
        assert text("what").endswith("; Python had ended") == look.run("state.view.moments[state.at].ns > state.view.end"), (page, text("what"))
        assert look.run("show(0) || ['earlier', 'later'].map(name => getComputedStyle(byId(name)).opacity)") == ["0.4", "1"], page


def whose_it_was_is_drawn():
    """Over time by phase or by function, and at the peak and the out-of-memory: each box as wide as its bytes."""
    look.look("fragmented.html", width=1000, height=1400)
    for says in "text encode: 0.68 GiB", "load_model (modules/sd_models.py): 5.00 GiB", "all else: 0.22 GiB":
        assert says in text("who-legend"), text("who-legend")
    by_phase = look.run("document.querySelectorAll('#who-chart path:not([class])').length")
    assert by_phase == 4, by_phase
    look.run("{ const s = document.getElementById('who-by'); s.selectedIndex = 1; s.dispatchEvent(new Event('change')); }")
    assert "load_model (modules/sd_models.py): 5.00 GiB" in text("who-legend"), text("who-legend")
    widths = look.run("Object.fromEntries([...document.querySelectorAll('.flame .name')].map(n => [n.title, n.getBoundingClientRect().width]))")
    whole = widths["live at the peak: 7.00 GiB"]
    for name, mib in ("img;2 img (modules/img2img.py): 0.88 GiB", 900), ("VAE: _decode (models/vae_\xe9.py): 0.49 GiB", 500):
        assert abs(widths[name] / whole - mib / 7168) < 0.01, widths
    assert "text encode: encode_prompt (sd/pipeline.py): 0.68 GiB" in widths, widths
    assert "live at the out-of-memory: 6.00 GiB" in widths and whole > 800, widths
    assert "phase" in look.run("[...document.querySelectorAll('#chart text')].map(t => t.textContent)")
    is_quiet("fragmented.html")
    look.look("went-on.html")
    heads = look.run("[...document.querySelectorAll('#flames h3')].map(h => h.textContent.split(':')[0])")
    assert heads == ["Whose it was at the peak", "Whose it was at the refusal"], heads


def the_steadiest_is_lowest():
    """So that a model which stays stands still, though another phase has more at its peak and on average; the legend has that order."""
    def comes_and_goes(process):
        encode, vae = (next(i for i, s in enumerate(process["sites"]) if s["phase"] == name) for name in ("text encode", "VAE"))
        points = [(1, 0)] + [(2, 6 if i % 3 else 0) for i in range(20)]
        device = timeline(process, [(i * SECOND, 9 * GIB, sum(point) * GIB) for i, point in enumerate(points, 1)])
        device["who_over_time"] = [{"time_ns": i * SECOND, "live_bytes": (a + b) * GIB, "works": vae, "sites": [vae, encode],
                                    "bytes": [b * GIB, a * GIB]} for i, (a, b) in enumerate(points, 1)]

    write_changed("steady.html", comes_and_goes)
    look.look("steady.html")
    legend = look.run("[...document.querySelectorAll('#who-legend li')].map(l => l.textContent.split(':')[0])")
    assert legend[:2] == ["text encode", "VAE"], legend
    lowest = look.run("[...document.querySelectorAll('#who-chart path')].map(p => getComputedStyle(p).fill)")[0]
    assert lowest == look.run("getComputedStyle(document.querySelector('#who-legend .sw')).backgroundColor"), lowest


def without_phases_it_is_by_function():
    def no_phase(process):
        for site in process["sites"]:
            site["phase"] = None

    write_changed("phaseless.html", no_phase)
    look.look("fragmented.html")
    assert look.run("document.getElementById('who-by').value") == "phase"
    look.look("phaseless.html")
    assert look.run("document.getElementById('who-by').value") == "Python function"
    assert "load_model (modules/sd_models.py): 5.00 GiB" in text("who-legend"), text("who-legend")


def what_was_not_read_is_not_told():
    """Before the first reading of the card nothing is known of others, not even of the driver."""
    look.look("unread.html", width=1600)
    assert look.run("state.view.moments[state.at].sample === state.view.samples.held_bytes.lastIndexOf(Math.max(...state.view.samples.held_bytes))")
    assert "others and freenot known yet" in text("sum"), text("sum")
    assert "others and the driver" not in text("sum"), text("sum")
    assert look.run("new Set(cellsOf(partsOfSample(state.view, 0), state.view.total, 64 * MIB)).has('unread')")
    drawn = look.run("document.querySelector('#chart .unread')?.getAttribute('d')")
    assert drawn and "others and free: not known yet" in text("legend"), text("legend")
    look.look("fragmented.html")
    assert look.run("document.querySelector('#chart .unread')") is None and "not known" not in text("legend"), text("legend")


def pages_that_go_one_after_another_have_a_bar():
    """From the first to the last of them, and the pointer finds it there."""
    def lasts(process):
        for action in process["actions"]:
            action["until_ns"] = action["time_ns"] + 200 * 10**9

    write_changed("lasts.html", lasts)
    look.look("lasts.html", width=1280, height=1400)
    count = look.run("state.view.events.filter(e => e.kind === 'reclaim').length")
    assert count > 0 and look.run("document.querySelectorAll('#chart rect.reclaim').length") == count, count
    assert "until 8:20.000" in look.run("state.view.events.map(e => e.text).join()"), look.run("state.view.events.map(e => e.text).join()")
    tip = look.run("{ const s = scales(state.view, 1180); tipOf(state.view, s, s.x(state.view.events.find(e => e.kind === 'reclaim').ns + 150e9)).textContent }")
    assert "returned by" in tip, tip


def labels_do_not_overlap():
    """No text of the timeline lies on another, or is cut short."""
    for page in ("fragmented.html", "several.html", "markup.html"):
        for width in (360, 800, 1600):
            look.look(page, width=width)
            boxes = look.run("[...document.querySelectorAll('#chart text')].map(t => [t.textContent, t.getBoundingClientRect()])"
                             ".map(([t, b]) => [t, b.left, b.top, b.right, b.bottom])")
            assert not any(box[0].endswith("\u2026") for box in boxes), boxes
            for i, a in enumerate(boxes):
                for b in boxes[:i]:
                    apart = a[3] <= b[1] or b[3] <= a[1] or a[4] <= b[2] + 2 or b[4] <= a[2] + 2
                    assert apart, (page, width, a, b)


def text_is_readable():
    """At least 4.5 to 1, as the accessibility guidelines of the W3C ask for."""
    for dark in (False, True):
        look.look("fragmented.html", dark=dark)
        pairs = look.run("""[...document.querySelectorAll('.quiet, .from, dt, dd, td, th, p, h1, h2, h3, li, button, #chart text')]
            .filter(e => e.getClientRects().length > 0).map(e => {
                const style = getComputedStyle(e), ink = e.closest('svg') ? style.fill : style.color;
                const sheet = e.closest('section, .verdict') || document.body;
                return [ink, getComputedStyle(sheet).backgroundColor]; })""")
        worst = min(pairs, key=lambda pair: browser.contrast_of(*pair))
        assert len(pairs) > 100 and browser.contrast_of(*worst) >= 4.5, (dark, worst, browser.contrast_of(*worst))


def moments_move():
    """It begins at the out-of-memory; the slider, keys, buttons, a click and a time in a table go to other moments."""
    look.look("fragmented.html", height=1400)
    assert text("when") == "The card at 1:09:09"
    assert "1.50 GiB refused" in text("what") and "its blocks are shown below" in text("what")
    report = json.load(open("fragmented.json"))
    refusal = report["processes"][0]["refusals"][-1]
    exact = look.run("[...document.querySelectorAll('#sum .exact')].map(e => Number(e.textContent.replace(/[^0-9]/g, '')))")
    assert exact[0] == refusal["allocated_bytes"] and exact[-3] == refusal["free_bytes"], exact
    assert sum(exact[:-2]) == exact[-2] == refusal["total_bytes"] and exact[-1] == refusal["request_bytes"], exact
    before, times = canvas("cells"), [text("when")]
    look.run("{ const s = document.getElementById('slider'); s.value = 250000; s.dispatchEvent(new Event('input')); }")
    assert text("when") != times[0] and canvas("cells") != before
    times.append(text("when"))
    look.run("document.getElementById('slider').focus()")
    look.key("ArrowRight", 39)
    times.append(text("when"))
    assert times[2] != times[1], times
    press("later")
    assert "returned by" in text("what"), text("what")
    look.run("document.getElementById('chart').scrollIntoView({block: 'center'})")
    look.point_at(*middle_of("chart"))
    tip = look.run("document.querySelector('.tip').textContent")
    assert "live" in tip and "GiB" in tip and ":" in tip, tip
    at = text("when")
    look.point_at(*middle_of("chart"), click=True)
    assert text("when") != at
    look.run("document.querySelector('td[data-ns] button').click()")
    assert text("when") == "The card at 57:31.000", text("when")
    is_quiet("fragmented.html")


def timeline(process, points):
    """The process with (ns, held, live) as its timeline."""
    device = process["devices"][0]
    columns = [list(column) for column in zip(*points)]
    device["samples"] = dict(device["samples"], time_ns=columns[0], held_bytes=columns[1], allocated_bytes=columns[2],
                             held_low_bytes=columns[1], live_low_bytes=columns[2], live_ms_sum_kib=[0] * len(points),
                             ms=[0] * len(points), others_bytes=[1 << 28] * len(points))
    process.update(actions=[], marks=[], jobs=[], refusals=[], elapsed_ns=points[-1][0] + SECOND)
    return device


def it_begins_at_the_peak():
    """Not where as much is held, but less of it live; nor at a refusal that was granted later. No interval is without length."""
    def kept_until_the_end(process):
        timeline(process, [(SECOND, GIB, GIB), (2 * SECOND, 5 * GIB, 4 * GIB), (3 * SECOND, 5 * GIB, 3 * GIB), (4 * SECOND, 5 * GIB + 1, 0)])
        process["refusals"] = [dict(granted, device=0, time_ns=SECOND * 7 // 2, granted=True, reported=False, went_on=False)]

    granted = json.load(open("fragmented.json", encoding="utf-8"))["processes"][0]["refusals"][0]
    write_changed("peak.html", kept_until_the_end, of="plain.html")
    look.look("peak.html")
    assert text("when") == "The card at 0:02.000", text("when")
    assert text("what") == "the highest figures around then; the next are of 0:03.000", text("what")

    def ends_at_once(process):
        timeline(process, [(SECOND, GIB, GIB), (2 * SECOND - 1, 5 * GIB, 4 * GIB)])
        process["elapsed_ns"] = 2 * SECOND - 1

    write_changed("at-once.html", ends_at_once, of="plain.html")
    look.look("at-once.html")
    assert text("what") == "the highest figures around then", text("what")


def whose_it_was_is_what_was_live():
    """At each moment, however seldom it was noted whose it was: the table, both charts and the legend tell one figure."""
    points = [(i * SECOND, (1 + i % 4) * GIB, (1 + i % 4) * GIB) for i in range(1, 40)] + [(i * SECOND, 6 * GIB, GIB) for i in range(40, 50)]

    def seldom(process):
        device = timeline(process, [*points, (50 * SECOND, 6 * GIB, 0)])
        looks = [{"time_ns": i * SECOND, "live_bytes": 4 * GIB, "works": 0, "sites": [0, 1], "bytes": [3 * GIB, GIB]} for i in range(1, 40, 4)]
        device["who_over_time"] = [*looks, {"time_ns": 40 * SECOND, "live_bytes": GIB, "works": 0, "sites": [0], "bytes": [GIB]}]
    write_changed("seldom.html", seldom)
    look.look("seldom.html")
    told = look.run("""state.view.moments.map((moment, i) => { show(i);
        return [byId("sum").rows[0].cells[1].textContent, byId("who-when").textContent.split(": ")[1],
                state.view.who.known[sampleAt(state.view, moment.ns)], byId("who-legend").textContent]; })""")
    for live, who, known, legend in told:
        assert live == who and known, (live, who, legend)
    assert {row[0] for row in told} == {"4.00 GiB", "1.00 GiB", "0"}, told

    write_changed("spilled.html", lambda process: timeline(process, [(SECOND, 3 * GIB, 4 * GIB)])["spilled_bytes"].update(peak=GIB))
    look.look("spilled.html")
    look.run("show(0)")
    assert text("who-when") == "at 0:01.000: 4.00 GiB, of which in RAM 1.00 GiB" and text("sum").startswith("live3.00 GiB"), text("who-when")


def a_click_shows_a_box_larger():
    """As wide as the picture; and what it says is told below, on a telephone, too."""
    look.look("fragmented.html", width=360, height=3000, touch=True)
    box = "[...document.querySelectorAll('.flame')[0].querySelectorAll('.name')].find(n => n.title.startsWith('VAE: _decode'))"
    before = look.run(f"{box}.clientWidth")
    assert look.run("document.querySelector('.flame + .quiet').textContent").startswith("Tap or point at a box: ")
    assert look.run("[...document.querySelectorAll('.flame .name')].map(n => n.textContent)").count("load_model: 5.00 GiB") == 2
    look.run(f"{box}.click()")
    after = look.run(f"{box}.clientWidth")
    assert before < 100 and after > 300, (before, after)
    says = look.run("document.querySelector('.flame + .quiet').textContent")
    assert says == "VAE: _decode (models/vae_\xe9.py): 0.88 GiB, 12.6 % of 7.00 GiB", says
    look.run("document.querySelector('.flame .outer').click()")
    assert look.run(f"{box}.clientWidth") == before
    is_quiet("fragmented.html")


RUNS = [f"run-{name}.html" for name in ("10-1-1-exit", "10-2-2-oom", "600-2-1-exit", "600-40-2-exit", "36000-40-1-exit", "36000-2-1-oom",
                                        "600-2-1-crash", "10-1-1-empty")]


def each_state_is_drawn():
    """Short and long runs, one function and forty, one card and two, however they ended: light and dark, narrow and wide."""
    for page in RUNS:
        for width in 400, 1280, 2560:
            for dark in False, True:
                look.look(page, width=width, dark=dark, touch=width < 500)
                is_quiet(page)
                fits(page, width)
                if not page.endswith("empty.html"):
                    assert look.run("document.querySelectorAll('#chart path').length") > 4, page
    assert look.run("byId('pictures').hidden") and "saw no memory" in text("verdict"), text("verdict")


def a_long_step_is_a_band():
    """Pale between the lowest and the highest that was live in it, with the average as a line; a run of hours is no wall."""
    look.look("run-36000-40-1-exit.html")
    at = "state.view.samples.time_ns.findLastIndex(ns => ns < 3000e9)"
    low, mean, high = look.run(f"(s => ['liveLow', 'liveMean', 'allocated_bytes'].map(name => s[name][{at}] / GIB))(state.view.samples)")
    assert 3.9 < low < 4.1 and 5 < mean < 5.3 and 7.4 < high < 7.5, (low, mean, high)
    box = "(e => [e.getBBox().y, e.getBBox().y + e.getBBox().height])(document.querySelector('#chart .%s'))"
    live, pale, line = (look.run(box % name) for name in ("area-live", "area-live-band", "mean-live"))
    assert pale[0] < line[0] - 20 and line[0] < live[0] - 10 and live[1] > 290, (live, pale, line)
    assert text("steps") == "A step of the picture is 51 s long: solid up to the least that was live in it, pale up to the most; the line in it is the average."
    assert re.search(r"the highest figures around then; live on average 5\.\d\d GiB, at least 4\.\d\d GiB; the next", look.run(f"show({at}) || byId('what').textContent"))
    assert text("who-legend").endswith("all of it, on average"), text("who-legend")
    look.look("run-10-1-1-exit.html")
    assert "on average" not in text("legend") + text("who-legend") and look.run("document.querySelector('#chart .mean-live').getAttribute('d')") == ""


def most_of_it_has_a_name_and_a_colour():
    """Of forty functions, by phase and by function; those that are not told apart are counted."""
    look.look("run-36000-40-1-exit.html")
    for by in 0, 1:
        look.run(f"byId('who-by').selectedIndex = {by}; draw()")
        named = look.run("(list => list.slice(0, -1).reduce((sum, g) => sum + g.values.at(-9), 0) / list.reduce((sum, g) => sum + g.values.at(-9), 0))(state.view.who.list)")
        assert named >= 0.8, (by, named)
    assert re.search(r"26 more, each smaller: 4\.\d\d GiB", text("who-legend")) and "all else, 2 functions among it" in text("who-legend"), text("who-legend")


def a_part_of_the_run_is_shown_larger():
    """By a drag, and by keys and buttons; a moment beyond it brings its part; no label or step lies outside the picture."""
    look.look("run-36000-2-1-oom.html", height=1400)
    look.run("document.getElementById('chart').scrollIntoView({block: 'center'})")
    left, top, width = look.run("(b => [b.left, b.top, b.width])(document.getElementById('chart').getBoundingClientRect())")
    look.drag(left + width / 4, left + width / 2, top + 99)
    part = look.run("[state.view.from, state.view.until].map(ns => ns / state.view.end)")
    assert 0.19 < part[0] < 0.23 and 0.46 < part[1] < 0.5, part
    assert look.run("state.view.moments[state.at].ns > state.view.from && state.view.moments[state.at].ns < state.view.until")
    edges = look.run("[...document.querySelectorAll('#chart path[class], #chart text')].map(e => e.getBBox()).map(b => [b.x, b.x + b.width])")
    assert min(x for x, _ in edges) >= 0 and max(x for _, x in edges) <= look.run("byId('chart').clientWidth"), edges
    look.run("document.getElementById('chart').focus()")
    for key, code, factor in ("+", 187, 0.5), ("-", 189, 2), ("-", 189, 2):
        before = look.run("state.view.until - state.view.from")
        look.key(key, code)
        assert abs(look.run("state.view.until - state.view.from") / before - factor) < 0.01, key
    press("closer")
    assert look.run("state.view.until - state.view.from < state.view.end / 3 && !byId('whole').disabled")
    look.run("show(state.view.moments.length - 1)")
    assert look.run("state.view.until === state.view.end && state.view.from > 0")
    press("whole")
    assert look.run("[state.view.from, state.view.until / state.view.end, byId('whole').disabled, byId('farther').disabled]") == [0, 1, True, True]
    is_quiet("run-36000-2-1-oom.html")


def blocks_answer():
    """The map is drawn, and says what lies under the pointer."""
    look.look("fragmented.html", height=1400)
    assert "there was no memory for 1.50 GiB: 700 MiB of the card were free, and the largest hole is 96.0 MiB" in text("blocks-note")
    press("map")
    assert "Segment" in text("blocks-hover") and "20.0 MiB" in text("blocks-hover"), text("blocks-hover")
    light = canvas("map")
    look.look("fragmented.html", dark=True)
    assert canvas("map") != light


def write_changed(page, change, of="fragmented.html"):
    """The page of fragmented.vramgc, of which change() has changed the process that it is of."""
    with open(of, encoding="utf-8") as file:
        before, report, after = re.split(r'(?<=id="report">)(.*?)(?=</script>)', file.read(), maxsplit=1, flags=re.S)
    report = json.loads(report)
    change(report["processes"][0])
    with open(page, "w", encoding="utf-8") as file:
        file.write(before + json.dumps(report).replace("<", "\\u003c") + after)


def phases_keep_their_colours():
    """In legend, lane and flame graph, whoever else had more; functions of a phase share it, each in a shade of its own."""
    def encode_more(process):
        for point in process["devices"][0]["who_over_time"]:
            point["bytes"] = [3 << 30 if process["sites"][site]["phase"] == "text encode" else size
                              for site, size in zip(point["sites"], point["bytes"])]

    def one_phase(process):
        for site in process["sites"]:
            site["phase"] = site["phase"] and "face fix"

    write_changed("encodes.html", encode_more)
    write_changed("one.html", one_phase)
    legend = ("Object.fromEntries([...document.querySelectorAll('#who-legend li')].map(l => [l.textContent.split(':')[0], "
              "[getComputedStyle(l.firstChild).backgroundColor, getComputedStyle(l.firstChild).opacity]]))")
    flame = ("Object.fromEntries([...document.querySelectorAll('.flame .name')].map(n => [n.title.split(':')[0], "
             "getComputedStyle(n).getPropertyValue('--tint')]))")
    for dark in (False, True):
        look.look("fragmented.html", dark=dark)
        told, tints = look.run(legend), look.run(flame)
        look.look("encodes.html", dark=dark)
        phases = [[name for name in names if name in ("VAE", "text encode")] for names in (look.run(legend), told)]
        assert phases == [["text encode", "VAE"], ["VAE", "text encode"]], phases
        assert look.run(legend) == told and look.run(flame) == tints, (told, look.run(legend))
        for name in "VAE", "text encode":
            wanted = look.run(f"colour('phase' + PHASES.indexOf('{name}'))")
            assert told[name] == ["rgb({}, {}, {})".format(*bytes.fromhex(wanted[1:])), "1"], (name, wanted, told)
        assert told["VAE"][0] != told["text encode"][0] and tints["VAE"] != tints["text encode"], (told, tints)
        bands = look.run("[...document.querySelectorAll('#chart rect[fill-opacity=\"0.45\"]')].map(r => getComputedStyle(r).fill)")
        assert set(bands) >= {told["VAE"][0], told["text encode"][0]}, (bands, told)
        look.look("one.html", dark=dark)
        look.run("{ const s = document.getElementById('who-by'); s.selectedIndex = 1; s.dispatchEvent(new Event('change')); }")
        shades = [shade for name, shade in look.run(legend).items() if name.startswith(("_decode", "encode_prompt"))]
        assert len(shades) == 2 and shades[0][0] == shades[1][0] and shades[0][1] > shades[1][1], shades
    is_quiet("one.html")


def the_lane_names_who_has_memory_then():
    """The phase whose live memory changed most, in a colour that is named; nobody to whom the legend gives nothing, or after the end."""
    def works(process):
        encode, vae = (next(i for i, s in enumerate(process["sites"]) if s["phase"] == name) for name in ("text encode", "VAE"))
        device = timeline(process, [(i * SECOND, 5 * GIB, size * GIB) for i, size in ((1, 3), (2, 4), (3, 4), (4, 1), (4.5, 4), (5, 1), (6, 2), (7, 2))])
        device["who_over_time"] = [
            {"time_ns": i * SECOND, "live_bytes": (a + b) * GIB, "works": encode, "sites": [encode, vae], "bytes": [a * GIB, b * GIB]}
            for i, (a, b) in enumerate(((3, 0), (1, 3), (1, 3), (1, 0), (1, 0), (1, 1), (1, 1)), 1)]
        process.update(python_ended_ns=SECOND * 13 // 2, marks=[{"time_ns": 2 * SECOND - SECOND // 100, "label": "near"}])

    write_changed("works.html", works)
    look.look("works.html")
    assert look.run("state.view.bands.map(b => [b.name, b.from / 1e9, b.until / 1e9])") == [
        ["text encode", 1, 2], ["VAE", 2, 4], ["VAE", 6, 6.5]], look.run("state.view.bands")
    assert text("legend").endswith("phase: text encodephase: VAE"), text("legend")
    tip = look.run("{ const s = scales(state.view, 1180); tipOf(state.view, s, s.x(2.01e9)).textContent }")
    assert tip.startswith("0:01.990") and "phase: text encode" in tip, tip


def boxes_are_as_wide_as_their_bytes():
    """Also below a function that has memory of its own; what is too narrow to be seen is left out."""
    def of_its_own(process):
        process["devices"][0]["calls_at_peak"] = [{"sites": [3], "bytes": 2 << 30}, {"sites": [3, 2], "bytes": 1 << 30},
                                                  {"sites": [3, 2, 1, 0], "bytes": 1 << 20}]

    write_changed("own.html", of_its_own)
    look.look("own.html", width=1000, height=1400)
    boxes = look.run("[...document.querySelectorAll('.flame')[0].querySelectorAll('.name')].map(n => [n.title, n.getBoundingClientRect().width])")
    widths = {title.split(" (")[0]: width for title, width in boxes}
    whole = widths["live at the peak: 7.00 GiB"]
    assert len(widths) == 4 and abs(widths["generate"] / whole - 3 / 7) < 0.01 and abs(widths["VAE: _decode"] / whole - 1 / 7) < 0.01, boxes


def jobs_are_shown():
    """As a lane of the chart, and who asked for what was refused."""
    def with_jobs(process):
        assert process["jobs"]
        process["jobs"] = [
            dict(process["jobs"][0], time_ns=(400 * i - 300) * 10**9, took_ns=300 * 10**9, number=i, peak_live_bytes=6 << 30,
                 peak_held_bytes=7 << 30, live_bytes=2 << 30) for i in range(1, 10)]

    write_changed("jobs.html", with_jobs)
    for width in (360, 1280):
        look.look("jobs.html", width=width)
        is_quiet("jobs.html")
        fits("jobs.html", width)
        assert [look.run(f"document.querySelectorAll('#chart .{name}').length") for name in ("job", "job-end")] == [9, 9]
    said = [text("what"), *(press("earlier") or text("what") for _ in range(40))]
    assert "job 3 over, after 300.00 s: at most 6.00 GiB live for 7.00 GiB held, now 2.00 GiB live" in said, said
    assert any("refused" in line and "in encode_prompt" in line for line in said), said


def what_was_only_observed_is_not_returned():
    look.look("observe.html", height=1400)
    drawn = look.run("[...document.querySelectorAll('#chart text')].map(t => t.textContent)")
    assert "would return" in text("legend") and "observed" in drawn and "returned" not in drawn, (text("legend"), drawn)
    assert "Memory that would have been returned" in look.run("[...document.querySelectorAll('h3')].map(h => h.textContent)")


def views_change():
    """It begins with that which the verdict is of."""
    look.look("later.html")
    assert text("when") == "The card at 1:09:09" and "1.50 GiB refused" in text("what"), text("when")
    look.look("several.html")
    names = look.run("[...document.getElementById('view').options].map(o => o.text)")
    assert len(names) >= 2 and look.run("!document.getElementById('choose').hidden"), names
    before = look.run("document.querySelector('.area-live').getAttribute('d')")
    look.run("{ const v = document.getElementById('view'); v.selectedIndex = 1; v.dispatchEvent(new Event('change')); }")
    assert look.run("document.querySelector('.area-live').getAttribute('d')") != before
    assert "Single blocks were not recorded" in text("blocks-note")
    is_quiet("several.html")


try:
    for test in (every_page, each_state_is_drawn, a_long_step_is_a_band, most_of_it_has_a_name_and_a_colour, a_part_of_the_run_is_shown_larger, nothing_is_cut_off, a_table_is_stacked_only_where_it_does_not_fit, no_time_is_cut_off, no_line_ends_within_an_option, the_tip_says_what_the_table_says, what_was_wanted_is_shown, what_was_lacking_follows_the_card, the_pictures_end_where_python_did, whose_it_was_is_drawn, the_steadiest_is_lowest, without_phases_it_is_by_function, what_was_not_read_is_not_told, pages_that_go_one_after_another_have_a_bar, labels_do_not_overlap, text_is_readable, it_begins_at_the_peak, whose_it_was_is_what_was_live, a_click_shows_a_box_larger, moments_move, blocks_answer, jobs_are_shown, phases_keep_their_colours, the_lane_names_who_has_memory_then, boxes_are_as_wide_as_their_bytes, what_was_only_observed_is_not_returned, views_change):
        test()
finally:
    look.close()
