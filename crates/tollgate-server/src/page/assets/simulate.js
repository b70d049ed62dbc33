// What a limit would do to traffic that is made up. The server simulates, under a clock of its own.

import { byId, count, h, percent, span, svg } from "./dom.js";
import { Refused, post } from "./server.js";

const [WIDTH, HEIGHT] = [520, 150];
const [LEFT, RIGHT, TOP, BOTTOM] = [40, 4, 8, 20];
const UNITS = { ms: 1, s: 1000, min: 60000, h: 3600000, d: 86400000, w: 604800000 };

const SHAPES = {
  poisson: ({ rate }) => `poisson ${rate}`,
  steady: ({ rate }) => `steady ${rate}`,
  bursts: ({ many, period }) => `bursts ${many} every ${period}`,
  onoff: ({ rate, period }) => `onoff ${rate} on ${period} off ${period}`,
  ramp: ({ rate, period }) => `ramp 1/${period} to ${rate}`,
  edge: ({ many, period }) => `edge ${many} of ${period}`,
  storm: ({ many }) => `storm ${many}`,
};

/** How many in which time; `null` where a text is no rate. */
function read(rate) {
  const [, many, period] = /^\s*(\d+)\s*\/\s*(\d*[a-z]+)/.exec(rate) ?? [];
  if (period === undefined) return null;
  const [, times, unit] = /^(\d*)([a-z]+)$/.exec(period);
  if (!(unit in UNITS)) return null;
  return { rate: `${many}/${period}`, many: Number(many), period: `${times || 1}${unit}`, millis: Number(times || 1) * UNITS[unit] };
}

/** A length of time as the server reads it, in one unit. */
function written(millis) {
  const [unit, length] = Object.entries(UNITS).toReversed().find(([, length]) => millis % length === 0) ?? ["ms", 1];
  return `${millis / length}${unit}`;
}

export class Simulator {
  constructor() {
    this.limits = new Map();
    byId("sim-rule").addEventListener("change", () => this.choose());
    for (const id of ["sim-shape", "sim-rate", "sim-length", "sim-clients", "sim-retry"]) byId(id).addEventListener("input", () => this.write());
    byId("simulate").addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
  }

  /** The rules of the policy, and the limits that each has. */
  rules(limits) {
    this.limits = limits;
    const chosen = byId("sim-rule").value;
    byId("sim-rule").replaceChildren(...[...limits.keys()].map((rule) => h("option", { value: rule }, rule)));
    if (limits.has(chosen)) byId("sim-rule").value = chosen;
    else this.choose();
  }

  /** Takes a rule's limit, and twice as much traffic for three of its periods. */
  choose() {
    const limits = this.limits.get(byId("sim-rule").value) ?? ["100/min burst 20"];
    byId("sim-limit").value = limits.join(" and ");
    const rate = read(limits[0] ?? "") ?? read("100/min");
    byId("sim-rate").value = `${rate.many * 2}/${rate.period.replace(/^1(?=[a-z])/, "")}`;
    byId("sim-length").value = written(Math.max(60000, rate.millis * 3));
    this.write();
  }

  /** The traffic as text, which can be changed by hand. */
  write() {
    const rate = read(byId("sim-rate").value);
    if (rate === null) return;
    const clients = Number(byId("sim-clients").value);
    byId("sim-traffic").value = [SHAPES[byId("sim-shape").value](rate), `for ${byId("sim-length").value.trim()}`,
      clients > 1 ? `from ${clients} clients` : "", byId("sim-retry").value].filter((part) => part !== "").join(" ");
  }

  async run() {
    const box = byId("simulated");
    byId("sim-run").disabled = true;
    const limits = byId("sim-limit").value.split(/\s+and\s+/).filter((text) => text !== "");
    try {
      const told = await post("simulate", { limits, traffic: [byId("sim-traffic").value], compare: byId("sim-compare").checked });
      const notes = told.notes.map((note) => h("p", { class: "hint" }, note));
      box.replaceChildren(...notes, h("div", { class: "cards" }, told.runs.map((run) => picture(run, told))));
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      box.replaceChildren(h("p", { class: "error" }, refused.message));
    } finally {
      byId("sim-run").disabled = false;
    }
  }
}

/** One run: what was admitted and refused over time, and what came of it. */
function picture(run, told) {
  const share = percent(run.admitted, run.offered);
  const facts = [["Admitted", `${count(run.admitted)} of ${count(run.offered)}, ${share}`], ["Refused", count(run.refused)],
    [`Most in any ${span(told.window_ms)}`, count(run.most_in_window)]];
  if (run.wait_p99_ms > 0) facts.push(["Wait, p50 and p99", `${span(run.wait_p50_ms)}, ${span(run.wait_p99_ms)}`]);
  if (run.tries > run.offered) facts.push(["Tries", count(run.tries)]);
  return h("article", { class: "run" },
    h("h3", {}, run.name), chart(run, told, `${run.name}: ${share} admitted`),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

function chart(run, { slot_ms }, about) {
  const [admitted, refused] = [run.admitted_by_slot, run.refused_by_slot];
  const top = Math.max(1, ...admitted.map((number, slot) => number + refused[slot]));
  const bar = (WIDTH - LEFT - RIGHT) / admitted.length;
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const wide = Math.max(0.6, bar - (bar > 3 ? 1 : 0)).toFixed(2);
  const bars = (values, from) => values.map((value, slot) =>
    value === 0 ? "" : `M${(LEFT + slot * bar).toFixed(2)} ${y(from(slot)).toFixed(2)}h${wide}V${y(from(slot) + value).toFixed(2)}h-${wide}z`).join("");
  const steps = [...new Set([0, Math.round(top / 2), top])];
  const lines = steps.flatMap((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
    svg("text", { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" }, count(value))]);
  const length = admitted.length * slot_ms;
  const moments = [0, 0.5, 1].map((part) => svg("text", { x: LEFT + part * (WIDTH - LEFT - RIGHT), y: HEIGHT - 4, "text-anchor": ["start", "middle", "end"][part * 2] },
    part === 0 ? "0" : span(part * length)));
  return svg("svg", { class: "bars", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": about },
    lines, moments, svg("path", { class: "admitted", d: bars(admitted, () => 0) }), svg("path", { class: "turned", d: bars(refused, (slot) => admitted[slot]) }));
}
