/* chart.js: the timeline, drawn for the width that there is: areas for who had the card, and below
 * them a lane each for jobs, marks, what was returned and what found no room. */

const LANES = [["phase", "phase"], ["job", "jobs"], ["mark", "marks"], ["reclaim", "returned"], ["refused", "no room"]];
const EDGE = {left: 66, right: 14, top: 24, gap: 6, lane: 22, axis: 24};
const BAND_OPACITY = 0.45, PALE = 0.45;

/* The smallest of 1, 2, 5 (or of powers of two) that needs no more than so many steps. */
function byteStep(top, most) {
    let step = MIB;
    while (top / step > most)
        step *= 2;
    return step;
}

function timeStep(end, most) {
    const seconds = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300,
                     600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400];
    const step = seconds.find(step => end / (step * SECOND) <= most);
    return (step || Math.ceil(end / SECOND / most / 86400) * 86400) * SECOND;
}

function scales(view, width) {
    const lanes = LANES.filter(([kind]) => kind === "phase" ? view.bands.length : view.events.some(event => event.kind === kind));
    const plot = view.plot || (width < 600 ? 190 : width > 1400 ? 380 : 270), right = width - EDGE.right;
    const span = view.until - view.from, bottom = EDGE.top + plot, lanesEnd = bottom + EDGE.gap + lanes.length * EDGE.lane;
    return {
        width, lanes, right, bottom, lanesEnd, height: lanesEnd + (view.ending === null ? 1 : 2) * EDGE.axis,
        x: ns => EDGE.left + Math.max(0, Math.min(1, (ns - view.from) / span)) * (right - EDGE.left),
        y: value => bottom - Math.min(1, value / view.top) * plot,
        near: 5 / (right - EDGE.left) * span,
        at: x => view.from + Math.max(0, Math.min(1, (x - EDGE.left) / (right - EDGE.left))) * span,
        shows: (from, until) => from <= view.until && until >= view.from,
    };
}

function drawGrid(svg, view, scale) {
    const step = byteStep(view.top, 5);
    for (let value = 0; value <= view.top; value += step) {
        const y = Math.round(scale.y(value)) + 0.5;
        svg.append(drawn("line", {x1: EDGE.left, x2: scale.right, y1: y, y2: y, stroke: colour("line")}));
        svg.append(drawn("text", {x: EDGE.left - 8, y: y + 4, "text-anchor": "end"},
                         value ? value / (view.top >= 2 * GIB ? GIB : MIB) + (view.top >= 2 * GIB ? " GiB" : " MiB") : "0"));
    }
}

/* Above what was wanted, which may be right where its label is. */
function drawCard(svg, view, scale) {
    const y = Math.round(scale.y(view.total)) + 0.5;
    svg.append(drawn("line", {x1: EDGE.left, x2: scale.right, y1: y, y2: y, stroke: colour("quiet")}));
    svg.append(drawn("text", {x: EDGE.left + 4, y: y - 7, class: "over"}, "the card: " + bytesOf(view.total, view.total)));
}

function drawTimes(svg, view, scale) {
    const step = timeStep(view.until - view.from, (scale.right - EDGE.left) / 72), first = Math.ceil(view.from / step) * step;
    const digits = step >= SECOND ? 0 : step >= SECOND / 10 ? 1 : step >= SECOND / 100 ? 2 : 3;
    for (let ns = first; ns <= view.until; ns += step) {
        const x = Math.round(scale.x(ns)) + 0.5;
        svg.append(drawn("line", {x1: x, x2: x, y1: scale.lanesEnd, y2: scale.lanesEnd + 5, stroke: colour("quiet")}));
        const label = clock(ns, digits), most = scale.width - 4 * label.length; // half of what it takes, at most
        svg.append(drawn("text", {x: Math.min(x, most), y: scale.lanesEnd + 18, "text-anchor": x > EDGE.left + 20 ? "middle" : "start"}, label));
    }
    if (view.ending !== null && view.until === view.end)
        svg.append(drawn("text", {x: scale.right, y: scale.lanesEnd + 18 + EDGE.axis, "text-anchor": "end", class: "ending"},
                         "Python ended at " + exactClock(view.ending)));
}

/* A point holds until the next: steps, forward along the upper edge and back along the lower. */
function areaPath(times, end, scale, low, high) {
    const forward = [], back = [];
    times.forEach((ns, i) => {
        const from = scale.x(ns).toFixed(1), to = scale.x(i + 1 < times.length ? times[i + 1] : end).toFixed(1);
        const top = scale.y(high[i]).toFixed(1), bottom = scale.y(low[i]).toFixed(1);
        forward.push(from + " " + top, to + " " + top);
        back.push(from + " " + bottom, to + " " + bottom);
    });
    const returned = [];
    for (let i = back.length - 2; i >= 0; i -= 2)
        returned.push(back[i + 1], back[i]);
    return "M" + forward.concat(returned).join("L") + "Z";
}

/* The average of a figure, where that is to be seen beside its highest and lowest: steps too narrow to be seen are one. */
function drawMean(svg, view, scale, key, lows, means, highs) {
    const times = view.samples.time_ns;
    let line = "", goesOn = false, varies = false, begin = 0, sum = 0;
    times.forEach((ns, i) => {
        const end = scale.x(i + 1 < times.length ? times[i + 1] : view.end), from = scale.x(ns);
        begin = sum ? begin : from;
        sum += means[i] * (end - from);
        varies = varies || highs[i] - lows[i] > view.top / 100;
        if (end - begin < 4)
            return;
        const y = scale.y(sum / (end - begin)).toFixed(1);
        line += varies ? (goesOn ? "V" + y : `M${begin.toFixed(1)} ${y}`) + "H" + end.toFixed(1) : "";
        [goesOn, varies, sum] = [varies, false, 0];
    });
    svg.append(drawn("path", {d: line, fill: "none", stroke: colour(key), "stroke-width": 1.5, class: "mean-" + key}));
}

/* Of each step: solid up to the lowest that was live, pale up to the highest. Above that what was held in the same way. */
function drawAreas(svg, view, scale) {
    const s = view.samples, times = s.time_ns;
    if (times.length === 0)
        return;
    const parts = times.map((ns, i) => partsOfSample(view, i)), none = parts.map(() => 0), live = parts.map(part => part.live);
    const area = (name, low, high, look) => svg.append(drawn("path", {d: areaPath(times, view.end, scale, low, high), class: "area-" + name, ...look}));
    const held = parts.map(part => part.live + part.idle), lowest = live.map((value, i) => Math.min(value, s.liveLow[i]));
    const kept = held.map((value, i) => Math.max(live[i], Math.min(value, s.heldLow[i])));
    area("live", none, lowest, {fill: colour("live")});
    area("live-band", lowest, live, {fill: colour("live"), "fill-opacity": PALE});
    area("idle", live, kept, {fill: colour("idle")});
    area("idle-band", kept, held, {fill: colour("idle"), "fill-opacity": PALE});
    drawMean(svg, view, scale, "live", lowest, live.map((value, i) => Math.min(value, s.liveMean[i])), live);
    let low = held;
    for (const key of ["code", "others"]) {
        const below = low, high = parts.map((part, i) => below[i] + part[key]);
        area(key, low, high, {fill: colour(key)});
        low = high;
    }
    drawUnread(svg, view, scale, parts, low);
}

/* Before the card was read for the first time others had something, nobody knows how much: more than nothing. */
function drawUnread(svg, view, scale, parts, held) {
    const times = view.samples.time_ns.slice(0, view.read + 1), end = times.length > view.read ? times.pop() : view.end;
    if (times.length > 0)
        svg.append(drawn("path", {d: areaPath(times, end, scale, held, times.map(() => view.total || view.top)), fill: colour("others"),
                                  "fill-opacity": 0.25, class: "unread"}));
}

/* The request above what was in use when it was refused; an arrow where it goes on. */
function drawWanted(svg, view, scale) {
    for (const [ns, r] of [...view.refusals].filter(([ns]) => scale.shows(ns, ns))) {
        const used = r.total_bytes - r.free_bytes, end = used + r.request_bytes, x = scale.x(ns);
        const y = Math.min(scale.y(end), scale.y(used) - 3), look = {fill: colour("refused"), stroke: colour("refused")};
        if (r.granted)
            look.fill = colour("sheet");
        svg.append(drawn("rect", {x: x - 3, y, width: 6, height: scale.y(used) - y, class: "wanted", ...look}));
        if (end > view.top)
            svg.append(drawn("path", {d: `M${x - 7} ${y}h14l-7 -10z`, ...look}));
    }
}

function drawSign(svg, event, x, y) {
    const fill = event.hollow ? colour("sheet") : colour(event.kind), stroke = colour(event.kind);
    if (event.kind === "mark")
        svg.append(drawn("line", {x1: x, x2: x, y1: y - 6, y2: y + 6, stroke, "stroke-width": 2}));
    else if (event.kind === "reclaim")
        svg.append(drawn("path", {d: `M${x - 4.5} ${y - 4}h9l-4.5 8z`, fill, stroke}));
    else
        svg.append(drawn("path", {d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, stroke, fill: "none",
                                  "stroke-width": event.hollow ? 1.2 : 2.4}));
}

/* Things that last: a job, pages that go one after another. */
function drawSpan(svg, scale, from, until, y, kind) {
    const x = scale.x(from), width = Math.max(1, scale.x(until) - x - 1);
    svg.append(drawn("rect", {x, y: y - 5, width, height: 10, rx: 2, class: kind, fill: colour(kind), "fill-opacity": 0.55}));
}

/* With a line where it ends: the next may begin there. */
function drawJob(svg, scale, event, y) {
    const x = scale.x(event.ns);
    drawSpan(svg, scale, event.from, event.ns, y, "job");
    svg.append(drawn("line", {x1: x, x2: x, y1: y - 8, y2: y + 8, stroke: colour("job"), "stroke-width": 2, class: "job-end"}));
}

/* The label of a mark, where the next mark leaves room for all of it; the tip and the table have each. */
function drawLabel(svg, event, x, room, y) {
    if (event.text.length * 6.8 <= room - 12)
        svg.append(drawn("text", {x: x + 5, y: y + 4}, event.text));
}

function drawBands(svg, view, scale, y) {
    for (const band of view.bands.filter(band => scale.shows(band.from, band.until))) {
        const x = scale.x(band.from), width = Math.max(1, scale.x(band.until) - x);
        svg.append(drawn("rect", {x, y: y - 8, width, height: 16, fill: colour(colourOf(band.name)), "fill-opacity": BAND_OPACITY}));
        if (width > 7 * band.name.length + 6)
            svg.append(drawn("text", {x: x + 3, y: y + 4, class: "ink"}, band.name));
    }
}

function drawLanes(svg, view, scale) {
    scale.lanes.forEach(([kind, name], lane) => {
        const y = scale.bottom + EDGE.gap + (lane + 0.5) * EDGE.lane, events = view.events.filter(event => event.kind === kind && scale.shows(event.from || event.ns, event.until || event.ns));
        svg.append(drawn("line", {x1: EDGE.left, x2: scale.right, y1: y + EDGE.lane / 2, y2: y + EDGE.lane / 2,
                                  stroke: colour("line")}));
        svg.append(drawn("text", {x: EDGE.left - 8, y: y + 4, "text-anchor": "end"},
                         kind === "reclaim" && observedOnly(view) ? "observed" : name));
        if (kind === "phase")
            drawBands(svg, view, scale, y);
        events.forEach((event, i) => {
            const x = scale.x(event.ns), next = i + 1 < events.length ? scale.x(events[i + 1].ns) : scale.right;
            if (kind === "mark")
                drawLabel(svg, event, x, next - x, y);
            if (event.until > event.ns)
                drawSpan(svg, scale, event.ns, event.until, y, kind);
            if (kind === "job")
                drawJob(svg, scale, event, y);
            else
                drawSign(svg, event, x, y);
        });
    });
}

function tipOf(view, scale, x) {
    const ns = scale.at(x), moment = view.moments[momentAt(view, ns, scale.near)], parts = partsOf(view, moment);
    const table = make("table"), then = moment.event ? moment.ns : ns, band = view.bands.find(b => b.from <= then && then < b.until);
    for (const [key, label] of PARTS)
        if (parts[key] !== null && (key !== "code" || parts.code > 0))
            table.append(make("tr", "", make("td", "t", make("i", "sw " + key), label), make("td", "", bytesOf(parts[key], view.top))));
    const near = view.events.filter(event => Math.abs(scale.x(event.ns) - x) <= 5 || (event.from <= ns && ns <= event.ns) ||
                                        (event.ns <= ns && ns <= event.until));
    const tip = make("div", "tip", make("b", "", exactClock(moment.ns)), table);
    if (band)
        tip.append(make("div", "", swatch(colourOf(band.name)), "phase: " + band.name));
    for (const event of near.slice(0, 5))
        tip.append(make("div", "", make("i", "sign " + event.kind), event.text));
    if (near.length > 5)
        tip.append(make("div", "quiet", near.length - 5 + " more here"));
    return tip;
}

/* A drag along the picture marks a part of the run: zoom(from, until); a shorter one is a click. */
function dragged(svg, element, scale, pick, zoom) {
    const mark = drawn("rect", {y: EDGE.top, height: scale.lanesEnd - EDGE.top, width: 0, fill: colour("cursor"), "fill-opacity": 0.15});
    const xOf = event => Math.max(EDGE.left, Math.min(scale.right, event.clientX - element.getBoundingClientRect().left));
    let begin = null;
    const reach = x => [Math.min(begin, x), Math.abs(x - begin)];
    svg.append(mark);
    svg.addEventListener("pointerdown", event => {
        begin = xOf(event);
        svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", event => {
        if (begin !== null)
            ["x", "width"].forEach((name, i) => mark.setAttribute(name, reach(xOf(event))[i]));
    });
    svg.addEventListener("pointercancel", () => { begin = null; mark.setAttribute("width", 0); });
    svg.addEventListener("pointerup", event => {
        const [x, width] = reach(begin === null ? begin = xOf(event) : xOf(event));
        begin = null;
        mark.setAttribute("width", 0);
        if (width < 8)
            pick(scale.at(x), scale.near);
        else
            zoom(scale.at(x), scale.at(x + width));
    });
}

/* Shows the picture, and a tip where the pointer is. What it returns moves the line. */
function follow(svg, element, scale, tipAt, pick, zoom) {
    const line = () => drawn("line", {y1: EDGE.top, y2: scale.lanesEnd, x1: -9, x2: -9, stroke: colour("cursor")});
    const cursor = line(), hover = line();
    cursor.setAttribute("stroke-width", 2);
    hover.setAttribute("stroke-dasharray", "3 3");
    svg.append(hover, cursor);
    element.replaceChildren(svg);
    let tip = null;
    const put = (which, x) => ["x1", "x2"].forEach(name => which.setAttribute(name, x));
    svg.addEventListener("pointermove", event => {
        const x = event.clientX - element.getBoundingClientRect().left;
        if (tip)
            tip.remove();
        tip = tipAt(Math.max(EDGE.left, Math.min(scale.right, x)));
        element.append(tip);
        tip.style.top = EDGE.top + "px";
        tip.style.left = Math.max(0, x + 16 + tip.offsetWidth <= scale.width ? x + 16 : x - 16 - tip.offsetWidth) + "px";
        put(hover, Math.max(EDGE.left, Math.min(scale.right, x)));
    });
    svg.addEventListener("pointerleave", () => {
        if (tip)
            tip.remove();
        put(hover, -9);
    });
    dragged(svg, element, scale, pick, zoom);
    return ns => put(cursor, scale.x(ns));
}

function drawChart(element, view, pick, zoom) {
    const scale = scales(view, element.clientWidth);
    const svg = drawn("svg", {viewBox: `0 0 ${scale.width} ${scale.height}`, height: scale.height, role: "img",
                              "aria-label": "Memory of the card over time, " + view.name});
    drawGrid(svg, view, scale);
    drawAreas(svg, view, scale);
    drawWanted(svg, view, scale);
    if (view.total)
        drawCard(svg, view, scale);
    drawLanes(svg, view, scale);
    drawTimes(svg, view, scale);
    return follow(svg, element, scale, x => tipOf(view, scale, x), pick, zoom);
}
