// The audit log of this server: each change with its target and its values before and after.

import { byId, h, keyText, localTime, printable, table, timeElement } from "./dom.js";
import { Refused, get } from "./server.js";

const ACTIONS = {
  reset: "reset",
  block: "block",
  unblock: "unblock",
  set_override: "set override",
  remove_override: "remove override",
  apply: "apply policy",
  reload: "reload policy",
};
const SOURCES = { policy_file: "source: policy file", run_time: "source: run time" };
// The order of the parts of a value; others follow.
const PARTS = ["version", "limits", "tier", "until", "remaining", "blocked_until", "source"];
const HEADINGS = [["Time"], ["User"], ["IP"], ["Action"], ["Target"], ["Before"], ["After"]];

export async function showChanges() {
  const box = byId("changes");
  try {
    const { changes } = await get("audit", { limit: 100 });
    const rows = changes.map((of) => [
      timeElement(of.at), h("bdi", {}, of.actor), of.address ?? "–", action(of), target(of.target), value(of.before), value(of.after)]);
    box.replaceChildren(rows.length === 0 ? h("p", { class: "empty" }, "No changes since the server started.") : table("Changes", HEADINGS, rows, "changes"));
  } catch (refused) {
    if (!(refused instanceof Refused)) throw refused;
    box.replaceChildren(h("p", { class: "error" }, refused.message));
  }
}

function action(of) {
  const name = ACTIONS[of.action] ?? of.action;
  return of.result.failed === undefined ? name : [name, h("p", { class: "error" }, `failed: ${of.result.failed}`)];
}

/** The key, the rule, the client or the policy that was changed. */
function target(of) {
  if (of.everything) return "all keys of all rules";
  if (of.every_key) return ["all keys of rule ", h("bdi", {}, of.rule)];
  if (of.prefix !== undefined) return ["keys that begin with ", h("bdi", {}, printable(of.prefix)), ", rule ", h("bdi", {}, of.rule)];
  if (of.key !== undefined) return [keyText(of.key), ", rule ", h("bdi", {}, of.rule)];
  if (of.client !== undefined) return keyText(of.client);
  if (of.attributes !== undefined) return [keyText(of.attributes), ", all its rules"];
  if (of.changes !== undefined) return policy(of);
  return printable(JSON.stringify(of));
}

function policy({ policy: file, changes: { rules, other_settings: settings } }) {
  const parts = ["added", "changed", "removed"].filter((kind) => rules[kind].length > 0).map((kind) => `rules ${kind}: ${rules[kind].join(", ")}`);
  if (rules.omitted > 0) parts.push(`and ${rules.omitted} more rules`);
  if (settings.length > 0) parts.push(`other settings: ${settings.join(", ")}`);
  return [h("bdi", {}, file ?? "policy"), ": ", h("bdi", {}, parts.length === 0 ? "nothing changed" : parts.join("; "))];
}

/** A value before or after a change, in words. */
function value(of) {
  if (of === null) return "–";
  const place = (name) => (PARTS.includes(name) ? PARTS.indexOf(name) : PARTS.length);
  const fields = Object.entries(of).sort(([one], [other]) => place(one) - place(other));
  const parts = fields.flatMap(([name, field]) => words(name, field, of));
  return parts.length === 0 ? "–" : parts.map((part) => h("div", {}, h("bdi", {}, printable(part))));
}

function words(name, field, of) {
  switch (name) {
    case "limits": return Object.entries(field).map(([rule, limit]) => `${rule}: ${[limit].flat().join(" and ")}`);
    case "remaining": return [`${field.join(" and ")} left`];
    case "blocked_until":
      if (field !== null) return [`blocked until ${localTime(Date.parse(field))}`];
      return of.remaining === undefined ? ["not blocked"] : [];
    case "until": return field === null ? [] : [`until ${localTime(Date.parse(field))}`];
    case "version": return [`version ${field}`];
    case "rules": return [`${field} ${field === 1 ? "rule" : "rules"}`];
    case "source": return [SOURCES[field] ?? field];
    case "omitted": return [`and ${field} more`];
    default: return field === null ? [] : [`${name} ${typeof field === "string" ? field : JSON.stringify(field)}`];
  }
}
