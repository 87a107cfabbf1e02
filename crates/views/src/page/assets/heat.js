// Links as a heat map: on the machine, as a matrix of nodes, and who sends how much to whom. Every colour has its number beside it or
// in its tip, and darker (on dark paper: lighter) is always more.

const RAMP_LIGHT = ["#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b"];
const RAMP_DARK = ["#1b2733", "#14375a", "#1a4f82", "#2567a5", "#3a82c0", "#5c9dd1", "#86b9e0", "#b3d4ee", "#e3f0fb"];

/** Places of words beside links: of each the first of its choices, an array of middles, at which its box of that width is clear of all
 *  nodes, circles of a radius, and of the words before it; null where there is none. */
function clearPlaces(wanted, nodes, radius, height) {
  const taken = [];
  return wanted.map(({ choices, width }) => {
    const box = ([x, y]) => [x - width / 2, y - height / 2, x + width / 2, y + height / 2];
    const clear = ([x0, y0, x1, y1]) =>
      nodes.every(([x, y]) => Math.hypot(Math.max(x0 - x, 0, x - x1), Math.max(y0 - y, 0, y - y1)) >= radius) &&
      taken.every((b) => x1 <= b[0] || x0 >= b[2] || y1 <= b[1] || y0 >= b[3]);
    const free = choices.find((p) => clear(box(p)));
    if (free) taken.push(box(free));
    return free || null;
  });
}

class Heat {
  constructor(at, pick) {
    this.pick = pick;
    this.use = new Map(REPORT.links.map((l, i) => [DATA.links[i], l]));
    this.sent = new Map();
    EV.messages.op.forEach((_, m) => { const k = EV.messages.from[m] + " " + EV.messages.to[m]; this.sent.set(k, (this.sent.get(k) || 0) + EV.messages.bytes[m]); });
    this.views = el("select", { onchange: () => this.painter.ask() },
      el("option", { value: "machine" }, "use of links, on the machine"), el("option", { value: "matrix" }, "use of links, from node (rows) to node (columns)"), el("option", { value: "bytes" }, "bytes sent, from rank (rows) to rank (columns)"));
    if (DATA.machine.names.length > 24) this.views.value = "matrix";
    const large = DATA.machine.names.length > 256;
    if (large) {
      [...this.views.options].filter((o) => o.value !== "bytes").forEach((o) => o.remove());
      this.views.value = "bytes";
    }
    this.canvas = el("canvas", { role: "img", "aria-label": "Heat map of links; the same numbers are in the table Links in use." });
    this.scale = el("ul", { class: "legend" });
    const busiest = REPORT.links[0];
    const all = REPORT.links_total || 0, used = REPORT.links_used || 0;
    at.append(el("p", {}, busiest ? "Busiest: " + busiest.link + ", in use " + percentWords(busiest.use_percent) + " of the time (" + byteWords(busiest.bytes) + " in " + plural(busiest.messages, "message") + "). " + used + " of " + plural(all, "link") + " carry messages; messages wait " + timeWords(REPORT.queue_ns) + " for links in total." : "No link carries a message."),
      el("div", { class: "bar" }, el("label", {}, "Show ", this.views)), this.canvas, this.scale);
    if (large) at.append(el("p", { class: "quiet" }, "The machine has " + DATA.machine.names.length + " nodes, which is too many for a picture of its links; see the table Links in use."));
    if (DATA.shown) at.append(el("p", { class: "bad" }, "Bytes from rank to rank cover only the ranks " + DATA.shown + " (--trace-ranks); all links are included."));
    this.painter = new Painter(() => this.draw());
    whenLookChanges(this.canvas, this.painter);
    this.canvas.addEventListener("pointermove", (e) => { const h = this.spots && this.spots(e.offsetX, e.offsetY); showTip(h || "", e.clientX, e.clientY); });
    this.canvas.addEventListener("pointerleave", () => showTip(""));
  }

  ramp(share) {
    const ramp = matchMedia("(prefers-color-scheme: dark)").matches ? RAMP_DARK : RAMP_LIGHT;
    const i = Math.max(0, Math.min(ramp.length - 1, Math.round(share * (ramp.length - 1))));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return [ramp[i], (i >= 5) !== dark ? "#ffffff" : "#10151a", i];
  }

  words(l) {
    const u = this.use.get(l);
    return linkName(l) + "\n" + (u ? percentWords(u.use_percent) + " of the time, " + byteWords(u.bytes) + " in " + plural(u.messages, "message") + "\nmessages waited " + timeWords(u.queue_ns) + " for it" : "carries nothing");
  }

  draw() {
    const view = this.views.value;
    const most = REPORT.links.reduce((a, l) => Math.max(a, l.use_percent), 0);
    if (view === "machine") this.machine(most);
    else if (view === "matrix") {
      const at = new Map();
      for (let l = 0; l < LINK_COUNT; l++) { const u = this.use.get(l), k = DATA.machine.from[l] + " " + DATA.machine.to[l]; if (!at.has(k) || (u && u.use_percent > at.get(k).value)) at.set(k, { value: u ? u.use_percent : 0, words: this.words(l) }); }
      this.matrix(DATA.machine.names, (a, b) => at.get(a + " " + b), most, (v) => v.toFixed(0));
    } else {
      const top = [...this.sent.values()].reduce((a, b) => Math.max(a, b), 0);
      this.matrix(DATA.ranks, (a, b) => { const v = this.sent.get(a + " " + b); return v === undefined ? undefined : { value: v, words: DATA.ranks[a] + " sends " + byteWords(v) + " to " + DATA.ranks[b] }; }, top, (v) => byteWords(v).replace(/ .*/, ""));
    }
    const top = view === "bytes" ? byteWords([...this.sent.values()].reduce((a, b) => Math.max(a, b), 0)) : percentWords(most);
    this.scale.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((s) => el("li", {}, el("i", { style: "background:" + this.ramp(s)[0] }), s === 0 ? "nothing" : s === 1 ? top : "")));
  }

  matrix(names, value, most, short) {
    const n = names.length, box = this.canvas.clientWidth || 600;
    const left = 70, top = 26, cell = Math.max(3, Math.min(44, (Math.min(box, 760) - left - 10) / n));
    const { c } = sized(this.canvas, top + n * Math.max(cell, 3) + 8);
    const t = theme(), named = Math.max(1, Math.ceil(34 / cell)), rows = Math.max(1, Math.ceil(12 / cell));
    c.font = fontOf(11);
    c.textBaseline = "middle";
    c.fillStyle = t.quiet;
    for (let a = 0; a < n; a++) {
      c.textAlign = "right";
      if (a % rows === 0) c.fillText(fitted(c, names[a], left - 6), left - 4, top + (a + 0.5) * cell);
      c.textAlign = "center";
      if (a % named === 0) c.fillText(names[a], left + (a + 0.5) * cell, 14);
    }
    for (let a = 0; a < n; a++) for (let b = 0; b < n; b++) {
      const v = value(a, b), x = left + b * cell, y = top + a * cell, gap = cell > 6 ? 1 : 0;
      if (!v) { c.fillStyle = t.panel; c.fillRect(x, y, cell - gap, cell - gap); continue; }
      const [fill, ink] = this.ramp(most ? v.value / most : 0);
      c.fillStyle = fill;
      c.fillRect(x, y, cell - gap, cell - gap);
      if (cell >= 20) { c.fillStyle = ink; c.textAlign = "center"; c.fillText(fitted(c, short(v.value), cell - 2), x + cell / 2, y + cell / 2); }
    }
    this.spots = (x, y) => {
      const a = Math.floor((y - top) / cell), b = Math.floor((x - left) / cell);
      if (a < 0 || b < 0 || a >= n || b >= n) return "";
      const v = value(a, b);
      return v ? v.words : names[a] + " to " + names[b] + ": " + (this.views.value === "matrix" ? "no link" : "nothing");
    };
  }

  machine(most) {
    const m = new Layout(this.canvas);
    const { c } = sized(this.canvas, m.height);
    const t = theme(), spots = [];
    for (let l = 0; l < LINK_COUNT; l++) {
      const u = this.use.get(l), share = most && u ? u.use_percent / most : 0, from = DATA.machine.from[l], to = DATA.machine.to[l];
      const end = m.way(from, to, 0, 1), mid = m.way(from, to, 0, 0.5);
      c.strokeStyle = u ? this.ramp(0.25 + 0.75 * share)[0] : t.line;
      c.lineWidth = u ? 1.5 + 6 * share : 1;
      c.beginPath();
      c.moveTo(...m.at[from]);
      c.quadraticCurveTo(mid[2], mid[3], end[0], end[1]);
      c.stroke();
      spots.push([mid[0], mid[1], l]);
    }
    m.drawFailed(c, t);
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let n = 0; n < DATA.machine.names.length; n++) {
      const [x, y] = m.at[n];
      c.fillStyle = t.panel;
      c.strokeStyle = t.quiet;
      c.lineWidth = 1;
      c.beginPath();
      if (n < DATA.ranks.length) c.arc(x, y, m.radius, 0, 7); else c.rect(x - 8, y - 8, 16, 16);
      c.fill();
      c.stroke();
      if (m.radius < 9) continue;
      c.fillStyle = t.ink;
      c.font = fontOf(Math.min(12, m.radius * 0.62), true);
      c.fillText(fitted(c, DATA.machine.names[n], m.radius * 1.8), x, y);
    }
    this.percents = [];
    if (LINK_COUNT <= 160) {
      c.font = fontOf(10, true);
      // The busiest first: where there is no room for all it is the others' numbers that are in their tips alone.
      const used = spots.filter(([, , l]) => this.use.has(l)).map(([, , l]) => [l, this.use.get(l).use_percent.toFixed(0) + "%"]);
      used.sort((a, b) => this.use.get(b[0]).use_percent - this.use.get(a[0]).use_percent);
      const along = (l, f) => m.way(DATA.machine.from[l], DATA.machine.to[l], 0, f).slice(0, 2);
      const wanted = used.map(([l, text]) => ({ choices: [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74].map((f) => along(l, f)), width: c.measureText(text).width + 4 }));
      const radius = Math.max(m.radius, DATA.machine.names.length > DATA.ranks.length ? 12 : 0) + 1;
      clearPlaces(wanted, m.at, radius, 14).forEach((p, i) => {
        if (!p) return;
        c.fillStyle = t.paper;
        c.fillRect(p[0] - wanted[i].width / 2, p[1] - 7, wanted[i].width, 14);
        c.fillStyle = t.ink;
        c.fillText(used[i][1], p[0], p[1]);
        this.percents.push(p);
      });
    }
    this.spots = (x, y) => {
      const near = spots.map(([a, b, l]) => [Math.hypot(a - x, b - y), l]).sort((a, b) => a[0] - b[0])[0];
      return near && near[0] < 16 ? this.words(near[1]) : "";
    };
  }
}
