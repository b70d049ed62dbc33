// Who changed what.

import { byId, clock, day, h, printable, table } from "./dom.js";
import { Refused, get } from "./server.js";

const WORDS = {
  reset: "reset",
  block: "blocked",
  unblock: "unblocked",
  set_override: "set an override",
  remove_override: "removed an override",
  apply: "applied a policy",
  reload: "read the policy again",
};

export async function showChanges() {
  const box = byId("changes");
  try {
    const { changes } = await get("audit", { limit: 100 });
    const rows = changes.map((of) => [
      h("time", { datetime: of.at, title: of.at }, when(Date.parse(of.at))), h("bdi", {}, of.who), of.from ?? "–",
      WORDS[of.action] ?? of.action, h("code", {}, printable(written(of.target)))]);
    const headings = [["When"], ["Who"], ["From"], ["What"], ["Of"]];
    box.replaceChildren(rows.length === 0 ? h("p", { class: "empty" }, "Nothing was changed since the server started.") : table("Changes", headings, rows));
  } catch (refused) {
    if (!(refused instanceof Refused)) throw refused;
    box.replaceChildren(h("p", { class: "error" }, refused.message));
  }
}

function when(millis) {
  return Date.now() - millis < 43200000 ? clock(millis) : day(millis);
}

/** What was changed, without what says nothing. */
function written(target) {
  const said = Object.entries(target).filter(([, value]) => value !== null && value !== false);
  return said.map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
}
