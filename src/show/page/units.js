"use strict";
/* units.js: figures as people read them, and how elements are made. Text of the program reaches the
 * page by textContent only, never as markup. */

const KIB = 1024, MIB = KIB * 1024, GIB = MIB * 1024, SECOND = 1e9;

/* "5.73 GiB", "512 MiB": as the text report, but a digit more where there is room. */
function bytes(value, digits = 3) {
    const names = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (value >= 1000 && at + 1 < names.length) {
        value /= 1024;
        at++;
    }
    const whole = value >= 100 ? 3 : value >= 10 ? 2 : 1;
    return value.toFixed(at === 0 ? 0 : Math.max(0, digits - whole)) + " " + names[at];
}

/* Figures that stand below each other have one unit: the card's. */
function bytesOf(value, whole) {
    if (value === 0)
        return "0";
    const names = [" KiB", " MiB", " GiB", " TiB", " PiB"], at = names.findLastIndex((name, i) => i === 0 || whole >= 1024 ** (i + 1));
    const shown = value / 1024 ** (at + 1);
    return (shown < 0.005 ? "< 0.01" : shown.toFixed(2)) + names[at];
}

function count(value) {
    return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/* 3:55, 1:03:55; with as many digits behind the second as asked for, and cut there, as the text report does. */
function clock(ns, digits = 0) {
    const unit = 10 ** digits, all = Math.floor(ns / (SECOND / unit));
    const whole = Math.floor(all / unit), two = n => String(n).padStart(2, "0");
    const hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
    const head = hours > 0 ? hours + ":" + two(minutes) : String(minutes);
    const tail = digits > 0 ? "." + String(all % unit).padStart(digits, "0") : "";
    return head + ":" + two(whole % 60) + tail;
}

/* The moments of one view, all with the same number of digits. */
function exactClock(ns) {
    return clock(ns, ns < 3600 * SECOND ? 3 : 0);
}

function duration(ns) {
    return ns >= SECOND ? (ns / SECOND).toFixed(2) + " s" : (ns / 1e6).toFixed(1) + " ms";
}

/* An element: make("td", "t", "text") or with children. */
function make(name, className, ...children) {
    const element = document.createElement(name);
    if (className)
        element.className = className;
    element.append(...children.filter(child => child !== null));
    return element;
}

/* As html_tables.c does: no line ends within an option. */
function words(text) {
    return text.split(/(\s+)/).map(word => /^[(`'"]*-[-a-z]/.test(word) ? make("span", "opt", word) : word);
}

function drawn(name, attributes, text) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes)
        element.setAttribute(key, attributes[key]);
    if (text !== undefined)
        element.textContent = text;
    return element;
}

function byId(id) {
    return document.getElementById(id);
}

function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/* A canvas of so many pixels of the page, as sharp as the screen. */
function canvasOf(id, height) {
    const canvas = byId(id), width = canvas.clientWidth, sharp = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    canvas.style.height = height + "px";
    const draw = canvas.getContext("2d");
    draw.setTransform(sharp, 0, 0, sharp, 0, 0);
    draw.clearRect(0, 0, width, height);
    return {canvas, draw, width, height};
}
