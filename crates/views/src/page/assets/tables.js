// Sortable tables, as real tables: a button in each head, aria-sort, arrow keys from head to head.

/**
 * A table. `columns`: {name, num, show(row), key(row)}; rows are any things. At most `most` rows are put into the page at first; a
 * button says how many there are and shows them.
 */
function sortableTable(caption, columns, rows, options) {
  const { most = 200, onpick = null } = options || {};
  const body = el("tbody");
  let order = rows.map((_, i) => i);
  let shown = Math.min(most, rows.length);
  const more = el("button", { type: "button", onclick: () => { shown = rows.length; fill(); } });
  const heads = columns.map((column, k) =>
    el("th", { scope: "col", class: column.num ? "num" : null, "aria-sort": "none" },
      el("button", { type: "button", onclick: () => sort(k), title: "Sort by " + column.name }, column.name)));
  function fill() {
    body.replaceChildren(...order.slice(0, shown).map((i) => {
      const row = rows[i];
      const cells = columns.map((c, k) => {
        const text = c.show(row);
        return k === 0 ? el("th", { scope: "row", class: c.num ? "num" : null }, text) : el("td", { class: c.num ? "num" : null }, text);
      });
      return el("tr", { "data-row": i, ondblclick: onpick && (() => onpick(row)) }, cells);
    }));
    more.textContent = "Show all " + rows.length + " rows (" + shown + " are shown)";
    more.hidden = shown >= rows.length;
  }
  function sort(k) {
    const down = heads[k].getAttribute("aria-sort") === "descending" ? false : columns[k].num || heads[k].getAttribute("aria-sort") === "ascending";
    heads.forEach((h, i) => h.setAttribute("aria-sort", i === k ? (down ? "descending" : "ascending") : "none"));
    const key = columns[k].key || columns[k].show;
    const keys = rows.map(key);
    const compare = (a, b) => (keys[a] === keys[b] ? a - b : keys[a] === null ? 1 : keys[b] === null ? -1 : (keys[a] < keys[b]) !== down ? -1 : 1);
    order.sort(compare);
    fill();
  }
  const head = el("tr", {
    onkeydown: (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      const at = heads.findIndex((h) => h.contains(document.activeElement));
      if (!step || at < 0) return;
      heads[(at + step + heads.length) % heads.length].firstChild.focus();
      e.preventDefault();
    },
  }, heads);
  fill();
  const table = el("table", {}, el("caption", {}, caption), el("thead", {}, head), body);
  const box = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
  return el("div", {}, box, more);
}

/** All tables of the section. */
function drawTables(at) {
  const num = (name, field, show) => ({ name, num: true, key: (r) => r[field], show: (r) => show(r[field]) });
  const word = (name, field) => ({ name, key: (r) => r[field] || "", show: (r) => r[field] || "-" });
  const plain = (n) => String(n);
  at.append(sortableTable("Collectives", [
    word("collective", "operation"), word("algorithm", "algorithm"), word("axis", "axis"), num("ranks", "ranks", plain), num("bytes", "bytes", byteWords),
    num("time", "time_ns", timeWords), num("bound", "bound_ns", timeWords), num("of bound", "percent", percentWords),
    num("algbw", "algbw", rateWords), num("busbw", "busbw", rateWords), word("bottleneck of the bound", "bottleneck"),
  ], REPORT.collectives));
  at.append(el("p", { class: "quiet" }, "algbw is bytes divided by time; busbw is scaled so that it can be compared with the bandwidth of a link; no algorithm can beat the bound on this machine."));
  at.append(sortableTable("Links in use", [
    word("link", "link"), num("messages", "messages", plain), num("bytes", "bytes", byteWords), num("busy", "busy_ns", timeWords),
    num("use", "use_percent", percentWords), num("queueing", "queue_ns", timeWords),
  ], REPORT.links));
  if (REPORT.memories.length) {
    at.append(sortableTable("Memories", [
      word("memory", "memory"), num("read", "reads", plain), num("written", "writes", plain), num("bytes", "bytes", byteWords),
      num("busiest channel", "busy_ns", timeWords), num("queueing", "queue_ns", timeWords),
    ], REPORT.memories));
  } else {
    at.append(el("p", { class: "quiet" }, "Memories: this machine defines no memory controllers."));
  }
  at.append(sortableTable("Ranks", [
    word("rank", "rank"), num("finishes at", "finish_ns", timeWords), num("sent", "sent_bytes", byteWords), num("received", "received_bytes", byteWords),
    num("local work", "work_ns", timeWords),
  ], DATA.rank_rows));
}
