/* who.js: whose live memory it was over time, by phase or by Python function. A function without a phase stands for itself; what is
 * not told by name is the rest. */

/* So many are drawn, and more where these have less than that part of all; a legend names so many. */
const WHO_LEAST = 7, WHO_PART = 0.95, WHO_TOLD = 12, OWN_COLOURS = 7;

/* The name of a colour. A phase that phases.def has got one there; what has another name, and a function without a phase, has
 * one by that name alone: so it is the same in each run and each picture. */
function colourOf(name) {
    const known = PHASES.indexOf(name);
    if (known >= 0)
        return "phase" + known;
    return name ? "own" + [...name].reduce((sum, c) => (31 * sum + c.codePointAt(0)) % 997, 0) % OWN_COLOURS : "rest";
}

/* Of several groups with one colour the next is paler than the one before, three times. */
function paler(list) {
    const shade = i => list.slice(0, i).filter(other => other.colour === list[i].colour).length % 3;
    return list.map((group, i) => ({...group, opacity: [1, 0.65, 0.4][shade(i)]}));
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

/* How much the group goes up and down for what it has. */
function unrest(group) {
    const moved = group.values.reduce((sum, value, i) => sum + Math.abs(value - (i > 0 ? group.values[i - 1] : 0)), 0);
    return moved / Math.max(1, group.values.reduce((sum, value) => sum + value, 0));
}

/* For each point of the timeline how much each group had. The steadiest is first, and lies below the others, which would lift it. */
function whoSeries(view, byFunction) {
    const times = view.samples.time_ns, owners = times.map((ns, i) => ownersAt(view, i)), groups = new Map();
    owners.forEach((list, i) => (list || []).forEach(([number, value]) => {
        const site = view.process.sites[number], name = !byFunction && site.phase || functionName(site);
        if (!groups.has(name))
            groups.set(name, {colour: colourOf(site.phase || name), values: times.map(() => 0)});
        groups.get(name).values[i] += value;
    }));
    const list = [...groups].map(([name, group]) => ({name, ...group, most: Math.max(...group.values)}));
    const sum = values => values.reduce((all, value) => all + value, 0), whole = sum(list.map(group => sum(group.values)));
    list.sort((a, b) => b.most - a.most);
    let drawnBytes = 0;
    const enough = Math.max(WHO_LEAST, list.findIndex(group => (drawnBytes += sum(group.values)) >= WHO_PART * whole) + 1);
    const seen = list.filter(group => group.most >= Math.max(...view.samples.allocated_bytes) / 100).length;
    const more = list.splice(Math.min(enough, seen)).length;
    list.sort((a, b) => unrest(a) - unrest(b));
    const rest = times.map((ns, i) => Math.max(0, view.samples.allocated_bytes[i] - list.reduce((sum, g) => sum + g.values[i], 0)));
    return {times, known: owners.map(list => list !== null), list: paler([...list, {name: "all else" + (more ? ", " + count(more) + (more === 1 ? " function" : " functions") + " among it" : ""), values: rest, colour: "rest"}])};
}

/* Where it does not, all would be one grey area by phase. */
function knowsPhases(view) {
    return view.device.who_over_time.some(point => point.sites.some(number => view.process.sites[number].phase));
}

/* By the same times as the timeline above. */
function drawWho(view) {
    const by = byId("who-by").selectedIndex === 1, chart = byId("who-chart");
    view.who = whoSeries(view, by);
    byId("who").hidden = view.device.who_over_time.length === 0;
    if (byId("who").hidden)
        return;
    const sums = view.who.times.map((ns, i) => view.who.list.reduce((sum, group) => sum + group.values[i], 0));
    const own = {...view, top: Math.max(1, ...sums) * 1.05, total: 0, plot: view.who.list.length > WHO_TOLD ? 260 : 150, bands: [], events: []};
    const scale = scales(own, chart.clientWidth);
    const svg = drawn("svg", {viewBox: `0 0 ${scale.width} ${scale.height}`, height: scale.height, role: "img",
                              "aria-label": "Whose live memory it was over time"});
    let low = sums.map(() => 0);
    drawGrid(svg, own, scale);
    for (const group of view.who.list) {
        const below = low, high = group.values.map((value, i) => below[i] + value);
        svg.append(drawn("path", {d: areaPath(view.who.times, view.end, scale, low, high), fill: colour(group.colour), "fill-opacity": group.opacity}));
        low = high;
    }
    drawMean(svg, own, scale, "cursor", view.samples.liveLow, view.samples.liveMean, sums);
    drawTimes(svg, own, scale);
    view.who.move = follow(svg, chart, scale, x => whoTip(view, sampleAt(view, scale.at(x))), pick, zoom);
    drawFlames(view);
}

/* Each one's part at that point of the timeline: swatch, name, value. */
function whoAt(view, at) {
    return view.who.list.map(group => [swatch(group.colour, group.opacity),
                                       group.colour === "rest" && !view.who.known[at] ? "not known of this moment" : group.name,
                                       at < 0 ? 0 : group.values[at]]);
}

/* Those that have most, in the order of the picture, and all others as one. */
function mostOf(entries) {
    const ranks = entries.map(entry => entry[2]).sort((a, b) => b - a), least = ranks[WHO_TOLD - 1] || 0;
    const told = entries.filter(entry => entry[2] >= least), rest = entries.filter(entry => entry[2] < least);
    const sum = rest.reduce((all, entry) => all + entry[2], 0);
    return rest.length > 1 ? [...told, [swatch("rest", 0), rest.length + " more, each smaller", sum]] : entries;
}

function whoTip(view, at) {
    const rows = mostOf(whoAt(view, at).filter(entry => entry[2] > 0))
        .map(([sign, name, value]) => make("tr", "", make("td", "t wrap", sign, name), make("td", "", bytesOf(value, view.top))));
    return make("div", "tip", make("b", "", at < 0 ? "nothing yet" : exactClock(view.samples.time_ns[at])), make("table", "", ...rows));
}

/* The legend says how much each had at that time; what lies in RAM is live, too. */
function showWho(view, ns) {
    if (byId("who").hidden)
        return;
    const at = sampleAt(view, ns), live = at < 0 ? 0 : view.samples.allocated_bytes[at];
    const spilled = view.device.spilled_bytes.peak > 0 && at >= 0 ? live - partsOfSample(view, at).live : 0;
    view.who.move(ns);
    byId("who-when").textContent = "at " + exactClock(ns) + ": " + bytesOf(live, view.top) + (spilled > 0 ? ", of which in RAM " + bytesOf(spilled, view.top) : "");
    fillLegend("who-legend", mostOf(whoAt(view, at).filter(([, , value], i) => value > 0 || view.who.list[i].most > 0))
        .map(([sign, name, value]) => [sign, name + (value > 0 ? ": " + bytesOf(value, view.top) : "")])
        .concat(hasBand(view) ? [["sign mean of-all", "all of it, on average"]] : []));
}
