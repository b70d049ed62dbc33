// A Redis that does not answer: a banner and a red header, for as long as that lasts.

import { announce, byId, count, printable, say, show, wait } from "./dom.js";

const rules = (number) => `${count(number)} ${number === 1 ? "rule" : "rules"}`;

/** The fallbacks of the rules without Redis, in words. */
export function fallbackText({ nodes, local, allow, deny }) {
  const share = nodes > 1 ? `each node enforces 1/${nodes}` : "on this node alone";
  const kinds = [
    [local, "local limits, " + share, `${rules(local)} with local limits (${share})`],
    [deny, "all rules deny", `${rules(deny)} ${deny === 1 ? "denies" : "deny"}`],
    [allow, "all rules allow without counting", `${rules(allow)} ${allow === 1 ? "allows" : "allow"} without counting`],
  ].filter(([number]) => number > 0);
  if (kinds.length === 1) return kinds[0][1];
  return kinds.length === 0 ? "the policy has no rules" : kinds.map((kind) => kind[2]).join(", ");
}

/** Shows the outage that an event reports. Without an event, nothing is known of one. */
export function showOutage(event) {
  const { outage = null, fallback = null } = event?.store ?? {};
  const is = fallback !== null;
  const what = outage === null ? "Redis has not been reached yet" : `Redis ${outage.address} unavailable`;
  if (is) {
    const since = outage === null ? "" : ` for ${wait(outage.lasted_ms)}`;
    const why = outage === null ? "" : ` Cause: ${printable(outage.why)}.`;
    say(byId("outage-text"), `${what}${since}: ${fallbackText(fallback)}. Resets, blocks and overrides fail until it recovers.${why}`);
  }
  // Read out once: the text above changes every second.
  if (is || event !== null) say(byId("outage-alert"), is ? `${what}: ${fallbackText(fallback)}.` : "");
  if (!is && showOutage.was && event !== null) announce("Redis recovered.");
  if (event !== null) showOutage.was = is;
  show(byId("outage"), is);
  byId("bar").classList.toggle("alarm", is);
}
