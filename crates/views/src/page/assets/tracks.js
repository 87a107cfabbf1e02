// The rows of the timeline: streams, messages and links, each with its events in order of time. Nothing is drawn here.

const KINDS = {
  work: { name: "local work", colour: "#E69F00", ink: "#000" },
  wait: { name: "wait", colour: "#999999", ink: "#000", pattern: true },
  fence: { name: "fence", colour: "#CC79A7", ink: "#000" },
  put: { name: "put", colour: "#56B4E9", ink: "#000" },
  notify: { name: "notify", colour: "#F0E442", ink: "#000" },
  get: { name: "get", colour: "#009E73", ink: "#fff" },
};
const kindOfMessage = (k) => (k === 0 ? "put" : k === 1 ? "notify" : "get");
const kindOfOp = (name) => (name === "wait" || name === "await" || name === "recv" ? "wait" : name.startsWith("fence") ? "fence" : "work");

const EV = DATA.events;
const eventCount = () => EV.slices.op.length + EV.stays.rank.length + EV.messages.op.length + EV.passes.link.length + EV.waits.rank.length;

/** A lane: events that do not overlap, by begin. `item(i)` says what the i-th is. */
function lane(kind, numbers, start, end) {
  numbers.sort((a, b) => start[a] - start[b] || end[a] - end[b] || a - b);
  return { kind, numbers, start: numbers.map((i) => start[i]), end: numbers.map((i) => end[i]) };
}

/** Lists of numbers by a key, in the order of the keys. */
function grouped(count, key) {
  const out = new Map();
  for (let i = 0; i < count; i++) {
    const k = key(i);
    if (k === null) continue;
    if (!out.has(k)) out.set(k, []);
    out.get(k).push(i);
  }
  return new Map([...out].sort((a, b) => a[0] - b[0]));
}

/** Spreads events that overlap over lanes. */
function packed(kind, numbers, start, end) {
  numbers.sort((a, b) => start[a] - start[b] || a - b);
  const lanes = [];
  for (const i of numbers) {
    // The first that is free; there are as many lanes as there are events at a time.
    let place = lanes.find((l) => end[l[l.length - 1]] <= start[i]);
    if (!place) { place = []; lanes.push(place); }
    place.push(i);
  }
  return lanes.map((l) => lane(kind, l, start, end));
}

/** All rows: {group, name, key, lanes, tall}. */
function allRows() {
  const streams = DATA.streams.length, rows = [];
  const slices = grouped(EV.slices.op.length, (i) => EV.slices.rank[i] * streams + EV.slices.stream[i]);
  const stays = grouped(EV.stays.rank.length, (i) => EV.stays.rank[i] * streams + EV.stays.stream[i]);
  const waits = grouped(EV.waits.rank.length, (i) => EV.waits.rank[i] * streams + EV.waits.stream[i]);
  const shown = new Set([...slices.keys(), ...stays.keys()]);
  const fromShown = new Set([...shown].map((k) => Math.floor(k / streams)));
  const sent = grouped(EV.messages.op.length, (i) => (fromShown.has(EV.messages.from[i]) ? EV.messages.from[i] : null));
  for (let r = 0; r < DATA.ranks.length; r++) {
    for (let s = 0; s < streams; s++) {
      const k = r * streams + s;
      if (!shown.has(k)) continue;
      const lanes = [lane("stay", stays.get(k) || [], EV.stays.start, EV.stays.end), lane("slice", slices.get(k) || [], EV.slices.start, EV.slices.end)];
      if (waits.has(k)) lanes.push(lane("unit", waits.get(k), EV.waits.start, EV.waits.end));
      rows.push({ group: "streams", name: DATA.ranks[r] + (streams > 1 || DATA.streams[s] !== "main" ? " " + DATA.streams[s] : ""), key: "s" + k, lanes, tall: waits.has(k) ? 42 : 34 });
    }
    if (sent.has(r)) {
      const lanes = packed("message", sent.get(r), EV.messages.sent, EV.messages.arrived);
      rows.push({ group: "messages", name: DATA.ranks[r] + " sends", key: "m" + r, lanes, tall: lanes.length <= 4 ? Math.max(20, lanes.length * 14 + 6) : lanes.length * 9 + 6 });
    }
  }
  const passes = grouped(EV.passes.link.length, (i) => EV.passes.link[i]);
  for (const [l, list] of passes) {
    const row = { group: "links", name: linkName(l), key: "l" + l, lanes: [lane("pass", list, EV.passes.start, EV.passes.end)], tall: 24 };
    row.lanes[0].numbers.forEach((i, k) => { EV.passes.before[i] = k > 0 ? row.lanes[0].numbers[k - 1] : -1; });
    rows.push(row);
  }
  return rows;
}
EV.passes.before = [];

/** What an event is: kind of colour, label, operation. */
function eventOf(laneKind, i) {
  if (laneKind === "stay") return { kind: "stay", label: DATA.regions[EV.stays.region[i]].name, op: -1, region: EV.stays.region[i] };
  if (laneKind === "slice") return { kind: kindOfOp(OPS[EV.slices.op[i]].name), label: OPS[EV.slices.op[i]].name, op: EV.slices.op[i] };
  if (laneKind === "unit") return { kind: "wait", label: "waits", op: -1 };
  const m = laneKind === "pass" ? EV.passes.message[i] : i;
  const kind = EV.messages.kind[m];
  const ends = laneKind === "pass" ? DATA.ranks[EV.messages.from[m]] + " to " + DATA.ranks[EV.messages.to[m]] : "to " + DATA.ranks[EV.messages.to[m]];
  return { kind: kindOfMessage(kind), label: MESSAGE_WORDS[kind] + " " + ends, op: EV.messages.op[m] };
}

const span = (from, to) => psWords(from) + " to " + psWords(to) + " (" + psWords(to - from) + ")";

/** An event in words: what docs/reference/trace.md lists as arguments. */
function eventWords(laneKind, i) {
  const about = (op) => ["op " + op + ": " + OPS[op].text, OPS[op].source ? "source " + OPS[op].source : ""];
  let lines = [];
  if (laneKind === "stay") {
    const region = DATA.regions[EV.stays.region[i]];
    lines = ["region " + region.name, region.label ? "algorithm " + region.label : "", span(EV.stays.start[i], EV.stays.end[i]), "call 0"];
  } else if (laneKind === "slice") {
    const s = EV.slices;
    lines = [OPS[s.op[i]].name + " on " + DATA.ranks[s.rank[i]] + ", stream " + DATA.streams[s.stream[i]], span(s.start[i], s.end[i]), s.bytes[i] ? byteWords(s.bytes[i]) : "",
      s.why[i] >= 0 ? "waited for " + EV.texts[s.why[i]] : "", ...about(s.op[i])];
  } else if (laneKind === "unit") {
    lines = ["waits for a unit", span(EV.waits.start[i], EV.waits.end[i]), EV.texts[EV.waits.why[i]]];
  } else {
    const m = laneKind === "pass" ? EV.passes.message[i] : i, all = EV.messages;
    lines = [MESSAGE_WORDS[all.kind[m]] + " of " + DATA.ranks[all.from[m]] + " to " + DATA.ranks[all.to[m]] + ", " + byteWords(all.bytes[m])];
    if (laneKind === "pass") {
      const p = EV.passes, queued = p.start[i] - p.asked[i], before = p.before[i];
      lines.push("on link " + linkName(p.link[i]) + " " + span(p.start[i], p.end[i]), "queued " + psWords(queued));
      if (queued > 0 && before >= 0) lines.push("waited for " + OPS[all.op[p.message[before]]].name + " of " + DATA.ranks[all.from[p.message[before]]] + " (op " + all.op[p.message[before]] + ")");
    }
    lines.push("sent and arrived: " + span(all.sent[m], all.arrived[m]), ...about(all.op[m]));
  }
  return lines.filter(Boolean).join("\n");
}

/** The critical path on rows: {part, key, start, end, words} a step, and the ends of messages between rows. */
function pathOnRows() {
  const steps = REPORT.critical_path, streams = DATA.streams.length;
  return steps.map((s, i) => {
    const [rank, stream, link, to] = DATA.path[i];
    return { part: s.part, stream: "s" + (rank * streams + stream), to, link: link >= 0 ? "l" + link : null, start: Math.round(s.start_ns * 1000), end: Math.round(s.end_ns * 1000), words: s.what + " of " + s.place + ": " + s.cause };
  });
}
