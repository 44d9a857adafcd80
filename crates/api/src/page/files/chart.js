// Line charts as SVG. The values at the pointer, or at the last moment, are also shown as text below the chart.

import { duration, el, local, svg } from "/dom.js";

const HEIGHT = 150;
/** Width until the chart is laid out. */
const WIDTH = 400;
const LEFT = 52;
const BOTTOM = 18;
const TOP = 8;

/** Returns the smallest of 1, 2, 5, 10, 20 … that is not below `value`. */
function rounded(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

/** Splits values at gaps (null) and returns the path of the line. */
function path(values, x, y) {
  let text = "";
  let open = false;
  values.forEach((value, at) => {
    if (value === null || value === undefined) { open = false; return; }
    text += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
  });
  return text;
}

/** A chart whose scale goes to `least` at least. `update` draws it: `times` are seconds since 1970, `series` are {name, values} in their order. */
export function chart(title, format, least) {
  const drawing = svg("svg", { role: "img", class: "chart" });
  const readout = el("figcaption", {});
  const node = el("figure", { class: "card" }, el("h3", {}, title), drawing, readout);
  let shown = { times: [], series: [] };
  let pointed = null;
  const read = () => {
    const at = pointed === null ? shown.times.length - 1 : pointed;
    readout.replaceChildren();
    if (at < 0) return;
    shown.series.forEach(({ name, values }, number) => readout.append(
      el("span", { class: `key k${number}` }, name), " ", el("b", {}, format(values[at])), "  "));
    readout.append(el("span", { class: "when" }, pointed === null ? "now" : local(shown.times[at]).slice(11)));
  };
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT);
    pointed = Math.max(0, Math.min(shown.times.length - 1, Math.round(share * (shown.times.length - 1))));
    read();
  });
  drawing.addEventListener("pointerleave", () => { pointed = null; read(); });
  const redraw = () => draw(drawing, shown, format, least);
  new ResizeObserver(redraw).observe(drawing);
  const update = (times, series) => {
    shown = { times, series };
    if (pointed !== null && pointed >= times.length) pointed = null;
    redraw();
    const last = series.map(({ name, values }) => `${name} ${format(values[values.length - 1])}`).join(", ");
    drawing.setAttribute("aria-label", `${title}, now: ${last}`);
    read();
  };
  return { node, update };
}

function draw(drawing, { times, series }, format, least) {
  const width = drawing.clientWidth || WIDTH;
  drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const top = rounded(Math.max(least, ...series.flatMap(({ values }) => values.filter((value) => value !== null && value !== undefined))));
  const last = Math.max(1, times.length - 1);
  const x = (at) => LEFT + (at / last) * (width - LEFT - 2);
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  drawing.replaceChildren();
  for (const share of [0, 0.5, 1]) {
    const at = y(top * share);
    drawing.append(svg("path", { class: "grid", d: `M${LEFT} ${at}H${width}` }));
    drawing.append(svg("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, format(top * share)));
  }
  if (times.length > 1) {
    drawing.append(svg("text", { x: LEFT, y: HEIGHT - 4 }, `${duration(times[times.length - 1] - times[0])} ago`));
    drawing.append(svg("text", { x: width, y: HEIGHT - 4, "text-anchor": "end" }, "now"));
  }
  series.forEach(({ values }, number) => {
    const line = path(values, x, y);
    if (number === 0 && line && !values.some((value) => value === null || value === undefined)) {
      const area = `${line}L${x(values.length - 1).toFixed(1)} ${y(0)}L${x(0).toFixed(1)} ${y(0)}Z`;
      drawing.append(svg("path", { class: `area k${number}`, d: area }));
    }
    drawing.append(svg("path", { class: `line k${number}`, d: line }));
  });
}
