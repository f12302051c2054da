// Elements, updates in place, and texts of numbers and times.
//
// All texts become text nodes or attributes, so names and contents from clients are never parsed
// as HTML. A view returns a new tree each time; `morph` changes the shown tree into it, so that
// focus, scroll positions, open details and typed text stay.

const SVG = "http://www.w3.org/2000/svg";

function dispatch(event) {
  const handler = event.currentTarget.$on?.[event.type];
  if (handler) handler(event);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element.$on ??= {};
      element.$on[name.slice(2)] = value;
      element.addEventListener(name.slice(2), dispatch);
    } else if (name === "value") {
      element.value = value;
      element.$value = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : visible(String(child)));
  }
}

/** Return an HTML element; properties that start with `on` are event handlers. */
export function h(name, properties, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** Return an SVG element. */
export function s(name, properties, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

// Control characters and marks that change the direction of text would make names unreadable or
// look like other names. They are shown as symbols.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Return a text with hidden characters shown as, for example, ⟨U+202E⟩. */
export function visible(text) {
  return text.replace(
    HIDDEN,
    (character) => `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}

/** Change the children of `parent` into those of `tree`, with as few changes as possible. */
export function morph(parent, tree) {
  const keyed = new Map();
  for (const child of parent.childNodes) {
    const key = child.getAttribute?.("data-key");
    if (key) keyed.set(key, child);
  }
  let current = parent.firstChild;
  for (const wanted of [...tree.childNodes]) {
    const key = wanted.getAttribute?.("data-key");
    let same = key ? keyed.get(key) : current;
    if (key) keyed.delete(key);
    if (same && (!alike(same, wanted) || (!key && same.getAttribute?.("data-key")))) same = null;
    if (same) {
      if (same !== current) parent.insertBefore(same, current);
      else current = current.nextSibling;
      if (wanted.$memo === undefined || wanted.$memo !== same.$memo) update(same, wanted);
    } else {
      buildAll(wanted);
      parent.insertBefore(wanted, current);
    }
  }
  while (current) {
    const next = current.nextSibling;
    current.remove();
    current = next;
  }
}

/** Make an element lazy: `build` adds its children unless the shown element has the same `memo`. */
export function lazy(element, memo, build) {
  element.$memo = memo;
  element.$build = () => append(element, build());
  return element;
}

function buildAll(node) {
  node.$build?.();
  for (const child of node.childNodes) buildAll(child);
}

function alike(left, right) {
  return left.nodeType === right.nodeType && left.nodeName === right.nodeName;
}

function update(old, wanted) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE || old.hasAttribute("data-kept")) return;
  for (const { name } of [...old.attributes]) {
    const isOpen = name === "open" && (old.nodeName === "DETAILS" || old.nodeName === "DIALOG");
    if (!isOpen && !wanted.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  wanted.$build?.();
  for (const type of Object.keys(wanted.$on ?? {})) {
    if (!old.$on?.[type]) old.addEventListener(type, dispatch);
  }
  old.$on = wanted.$on;
  old.$memo = wanted.$memo;
  morph(old, wanted);
  if (wanted.$value !== undefined && wanted.$value !== old.$value) {
    old.value = wanted.$value;
    old.$value = wanted.$value;
  }
}

const NUMBER = new Intl.NumberFormat("en");

/** Return a number with grouped digits; a dash for null. */
export function count(number) {
  return number === null || number === undefined ? "–" : NUMBER.format(number);
}

/** Return a number with its noun: `1 member`, `2 members`. */
export function counted(number, noun, plural = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : plural}`;
}

/** Return a size in bytes, KiB, MiB or GiB. */
export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = number;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** Return a duration in its two largest units. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(" ");
}

const pad = (number, digits = 2) => String(number).padStart(digits, "0");

/** Return the local time of day, with the date unless it is today or `withDate`. */
export function clockTime(ms, withMs = false, withDate = false) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return "–";
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  const text = withMs ? `${time}.${pad(at.getMilliseconds(), 3)}` : time;
  const today = new Date();
  if (!withDate && at.toDateString() === today.toDateString()) return text;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${text}`;
}

/** Return the value of an input of a local date and time; empty without a time. */
export function localTime(ms) {
  if (!ms) return "";
  const at = new Date(Number(ms));
  if (Number.isNaN(at.getTime())) return "";
  at.setMinutes(at.getMinutes() - at.getTimezoneOffset());
  return at.toISOString().slice(0, 19);
}

/** Return a `time` element: the local time, with UTC as its title; a dash for null. */
export function time(ms, withMs = false) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return "–";
  const utc = at.toISOString();
  return h("time", { datetime: utc, title: `${utc} (UTC)` }, clockTime(ms, withMs));
}

/** Return partitions as ranges: `0-2, 5`. */
export function ranges(numbers) {
  const sorted = [...numbers].sort((left, right) => left - right);
  const parts = [];
  for (let begin = 0; begin < sorted.length;) {
    let end = begin;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end] + 1) end += 1;
    parts.push(begin === end ? `${sorted[begin]}` : `${sorted[begin]}-${sorted[end]}`);
    begin = end + 1;
  }
  return parts.join(", ");
}

/** Return an assignment (partitions by topic) as a text. */
export function assignment(partitions) {
  const topics = Object.keys(partitions ?? {}).sort();
  return topics.map((topic) => `${topic} ${ranges(partitions[topic])}`).join("; ") || "nothing";
}
