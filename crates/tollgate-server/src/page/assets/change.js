// Changes: each is confirmed in a dialog, which says what will be done, and is in the audit log.

import { announce, byId, h, keyText, printable } from "./dom.js";
import { Refused, get, post, put, session } from "./server.js";

const BLOCKS = [["300", "5 minutes"], ["900", "15 minutes"], ["3600", "1 hour"], ["86400", "1 day"], ["604800", "7 days"]];
const SPANS = [["3600", "1 hour"], ["28800", "8 hours"], ["86400", "1 day"], ["604800", "7 days"], ["until", "until …"], ["", "no expiry"]];

/**
 * Asks whether to go on, then does so. `act` may fail: then the dialog stays and says why.
 * Resolves to what the server says came of it, or to null where it was not done.
 */
function confirmed({ title, body, yes, doing = yes.toLowerCase(), danger = false, act }) {
  const [dialog, form, error, button] = ["dialog", "dialog-form", "dialog-error", "dialog-yes"].map(byId);
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...body);
  error.textContent = "";
  button.textContent = yes;
  button.className = danger ? "main danger" : "main";
  button.disabled = false;
  return new Promise((resolve) => {
    let done = null;
    const submit = async (event) => {
      event.preventDefault();
      error.textContent = "";
      button.disabled = true;
      try {
        done = (await act()).result;
        dialog.close();
      } catch (refused) {
        if (!(refused instanceof Refused)) throw refused;
        error.textContent = refused.status === 403 ? "This token is read-only." : `Could not ${doing}: ${printable(refused.message)}`;
      } finally {
        button.disabled = false;
      }
    };
    const no = () => dialog.close();
    const closed = () => {
      // This is the event of the previous dialog, dispatched after this one opened.
      if (dialog.open) return;
      dialog.removeEventListener("close", closed);
      form.removeEventListener("submit", submit);
      byId("dialog-no").removeEventListener("click", no);
      resolve(done);
    };
    form.addEventListener("submit", submit);
    byId("dialog-no").addEventListener("click", no);
    dialog.addEventListener("close", closed);
    dialog.showModal();
    (byId("dialog-body").querySelector("input, select") ?? byId("dialog-yes")).focus();
  });
}

const recorded = (before = "") => h("p", { class: "hint" }, `${before}Recorded in the audit log as ${printable(session.who.name)}.`);
const told = (text) => announce(`${text} Recorded in the audit log.`);
// What was asked for was done, and has changed nothing.
const isNothing = (result) => result.keys === 0 || result.removed === false;

const chooser = (id, choices) => h("select", { id }, choices.map(([value, text]) => h("option", { value }, text)));

/** The attributes of one name, as in "all users". */
function plural(name) {
  if (name === "ip") return "IPs";
  return /(?:s|x|ch|sh)$/.test(name) ? `${name}es` : /[^aeiou]y$/.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`;
}

/** Says that a rule's key is wider than the attributes that were searched for; nothing if it is not. */
function scope(of, searched) {
  const names = of.ignored_attributes ?? [];
  if (names.length === 0) return null;
  const all = names.map((name) => plural(printable(name))).join(" and ");
  const rest = Object.fromEntries(names.map((name) => [name, searched[name]]));
  const whole = Object.keys(of.key).length === 0 ? ["Affects all requests, of all ", all] : ["Affects all ", all, " of ", keyText(of.key)];
  return h("p", { class: "warning" }, whole, ", not only ", keyText(rest), ".");
}

const parts = (...all) => all.filter((part) => part !== null);

/** Resets a key of a rule, which was found by the attributes `searched`. */
export async function reset(of, searched = {}) {
  const { rule, key } = of;
  const done = await confirmed({
    title: "Reset this key?",
    body: parts(h("p", {}, "Restores the full quota of ", keyText(key), " under rule ", h("bdi", {}, rule), " and removes its block."), scope(of, searched), recorded()),
    yes: "Reset",
    act: () => post("keys/reset", { rule, key }),
  });
  if (done !== null) told(isNothing(done) ? "Nothing to reset: the key already has its full quota." : "Key reset.");
  return done !== null;
}

/** Blocks a key of a rule, which was found by the attributes `searched`. */
export async function block(of, searched = {}) {
  const { rule, key } = of;
  const whole = Object.keys(key).length === 0;
  const length = chooser("block-for", BLOCKS);
  length.value = "900";
  const done = await confirmed({
    title: "Block this key?",
    body: parts(h("p", {}, whole ? "All requests" : ["All requests of ", keyText(key)], " will be denied for the chosen time, even if quota remains. Rule: ", h("bdi", {}, rule), "."), scope(of, searched),
      h("label", { for: "block-for" }, "For"), length, recorded()),
    yes: "Block",
    danger: true,
    act: () => post("blocks", { rule, key, for_seconds: Number(length.value) }),
  });
  if (done !== null) told(isNothing(done) ? "Nothing to block." : "Key blocked.");
  return done !== null;
}

/** Removes the block of a key of a rule, which was found by the attributes `searched`. */
export async function lift(of, searched = {}) {
  const { rule, key } = of;
  const done = await confirmed({
    title: "Unblock this key?",
    body: parts(h("p", {}, "Removes the block of ", keyText(key), "; the limit of rule ", h("bdi", {}, rule), " applies again."), scope(of, searched), recorded()),
    yes: "Unblock",
    act: () => post("blocks/lift", { rule, key }),
  });
  if (done !== null) told(isNothing(done) ? "Nothing to unblock: the key is not blocked." : "Key unblocked.");
  return done !== null;
}

export async function removeOverride(client) {
  const done = await confirmed({
    title: "Remove the override?",
    body: [h("p", {}, keyText(client), " returns to the policy’s limits and tier."), recorded()],
    yes: "Remove",
    danger: true,
    act: () => post("overrides/remove", { client }),
  });
  if (done !== null) told(isNothing(done) ? "Nothing to remove: the client has no override." : "Override removed.");
  return done !== null;
}

/** Sets a limit or a tier of a client, beside those that an override gives it already. */
export async function override(of, attributes) {
  let tiers, overrides;
  try {
    [{ tiers }, { overrides }] = await Promise.all([get("tiers"), get("overrides", { limit: 1000 })]);
  } catch (refused) {
    announce(refused.message, true);
    return false;
  }
  const form = overrideForm(of, attributes, Object.keys(tiers));
  const done = await confirmed({
    title: "Custom limit for this client",
    body: [...form.parts, recorded("It takes precedence over any other override of this client, until it ends or the policy file’s override of this client changes. ")],
    yes: "Override",
    doing: "save",
    act: () => put("overrides", form.asked(overrides)),
  });
  if (done !== null) told("Override saved.");
  return done !== null;
}

function overrideForm(of, attributes, tiers) {
  const names = Object.keys(attributes);
  const boxes = names.map((name) => h("input", { type: "checkbox", id: `client-${name}`, value: name, checked: name in of.key || names.length === 1 }));
  const limit = h("input", { id: "override-limit", value: of.numbers?.length === 1 ? of.numbers[0] : "", placeholder: "500/min burst 50, or unlimited", autocomplete: "off", spellcheck: "false", maxlength: "256", "aria-describedby": "override-hint" });
  const tier = h("select", { id: "override-tier" }, h("option", { value: "" }, "unchanged"), tiers.map((name) => h("option", { value: name }, name)));
  const span = chooser("override-for", SPANS);
  const until = h("input", { id: "override-until", type: "datetime-local", "aria-label": "Until", hidden: true });
  span.addEventListener("change", () => {
    until.hidden = span.value !== "until";
  });
  const client = h("fieldset", {}, h("legend", {}, "Client"), names.map((name, place) =>
    h("label", { class: "check" }, boxes[place], keyText({ [name]: attributes[name] }))));
  const parts = [client,
    h("label", { for: "override-limit" }, "Limit on ", h("bdi", {}, of.rule)), limit,
    h("p", { class: "hint", id: "override-hint" }, "Same syntax as in the policy. Leave empty to change only the tier."),
    tiers.length > 0 ? h("label", { for: "override-tier" }, "Tier") : null, tiers.length > 0 ? tier : null,
    h("label", { for: "override-for" }, "For"), span, until].filter((part) => part !== null);
  const asked = (overrides) => {
    const chosen = Object.fromEntries(boxes.filter((box) => box.checked).map((box) => [box.value, attributes[box.value]]));
    const known = overrides.find((other) => !other.ended && same(other.client, chosen));
    const limits = { ...known?.limits };
    if (limit.value.trim() !== "") limits[of.rule] = limit.value.trim();
    const body = { client: chosen, limits, tier: tier.value || known?.tier || null };
    if (span.value === "until") body.until = moment(until.value);
    else if (span.value !== "") body.for_seconds = Number(span.value);
    return body;
  };
  return { parts, asked };
}

/** A moment of this machine's clock, as the server reads it. */
function moment(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) throw new Refused(0, "choose the end of the override");
  return at.toISOString();
}

function same(one, other) {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}
