"use strict";
// Values that JSON lacks are strings: unknown (nan) and infinity.
const LACKING = { nan: null, inf: Infinity, "-inf": -Infinity };
const revive = (key, value) => (Object.hasOwn(LACKING, value) ? LACKING[value] : value);
const DATA = JSON.parse(document.getElementById("data").textContent, revive);
// Names, letters, marks and dashes of types, representations and series are those of the library.
const LOOKS = DATA.looks;
const TYPES = Object.keys(LOOKS.types);
const KINDS = Object.fromEntries(TYPES.map((type) => [type[0], type]));
const REPRESENTATIONS = Object.keys(LOOKS.representations);
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Elements are built from nodes, never from HTML: text from a user's file stays text.
function grow(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
const html = (tag, attributes, ...children) => grow(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  grow(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const HUGE = 1e300;
const signed = (text) => text.replace(/-/g, "−");
function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) > HUGE) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return signed(String(value));
  const size = Math.abs(value);
  if (size < 5e-4) return value > 0 ? "<0.001" : ">−0.001";
  if (size >= 1e6) return signed(value.toExponential(2));
  return signed(value.toFixed(size < 0.1 ? 3 : Math.max(0, digits - 1 - Math.max(0, Math.floor(Math.log10(size))))));
}
const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)} %`);
const words = (name) => String(name).replace(/_/g, " ");
const subset = (name) => DATA.subsets[name] || words(name);
// Long columns are packed: 32-bit floats, or indices into a list of strings, in base64.
function bytes(text) {
  const raw = atob(text), view = new DataView(new ArrayBuffer(raw.length));
  for (let i = 0; i < raw.length; i++) view.setUint8(i, raw.charCodeAt(i));
  return view;
}
function unpacked(column, count) {
  if (Array.isArray(column)) return column;
  const view = bytes(column.numbers || column.index), size = view.byteLength / count, values = Array(count);
  for (let i = 0; i < count; i++) {
    if (column.numbers) { const value = view.getFloat32(4 * i, true); values[i] = Number.isNaN(value) ? null : value; }
    else { const word = column.words[size === 2 ? view.getUint16(2 * i, true) : view.getUint32(4 * i, true)]; values[i] = column.flags ? word === "true" : word; }
  }
  return values;
}
// The rows of a table, packed or not.
function rowsOf(table) {
  if (!table) return [];
  if (!table.packed) return table.rows;
  const columns = table.columns.map((name) => unpacked(table.packed[name], table.count));
  return Array.from({ length: table.count }, (_, i) => columns.map((values) => values[i]));
}
const records = (table) => rowsOf(table).map((row) => Object.fromEntries(table.columns.map((c, i) => [c, row[i]])));
const unique = (values) => [...new Set(values)];
const mean = (values) => total(values) / values.length;
const least = (values, first = Infinity) => values.reduce((low, value) => (value < low ? value : low), first);
const most = (values, first = -Infinity) => values.reduce((high, value) => (value > high ? value : high), first);
const extent = (values) => [least(values), most(values)];
const total = (values) => values.reduce((sum, value) => sum + value, 0);
const counted = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

// A type has a shape and a letter in addition to its colour.
function shape(type, x, y, size) {
  const own = { class: `shape ${type}` };
  if (LOOKS.types[type].marker === "D") return svg("path", { ...own, d: `M${x} ${y - size * 1.2}L${x + size * 1.2} ${y}L${x} ${y + size * 1.2}L${x - size * 1.2} ${y}Z` });
  return svg("circle", { ...own, cx: x, cy: y, r: size });
}
function badge(type, text = type) {
  return html("span", { class: `badge ${type}` }, svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, shape(type, 7, 7, 4.6)), text);
}

// Series beyond types and representations: colour, dash and marker change together.
const look = (i) => ({ colour: `var(--series-${i % LOOKS.series.length})`, ...LOOKS.series[i % LOOKS.series.length] });
function markPath(name, x, y, s) {
  const t = s * 0.42;
  if (name === "s") return `M${x - s} ${y - s}h${2 * s}v${2 * s}h${-2 * s}Z`;
  if (name === "^") return `M${x} ${y - 1.2 * s}L${x + 1.15 * s} ${y + s}H${x - 1.15 * s}Z`;
  if (name === "v") return `M${x} ${y + 1.2 * s}L${x + 1.15 * s} ${y - s}H${x - 1.15 * s}Z`;
  if (name === "D") return `M${x} ${y - 1.3 * s}L${x + 1.3 * s} ${y}L${x} ${y + 1.3 * s}L${x - 1.3 * s} ${y}Z`;
  if (name === "P") return `M${x - t} ${y - 1.2 * s}h${2 * t}v${1.2 * s - t}h${1.2 * s - t}v${2 * t}h${t - 1.2 * s}v${1.2 * s - t}h${-2 * t}v${t - 1.2 * s}h${t - 1.2 * s}v${-2 * t}h${1.2 * s - t}Z`;
  if (name === "X") return `M${x} ${y - t}L${x + s - t} ${y - s}L${x + s} ${y - s + t}L${x + t} ${y}L${x + s} ${y + s - t}L${x + s - t} ${y + s}L${x} ${y + t}L${x - s + t} ${y + s}L${x - s} ${y + s - t}L${x - t} ${y}L${x - s} ${y - s + t}L${x - s + t} ${y - s}Z`;
  return `M${x - s} ${y}a${s} ${s} 0 1 0 ${2 * s} 0a${s} ${s} 0 1 0 ${-2 * s} 0`;
}
const marker = (name, x, y, size = 3.4, attributes = {}) => svg("path", { d: markPath(name, x, y, size), class: "dot", ...attributes });

// Scales and axes.
const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
// From zero, with more space for small values.
const rootScale = (high, from, to) => (value) => from + Math.sqrt(Math.max(0, value) / (high || 1)) * (to - from);
// Its ticks: zero, and from the largest down as many as are at least `gap` apart.
function rootTicks(high, place, gap) {
  const kept = [0];
  for (const value of [2, 1, 0.5, 0.2, 0.1, 0.05, 0.01]) if (value <= high && kept.every((other) => Math.abs(place(other) - place(value)) >= gap)) kept.push(value);
  return kept;
}
function ticks(low, high, count = 5) {
  const span = high - low || 1, raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => span / s <= count + 0.01) || power * 10;
  const result = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-6; k++) result.push(Number((k * step).toPrecision(12)));
  return result;
}
const brief = (value) => signed(String(Number(value.toPrecision(6))));
const short = (value) => (Math.abs(value) >= 1e6 ? `${brief(value / 1e6)}M` : Math.abs(value) >= 1e4 ? `${brief(value / 1e3)}k` : brief(value));
function canvas(host, width, height, label) {
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": label });
  host.replaceChildren(drawing);
  return drawing;
}
function axes(drawing, box, x, y, xTicks, yTicks, { xLabel, yLabel, xText = short, yText = short, under = 0 } = {}) {
  for (const t of yTicks) {
    drawing.append(svg("line", { class: "grid-line", x1: box.left, x2: box.right, y1: y(t), y2: y(t) }),
      svg("text", { x: box.left - 7, y: y(t) + 4, "text-anchor": "end" }, yText(t)));
  }
  for (const t of xTicks) drawing.append(svg("text", { x: x(t), y: box.bottom + 16, "text-anchor": "middle" }, xText(t)));
  drawing.append(svg("line", { class: "axis-line", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  if (xLabel) drawing.append(svg("text", { x: box.right, y: box.bottom + 32 + under, "text-anchor": "end" }, xLabel));
  if (yLabel) drawing.append(svg("text", { x: box.left - 7, y: box.top - 9, "text-anchor": "start" }, yLabel));
}
// On paper a chart is about two thirds as wide, so that its text has the size of the other text.
let paper = 1;
const widthOf = (host, least = 280) => Math.round(Math.max(least, host.clientWidth || 640) * paper);

// Elements with data-tip show it on hover or focus.
const tip = html("div", { id: "tip", role: "status", hidden: true });
document.body.append(tip);
function hint(text, x, y) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = `${Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, y + tip.offsetHeight + 8 > innerHeight ? y - tip.offsetHeight - 26 : y)}px`;
}
function explain(event) {
  const target = event.target.closest ? event.target.closest("[data-tip]") : null;
  if (!target) return hint("");
  const around = target.getBoundingClientRect();
  hint(target.dataset.tip, ...(event.type === "focusin" ? [around.right, around.bottom] : [event.clientX + 14, event.clientY + 16]));
}
for (const event of ["pointermove", "focusin"]) document.addEventListener(event, explain);
for (const event of ["pointerleave", "focusout", "scroll"]) document.addEventListener(event, () => { tip.hidden = true; }, true);

// In a focused chart the arrow keys move between elements with data-tip, unless the chart has its own keys.
document.addEventListener("keydown", (event) => {
  const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Enter: 0 }[event.key], drawing = event.target;
  if (move === undefined || event.defaultPrevented || !drawing.matches || !drawing.matches("svg.chart")) return;
  const marks = all("[data-tip]", drawing), before = marks.findIndex((mark) => mark.classList.contains("pointed"));
  if (!marks.length) return;
  event.preventDefault();
  if (!move) return before >= 0 && marks[before].dispatchEvent(new MouseEvent("click"));
  if (before >= 0) marks[before].classList.remove("pointed");
  const mark = marks[before < 0 ? 0 : Math.max(0, Math.min(marks.length - 1, before + move))], around = mark.getBoundingClientRect();
  mark.classList.add("pointed");
  hint(mark.dataset.tip, around.right + 4, around.bottom + 4);
});
document.addEventListener("focusout", (event) => { if (event.target.matches("svg.chart")) for (const mark of all(".pointed", event.target)) mark.classList.remove("pointed"); });

// Tables are downloaded as CSV. A text that a spreadsheet would interpret as a formula is quoted.
function csv(table) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return Math.abs(value) > HUGE ? (value > 0 ? "inf" : "-inf") : String(value);
    const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [table.columns, ...rowsOf(table)].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
function download(name, table) {
  const link = html("a", { href: URL.createObjectURL(new Blob([csv(table)], { type: "text/csv;charset=utf-8" })), download: `${name.replace(/[^\w.-]+/g, "_")}.csv` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const downloadButton = (name, label, table) => html("button", { type: "button", "data-table": label, onclick: () => download(name, table()) }, `${label}.csv`);

// Sorts any table by a column of its records; unknown values are last in both directions.
function sorted(rows, key, descending) {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [u, v] = [key(a), key(b)];
    if (u === null || u === undefined) return v === null || v === undefined ? 0 : 1;
    if (v === null || v === undefined) return -1;
    return sign * (typeof u === "string" ? u.localeCompare(v) : u - v);
  });
}

// Charts are redrawn when the width of the page changes.
const redraws = [];
let waiting = 0;
let lastWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === lastWidth) return;
  lastWidth = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(() => redraws.forEach((redraw) => redraw()), 120);
});
addEventListener("beforeprint", () => { paper = 0.64; redraws.forEach((redraw) => redraw()); });
addEventListener("afterprint", () => { paper = 1; redraws.forEach((redraw) => redraw()); });
function pressed(buttons, chosen) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(button === chosen));
}
