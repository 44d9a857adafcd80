// Differences of records as lines with a sign, and in words for screen readers.

import { el, number } from "/dom.js";

const SHOWN = 1000;

/** Returns a list of removed and added records: `changes` of a reply. */
export function difference(reply) {
  const all = reply.changes;
  if (all.length === 0) return el("p", { class: "empty" }, "No record differs.");
  const removed = all.filter((one) => one.sign === "-").length;
  const hidden = Math.max(0, all.length - SHOWN) + (reply.more_changes || 0);
  const line = ({ sign, record }) => el("li", { "data-tone": sign === "-" ? "removed" : "added" },
    el("span", { class: "sign", "aria-hidden": "true" }, sign === "-" ? "−" : "+"),
    el("span", { class: "unseen" }, sign === "-" ? "removed: " : "added: "), el("code", {}, record));
  return el("div", { class: "diff" },
    el("p", { class: "count" }, `${number(removed)} removed, ${number(all.length - removed)} added`),
    el("ul", { tabindex: "0" }, all.slice(0, SHOWN).map(line)),
    hidden > 0 ? el("p", { class: "remark" }, `${number(hidden)} further records are not shown.`) : null);
}
