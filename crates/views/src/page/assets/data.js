// The data of the page, numbers as words, and small helpers. Owns nothing that is drawn.

const DATA = JSON.parse(document.getElementById("data").textContent);
const REPORT = DATA.report;
REPORT.memories = REPORT.memories || []; // only there where a machine has some

/** A time in ns as the command line writes it. */
function timeWords(ns) {
  if (ns === null || ns === undefined) return "-";
  const t = Math.abs(ns);
  if (t >= 999999950) return (ns / 1e9).toFixed(4) + " s";
  if (t >= 999999.5) return (ns / 1e6).toFixed(4) + " ms";
  if (t >= 999.95) return (ns / 1e3).toFixed(3) + " us";
  return ns.toFixed(1) + " ns";
}

/** A time in ps. */
const psWords = (ps) => timeWords(ps / 1000);

/** Bytes with a unit. */
function byteWords(n) {
  if (n === null || n === undefined) return "-";
  if (n >= 1e10) return (n / 1e9).toFixed(2) + " GB";
  if (n >= 1e7) return (n / 1e6).toFixed(2) + " MB";
  if (n >= 1e4) return (n / 1e3).toFixed(2) + " KB";
  return n + " B";
}

/** The text of a machine in a sentence: of more than a few links that are listed only their number, as in reports. */
function machineWords(machine) {
  const at = machine ? machine.indexOf(" { ") : -1;
  if (at < 0) return machine || "no machine";
  const parts = machine.slice(at + 3).replace(/ }$/, "").split("; "), links = parts.filter((p) => p.startsWith("link "));
  if (links.length <= 4) return machine;
  const number = links.length + " links" + (machine.startsWith("graph(") ? "" : " with individual rates");
  return machine.slice(0, at) + " { " + [...parts.filter((p) => !p.startsWith("link ")), number].join("; ") + " }";
}

const percentWords = (p) => (p === null || p === undefined ? "-" : p.toFixed(1) + " %");
const rateWords = (r) => (r === null || r === undefined ? "-" : r.toFixed(3) + " GB/s");
const plural = (n, what) => n + " " + what + (n === 1 ? "" : "s");

/** Words of several things, with the rest counted: `a, b and 3 more`. */
function listWords(list, most) {
  if (list.length <= most) return list.length < 2 ? list.join("") : list.slice(0, -1).join(", ") + " and " + list[list.length - 1];
  return list.slice(0, most).join(", ") + " and " + (list.length - most) + " more";
}

/** The members of a set as the data write it: `0-3,6`, a rank that is there twice `5*2`. */
function membersOf(text) {
  const out = [];
  for (const run of text ? text.split(",") : []) {
    const [range, times] = run.split("*");
    const [lo, hi] = range.split("-").map(Number);
    for (let r = lo; r <= (hi === undefined ? lo : hi); r++) for (let k = 0; k < (times ? Number(times) : 1); k++) out.push(r);
  }
  return out;
}

/** First index of an ascending list whose value is above `x`. */
function firstAbove(list, x) {
  let lo = 0, hi = list.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (list[mid] > x) hi = mid; else lo = mid + 1;
  }
  return lo;
}

/** `file:line:column` in parts; null for nothing. */
function sourceParts(source) {
  const m = /^(.*):(\d+):(\d+)$/.exec(source || "");
  return m && { file: m[1], line: Number(m[2]), column: Number(m[3]) };
}

/** An element with attributes and children; texts are texts, never HTML. */
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  for (const c of children.flat()) if (c !== null && c !== undefined) e.append(c);
  return e;
}

const byId = (id) => document.getElementById(id);
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const OPS = DATA.ops;
// Of many switches and routers none is drawn.
const RELAYS_SHOWN = DATA.machine.names.length - DATA.ranks.length <= 64;
const LINK_COUNT = DATA.machine.from.length;
/** A link by its ends. */
const linkName = (l) => DATA.machine.names[DATA.machine.from[l]] + "->" + DATA.machine.names[DATA.machine.to[l]];
const MESSAGE_WORDS = ["put", "notify", "get request", "get data"];
