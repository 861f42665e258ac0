/* who.js: whose live memory it was: over time, by phase or by Python function, and at the peak and the out-of-memory
 * as a flame graph, where each box is as wide as its bytes. What is not told by name is the rest. */

const WHO_MOST = 7;

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
            groups.set(name, points.map(() => 0));
        groups.get(name)[i] += point.bytes[j];
    }));
    const list = [...groups].map(([name, values]) => ({name, values, most: Math.max(...values)}));
    list.sort((a, b) => b.most - a.most);
    list.splice(WHO_MOST);
    const rest = points.map((point, i) => Math.max(0, point.live_bytes - list.reduce((sum, g) => sum + g.values[i], 0)));
    return {times: points.map(point => point.time_ns),
            list: [...list.map((g, i) => ({...g, colour: "w" + i})), {name: "all else", values: rest, colour: "wr"}]};
}

function phaseColour(view, name) {
    view.phases = view.phases || whoSeries(view, false).list;
    const group = view.phases.find(group => group.name === name);
    return group ? group.colour : "wr";
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
        svg.append(drawn("path", {d: areaPath(view.who.times, own, scale, low, high), fill: colour(group.colour)}));
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
        ["sw " + group.colour, group.name + (at >= 0 && group.values[at] > 0 ? ": " + bytes(group.values[at]) : "")]));
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

/* A phase is told where it begins. */
function flameNode(view, node, outer) {
    const begins = node.phase && node.phase !== outer;
    const text = (begins ? node.phase + ": " : "") + node.name + ": " + bytes(node.bytes);
    const name = make("div", "name", text), box = make("div", "node", name);
    box.style.flexGrow = node.bytes;
    name.title = text;
    name.style.setProperty("--tint", "var(--" + (outer === undefined ? "job" : phaseColour(view, node.phase)) + ")");
    const children = [...node.children.values()].sort((a, b) => b.bytes - a.bytes);
    if (children.length > 0)
        box.append(make("div", "", ...children.map(child => flameNode(view, child, node.phase || null))));
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
