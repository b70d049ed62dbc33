// Elements and words. Text from outside becomes text and never markup: there is no way to make
// markup of a string in here, and the server's policy for browsers forbids it besides.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An element with attributes, listeners (`onclick` and the like) and children. */
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for pictures. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets text only where it is another, so that what is read out or selected stays. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

/** Tells people what was done: seen for a while, and read out. */
export function announce(text, wrong = false) {
  const said = byId("said");
  said.textContent = text;
  said.classList.toggle("wrong", wrong);
  said.classList.add("seen");
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => said.classList.remove("seen"), 6000);
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => (number < 100000 ? whole.format(number) : short.format(number));

/** A number of something per second. */
export function rate(number) {
  if (number === 0) return "0";
  if (number < 0.1) return "< 0.1";
  if (number < 10) return number.toFixed(1);
  return count(number);
}

export function percent(part, all) {
  if (all === 0) return "–";
  if (part === 0) return "0 %";
  const share = (100 * part) / all;
  if (part > 0 && share < 0.1) return "< 0.1 %";
  return `${share.toFixed(share < 10 ? 1 : 0)} %`;
}

/** A time of microseconds, as latency has it. */
export function micros(time) {
  if (time === null || time === undefined) return "–";
  if (time >= 1000000) return `${(time / 1000000).toFixed(1)} s`;
  if (time >= 100000) return `${Math.round(time / 1000)} ms`;
  if (time >= 1000) return `${(time / 1000).toFixed(1)} ms`;
  return `${Math.round(time)} µs`;
}

/** A wait of milliseconds: rounded up, as no wait is over before its time. */
export function wait(millis) {
  const seconds = Math.ceil(millis / 1000);
  if (millis <= 0) return "now";
  if (seconds < 60) return `${seconds} s`;
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

/** A length of time, in the parts that it has. */
export function span(millis) {
  if (millis < 1000) return `${Math.round(millis)} ms`;
  const seconds = Math.round(millis / 1000);
  const parts = [[Math.floor(seconds / 86400), "d"], [Math.floor(seconds / 3600) % 24, "h"], [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]];
  return parts.filter(([number]) => number > 0).slice(0, 2).map(([number, unit]) => `${number} ${unit}`).join(" ");
}

/** A moment in local time, with its zone: 2026-03-01 14:29:32 UTC+1. */
export function localTime(millis) {
  const at = new Date(millis);
  const two = (number) => String(number).padStart(2, "0");
  const offset = -at.getTimezoneOffset();
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  const zone = offset === 0 ? "" : `${offset < 0 ? "-" : "+"}${hours}${minutes === 0 ? "" : `:${two(minutes)}`}`;
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${date} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} UTC${zone}`;
}

/** A moment that the server has written, as an element. */
export function timeElement(text) {
  return h("time", { datetime: text, title: text }, localTime(Date.parse(text)));
}

// Characters that change the text around them or are invisible: controls, formats, marks that combine,
// unusual spaces, and scripts from right to left. `tollgate top` escapes the same.
const UNPRINTABLE = new RegExp(`[${[
  "\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Grapheme_Extend}\\p{Default_Ignorable_Code_Point}",
  "\\u{590}-\\u{8ff}\\u{1160}-\\u{11ff}\\u{2000}-\\u{200f}\\u{2028}-\\u{202f}\\u{205f}-\\u{206f}",
  "\\u{d7b0}-\\u{d7fb}\\u{fb1d}-\\u{fdff}\\u{fe70}-\\u{feff}\\u{fff9}-\\u{fffb}",
  "\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}\\u{e0000}-\\u{e0fff}",
].join("")}]`, "gu");

/** A text from outside in which every character stands for itself: others are escaped, as in `\\u{202e}`. */
export function printable(text) {
  return text.replace(UNPRINTABLE, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

/** A key as people write it: names and values, each in an element of its own. */
export function keyText(key) {
  const pairs = Object.entries(key);
  if (pairs.length === 0) return h("span", { class: "key" }, h("i", {}, "all requests"));
  return h("span", { class: "key" }, pairs.flatMap(([name, value], place) => [
    place > 0 ? " " : null, h("span", { class: "name" }, `${printable(name)}=`), h("bdi", {}, written(value))]));
}

/** A value as it is typed in a search: in quotes if it has an escape, which then cannot be a client's text. */
export function written(value) {
  const shown = printable(value);
  if (shown === value && /^[^\s"=\\]+$/u.test(value)) return value;
  return `"${printable(value.replace(/["\\]/g, "\\$&"))}"`;
}

/** Attributes as they are typed, `user=42 route="/a b"`; `null` if the text is not of this form. */
export function attributes(text) {
  const found = Object.create(null);
  const pattern = /\s*([^\s="]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?=\s|$)/uy;
  let end = 0;
  for (let match; (match = pattern.exec(text)) !== null; end = pattern.lastIndex) {
    const value = match[2].startsWith('"') ? unquoted(match[2].slice(1, -1)) : match[2];
    if (value === null) return null;
    found[match[1]] = value;
  }
  return end > 0 && text.slice(end).trim() === "" ? found : null;
}

/** The text between quotes without its escapes; `null` if one stands for no character. */
function unquoted(text) {
  let isValid = true;
  const value = text.replace(/\\(?:u\{([0-9a-fA-F]{1,6})\}|(.))/gsu, (_, digits, character) => {
    const point = digits === undefined ? 0 : parseInt(digits, 16);
    isValid &&= point <= 0x10ffff && (point < 0xd800 || point > 0xdfff) && character !== "u";
    return !isValid ? "" : digits === undefined ? character : String.fromCodePoint(point);
  });
  return isValid ? value : null;
}

/** A table whose rows are made anew: headings, and rows of cells. */
export function table(caption, headings, rows, kind = null) {
  const cell = ([label, numeric], content) =>
    h("td", { class: numeric ? "number" : null, "data-label": label }, content);
  return h("div", { class: "scroll" }, h("table", { class: kind },
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, headings.map(([label, numeric]) => h("th", { scope: "col", class: numeric ? "number" : null }, label)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((content, place) => cell(headings[place], content)))))));
}

export const still = matchMedia("(prefers-reduced-motion: reduce)");
