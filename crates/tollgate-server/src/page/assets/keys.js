// Finding keys, their status, and changing that.

import { announce, attributes, byId, count, h, keyText, localTime, printable, show, table, timeElement, wait, written } from "./dom.js";
import { Refused, get, post, session } from "./server.js";
import { StatusView, changesAfter } from "./status.js";
import * as change from "./change.js";

// How often the status of a visible key is asked for, and its other keys, which the server searches for.
const AGAIN = 2000;
const OTHERS_AGAIN = 10000;
// A wait that has just passed is asked about at once, but not more often than this.
const SOONEST = 250;
// The server stops a search after some ten milliseconds: the largest number of calls that continue it. A
// search of more calls than the second number is not repeated by itself.
const MOST_PAGES = 50;
const MOST_PAGES_REPEATED = 10;
const SHOWN = 50;
const SOURCES = { policy_file: "policy file", run_time: "run time" };

/** Where a key is shown, for the address line. */
export function keyAddress(key) {
  return `#keys/${new URLSearchParams(key).toString()}`;
}

/** A key, and a link to it. A key that was cut is another key, and has no link. */
function link(key, whole) {
  if (!whole) return h("span", {}, keyText(key), " ", h("small", {}, "truncated"));
  return h("a", { href: keyAddress(key) }, keyText(key));
}

const idOf = (of) => JSON.stringify([of.rule, of.key]);

/** `true` if a key that was found is denied now. */
const isDenied = (of) => of.blocked_ms > 0 || (of.retry_after_ms > 0 && !of.shadow);

/** The state of a key that was found, in words. */
function state(of) {
  if (of.blocked_ms > 0) return h("span", { class: "refused" }, `Blocked for ${wait(of.blocked_ms)}`);
  if (of.limit === undefined) return of.reason === "block" ? "blocked when last denied" : "denied recently";
  if (of.retry_after_ms > 0 && of.shadow) return `Shadow: would deny for ${wait(of.retry_after_ms)}`;
  if (of.retry_after_ms > 0) return h("span", { class: "refused" }, `Over limit, next in ${wait(of.retry_after_ms)}`);
  return of.denied ? "OK, denied recently" : "OK";
}

export class Keys {
  constructor() {
    this.key = null;
    byId("find").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find(byId("find-text").value.trim());
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.key !== null) this.refreshAll();
    });
  }

  /** Shows what the address line says: a key, or the search alone. */
  open(text) {
    this.stop();
    this.turn = (this.turn ?? 0) + 1;
    [this.view, this.status, this.others] = [null, null, null];
    const pairs = [...new URLSearchParams(text)];
    this.key = pairs.length > 0 ? Object.fromEntries(pairs) : null;
    byId("key").replaceChildren();
    show(byId("standing"), this.key === null);
    if (this.key === null) return this.lists();
    byId("found").replaceChildren();
    const typed = Object.entries(this.key).map(([name, value]) => `${name}=${written(value)}`).join(" ");
    byId("find-text").value = typed;
    return this.refreshAll();
  }

  close() {
    this.stop();
    this.view = null;
    this.key = null;
  }

  stop() {
    clearTimeout(this.timer);
    clearTimeout(this.othersTimer);
  }

  async refreshAll() {
    await Promise.all([this.refresh(), this.refreshOthers()]);
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
      box.replaceChildren(this.results(text, await this.search({ contains: text })));
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      box.replaceChildren(h("p", { class: "error" }, printable(refused.message)));
    }
  }

  /** Active keys that match, and denied ones, of which the server may keep no state. Denied ones come first. */
  async search(wanted) {
    const { denials } = await get("denials", { ...wanted, limit: SHOWN });
    const found = new Map(denials.map(({ rule, key, whole, reason }) => [idOf({ rule, key }), { rule, key, whole, reason, denied: true }]));
    let cursor = null;
    let pages = 0;
    do {
      const query = { ...wanted, limit: SHOWN, ...(cursor === null ? {} : { cursor }) };
      const page = await get("keys", query);
      for (const of of page.keys) {
        found.set(idOf(of), { ...of, denied: found.has(idOf(of)) });
      }
      cursor = page.next;
      pages += 1;
    } while (cursor !== null && found.size < SHOWN && pages < MOST_PAGES);
    const keys = [...found.values()].sort((one, other) => isDenied(other) - isDenied(one)).slice(0, SHOWN);
    return { keys, more: cursor !== null || found.size > SHOWN, pages };
  }

  results(text, { keys, more }) {
    if (keys.length === 0) {
      const hint = more ? " among those searched so far. Refine the search" : "";
      return h("section", { class: "panel" }, h("p", { class: "empty" }, `No active key contains “${printable(text)}”${hint}. Idle keys are not listed; look one up by attribute, e.g. `, h("code", {}, `user=${written(text)}`), "."));
    }
    const rows = keys.map((of) => [link(of.key, of.whole), h("bdi", {}, of.rule ?? "–"), this.amount(of), state(of)]);
    return h("section", { class: "panel", "aria-label": "Keys found" },
      h("p", { class: "hint" }, more ? `Showing the first ${count(keys.length)} matches. Refine the search.` : `${count(keys.length)} found`),
      table("Keys found", [["Key"], ["Rule"], ["Left", true], ["State"]], rows));
  }

  amount(of) {
    return of.limit === undefined ? "–" : `${count(of.remaining)} of ${count(of.limit)}`;
  }

  /** Asks for the status of the key, now and every while. */
  async refresh() {
    const [turn, key] = [this.turn, this.key];
    clearTimeout(this.timer);
    // A hidden page asks again when it is seen.
    if (document.hidden && this.view !== null) return;
    let again = AGAIN;
    try {
      const status = await post("keys/status", { attributes: key });
      if (turn !== this.turn || this.key === null) return;
      if (this.view === null) this.build();
      this.status = status;
      this.view.update(status);
      this.showOthers();
      again = Math.min(AGAIN, Math.max(SOONEST, changesAfter(status)));
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      if (turn !== this.turn || this.key === null) return;
      if (this.view === null) byId("key").replaceChildren(h("p", { class: "error" }, printable(refused.message)));
      else this.view.failed(refused.message);
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), again);
  }

  /** Searches for active keys that hold an attribute of the key. */
  async refreshOthers() {
    const [turn, key] = [this.turn, this.key];
    clearTimeout(this.othersTimer);
    if (document.hidden && this.others !== null) return;
    try {
      const others = await this.search({ attributes: JSON.stringify(key) });
      if (turn !== this.turn || this.key === null) return;
      this.others = { ...others, at: Date.now(), problem: null };
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      if (turn !== this.turn || this.key === null) return;
      this.others = { keys: [], more: false, pages: 0, ...this.others, problem: refused.message };
    }
    this.showOthers();
    clearTimeout(this.othersTimer);
    if (this.others.pages <= MOST_PAGES_REPEATED) this.othersTimer = setTimeout(() => this.refreshOthers(), OTHERS_AGAIN);
  }

  /** Shows the keys that were found beside those that have a card. */
  showOthers() {
    if (this.view === null || this.others === null) return;
    const { keys, more, at, problem } = this.others;
    const cards = new Set(this.status.rules.map(idOf));
    const others = keys.filter((of) => !cards.has(idOf(of)));
    const shape = JSON.stringify([others, more, at, problem]);
    if (shape === this.othersShape) return;
    this.othersShape = shape;
    const again = async (done) => {
      if (await done) await this.refreshAll();
    };
    const button = (text, act) => h("button", { type: "button", class: "small", onclick: () => again(act()) }, text);
    const actions = (of) => !session.mayChange || !of.whole || of.limit === undefined ? "" : h("div", { class: "row" },
      button("Reset …", () => change.reset(of, this.key)),
      of.blocked_ms > 0 ? button("Unblock …", () => change.lift(of, this.key)) : button("Block …", () => change.block(of, this.key)));
    const isSearched = (of) => keyAddress(of.key) === keyAddress(this.key);
    const rows = others.map((of) => [isSearched(of) ? keyText(of.key) : link(of.key, of.whole), h("bdi", {}, of.rule ?? "–"), this.amount(of), state(of), actions(of)]);
    const about = [
      problem === null ? "" : `${at === undefined ? "Not available" : "No newer list"}: ${printable(problem)}. `,
      at === undefined ? "" : `As of ${localTime(at)}. `,
      more ? `Showing the first ${count(others.length)} matches. Refine the search.` : ""];
    byId("others").replaceChildren(
      h("div", { class: "head" }, h("h2", {}, "Other active keys with ", keyText(this.key)), h("p", { class: problem === null ? "hint" : "error" }, about.join(""))),
      at === undefined ? "" : rows.length === 0 ? h("p", { class: "empty" }, "None.") : table("Other active keys", [["Key"], ["Rule"], ["Left", true], ["State"], [""]], rows));
  }

  build() {
    const box = h("div");
    const title = h("h2", { tabindex: "-1" }, keyText(this.key));
    const again = async (done) => {
      if (await done) await this.refreshAll();
    };
    const actions = session.mayChange ? {
      reset: (of) => again(change.reset(of, this.key)),
      block: (of) => again(change.block(of, this.key)),
      lift: (of) => again(change.lift(of, this.key)),
      override: (of) => again(change.override(of, this.key)),
    } : null;
    const hint = session.mayChange ? null : h("p", { class: "hint" }, "This token is read-only. A write token can reset, block and override keys here.");
    this.othersShape = null;
    byId("key").replaceChildren(
      h("section", { class: "panel", "aria-label": "Key" }, title, box, hint),
      h("section", { class: "panel", id: "others", "aria-label": "Other active keys" }, h("p", { class: "hint" }, "Searching …")));
    this.view = new StatusView(box, actions);
    // A reader from another view continues here. While a user types, the focus stays.
    if (document.activeElement === document.body) title.focus();
  }

  /** The blocked keys and the overrides. */
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
      whole ? this.action("Unblock", () => change.lift({ rule, key })) : ""]);
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
