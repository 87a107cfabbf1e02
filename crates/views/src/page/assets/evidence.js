// Summary and evidence in words: what was proven, executed, compared and timed, and what was not and why.

/** The verdict and the numbers that matter. */
function drawSummary(at) {
  const card = (value, words) => el("div", { class: "card" }, el("b", {}, value), el("span", {}, words));
  const r = REPORT, path = r.totals.filter((t) => t.ns > 0).sort((a, b) => b.ns - a.ns);
  at.append(el("p", { class: r.ok ? "good" : "bad" }, el("b", {}, r.ok ? "✓ Proven and numerically correct." : "✗ The results are wrong: see Evidence.")));
  at.append(el("div", { class: "cards" },
    card(timeWords(r.time_ns), "time of one call, simulated"),
    card(timeWords(r.bound_ns), "lower bound: no schedule of this program can be faster on this machine"),
    card(percentWords(r.percent), "of the bound is reached"),
    card(path.length ? path[0].cause + " " + percentWords(path[0].percent) : "-", "most of the critical path"),
    card(r.links.length ? r.links[0].link + " " + percentWords(r.links[0].use_percent) : "-", "busiest link and its use"),
    card(String(r.messages === null ? "-" : r.messages), "messages in one call")));
  at.append(el("p", {}, whyWords()));
  if (r.totals.some((t) => t.ns > 0)) at.append(el("h3", {}, "Parts of the time (critical path)"), sharesBar());
}

/** Why it takes that long, in a few sentences. */
function whyWords() {
  const r = REPORT, out = [];
  if (r.bottleneck) out.push("The bound is set by: " + r.bottleneck + ".");
  const share = Object.fromEntries(r.totals.map((t) => [t.cause, t.percent])), top = r.totals.slice().sort((a, b) => b.ns - a.ns)[0];
  if (top && top.ns > 0) {
    const words = { latency: "latency-bound: dependent messages pay the latency of every hop; fewer or shorter hops in a chain would help", bytes: "bandwidth-bound: more bandwidth, or fewer bytes on the busiest link or memory, would help", queueing: "queueing: messages wait for links that other messages use; another route or order would help", preload: "preloading: cores load operands before they multiply; fewer preloaded operands would help", work: "compute-bound: faster devices or smaller parts would help", fences: "fences: ranks wait until their own writes are visible" }[top.cause];
    out.push("The largest part of it (" + percentWords(top.percent) + " of the critical path) is " + top.cause + (words ? ": " + words : "") + ".");
  }
  const wait = share.queueing || 0;
  if (wait > 15 && top.cause !== "queueing") out.push("Another " + percentWords(wait) + " is waiting for busy resources.");
  if (r.exposed_ns !== undefined && r.exposed_ns !== null) out.push("Collectives run for " + timeWords(r.communication_ns) + "; " + timeWords(r.exposed_ns) + " of that is not hidden behind local work.");
  if (r.unlimited && r.unlimited.length) out.push("Assumed infinitely fast on this machine: " + r.unlimited.join(", ") + ".");
  return out.join(" ");
}

function comparisonWords(c) {
  if (c.unfit) return "could not be compared: " + c.unfit;
  const head = (c.mismatches === 0 && c.beyond === 0 ? "all " + c.elements + " elements on all ranks agree with " : c.mismatches + " of " + c.elements + " elements differ from ") + c.against;
  const worst = c.worst ? "; furthest off: " + c.worst.rank + " [" + c.worst.index.join(", ") + "], " + c.worst.got + " for " + c.worst.expected + ", allowed " + c.worst.bound : "";
  return c.result + ": " + head + "; largest error " + (c.max_err === null ? "unlimited" : c.max_err.toPrecision(3)) + " of its bound" + worst + (c.unbounded ? "; " + c.unbounded + " pass without a bound" : "") + (c.hints.length ? "; " + c.hints.join("; ") : "");
}

function orderWords(o) {
  const verdict = { exact: "it changes no bits", fixed: "one for all elements of a value", by_position: "by position of the element" }[o.verdict] || "not found out";
  const out = [verdict + (o.why ? " (" + o.why + ")" : "")];
  if (o.equal_on_ranks !== null) out.push(o.equal_on_ranks ? "all ranks have equal bits" : "ranks may differ in bits");
  o.values.forEach((v) => out.push(v.name + " (" + v.read_by + "): " + plural(v.orders, "order") + ", at most " + plural(v.additions, "addition") + " for a contribution"));
  return out.join("; ");
}

function drawEvidence(at) {
  const r = REPORT, v = r.verified, facts = [];
  const fact = (name, ...words) => facts.push(el("dt", {}, name), el("dd", {}, ...words));
  if (v) {
    fact("Proven", (v.ok ? "✓ " : "✗ ") + v.shown + ", on " + (v.calls === "any" ? "the first call and every later one, at any skew of the ranks" : "the first call only") + ".");
    fact("How", "meaning: " + v.meaning + " (exact: every contribution is tracked; symmetric: one rank of each orbit stands for the others; fingerprints: random sums); " + v.ranks_walked + " ranks and " + plural(v.calls_walked, "call") + " walked, " + plural(v.operations, "operation") + ". The checker proved the schedule shown here; it does not depend on any pass or algorithm.");
    if (v.counter_range !== null) fact("Counters", "leave 32 bits after " + v.counter_range + " calls.");
  }
  fact("Executed", r.engine ? "one call on every rank, by " + (r.engine === "jit" ? "machine code (jit), which must agree with the interpreter bit for bit" : "the interpreter, which defines the meaning of a schedule") + "." : "no (--no-data).");
  r.inputs.forEach((i) => fact("Input " + i.name, i.type + ", from " + i.from));
  if (!r.inputs.length && r.engine) fact("Inputs", "generated: exact integers.");
  if (r.compare) fact("Compared", comparisonWords(r.compare) + ".");
  r.expect.forEach((c) => fact("Stored result", comparisonWords(c) + "."));
  if (r.order) fact("Order of additions", orderWords(r.order) + ".");
  if (r.time_ns !== null) fact("Timed", timeWords(r.time_ns) + " for one call on " + machineWords(r.machine) + "; simulated: " + r.simulated + ". The timeline is the same run with every rank observed.");
  if (r.perturb) fact("Perturbed", plural(r.perturb.runs, "run") + " from seed " + r.perturb.seed + ": " + timeWords(r.perturb.min_ns) + " to " + timeWords(r.perturb.max_ns) + ", median " + timeWords(r.perturb.median_ns) + ".");
  const not = [];
  if (!r.engine) not.push("Execution and comparison with the single-device result: skipped because of --no-data. The contract of the schedule is still proven.");
  if (!r.compare && r.engine) not.push("Comparison with a single-device result: a .kir schedule has no program to compare with; its contract is proven.");
  if (!r.expect.length && r.compare) not.push("Comparison with stored results: the program has no `expect`.");
  not.push("Adversarial runs (stale views, late puts): use `kbc run --adversarial`.");
  if (!r.perturb) not.push("Stragglers and slow links: the machine has no `perturb` section.");
  not.push("Emission and a run on a device: this page shows the simulator; use `kbc compile --target` to emit.");
  if (r.chosen.length) not.push("Published values: these settings are assumed, because no values are published for this machine: " + r.chosen.join("; ") + ".");
  if (r.unlimited.length) not.push("Modelled time: " + r.unlimited.join(", ") + " take no time, because the machine does not define them.");
  DATA.flows.filter((f) => f.left_out).forEach((f) => not.push("Step by step of " + DATA.regions[f.region].name + ": " + f.left_out + "."));
  if (DATA.shown) not.push("Timeline of ranks other than " + DATA.shown + ": omitted because of --trace-ranks.");
  fact("Machine", r.machine || "-");
  fact("Mesh", r.mesh.map((a) => a.name + " = " + a.size).join(", "));
  if (r.params.length) fact("Parameters", r.params.map((p) => p.name + " = " + p.value).join(", "));
  fact("Made by", "kbc " + DATA.kbc + ", data of this page version " + DATA.schema + ", report version " + r.schema + ".");
  fact("Again", el("code", {}, DATA.command));
  at.append(el("dl", { class: "facts" }, facts), el("h3", {}, "What this page does not show, and why"), el("ul", {}, not.map((n) => el("li", {}, n))),
    el("p", { class: "quiet" }, "Equal inputs give an identical page: it contains no clock time and no path of this computer. Times are rounded to a picosecond."));
}
