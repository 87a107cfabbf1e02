// What every rank holds, as a matrix: a row a rank, a column a chunk; filled as far as contributions are there, with their number.

class Holding {
  constructor(canvas, player) {
    this.canvas = canvas;
    this.player = player;
    this.painter = new Painter(() => this.draw());
    whenLookChanges(canvas, this.painter);
    canvas.addEventListener("pointermove", (e) => {
      const hit = this.hit(e.offsetX, e.offsetY);
      showTip(hit ? player.collective.placeWords(player.state, hit.rank, hit.column) : "", e.clientX, e.clientY);
    });
    canvas.addEventListener("pointerleave", () => showTip(""));
    canvas.addEventListener("click", (e) => {
      const hit = this.hit(e.offsetX, e.offsetY);
      if (hit) player.pickRank(hit.rank === player.rank ? -1 : hit.rank);
    });
  }

  layout() {
    const { collective } = this.player;
    const width = this.canvas.clientWidth || 400;
    const ctx = this.canvas.getContext("2d");
    ctx.font = SMALL_FONT;
    this.left = Math.min(width * 0.25, DATA.ranks.reduce((a, r) => Math.max(a, ctx.measureText(r).width), 0) * 1.15 + 16);
    this.gap = collective.operands.length > 1 ? 14 : 0;
    const usable = width - this.left - 8 - this.gap * (collective.operands.length - 1);
    this.cellW = Math.min(64, usable / Math.max(1, collective.width));
    this.cellH = Math.max(4, Math.min(34, 480 / collective.ranks, Math.max(this.cellW, 24)));
    this.top = 34;
    this.xs = collective.columns.map((c, i) => this.left + i * this.cellW + this.gap * collective.operands.indexOf(c.operand));
    return this.top + collective.ranks * this.cellH + 8;
  }

  hit(x, y) {
    if (!this.xs) return null;
    const rank = Math.floor((y - this.top) / this.cellH);
    const column = this.xs.findIndex((l) => x >= l && x < l + this.cellW);
    return rank >= 0 && rank < this.player.collective.ranks && column >= 0 ? { rank, column } : null;
  }

  draw() {
    const height = this.layout();
    const { c } = sized(this.canvas, height);
    const t = theme(), p = this.player, collective = p.collective, state = p.state;
    const changed = p.changed();
    c.textBaseline = "middle";
    c.font = SMALL_FONT;
    collective.operands.forEach((o) => {
      c.fillStyle = t.quiet;
      c.textAlign = "left";
      c.fillText(fitted(c, collective.flow.operands[o].name, 120), this.xs[collective.base[o]], 9);
    });
    const named = Math.max(1, Math.ceil(26 / this.cellW));
    c.textAlign = "center";
    collective.columns.forEach((col, i) => { if (col.chunk % named === 0) c.fillText("c" + col.chunk, this.xs[i] + this.cellW / 2, 24); });
    const rows = Math.max(1, Math.ceil(12 / this.cellH));
    for (let r = 0; r < collective.ranks; r++) {
      const y = this.top + r * this.cellH;
      if (r % rows === 0 || r === p.rank) {
        c.textAlign = "right";
        c.fillStyle = r === p.rank ? t.ink : t.quiet;
        c.font = r === p.rank ? fontOf(12, true) : SMALL_FONT;
        c.fillText(fitted(c, DATA.ranks[r], this.left - 6), this.left - 5, y + this.cellH / 2);
      }
      for (let k = 0; k < collective.width; k++) this.cell(c, t, collective, state, r, k, y, changed);
      if (r === p.rank && collective.width) {
        c.strokeStyle = t.ink;
        c.lineWidth = 2;
        const end = this.xs[this.xs.length - 1] + this.cellW;
        c.strokeRect(this.left - 1, y, end - this.left + 2, this.cellH);
      }
    }
  }

  cell(c, t, collective, state, r, k, y, changed) {
    const at = r * collective.width + k, x = this.xs[k], set = state.set[at];
    const gap = this.cellW > 8 ? 1.5 : 0.3, w = this.cellW - 2 * gap, h = this.cellH - 2 * gap;
    c.fillStyle = t.track;
    c.fillRect(x + gap, y + gap, w, h);
    if (set >= 0) {
      const have = collective.members[set].length, want = collective.due.set[at] >= 0 ? collective.members[collective.due.set[at]].length : have;
      // What is there is seen, however little it is.
      const part = collective.flow.red ? Math.max(Math.min(1, 1.5 / h), Math.min(1, have / Math.max(have, want))) : 1;
      fillBox(c, state.chunk[at], x + gap, y + gap + h * (1 - part), w, h * part);
      if (this.cellW >= 18 && this.cellH >= 13) {
        const text = collective.flow.red ? String(have) : DATA.ranks[collective.members[set][0]].replace(/[a-z_]+=/g, "");
        c.font = fontOf(Math.min(12, this.cellH - 3), true);
        c.textAlign = "center";
        const tw = Math.min(w, c.measureText(text).width + 5), size = Math.min(14, h);
        c.fillStyle = t.paper;
        c.globalAlpha = 0.85;
        c.fillRect(x + this.cellW / 2 - tw / 2, y + this.cellH / 2 - size / 2, tw, size);
        c.globalAlpha = 1;
        c.fillStyle = t.ink;
        c.fillText(fitted(c, text, w), x + this.cellW / 2, y + this.cellH / 2 + 0.5);
      }
    }
    const done = collective.done(state, at);
    // Frames around tiny cells would hide what is in them.
    const framed = this.cellW >= 8 && this.cellH >= 8;
    if (done > 0 && framed) {
      c.strokeStyle = t.ink;
      c.lineWidth = this.cellW > 12 ? 2 : 0.7;
      c.strokeRect(x + gap + 0.5, y + gap + 0.5, w - 1, h - 1);
    }
    if (changed && framed && changed.has(at)) {
      c.strokeStyle = t.bad;
      c.lineWidth = this.cellW > 12 ? 3 : 1;
      c.setLineDash([4, 2]);
      c.strokeRect(x + gap + 1, y + gap + 1, w - 2, h - 2);
      c.setLineDash([]);
    }
  }

  /** The same as a table, for those who read it: only where it is small enough to be read. */
  table() {
    const { collective, state } = this.player;
    if (collective.ranks * collective.width > 1200) return el("p", { class: "quiet" }, "The matrix has " + collective.ranks * collective.width + " places, which is too many for a table. Select a rank above to read its messages.");
    const heads = collective.columns.map((col) => el("th", { scope: "col" }, collective.chunkName(col.operand, col.chunk)));
    const rows = DATA.ranks.map((name, r) => el("tr", {}, el("th", { scope: "row" }, name), collective.columns.map((_, k) => {
      const set = state.set[r * collective.width + k];
      const text = set < 0 ? "–" : collective.flow.red ? collective.members[set].length + ": " + collective.flow.sets[set] : collective.chunkName(state.of[r * collective.width + k], state.chunk[r * collective.width + k]) + " of " + collective.flow.sets[set];
      return el("td", {}, text + (collective.done(state, r * collective.width + k) > 0 ? " ✓" : ""));
    })));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What each rank holds" },
      el("table", {}, el("caption", {}, "What each rank holds now: " + (collective.flow.red ? "number of contributions, and the ranks that they come from" : "the rank that the chunk comes from") + "; ✓ as the contract states"), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "rank"), heads)), el("tbody", {}, rows)));
  }
}
