// Elements, dialogs, notices and formats of the page. Text from outside becomes text nodes only: names, record
// data, comments and log lines cannot become markup.

const SVG = "http://www.w3.org/2000/svg";
// Characters that change the direction of text: they could show one name as another.
const DIRECTION = /[\u202a-\u202e\u2066-\u2069]/g;
// Attributes that may have a value from outside; links are made by `link`.
const ATTRIBUTES = new Set([
  "id", "class", "type", "name", "value", "for", "title", "role", "tabindex", "placeholder", "autocomplete",
  "spellcheck", "rows", "cols", "min", "max", "step", "maxlength", "required", "readonly", "disabled", "checked",
  "selected", "list", "scope", "colspan", "open", "inputmode", "autocapitalize", "hidden", "pattern", "data-label",
  "data-tone", "viewBox", "d", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "points", "text-anchor",
  "preserveAspectRatio", "fill", "rx", "low", "high", "optimum", "datetime", "autofocus", "multiple",
]);

function fill(node, properties, children) {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(key, value);
    else if (ATTRIBUTES.has(key) || key.startsWith("aria-")) node.setAttribute(key, value === true ? "" : value);
    else throw new Error(`attribute ${key} is not allowed`);
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child).replace(DIRECTION, "\ufffd")));
  }
}

/** Returns an element. A property with a function is a listener; children are nodes, text, lists or nothing. */
export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Returns an SVG element. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Replaces the contents of an element. */
export function put(node, ...children) {
  node.replaceChildren();
  add(node, children);
  return node;
}

/** Returns the hash of a view: path segments and parameters, encoded. */
export function hash(path, query) {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query || {})) {
    if (value !== undefined && value !== null && value !== "" && value !== false) parameters.set(key, value);
  }
  const text = parameters.toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

/** Returns a link to a view. */
export function link(path, query, ...children) {
  const anchor = el("a", {}, ...children);
  anchor.setAttribute("href", hash(path, query));
  return anchor;
}

/** Runs an action unless it runs already; a failure is shown as a notice. The element keeps the focus. */
async function once(node, action) {
  if (node.hasAttribute("aria-busy")) return;
  node.setAttribute("aria-busy", "true");
  try {
    await action(node);
  } catch (error) {
    failed(error);
  } finally {
    node.removeAttribute("aria-busy");
  }
}

/** Returns a button. It does nothing while its action runs. */
export function button(text, action, properties) {
  const node = el("button", { type: "button", ...properties }, text);
  node.addEventListener("click", () => once(node, action));
  return node;
}

let numbered = 0;

/** Returns a new id. */
export function newId(stem) {
  numbered += 1;
  return `${stem}-${numbered}`;
}

/** Returns a labelled input with an optional hint. */
export function field(label, input, hint) {
  input.id = input.id || newId("field");
  const text = el("label", { for: input.id }, label);
  if (!hint) return el("div", { class: "field" }, text, input);
  const note = el("small", { id: input.id + "-hint" }, hint);
  input.setAttribute("aria-describedby", note.id);
  return el("div", { class: "field" }, text, input, note);
}

/** Returns a choice; `options` are values or pairs of value and text. */
export function choice(options, value, properties) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const items = pairs.map(([of, text]) => el("option", { value: of, selected: of === value }, text));
  return el("select", properties, items);
}

/** Returns a labelled check box. */
export function checkbox(label, checked) {
  const box = el("input", { type: "checkbox", checked });
  return { box, node: el("label", { class: "check" }, box, " ", label) };
}

/** Returns a form whose submission runs `action`. It does nothing while its action runs. */
export function form(properties, action, ...children) {
  const node = el("form", properties, ...children);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    once(node, action);
  });
  return node;
}

export function submit(text, properties) {
  return el("button", { type: "submit", class: "primary", ...properties }, text);
}

/** Returns a table that becomes a list of cards on a narrow screen. A column is a text or {label, class}. */
export function table(caption, columns, rows, empty) {
  const of = columns.map((column) => (typeof column === "string" ? { label: column } : column));
  if (rows.length === 0) return el("p", { class: "empty" }, empty || "None.");
  const cell = (content, at) => el("td", { class: of[at].class, "data-label": of[at].label }, content);
  const line = (row) => {
    const { cells, tone, key } = Array.isArray(row) ? { cells: row } : row;
    return el("tr", { "data-tone": tone, id: key }, cells.map(cell));
  };
  return el("table", {},
    el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", {}, of.map((column) => el("th", { scope: "col", class: column.class }, column.label || el("span", { class: "unseen" }, "Actions"))))),
    el("tbody", {}, rows.map(line)));
}

/** Returns terms with their values; pairs without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return el("dl", { class: "facts" }, known.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}

/** Returns a short coloured word: good, warn, bad or plain. */
export function badge(text, tone) {
  return el("span", { class: "badge", "data-tone": tone || "plain" }, text);
}

/** Returns a section with a heading. */
export function section(title, ...children) {
  const id = newId("part");
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...children);
}

/** Returns a remark about what cannot be done, with the reason. */
export function remark(...children) {
  return el("p", { class: "remark" }, ...children);
}

/** Shows a dialog and returns it; `build` receives a function that closes the dialog. Esc closes it. */
export function dialog(title, build) {
  const id = newId("dialog");
  const node = el("dialog", { "aria-labelledby": id });
  const before = document.activeElement;
  const close = () => node.close();
  node.addEventListener("close", () => {
    node.remove();
    if (before && before.isConnected) before.focus();
  });
  const cross = el("button", { type: "button", class: "close", "aria-label": "Close", click: close }, "×");
  add(node, [el("div", { class: "head" }, el("h2", { id }, title), cross), build(close)]);
  document.body.append(node);
  node.showModal();
  const first = node.querySelector("[autofocus], form input:not([type=checkbox]), form textarea, form select");
  if (first) first.focus();
  return node;
}

/** Asks for a confirmation; `typed` must be entered if given. Runs `action` after it. */
export function confirm(title, text, verb, action, typed) {
  return dialog(title, (close) => {
    const box = el("input", { type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    const fault = el("p", { class: "fault", role: "alert" });
    const run = async () => {
      if (typed && box.value.trim().replace(/\.$/, "") !== typed.replace(/\.$/, "")) {
        put(fault, `Enter ${typed} to confirm.`);
        return;
      }
      try {
        await action();
        close();
      } catch (error) {
        put(fault, words(error));
      }
    };
    return form({}, run, el("p", {}, text), typed ? field(`Enter ${typed} to confirm`, box) : null, fault,
      el("div", { class: "row" }, submit(verb, { class: typed ? "danger" : "primary", autofocus: !typed }),
        el("button", { type: "button", click: close }, "Cancel")));
  });
}

/** Returns the text of an error for people. */
export function words(error) {
  const field = error && error.field ? ` (${error.field})` : "";
  return (error && error.message ? error.message : String(error)) + field;
}

/** Shows a notice for some seconds; one of a failure stays until it is closed. */
export function notice(text, tone) {
  const node = el("div", { class: "notice", "data-tone": tone || "good" }, el("span", {}, text));
  node.append(el("button", { type: "button", class: "close", "aria-label": "Close the notice", click: () => node.remove() }, "×"));
  document.getElementById("notices").append(node);
  if (tone !== "bad") setTimeout(() => node.remove(), 6000);
}

/** Shows a failure, unless the request was cancelled because the view has changed. */
export function failed(error) {
  if (error && error.name === "AbortError") return;
  notice(words(error), "bad");
}

/** Runs `work` now and again `seconds` after its end, while the page is visible and the view is shown. */
export function every(seconds, signal, work) {
  const turn = async () => {
    if (signal.aborted) return;
    if (!document.hidden) await work();
    if (!signal.aborted) setTimeout(turn, seconds * 1000);
  };
  return turn();
}

/** Calls `work` when there has been no other call for some time. */
export function settled(milliseconds, work) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}

/** Copies text, and reports it. */
export async function copy(text) {
  if (!navigator.clipboard) throw new Error("This browser allows copying only over HTTPS or on localhost: select the text.");
  await navigator.clipboard.writeText(text);
  notice("Copied.");
}

export const DASH = "–";

/** Formats of numbers and times. */
export function number(value) {
  return value === undefined || value === null ? DASH : value.toLocaleString("en");
}

/** Returns a count with its noun. */
export function plural(count, one, many) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function rate(value) {
  if (value === undefined || value === null) return DASH;
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(value < 1 ? 2 : 1);
}

export function percent(share) {
  return share === undefined || share === null ? DASH : `${(share * 100).toFixed(1)} %`;
}

export function bytes(value) {
  if (value === undefined || value === null) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let left = value;
  while (left >= 1024 && at + 1 < units.length) { left /= 1024; at += 1; }
  return `${at === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[at]}`;
}

export function microseconds(value) {
  if (value === undefined || value === null) return DASH;
  if (value < 1000) return `${Math.round(value)} µs`;
  return value < 1e6 ? `${(value / 1000).toFixed(value < 10000 ? 1 : 0)} ms` : `${(value / 1e6).toFixed(1)} s`;
}

export function duration(seconds) {
  const total = Math.max(0, Math.round(seconds));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => total >= size);
  if (first < 0) return "0 s";
  const [size, unit] = parts[first];
  const major = `${Math.floor(total / size)} ${unit}`;
  const next = parts[first + 1];
  const rest = next ? Math.floor((total % size) / next[0]) : 0;
  return rest > 0 ? `${major} ${rest} ${next[1]}` : major;
}

/** Returns a moment (seconds since 1970) as its distance from now, with the local time as the title. */
export function moment(seconds) {
  if (seconds === undefined || seconds === null) return DASH;
  const left = seconds - Date.now() / 1000;
  const text = left >= 0 ? `in ${duration(left)}` : `${duration(-left)} ago`;
  return el("time", { datetime: new Date(seconds * 1000).toISOString(), title: local(seconds) }, text);
}

/** Returns a moment as local time. */
export function local(seconds) {
  const at = new Date(seconds * 1000);
  const two = (value) => String(value).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
