// The critical path as words: what the time went into, and the chain folded where its turns repeat.

const CAUSE_COLOURS = { latency: 1, bytes: 0, queueing: 5, work: 2, preload: 5, fences: 6, endpoints: 3, "late starts": 7, launch: 4, acknowledgements: 7, drain: 3, slots: 6, credits: 7, notifies: 3 };

/** What the path went into, as a bar with words in it, and the numbers below it. */
function sharesBar() {
  const some = REPORT.totals.filter((t) => t.ns > 0);
  const bar = el("div", { class: "shares", role: "img", "aria-label": some.map((t) => t.cause + " " + percentWords(t.percent)).join(", ") },
    some.map((t) => el("div", { style: "width:" + t.percent + "%;background:" + colourOf(CAUSE_COLOURS[t.cause] || 0) + ";color:" + inkOf(CAUSE_COLOURS[t.cause] || 0), title: t.cause + " " + percentWords(t.percent) }, t.percent > 8 ? t.cause + " " + percentWords(t.percent) : "")));
  return el("div", {}, bar, el("p", { class: "quiet" }, some.map((t) => t.cause + " " + timeWords(t.ns) + " (" + percentWords(t.percent) + ")").join(", ")));
}

/** Parts of the path: the steps with one number. */
function pathParts() {
  const out = [];
  REPORT.critical_path.forEach((s, i) => { if (!out.length || out[out.length - 1][0].part !== s.part) out.push([]); out[out.length - 1].push({ ...s, index: i }); });
  return out;
}

/** Sums by cause of some parts, as `kbc explain path` has them. */
function partSums(parts) {
  const sums = new Map();
  for (const s of parts.flat()) {
    const what = s.kind === "queue" ? "queueing" : s.kind === "latency" || s.kind === "bytes" ? s.kind : s.cause;
    sums.set(what, (sums.get(what) || 0) + s.end_ns - s.start_ns);
  }
  return sums.size === 1 ? [...sums.keys()][0] : [...sums].map(([w, ns]) => w + " " + timeWords(ns)).join(", ");
}

function drawPath(at, timeline, pick) {
  const parts = pathParts();
  if (!parts.length) { at.append(el("p", {}, "Nothing takes time here.")); return; }
  const long = (p) => p[p.length - 1].end_ns - p[0].start_ns;
  at.append(el("p", {}, "The chain of steps that determines the time of " + timeWords(REPORT.time_ns) + ": each step begins when the one before it ends, so the run gets faster only if one of these steps does. Repeated iterations are one line; the button shows the first of them in the timeline."), sharesBar());
  const rows = [];
  for (const [first, length, turns] of DATA.folds) {
    for (let k = 0; k < length; k++) {
      const list = Array.from({ length: turns }, (_, n) => parts[first + k + n * length]);
      const head = list[0][0];
      rows.push({ list, head, from: head.start_ns, all: list.reduce((a, p) => a + long(p), 0), times: turns === 1 ? "" : length === 1 ? "×" + turns : "×" + turns + " (" + (k + 1) + " of " + length + ")" });
    }
  }
  const columns = [
    { name: "begin", num: true, key: (r) => r.from, show: (r) => timeWords(r.from) }, { name: "takes", num: true, key: (r) => r.all, show: (r) => timeWords(r.all) },
    { name: "turns", show: (r) => r.times }, { name: "what", show: (r) => r.head.what },
    { name: "where", show: (r) => r.head.place + (r.head.to && r.head.to !== r.head.place ? " -> " + r.head.to : "") }, { name: "parts of its time", show: (r) => partSums(r.list) },
    { name: "after", show: (r) => r.head.after }, { name: "region", show: (r) => r.head.region }, { name: "source", show: (r) => r.head.source || "-" },
    { name: "in the timeline", key: (r) => r.from, show: (r) => el("button", { type: "button", onclick: () => { pick(r.head.op, "path"); showStep(r.head); } }, "show") },
  ];
  const showStep = (s) => { const row = timeline.path[s.index]; timeline.show(row.start, Math.round(r0(s) * 1000), row.link && timeline.places.has(row.link) ? row.link : row.stream, row.words + "\n" + timeWords(s.start_ns) + " to " + timeWords(r0(s)) + ", after " + s.after); };
  const r0 = (s) => { const p = parts[s.part] || [s]; return p[p.length - 1].end_ns; };
  at.append(sortableTable("Critical path, folded: " + plural(parts.length, "part"), columns, rows));
  const all = REPORT.critical_path;
  at.append(el("details", {}, el("summary", {}, "All " + plural(all.length, "step") + ", not folded"), sortableTable("Critical path, step by step", [
    { name: "begin", num: true, key: (r) => r.start_ns, show: (r) => timeWords(r.start_ns) }, { name: "takes", num: true, key: (r) => r.end_ns - r.start_ns, show: (r) => timeWords(r.end_ns - r.start_ns) },
    { name: "what", show: (r) => r.what }, { name: "where", show: (r) => r.place + (r.to && r.to !== r.place ? " -> " + r.to : "") }, { name: "cause", show: (r) => r.cause },
    { name: "behind", show: (r) => r.behind || "-" }, { name: "after", show: (r) => r.after },
  ], all)));
}
