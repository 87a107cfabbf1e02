// What ranks hold at each step or moment of a collective: reads the changes that the data list, and knows no algorithm. Nothing is drawn here.

/** One collective. Places are numbered rank * columns + column, over the columns of all operands that are shown. */
class Collective {
  constructor(flow) {
    this.flow = flow;
    this.words = DATA.regions[flow.region];
    this.report = REPORT.collectives[this.words.collective];
    this.ranks = DATA.ranks.length;
    this.members = flow.sets.map(membersOf);
    // Scratch is shown only where there is nothing else.
    const open = flow.operands.map((o, i) => i).filter((i) => !flow.operands[i].scratch);
    this.operands = open.length ? open : flow.operands.map((_, i) => i);
    this.columns = [];
    this.base = flow.operands.map(() => -1);
    for (const o of this.operands) {
      this.base[o] = this.columns.length;
      flow.operands[o].elements.forEach((elements, chunk) => this.columns.push({ operand: o, chunk, elements }));
    }
    this.width = this.columns.length;
    this.start = this.placed(flow.start);
    this.due = this.placed(flow.due);
    this.steps = flow.moves.step.reduce((a, b) => Math.max(a, b), 0);
    this.moves = flow.moves.from.map((from, i) => ({
      from, to: flow.moves.to[i], op: flow.moves.op[i], bytes: flow.moves.bytes[i], sent: flow.moves.sent[i], arrived: flow.moves.arrived[i],
      step: flow.moves.step[i], of: flow.moves.of[i], chunk: flow.moves.chunk[i], last: flow.moves.last[i], set: flow.moves.set[i],
    }));
    this.byStep = Array.from({ length: this.steps + 1 }, () => []);
    this.moves.forEach((m) => this.byStep[m.step].push(m));
    const ends = this.moves.map((m) => m.arrived).concat(flow.changes.at);
    const starts = this.moves.map((m) => m.sent);
    this.from = starts.length ? starts.reduce((a, b) => Math.min(a, b)) : 0;
    this.until = ends.reduce((a, b) => Math.max(a, b), this.from);
    this.cache = new Map();
  }

  /** Cells of the data as three arrays by place: set, operand and chunk of the contributions; -1 for nothing. */
  placed(cells) {
    const state = { set: new Int32Array(this.ranks * this.width).fill(-1), of: new Int32Array(this.ranks * this.width), chunk: new Int32Array(this.ranks * this.width) };
    cells.rank.forEach((_, i) => this.put(state, cells, i));
    return state;
  }

  put(state, cells, i) {
    const base = this.base[cells.operand[i]];
    if (base < 0) return;
    const at = cells.rank[i] * this.width + base + cells.column[i];
    state.set[at] = cells.set[i];
    state.of[at] = cells.of[i];
    state.chunk[at] = cells.chunk[i];
  }

  /** What is where, after the changes that `has` accepts. */
  after(has) {
    const state = { set: this.start.set.slice(), of: this.start.of.slice(), chunk: this.start.chunk.slice() };
    const c = this.flow.changes;
    for (let i = 0; i < c.at.length; i++) if (has(i)) this.put(state, c.cells, i);
    return state;
  }

  /** After the messages of so many steps. */
  afterStep(step) {
    if (!this.cache.has(step)) {
      if (this.cache.size > 40) this.cache.clear();
      const steps = this.flow.changes.step;
      this.cache.set(step, this.after((i) => steps[i] <= step));
    }
    return this.cache.get(step);
  }

  /** At a moment, ps. */
  atTime(ps) {
    const at = this.flow.changes.at;
    return this.after((i) => at[i] <= ps);
  }

  /** Whether a place holds what the promise asks for there: 1 yes, 0 no, -1 nothing is asked. */
  done(state, place) {
    if (this.due.set[place] < 0) return -1;
    return state.set[place] === this.due.set[place] && state.of[place] === this.due.of[place] && state.chunk[place] === this.due.chunk[place] ? 1 : 0;
  }

  /** How many places of a rank hold what the contract states, and of how many. */
  progress(state, rank) {
    let good = 0, all = 0;
    for (let k = rank * this.width; k < (rank + 1) * this.width; k++) {
      const d = this.done(state, k);
      if (d >= 0) all++;
      if (d > 0) good++;
    }
    return [good, all];
  }

  /** Whether everything promised is there. */
  complete(state) {
    for (let k = 0; k < this.due.set.length; k++) if (this.done(state, k) === 0) return false;
    return true;
  }

  /** Names of members of a set. */
  setWords(set) {
    return listWords(this.members[set].map((r) => DATA.ranks[r]), 6);
  }

  chunkName(operand, chunk, last) {
    const several = this.operands.length > 1 ? this.flow.operands[operand].name + " " : "";
    return several + "c" + chunk + (last !== undefined && last !== chunk ? "–c" + last : "");
  }

  /** A place in words. */
  placeWords(state, rank, column) {
    const at = rank * this.width + column, c = this.columns[column];
    const lines = [DATA.ranks[rank] + ", " + this.flow.operands[c.operand].name + ", chunk c" + c.chunk + " (" + plural(c.elements, "element") + " on the first rank)"];
    const set = state.set[at], due = this.due.set[at];
    if (set < 0) lines.push("has no data of this collective yet");
    else {
      const n = this.members[set].length;
      const of = this.chunkName(state.of[at], state.chunk[at]);
      lines.push("holds " + (this.flow.red ? this.flow.red + " of " + plural(n, "contribution") + " to " : "") + of + " from " + this.setWords(set));
      if (due >= 0 && this.done(state, at) < 1 && this.flow.red) {
        const have = new Set(this.members[set]);
        const missing = this.members[due].filter((r) => !have.has(r));
        if (missing.length) lines.push("missing: " + listWords(missing.map((r) => DATA.ranks[r]), 6));
      }
    }
    if (due >= 0) lines.push(this.done(state, at) > 0 ? "as required" : "required: " + this.chunkName(this.due.of[at], this.due.chunk[at]) + " from " + this.setWords(due));
    else lines.push("the contract covers nothing here");
    return lines.join("\n");
  }

  /** A message in words. */
  moveWords(m) {
    const n = this.members[m.set].length;
    const sum = n > 1 ? " (" + (this.flow.red || "of") + " of " + n + ": " + this.setWords(m.set) + ")" : m.from === this.members[m.set][0] ? "" : " of " + DATA.ranks[this.members[m.set][0]];
    return DATA.ranks[m.from] + " sends " + this.chunkName(m.of, m.chunk, m.last) + sum + " to " + DATA.ranks[m.to];
  }

  /** How far messages of a list go inside their groups: `+1, -1`; a dash where it differs from rank to rank in more than a few ways. */
  distances(list) {
    const size = this.flow.size, found = new Map();
    for (const m of list) {
      let d = (this.flow.group[m.to][1] - this.flow.group[m.from][1] + size) % size;
      if (d > size / 2) d -= size;
      found.set(d, (found.get(d) || 0) + 1);
    }
    const all = [...found.keys()].sort((a, b) => Math.abs(a) - Math.abs(b) || b - a);
    return all.length > 8 ? all.length + " different distances" : all.map((d) => (d > 0 ? "+" : "") + d).join(", ");
  }

  /** One line about each step. */
  table() {
    return this.byStep.slice(1).map((list, i) => {
      const sizes = list.map((m) => this.members[m.set].length);
      const chunks = list.map((m) => m.last - m.chunk + 1);
      const range = (l) => { const lo = Math.min(...l), hi = Math.max(...l); return lo === hi ? String(lo) : lo + " to " + hi; };
      return {
        step: i + 1, messages: list.length, senders: new Set(list.map((m) => m.from)).size, receivers: new Set(list.map((m) => m.to)).size,
        distance: this.distances(list), chunks: list.length ? range(chunks) : "-", sums: list.length ? range(sizes) : "-",
        bytes: list.reduce((a, m) => a + m.bytes, 0), from: list.reduce((a, m) => Math.min(a, m.sent), Infinity), until: list.reduce((a, m) => Math.max(a, m.arrived), 0),
      };
    });
  }
}
