// Parts that several views use: links, tables, forms, messages and dialogs.

import { call, path } from "./api.js";
import { count, h, lazy, visible } from "./dom.js";

/** What the views know of the cluster, from `GET /cluster`; set by app.js. */
export const cluster = { current: null, readAtMs: 0, rights: null };

/** Return the broker's time now. */
export function brokerNow() {
  if (!cluster.current) return Date.now();
  return cluster.current.now_ms + (cluster.isFrozen ? 0 : Date.now() - cluster.readAtMs);
}

/** Return whether this server accepts changes. */
export const isWritable = () => !cluster.current?.security.is_read_only;

export const ALTER_CLUSTER = ["ALTER", "CLUSTER"];
export const ALTER_CONFIGS = ["ALTER_CONFIGS", "CLUSTER"];
export const DESCRIBE_CLUSTER = ["DESCRIBE", "CLUSTER"];
export const DESCRIBE_CONFIGS = ["DESCRIBE_CONFIGS", "CLUSTER"];

/** Return whether the user may do an operation, [OPERATION, RESOURCE TYPE], on the cluster or on
 * the resource of this view. */
export function may(needs) {
  if (!needs || !cluster.rights) return true;
  const [operation, type] = needs;
  return cluster.rights[type.toLowerCase()]?.includes(operation) ?? false;
}

/** Return a note in place of a change that the user may not make; null on a read-only server. */
function refusal(title, [operation, type]) {
  if (!isWritable()) return null;
  const text = `${title}: ${cluster.rights.user} may not, it needs ${operation} on ${type}.`;
  return h("p", { class: "note" }, text);
}

/** Return a sentence if everybody may do more than ACLs allow, otherwise null. */
export function openness() {
  const { has_authorizer: isOn, has_acls: hasAcls, allows_without_acl: isOpen } =
    cluster.current.security;
  if (!isOn || !isOpen) return null;
  const text = hasAcls
    ? "Resources without an ACL are open: every user may do everything with them"
    : "Every user may do everything until the first ACL exists; then a resource is open until it has one";
  return h("p", { class: "note" }, `${text} (allow.everyone.if.no.acl.found).`);
}

/** Return the address of a view in this page. */
export function place(parts, query) {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== "");
  const text = pairs.length ? `?${new URLSearchParams(pairs)}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${text}`;
}

/** Return a link to a view. */
export const link = (parts, ...children) => h("a", { href: place(parts) }, ...children);

/** Show a message to readers of the screen and of screen readers. */
export function say(text, isError = false) {
  const status = document.getElementById("status");
  status.textContent = visible(text);
  status.className = isError ? "error" : "done";
  clearTimeout(say.timer);
  say.timer = setTimeout(() => {
    status.textContent = "";
    status.className = "";
  }, 8_000);
}

/** Return a column of buttons, or null if the server or the user's ACLs allow no changes. */
export const changeColumn = (cell, needs) =>
  isWritable() && may(needs) ? ["Change", cell] : null;

/** Return a table. A column is [title, cell(row), kind], or null; numbers have the kind "number".
 *
 * `isTitled`: a heading above says the same as the caption, which is only for screen readers then.
 * `isPure`: the cells depend on their row only, so that a row is made again only if it has changed.
 */
export function table(
  caption,
  columns,
  rows,
  { key, empty = "none", selected, isTitled, isPure } = {},
) {
  if (!rows.length) return h("p", { class: "empty" }, `${caption}: ${empty}`);
  const shown = columns.filter(Boolean);
  const head = shown.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title));
  const cells = (row) =>
    shown.map(([, cell, kind], index) =>
      index === 0
        ? h("th", { scope: "row", class: kind }, cell(row))
        : h("td", { class: kind }, cell(row)),
    );
  const body = rows.map((row) => {
    const tr = h("tr", { "data-key": key?.(row), class: selected?.(row) ? "selected" : null });
    const memo = isPure ? JSON.stringify([row, shown.length]) : undefined;
    return lazy(tr, memo, () => cells(row));
  });
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: isTitled ? "hidden" : null }, caption),
      h("thead", null, h("tr", null, head)),
      [h("tbody", null, body)],
    ),
  );
}

/** Return pairs of a name and a value. */
export function facts(...pairs) {
  const shown = pairs.filter(Boolean);
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, ...value]) => h("div", null, h("dt", null, name), h("dd", null, ...value))),
  );
}

/** Return a label if a committed offset is beyond the log end, otherwise null. */
export function beyondEnd({ beyond_end: distance }) {
  if (!distance) return null;
  return [" ", h("span", { class: "state bad" }, `${count(distance)} beyond the log end`)];
}

const GOOD = new Set(["Stable", "running", "STABLE", "CompleteCommit", "CompleteAbort", "ACTIVE"]);
const BAD = new Set(["Dead", "stopped", "offline"]);

/** Return a state as a label with color and text. */
export function state(name) {
  const kind = GOOD.has(name) ? "good" : BAD.has(name) ? "bad" : "moving";
  return h("span", { class: `state ${name === "Empty" ? "idle" : kind}` }, name);
}

/** Return a button that runs a change of the broker, after a confirmation if there is a question. */
export function action(title, question, run, { isDangerous = false, needs } = {}) {
  if (!may(needs)) return refusal(title, needs);
  if (!isWritable()) return null;
  const onclick = async () => {
    if (question && !(await confirmed(question, title))) return;
    await changing(title, run);
  };
  return h("button", { type: "button", class: isDangerous ? "danger" : null, onclick }, title);
}

/** Run a change, report its end, and show the view again. */
export async function changing(title, run) {
  try {
    const text = await run();
    say(typeof text === "string" ? text : `${title}: done`);
  } catch (error) {
    say(`${title}: ${error.message}`, true);
  }
  window.dispatchEvent(new Event("changed"));
}

/** Ask a question in a dialog; return whether the answer was yes. */
export function confirmed(question, title) {
  return new Promise((done) => {
    const dialog = h("dialog", { "aria-label": title });
    const close = (answer) => () => {
      dialog.close();
      dialog.remove();
      done(answer);
    };
    dialog.append(
      h("p", null, question),
      h(
        "p",
        { class: "buttons" },
        h("button", { type: "button", onclick: close(false) }, "Cancel"),
        h("button", { type: "button", class: "danger", onclick: close(true) }, title),
      ),
    );
    dialog.addEventListener("cancel", close(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Return a form. A field is {name, label, type, value, options, hint}; `run(values)` is its action. */
export function form(title, fields, run, { button = title, isOpen = false, needs } = {}) {
  if (!may(needs)) return refusal(title, needs);
  if (!isWritable()) return null;
  const onsubmit = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.currentTarget));
    const details = event.currentTarget.closest("details");
    changing(title, async () => {
      const text = await run(values);
      if (details) details.open = isOpen;
      return text;
    });
  };
  return h(
    "details",
    { class: "form", open: isOpen, "data-key": `form ${title}` },
    h("summary", null, title),
    h(
      "form",
      { onsubmit, autocomplete: "off" },
      fields.map(field),
      h("button", { type: "submit" }, button),
    ),
  );
}

/** Return a labelled input. */
export function field({ name, label, type = "text", value, options, hint, oninput, onchange }) {
  const common = { name, oninput, onchange };
  let input;
  if (options) {
    input = h(
      "select",
      common,
      options.map((option) => {
        const [text, shown] = Array.isArray(option) ? option : [option, option];
        return h("option", { value: text, selected: text === String(value ?? "") }, shown);
      }),
    );
  } else if (type === "lines") {
    input = h("textarea", { ...common, rows: 4, value });
  } else {
    // Without a step of a second, a browser refuses times that are no whole minute.
    const step = { number: "any", "datetime-local": 1 }[type];
    input = h("input", { ...common, type, value, step });
  }
  return h("label", null, h("span", null, label), input, hint ? h("small", null, hint) : null);
}

/** Return a checkbox with its label. */
export function checkbox(label, properties) {
  return h("label", { class: "check" }, h("input", { type: "checkbox", ...properties }), label);
}

/** Return the filters of a list. The address of the view has the value of each. */
export function filters(parts, query, fields) {
  const change = ({ target }) => {
    const value = target.type === "checkbox" ? target.checked : target.value;
    location.replace(place(parts, { ...query, [target.name]: value }));
  };
  return h(
    "form",
    { class: "filters", onsubmit: (event) => event.preventDefault() },
    fields.map(({ name, label, type, options }) =>
      type === "checkbox"
        ? checkbox(label, { name, checked: query[name] === "true", onchange: change })
        : field({ name, label, options, value: query[name] ?? "", oninput: change }),
    ),
  );
}

/** Return a button that copies a text. */
export function copyButton(text, label = "Copy") {
  const onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {
      say("This browser does not allow copying; select the text instead.", true);
    }
  };
  return h("button", { type: "button", class: "small", onclick }, label);
}

/** Return a note that a list is not complete. */
export function more(isWhole, shown, noun) {
  return isWhole ? null : h("p", { class: "note" }, `The first ${count(shown)} ${noun} are shown.`);
}

/** Delete a resource of the API. */
export const remove = (parts, query) => call("DELETE", path(...parts), { query });

/** Return the lines of a text that are not blank. */
export const lines = (text) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

/** Parse lines `name=value` into an object. Throws Error for a line without `=`. */
export function pairs(text) {
  return Object.fromEntries(
    lines(text).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`${line} is not NAME=VALUE`);
      return [line.slice(0, at), line.slice(at + 1)];
    }),
  );
}
