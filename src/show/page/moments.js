/* moments.js: what is known of each recorded moment: how the card was divided then, and what
 * happened. A view is one device of one process. It draws nothing. */

const PARTS = [
    ["live", "live"],
    ["idle", "idle"],
    ["code", "libraries here"],
    ["others", "others and the driver"],
    ["free", "free"],
];

const WHY = {
    unknown: "cause unknown", full: "not enough memory", fragmented: "fragmentation",
    rounded: "PyTorch takes 12 or 20 MiB at a time", driver: "free, and refused", limit: "PyTorch asked nobody",
    host: "the host's memory",
};

/* Nothing was returned. */
function observedOnly(view) {
    return view.process.mode === "observe";
}

function eventsOf(process, index) {
    const list = [];
    for (const mark of process.marks)
        list.push({kind: "mark", ns: mark.time_ns, text: mark.label || "mark"});
    for (const job of process.jobs.filter(job => job.device === index))
        list.push({
            kind: "job", ns: job.time_ns + job.took_ns, from: job.time_ns,
            text: "job " + job.number + " over, after " + duration(job.took_ns) + ": at most " + bytes(job.peak_live_bytes) +
                " live for " + bytes(job.peak_held_bytes) + " held, now " + bytes(job.live_bytes) + " live",
        });
    for (const a of process.actions.filter(a => a.device === index))
        list.push({
            kind: "reclaim", ns: a.time_ns, until: a.until_ns, hollow: a.observed,
            text: (a.observed ? "observed: " : "returned by ") + (a.kind || "?") + " (" + (a.reason || "?") + ")" +
                (a.observed ? ": " + bytes(a.before_bytes - a.after_bytes) : ": gave back " + bytes(a.net_bytes) + " in " + duration(a.took_ns)) +
                (a.until_ns - a.time_ns > SECOND ? ", until " + exactClock(a.until_ns) : "") +
                (a.function ? ", in " + a.function : ""),
        });
    for (const r of process.refusals.filter(r => r.device === index))
        list.push({
            kind: "refused", ns: r.time_ns, hollow: r.granted, refusal: r,
            text: bytes(r.request_bytes) + " refused: " + (WHY[r.cause] || r.cause || "?") +
                (r.granted ? "; granted later" : r.went_on ? "; the work went on" :
                r.reported ? "; out of memory" : "") +
                (r.site !== null ? ", in " + process.sites[r.site].function : ""),
        });
    return list;
}

/* The map is of the latest out-of-memory: of the refusal that it came of, where there was one. */
function addMap(events, map) {
    const last = events.findLast(e => e.refusal && e.refusal.reported && e.ns <= map.time_ns &&
        e.refusal.request_bytes === map.request_bytes);
    const says = "; its blocks are shown below";
    if (last)
        Object.assign(last, {map: Object.assign(map, {time_ns: last.ns}), text: last.text + says});
    else
        events.push({kind: "refused", ns: map.time_ns, map, text: "out of memory: " + bytes(map.request_bytes) + " wanted" + says});
}

/* A request is drawn above what was in use; of a request that no card has room for, the beginning. */
function topOf(total, refusals) {
    const wanted = [...refusals.values()].map(r => r.total_bytes - r.free_bytes + r.request_bytes);
    return Math.max(total, Math.min(1.25 * total, ...[Math.max(0, ...wanted)]));
}

/* null: not known. */
function bytesByPhase(view, i) {
    const owners = ownersAt(view, i), bytes = new Map();
    for (const [number, value] of owners || []) {
        const phase = view.process.sites[number].phase;
        if (phase && value > 0)
            bytes.set(phase, (bytes.get(phase) || 0) + value);
    }
    return owners && bytes;
}

/* The phase whose live memory changed most since the point before, of those that have some; where none changed, the same as
 * then. So the lane names nobody to whom chart and legend give nothing at that moment. "": none. */
function phaseOf(now, before, last) {
    const change = name => Math.abs(now.get(name) - (before.get(name) || 0));
    const most = [...now.keys()].reduce((a, b) => change(b) > (a ? change(a) : 0) ? b : a, "");
    return most || (now.has(last) ? last : "");
}

/* From one point until the next, but for long rests. */
function bandsOf(view) {
    const looks = view.device.who_over_time, times = view.samples.time_ns.filter(ns => ns < view.end), bands = [];
    const step = looks.reduce((least, p, i) => i > 0 ? Math.min(least, p.time_ns - looks[i - 1].time_ns) : least, view.end);
    let before = new Map(), phase = "";
    times.forEach((from, i) => {
        const now = bytesByPhase(view, i), last = bands[bands.length - 1];
        const until = Math.min(i + 1 < times.length ? times[i + 1] : view.end, from + 2 * step);
        if (now === null)
            return;
        phase = phaseOf(now, before, phase);
        before = now;
        if (last && last.name === phase && last.until === from)
            last.until = until;
        else if (phase)
            bands.push({name: phase, from, until});
    });
    return bands;
}

/* Memory that Python frees as it ends is no work: the pictures end where it begins. null: not known, or before the first look at
 * the card, which is all that there is of so short a run. */
function endingOf(process, times) {
    return process.end.how === "running" || times[0] > process.python_ended_ns ? null : process.python_ended_ns;
}

function endsAt(view, ns) {
    return view.ending !== null && ns > view.ending;
}

/* The later of two points becomes part of the one before, as in the file of a longer run; highest figures are there already. */
function joinPoint(point, next) {
    Object.assign(point, {heldLow: Math.min(point.heldLow, next.heldLow), liveLow: Math.min(point.liveLow, next.liveLow),
                          sum: point.sum + next.sum, ms: point.ms + next.ms});
}

/* Whose memory it was is kept of fewer moments than how much: of the highest among several looks. All these looks tell the
 * highest figures here, as the file does in a longer run: so the timeline and whose it was say the same. The refusals' own
 * figures stay as they are, and so does nothing. */
function samplesOf(device, refusals) {
    const s = device.samples, looks = device.who_over_time;
    const points = s.time_ns.map((ns, i) => ({
        ns, held: s.held_bytes[i], live: s.allocated_bytes[i], others: s.others_bytes[i],
        heldLow: s.held_low_bytes[i], liveLow: s.live_low_bytes[i], sum: s.live_ms_sum_kib[i] * KIB, ms: s.ms[i],
    }));
    points.forEach((p, i) => { /* a refusal is of one moment: what came until the next look is not told else */
        if (refusals.has(p.ns) && i + 1 < points.length)
            Object.assign(p, {heldLow: Math.min(p.heldLow, points[i + 1].heldLow), liveLow: Math.min(p.liveLow, points[i + 1].liveLow)});
    });
    looks.forEach((look, k) => {
        const next = k + 1 < looks.length ? looks[k + 1].time_ns : Infinity;
        const some = points.filter(p => p.ns >= look.time_ns && p.ns < next && p.live > 0 && p.live <= look.live_bytes && !refusals.has(p.ns));
        const lower = some.findLastIndex(p => p.live < look.live_bytes), highest = some.findIndex(p => p.live === look.live_bytes);
        some.splice(lower < 0 ? 0 : Math.max(lower, highest) + 1);
        const most = some.reduce((a, b) => b.held > a.held ? b : a, {held: 0});
        some.forEach(p => Object.assign(p, {held: most.held, others: most.others, live: look.live_bytes, look: k}));
    });
    const kept = [];
    for (const point of points) {
        const last = kept[kept.length - 1];
        if (last && point.look !== undefined && point.look === last.look)
            joinPoint(last, point);
        else
            kept.push(point);
    }
    const column = name => kept.map(p => p[name]);
    return {time_ns: column("ns"), held_bytes: column("held"), allocated_bytes: column("live"), others_bytes: column("others"),
            heldLow: column("heldLow"), liveLow: column("liveLow"),
            liveMean: kept.map(p => Math.min(p.live, p.ms ? Math.max(p.liveLow, p.sum / p.ms) : p.liveLow))};
}

/* The least that each has in both looks. */
function inBoth(look, next) {
    const then = site => next.bytes[next.sites.indexOf(site)] || 0;
    return look.sites.map((site, j) => [site, Math.min(look.bytes[j], then(site))]).filter(pair => pair[1] > 0);
}

/* Who had what is live at that point of the timeline: [site, bytes] of each. What was noted a moment before or after, when
 * hardly more or less was live, will do; else what was there before and after. null: it is not known. */
function ownersAt(view, i) {
    const live = view.samples.allocated_bytes[i], device = view.device, looks = device.who_over_time;
    const noted = [device.owners_at_oom, device.owners_at_peak].map(o => [o.live_bytes, o.list.map(owner => [owner.site, owner.bytes])]);
    const at = looks.findLastIndex(look => look.time_ns <= view.samples.time_ns[i]), look = looks[at];
    if (look)
        noted.unshift([look.live_bytes, look.sites.map((site, j) => [site, look.bytes[j]])]);
    const fits = list => list.reduce((sum, pair) => sum + pair[1], 0) <= live;
    const found = noted.find(([bytes]) => bytes === live) || noted.find(([bytes, list]) => Math.abs(bytes - live) <= live / 50 && fits(list));
    const both = look && at + 1 < looks.length ? inBoth(look, looks[at + 1]) : [];
    return live === 0 ? [] : found ? found[1] : both.length > 0 && fits(both) ? both : null;
}

function viewOf(process, device, map) {
    const events = eventsOf(process, device.index);
    if (map)
        addMap(events, map);
    events.sort((a, b) => a.ns - b.ns);
    const refusals = new Map(events.filter(e => e.refusal && hasParts(e.refusal)).map(e => [e.ns, e.refusal]));
    const s = samplesOf(device, refusals), times = s.time_ns;
    const last = times.length > 0 ? times[times.length - 1] : 0, ending = endingOf(process, times);
    const moments = [...times.map((ns, i) => ({ns, sample: i})).filter(moment => !endsAt({ending}, moment.ns)),
                     ...events.map(event => ({ns: event.ns, event}))];
    moments.sort((a, b) => a.ns - b.ns);
    const highest = times.reduce((most, ns, i) => Math.max(most, s.held_bytes[i] + s.others_bytes[i]), 0);
    const view = {
        process, device, map, events, moments, samples: s, ending,
        total: device.total_bytes || 0,
        top: topOf(device.total_bytes || highest || 1, refusals),
        refusals, read: (s.others_bytes.findIndex(bytes => bytes > 0) + 1 || times.length + 1) - 1,
        end: ending || Math.max(process.elapsed_ns, last, ...events.slice(-1).map(event => event.ns), 1),
        name: "GPU " + device.index + ", pid " + process.pid,
    };
    return Object.assign(view, {bands: bandsOf(view), from: 0, until: view.end});
}

/* The part of the run that is drawn: never shorter than a few steps, and always within the run. */
function zoomTo(view, from, until) {
    const least = Math.min(view.end, Math.max(4 * view.device.samples.step_ns, SECOND / 1000));
    const span = Math.min(view.end, Math.max(least, until - from));
    view.from = Math.max(0, Math.min(view.end - span, (from + until - span) / 2));
    view.until = view.from + span;
}

/* At that moment of the run less, or more, of it is drawn. */
function zoomAt(view, ns, factor) {
    zoomTo(view, ns - (ns - view.from) * factor, ns + (view.until - ns) * factor);
}

/* The point of the timeline that is in force at a time; -1 before the first. */
function sampleAt(view, ns) {
    const times = view.samples.time_ns;
    let low = -1, high = times.length;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (times[middle] <= ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Others are known of an older moment than what is held: they give way, as in the text report. Before
 * the first reading of the card nothing is known of them, not even of the driver. */
function partsOfSample(view, i) {
    const refusal = view.refusals.get(view.samples.time_ns[i]);
    if (refusal)
        return partsOfRefusal(refusal);
    const s = view.samples, total = view.total;
    const held = s.held_bytes[i] || 0, live = Math.min(s.allocated_bytes[i] || 0, held);
    if (i < view.read)
        return {live, idle: held - live, code: 0, others: null, free: null};
    const others = total ? Math.min(s.others_bytes[i] || 0, Math.max(0, total - held)) : s.others_bytes[i] || 0;
    return {live, idle: held - live, code: 0, others, free: total ? Math.max(0, total - held - others) : null};
}

/* A refusal has its own figures, more exact than the timeline's; those of the host are not the
 * card's. */
function hasParts(r) {
    return r.cause !== "host" && r.total_bytes > 0 && r.held_bytes > 0;
}

function partsOfRefusal(r) {
    const free = Math.min(r.free_bytes, r.total_bytes), rest = r.total_bytes - free;
    const held = Math.min(r.held_bytes, rest), code = Math.min(r.other_bytes, held);
    const live = Math.min(r.allocated_bytes, held - code);
    return {live, idle: held - code - live, code, others: rest - held, free};
}

function partsOf(view, moment) {
    const r = moment.event && moment.event.refusal;
    if (r && hasParts(r))
        return partsOfRefusal(r);
    const i = sampleAt(view, moment.ns);
    return i < 0 ? {live: 0, idle: 0, code: 0, others: null, free: null} : partsOfSample(view, i);
}

/* The number of the moment that counts at a time: the nearest event if one is so near, else the point of the timeline
 * that is in force. Chart, table, slider and links all ask here, and so say the same. */
function momentAt(view, ns, near) {
    let best = 0, distance = near;
    view.moments.forEach((moment, i) => {
        if (moment.sample !== undefined && moment.ns <= ns)
            best = i;
    });
    view.moments.forEach((moment, i) => {
        if (moment.event && Math.abs(moment.ns - ns) <= distance) {
            best = i;
            distance = Math.abs(moment.ns - ns);
        }
    });
    return best;
}

/* The bytes wanted then, but refused. */
function wantedOf(moment) {
    const r = moment.event && moment.event.refusal;
    return r && hasParts(r) ? r.request_bytes : 0;
}

/* The work went on after each request of the card that was refused: that was no out-of-memory, as in the tables. */
function wentOn(view) {
    const refused = view.events.map(e => e.refusal).filter(r => r && !r.granted && r.cause !== "host" && r.reported);
    return refused.length > 0 && refused.every(r => r.went_on);
}

/* All that was neither free nor idle: as the verdict counts it. */
function lackingOf(moment) {
    const r = moment.event && moment.event.refusal;
    return r && hasParts(r) ? Math.max(0, r.request_bytes - r.free_bytes - r.idle_bytes) : 0;
}

/* Where most was held, and much of that live: what is held while the program ends is no peak. */
function peakOf(view) {
    const s = view.samples, before = s.time_ns.map((ns, i) => i).filter(i => !endsAt(view, s.time_ns[i]));
    const most = Math.max(0, ...before.map(i => s.held_bytes[i])), live = i => Math.min(s.held_bytes[i], s.allocated_bytes[i]);
    return before.filter(i => s.held_bytes[i] >= 0.98 * most).reduce((a, b) => a >= 0 && live(a) > live(b) ? a : b, -1);
}

/* Where a reader wants to begin: at the out-of-memory, or at the peak. */
function firstMoment(view) {
    const at = test => view.moments.findLastIndex(test);
    const map = at(m => m.event && m.event.map);
    const oom = at(m => m.event && m.event.refusal && m.event.refusal.reported);
    const refused = at(m => m.event && m.event.kind === "refused" && !m.event.hollow);
    const most = peakOf(view), peak = at(m => m.sample === most);
    return [map, oom, refused, peak, 0].find(i => i >= 0);
}
