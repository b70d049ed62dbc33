// The page: who is here, what is shown, and whether the server is there.

import { announce, byId, localTime, say, show, still } from "./dom.js";
import { Refused, Watcher, access, get, session } from "./server.js";
import { History } from "./history.js";
import { Live } from "./live.js";
import { Keys, keyAddress } from "./keys.js";
import { showOutage } from "./outage.js";
import { Policy } from "./policy.js";
import { Simulator } from "./simulate.js";
import { showChanges } from "./changes.js";

const VIEWS = ["live", "keys", "policy", "simulate", "changes"];
// Charts move some pixels a second: more often is not seen.
const FRAME = 50;
// Others make changes, too: in seconds.
const CHANGES_EVERY = 5;

const seen = new History();
const simulator = new Simulator();
const policy = new Policy((limits) => simulator.rules(limits));
const keys = new Keys();
const live = new Live(seen, (key) => {
  location.hash = keyAddress(key);
});
let view = null;
let lost = null;
let lastEvent = null;
// Whether who has no token was refused though none seemed to be needed.
let refusedWithout = false;

const watcher = new Watcher({
  sample(event) {
    lastEvent = Date.now();
    seen.add(event, performance.now());
    live.update(event, policy.rules);
    showOutage(event);
    connection(...(event.store.fallback === null ? ["live", "Live"] : ["gone", "Degraded"]));
    policy.follow(`${event.boot} ${event.policy.version}`);
    if (view === "changes" && Math.floor(event.uptime_ms / 1000) % CHANGES_EVERY === 0) showChanges();
  },
  up() {
    if (lost !== null) announce("The server is back.");
    lost = null;
    live.lost(false);
    show(byId("lost"), false);
  },
  down(why, retryAt) {
    const first = lost === null;
    lost = { why, retryAt, since: lost?.since ?? lastEvent };
    if (first) live.lost(true);
    connection("gone", "Lost");
    showOutage(null);
    showLost();
  },
  turnedAway(refused) {
    session.forget();
    enter(refused.message);
  },
});

function connection(state, text) {
  const element = byId("connection");
  say(element, text);
  element.className = `state ${state}`;
}

/** That the server is gone, since when, and when it is tried again. */
function showLost() {
  if (lost === null) return;
  const left = Math.ceil((lost.retryAt - Date.now()) / 1000);
  const since = lost.since === null ? "" : ` Data as of ${localTime(lost.since)}.`;
  say(byId("lost-text"), `Connection lost: ${lost.why}.${since} ${left > 0 ? `Retrying in ${left} s.` : "Retrying …"}`);
  show(byId("lost"), view !== "enter");
}
setInterval(showLost, 500);

/** What is shown before somebody is known: whether all is well, and a form. */
async function enter(error = "") {
  watcher.stop();
  byId("dialog").close();
  showOutage(null);
  lost = null;
  show(byId("lost"), false);
  go("enter");
  say(byId("enter-error"), error);
  await health();
}

async function health() {
  clearTimeout(health.timer);
  if (view !== "enter") return;
  const words = { ready: ["Ready", "good"], degraded: ["Degraded: Redis is unavailable", "bad"], stopping: ["Stopping", "bad"] };
  try {
    const told = await access();
    if (view !== "enter") return;
    const [text, tone] = words[told.health];
    say(byId("enter-health"), `The server is up. ${text}.`);
    byId("enter-health").className = `health ${tone}`;
    connection("live", "Up");
    if (told.access === "open" && !refusedWithout) return begin();
    show(byId("enter-closed"), told.access === "closed");
    show(byId("enter-form"), told.access === "token");
    if (told.access === "token" && document.activeElement === document.body) byId("token").focus();
  } catch (refused) {
    if (!(refused instanceof Refused)) throw refused;
    say(byId("enter-health"), "The server does not answer.");
    byId("enter-health").className = "health bad";
    connection("gone", "Lost");
  }
  health.timer = setTimeout(health, 3000);
}

/** Asks who is here, and shows everything if it is somebody. */
async function begin() {
  try {
    session.who = await get("info");
  } catch (refused) {
    if (!(refused instanceof Refused)) throw refused;
    refusedWithout = refused.status !== 0 && session.token === null;
    if (refused.status !== 0) session.forget();
    const typed = byId("token").value !== "";
    if (refused.status !== 0) byId("token").value = "";
    await enter(typed || refused.status !== 401 ? sentence(refused.message) : "");
    return;
  }
  byId("token").value = "";
  show(byId("leave"), session.token !== null);
  say(byId("who"), session.token === null ? "" : `${session.who.name}, ${session.who.role}`);
  route();
  watcher.start();
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** Shows a view. */
function go(name) {
  if (view === "keys" && name !== "keys") keys.close();
  const another = view !== name;
  view = name;
  for (const other of ["enter", ...VIEWS]) show(byId(`view-${other}`), other === name);
  show(byId("nav"), name !== "enter");
  show(byId("leave"), name !== "enter" && session.token !== null);
  show(byId("who"), name !== "enter");
  for (const link of byId("nav").children) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = name === "enter" ? "Tollgate" : `${name.charAt(0).toUpperCase()}${name.slice(1)} · Tollgate`;
  if (another) scrollTo(0, 0);
}

/** Shows what the address line says. */
function route() {
  if (session.who === null) return;
  const [name, rest] = location.hash.slice(1).split(/\/(.*)/s);
  go(VIEWS.includes(name) ? name : "live");
  if (view === "keys") keys.open(rest ?? "");
  if (view === "changes") showChanges();
  if (view === "live") live.draw();
}

function frame(time) {
  requestAnimationFrame(frame);
  if (still.matches || view !== "live" || time - (frame.last ?? 0) < FRAME) return;
  frame.last = time;
  if (lost === null) live.draw();
}

const THEMES = ["auto", "light", "dark"];
function theme(next) {
  const now = document.documentElement.dataset.theme ?? "auto";
  const chosen = next ? THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] : now;
  if (chosen === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("theme");
  } else {
    document.documentElement.dataset.theme = chosen;
    localStorage.setItem("theme", chosen);
  }
  const words = { auto: "as the system", light: "light", dark: "dark" };
  say(byId("theme-name"), { auto: "Auto", light: "Light", dark: "Dark" }[chosen]);
  byId("theme").dataset.theme = chosen;
  byId("theme").setAttribute("aria-label", `Colours: ${words[chosen]}. Change`);
  live.draw();
}

byId("theme").addEventListener("click", () => theme(true));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => live.draw());
byId("again").addEventListener("click", () => watcher.now());
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
byId("leave").addEventListener("click", () => {
  session.forget();
  // Nothing of what was seen stays.
  history.replaceState(null, "", "/");
  location.reload();
});
byId("enter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.keep(byId("token").value.trim());
  begin();
});
addEventListener("hashchange", route);
// Who comes back to the page need not wait for the next try.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && lost !== null) watcher.now();
});

theme(false);
requestAnimationFrame(frame);
if (session.token === null) enter();
else begin();
