"use strict";
// Building blocks of the plots and tables. Texts from the user's table reach the page only through
// `textContent`.

const data = JSON.parse(document.getElementById("data").textContent);
const isClass = data.kind === "class";
const byId = (id) => document.getElementById(id);

/** A new HTML element with these attributes and this text. */
function element(name, attributes = {}, text = null, parent = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

/** A new SVG shape in a drawing. */
function shape(name, attributes, parent, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(made, attributes);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

function set(made, attributes) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
}

// Words ------------------------------------------------------------------------------------------

const formats = {};

/** A number as text, with this many significant digits. */
function number(value, digits = 4) {
  if (value === null || value === undefined) return "—";
  const size = Math.abs(value);
  const notation = size !== 0 && (size >= 1e9 || size < 1e-4) ? "scientific" : "standard";
  const key = `${digits} ${notation}`;
  formats[key] ??= new Intl.NumberFormat("en", {
    maximumSignificantDigits: digits, useGrouping: "min2", notation,
  });
  return formats[key].format(value).replace("-", "−");
}

/** A function that formats the numbers of one column of a table, all with as many decimals. */
function aligned(values, digits) {
  const sizes = values.filter((value) => value !== null).map(Math.abs).sort((a, b) => a - b);
  const typicalSize = sizes.length ? sizes[Math.floor(0.9 * (sizes.length - 1))] : 1;
  const decimals = digits - 1 - Math.floor(Math.log10(typicalSize || 1));
  if (decimals < -5 || decimals > 8) return (value) => number(value, digits);
  const format = new Intl.NumberFormat("en", {
    minimumFractionDigits: Math.max(0, decimals), maximumFractionDigits: Math.max(0, decimals), useGrouping: "min2",
  });
  return (value) => (value === null ? "—" : format.format(value).replace("-", "−"));
}

const fixed = (value, digits) =>
  value === null || value === undefined ? "—" : value.toFixed(digits).replace("-", "−");
const percent = (share, digits = 0) => (share === null ? "—" : `${fixed(100 * share, digits)}\u00a0%`);
const FRACTIONS = { 0.25: "¼", 0.5: "½", 0.75: "¾" };

function alphaText(alpha) {
  const size = Math.abs(alpha);
  return (alpha < 0 ? "−" : "") + (FRACTIONS[size] ?? number(size, 3));
}

/** Step k of the slider: a value of α or, as null, the mixture of a stacked model. */
const isMixture = (k) => data.alphas[k] === null;
const tickText = (k) => (isMixture(k) ? "mixture" : alphaText(data.alphas[k]));
const powerText = (k) => (isMixture(k) ? "mixture" : `α = ${alphaText(data.alphas[k])}`);
const atPower = (k) => (isMixture(k) ? "for the mixture" : `at ${powerText(k)}`);

/** Days since 1970 as a date, with the time if there is one. */
function date(days) {
  if (days === null) return "—";
  const moment = new Date(Math.round(days * 86400) * 1000);
  if (Number.isNaN(moment.getTime())) return `${number(days)} days`;
  const [day, time] = moment.toISOString().split("T");
  return time.startsWith("00:00:00") ? day : `${day} ${time.slice(0, 5)}`;
}

/** A value of a column, or of a place on its grid, in words. */
function cell(column, value) {
  if (value === null || value === undefined) return "—";
  if (typeof value === "string") return value;
  return column.kind === "date" ? date(value) : number(value, 9);
}

const withUnit = (column) => (column.unit ? `${column.name} (${column.unit})` : column.name);

// Scales -----------------------------------------------------------------------------------------

/** Round numbers across a range. */
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1)
    found.push(at * step || 0); // not −0
  return found;
}

/** A map from values to pixels, with its ticks. */
function linear(low, high, from, to, words = (value) => number(value)) {
  const scale = (value) => from + ((value - low) / (high - low)) * (to - from);
  const count = Math.max(2, Math.abs(to - from) / (to < from ? 48 : 75));
  scale.ticks = ticks(low, high, count).map((at) => ({ at, text: words(at) }));
  scale.value = (pixel) => low + ((pixel - from) / (to - from)) * (high - low);
  return scale;
}

function logarithmic(low, high, from, to) {
  const inner = linear(Math.log(low), Math.log(high), from, to);
  const scale = (value) => inner(Math.log(value));
  const marks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1)
    for (const factor of [1, 2, 5]) marks.push(factor * 10 ** power);
  const inside = marks.filter((at) => at >= low && at <= high);
  const every = Math.max(1, Math.ceil(inside.length / Math.max(2, (to - from) / 60)));
  scale.ticks = inside.filter((_, index) => index % every === 0).map((at) => ({ at, text: number(at) }));
  scale.value = (pixel) => Math.exp(inner.value(pixel));
  return scale;
}

/** A scale for dates, with as many ticks as there is room for. */
function dated(low, high, from, to) {
  const scale = linear(low, high, from, to);
  const count = Math.max(2, Math.floor((to - from) / 110));
  const all = Array.from({ length: count }, (_, index) => low + ((index + 0.5) / count) * (high - low));
  const words = (days) => date(Math.round(days)).slice(0, high - low > 900 ? 7 : 10);
  scale.ticks = all.map((at) => ({ at: Math.round(at), text: words(at) }));
  return scale;
}

/** A scale for labels, side by side. */
function banded(labels, from, to) {
  const width = (to - from) / labels.length;
  const most = Math.max(3, Math.floor(width / 7));
  const scale = (value) => from + (value + 0.5) * width;
  const cut = (text) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
  scale.ticks = labels.map((text, at) => ({ at, text: cut(text) }));
  scale.width = width;
  scale.value = (pixel) => Math.min(labels.length - 1, Math.max(0, Math.floor((pixel - from) / width)));
  return scale;
}

/** The smallest and the largest of some numbers, widened by a share of their distance. */
function range(values, margin = 0.04) {
  const present = values.filter((value) => value !== null && value !== undefined);
  if (!present.length) return [0, 1];
  let low = Infinity, high = -Infinity;
  for (const value of present) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const gap = high > low ? (high - low) * margin : Math.max(1e-9, Math.abs(high) * 0.1);
  return [low - gap, high + gap];
}

/** The quantile of some numbers. */
function quantile(values, level) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.round(level * (sorted.length - 1))] : null;
}

/** Values without the farthest hundredth at either end, so that one row cannot flatten a plot. */
const typical = (values) => [quantile(values, 0.01), quantile(values, 0.99)];

/** A path through points, or around a band if there are lower ends, too. */
function path(points, lower = null) {
  const all = lower ? [...points, ...[...lower].reverse()] : points;
  return `M${all.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}${lower ? "Z" : ""}`;
}

// Tables -----------------------------------------------------------------------------------------

/** A table of texts; the first cell of a row is its header. */
function plainTable(parent, caption, header, rows, now = -1) {
  const table = element("table");
  table.setAttribute("aria-label", caption);
  const head = element("tr", {}, null, element("thead", {}, null, table));
  for (const name of header) element("th", { scope: "col" }, name, head);
  const body = element("tbody", {}, null, table);
  rows.forEach((cells, index) => {
    const row = element("tr", index === now ? { class: "now", "aria-current": "true" } : {}, null, body);
    cells.forEach((text, at) => element(at ? "td" : "th", at ? {} : { scope: "row" }, text, row));
  });
  parent.replaceChildren(table);
}
