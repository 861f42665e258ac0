/* page.js: brings the pictures to life: which view, which moment. Without it the page still has the
 * verdict and all tables. */

const state = {views: [], view: null, at: 0, moveCursor: null};

function fillLegend(id, entries) {
    byId(id).replaceChildren(...entries.map(([name, label]) => make("li", "", typeof name === "string" ? make("i", name) : name, label)));
}

/* A step has moments with more and with less. */
function hasBand(view) {
    return view.samples.liveLow.some((low, i) => view.samples.allocated_bytes[i] - low > view.top / 100);
}

function legendOf(view) {
    const coded = [...view.refusals.values()].some(r => r.other_bytes > 0);
    const parts = PARTS.filter(([key]) => key !== "code" || coded).map(([key, label]) => ["sw " + key, label]);
    const signs = LANES.filter(([kind]) => view.events.some(event => event.kind === kind));
    if (view.read > 0)
        parts.push(["sw unread", "others and free: not known yet"]);
    const phases = [...new Set(view.bands.map(band => band.name))].map(name => [swatch(colourOf(name), BAND_OPACITY), "phase: " + name]);
    if (hasBand(view))
        parts.splice(1, 0, [swatch("live", PALE), "live at times"], ["sign mean", "on average"]);
    return parts.concat(view.refusals.size ? [["sw refused", "wanted, but refused"]] : [], signs.map(([kind, name]) =>
        ["sign " + kind, kind === "reclaim" && observedOnly(view) ? "would return" : name]), phases);
}

function sumRow(key, label, value, view, className) {
    const total = view.total, share = total ? (100 * value / total).toFixed(1) + " %" : "";
    return make("tr", className, make("td", "t", key ? make("i", "sw " + key) : "", label), make("td", "", bytesOf(value, view.top)),
                make("td", "", share), make("td", "exact", count(value) + " B"));
}

function showSum(view, parts, wanted) {
    const rows = PARTS.filter(([key]) => parts[key] !== null && (key !== "code" || parts.code > 0))
        .map(([key, label]) => sumRow(key, label, parts[key], view, ""));
    if (parts.others === null)
        rows.push(make("tr", "", make("td", "t", make("i", "sw unread"), "others and free"), make("td", "", "not known yet"), make("td"),
                       make("td", "exact")));
    if (view.total)
        rows.push(sumRow("", "= the card", view.total, view, "total"));
    if (wanted)
        rows.push(make("tr", "", make("td", "t", make("i", "sw refused"), "wanted, but refused"), make("td", "", bytesOf(wanted, view.top)), make("td"),
                       make("td", "exact", count(wanted) + " B")));
    byId("sum").replaceChildren(make("tbody", "", ...rows));
}

/* A point has the most of each figure since the look before it, and of all looks until the next point. */
function saysOf(view, moment) {
    if (moment.event)
        return [make("i", "sign " + moment.event.kind), moment.event.text + (endsAt(view, moment.ns) ? "; Python had ended" : "")];
    const ns = view.samples.time_ns[moment.sample + 1] || moment.ns, next = exactClock(ns);
    const later = next !== exactClock(moment.ns) && !endsAt(view, ns);
    const s = view.samples, i = moment.sample, varies = s.allocated_bytes[i] - s.liveLow[i] > view.top / 100;
    const live = varies ? "; live on average " + bytesOf(s.liveMean[i], view.top) + ", at least " + bytesOf(s.liveLow[i], view.top) : "";
    return ["the highest figures around then" + live + (later ? "; the next are of " + next : "")];
}

/* Shows moment number i of the view. */
function show(i) {
    const view = state.view, moment = view.moments[i];
    state.at = i;
    if (moment.ns < view.from || Math.min(moment.ns, view.end) > view.until)
        zoom(moment.ns - (view.until - view.from) / 2, moment.ns + (view.until - view.from) / 2);
    const slider = byId("slider"), time = exactClock(moment.ns), parts = partsOf(view, moment);
    slider.value = 1e6 * Math.min(1, (moment.ns - view.from) / (view.until - view.from));
    slider.setAttribute("aria-valuetext", time);
    byId("when").textContent = "The card at " + time;
    byId("what").replaceChildren(...saysOf(view, moment));
    showSum(view, parts, wantedOf(moment));
    drawCells(view, parts, moment);
    state.moveCursor(moment.ns);
    showWho(view, moment.ns);
    byId("earlier").disabled = eventFrom(-1) < 0;
    byId("later").disabled = eventFrom(1) < 0;
}

/* The moment of the next event in that direction; -1: none. */
function eventFrom(direction) {
    const moments = state.view.moments;
    for (let i = state.at + direction; i >= 0 && i < moments.length; i += direction)
        if (moments[i].event)
            return i;
    return -1;
}

function pick(ns, near = 0) {
    show(momentAt(state.view, ns, near));
}

/* Draws that part of the run. */
function zoom(from, until) {
    zoomTo(state.view, from, until);
    const {ns} = state.view.moments[state.at], inside = ns >= state.view.from && Math.min(ns, state.view.end) <= state.view.until;
    state.at = inside ? state.at : momentAt(state.view, (state.view.from + state.view.until) / 2, 0);
    draw();
}

function zoomBy(factor) {
    zoomAt(state.view, state.view.moments[state.at].ns, factor);
    draw();
}

function showAll() {
    zoom(0, state.view.end);
}

/* A key goes to the next moment, however near that is; + and - show less or more of the run, 0 all of it. */
function stepByKey(event) {
    const last = state.view.moments.length - 1, zooms = {"+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), "0": showAll}[event.key];
    if (event.target.matches("select") || event.ctrlKey || event.metaKey || event.altKey)
        return;
    if (zooms) {
        event.preventDefault();
        zooms();
        return;
    }
    if (!event.target.matches("#slider, .chart"))
        return;
    const to = {ArrowLeft: state.at - 1, ArrowDown: state.at - 1, ArrowRight: state.at + 1, ArrowUp: state.at + 1,
                PageDown: state.at - 10, PageUp: state.at + 10, Home: 0, End: last}[event.key];
    if (to === undefined)
        return;
    event.preventDefault();
    show(Math.max(0, Math.min(last, to)));
}

function draw() {
    state.moveCursor = drawChart(byId("chart"), state.view, pick, zoom);
    drawWho(state.view);
    byId("closer").disabled = state.view.until - state.view.from <= 4 * state.view.device.samples.step_ns;
    byId("farther").disabled = byId("whole").disabled = state.view.until - state.view.from >= state.view.end;
    drawBlocks(state.view);
    show(state.at);
}

/* A short run has few steps, and looks coarse; in a long one much happens in a step. */
function saySteps(view) {
    const step = view.device.samples.step_ns, ms = Math.round(step / 1e6), band = hasBand(view);
    const says = band ? ": solid up to the least that was live in it, pale up to the most; the line in it is the average." :
        ", and as high as the highest moment in it.";
    byId("steps").hidden = ms < 5 || (view.end >= 100 * step && !band);
    byId("steps").replaceChildren("A step of the picture is " + (ms < 10000 ? count(ms) + " ms" : count(Math.round(ms / 1000)) + " s") + " long" + says);
}

function choose(number) {
    state.view = state.views[number];
    state.at = firstMoment(state.view);
    fillLegend("legend", legendOf(state.view));
    saySteps(state.view);
    byId("who-by").selectedIndex = knowsPhases(state.view) ? 0 : 1;
    draw();
}

function setUpChoice() {
    const select = byId("view");
    state.views.forEach((view, i) => select.append(new Option(view.name, i)));
    byId("choose").hidden = state.views.length < 2;
    select.addEventListener("change", () => choose(select.selectedIndex));
}

/* The one that the verdict is of: of its process the device that ran out of memory, else that which held most. */
function firstView() {
    const told = Number(byId("verdict").dataset.process);
    const order = view => [view.number === told, view.events.some(e => e.refusal && e.refusal.reported), view.device.held_bytes.peak];
    const isBefore = (a, b) => { const i = a.findIndex((value, i) => value !== b[i]); return i >= 0 && a[i] > b[i]; };
    return state.views.reduce((best, view, i) => isBefore(order(view), order(state.views[best])) ? i : best, 0);
}

/* A time in a table leads to that moment. */
function linkTimes() {
    for (const cell of document.querySelectorAll("td[data-ns]")) {
        const process = Number(cell.dataset.process), device = Number(cell.dataset.device);
        const button = make("button", "", cell.textContent);
        button.type = "button";
        button.addEventListener("click", () => {
            const number = state.views.findIndex(v => v.number === process && (isNaN(device) || v.device.index === device));
            if (number < 0)
                return;
            if (state.views[number] !== state.view) {
                byId("view").selectedIndex = number;
                choose(number);
            }
            pick(Number(cell.dataset.ns));
            byId("pictures").scrollIntoView({behavior: "smooth"});
        });
        cell.replaceChildren(button);
    }
}

/* Where a wide table does not fit, a row of it is a list, in which each cell says its head. */
function nameCells() {
    for (const table of document.querySelectorAll(".process table")) {
        const heads = [...table.querySelectorAll("th")].map(head => head.textContent);
        table.classList.toggle("wide", heads.length > 3);
        for (const row of heads.length > 3 ? table.tBodies[0].rows : [])
            [...row.cells].forEach((cell, i) => { cell.dataset.head = heads[i]; });
    }
}

/* A list that is soon read through is shown as a whole. */
function stackTables() {
    for (const table of document.querySelectorAll(".scroll > table")) {
        const box = table.parentElement;
        table.classList.remove("stacked");
        const stacked = table.matches(".wide") && table.scrollWidth > box.clientWidth;
        table.classList.toggle("stacked", stacked);
        box.classList.toggle("long", table.rows.length > (stacked ? 8 : 20));
    }
}

function setUpStacks() {
    nameCells();
    stackTables();
    addEventListener("resize", stackTables);
    addEventListener("toggle", stackTables, true); // what is folded has no width
}

function setUpCopy() {
    const button = byId("copy"), text = byId("text");
    button.hidden = false;
    button.addEventListener("click", () => {
        getSelection().selectAllChildren(text);
        if (document.execCommand("copy"))
            button.textContent = "copied";
    });
}

function start() {
    const read = id => JSON.parse(byId(id).textContent), report = read("report"), maps = read("maps");
    report.processes.forEach((process, number) => process.devices.forEach(device => {
        const map = maps.find(map => map.process === number && map.device === device.index);
        const view = viewOf(process, device, map);
        if (view.moments.length > 0)
            state.views.push(Object.assign(view, {number}));
    }));
    setUpCopy();
    setUpStacks();
    if (state.views.length === 0)
        return;
    byId("pictures").hidden = false;
    fillLegend("blocks-legend", [["sw live", "live"], ["sw pending", "freed, waits for a stream"],
                                 ["sw hole", "hole"], ["sw largest", "largest hole"]]);
    setUpChoice();
    byId("who-by").addEventListener("change", draw);
    linkTimes();
    byId("slider").addEventListener("input", event => {
        const span = state.view.until - state.view.from;
        pick(state.view.from + Number(event.target.value) / 1e6 * span, span / 200);
    });
    byId("pictures").addEventListener("keydown", stepByKey);
    byId("closer").addEventListener("click", () => zoomBy(0.5));
    byId("farther").addEventListener("click", () => zoomBy(2));
    byId("whole").addEventListener("click", showAll);
    byId("earlier").addEventListener("click", () => show(eventFrom(-1)));
    byId("later").addEventListener("click", () => show(eventFrom(1)));
    byId("view").selectedIndex = firstView();
    choose(byId("view").selectedIndex);
    let width = document.documentElement.clientWidth;
    addEventListener("resize", () => {
        if (document.documentElement.clientWidth !== width) {
            width = document.documentElement.clientWidth;
            draw();
        }
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

start();
