// Finding a key, how it stands, and changing that.

import { announce, attributes, byId, count, h, keyText, show, table, timeElement, wait, written } from "./dom.js";
import { Refused, get, post, session } from "./server.js";
import { StatusView } from "./status.js";
import * as change from "./change.js";

// How often a key that is shown is asked for again: pictures go on by themselves in between.
const AGAIN = 2000;
// The server stops searching after some ten milliseconds; so often it is asked to go on.
const MOST_PAGES = 50;
const SHOWN = 50;
const SOURCES = { policy_file: "policy file", run_time: "run time" };

/** Where a key is shown, for the address line. */
export function keyAddress(key) {
  return `#keys/${new URLSearchParams(key).toString()}`;
}

/** A key, and the way to it; one that was cut is no key, and the way would lead to nobody. */
function link(key, whole) {
  if (!whole) return h("span", {}, keyText(key), " ", h("small", {}, "too long to be shown whole"));
  return h("a", { href: keyAddress(key) }, keyText(key));
}

export class Keys {
  constructor() {
    this.key = null;
    byId("find").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find(byId("find-text").value.trim());
    });
  }

  /** Shows what the address line says: a key, or the search alone. */
  open(text) {
    clearTimeout(this.timer);
    this.turn = (this.turn ?? 0) + 1;
    this.view = null;
    const pairs = [...new URLSearchParams(text)];
    this.key = pairs.length > 0 ? Object.fromEntries(pairs) : null;
    byId("key").replaceChildren();
    show(byId("standing"), this.key === null);
    if (this.key === null) return this.lists();
    byId("found").replaceChildren();
    const typed = Object.entries(this.key).map(([name, value]) => `${name}=${written(value)}`).join(" ");
    byId("find-text").value = typed;
    return this.refresh();
  }

  close() {
    clearTimeout(this.timer);
    this.view = null;
    this.key = null;
  }

  async find(text) {
    if (text === "") {
      location.hash = "#keys";
      return;
    }
    const named = attributes(text);
    if (named !== null) {
      if (location.hash === keyAddress(named)) await this.open(keyAddress(named).slice(6));
      else location.hash = keyAddress(named);
      return;
    }
    if (this.key !== null) history.replaceState(null, "", "#keys");
    this.open("");
    const box = byId("found");
    box.replaceChildren(h("p", { class: "hint" }, "Searching …"));
    try {
      const { keys, more } = await this.search(text);
      box.replaceChildren(this.results(text, keys, more));
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      box.replaceChildren(h("p", { class: "error" }, refused.message));
    }
  }

  /** Keys that hold the text; a denied one is known also where nothing of it is left in memory. */
  async search(text) {
    const { denials } = await get("denials", { contains: text, limit: SHOWN });
    const found = new Map(denials.map((of) => [JSON.stringify([of.rule, of.key]), { rule: of.rule, key: of.key, whole: of.whole, denied: true }]));
    let cursor = null;
    let pages = 0;
    do {
      const query = { contains: text, limit: SHOWN, ...(cursor === null ? {} : { cursor }) };
      const page = await get("keys", query);
      for (const of of page.keys) {
        const id = JSON.stringify([of.rule, of.key]);
        found.set(id, { ...of, denied: found.get(id)?.denied ?? false });
      }
      cursor = page.next;
      pages += 1;
    } while (cursor !== null && found.size < SHOWN && pages < MOST_PAGES);
    return { keys: [...found.values()].slice(0, SHOWN), more: cursor !== null };
  }

  results(text, keys, more) {
    if (keys.length === 0) {
      const hint = more ? " so far: there are very many keys, say more of it" : "";
      return h("section", { class: "panel" }, h("p", { class: "empty" }, `No key in use holds “${text}”${hint}. One that has not been used lately is as good as new: write it with its name, as in `, h("code", {}, `user=${written(text)}`), "."));
    }
    const rows = keys.map((of) => [
      link(of.key, of.whole),
      h("bdi", {}, of.rule ?? "–"),
      of.limit === undefined ? "–" : `${count(of.remaining)} of ${count(of.limit)}`,
      of.retry_after_ms > 0 ? h("span", { class: "refused" }, `refused for ${wait(of.retry_after_ms)}`) : of.denied ? "was refused lately" : "allowed",
    ]);
    return h("section", { class: "panel", "aria-label": "Keys found" },
      h("p", { class: "hint" }, `${count(keys.length)} found${more ? ", and there are more" : ""}`),
      table("Keys found", [["Key"], ["Rule"], ["Left", true], ["State"]], rows));
  }

  /** Asks how the key stands, now and every while. */
  async refresh() {
    const [turn, key] = [this.turn, this.key];
    clearTimeout(this.timer);
    try {
      const status = await post("keys/status", { attributes: key });
      if (turn !== this.turn || this.key === null) return;
      if (this.view === null) this.build();
      this.view.update(status);
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      if (turn !== this.turn || this.key === null) return;
      if (this.view === null) byId("key").replaceChildren(h("p", { class: "error" }, refused.message));
    }
    this.timer = setTimeout(() => this.refresh(), AGAIN);
  }

  build() {
    const box = h("div");
    const title = h("h2", { tabindex: "-1" }, keyText(this.key));
    const again = async (done) => {
      if (await done) await this.refresh();
    };
    const actions = session.mayChange ? {
      reset: (of) => again(change.reset(of.rule, of.key)),
      block: (of) => again(change.block(of.rule, of.key)),
      lift: (of) => again(change.lift(of.rule, of.key)),
      override: (of) => again(change.override(of, this.key)),
    } : null;
    const hint = session.mayChange ? null : h("p", { class: "hint" }, "This token may only read. With one that may write, keys can be reset, blocked and overridden here.");
    byId("key").replaceChildren(h("section", { class: "panel", "aria-label": "Key" }, title, box, hint));
    this.view = new StatusView(box, actions);
    // Who came from another view goes on reading here; who typed stays where they type.
    if (document.activeElement === document.body) title.focus();
  }

  /** Who is blocked, and who has numbers of its own. */
  async lists() {
    try {
      const [{ blocks, next }, overrides] = await Promise.all([get("blocks", { limit: 50 }), get("overrides", { limit: 50 })]);
      this.showBlocks(blocks, next !== null);
      this.showOverrides(overrides.overrides, overrides.next !== null);
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      announce(refused.message, true);
    }
  }

  showBlocks(blocks, more) {
    const rows = blocks.map(({ rule, key, whole, left_ms }) => [
      link(key, whole), h("bdi", {}, rule), wait(left_ms),
      whole ? this.action("Unblock", () => change.lift(rule, key)) : ""]);
    byId("blocks").replaceChildren(rows.length === 0 ? h("p", { class: "empty" }, "No key is blocked.")
      : table("Blocked keys", [["Key"], ["Rule"], ["For", true], [""]], rows), more ? h("p", { class: "hint" }, "And more.") : "");
  }

  showOverrides(overrides, more) {
    const what = (of) => [of.tier === null ? null : `tier ${of.tier}`, ...Object.entries(of.limits).map(([rule, limit]) => `${rule}: ${[limit].flat().join(" and ")}`)];
    const rows = overrides.filter((of) => !of.ended).map((of) => [
      h("a", { href: keyAddress(of.client) }, keyText(of.client)), what(of).filter((part) => part !== null).join(", "),
      of.until === null ? "no expiry" : timeElement(of.until), SOURCES[of.source] ?? of.source,
      of.source === "policy_file" ? "" : this.action("Remove", () => change.removeOverride(of.client))]);
    const ofFile = overrides.some((of) => of.source === "policy_file" && !of.ended);
    byId("overrides").replaceChildren(rows.length === 0 ? h("p", { class: "empty" }, "No overrides.")
      : table("Overrides", [["Client"], ["Has"], ["Until"], ["Source"], [""]], rows),
    ofFile ? h("p", { class: "hint" }, "To remove an override of the policy file, change the file. A run-time override of the same client takes precedence over it.") : "",
    more ? h("p", { class: "hint" }, "And more.") : "");
  }

  action(text, act) {
    if (!session.mayChange) return "";
    return h("button", { type: "button", class: "small", onclick: async () => (await act()) && this.lists() }, `${text} …`);
  }
}
