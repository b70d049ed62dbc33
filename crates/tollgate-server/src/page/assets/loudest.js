// The keys with the most requests, and those that shadow rules would have denied most.

import { byId, count, h, keyText, percent, rate, say, table } from "./dom.js";
import { Refused, get } from "./server.js";

// In milliseconds: the list changes slowly, and every page asks for it.
const EVERY = 2000;
const MOST = 10;

export class Loudest {
  constructor(openKey) {
    Object.assign(this, { openKey, shape: null, asked: -Infinity, rule: "*" });
    byId("loudest-by").addEventListener("change", () => this.again());
  }

  /** Lists the keys of another rule, `*` for all. */
  choose(rule) {
    this.rule = rule;
    this.again();
  }

  again() {
    this.asked = -Infinity;
    this.follow();
  }

  /** Asks for the list if it is older than it should be. */
  async follow(uptime = this.uptime) {
    this.uptime = uptime;
    const now = performance.now();
    if (uptime === undefined || document.hidden || now - this.asked < EVERY) return;
    this.asked = now;
    const by = byId("loudest-by").value;
    const query = { by, limit: MOST, ...(this.rule === "*" ? {} : { rule: this.rule }) };
    try {
      const told = await get("top", query);
      if (this.asked === now) this.show(told);
    } catch (refused) {
      // A rule that was removed a moment ago leaves the choice with the next event.
      if (!(refused instanceof Refused)) throw refused;
    }
  }

  show({ by, keys, window_ms }) {
    const shadow = by === "would_deny";
    const window = Math.min(window_ms, this.uptime);
    const of = this.rule === "*" ? "" : `Of rule ${this.rule}. `;
    say(byId("loudest-window"), keys.length > 0 ? `${of}Last 1 to 2 min` : "");
    const box = byId("loudest");
    const shape = JSON.stringify([by, keys.map(({ rule, key }) => [rule, key])]);
    // Rows stay while they are about the same keys, so that a button keeps its focus.
    if (shape !== this.shape) {
      this.shape = shape;
      const had = document.activeElement?.dataset?.loud;
      this.rows = keys.map((key) => this.row(key));
      const headings = [["Key"], ["Rule"], ["Requests /s", true], ["Requests", true], [shadow ? "Would deny" : "Denied", true]];
      const empty = shadow ? "No shadow rule would have denied a request in the last minutes." : "No requests in the last minutes.";
      box.replaceChildren(keys.length > 0 ? table("Loudest keys", headings, this.rows.map((row) => row.cells)) : h("p", { class: "empty" }, empty));
      if (had !== undefined) this.rows.find((row) => row.button.dataset.loud === had)?.button.focus();
    }
    keys.forEach((key, place) => {
      const row = this.rows[place];
      const denied = key.shadow ? key.would_deny : key.denied;
      const about = key.over > 0 ? "≈ " : "";
      say(row.rate, rate((key.seen * 1000) / Math.max(1, window)));
      say(row.seen, (shadow ? "" : about) + count(key.seen));
      say(row.denied, `${shadow ? about : ""}${count(denied)} (${percent(denied, key.seen)})`);
      row.denied.className = denied > 0 && !key.shadow ? "refused" : "";
    });
  }

  row({ rule, key, whole, shadow }) {
    const [perSecond, seen, denied] = [h("span"), h("span"), h("span")];
    // A key that was cut is no key: its details would be those of another.
    const button = whole === false ? h("span", {}, keyText(key), " ", h("small", {}, "truncated"))
      : h("button", { type: "button", class: "link", "data-loud": JSON.stringify([rule, key]), onclick: () => this.openKey(key) }, keyText(key));
    const name = h("span", {}, h("bdi", {}, rule), shadow ? h("span", { class: "tag" }, "shadow") : null);
    return { button, rate: perSecond, seen, denied, cells: [button, name, perSecond, seen, denied] };
  }
}
