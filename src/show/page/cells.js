/* cells.js: two maps. The card as equal cells, of which it is known how many each has, and not which; and PyTorch's
 * blocks in the order of their addresses, as they were at an out-of-memory. */

function cellBytes(total) {
    let cell = MIB;
    while (total / cell > 400)
        cell *= 2;
    return cell;
}

/* Which part each cell belongs to. What has any bytes and no whole cell is told by the table. */
function cellsOf(parts, total, cell) {
    const cells = [];
    let sum = 0;
    for (const [key] of PARTS) {
        sum += parts[key] || 0;
        while ((cells.length + 0.5) * cell < sum && cells.length * cell < total)
            cells.push(key);
    }
    while (cells.length * cell < total)
        cells.push(parts.free === null ? "unread" : "free");
    return cells;
}

/* A request may be larger than any picture: of what it lacked no more than one card's worth is drawn. */
function lackSays(moment, total) {
    const lacking = lackingOf(moment);
    if (!wantedOf(moment))
        return "";
    return lacking === 0 ? "; " + (moment.event.refusal.cause === "rounded" ? WHY.rounded : "enough was free and idle, in pieces") :
        "; red: lacking, " + bytes(lacking) + (lacking > total ? ", of which one card's worth is drawn" : "");
}

/* The part that was lacking follows the card. */
function drawCells(view, parts, moment) {
    const lacking = lackingOf(moment), total = view.total || view.top, cell = cellBytes(total), cells = cellsOf(parts, total, cell);
    cells.push(...Array(Math.ceil(Math.min(lacking, total) / cell)).fill("refused"));
    const size = 15, width = byId("cells").clientWidth, columns = Math.max(8, Math.floor(width / size));
    const {canvas, draw} = canvasOf("cells", Math.ceil(cells.length / columns) * size);
    cells.forEach((key, i) => {
        const x = i % columns * size, y = Math.floor(i / columns) * size;
        draw.fillStyle = colour(key === "unread" ? "others" : key);
        draw.globalAlpha = key === "unread" ? 0.25 : 1;
        draw.fillRect(x, y, size - 3, size - 3);
        draw.strokeStyle = colour("free-line");
        if (key === "free")
            draw.strokeRect(x + 0.5, y + 0.5, size - 4, size - 4);
    });
    canvas.setAttribute("aria-label", PARTS.filter(([key]) => parts[key] !== null).map(([key, label]) => label + " " + bytes(parts[key])).join(", "));
    byId("cells-title").textContent = "Each square is " + bytes(cell) + " of the card" + lackSays(moment, total) + ". The squares show how much each has, not where it lies.";
}

/* ---- blocks ---- */

/* Runs of one state, in a row without the gaps between segments. Entries are [live, pending, free,
 * blocks] in bytes; one that the command has merged has several. */
function runsOf(map) {
    const runs = [];
    let at = 0;
    for (const segment of map.segments) {
        let inside = 0;
        for (const entry of segment.entries)
            ["live", "pending", "hole"].forEach((state, i) => {
                if (entry[i] === 0)
                    return;
                runs.push({state, at, bytes: entry[i], blocks: entry[3], segment, first: inside === 0});
                at += entry[i];
                inside += entry[i];
            });
        segment.bytes = inside;
    }
    return {runs, total: at};
}

function largestHole(runs) {
    return runs.reduce((most, run) => run.state === "hole" && (!most || run.bytes > most.bytes) ? run : most, null);
}

function mapRows(width, total) {
    const rows = Math.max(6, Math.min(width < 600 ? 44 : 28, Math.ceil(total / (2 * MIB))));
    return {rows, rowBytes: Math.max(1, total / rows), high: 14, gap: 4};
}

/* The pieces of a run, one for each row that it touches: piece(x, y, width). */
function eachPiece(grid, width, at, length, piece) {
    const end = at + length;
    for (let row = Math.floor(at / grid.rowBytes); at < end; row++) {
        const stop = Math.min(end, (row + 1) * grid.rowBytes);
        if (stop > at)
            piece((at - row * grid.rowBytes) / grid.rowBytes * width, row * (grid.high + grid.gap),
                  (stop - at) / grid.rowBytes * width);
        at = Math.max(stop, (row + 1) * grid.rowBytes);
    }
}

function drawRun(draw, grid, width, run, colours) {
    eachPiece(grid, width, run.at, run.bytes, (x, y, w) => {
        draw.fillStyle = colours[run.state];
        draw.fillRect(x, y + 1, Math.max(w - (w > 3 ? 1 : 0), 0.4), grid.high - 1);
    });
    if (run.first) {
        draw.fillStyle = colours.ink;
        draw.fillRect(run.at % grid.rowBytes / grid.rowBytes * width, Math.floor(run.at / grid.rowBytes) * (grid.high + grid.gap), 1.5, grid.high);
    }
}

function outline(draw, grid, width, run, stroke) {
    draw.strokeStyle = stroke;
    draw.lineWidth = 2;
    eachPiece(grid, width, run.at, run.bytes, (x, y, w) => draw.strokeRect(x + 1, y + 1, Math.max(w - 2, 1), grid.high - 1));
}

function sayRun(run) {
    const what = {live: "live", pending: "freed, but another stream may still use it", hole: "free within the segment"}[run.state];
    const several = run.blocks > 1 ? " in one of " + count(run.blocks) + " blocks that are drawn together" : "";
    const segment = run.segment;
    const where = segment.segments > 1 ? "One of " + count(segment.segments) + " small segments from " + segment.address + " on" :
        "Segment at " + segment.address + ": " + bytes(segment.bytes) + (segment.expandable ? ", expandable" : "") + ", stream " + segment.stream;
    return bytes(run.bytes) + " " + what + several + ". " + where;
}

function noteOf(map, largest, compact) {
    const hole = largest ? "the largest hole is " + bytes(largest.bytes) : "there is no hole";
    const ends = compact ? " In mode compact holes are addresses without memory." : "";
    return "At " + exactClock(map.time_ns) + " there was no memory for " + bytes(map.request_bytes) + ": " +
        bytes(map.free_bytes) + " of the card were free, and " + hole + "." + ends +
        " Left to right and down: PyTorch's segments in the order of their addresses; a dark line is where one begins.";
}

/* The request, as long as it would be above; of a large one the beginning. */
function drawRequest(draw, grid, width, top, request, most) {
    draw.fillStyle = colour("quiet");
    draw.font = "12px system-ui, sans-serif";
    const shown = Math.min(request, most * grid.rowBytes);
    draw.fillText("wanted: " + bytes(request) + ", to scale" + (shown < request ? "; the beginning of it:" : ":"), 0, top + 18);
    draw.translate(0, top + 26);
    draw.fillStyle = colour("refused");
    eachPiece(grid, width, 0, shown, (x, y, w) => draw.fillRect(x, y + 1, w, grid.high - 1));
    draw.translate(0, -top - 26);
}

/* Draws the map and lets a pointer ask what lies where. */
function drawBlocks(view) {
    const map = view.map;
    byId("map").hidden = byId("blocks-legend").hidden = !map;
    byId("blocks").hidden = !map && !view.events.some(e => e.refusal && e.refusal.reported && !e.refusal.went_on);
    if (!map) {
        byId("blocks-note").replaceChildren("Single blocks were not recorded: ", make("code", "", ...words("vramgc run --snapshot-on-oom")),
                                            " keeps them at an out-of-memory.");
        byId("blocks-hover").textContent = "";
        return;
    }
    const {runs, total} = runsOf(map), largest = largestHole(runs), grid = mapRows(byId("map").clientWidth, total);
    const high = grid.rows * (grid.high + grid.gap), more = Math.min(8, Math.ceil(map.request_bytes / grid.rowBytes));
    const {canvas, draw, width} = canvasOf("map", high + 26 + more * (grid.high + grid.gap));
    const colours = {live: colour("live"), pending: colour("pending"), hole: colour("idle"), ink: colour("cursor")};
    runs.forEach(run => drawRun(draw, grid, width, run, colours));
    if (largest)
        outline(draw, grid, width, largest, colours.ink);
    drawRequest(draw, grid, width, high, map.request_bytes, more);
    const note = noteOf(map, largest, view.process.mode === "compact");
    byId("blocks-note").textContent = note;
    byId("blocks-hover").textContent = "Tap or point at a block: its size stands here.";
    canvas.setAttribute("aria-label", note);
    canvas.onpointermove = event => {
        const box = canvas.getBoundingClientRect();
        const row = Math.floor((event.clientY - box.top) / (grid.high + grid.gap));
        const at = (row + (event.clientX - box.left) / width) * grid.rowBytes;
        const run = runs.find(run => at >= run.at && at < run.at + run.bytes);
        byId("blocks-hover").textContent = run ? sayRun(run) : "\u00a0";
    };
}
