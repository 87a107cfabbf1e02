// The machine with chunks that move over it: nodes where the machine's coordinates put them, messages as labelled boxes on their way.

const BUSY = 320; // messages at once, above which ways are faint and a rank is picked
const LANES = 6; // boxes between the same two ranks
const NAMED = 70; // boxes up to which each has its chunk's name
const COUNTED = 36; // and up to which the number of its contributions, too

/** Draws ranks, links and the messages of a moment. `view` is the player's state. */
class Moving {
  constructor(canvas, player) {
    this.canvas = canvas;
    this.player = player;
    this.painter = new Painter(() => this.draw());
    whenLookChanges(canvas, this.painter);
    canvas.addEventListener("pointermove", (e) => this.point(e));
    canvas.addEventListener("pointerleave", () => showTip(""));
    canvas.addEventListener("click", (e) => {
      const rank = this.nodeAt(e.offsetX, e.offsetY);
      player.pickRank(rank === player.rank ? -1 : rank);
    });
  }

  layout() {
    const l = new Layout(this.canvas);
    Object.assign(this, { at: l.at, radius: l.radius, way: (...w) => l.way(...w), drawFailed: (...w) => l.drawFailed(...w) });
    return l.height;
  }

  nodeAt(x, y) {
    for (let r = 0; r < DATA.ranks.length; r++) {
      const [px, py] = this.at[r];
      if (Math.hypot(px - x, py - y) <= this.radius + 4) return r;
    }
    return -1;
  }

  point(e) {
    if (!this.at) return;
    const rank = this.nodeAt(e.offsetX, e.offsetY);
    const hit = (this.boxes || []).find((b) => Math.abs(b.x - e.offsetX) < b.w / 2 + 2 && Math.abs(b.y - e.offsetY) < b.h / 2 + 2);
    const { collective, state } = this.player;
    if (hit) showTip(collective.moveWords(hit.m) + "\n" + byteWords(hit.m.bytes) + ", " + psWords(hit.m.sent) + " to " + psWords(hit.m.arrived) + "\n" + OPS[hit.m.op].text, e.clientX, e.clientY);
    else if (rank >= 0) {
      const [good, all] = collective.progress(state, rank);
      showTip(DATA.ranks[rank] + ": " + good + " of " + plural(all, "place") + " as the contract requires\nclick to show only its messages", e.clientX, e.clientY);
    } else showTip("");
  }

  draw() {
    const height = this.layout();
    const { c } = sized(this.canvas, height);
    const t = theme(), p = this.player, collective = p.collective;
    c.lineWidth = 1;
    c.strokeStyle = t.line;
    c.beginPath();
    const { from, to } = DATA.machine;
    // In a circle of many, lines between all of them say nothing.
    if (LINK_COUNT <= 4 * DATA.machine.names.length) {
      for (let l = 0; l < LINK_COUNT; l++) {
        if (from[l] > to[l] || (!RELAYS_SHOWN && Math.max(from[l], to[l]) >= DATA.ranks.length)) continue;
        const [ax, ay] = this.at[from[l]], [bx, by] = this.at[to[l]];
        if (Math.hypot(ax - bx, ay - by) > this.radius * 9) { // around a torus
          const [, , mx, my] = this.way(from[l], to[l], 1, 0.5);
          c.moveTo(ax, ay);
          c.quadraticCurveTo(mx, my, bx, by);
        } else { c.moveTo(ax, ay); c.lineTo(bx, by); }
      }
    }
    c.stroke();
    this.drawFailed(c, t);
    const seen = p.visible();
    this.boxes = [];
    const lanes = new Map();
    const quiet = seen.length > BUSY;
    this.size = quiet ? 4 : seen.length > NAMED ? 7 : 0;
    this.counts = seen.length <= COUNTED;
    const between = new Map();
    for (const { m } of seen) between.set(m.from * 100003 + m.to, (between.get(m.from * 100003 + m.to) || 0) + 1);
    for (const { m, fraction, still, next } of seen) {
      const key = m.from * 100003 + m.to, lane = lanes.get(key) || 0;
      lanes.set(key, lane + 1);
      // Of many between the same two the last box says how many more there are.
      if (lane >= LANES) continue;
      const more = lane === LANES - 1 ? between.get(key) - LANES : 0;
      const end = this.way(m.from, m.to, lane, 1), way = this.way(m.from, m.to, lane, 0.5);
      c.strokeStyle = colourOf(m.chunk);
      c.globalAlpha = quiet ? 0.25 : 0.8;
      c.lineWidth = quiet ? 1 : 2;
      if (next) c.setLineDash([5, 4]);
      c.beginPath();
      c.moveTo(...this.at[m.from]);
      c.quadraticCurveTo(way[2], way[3], end[0], end[1]);
      c.stroke();
      c.setLineDash([]);
      if (!quiet) this.head(c, m, lane);
      c.globalAlpha = 1;
      this.boxes.push({ m, lane, more, fraction: still || next ? 0.32 + 0.17 * (lane % 4) : fraction });
    }
    for (let n = 0; n < (RELAYS_SHOWN ? DATA.machine.names.length : DATA.ranks.length); n++) this.node(c, t, n);
    for (const b of this.boxes) {
      const [x, y] = this.way(b.m.from, b.m.to, b.lane, b.fraction);
      Object.assign(b, { x, y }, this.box(c, t, b.m, x, y, b.more));
    }
    if (!seen.length) {
      c.fillStyle = t.quiet;
      c.font = SMALL_FONT;
      c.textAlign = "left";
      c.fillText(collective.moves.length ? "no message is in flight" : "this collective sends nothing", 10, height - 12);
    }
  }

  head(c, m, lane) {
    const f = Math.max(0.5, 1 - (this.radius + 3) / Math.max(1, Math.hypot(this.at[m.from][0] - this.at[m.to][0], this.at[m.from][1] - this.at[m.to][1])));
    const [x, y] = this.way(m.from, m.to, lane, f), [px, py] = this.way(m.from, m.to, lane, f - 0.05);
    const a = Math.atan2(y - py, x - px), s = Math.min(9, this.radius * 0.7 + 2);
    c.fillStyle = colourOf(m.chunk);
    c.beginPath();
    c.moveTo(x, y);
    c.lineTo(x - s * Math.cos(a - 0.45), y - s * Math.sin(a - 0.45));
    c.lineTo(x - s * Math.cos(a + 0.45), y - s * Math.sin(a + 0.45));
    c.fill();
  }

  /** A chunk: its colour and name, and how many contributions are summed in it. */
  box(c, t, m, x, y, more) {
    const s = this.size;
    if (s) {
      c.fillStyle = colourOf(m.chunk);
      c.fillRect(x - s / 2, y - s / 2, s, s);
      c.strokeStyle = t.ink;
      c.lineWidth = 0.6;
      if (s > 4) c.strokeRect(x - s / 2, y - s / 2, s, s);
      return { w: s, h: s };
    }
    const n = this.player.collective.members[m.set].length;
    const text = "c" + m.chunk + (m.last !== m.chunk ? "–" + m.last : "") + (n > 1 && this.counts ? " ×" + n : "") + (more > 0 ? " and " + more + " more" : "");
    c.font = fontOf(this.counts ? 11 : 10, true);
    const w = c.measureText(text).width + (this.counts ? 8 : 5), h = this.counts ? 16 : 14;
    fillBox(c, m.chunk, x - w / 2, y - h / 2, w, h);
    c.strokeStyle = t.ink;
    c.lineWidth = 1;
    c.strokeRect(x - w / 2, y - h / 2, w, h);
    if (patternOf(m.chunk) !== "plain") { c.fillStyle = colourOf(m.chunk); c.fillRect(x - w / 2 + 3, y - h / 2 + 3, w - 6, h - 6); }
    c.fillStyle = inkOf(m.chunk);
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillText(text, x, y + 0.5);
    return { w, h };
  }

  node(c, t, n) {
    const [x, y] = this.at[n], p = this.player, rank = n < DATA.ranks.length;
    c.textAlign = "center";
    c.textBaseline = "middle";
    if (!rank) {
      c.fillStyle = t.panel;
      c.strokeStyle = t.quiet;
      c.lineWidth = 1;
      c.fillRect(x - 7, y - 7, 14, 14);
      c.strokeRect(x - 7, y - 7, 14, 14);
      if (DATA.machine.names.length <= 80) { c.fillStyle = t.quiet; c.font = fontOf(10); c.fillText(DATA.machine.names[n], x, y - 14); }
      return;
    }
    const [good, all] = p.collective.progress(p.state, n);
    const share = all ? good / all : 1;
    c.fillStyle = t.panel;
    c.beginPath();
    c.arc(x, y, this.radius, 0, 7);
    c.fill();
    c.lineWidth = n === p.rank ? 4 : 1;
    c.strokeStyle = n === p.rank ? t.ink : t.quiet;
    c.stroke();
    c.lineWidth = 4;
    c.strokeStyle = t.accent;
    c.beginPath();
    c.arc(x, y, this.radius - 3, -Math.PI / 2, -Math.PI / 2 + share * Math.PI * 2);
    c.stroke();
    if (this.radius < 9) return;
    c.fillStyle = t.ink;
    c.font = fontOf(Math.min(12, this.radius * 0.62), true);
    const name = DATA.ranks[n].replace(/[a-z_]+=/g, "");
    c.fillText(fitted(c, name, this.radius * 1.6), x, y - (this.radius > 14 && all ? 4 : 0));
    if (this.radius > 14 && all) {
      c.font = fontOf(9);
      c.fillText(good + "/" + all, x, y + 8);
    }
  }
}
