// How a client stands on every rule, with a picture of each bucket that fills as time passes.

import { count, h, keyText, say, show, still, svg, wait } from "./dom.js";

const HEIGHT = 96;
const WIDTH = 62;
const UNITS = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, sec: 1e3, min: 6e4, m: 6e4, h: 36e5, hour: 36e5, d: 864e5, day: 864e5, w: 6048e5, week: 6048e5 };
const FROM = { rule: "of the rule", tier: "of its tier", override: "by an override" };
const OVERRIDES = { policy_file: "by an override of the policy file", run_time: "by a run-time override" };

/** How fast a limit refills in units per millisecond; `null` where it does not do so steadily. */
function pace(numbers) {
  if (numbers.length !== 1 || /window|sliding/.test(numbers[0])) return null;
  const [, units, period] = /^(\d+)\/(\S+)/.exec(numbers[0]) ?? [];
  if (period === undefined) return null;
  const parts = /^[a-z]/.test(period) ? [["", "1", period]] : [...period.matchAll(/(\d+)([a-z]+)/g)];
  const length = parts.reduce((sum, [, number, unit]) => sum + Number(number) * (UNITS[unit] ?? NaN), 0);
  return length > 0 ? Number(units) / length : null;
}

/** What is in the bucket so long after its figures were told. */
function level(of, since) {
  if (of.limit === null) return null;
  const left = Math.max(0, of.reset_after_ms - since);
  if (left === 0) return of.limit;
  const steady = pace(of.numbers);
  if (steady !== null) return Math.max(0, Math.min(of.limit, of.limit - left * steady));
  // A window is as full as it was until it ends; what slides comes back bit by bit.
  if (of.numbers.some((text) => text.includes("window"))) return of.remaining;
  return of.limit - (of.limit - of.remaining) * (left / Math.max(1, of.reset_after_ms));
}

let pictures = 0;

/** A vessel with a mark for each unit, where these are few. */
class Bucket {
  constructor() {
    pictures += 1;
    const id = `bucket-${pictures}`;
    this.water = svg("rect", { class: "water", x: 2, width: WIDTH - 4, y: HEIGHT, height: 0 });
    this.surface = svg("line", { class: "surface", x1: 2, x2: WIDTH - 2, y1: 0, y2: 0 });
    this.marks = svg("g", { class: "marks" });
    const shape = `M2 2 V${HEIGHT - 12} Q2 ${HEIGHT - 2} 12 ${HEIGHT - 2} H${WIDTH - 12} Q${WIDTH - 2} ${HEIGHT - 2} ${WIDTH - 2} ${HEIGHT - 12} V2`;
    this.root = svg("svg", { class: "bucket", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img" },
      svg("clipPath", { id }, svg("path", { d: `${shape} Z` })),
      svg("g", { "clip-path": `url(#${id})` }, svg("path", { class: "inside", d: `${shape} Z` }), this.water, this.surface),
      this.marks,
      svg("path", { class: "wall", d: shape }));
  }

  fill(of, amount) {
    const share = of.limit === null || of.limit === 0 ? 0 : amount / of.limit;
    const y = HEIGHT - 2 - share * (HEIGHT - 10);
    this.water.setAttribute("y", y.toFixed(2));
    this.water.setAttribute("height", Math.max(0, HEIGHT - y).toFixed(2));
    this.surface.setAttribute("y1", y.toFixed(2));
    this.surface.setAttribute("y2", y.toFixed(2));
  }

  mark(limit) {
    if (limit === this.limit) return;
    this.limit = limit;
    const each = limit !== null && limit <= 20 ? limit : 4;
    const lines = [];
    for (let unit = 1; unit < each; unit += 1) {
      const y = HEIGHT - 2 - (unit / each) * (HEIGHT - 10);
      lines.push(svg("line", { x1: WIDTH - 11, x2: WIDTH - 3, y1: y, y2: y }));
    }
    this.marks.replaceChildren(...lines);
  }
}

/** One rule. */
class Card {
  constructor(of, actions) {
    this.bucket = new Bucket();
    this.amount = h("b", { class: "amount" });
    this.state = h("p", { class: "verdict" });
    this.until = h("p", { class: "until" });
    this.numbers = h("span");
    this.buttons = actions === null ? null : h("div", { class: "buttons" });
    this.root = h("article", { class: "card", "data-rule": of.rule },
      h("div", { class: "picture" }, this.bucket.root, this.amount),
      h("div", { class: "words" },
        h("h3", {}, h("bdi", {}, of.rule), of.shadow ? h("span", { class: "tag" }, "shadow") : null),
        this.state, this.until,
        h("p", { class: "hint" }, this.numbers, " · counted by ", keyText(of.key)),
        this.buttons));
    if (actions !== null) {
      const button = (text, act) => h("button", { type: "button", onclick: () => act(this.of) }, text);
      this.lift = button("Unblock …", actions.lift);
      this.block = button("Block …", actions.block);
      this.buttons.append(button("Reset …", actions.reset), this.lift, this.block, button("Override …", actions.override));
    }
  }

  update(of, told) {
    [this.of, this.told] = [of, told];
    this.bucket.mark(of.limit);
    say(this.numbers, `${of.numbers.join(" and ") || "unlimited"}, ${OVERRIDES[of.override_source] ?? FROM[of.numbers_from] ?? of.numbers_from}`);
    this.tick();
  }

  tick() {
    const { of } = this;
    const since = performance.now() - this.told;
    const amount = level(of, since);
    const blocked = Math.max(0, (of.blocked_ms ?? 0) - since);
    this.root.classList.toggle("blocked", blocked > 0);
    this.root.classList.toggle("spent", blocked === 0 && amount !== null && amount < 1);
    if (this.buttons) {
      show(this.lift, blocked > 0);
      show(this.block, blocked === 0);
    }
    this.bucket.fill(of, amount ?? 1);
    const left = amount === null ? "∞" : count(Math.floor(amount + 1e-6));
    say(this.amount, amount === null ? "∞" : `${left} of ${count(of.limit)}`);
    this.bucket.root.setAttribute("aria-label", amount === null ? "unlimited" : `${left} of ${of.limit} left`);
    const retry = Math.max(0, (of.retry_after_ms ?? 0) - since);
    const reset = Math.max(0, (of.reset_after_ms ?? 0) - since);
    if (blocked > 0) say(this.state, `Blocked for ${wait(blocked)}`);
    else if (of.limit === null) say(this.state, "Unlimited");
    else if (of.retry_after_ms === null && !of.allowed) say(this.state, "Never allows this");
    else if (of.shadow) say(this.state, retry > 0 ? `Would refuse for ${wait(retry)}, only reports` : "Allows");
    else say(this.state, retry > 0 ? `Refuses for ${wait(retry)}` : "Allows");
    const refuses = blocked > 0 || retry > 0 || !of.allowed && of.retry_after_ms === null;
    this.state.className = `verdict ${!refuses ? "good" : of.shadow ? "" : "bad"}`;
    say(this.until, of.limit === null ? "" : reset > 0 ? `Full in ${wait(reset)}` : "Full");
  }
}

/** A client: the verdict, and every rule that applies. Told anew, it changes in place. */
export class StatusView {
  constructor(box, actions = null) {
    Object.assign(this, { box, actions, cards: new Map() });
    this.verdict = h("p", { class: "answer", role: "status" });
    this.grid = h("div", { class: "cards" });
    this.others = h("div");
    box.replaceChildren(this.verdict, this.grid, this.others);
    this.tick();
  }

  update(status) {
    const told = performance.now();
    say(this.verdict, sentence(status));
    this.verdict.classList.toggle("bad", !status.allowed);
    const names = status.rules.map((of) => of.rule);
    const shape = JSON.stringify(status.rules.map((of) => [of.rule, of.key, of.shadow]));
    if (shape !== this.shape) {
      this.shape = shape;
      this.cards = new Map(status.rules.map((of) => [of.rule, new Card(of, this.actions)]));
      this.grid.replaceChildren(...names.map((name) => this.cards.get(name).root));
    }
    status.rules.forEach((of) => this.cards.get(of.rule).update(of, told));
    const others = status.not_applied.map(({ rule, because }) => h("li", {}, h("bdi", {}, rule), `: ${because}`));
    const text = JSON.stringify(status.not_applied);
    if (text === this.text) return;
    this.text = text;
    const summary = `${others.length} ${others.length === 1 ? "rule does" : "rules do"} not apply`;
    this.others.replaceChildren(...(others.length > 0 ? [h("details", {}, h("summary", {}, summary), h("ul", {}, others))] : []));
  }

  /** Lets the buckets fill; ends by itself when the view is gone. */
  tick() {
    if (!this.box.isConnected) return;
    for (const card of this.cards.values()) card.tick();
    if (still.matches) setTimeout(() => this.tick(), 1000);
    else requestAnimationFrame(() => this.tick());
  }
}

/** What would be answered, in a sentence; without a time, so that it is read out only when it changes. */
function sentence(status) {
  const tier = status.tier === null ? "" : ` Its tier is ${status.tier}${status.tier_from === "override" ? `, ${OVERRIDES[status.override_source] ?? FROM.override}` : ""}.`;
  if (status.list !== null) return `It is ${status.list.allows ? "always allowed" : "always refused"}, by the list ${status.list.name}.${tier}`;
  if (status.reason === "no_rule") return "It is allowed: no rule applies to it.";
  if (status.allowed) return `It would be allowed.${tier}`;
  const why = { block: "is blocked", limits: "is over its limit" }[status.reason] ?? "is refused";
  return `It would be refused: by the rule ${status.rule} it ${why}.${tier}`;
}
