// Colours, patterns and canvases: eight colours of Okabe and Ito, with a pattern each further round, so that neither colour nor
// pattern is needed to tell things apart: a label always stands beside.

const OKABE = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#999999"];
const INK_ON = ["#000", "#000", "#fff", "#000", "#fff", "#fff", "#000", "#000"];
const PATTERNS = ["plain", "stripes", "dots", "cross"];

/** The colours of the scheme that is in force. */
function theme() {
  const s = getComputedStyle(document.documentElement);
  const get = (n) => s.getPropertyValue("--" + n).trim();
  return { paper: get("paper"), ink: get("ink"), quiet: get("quiet"), line: get("line"), panel: get("panel"), accent: get("accent"), bad: get("bad"), mark: get("mark"), track: get("track") };
}

const colourOf = (i) => OKABE[((i % 8) + 8) % 8];
const inkOf = (i) => INK_ON[((i % 8) + 8) % 8];
const patternOf = (i) => PATTERNS[Math.floor(i / 8) % 4];

/** Fills a box with the colour and pattern of a number. */
function fillBox(c, i, x, y, w, h) {
  c.fillStyle = colourOf(i);
  c.fillRect(x, y, w, h);
  const pattern = patternOf(i);
  if (pattern === "plain" || w < 5 || h < 5) return;
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.globalAlpha = 0.38;
  c.strokeStyle = c.fillStyle = inkOf(i);
  c.lineWidth = 1;
  c.beginPath();
  if (pattern === "dots") {
    for (let px = x + 3; px < x + w; px += 6) for (let py = y + 3; py < y + h; py += 6) c.rect(px, py, 1.6, 1.6);
    c.fill();
  } else {
    for (let d = -h; d < w; d += 6) { c.moveTo(x + d, y + h); c.lineTo(x + d + h, y); }
    if (pattern === "cross") for (let d = -h; d < w; d += 6) { c.moveTo(x + d, y); c.lineTo(x + d + h, y + h); }
    c.stroke();
  }
  c.restore();
}

/** A canvas as large as its box, in pixels of the screen; returns its context in CSS pixels. */
function sized(canvas, height) {
  const width = Math.max(50, Math.floor(canvas.clientWidth));
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return { c, width, height };
}

const SMALL_FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const fontOf = (size, bold) => (bold ? "bold " : "") + size + 'px system-ui, "DejaVu Sans", sans-serif';

/** A text cut to a width. */
function fitted(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let n = Math.floor(text.length * width / Math.max(1, c.measureText(text).width));
  while (n > 0 && c.measureText(text.slice(0, n) + "…").width > width) n--;
  return n > 0 ? text.slice(0, n) + "…" : "";
}

/** One drawing a frame, however often it is asked for; counts what was drawn. */
class Painter {
  constructor(draw) {
    this.draw = draw;
    this.draws = 0;
    this.asked = false;
  }
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.now());
  }
  now() {
    this.asked = false;
    this.draws++;
    this.draw();
  }
}

const TIP = byId("tip");
function showTip(text, x, y) {
  if (!text) { TIP.hidden = true; return; }
  TIP.textContent = text;
  TIP.hidden = false;
  const box = TIP.getBoundingClientRect();
  TIP.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 6)) + "px";
  TIP.style.top = Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
}

/** Calls back when the size or the scheme of colours changes. */
function whenLookChanges(canvas, painter) {
  new ResizeObserver(() => painter.ask()).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => painter.ask());
}

/** Places of the machine's nodes on a canvas, and the ways between them. */
class Layout {
  constructor(canvas) {
    const { x, y, failed } = DATA.machine, xs = x.concat(failed.map((f) => f.x)), ys = y.concat(failed.map((f) => f.y));
    const min = (l) => l.reduce((a, b) => Math.min(a, b), Infinity), max = (l) => l.reduce((a, b) => Math.max(a, b), -Infinity);
    const width = max(xs) - min(xs), tall = max(ys) - min(ys), box = canvas.clientWidth || 400, margin = 52;
    const unit = Math.min((Math.min(box, 760) - 2 * margin) / Math.max(width, 0.001), (560 - 2 * margin) / Math.max(tall, 0.001), 130);
    this.height = Math.round(Math.max(200, unit * tall + 2 * margin));
    const left = (box - unit * width) / 2, top = (this.height - unit * tall) / 2;
    const place = (_, i) => [left + unit * (xs[i] - min(xs)), top + unit * (ys[i] - min(ys))];
    this.at = xs.map(place).slice(0, x.length);
    this.gone = xs.map(place).slice(x.length);
    this.radius = Math.max(4, Math.min(24, unit * 0.27));
  }

  /** Draws the nodes that have failed: dashed and crossed out. */
  drawFailed(c, t) {
    DATA.machine.failed.forEach((f, i) => {
      const [x, y] = this.gone[i], r = this.radius, d = r * 0.7;
      c.strokeStyle = t.quiet;
      c.lineWidth = 1;
      c.setLineDash([3, 3]);
      c.beginPath();
      if (f.device) c.arc(x, y, r, 0, 7);
      else c.rect(x - 7, y - 7, 14, 14);
      c.stroke();
      c.setLineDash([]);
      c.beginPath();
      c.moveTo(x - d, y - d);
      c.lineTo(x + d, y + d);
      c.moveTo(x - d, y + d);
      c.lineTo(x + d, y - d);
      c.stroke();
      c.fillStyle = t.quiet;
      c.font = fontOf(10);
      c.textAlign = "center";
      c.textBaseline = "middle";
      c.fillText(f.name + " failed", x, y + r + 9);
    });
  }

  /** A point on the way of a message: a bow to one side, so that both directions are apart; and the bow's middle. */
  way(a, b, lane, f) {
    const [ax, ay] = this.at[a], [bx, by] = this.at[b];
    const dx = bx - ax, dy = by - ay, long = Math.hypot(dx, dy) || 1;
    const bow = Math.min(long * (long > this.radius * 6 ? 0.16 : 0.22), 60) + lane * 12;
    const mx = (ax + bx) / 2 - (dy / long) * bow, my = (ay + by) / 2 + (dx / long) * bow, g = 1 - f;
    return [g * g * ax + 2 * g * f * mx + f * f * bx, g * g * ay + 2 * g * f * my + f * f * by, mx, my];
  }
}
