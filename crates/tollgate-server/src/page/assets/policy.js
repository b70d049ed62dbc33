// The policy in force, and what it would do.

import { attributes, byId, h, say, show } from "./dom.js";
import { Refused, get, post } from "./server.js";
import { StatusView } from "./status.js";

// More would make a browser slow, and nobody reads so much on a page.
const MOST_LINES = 5000;

export class Policy {
  constructor(changed) {
    this.changed = changed;
    /** Names of rules, in the policy's order. */
    this.rules = [];
    this.version = null;
    byId("explain").addEventListener("submit", (event) => {
      event.preventDefault();
      this.explain(byId("explain-text").value.trim());
    });
  }

  /** Asks for it where another is in force than the one that is shown. */
  async follow(version) {
    if (version === this.version) return;
    this.version = version;
    try {
      this.show(await get("policy"));
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      this.version = null;
    }
  }

  show({ version, file, toml, policy }) {
    const rules = policy.rule ?? [];
    this.rules = rules.map((rule) => rule.name);
    this.changed(new Map(rules.map((rule) => [rule.name, [rule.limit ?? rule.limits ?? []].flat().filter((limit) => typeof limit === "string")])));
    say(byId("policy-about"), `${version}${file === null ? "" : `, from ${file}`}`);
    const lines = toml.replace(/\n$/, "").split("\n");
    const shown = lines.slice(0, MOST_LINES).map((line) => h("li", {}, h("code", {}, painted(line))));
    byId("policy").replaceChildren(...shown);
    show(byId("policy-more"), lines.length > MOST_LINES);
    byId("policy").style.setProperty("--digits", String(lines.length).length);
    const known = new Set(rules.flatMap((rule) => [...[rule.key ?? []].flat(), ...Object.keys(rule.match ?? {})]));
    const names = [...known].filter((name) => typeof name === "string").slice(0, 12);
    say(byId("explain-hint"), `Nothing is taken by asking.${names.length > 0 ? ` This policy looks at: ${names.join(", ")}.` : ""}`);
  }

  async explain(text) {
    const box = byId("explained");
    const asked = text === "" ? {} : attributes(text);
    if (asked === null) {
      box.replaceChildren(h("p", { class: "error" }, "Write names and values, as in user=42 route=\"/a b\"."));
      return;
    }
    try {
      const status = await post("keys/status", { attributes: asked });
      const inner = h("div");
      box.replaceChildren(inner);
      new StatusView(inner).update(status);
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      box.replaceChildren(h("p", { class: "error" }, refused.message));
    }
  }
}

/** A line of TOML with its strings, names and comments marked. */
function painted(line) {
  const parts = [];
  const pattern = /("(?:[^"\\]|\\.)*"|'[^']*')|(#.*$)|(^\s*\[\[?[^\]]*\]\]?)|([A-Za-z0-9_-]+)(?=\s*=)/gu;
  let end = 0;
  for (const match of line.matchAll(pattern)) {
    const tone = match[1] ? "text" : match[2] ? "comment" : match[3] ? "table" : "name";
    parts.push(line.slice(end, match.index), h("span", { class: tone }, match[0]));
    end = match.index + match[0].length;
  }
  parts.push(line.slice(end));
  return line === "" ? ["\u200b"] : parts.filter((part) => part !== "");
}
