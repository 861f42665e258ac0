/* who.js: whose live memory it was: over time, by phase or by Python function, and at the peak and the out-of-memory
 * as a flame graph, where each box is as wide as its bytes. What is not told by name is the rest. */

const WHO_MOST = 7, OWN_COLOURS = 3;

/* The name of a colour. A phase that phases.def has got one there; what has another name, and a function without a phase, has
 * one by that name alone: so it is the same in each run and each picture. */
function colourOf(name) {
    const known = PHASES.indexOf(name);
    if (known >= 0)
        return "phase" + known;
    return name ? "own" + [...name].reduce((sum, c) => (31 * sum + c.codePointAt(0)) % 997, 0) % OWN_COLOURS : "rest";
}

/* Of several groups with one colour each is paler than the one before. */
function paler(list) {
    return list.map((group, i) => ({...group, opacity: Math.max(0.25, 0.6 ** list.slice(0, i).filter(other => other.colour === group.colour).length)}));
}

function swatch(colour, opacity = 1) {
    const element = make("i", "sw");
    Object.assign(element.style, {background: `var(--${colour})`, opacity});
    return element;
}

function functionName(site) {
    if (site.function === "<module>")
        return "the top level of " + site.source;
    return site.function + (site.source ? " (" + site.source + ")" : "");
}

/* For each point of the list how much each group had, the group that ever had most first. */
function whoSeries(view, byFunction) {
    const points = view.device.who_over_time, groups = new Map();
    points.forEach((point, i) => point.sites.forEach((number, j) => {
        const site = view.process.sites[number], name = byFunction ? functionName(site) : site.phase;
        if (!name)
            return;
        if (!groups.has(name))
            groups.set(name, {colour: colourOf(site.phase || name), values: points.map(() => 0)});
        groups.get(name).values[i] += point.bytes[j];
    }));
    const list = [...groups].map(([name, group]) => ({name, ...group, most: Math.max(...group.values)}));
    list.sort((a, b) => b.most - a.most);
    list.splice(WHO_MOST);
    const rest = points.map((point, i) => Math.max(0, point.live_bytes - list.reduce((sum, g) => sum + g.values[i], 0)));
    return {times: points.map(point => point.time_ns),
            list: paler([...list, {name: "all else", values: rest, colour: "rest"}])};
}

/* Where it does not, all would be one grey area by phase. */
function knowsPhases(view) {
    return view.device.who_over_time.some(point => point.sites.some(number => view.process.sites[number].phase));
}

/* By the same times as the timeline above. */
function drawWho(view) {
    const by = byId("who-by").selectedIndex === 1, chart = byId("who-chart");
    view.who = whoSeries(view, by);
    byId("who").hidden = view.who.times.length === 0;
    if (byId("who").hidden)
        return;
    const sums = view.who.times.map((ns, i) => view.who.list.reduce((sum, group) => sum + group.values[i], 0));
    const own = {...view, top: Math.max(1, ...sums) * 1.05, total: 0, plot: 150, bands: [], events: []};
    const scale = scales(own, chart.clientWidth);
    const svg = drawn("svg", {viewBox: `0 0 ${scale.width} ${scale.height}`, height: scale.height, role: "img",
                              "aria-label": "Whose live memory it was over time"});
    let low = sums.map(() => 0);
    drawGrid(svg, own, scale);
    for (const group of view.who.list) {
        const below = low, high = group.values.map((value, i) => below[i] + value);
        svg.append(drawn("path", {d: areaPath(view.who.times, own, scale, low, high), fill: colour(group.colour), "fill-opacity": group.opacity}));
        low = high;
    }
    drawTimes(svg, own, scale);
    const cursor = drawn("line", {y1: EDGE.top, y2: scale.lanesEnd, stroke: colour("cursor"), "stroke-width": 2});
    svg.append(cursor);
    svg.addEventListener("click", event => pick(scale.at(event.clientX - chart.getBoundingClientRect().left)));
    chart.replaceChildren(svg);
    view.who.move = ns => ["x1", "x2"].forEach(name => cursor.setAttribute(name, scale.x(ns)));
    byId("flames").replaceChildren(...flames(view));
}

/* The legend says how much each had at that time. */
function showWho(view, ns) {
    if (view.who.times.length === 0)
        return;
    const at = view.who.times.findLastIndex(time => time <= ns);
    view.who.move(ns);
    fillLegend("who-legend", view.who.list.filter(group => group.name !== "all else" || Math.max(...group.values) > 0).map(group =>
        [swatch(group.colour, group.opacity), group.name + (at >= 0 && group.values[at] > 0 ? ": " + bytes(group.values[at]) : "")]));
}

/* ---- flame graphs ---- */

function flameNodeOf(name, site) {
    return {name, phase: site && site.phase, bytes: 0, children: new Map()};
}

/* Below the node each function that was called on the way to the owner of so many bytes. */
function grow(node, sites, value) {
    node.bytes += value;
    if (sites.length === 0)
        return;
    const [site, ...inner] = sites;
    if (!node.children.has(site))
        node.children.set(site, flameNodeOf(functionName(site), site));
    grow(node.children.get(site), inner, value);
}

/* A phase is told where it begins. What would be too narrow to be seen would only make the picture higher. */
function flameNode(view, node, outer, least = node.bytes / 500) {
    const begins = node.phase && node.phase !== outer;
    const text = (begins ? node.phase + ": " : "") + node.name + ": " + bytes(node.bytes);
    const name = make("div", "name", text), box = make("div", "node", name);
    box.style.flexGrow = node.bytes;
    name.title = text;
    name.style.setProperty("--tint", "var(--" + (outer === undefined ? "job" : colourOf(node.phase)) + ")");
    const children = [...node.children.values()].filter(child => child.bytes >= least).sort((a, b) => b.bytes - a.bytes);
    if (children.length > 0) {
        const own = make("div");
        own.style.flexGrow = node.bytes - children.reduce((sum, child) => sum + child.bytes, 0);
        box.append(make("div", "", ...children.map(child => flameNode(view, child, node.phase || null, least)), own));
    }
    return box;
}

function flames(view) {
    const list = [], sites = view.process.sites;
    for (const [key, when] of [["at_peak", "at the peak"], ["at_oom", "at the out-of-memory"]]) {
        const owners = view.device["owners_" + key], root = flameNodeOf("live " + when);
        if (owners.list.length === 0)
            continue;
        for (const stack of view.device["calls_" + key])
            grow(root, stack.sites.map(number => sites[number]), stack.bytes);
        const rest = flameNodeOf("smaller ones, or without a name");
        rest.bytes = owners.live_bytes - root.bytes;
        if (rest.bytes > 0) {
            root.bytes += rest.bytes;
            root.children.set(rest, rest);
        }
        list.push(make("h3", "", "Whose it was " + when + ": Python functions, each below the one that called it"),
                  make("div", "flame", flameNode(view, root)));
    }
    return list;
}
