// What goes on: charts, rules, refused keys and health.

import { byId, count, h, keyText, localTime, micros, percent, rate, say, show, still, table, wait } from "./dom.js";
import { Chart, linear, logarithmic, sparkline } from "./chart.js";
import { TRANSPORTS } from "./history.js";
import { Loudest } from "./loudest.js";

const NAMES = { http: "HTTP", resp: "Redis protocol", grpc: "gRPC", store: "Redis" };
const REASONS = {
  limits: "over its limit",
  block: "blocked",
  deny_list: "on a deny list",
  error: "cannot be decided",
  store_away: "the store is away",
};
const NOTHING = { allowed: 0, refused: 0, denied: 0, blocked: 0, error: 0, all: 0, degraded: 0 };
// Bars of a rule's small picture, each of so many points.
const BARS = [30, 4];
// As many as an event names.
const MOST_RULES = 64;

/** All requests that a rule applied to. */
function requestsOf(all) {
  if (all === undefined) return 0;
  const { requests, shadow } = all;
  return shadow === null ? requests.allowed + requests.denied + requests.denied_by_others : shadow.would_allow + shadow.would_deny;
}

/** What stands below the name of a rule. */
function noteOf(all) {
  if (all === undefined) return "";
  const { requests, shadow } = all;
  if (shadow !== null) return `would deny ${count(shadow.would_deny)} of ${count(requestsOf(all))}; ${count(shadow.would_deny_alone)} not denied otherwise`;
  return requests.denied_by_others > 0 ? `${count(requests.denied_by_others)} denied by other rules` : "";
}

/** What people call a rule. */
export const ruleName = (rule) => (rule === "" ? "no rule" : rule);

export class Live {
  constructor(history, openKey) {
    Object.assign(this, { history, openKey, event: null, rule: "*", rows: new Map(), cells: new Map() });
    this.loudest = new Loudest(openKey);
    const axis = (value, step) => (step < 1 ? value.toFixed(step < 0.1 ? 2 : 1) : count(value));
    this.decisions = new Chart(byId("decisions"), {
      scale: linear(axis),
      looks: [
        { color: "--allowed", area: true },
        { color: "--refused", area: true, opacity: 0.3, quiet: true },
        { color: "--degraded", dash: [5, 4], quiet: true },
      ],
      series: (point) => {
        const of = this.of(point);
        return [of.allowed, of.refused, of.degraded];
      },
      pointed: (point) => this.legend(point),
    });
    this.latency = new Chart(byId("latency"), {
      scale: logarithmic((value) => micros(value).replace(".0 ", " "), 1, 1000000),
      looks: TRANSPORTS.flatMap((transport) => [
        { color: `--${transport}` }, { color: `--${transport}`, dash: [2, 3], width: 1.25 }]),
      series: (point) => TRANSPORTS.flatMap((transport) => {
        const of = point.latency[transport];
        return of === undefined ? [null, null] : [of.p50, of.p99];
      }),
      pointed: (point) => this.latencyLegend(point),
    });
    byId("which-rule").addEventListener("change", (event) => this.choose(event.target.value));
    byId("range").addEventListener("change", (event) => {
      this.decisions.range = this.latency.range = Number(event.target.value) * 1000;
      this.draw();
    });
  }

  of(point) {
    return this.rule === "*" ? point.total : (point.rules.get(this.rule) ?? NOTHING);
  }

  choose(rule) {
    this.rule = rule;
    byId("which-rule").value = rule;
    for (const [name, row] of this.rows) row.button.setAttribute("aria-pressed", String(name === rule));
    this.loudest.choose(rule);
    this.legend(null);
    this.draw();
  }

  /** Whether a rule of the last event is in shadow. */
  isShadow(rule) {
    return (this.event?.rules.find((of) => of.rule === rule)?.shadow ?? null) !== null;
  }

  /** Shows an event. */
  update(event, policyRules) {
    this.event = event;
    this.tiles();
    this.legend(null);
    this.latencyLegend(null);
    this.rules(policyRules);
    this.refused();
    this.loudest.follow(event.uptime_ms);
    this.health();
    if (still.matches) this.draw();
  }

  draw() {
    const now = performance.now();
    this.decisions.draw(this.history.points, now);
    this.latency.draw(this.history.points, now);
  }

  lost(lost) {
    byId("view-live").classList.toggle("stale", lost);
    this.draw();
  }

  /** A number with a name, of which only what changes is touched. */
  put(list, name, value, tone = "") {
    const known = `${list} ${name}`;
    if (!this.cells.has(known)) {
      const cell = h("dd");
      byId(list).append(h("div", {}, h("dt", {}, name), cell));
      this.cells.set(known, cell);
    }
    const cell = this.cells.get(known);
    say(cell, value);
    if (cell.className !== tone) cell.className = tone;
  }

  tiles() {
    const point = this.history.last;
    const total = point?.total ?? NOTHING;
    this.put("tiles", "Decisions / s", rate(total.all));
    this.put("tiles", "Refused", percent(total.refused, total.all), total.refused > 0 ? "refused" : "");
    const busiest = Object.entries(point?.latency ?? {}).filter(([of]) => of !== "store").sort((a, b) => b[1].calls - a[1].calls)[0];
    this.put("tiles", "p99 latency", busiest === undefined ? "–" : micros(busiest[1].p99));
    const keys = this.event.store.live_keys;
    this.put("tiles", "Keys in memory", keys === null ? "in Redis" : count(keys));
  }

  legend(point) {
    const of = this.of(point ?? this.history.last ?? { total: NOTHING, rules: new Map() });
    const entry = (tone, name, value) =>
      h("span", { class: `entry ${tone}` }, h("i", {}), `${name} `, h("b", {}, rate(value)));
    const [allowed, refused] = this.isShadow(this.rule) ? ["Would allow", "Would deny"] : ["Allowed", "Refused"];
    byId("decisions-legend").replaceChildren(
      entry("allowed", allowed, of.allowed), entry("refused", refused, of.refused), entry("degraded", "Degraded", of.degraded),
      h("span", { class: "when" }, point ? this.moment(point) : ""));
    const about = `Decisions per second of ${this.rule === "*" ? "all rules" : ruleName(this.rule)}: ${rate(of.allowed)} ${allowed.toLowerCase()}, ${rate(of.refused)} ${refused.toLowerCase()}, ${rate(of.degraded)} degraded`;
    byId("decisions").setAttribute("aria-label", about);
  }

  latencyLegend(point) {
    const latency = (point ?? this.history.last)?.latency ?? {};
    const entries = TRANSPORTS.filter((transport) => transport in latency).map((transport) =>
      h("span", { class: `entry ${transport}` }, h("i", {}), `${NAMES[transport]} `,
        "p50 ", h("b", {}, micros(latency[transport].p50)), h("i", { class: "dots" }), "p99 ", h("b", {}, micros(latency[transport].p99))));
    const none = h("span", { class: "entry" }, "Nothing was asked in the last seconds");
    byId("latency-legend").replaceChildren(...(entries.length > 0 ? entries : [none]), h("span", { class: "when" }, point ? this.moment(point) : ""));
    byId("latency").setAttribute("aria-label", `Latency. ${entries.map((entry) => entry.textContent).join("; ") || none.textContent}`);
  }

  moment(point) {
    return localTime(Date.now() - (performance.now() - point.at));
  }

  rules(policyRules) {
    const known = new Set([...policyRules.slice(0, MOST_RULES), ...this.event.rules.map((rule) => rule.rule)]);
    if (known.size !== this.rows.size || [...known].some((rule) => !this.rows.has(rule))) this.rebuild([...known]);
    const counts = new Map(this.event.rules.map((rule) => [rule.rule, rule]));
    for (const [rule, row] of this.rows) {
      const now = this.history.last?.rules.get(rule) ?? NOTHING;
      const all = counts.get(rule);
      say(row.allowed, rate(now.allowed));
      say(row.refused, rate(now.refused));
      say(row.degraded, rate(now.degraded));
      const isShadow = (all?.shadow ?? null) !== null;
      row.refused.classList.toggle("refused", now.refused > 0 && !isShadow);
      for (const name of ["allowed", "refused"]) row[name].classList.toggle("would", isShadow);
      show(row.tag, isShadow);
      row.degraded.classList.toggle("degraded", now.degraded > 0);
      say(row.total, count(requestsOf(all)));
      say(row.note, noteOf(all));
      sparkline(row.picture, this.bars(rule));
    }
    const left = this.event.rules_left_out;
    say(byId("rules-note"), left > 0 ? `The busiest; ${count(left)} more are left out` : "Requests count for every rule that applies; totals since server start");
  }

  /** A rule's last two minutes. */
  bars(rule) {
    const points = this.history.points;
    const bars = [];
    for (let bar = BARS[0]; bar > 0; bar -= 1) {
      const end = points.length - (bar - 1) * BARS[1];
      const part = points.slice(Math.max(0, end - BARS[1]), Math.max(0, end));
      const sum = (name) => part.reduce((total, point) => total + (point.rules.get(rule)?.[name] ?? 0), 0);
      bars.push([sum("allowed"), sum("refused")]);
    }
    return bars;
  }

  rebuild(rules) {
    this.rows.clear();
    const cells = rules.map((rule) => {
      const row = {
        button: h("button", { type: "button", class: "link", "aria-pressed": String(this.rule === rule), onclick: () => this.choose(this.rule === rule ? "*" : rule) },
          rule === "" ? h("i", {}, "no rule") : h("bdi", {}, rule)),
        picture: h("canvas", { class: "spark", "aria-hidden": "true" }),
        tag: h("span", { class: "tag", hidden: true }, "shadow"),
        note: h("small", {}),
      };
      for (const name of ["allowed", "refused", "degraded", "total"]) row[name] = h("span");
      this.rows.set(rule, row);
      return [h("span", {}, row.button, row.tag, row.note), row.picture, row.allowed, row.refused, row.degraded, row.total];
    });
    const headings = [["Rule"], ["Last 2 min"], ["Allowed /s", true], ["Refused /s", true], ["Degraded /s", true], ["Total", true]];
    byId("rules").replaceChildren(rules.length > 0 ? table("Rules", headings, cells, "rules") : h("p", { class: "empty" }, "The policy has no rules: everything passes."));
    const options = [h("option", { value: "*" }, "All rules"), ...rules.map((rule) => h("option", { value: rule }, ruleName(rule)))];
    byId("which-rule").replaceChildren(...options);
    if (this.rule !== "*" && !rules.includes(this.rule)) {
      this.rule = "*";
      this.loudest.choose("*");
    }
    byId("which-rule").value = this.rule;
  }

  refused() {
    const { keys, window_ms } = this.event.refused;
    say(byId("refused-window"), keys.length > 0 ? `Last ${Math.max(1, Math.round(window_ms / 60000))} to 2 min`.replace("2 to 2", "2") : "");
    const shape = JSON.stringify(keys.map(({ rule, key }) => [rule, key]));
    const box = byId("refused");
    // Rows stay while they are about the same keys, so that a button keeps its focus.
    if (shape !== this.refusedShape) {
      this.refusedShape = shape;
      const had = document.activeElement?.dataset?.of;
      this.refusedRows = keys.map((of) => this.refusedRow(of));
      const headings = [["Key"], ["Rule"], ["Why"], ["Refused", true], ["Limit", true], ["Retry in", true]];
      box.replaceChildren(keys.length > 0
        ? table("Most refused keys", headings, this.refusedRows.map((row) => row.cells))
        : h("p", { class: "empty" }, "Nobody was refused in the last minutes."));
      if (had !== undefined) this.refusedRows.find((row) => row.button.dataset.of === had)?.button.focus();
    }
    keys.forEach((of, place) => {
      const row = this.refusedRows[place];
      const left = of.retry_after_ms === null || of.last_ms === null ? null : of.last_ms + of.retry_after_ms - this.event.now_ms;
      say(row.why, REASONS[of.reason] ?? of.reason ?? "–");
      say(row.denied, (of.over > 0 ? "≈ " : "") + count(of.denied));
      say(row.limit, of.limit === null ? "–" : count(of.limit));
      say(row.retry, left === null ? "never" : wait(left));
    });
  }

  refusedRow({ rule, key, whole }) {
    const [why, denied, limit, retry] = [h("span"), h("span"), h("span"), h("span")];
    // A key that was cut is no key: what led there would be about nobody.
    const button = whole === false ? h("span", {}, keyText(key), " ", h("small", {}, "too long to be shown whole")) : h("button", { type: "button", class: "link", "data-of": JSON.stringify([rule, key]), onclick: () => this.openKey(key) }, keyText(key));
    return { button, why, denied, limit, retry, cells: [button, h("bdi", {}, ruleName(rule)), why, denied, limit, retry] };
  }

  health() {
    const { store, policy, connections, uptime_ms, version } = this.event;
    const state = { ready: ["Ready", "good"], degraded: ["Degraded", "bad"], stopping: ["Stopping", "bad"] }[this.event.health];
    this.put("health", "Server", `${state[0]}, up ${wait(uptime_ms)}`, state[1]);
    const outage = store.outage;
    if (outage !== null) this.put("health", "Store", `Redis ${outage.address} unavailable for ${wait(outage.lasted_ms)}: ${outage.why}`, "bad");
    else if (!store.reached) this.put("health", "Store", "Redis has not been reached yet", "bad");
    else this.put("health", "Store", store.kind === "memory" ? "In memory" : `Redis answers${store.outages > 0 ? `, was away ${count(store.outages)} times` : ""}`, "good");
    const full = store.evictions + store.turned_away;
    if (store.kind === "memory") this.put("health", "Forgotten early", full === 0 ? "No key" : `${count(store.evictions)} keys; ${count(store.turned_away)} turned away`, full === 0 ? "" : "bad");
    else this.put("health", "Failed calls", count(store.failed_calls), "");
    const refused = policy.last_refused ? "; the last change was refused" : "";
    this.put("health", "Policy", `${count(policy.rules)} ${policy.rules === 1 ? "rule" : "rules"}, version ${count(policy.version)}${refused}`, policy.last_refused ? "bad" : "good");
    const open = TRANSPORTS.filter((of) => of in connections).map((of) => `${NAMES[of]} ${count(connections[of])}`);
    this.put("health", "Connections", open.join(", "));
    this.put("health", "Version", version);
  }
}
