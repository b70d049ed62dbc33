// A client's status under every rule, as the server reported it. Nothing is computed in between: figures
// have an age, and are asked for again.

import { count, h, keyText, localTime, printable, say, show, svg, wait } from "./dom.js";

const HEIGHT = 96;
const WIDTH = 62;
const FROM = { rule: "rule default", tier: "tier", override: "override" };
const OVERRIDES = { policy_file: "override of the policy file", run_time: "run-time override" };
// How often the age is shown anew.
const TICK = 1000;
// Rules that are named in a headline.
const NAMED = 4;

let pictures = 0;

/** A vessel that is as full as what is left, with a mark for each unit if these are few. */
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

  fill(share) {
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

/** `true` if a rule has no limit for this client, as opposed to a limit without figures. */
const isUnlimited = (of) => of.limit === null && of.numbers.length === 0;

/** The part of a wait that is left, in words; `null` once it has passed and the next answer is due. */
const left = (millis, age) => (millis > age ? wait(millis - age) : null);

/** The decision of a rule on the next request, in words, and `bad` if it denies. */
export function verdict(of, status, age) {
  if (of.blocked_ms !== null) {
    const rest = left(of.blocked_ms, age);
    const text = rest === null ? "Block just ended, asking again" : `Blocked for ${rest}`;
    return { text: of.shadow ? `Shadow: ${text.charAt(0).toLowerCase()}${text.slice(1)}` : text, bad: !of.shadow };
  }
  if (isUnlimited(of)) return { text: "Unlimited", bad: false };
  if (of.limit === null) return { text: notEvaluated(status), bad: false };
  if (status.degraded && of.limit === 0) return { text: "Denies while Redis is unavailable", bad: !of.shadow };
  if (of.allowed) return { text: of.shadow ? "Shadow: would allow" : "OK", bad: false };
  if (of.retry_after_ms === null) {
    return { text: of.shadow ? "Shadow: request can never fit this limit" : "Request can never fit this limit", bad: !of.shadow };
  }
  const rest = left(of.retry_after_ms, age);
  if (of.shadow) return { text: rest === null ? "Shadow: asking again" : `Shadow: would deny for ${rest}`, bad: false };
  return { text: rest === null ? "Over limit until now, asking again" : `Over limit, next in ${rest}`, bad: true };
}

/** The reason why a rule that applies has no figures. */
function notEvaluated(status) {
  if (status.list !== null) return `Not evaluated: the list ${status.list.name} decides`;
  if (status.degraded) return "Not evaluated while Redis is unavailable";
  return "Not evaluated: the request is invalid";
}

/** One rule. */
class Card {
  constructor(of, actions) {
    this.bucket = new Bucket();
    this.amount = h("b", { class: "amount" });
    this.unit = h("small", {}, "left");
    this.state = h("p", { class: "verdict" });
    this.until = h("p", { class: "until" });
    this.numbers = h("span");
    this.denies = h("span", { class: "tag bad" }, "denies");
    this.buttons = actions === null ? null : h("div", { class: "buttons" });
    this.root = h("article", { class: "card", "data-rule": of.rule },
      h("div", { class: "picture" }, this.bucket.root, h("span", {}, this.amount, " ", this.unit)),
      h("div", { class: "words" },
        h("h3", {}, h("bdi", {}, of.rule), of.shadow ? h("span", { class: "tag" }, "shadow") : null, this.denies),
        this.state, this.until,
        h("p", { class: "hint" }, this.numbers, " · key ", keyText(of.key)),
        this.buttons));
    if (actions !== null) {
      const button = (text, act) => h("button", { type: "button", onclick: () => act(this.of) }, text);
      this.lift = button("Unblock …", actions.lift);
      this.block = button("Block …", actions.block);
      this.buttons.append(button("Reset …", actions.reset), this.lift, this.block, button("Override …", actions.override));
    }
  }

  update(of, status, age) {
    [this.of, this.status] = [of, status];
    this.bucket.mark(of.limit);
    this.bucket.fill(of.limit === null ? Number(isUnlimited(of)) : of.limit === 0 ? 0 : of.remaining / of.limit);
    const from = of.numbers_from === "tier" && status.tier !== null ? `tier ${printable(status.tier)}` : OVERRIDES[of.override_source] ?? FROM[of.numbers_from] ?? of.numbers_from;
    say(this.numbers, `${of.numbers.join(" and ") || "unlimited"} (${from}${status.degraded ? ", local share" : ""})`);
    const amount = isUnlimited(of) ? "∞" : of.limit === null ? "–" : `${count(of.remaining)} of ${count(of.limit)}`;
    say(this.amount, amount);
    show(this.unit, of.limit !== null);
    this.bucket.root.setAttribute("aria-label", isUnlimited(of) ? "unlimited" : of.limit === null ? "no figures" : `${amount} left`);
    const decides = !status.allowed && status.list === null && status.rule === of.rule;
    show(this.denies, decides);
    this.root.classList.toggle("deciding", decides);
    if (decides) this.root.setAttribute("aria-current", "true");
    else this.root.removeAttribute("aria-current");
    this.root.classList.toggle("blocked", of.blocked_ms !== null);
    this.root.classList.toggle("spent", of.blocked_ms === null && of.limit !== null && of.remaining === 0);
    if (this.buttons) {
      show(this.lift, of.blocked_ms !== null);
      show(this.block, of.blocked_ms === null);
    }
    this.tick(age);
  }

  tick(age) {
    const { of, status } = this;
    const { text, bad } = verdict(of, status, age);
    say(this.state, text);
    this.state.className = `verdict ${bad ? "bad" : of.shadow || of.limit === null ? "" : "good"}`;
    const full = of.limit === null || of.limit === 0 ? "" : of.reset_after_ms === 0 ? "Full quota" : left(of.reset_after_ms, age);
    say(this.until, full === "" || full === "Full quota" ? full : full === null ? "Full quota due, asking again" : `Full quota in ${full}`);
  }
}

/** A client: the ruling, and every rule that applies. A new answer changes it in place. */
export class StatusView {
  constructor(box, actions = null) {
    Object.assign(this, { box, actions, cards: new Map(), told: null, problem: null });
    this.verdict = h("p", { class: "answer", role: "status" });
    this.note = h("p", { class: "error" });
    this.age = h("p", { class: "hint age" });
    this.grid = h("div", { class: "cards" });
    this.others = h("div");
    box.replaceChildren(this.verdict, this.note, this.age, this.grid, this.others);
    this.tick();
  }

  update(status) {
    [this.told, this.problem] = [Date.now(), null];
    say(this.verdict, sentence(status));
    say(this.note, status.degraded ? "Redis is unavailable: figures are the local limits of this node." : "");
    const tone = status.reason === "no_rule" && status.rules.length === 0 ? "unknown" : status.allowed ? "" : "bad";
    this.verdict.className = `answer ${tone}`;
    this.arrange(status);
    status.rules.forEach((of) => this.cards.get(id(of)).update(of, status, 0));
    const others = status.not_applied.map(({ rule, because }) => h("li", {}, h("bdi", {}, rule), `: ${printable(because)}`));
    const text = JSON.stringify(status.not_applied);
    this.showAge();
    if (text === this.text) return;
    this.text = text;
    const summary = `${others.length} ${others.length === 1 ? "rule does" : "rules do"} not apply`;
    this.others.replaceChildren(...(others.length > 0 ? [h("details", {}, h("summary", {}, summary), h("ul", {}, others))] : []));
  }

  /** Puts the cards in the order of the answer. A card that stays keeps its buttons, and the focus. */
  arrange(status) {
    const order = status.rules.map(id);
    if (JSON.stringify(order) === this.order) return;
    this.order = JSON.stringify(order);
    const had = document.activeElement;
    this.cards = new Map(status.rules.map((of) => [id(of), this.cards.get(id(of)) ?? new Card(of, this.actions)]));
    this.grid.replaceChildren(...order.map((name) => this.cards.get(name).root));
    if (this.grid.contains(had)) had.focus();
  }

  /** The last figures stay, with their age, when the server gives no others. */
  failed(problem) {
    this.problem = problem;
    this.showAge();
  }

  showAge() {
    if (this.told === null) return;
    const age = Date.now() - this.told;
    const old = age < 1000 ? "" : `, ${wait(age)} ago`;
    say(this.age, `${this.problem === null ? "" : `No newer figures: ${printable(this.problem)}. `}Figures as of ${localTime(this.told)}${old}.`);
    this.age.classList.toggle("error", this.problem !== null);
    this.box.classList.toggle("old", this.problem !== null);
    for (const card of this.cards.values()) card.tick(age);
  }

  /** Shows how old the figures are; ends by itself when the view is gone. */
  tick() {
    if (!this.box.isConnected) return;
    this.showAge();
    setTimeout(() => this.tick(), TICK);
  }
}

/** The name of the card of a rule. */
const id = (of) => JSON.stringify([of.rule, of.key, of.shadow]);

/** After how many milliseconds something of an answer ends: then the server says something else. */
export function changesAfter(status) {
  const ends = status.rules.flatMap((of) => [of.blocked_ms, of.retry_after_ms, of.reset_after_ms]);
  return Math.min(...ends.filter((millis) => millis > 0), Infinity);
}

/** The ruling in a sentence; without a time, so that it is read out only when it changes. */
function sentence(status) {
  const tier = status.tier === null ? "" : ` Tier ${printable(status.tier)}${status.tier_from === "override" ? ` (${OVERRIDES[status.override_source] ?? FROM.override})` : ""}.`;
  return `${ruling(status)}${tier}`;
}

function ruling(status) {
  const { list, rule, rules, reason } = status;
  if (list !== null) return `The next request would be ${list.allows ? "allowed" : "denied"}: on the ${list.allows ? "allow" : "deny"} list ${list.name}.`;
  if (reason === "no_rule" && rules.length === 0) return `No rule matches these attributes. ${needed(status.not_applied)}`;
  if (reason === "no_rule") return "The next request would be allowed: no limit applies to this client.";
  if (status.allowed && reason === "store_away") return `The next request would be allowed and not counted: rule ${rule} allows while Redis is unavailable.`;
  if (status.allowed) return "The next request would be allowed.";
  const why = {
    block: `blocked under rule ${rule}`,
    limits: `over the limit of rule ${rule}`,
    store_away: `rule ${rule} denies while Redis is unavailable`,
    error: rule === null ? "the cost attribute is no whole number" : `it can never fit the limit of rule ${rule}`,
  };
  return `The next request would be denied: ${why[reason] ?? reason}.`;
}

/** The attributes that rules need, `tenant + user, ip`. */
function needed(notApplied) {
  const sets = [...new Set(notApplied.map(({ needs }) => needs.map(printable).join(" + ")))].filter((set) => set !== "");
  if (sets.length === 0) return "";
  return `Rules need: ${sets.slice(0, NAMED).join(", ")}${sets.length > NAMED ? ", …" : ""}.`;
}
