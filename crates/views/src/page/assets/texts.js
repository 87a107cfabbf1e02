// Program and schedule as text: lines with numbers, values with their types beside them, links between lines and operations.

class Texts {
  constructor(program, schedule, pick) {
    this.pick = pick;
    this.lines = new Map(); // file:line -> element
    this.opsAt = new Map(); // file:line -> operations
    OPS.forEach((o, i) => {
      const s = sourceParts(o.source);
      if (s) { const k = s.file + ":" + s.line; if (!this.opsAt.has(k)) this.opsAt.set(k, []); this.opsAt.get(k).push(i); }
    });
    this.values = new Map();
    DATA.values.forEach((v) => {
      const s = sourceParts(v.source);
      if (s) { const k = s.file + ":" + s.line; if (!this.values.has(k)) this.values.set(k, []); this.values.get(k).push(v); }
    });
    if (DATA.values.length) {
      program.append(el("p", {}, "Beside each line: the values that it computes, with the inferred shape and placement. ", el("code", {}, "@axis"), " is split over that axis, ", el("code", {}, "partial(sum@axis)"), " is still to be summed over it."));
      program.append(valuesTable());
    }
    DATA.files.forEach((f, i) => {
      const code = this.file(f);
      program.append(i === 0 ? el("div", {}, el("h3", {}, f.name), code) : el("details", {}, el("summary", {}, f.name + " (text of the library or another file that operations come from)"), code));
    });
    this.kir(schedule);
  }

  box(name, lines) {
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, el("pre", { class: "code" }, lines));
  }

  file(f) {
    const lines = f.text.replace(/\n$/, "").split("\n").map((text, n) => {
      const key = f.name + ":" + (n + 1), ops = this.opsAt.get(key), values = this.values.get(key) || [];
      const words = values.filter((v) => !v.what.startsWith("demand")).map((v) => v.name + ": " + v.type + (v.ranks ? " (ranks " + v.ranks + ")" : ""));
      const line = el("div", { class: "l" + (ops ? " op" : ""), onclick: ops ? () => this.pick(ops[0], "program") : null, title: ops ? plural(ops.length, "operation") + " of the schedule" : null },
        el("span", { class: "n" }, String(n + 1)), el("span", { class: "t" }, text || " "), el("span", { class: "v" }, words.join("  ·  ")));
      this.lines.set(key, line);
      return line;
    });
    return this.box(f.name, lines);
  }

  kir(at) {
    const byLine = new Map();
    OPS.forEach((o, i) => { if (o.line >= 0) byLine.set(o.line, i); });
    this.kirLines = DATA.kir.replace(/\n$/, "").split("\n").map((text, n) => {
      const op = byLine.get(n);
      return el("div", { class: "l" + (op !== undefined ? " op" : ""), onclick: op !== undefined ? () => this.pick(op, "schedule") : null },
        el("span", { class: "n" }, String(n + 1)), el("span", { class: "t" }, text || " "), el("span", { class: "v" }, op !== undefined && OPS[op].source ? OPS[op].source : ""));
    });
    this.opSelect = el("select", { onchange: () => this.pick(Number(this.opSelect.value), "schedule") }, el("option", { value: -1 }, "none"), OPS.map((o, i) => el("option", { value: i }, i + ": " + o.text)));
    const open = el("details", { open: this.kirLines.length < 120 }, el("summary", {}, "The schedule as .kir, " + plural(this.kirLines.length, "line")), this.box("Schedule", this.kirLines));
    this.kirOpen = open;
    at.append(el("p", {}, "One text for all ranks; the operations in ", el("code", {}, "role"), " are executed by each of its ranks. Click an operation or an event of the timeline to highlight the operation, its events, and its source line."),
      el("div", { class: "bar" }, el("label", {}, "Highlighted operation ", this.opSelect)), open);
  }

  /** Highlights an operation; scrolls inside the boxes alone. */
  mark(op, from) {
    for (const l of [...this.kirLines, ...this.lines.values()]) l.classList.remove("on");
    this.opSelect.value = op;
    const o = OPS[op];
    if (!o) return;
    const s = sourceParts(o.source), on = [o.line >= 0 ? this.kirLines[o.line] : null, s ? this.lines.get(s.file + ":" + s.line) : null];
    if (o.line >= 0 && from !== "schedule") this.kirOpen.open = true;
    for (const line of on.filter(Boolean)) {
      line.classList.add("on");
      const details = line.closest("details");
      if (details && from !== "schedule") details.open = true;
      const scroll = line.closest(".scroll");
      scroll.scrollTop += line.getBoundingClientRect().top - scroll.getBoundingClientRect().top - scroll.clientHeight / 3;
    }
  }
}

/** All values with what their placement follows from. */
function valuesTable() {
  const w = (name, field) => ({ name, show: (r) => r[field] });
  return el("details", {}, el("summary", {}, plural(DATA.values.length, "value") + " with placements and the reasons for them"),
    sortableTable("Values", [w("value", "name"), w("type and placement", "type"), w("made by", "what"), w("placement", "why"), w("source", "source")].concat(DATA.values.some((v) => v.ranks) ? [w("ranks", "ranks")] : []), DATA.values));
}
