// Plays a collective: by steps (the n-th message in a row that leads to a chunk) or by time; buttons, keys, a slider, and words.

class Player {
  constructor(at, collectives) {
    this.collectives = collectives;
    this.mode = "step";
    this.pos = 0; // in steps, or ps from the begin
    this.rank = -1;
    this.playing = false;
    this.speed = 1;
    this.build(at);
    this.choose(0);
  }

  build(at) {
    const button = (label, name, act) => el("button", { type: "button", "aria-label": name, title: name, onclick: act }, label);
    this.select = el("select", { onchange: () => this.choose(Number(this.select.value)) },
      this.collectives.map((c, i) => el("option", { value: i }, (i + 1) + ". " + (c.report ? c.report.operation : c.words.name) + (c.words.label ? " by " + c.words.label : ""))));
    this.modes = el("select", { onchange: () => this.setMode(this.modes.value) }, el("option", { value: "step" }, "by steps"), el("option", { value: "time" }, "by time"));
    this.toggle = button("play", "Play", () => this.play(!this.playing));
    this.slider = el("input", { type: "range", min: 0, max: 1, step: 1, value: 0, class: "grow", "aria-label": "Position", oninput: () => this.go(Number(this.slider.value)) });
    this.speeds = el("select", { onchange: () => { this.speed = Number(this.speeds.value); } }, [0.25, 0.5, 1, 2, 4].map((s) => el("option", { value: s, selected: s === 1 }, s + "×")));
    this.rankSelect = el("select", { onchange: () => this.pickRank(Number(this.rankSelect.value)) },
      el("option", { value: -1 }, "all ranks"), DATA.ranks.map((r, i) => el("option", { value: i }, r)));
    this.chunkSelect = el("select", { onchange: () => this.pickChunk(Number(this.chunkSelect.value)) });
    this.says = el("p", { class: "says", "aria-live": "polite" });
    this.intro = el("p", {});
    const moving = el("canvas", { tabindex: "0", role: "img", "aria-label": "The machine with the messages of this step. Keys: space plays, arrows go step by step, Home and End." });
    const holding = el("canvas", { tabindex: "0", role: "img", "aria-label": "Matrix of ranks and chunks: what each rank holds now. Keys: space plays, arrows go step by step, Home and End." });
    this.holds = el("details", { ontoggle: () => this.tell() }, el("summary", {}, "What each rank holds now, as a table"), el("div"));
    this.stepTable = el("details", {}, el("summary", {}, "All steps in one table"), el("div"));
    const back = button("◀ step", "One step back", () => this.step(-1)), forth = button("step ▶", "One step forward", () => this.step(1));
    this.bar = el("div", { class: "bar", role: "group", "aria-label": "Player" },
      button("|◀", "To the beginning", () => this.go(0)), back, this.toggle, forth, button("▶|", "To the end", () => this.go(this.last())), this.slider,
      el("label", {}, "speed ", this.speeds), el("label", {}, "play ", this.modes), el("label", {}, "messages of ", this.rankSelect), el("label", {}, "with ", this.chunkSelect));
    const legend = el("ul", { class: "legend" },
      el("li", {}, "moving box: a chunk; cN is its number, ×k the number of contributions combined in it"),
      el("li", {}, "ring around a rank: share of its places that hold what the contract requires"),
      this.cellLegend = el("li", {}), el("li", {}, el("i", { style: "border-width:2px" }), "as required"), el("li", {}, el("i", { style: "border:2px dashed var(--bad)" }), "changed in this step"));
    this.body = el("div", { onkeydown: (e) => this.key(e) }, this.bar, this.says,
      el("div", { class: "stage" }, el("figure", {}, moving, el("figcaption", {}, "The machine: messages in flight")), el("figure", {}, holding, el("figcaption", {}, "What each rank holds: rows are ranks, columns are chunks"))),
      legend, this.holds, this.stepTable);
    this.nothing = el("p", { class: "bad" });
    at.append(this.collectives.length > 1 ? el("div", { class: "bar" }, el("label", {}, "Collective ", this.select)) : "", this.intro, this.nothing, this.body);
    this.moving = new Moving(moving, this);
    this.holding = new Holding(holding, this);
  }

  choose(i) {
    this.play(false);
    this.collective = this.collectives[i];
    const c = this.collective, left = c.flow.left_out;
    this.nothing.hidden = !left;
    this.nothing.textContent = left ? "Left out: " + left + ". With fewer ranks (-D) the same algorithm fits." : "";
    this.body.hidden = Boolean(left);
    this.intro.textContent = introWords(c);
    if (left) return;
    const columns = c.table();
    const n = (name, field, show) => ({ name, num: true, key: (r) => r[field], show: (r) => (show || String)(r[field]) });
    const w = (name, field) => ({ name, show: (r) => r[field] });
    this.stepTable.lastChild.replaceChildren(sortableTable("Steps: all messages with the same number of predecessors in their chain", [
      n("step", "step"), n("messages", "messages"), n("senders", "senders"), n("receivers", "receivers"), w("to the rank at", "distance"), w("chunks in one", "chunks"),
      w("contributions in one", "sums"), n("bytes in all", "bytes", byteWords), n("first leaves", "from", psWords), n("last arrives", "until", psWords),
    ], columns));
    this.cellLegend.textContent = c.flow.red ? "cell: filled in proportion to the contributions combined there, with their number (data that has arrived but is not combined yet does not count)" : "cell: the colour of its chunk, and the rank that the chunk came from";
    // Chunks by name: those of the first operand that messages carry.
    this.chunk = -1;
    const names = c.operands.flatMap((o) => c.flow.operands[o].elements.map((_, i) => [o, i]));
    this.chunkSelect.replaceChildren(el("option", { value: -1 }, "all chunks"), ...names.slice(0, 1024).map(([o, i], k) => el("option", { value: k }, c.chunkName(o, i))));
    this.chunks = names;
    this.setMode(this.mode);
    // So many boxes at once say nothing: one rank's do.
    const most = c.byStep.reduce((a, l) => Math.max(a, l.length), 0);
    this.pickRank(most > BUSY ? c.moves[0].from : -1);
  }

  last() { return this.mode === "step" ? this.collective.steps : this.collective.until - this.collective.from; }

  setMode(mode) {
    this.mode = this.modes.value = mode;
    this.slider.max = this.last();
    this.slider.step = mode === "step" ? 1 : Math.max(1, Math.round(this.last() / 500));
    this.go(0);
  }

  go(pos) {
    const c = this.collective;
    this.pos = Math.max(0, Math.min(this.last(), pos));
    const whole = Math.floor(this.pos + 1e-9);
    this.state = this.mode === "step" ? c.afterStep(whole) : c.atTime(c.from + this.pos);
    this.slider.value = this.mode === "step" ? whole : this.pos;
    this.moving.painter.ask();
    this.holding.painter.ask();
    if (this.mode === "time" ? !this.playing : this.said !== this.place()) this.tell();
  }

  /** The messages to draw, each with how far it is. */
  visible() {
    const c = this.collective, follow = this.chunk >= 0 ? this.chunks[this.chunk] : null;
    const mine = (m) => (this.rank < 0 || m.from === this.rank || m.to === this.rank) && (!follow || (m.of === follow[0] && m.chunk <= follow[1] && follow[1] <= m.last));
    if (this.mode === "time") {
      const now = c.from + this.pos;
      return c.moves.filter((m) => m.sent <= now && now < m.arrived && mine(m)).map((m) => ({ m, fraction: (now - m.sent) / (m.arrived - m.sent) }));
    }
    const whole = Math.floor(this.pos + 1e-9), rest = this.pos - whole;
    // Before the first step: what is about to leave.
    if (rest < 1e-6 && whole === 0) return (c.byStep[1] || []).filter(mine).map((m) => ({ m, fraction: 0.3, next: true }));
    if (rest < 1e-6) return (c.byStep[whole] || []).filter(mine).map((m) => ({ m, fraction: 0.5, still: true }));
    return (c.byStep[whole + 1] || []).filter(mine).map((m) => ({ m, fraction: rest }));
  }

  /** Places that the step before has changed; none while something moves. */
  changed() {
    if (this.mode !== "step" || this.pos < 1 || this.pos % 1 > 1e-6) return null;
    const c = this.collective, before = c.afterStep(this.pos - 1), now = c.afterStep(this.pos), out = new Set();
    for (let k = 0; k < now.set.length; k++) if (now.set[k] !== before.set[k] || now.chunk[k] !== before.chunk[k] || now.of[k] !== before.of[k]) out.add(k);
    return out;
  }

  step(by) {
    this.play(false);
    if (this.mode === "step") return this.go(by > 0 ? Math.floor(this.pos + 1e-9) + 1 : Math.ceil(this.pos - 1e-9) - 1);
    // The next or last moment at which something leaves or arrives.
    const c = this.collective, now = c.from + this.pos;
    const all = c.moves.flatMap((m) => [m.sent, m.arrived]).sort((a, b) => a - b);
    const k = by > 0 ? firstAbove(all, now + 0.5) : firstAbove(all, now - 1) - 1;
    this.go((all[Math.max(0, Math.min(all.length - 1, k))] || 0) - c.from);
  }

  play(on) {
    if (on === this.playing) return;
    if (on && this.pos >= this.last()) this.go(0);
    this.playing = on;
    this.toggle.textContent = on ? "pause" : "play";
    this.toggle.setAttribute("aria-label", on ? "Pause" : "Play");
    this.toggle.title = on ? "Pause" : "Play";
    if (!on) { if (this.collective && !this.collective.flow.left_out) this.tell(); return; }
    let before = null, rest = 0;
    const tick = (now) => {
      if (!this.playing) return;
      const passed = before === null ? 0 : Math.min(0.1, (now - before) / 1000);
      before = now;
      const whole = Math.floor(this.pos + 1e-9), paused = this.pos - whole < 1e-6;
      if (this.mode === "time") this.go(this.pos + passed * this.speed * this.last() / 12);
      else if (calm() || (paused && rest < 0.7)) { // at each step there is time to look; without motion steps simply follow each other
        rest += passed * this.speed;
        if (calm() && rest >= 1.4) { rest = 0; this.go(whole + 1); }
      } else {
        const next = this.pos + passed * this.speed / 0.9;
        if (next >= whole + 1) rest = 0;
        this.go(Math.min(next, whole + 1));
      }
      if (this.pos >= this.last()) this.play(false);
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pickRank(rank) {
    this.rank = rank;
    this.rankSelect.value = rank;
    if (this.collective.flow.left_out) return;
    this.go(this.pos);
    this.tell();
  }

  pickChunk(chunk) {
    this.chunk = chunk;
    this.go(this.pos);
    this.tell();
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || ["SELECT", "SUMMARY", "INPUT"].includes(e.target.tagName) || e.target.closest("table, .scroll")) return;
    const onButton = e.target.tagName === "BUTTON";
    const act = { ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1), Home: () => this.go(0), End: () => this.go(this.last()), " ": onButton ? null : () => this.play(!this.playing) }[e.key];
    if (!act) return;
    act();
    e.preventDefault();
  }

  /** What the words are about. */
  place() { return [Math.floor(this.pos + 1e-9), this.collective.flow.region, this.rank, this.chunk].join("/"); }

  /** The position in words. */
  tell() {
    const c = this.collective, whole = Math.floor(this.pos + 1e-9);
    this.said = this.place();
    const seen = this.visible().map((v) => v.m);
    const place = this.mode === "step" ? (whole === 0 ? "At the beginning" : "Step " + whole + " of " + c.steps) : "At " + psWords(this.pos) + " of " + psWords(this.last());
    let text = place + ": ";
    if (this.mode === "step" && whole === 0) text += "nothing has moved yet; the boxes are the messages of step 1. Press play, or step forward.";
    else if (!seen.length) text += "no message is in flight.";
    else text += plural(seen.length, "message") + (this.rank >= 0 ? " from or to " + DATA.ranks[this.rank] : "") + (this.chunk >= 0 ? " with " + c.chunkName(...this.chunks[this.chunk]) : "") + ". " + listWords(seen.slice(0, 3).map((m) => c.moveWords(m)), 3) + (seen.length > 3 ? ", and so on." : ".");
    if (this.mode === "step" && whole === c.steps && whole > 0) text += c.complete(c.afterStep(whole)) ? " Every place holds what the contract requires." : " Some places do not hold what the contract requires.";
    this.says.textContent = text;
    if (this.holds.open) this.holds.lastChild.replaceChildren(this.holding.table());
  }
}

/** What a collective does, from what it was seen to do. */
function introWords(c) {
  const r = c.report, parts = [];
  if (r) parts.push(r.operation + (r.reduce ? " (" + r.reduce + ")" : "") + " of " + byteWords(r.bytes) + " over " + r.axis + ", " + plural(r.ranks, "rank") + " a group" + (r.algorithm ? ", by " + r.algorithm + (r.asked ? "" : ", which kbc selected") : "") + ".");
  if (c.flow.left_out || !c.moves.length) return parts.join(" ");
  const each = c.table();
  const kinds = [...new Set(each.map((e) => e.distance))];
  parts.push(plural(c.steps, "step") + ", " + plural(c.moves.length, "message") + " in all: a step is the n-th message in a row on the way of a chunk.");
  parts.push(kinds.length === 1 ? "In every step ranks send to the rank at " + kinds[0] + (kinds[0].includes("different") ? "." : " from their own, by number in the group.") : "Ranks send to the rank at " + kinds.slice(0, 6).map((k, i) => k + " (step " + (each.findIndex((e) => e.distance === k) + 1) + ")").join("; ") + (kinds.length > 6 ? ", .." : "") + ".");
  if (c.flow.red) {
    const first = c.byStep.findIndex((l) => l.length && l.every((m) => c.members[m.set].length === c.flow.size));
    if (first > 0) parts.push((first === 2 ? "Step 1 adds up" : "Steps 1 to " + (first - 1) + " add up") + "; from step " + first + " on what moves is complete and is handed out.");
  }
  return parts.join(" ");
}
