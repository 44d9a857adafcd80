// How a query is answered: which rule of lists and policy zones decides, the steps to the answer, and the answer.

import { el, put, hash, checkbox, field, form, remark, section, submit, words, badge } from "/dom.js";
import { get } from "/api.js";

/** Returns the form for a query; it leads to this view. */
export function asking(query) {
  const plain = { autocomplete: "off", spellcheck: "false", autocapitalize: "off" };
  const name = el("input", { type: "text", required: true, value: query.name, placeholder: "www.example.com", ...plain });
  const type = el("input", { type: "text", value: query.type || "A", ...plain });
  const client = el("input", { type: "text", value: query.client, placeholder: "192.0.2.7", ...plain });
  const dnssec = checkbox("with DNSSEC records", query.dnssec === "1");
  const ask = async () => {
    const next = hash(["explain"], { name: name.value.trim(), type: type.value.trim(), client: client.value.trim(), dnssec: dnssec.box.checked ? "1" : "" });
    if (location.hash === next) window.dispatchEvent(new HashChangeEvent("hashchange"));
    else location.hash = next;
  };
  return form({ class: "filters" }, ask, field("Name", name), field("Type", type), field("Client", client), dnssec.node, submit("Explain"));
}

export async function explain({ main, query, signal }) {
  const shown = el("div", { "aria-live": "polite" });
  put(main, el("h1", {}, "Explain a query"), asking(query),
    query.name ? null : remark("Names that no zone here holds are looked up at other servers; nothing else changes."), shown);
  if (!query.name) return;
  put(shown, el("p", {}, "Looking it up …"));
  const asked = { name: query.name, type: query.type || "A", client: query.client };
  const settle = (promise) => promise.then((value) => ({ value }), (error) => ({ error }));
  const [rule, steps] = await Promise.all([
    settle(get("/policy/test", asked, signal)),
    settle(get("/explain", { ...asked, dnssec: query.dnssec === "1" ? "true" : "" }, signal)),
  ]);
  if (signal.aborted) return;
  put(shown, section("Lists and policy zones", decision(rule)), section("Steps to the answer", path(steps)),
    steps.value && steps.value.answer ? section("Answer", el("pre", { tabindex: "0" }, steps.value.answer)) : null);
}

function decision({ value, error }) {
  if (error) return el("p", {}, words(error));
  const tone = { "no-rule": "good", exempt: "good", passthru: "good" }[value.result] || "bad";
  return el("p", {}, badge(value.result.replaceAll("-", " "), tone), " ", value.text);
}

function path({ value, error }) {
  if (error) return el("p", { class: "fault" }, words(error));
  return el("ol", { class: "steps" }, value.steps.map((step) => el("li", {}, step.text,
    step.microseconds === undefined ? null : el("small", {}, ` after ${step.microseconds} µs`))));
}
