// Checks that need a browser, run where the address ends in #selftest; what they find is written into the page. Counts, no times.

function selftest(parts) {
  const { timeline, player, texts } = parts, out = [];
  const check = (name, ok, words) => out.push((ok ? "ok " : "FAIL ") + name + (words ? ": " + words : ""));
  const key = (at, k) => at.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true }));
  const tries = (name, act) => { try { act(); } catch (e) { check(name, false, String(e && e.stack || e)); } };

  tries("sections", () => {
    const empty = [...document.querySelectorAll("main section")].filter((s) => !s.querySelector("div").textContent.trim());
    check("sections are filled", !empty.length, empty.map((s) => s.id).join(" "));
    check("headings name sections", [...document.querySelectorAll("main section")].every((s) => byId(s.getAttribute("aria-labelledby"))));
  });
  tries("focus", () => {
    const all = [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex='0']")];
    check("nothing changes the order of focus", !document.querySelector("[tabindex]:not([tabindex='0']):not([tabindex='-1'])"));
    const name = (e) => e.getAttribute("aria-label") || e.textContent.trim() || (e.closest("label") && e.closest("label").textContent.trim()) || e.title;
    const nameless = all.filter((e) => !name(e));
    check("everything that takes focus has a name", all.length > 20 && !nameless.length, nameless.map((e) => e.outerHTML.slice(0, 80)).join(" | "));
    const closed = (e) => e.closest("details:not([open]) > :not(summary)");
    const seen = all.filter((e) => e.offsetParent && !e.disabled && !closed(e));
    const deaf = seen.filter((e) => { e.focus(); return document.activeElement !== e; });
    check("everything that is seen takes focus", !deaf.length, deaf.map((e) => e.outerHTML.slice(0, 80)).join(" | "));
    check("the skip link comes first", all[0].classList.contains("skip"));
  });
  tries("trees", () => {
    const { trees } = parts;
    if (!DATA.trees.length) { check("a page without trees says so", byId("trees-body").textContent.includes("No collective")); return; }
    trees.phases.forEach((p, i) => {
      trees.phase.value = String(i);
      trees.pickPhase();
      check("every tree joins all ranks of its group once", trees.list.every((t) => t.edges.length + 1 === t.depth.size && t.most > 0), p.name);
      trees.list.forEach((t, k) => { trees.tree.value = String(k); trees.draw(); check("the edges of a tree are drawn", trees.drawn.length === t.edges.length && trees.drawn.every((d) => d >= 0)); });
      const loads = p.phase.loads || [];
      check("no link carries more trees than it has room for", loads.every((l) => BigInt(l[2]) <= BigInt(l[3])));
      check("the certificate is listed", trees.facts.querySelectorAll("dt").length >= 3 && (!loads.length || trees.facts.querySelectorAll("tbody tr").length === Math.min(200, loads.length)));
    });
    trees.phase.value = trees.tree.value = "0";
    trees.pickPhase();
  });
  tries("sort", () => {
    const table = [...document.querySelectorAll("table")].find((t) => t.caption && t.caption.textContent === "Ranks"), head = table.tHead.querySelectorAll("th button");
    head[1].click();
    const keys = () => [...table.tBodies[0].rows].map((r) => DATA.rank_rows[Number(r.dataset.row)].finish_ns);
    const sorted = (l, sign) => l.every((x, i) => i === 0 || sign * (x - l[i - 1]) >= 0);
    check("a click sorts down", head[1].parentNode.getAttribute("aria-sort") === "descending" && sorted(keys(), -1) && keys().length > 1);
    head[1].click();
    check("another sorts up", head[1].parentNode.getAttribute("aria-sort") === "ascending" && sorted(keys(), 1));
    head[0].focus();
    key(head[0], "ArrowRight");
    check("arrow keys go from head to head", document.activeElement === head[1]);
  });
  tries("rows", () => {
    const inRows = timeline.rows.reduce((a, r) => a + r.lanes.reduce((b, l) => b + l.numbers.length, 0), 0);
    const others = DATA.shown ? inRows <= eventCount() : inRows === eventCount();
    check("every event is in a row", others && inRows > 0, inRows + " of " + eventCount());
    const apart = timeline.rows.every((r) => r.lanes.every((l) => l.start.every((s, i) => i === 0 || s >= l.end[i - 1])));
    check("events of a lane do not overlap", apart);
  });
  tries("zoom", () => {
    const before = timeline.painter.draws;
    timeline.canvas.focus();
    for (let i = 0; i < 12; i++) key(timeline.canvas, "+");
    check("keys zoom", timeline.view.to - timeline.view.from < timeline.end * 0.5 || timeline.end <= 100);
    check("many keys in one frame ask for one drawing", timeline.painter.draws === before && timeline.painter.asked);
    let most = 0;
    const draws = 20, first = timeline.painter.draws;
    for (let i = 0; i < draws; i++) { timeline.zoom(i < 10 ? 0.6 : 1.7); timeline.painter.now(); most = Math.max(most, timeline.boxes); }
    check("a change of the zoom is one drawing", timeline.painter.draws === first + draws);
    const lanes = timeline.visibleRows().reduce((a, r) => a + r.lanes.length, 0);
    check("a drawing has at most one box a pixel and lane", most <= (timeline.width + 2) * Math.max(1, lanes), most + " boxes, " + lanes + " lanes");
    key(timeline.canvas, "Home");
    check("Home shows the whole run", timeline.view.from === 0 && timeline.view.to === timeline.end);
    key(timeline.canvas, "ArrowRight");
    check("the whole run cannot be moved away", timeline.view.from === 0);
  });
  tries("filter", () => {
    const name = timeline.rows[0].name;
    timeline.filter(name);
    check("a name finds its rows", timeline.shown.length > 0 && timeline.shown.every((r) => r.name.includes(name)));
    timeline.filter("");
  });
  tries("pick", () => {
    key(timeline.canvas, "n");
    key(timeline.canvas, "n");
    for (let i = 0; i < 50 && timeline.op < 0; i++) key(timeline.canvas, "n");
    const on = document.querySelectorAll(".l.on");
    check("an event highlights its operation", timeline.op >= 0 && on.length > 0 && [...on].some((l) => l.textContent.includes(OPS[timeline.op].text)), "op " + timeline.op);
    check("and tells of it", timeline.detail.textContent.includes("op " + timeline.op));
  });
  tries("steps", () => {
    for (const [i, c] of (player ? player.collectives : []).entries()) {
      if (c.flow.left_out) continue;
      player.choose(i);
      player.setMode("step");
      key(player.body, "End");
      check("collective " + i + ": the last step has every contribution", (c.due.set.some((s) => s >= 0) || !c.moves.length) && c.complete(player.state));
      check("collective " + i + ": words say so", !c.steps || player.says.textContent.includes("Every place holds"), player.says.textContent);
      check("collective " + i + ": at the begin it is not so", c.steps === 0 || !c.complete(c.afterStep(0)));
      key(player.body, "ArrowLeft");
      check("collective " + i + ": a key steps back", c.steps === 0 || player.pos === c.steps - 1);
      player.setMode("time");
      player.go(player.last());
      check("collective " + i + ": so has the end of the time", c.complete(player.state));
      player.setMode("step");
      player.moving.painter.now();
      player.holding.painter.now();
    }
    if (player) player.choose(0);
  });
  tries("heat", () => {
    const places = clearPlaces([{ choices: [[10, 10], [40, 10]], width: 20 }, { choices: [[40, 10]], width: 20 }, { choices: [[40, 30]], width: 20 }], [[8, 8]], 9, 14);
    check("percentages are clear of nodes and of each other", JSON.stringify(places) === "[[40,10],null,[40,30]]", JSON.stringify(places));
  });
  tries("program", () => {
    check("values stand beside lines", !DATA.values.length || [...texts.lines.values()].some((l) => l.querySelector(".v").textContent));
    check("nothing was loaded", performance.getEntriesByType("resource").length === 0);
    const texts2 = document.body.innerText;
    check("no number is missing", !/\bNaN\b|\bundefined\b|\[object/.test(texts2), (/.{30}(\bNaN\b|\bundefined\b|\[object).{20}/.exec(texts2) || [""])[0]);
  });
  const failed = out.filter((l) => l.startsWith("FAIL")).length;
  const at = byId("selftest");
  at.textContent = out.join("\n") + "\nselftest: " + (out.length - failed) + " passed, " + failed + " failed";
  at.hidden = false;
  at.style.whiteSpace = "pre-wrap";
}
