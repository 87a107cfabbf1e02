// Puts the parts together: one operation is highlighted in all of them.

const parts = {};
const pickOp = (op, from) => {
  if (op < 0 || op === undefined) { parts.timeline.mark(-1); parts.texts.mark(-1, from); return; }
  parts.timeline.mark(op);
  parts.texts.mark(op, from);
};

byId("title").textContent = (REPORT.program || "schedule") + " on " + (REPORT.machine || "no machine").split(" {")[0];
byId("subtitle").textContent = REPORT.file + ", mesh " + REPORT.mesh.map((a) => a.name + " = " + a.size).join(", ") + (REPORT.collectives.length ? ": " + REPORT.collectives.map((c) => c.operation + " by " + (c.algorithm || "a schedule")).join("; ") : "");
drawSummary(byId("summary-body"));
parts.timeline = new Timeline(byId("timeline-body"), pickOp);
parts.texts = new Texts(byId("program-body"), byId("schedule-body"), pickOp);
drawPath(byId("path-body"), parts.timeline, pickOp);
parts.heat = new Heat(byId("links-body"), pickOp);
parts.trees = new Trees(byId("trees-body"));
drawTables(byId("tables-body"));
drawEvidence(byId("evidence-body"));
const collectives = DATA.flows.map((f) => new Collective(f));
if (collectives.length) parts.player = new Player(byId("steps-body"), collectives);
else byId("steps-body").append(el("p", {}, "The program has no collective with data, so nothing moves between ranks."));
// A link to a step: report.html#step=5, and to one by time in ns: #ns=1200.
const asked = /^#(step|ns)=(\d+)$/.exec(location.hash);
if (asked && parts.player) {
  parts.player.setMode(asked[1] === "step" ? "step" : "time");
  parts.player.go(Number(asked[2]) * (asked[1] === "step" ? 1 : 1000));
  byId("steps").scrollIntoView();
}
if (location.hash === "#selftest") selftest(parts);
