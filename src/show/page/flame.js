/* flame.js: whose live memory was at the peak, and at the out-of-memory, as a flame graph: each box is as wide as its bytes,
 * below the function that called it. A click makes a box as wide as the picture. A box has as much text as is not cut off. */

function flameNodeOf(name, site, parent) {
    return {name, site, parent, phase: site && site.phase, bytes: 0, children: new Map()};
}

/* Below the node each function that was called on the way to the owner of so many bytes. */
function grow(node, sites, value) {
    node.bytes += value;
    if (sites.length === 0)
        return;
    const [site, ...inner] = sites;
    if (!node.children.has(site))
        node.children.set(site, flameNodeOf(functionName(site), site, node));
    grow(node.children.get(site), inner, value);
}

/* A caller is told without its phase where all that it called is of others. Returns those of who took the memory. */
function settlePhase(node) {
    const children = [...node.children.values()], has = new Set(children.flatMap(child => [...settlePhase(child)]));
    if (children.reduce((left, child) => left - child.bytes, node.bytes) > 0)
        has.add(node.phase);
    if (!has.has(node.phase) && !has.has(""))
        node.phase = "";
    return has;
}

function flameOf(view, key, when) {
    const owners = view.device["owners_" + key], root = flameNodeOf("live " + when);
    for (const stack of view.device["calls_" + key])
        grow(root, stack.sites.map(number => view.process.sites[number]), stack.bytes);
    settlePhase(root);
    const rest = flameNodeOf("smaller ones, or without a name", null, root);
    rest.bytes = owners.live_bytes - root.bytes;
    if (rest.bytes > 0) {
        root.bytes += rest.bytes;
        root.children.set(rest, rest);
    }
    return owners.list.length > 0 ? root : null;
}

/* A phase is told where it begins. */
function flameText(node, card) {
    const begins = node.phase && node.phase !== (node.parent && node.parent.phase);
    return (begins ? node.phase + ": " : "") + node.name + ": " + bytesOf(node.bytes, card);
}

/* The text of a box, and shorter ones for narrower boxes, with the size where that fits: "ResnetBlock2D" says more than "forward". */
function flameTexts(node, card) {
    const size = bytesOf(node.bytes, card), site = node.site, script = site && site.function === "<module>";
    const parts = site && !script ? site.function.split(".").filter(part => part !== "<locals>").slice(-2) : [];
    const names = site ? [node.name, script ? site.source : site.function, parts.join("."), ...parts].filter(name => name) : [];
    return [flameText(node, card), ...names.map(name => name + ": " + size), ...names, size];
}

function flameName(node, outer, flame) {
    const name = make("div", outer ? "name outer" : "name");
    name.title = flameText(node, flame.card);
    name.style.setProperty("--tint", "var(--" + (node.parent ? colourOf(node.phase || (node.site ? node.name : "")) : "live") + ")");
    name.addEventListener("click", () => { drawFlame(flame, node); sayFlame(flame, node); });
    name.addEventListener("pointerover", () => sayFlame(flame, node));
    return Object.assign(name, {node});
}

/* A call too narrow to be seen would only make the picture higher. */
function flameBox(node, flame, least) {
    const box = make("div", "node", flameName(node, false, flame));
    box.style.flexGrow = node.bytes;
    const children = [...node.children.values()].filter(child => child.bytes >= least).sort((a, b) => b.bytes - a.bytes);
    if (children.length > 0) {
        const own = make("div");
        own.style.flexGrow = node.bytes - children.reduce((sum, child) => sum + child.bytes, 0);
        box.append(make("div", "", ...children.map(child => flameBox(child, flame, least)), own));
    }
    return box;
}

function sayFlame(flame, node) {
    const share = 100 * node.bytes / flame.root.bytes;
    flame.says.textContent = flameText(node, flame.card) +
        (node.parent ? ", " + share.toFixed(1) + " % of " + bytesOf(flame.root.bytes, flame.card) : "");
}

/* The first text that fits each box; none, where none does. */
function fillFlame(flame) {
    const element = flame.element, ruler = document.createElement("canvas").getContext("2d"), names = [...element.querySelectorAll(".name")];
    const style = getComputedStyle(element);
    ruler.font = style.fontSize + " " + style.fontFamily;
    const widths = names.map(name => name.clientWidth - 10);
    const fits = width => text => 1.05 * ruler.measureText(text).width <= width;
    names.forEach((name, i) => { name.textContent = flameTexts(name.node, flame.card).find(fits(widths[i])) || ""; });
}

/* Those that called it are above it, as wide. */
function drawFlame(flame, node) {
    const outer = [];
    for (let up = node.parent; up; up = up.parent)
        outer.unshift(flameName(up, true, flame));
    flame.element.replaceChildren(...outer, flameBox(node, flame, node.bytes / 500));
    fillFlame(flame);
}

function drawFlames(view) {
    byId("flames").replaceChildren();
    const same = view.device.owners_at_peak.live_bytes === view.device.owners_at_oom.live_bytes;
    const then = wentOn(view) ? "at the refusal" : "at the out-of-memory";
    for (const [key, when] of [["at_peak", "at the peak"], ["at_oom", same ? then + ", its peak" : then]]) {
        const root = flameOf(view, key, when);
        if (!root || (same && key === "at_peak"))
            continue;
        const says = make("p", "quiet", "Tap or point at a box: its whole name and size stand here. A tap or a click makes it larger.");
        const flame = {root, card: view.top, element: make("div", "flame"), says};
        byId("flames").append(make("h3", "", "Whose it was " + when + ": Python functions, each below the one that called it"),
                              flame.element, says);
        drawFlame(flame, root);
    }
}
