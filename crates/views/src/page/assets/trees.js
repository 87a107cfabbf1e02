// Packed trees: one tree at a time on the machine, and the certificate of their rate.

/** The trees of all collectives that use packed trees. */
class Trees {
  constructor(at) {
    this.drawn = [];
    const phases = DATA.trees.flatMap((use) => use.phases.map((phase) => ({ use, phase, name: use.phases.length > 1 ? use.name + ", " + phase.collective : use.name })));
    if (!phases.length) {
      at.append(el("p", { class: "quiet" }, "No collective of this program uses packed trees."));
      return;
    }
    this.phases = phases;
    this.phase = el("select", { "aria-label": "Collective", onchange: () => this.pickPhase() }, phases.map((p, i) => el("option", { value: String(i) }, p.name)));
    this.tree = el("select", { "aria-label": "Tree", onchange: () => this.painter.ask() });
    this.canvas = el("canvas", { role: "img", "aria-label": "A tree on the machine; its edges are listed in the text below" });
    this.words = el("p", { class: "quiet" });
    this.facts = el("div");
    at.append(el("p", { class: "controls" }, el("label", {}, "Collective ", this.phase), " ", el("label", {}, "Tree ", this.tree)), this.canvas, this.words, this.facts);
    this.painter = new Painter(() => this.draw());
    whenLookChanges(this.canvas, this.painter);
    this.pickPhase();
  }

  /** The phase that is shown. */
  get shown() { return this.phases[Number(this.phase.value) || 0]; }

  /** The trees of a phase: root, how many are alike, edges with the nodes they pass, and the depth. */
  treesOf({ use, phase }) {
    const list = phase.trees || [...phase.up.map((t) => ({ ...t, way: "up" })), ...phase.down.map((t) => ({ ...t, way: "down" }))];
    return list.map((t) => {
      const root = t.root === undefined ? t.centre : t.root;
      const edges = t.edges.map((e) => (Array.isArray(e) ? { nodes: e } : { nodes: e.nodes || e.routes[0].nodes, others: e.routes ? e.routes.length - 1 : 0 }));
      const depth = new Map([[root, 0]]);
      // The edges of matched trees that lead to the root end nearer to it.
      for (let left = edges.slice(), before = -1; left.length && left.length !== before;) {
        before = left.length;
        left = left.filter(({ nodes }) => {
          const a = nodes[0], b = nodes[nodes.length - 1];
          if (depth.has(a)) depth.set(b, depth.get(a) + 1);
          else if (depth.has(b)) depth.set(a, depth.get(b) + 1);
          else return true;
          return false;
        });
      }
      return { root, edges, depth, way: t.way, alike: t.trees || "1", most: Math.max(...depth.values()), node: (n) => use.nodes[n] };
    });
  }

  pickPhase() {
    const shown = this.shown;
    this.list = this.treesOf(shown);
    const name = (t) => "from " + nodeName(t.node(t.root)) + ", " + plural(Number(t.alike), "tree") + " alike, depth " + t.most + (t.way ? ", " + t.way : "");
    this.tree.replaceChildren(...this.list.map((t, i) => el("option", { value: String(i) }, i + 1 + ": " + name(t))));
    this.facts.replaceChildren(this.certificate(shown));
    this.painter.ask();
  }

  /** Rate, proof and loads in words and as a table. */
  certificate({ use, phase }) {
    const facts = [], fact = (name, words) => facts.push(el("dt", {}, name), el("dd", {}, words));
    const unit = use.unit_bytes_per_second / 1e9, names = (nodes) => listWords(nodes.map((n) => nodeName(use.nodes[n])), 24);
    const fraction = ([a, b]) => (b === "1" ? a : a + "/" + b), value = ([a, b]) => Number(a) / Number(b);
    if (phase.rate) {
      const of = phase.collective === "all_gather" || phase.collective === "reduce_scatter" ? " per rank" : " of the vector";
      fact("Rate", fraction(phase.rate) + " × " + unit + " GB/s = " + (value(phase.rate) * unit).toFixed(3) + " GB/s" + of);
      const p = phase.proof;
      if (p.parts) {
        fact("Why no trees are faster", "the " + p.parts.length + " parts of the partition are joined by " + p.crossing + " × " + unit + " GB/s, and a tree that joins all of them crosses " + (p.parts.length - 1) + " times or more");
        fact("Partition", p.parts.every((q) => q.length === 1) ? "every node by itself" : listWords(p.parts.map((q) => "{" + names(q) + "}"), 12));
      } else {
        const carries = p.capacity ? p.capacity + " × " + unit + " GB/s" : p.whole_trees + " whole trees at the next higher rate";
        fact("Why no trees are faster", "the data of " + plural(Number(p.weight), "rank") + " crosses the boundary of the tight set, which carries " + carries);
        fact("Tight set", plural(p.cut.length, "node") + ": " + names(p.cut));
      }
    } else fact("Rate", "these trees are matched greedily for little latency; no proof says that nothing is faster");
    const count = this.list.reduce((n, t) => n + Number(t.alike), 0);
    fact("Trees", plural(count, "tree") + " of " + plural(this.list.length, "shape") + ", depth at most " + Math.max(...this.list.map((t) => t.most)) + "; the data of a tree is cut into " + plural(phase.pieces, "piece"));
    fact("Messages", phase.messages + " in " + plural(phase.rounds, "round") + "; " + timeWords(phase.planned_ns) + " planned for " + byteWords(phase.bytes));
    const out = el("div", {}, el("dl", { class: "facts" }, facts));
    if (phase.loads) {
      const rows = phase.loads.map(([from, to, trees, limit]) => ({ link: nodeName(use.nodes[from]) + "->" + nodeName(use.nodes[to]), trees: Number(trees), limit: Number(limit) }));
      const num = (name, key, show) => ({ name, num: true, key, show });
      out.append(el("details", {}, el("summary", {}, "Load of every link"), sortableTable("Loads", [
        { name: "link", key: (r) => r.link, show: (r) => r.link }, num("trees", (r) => r.trees, (r) => String(r.trees)), num("room for", (r) => r.limit, (r) => String(r.limit)),
        num("full", (r) => r.trees / r.limit, (r) => percentWords(100 * r.trees / r.limit)),
      ], rows)));
    }
    return out;
  }

  draw() {
    const tree = this.list[Number(this.tree.value) || 0], m = new Layout(this.canvas), { c } = sized(this.canvas, m.height), t = theme();
    c.strokeStyle = t.line;
    c.lineWidth = 1;
    for (let l = 0; l < LINK_COUNT && LINK_COUNT <= 4000; l++) this.curve(c, m, DATA.machine.from[l], DATA.machine.to[l]);
    m.drawFailed(c, t);
    this.drawn = [];
    for (const { nodes } of tree.edges) {
      const level = Math.max(tree.depth.get(nodes[0]), tree.depth.get(nodes[nodes.length - 1])) - 1;
      c.strokeStyle = c.fillStyle = colourOf(level);
      c.lineWidth = 3;
      for (let i = 0; i + 1 < nodes.length; i++) this.arrow(c, m, tree.node(nodes[i]), tree.node(nodes[i + 1]));
      this.drawn.push(level);
    }
    for (let n = 0; n < DATA.machine.names.length; n++) this.node(c, m, t, n, tree);
    this.words.textContent = "Edges have a colour for each step from the root, which is drawn bold, and nodes show their depth. "
      + (this.shown.phase.rate && this.shown.phase.proof.parts ? "Sums go up the tree, and results come down." : this.shown.phase.collective === "reduce_scatter" || this.shown.phase.collective === "reduce" ? "Sums go along the arrows in reverse, to the root." : "")
      + (tree.edges.some((e) => e.others) ? " Some edges have further routes, of which the first is drawn." : "");
  }

  curve(c, m, a, b) {
    const end = m.way(a, b, 0, 1), mid = m.way(a, b, 0, 0.5);
    c.beginPath();
    c.moveTo(...m.at[a]);
    c.quadraticCurveTo(mid[2], mid[3], end[0], end[1]);
    c.stroke();
  }

  arrow(c, m, a, b) {
    this.curve(c, m, a, b);
    const f = Math.max(0.5, 1 - (m.radius + 2) / Math.max(1, Math.hypot(m.at[a][0] - m.at[b][0], m.at[a][1] - m.at[b][1])));
    const [x, y] = m.way(a, b, 0, f), [px, py] = m.way(a, b, 0, f - 0.05), turn = Math.atan2(y - py, x - px), s = Math.min(11, m.radius * 0.7 + 3);
    c.beginPath();
    c.moveTo(x, y);
    c.lineTo(x - s * Math.cos(turn - 0.45), y - s * Math.sin(turn - 0.45));
    c.lineTo(x - s * Math.cos(turn + 0.45), y - s * Math.sin(turn + 0.45));
    c.fill();
  }

  node(c, m, t, n, tree) {
    const [x, y] = m.at[n], local = this.shown.use.nodes.indexOf(n), root = local === tree.root, rank = n < DATA.ranks.length;
    c.fillStyle = t.panel;
    c.strokeStyle = root ? t.ink : t.quiet;
    c.lineWidth = root ? 4 : 1;
    c.beginPath();
    if (rank) c.arc(x, y, m.radius, 0, 7); else c.rect(x - 8, y - 8, 16, 16);
    c.fill();
    c.stroke();
    if (m.radius < 9) return;
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillStyle = t.ink;
    c.font = fontOf(Math.min(12, m.radius * 0.62), true);
    const deep = tree.depth.get(local), two = rank && deep !== undefined && m.radius > 14;
    c.fillText(fitted(c, DATA.machine.names[n], m.radius * 1.8), x, y - (two ? 5 : 0));
    if (two) { c.font = fontOf(9); c.fillText(root ? "root" : String(deep), x, y + 8); }
  }
}
const nodeName = (n) => DATA.machine.names[n];
