// What was seen, for the last quarter of an hour. Events hold counts since the start of the server;
// what is drawn are their differences.

export const KEPT = 900000;
// Latency is that of so many events: percentiles of one second would jump.
const LATENCY_EVENTS = 10;
// Longer than that between two events is time that nobody has seen.
export const GAP = 3500;

export const TRANSPORTS = ["http", "resp", "grpc", "store"];

/** Points of time, each with rates by rule and latency by transport. */
export class History {
  constructor() {
    this.points = [];
    this.events = [];
  }

  get last() {
    return this.points.at(-1);
  }

  /** Adds an event that came at `at`, by this machine's steady clock. */
  add(event, at) {
    const before = this.events.at(-1);
    const goesOn = before !== undefined && before.event.boot === event.boot && at - before.at < GAP;
    if (!goesOn) this.events = [];
    this.events.push({ event, at });
    if (this.events.length > LATENCY_EVENTS + 1) this.events.shift();
    if (!goesOn) return;
    const seconds = (event.uptime_ms - before.event.uptime_ms) / 1000;
    if (seconds <= 0) return;
    const known = new Map(before.event.rules.map((rule) => [rule.rule, rule]));
    const rules = new Map();
    for (const rule of event.rules) {
      const earlier = known.get(rule.rule);
      const rates = difference(ofRule(rule), earlier === undefined ? (event.rules_left_out > 0 ? ofRule(rule) : {}) : ofRule(earlier), seconds);
      if (rates.all > 0 || rates.degraded > 0) rules.set(rule.rule, rates);
    }
    const total = difference(event.totals, before.event.totals, seconds);
    this.points.push({ at, total, rules, latency: this.latency(event) });
    while (this.points[0].at < at - KEPT) this.points.shift();
  }

  latency(event) {
    const from = this.events[0].event;
    const found = {};
    for (const transport of TRANSPORTS) {
      const [now, before] = [event.latency[transport], from.latency[transport]];
      if (!now || !before) continue;
      const counts = now.map((count, step) => count - before[step]);
      const calls = counts.reduce((sum, count) => sum + count, 0);
      if (calls === 0) continue;
      const steps = event.latency.steps_us;
      found[transport] = { calls, p50: quantile(counts, calls, 0.5, steps), p99: quantile(counts, calls, 0.99, steps) };
    }
    return found;
  }
}

/** What a rule allowed and denied, or would have in shadow, whichever rule decided. */
function ofRule({ requests, shadow, degraded }) {
  if (shadow !== null) return { allowed: shadow.would_allow, denied: shadow.would_deny, degraded };
  return { allowed: requests.allowed, denied: requests.denied, degraded };
}

function difference(now, before, seconds) {
  const of = (name) => Math.max(0, (now[name] ?? 0) - (before[name] ?? 0)) / seconds;
  const [allowed, denied, blocked, error] = [of("allowed"), of("denied"), of("blocked"), of("error")];
  const refused = denied + blocked + error;
  return { allowed, refused, denied, blocked, error, all: allowed + refused, degraded: of("degraded") };
}

/** Within a step, latencies are taken as spread evenly. */
function quantile(counts, calls, share, steps) {
  let wanted = share * calls;
  for (let step = 0; step < counts.length; step += 1) {
    if (counts[step] >= wanted && counts[step] > 0) {
      const from = step === 0 ? 0 : steps[step - 1];
      const to = steps[step] ?? from;
      return from + ((to - from) * wanted) / counts[step];
    }
    wanted -= counts[step];
  }
  return steps.at(-1);
}
