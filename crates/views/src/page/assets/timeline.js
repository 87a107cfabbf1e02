// The timeline: draws the rows that are in sight, zooms and moves, finds what is under the pointer.

const LEFT = 132, AXIS = 24, TALL = 460;

class Timeline {
  constructor(at, pick) {
    this.pick = pick;
    this.rows = allRows();
    this.path = pathOnRows();
    this.end = Math.max(1, Math.round((REPORT.time_ns || 0) * 1000), ...[EV.slices.end, EV.stays.end, EV.messages.arrived].map((l) => l.reduce((a, b) => Math.max(a, b), 0)));
    this.view = { from: 0, to: this.end };
    this.scroll = 0;
    this.op = -1;
    this.cursor = null; // row, lane, index of the event that is picked
    const many = DATA.ranks.length > 16;
    this.groups = { streams: true, messages: !many, links: true };
    this.build(at);
    this.filter("");
  }

  build(at) {
    this.canvas = el("canvas", { tabindex: "0", class: "zooms", role: "application", "aria-label": "Timeline. Arrow keys move, plus and minus zoom, Home shows all, N and P go from event to event, Enter highlights its operation.", "aria-describedby": "timeline-detail" });
    this.detail = el("div", { class: "detail", id: "timeline-detail", "aria-live": "polite" }, "Nothing is selected. Click an event, or press N.");
    this.search = el("input", { type: "search", placeholder: "rank or link, e.g. " + DATA.ranks[0], "aria-label": "Show rows whose name contains", oninput: () => this.filter(this.search.value) });
    const button = (label, name, act) => el("button", { type: "button", "aria-label": name, title: name, onclick: act }, label);
    const check = (group, label) => {
      const box = el("input", { type: "checkbox", checked: this.groups[group], onchange: () => { this.groups[group] = box.checked; this.filter(this.search.value); } });
      return el("label", {}, box, label);
    };
    this.withPath = el("input", { type: "checkbox", checked: true, onchange: () => this.painter.ask() });
    this.count = el("span", { class: "quiet", role: "status" });
    at.append(
      el("p", {}, "Time runs to the right. A row is a stream of a rank, its messages, or a link. The dark line with marks is the critical path: the events on it determine the length of the run."),
      DATA.shown ? el("p", { class: "bad" }, "Only ranks " + DATA.shown + " are in the timeline (--trace-ranks), with their messages and their links. Everything else on this page covers all ranks.") : "",
      el("div", { class: "bar", role: "group", "aria-label": "Timeline" }, el("label", {}, "find ", this.search), check("streams", "streams"), check("messages", "messages"), check("links", "links"),
        el("label", {}, this.withPath, "critical path"), button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)), button("all", "Show the whole run", () => this.whole()), this.count),
      this.canvas,
      el("ul", { class: "legend" }, Object.values(KINDS).map((k) => el("li", {}, el("i", { style: "background:" + (k.pattern ? "repeating-linear-gradient(135deg," + k.colour + " 0 3px,transparent 3px 6px)" : k.colour) }), k.name)),
        el("li", {}, el("i", { style: "border:0;border-bottom:4px solid var(--bad)" }), "critical path")),
      el("p", { class: "quiet" }, "Drag to move; click into it, then the wheel zooms (with Shift it scrolls the rows); two fingers pinch. Keys: ", el("kbd", {}, "←"), " ", el("kbd", {}, "→"), " ", el("kbd", {}, "↑"), " ", el("kbd", {}, "↓"), " ", el("kbd", {}, "+"), " ", el("kbd", {}, "−"), " ", el("kbd", {}, "Home"), ", ", el("kbd", {}, "N"), " and ", el("kbd", {}, "P"), " for the next and the previous event."),
      this.detail);
    this.painter = new Painter(() => this.draw());
    whenLookChanges(this.canvas, this.painter);
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.pointers = new Map();
    this.canvas.addEventListener("pointerdown", (e) => { this.canvas.setPointerCapture(e.pointerId); this.pointers.set(e.pointerId, [e.offsetX, e.offsetY]); this.moved = 0; });
    this.canvas.addEventListener("pointermove", (e) => this.pointer(e));
    this.canvas.addEventListener("pointerup", (e) => this.release(e));
    this.canvas.addEventListener("pointercancel", (e) => this.pointers.delete(e.pointerId));
    this.canvas.addEventListener("pointerleave", () => showTip(""));
  }

  /** Shows the rows of the groups that are on, whose names contain the words. */
  filter(words) {
    const text = words.trim().toLowerCase();
    this.shown = this.rows.filter((r) => this.groups[r.group] && (!text || r.name.toLowerCase().includes(text)));
    let y = 0;
    this.places = new Map();
    for (const r of this.shown) { r.y = y; this.places.set(r.key, r); y += r.tall; }
    this.tall = y;
    this.scroll = Math.max(0, Math.min(this.scroll, this.tall - this.inside()));
    this.count.textContent = this.shown.length + " of " + plural(this.rows.length, "row") + ", " + plural(eventCount(), "event");
    this.painter.ask();
  }

  height() { return Math.min(TALL, this.tall + AXIS + 6); }
  inside() { return Math.min(TALL, this.tall + AXIS + 6) - AXIS; }
  x(t) { return LEFT + ((t - this.view.from) / (this.view.to - this.view.from)) * (this.width - LEFT); }
  t(x) { return this.view.from + ((x - LEFT) / Math.max(1, this.width - LEFT)) * (this.view.to - this.view.from); }

  look(from, to) {
    const least = Math.min(this.end, 50), long = Math.max(least, Math.min(this.end, to - from));
    const begin = Math.max(0, Math.min(this.end - long, from));
    this.view = { from: begin, to: begin + long };
    this.painter.ask();
  }
  whole() { this.look(0, this.end); }
  zoom(factor, around) {
    const { from, to } = this.view, mid = around === undefined ? (from + to) / 2 : around;
    this.look(mid - (mid - from) * factor, mid + (to - mid) * factor);
  }
  pan(share) { const d = (this.view.to - this.view.from) * share; this.look(this.view.from + d, this.view.to + d); }
  roll(by) { this.scroll = Math.max(0, Math.min(this.tall - this.inside(), this.scroll + by)); this.painter.ask(); }

  /** Rows in sight. */
  visibleRows() {
    const first = firstAbove(this.shown.map((r) => r.y), this.scroll) - 1, out = [];
    for (let i = Math.max(0, first); i < this.shown.length && this.shown[i].y < this.scroll + this.inside(); i++) out.push(this.shown[i]);
    return out;
  }

  draw() {
    const { c, width, height } = sized(this.canvas, this.height());
    const t = theme();
    this.width = width;
    this.boxes = 0;
    c.font = SMALL_FONT;
    c.textBaseline = "middle";
    this.axis(c, t, height);
    c.save();
    c.beginPath();
    c.rect(0, AXIS, width, height - AXIS);
    c.clip();
    const rows = this.visibleRows();
    for (const r of rows) this.row(c, t, r, AXIS + r.y - this.scroll);
    if (this.withPath.checked) this.drawPath(c, t);
    c.restore();
    if (!this.shown.length) { c.fillStyle = t.quiet; c.textAlign = "left"; c.fillText("no row has this name", 10, AXIS + 2); }
  }

  axis(c, t, height) {
    const long = this.view.to - this.view.from, room = Math.max(2, Math.floor((this.width - LEFT) / 110));
    const raw = long / room, power = Math.pow(10, Math.floor(Math.log10(raw))), step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
    c.fillStyle = t.quiet;
    c.strokeStyle = t.line;
    c.lineWidth = 1;
    c.textAlign = "left";
    for (let at = Math.ceil(this.view.from / step) * step; at <= this.view.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      c.beginPath();
      c.moveTo(x, AXIS - 5);
      c.lineTo(x, height);
      c.stroke();
      if (x < this.width - 50) c.fillText(psWords(at), x + 3, AXIS / 2);
    }
  }

  row(c, t, r, y) {
    c.textAlign = "left";
    c.fillStyle = t.ink;
    c.fillText(fitted(c, r.name, LEFT - 12), 6, y + Math.min(r.tall, 34) / 2);
    c.fillStyle = t.track;
    c.fillRect(LEFT, y + 2, this.width - LEFT, r.tall - 4);
    let top = y + 3;
    r.lanes.forEach((l) => {
      const tall = l.kind === "stay" ? 9 : l.kind === "message" ? (r.lanes.length <= 4 ? 12 : 7) : l.kind === "unit" ? 7 : 16;
      this.lane(c, t, r, l, top, tall);
      top += tall + (l.kind === "message" ? 2 : 1);
    });
  }

  /** One lane: what is in sight, no more than one box a pixel. */
  lane(c, t, r, l, y, tall) {
    l.y = y - (AXIS + r.y - this.scroll);
    l.tall = tall;
    let i = firstAbove(l.end, this.view.from);
    while (i < l.start.length && l.start[i] <= this.view.to) {
      const x0 = Math.max(LEFT, this.x(l.start[i])), x1 = Math.min(this.width, this.x(l.end[i]));
      const w = Math.max(1, x1 - x0), e = eventOf(l.kind, l.numbers[i]);
      this.box(c, t, e, x0, y, w, tall, this.cursor && this.cursor.lane === l && this.cursor.index === i);
      this.boxes++;
      // What ends before the next pixel would be drawn over this.
      i = w > 1.5 ? i + 1 : Math.max(i + 1, firstAbove(l.end, this.t(x0 + 1)));
    }
  }

  box(c, t, e, x, y, w, tall, picked) {
    const kind = KINDS[e.kind];
    if (e.kind === "stay") {
      c.fillStyle = t.line;
      c.fillRect(x, y, Math.max(1, w - 1), tall);
      if (w > 30) { c.fillStyle = t.ink; c.font = fontOf(9); c.fillText(fitted(c, e.label, w - 6), x + 3, y + tall / 2 + 0.5); c.font = SMALL_FONT; }
    } else {
      c.fillStyle = kind.colour;
      if (kind.pattern && w > 4) {
        c.globalAlpha = 0.2;
        c.fillRect(x, y, w, tall);
        c.globalAlpha = 1;
        c.save();
        c.beginPath();
        c.rect(x, y, w, tall);
        c.clip();
        c.strokeStyle = kind.colour;
        c.globalAlpha = 0.6;
        c.beginPath();
        for (let d = Math.max(-tall, -x); d < Math.min(w, 2000); d += 7) { c.moveTo(x + d, y + tall); c.lineTo(x + d + tall, y); }
        c.stroke();
        c.restore();
      } else c.fillRect(x, y, w > 3 ? w - 0.7 : w, tall);
      if (w > 26 && tall > 10) { c.fillStyle = kind.pattern ? t.ink : kind.ink; c.font = fontOf(11); c.fillText(fitted(c, e.label, w - 6), x + 3, y + tall / 2 + 0.5); c.font = SMALL_FONT; }
    }
    if (picked || (this.op >= 0 && e.op === this.op)) {
      c.strokeStyle = t.ink;
      c.lineWidth = picked ? 3 : 2;
      c.strokeRect(x + 0.5, y + 0.5, Math.max(2, w - 1), tall - 1);
    }
  }

  drawPath(c, t) {
    c.strokeStyle = c.fillStyle = t.bad;
    c.lineWidth = 1.4;
    const middle = (key, at) => { const r = this.places.get(key); return r ? [this.x(at), AXIS + r.y - this.scroll + r.tall - 4] : null; };
    const streams = DATA.streams.length, last = this.path.length - 1;
    let begin = null;
    this.path.forEach((s, i) => {
      if (i === 0 || this.path[i - 1].part !== s.part) begin = s;
      if (s.end >= this.view.from && s.start <= this.view.to) {
        const row = this.places.get(s.link && this.places.has(s.link) ? s.link : s.stream);
        if (row) {
          const x = Math.max(LEFT, this.x(s.start)), w = Math.max(1.5, Math.min(this.width, this.x(s.end)) - x);
          c.fillRect(x, AXIS + row.y - this.scroll + row.tall - 6, w, 4);
        }
      }
      if (s.to < 0 || (i < last && this.path[i + 1].part === s.part)) return;
      // The message of the part: from its sender's row to that of its receiver.
      const next = i < last ? this.path[i + 1].stream : "s" + s.to * streams;
      const a = middle(begin.stream, begin.start), b = middle(next, s.end);
      if (!a || !b || Math.max(a[0], b[0]) < LEFT || Math.min(a[0], b[0]) > this.width) return;
      c.save();
      c.beginPath();
      c.rect(LEFT, AXIS, this.width, 1e5);
      c.clip();
      c.beginPath();
      c.moveTo(...a);
      c.lineTo(...b);
      c.stroke();
      c.beginPath();
      c.arc(b[0], b[1], 3, 0, 7);
      c.fill();
      c.restore();
    });
  }

  /** The event at a point of the canvas. */
  hit(x, y) {
    if (x < LEFT || y < AXIS) return null;
    const down = y - AXIS + this.scroll, row = this.visibleRows().find((r) => down >= r.y && down < r.y + r.tall);
    if (!row) return null;
    const l = row.lanes.find((k) => down - row.y >= k.y - 1 && down - row.y <= k.y + k.tall);
    if (!l) return null;
    const near = this.t(x + 2), i = firstAbove(l.start, near) - 1;
    return i >= 0 && l.end[i] >= this.t(x - 2) ? { row, lane: l, index: i } : null;
  }

  pointer(e) {
    const before = this.pointers.get(e.pointerId);
    if (!before) {
      const hit = this.hit(e.offsetX, e.offsetY);
      return showTip(hit ? eventWords(hit.lane.kind, hit.lane.numbers[hit.index]) : "", e.clientX, e.clientY);
    }
    const now = [e.offsetX, e.offsetY];
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== e.pointerId)[1];
      const was = Math.abs(before[0] - other[0]), is = Math.abs(now[0] - other[0]);
      if (was > 8 && is > 8) this.zoom(was / is, this.t((now[0] + other[0]) / 2));
    } else {
      const d = this.t(before[0]) - this.t(now[0]);
      this.look(this.view.from + d, this.view.to + d);
      this.roll(before[1] - now[1]);
    }
    this.moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    this.pointers.set(e.pointerId, now);
    showTip("");
  }

  release(e) {
    this.pointers.delete(e.pointerId);
    if (this.moved < 5) { const hit = this.hit(e.offsetX, e.offsetY); if (hit) this.choose(hit); }
  }

  wheel(e) {
    if (document.activeElement !== this.canvas && !e.ctrlKey) return;
    e.preventDefault();
    if (e.shiftKey) this.roll(e.deltaY || e.deltaX);
    else this.zoom(Math.pow(1.0016, Math.max(-400, Math.min(400, e.deltaY))), this.t(Math.max(LEFT, e.offsetX)));
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const acts = {
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), ArrowUp: () => this.roll(-60), ArrowDown: () => this.roll(60),
      "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7), Home: () => this.whole(), End: () => this.look(this.end - (this.view.to - this.view.from), this.end),
      n: () => this.next(1), N: () => this.next(1), p: () => this.next(-1), P: () => this.next(-1),
      Enter: () => this.cursor && this.choose(this.cursor), PageDown: () => this.roll(this.inside()), PageUp: () => this.roll(-this.inside()),
    };
    if (!acts[e.key]) return;
    acts[e.key]();
    e.preventDefault();
  }

  /** The next event of the row that is picked; after the last one that of the next row. */
  next(by) {
    let at = this.cursor && this.shown.includes(this.cursor.row) ? { ...this.cursor } : null;
    if (!at) { const row = this.shown.find((r) => r.lanes.some((l) => l.start.length)); if (!row) return; at = { row, lane: row.lanes.find((l) => l.start.length), index: by > 0 ? -1 : 0 }; }
    at.index += by;
    while (at.index < 0 || at.index >= at.lane.start.length) {
      const lanes = this.shown.flatMap((row) => row.lanes.map((l) => ({ row, lane: l })));
      const k = lanes.findIndex((l) => l.lane === at.lane) + by;
      if (k < 0 || k >= lanes.length) return;
      at = { ...lanes[k], index: by > 0 ? 0 : lanes[k].lane.start.length - 1 };
    }
    this.choose(at, true);
  }

  choose(at, bring) {
    this.cursor = at;
    const i = at.lane.numbers[at.index];
    this.detail.textContent = at.row.name + "\n" + eventWords(at.lane.kind, i);
    if (bring) {
      if (at.lane.end[at.index] < this.view.from || at.lane.start[at.index] > this.view.to) { const half = (this.view.to - this.view.from) / 2; this.look(at.lane.start[at.index] - half, at.lane.start[at.index] + half); }
      if (at.row.y < this.scroll) this.roll(at.row.y - this.scroll);
      if (at.row.y + at.row.tall > this.scroll + this.inside()) this.roll(at.row.y + at.row.tall - this.scroll - this.inside());
    }
    this.pick(eventOf(at.lane.kind, i).op, "timeline");
  }

  /** Shows a stretch of time with a row, and an operation in all rows. */
  show(from, to, key, words) {
    this.cursor = null;
    this.detail.textContent = "critical path: " + words;
    const room = Math.max((to - from) * 0.6, this.end / 400);
    this.look(from - room, to + room);
    const row = this.places.get(key);
    if (row) { this.scroll = Math.max(0, Math.min(this.tall - this.inside(), row.y - 80)); }
    this.painter.ask();
    this.canvas.focus();
  }
  mark(op) { this.op = op; this.painter.ask(); }
}
