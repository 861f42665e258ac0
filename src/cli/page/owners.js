/* owners.js: who had the live memory, by the functions of the program that asked for it. Files of a
 * library that did not look have nothing of it, and then nothing is shown. */

const OWNERS = [
    ["owners_oom", "at the latest out-of-memory"],
    ["owners_peak", "near the peak of live memory"],
    ["owners_kept", "that stays from job to job"],
];

function whereOf(owner) {
    return [owner.function || "not known", owner.place && "(" + owner.place + ")"].filter(Boolean).join(" ");
}

function barOf(value, most) {
    const bar = make("i", "bar");
    bar.style.width = (most > 0 ? 100 * value / most : 0).toFixed(1) + "%";
    return make("td", "bars", bar);
}

function ownerRow(owner, of, kept) {
    const value = kept ? owner.kept_bytes : owner.bytes;
    return make("tr", "", make("td", "t wrap", whereOf(owner)), make("td", "t phase", owner.phase || ""), make("td", "", bytes(value)),
                make("td", "", of ? (100 * value / of).toFixed(1) + " %" : ""), barOf(value, of), make("td", "", count(owner.blocks)));
}

function ownersTable(owners, title, kept) {
    const heads = [["t", "function"], ["t phase", "phase"], ["", kept ? "stays" : "live"], ["", "share"], ["bars", ""], ["", "blocks"]];
    const head = make("thead", "", make("tr", "", ...heads.map(([name, text]) => make("th", name, text))));
    const rows = owners.owners.map(owner => ownerRow(owner, owners.bytes, kept));
    return make("div", "", make("h3", "", "Who had live memory " + title + ", " + exactClock(owners.time_ns)),
                make("div", "scroll", make("table", "", head, make("tbody", "", ...rows))));
}

function drawOwners(view) {
    const tables = OWNERS.filter(([name]) => view.device[name] && view.device[name].owners.length > 0)
        .map(([name, title]) => ownersTable(view.device[name], title, name === "owners_kept"));
    byId("owners").replaceChildren(...tables);
}
