// Charts over time, drawn by hand. Time flows from right to left without jumps; where nobody was
// connected nothing is drawn.

import { GAP } from "./history.js";
import { still } from "./dom.js";

// Points come a little later than they are of: drawn so much late, each slides in from the right.
const LATE = 1200;
const SHORTEST = 60000;
// Distances of moments on the axis.
const STEPS = [10000, 15000, 30000, 60000, 120000, 180000, 300000];
const MARGIN = { top: 10, right: 6, bottom: 22, left: 50 };

const clockLabel = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clockSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** A scale from nought to a round number above everything. */
export function linear(format) {
  let top = 1;
  return {
    fit(values) {
      const largest = Math.max(...values, 0);
      const wanted = largest <= 0 ? 1 : largest * 1.08;
      // Grows at once and shrinks slowly, so that a chart does not pump.
      top = wanted > top || still.matches ? wanted : Math.max(wanted, top * 0.97);
    },
    place: (value) => value / top,
    ticks() {
      const step = roundStep(top / 3.4);
      const ticks = [];
      for (let value = 0; value <= top; value += step) ticks.push({ value, label: format(value, step) });
      return ticks;
    },
  };
}

function roundStep(atLeast) {
  const power = 10 ** Math.floor(Math.log10(atLeast));
  const factor = [1, 2, 2.5, 5, 10].find((of) => of * power >= atLeast * 0.999);
  return factor * power;
}

/** A scale in powers of ten, from `from` to at least ten times as much. */
export function logarithmic(format, from, to) {
  let [low, high] = [from, from * 100];
  return {
    fit(values) {
      const positive = values.filter((value) => value > 0);
      if (positive.length === 0) return;
      low = Math.max(from, 10 ** Math.floor(Math.log10(Math.min(...positive))));
      high = Math.min(to, Math.max(low * 10, 10 ** Math.ceil(Math.log10(Math.max(...positive) * 1.01))));
    },
    place: (value) => Math.max(0, Math.log10(Math.max(value, low) / low) / Math.log10(high / low)),
    ticks() {
      const ticks = [];
      for (let value = low; value <= high * 1.01; value *= 10) ticks.push({ value, label: format(value) });
      return ticks;
    },
  };
}

/**
 * A chart of lines and areas. `series(point)` gives for a point of time an array of values, `null`
 * where there is none; `looks` says for each how it is drawn: `color` (a name of the style sheet),
 * `area` (stacked on the area before), `dash`, `width`.
 */
export class Chart {
  constructor(canvas, { scale, looks, series, pointed }) {
    Object.assign(this, { canvas, scale, looks, series, pointed, range: 300000, at: null });
    this.context = canvas.getContext("2d");
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("pointermove", (event) => this.point(event.offsetX));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("blur", () => this.leave());
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  leave() {
    this.at = null;
    this.pointed(null);
    this.draw();
  }

  /** Points at the moment under a place; the nearest point is told. */
  point(x) {
    const { width } = this.canvas.getBoundingClientRect();
    const inner = width - MARGIN.left - MARGIN.right;
    this.at = ((MARGIN.left + inner - x) / inner) * (this.shown ?? this.range);
    this.draw();
  }

  /** Arrows move through the points as a pointer does. */
  key(event) {
    const step = { ArrowLeft: 5000, ArrowRight: -5000 }[event.key];
    if (event.key === "Escape") this.leave();
    if (step === undefined) return;
    event.preventDefault();
    this.at = Math.min(this.shown, Math.max(0, (this.at ?? -step) + step));
    this.draw();
  }

  /** Draws what was seen, as of now. */
  draw(points = this.points, now = this.now) {
    if (points === undefined) return;
    [this.points, this.now] = [points, now];
    const { canvas, context } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (width === 0) return;
    const dense = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
      canvas.width = Math.round(width * dense);
      canvas.height = Math.round(height * dense);
    }
    this.style = getComputedStyle(canvas);
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, height);
    this.box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
    const end = now - (still.matches ? 0 : LATE);
    // What is short is shown large, and grows until all that was asked for is in view.
    this.shown = Math.min(this.range, Math.max(SHORTEST, end - (points[0]?.at ?? end)));
    this.x = (at) => this.box.right - ((end - at) / this.shown) * (this.box.right - this.box.left);
    this.y = (value) => this.box.bottom - this.scale.place(value) * (this.box.bottom - this.box.top);
    const seen = this.seen(points, end);
    this.scale.fit(seen.flatMap(({ tops }) => tops.filter((top) => top !== null)));
    this.grid(end);
    context.save();
    context.beginPath();
    context.rect(this.box.left, 0, this.box.right - this.box.left, height);
    context.clip();
    this.looks.forEach((look, place) => look.area && this.area(runs(seen, place), place, look));
    this.looks.forEach((look, place) => this.line(runs(seen, place), place, look));
    context.restore();
    this.cursor(seen, end);
  }

  /** The points in view and one beyond, with values and with what they are drawn up to. */
  seen(points, end) {
    const first = points.findIndex((point) => point.at >= end - this.shown);
    if (first < 0) return [];
    return points.slice(Math.max(0, first - 1)).map((point) => {
      const values = this.series(point);
      let below = 0;
      const tops = values.map((value, place) => {
        if (value === null || !this.looks[place].area) return value;
        below += value;
        return below;
      });
      return { point, at: point.at, values, tops };
    });
  }

  color(name) {
    return this.style.getPropertyValue(name);
  }

  grid(end) {
    const { context, box } = this;
    context.font = `11px ${this.style.fontFamily}`;
    context.lineWidth = 1;
    context.strokeStyle = this.color("--grid");
    context.fillStyle = this.color("--muted");
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const { value, label } of this.scale.ticks()) {
      const y = Math.round(this.y(value)) + 0.5;
      context.beginPath();
      context.moveTo(box.left, y);
      context.lineTo(box.right, y);
      context.stroke();
      context.fillText(label, box.left - 8, y);
    }
    this.moments(end);
  }

  /** Round moments of the wall's clock, which move with the points. */
  moments(end) {
    const { context, box } = this;
    const step = STEPS.find((of) => (of / this.shown) * (box.right - box.left) > 76) ?? STEPS.at(-1);
    const label = step < 60000 ? clockSeconds : clockLabel;
    const offset = Date.now() - this.now;
    context.textAlign = "center";
    context.textBaseline = "top";
    for (let wall = Math.ceil((end - this.shown + offset) / step) * step; wall <= end + offset; wall += step) {
      const x = this.x(wall - offset);
      const text = label.format(wall);
      const half = context.measureText(text).width / 2;
      if (x - half >= box.left - 4 && x + half <= box.right + 4) context.fillText(text, x, box.bottom + 8);
    }
  }

  area(parts, place, look) {
    const { context } = this;
    context.fillStyle = this.color(look.color);
    const before = this.looks.slice(0, place).findLastIndex((other) => other.area);
    const foot = ({ tops }) => this.y(before < 0 ? 0 : tops[before]);
    const alpha = context.globalAlpha;
    context.globalAlpha = alpha * (look.opacity ?? 0.18);
    for (const part of parts) {
      context.beginPath();
      part.forEach((of) => context.lineTo(this.x(of.at), this.y(of.tops[place])));
      part.toReversed().forEach((of) => context.lineTo(this.x(of.at), foot(of)));
      context.fill();
    }
    context.globalAlpha = alpha;
  }

  line(parts, place, look) {
    const { context } = this;
    context.strokeStyle = this.color(look.color);
    context.lineWidth = look.width ?? 1.5;
    context.lineJoin = "round";
    context.setLineDash(look.dash ?? []);
    for (const part of parts) {
      if (look.quiet && part.every(({ values }) => values[place] === 0)) continue;
      context.beginPath();
      part.forEach((of) => context.lineTo(this.x(of.at), this.y(of.tops[place])));
      context.stroke();
    }
    context.setLineDash([]);
  }

  /** The moment that is pointed at. */
  cursor(seen, end) {
    if (this.at === null || seen.length === 0) return;
    const wanted = end - this.at;
    const nearest = seen.reduce((best, of) => (Math.abs(of.at - wanted) < Math.abs(best.at - wanted) ? of : best));
    if (Math.abs(nearest.at - wanted) > GAP) {
      this.pointed(null);
      return;
    }
    const { context, box } = this;
    const x = Math.round(this.x(nearest.at)) + 0.5;
    context.strokeStyle = this.color("--muted");
    context.beginPath();
    context.moveTo(x, box.top);
    context.lineTo(x, box.bottom);
    context.stroke();
    nearest.tops.forEach((top, place) => {
      if (top === null || (this.looks[place].quiet && nearest.values[place] === 0)) return;
      context.fillStyle = this.color(this.looks[place].color);
      context.beginPath();
      context.arc(x, this.y(top), 3, 0, 2 * Math.PI);
      context.fill();
    });
    this.pointed(nearest.point);
  }
}

/** Points that follow each other without a gap and have a value at `place`. */
function runs(seen, place) {
  const found = [];
  let before = null;
  for (const of of seen) {
    if (of.values[place] === null) {
      before = null;
      continue;
    }
    if (before === null || of.at - before.at > GAP) found.push([]);
    found.at(-1).push(of);
    before = of;
  }
  return found;
}

/** A rule's last minutes in the height of a line of text. */
export function sparkline(canvas, values) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const dense = window.devicePixelRatio || 1;
  if (width === 0) return;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  const [context, style] = [canvas.getContext("2d"), getComputedStyle(canvas)];
  context.setTransform(dense, 0, 0, dense, 0, 0);
  const top = Math.max(1e-9, ...values.map(([allowed, refused]) => allowed + refused));
  const bar = width / values.length;
  values.forEach(([allowed, refused], place) => {
    const [low, high] = [(allowed / top) * (height - 1), (refused / top) * (height - 1)];
    context.fillStyle = style.getPropertyValue("--allowed");
    context.fillRect(place * bar, height - low, Math.max(1, bar - 1), low);
    context.fillStyle = style.getPropertyValue("--refused");
    context.fillRect(place * bar, height - low - high, Math.max(1, bar - 1), high);
  });
}
