// The kept versions of a zone, and the difference of any two of them.

import { el, put, hash, button, choice, form, field, local, moment, number, submit, table, DASH, words } from "/dom.js";
import { get, ofZone } from "/api.js";
import { difference } from "/diff.js";

/** Steps that are shown. */
const MOST = 200;

const hasBoth = (step) => typeof step.from === "number" && typeof step.to === "number";

export async function history({ main, zone, query, signal, remember }) {
  const kept = (await get(ofZone(zone, "history"), { limit: MOST }, signal)).versions;
  // Changes of the database are in order already; without two serials there is no difference to show.
  const steps = kept.filter(hasBoth);
  if (!steps.some((step) => step.number)) steps.sort((a, b) => (b.to - a.to) | 0);
  if (steps.length === 0) {
    put(main, el("p", { class: "empty" }, "No change of this zone is kept. Changes by updates, by the API and by transfers are kept in the state folder."));
    return;
  }
  const serials = [...new Set(steps.flatMap((step) => [step.to, step.from]))];
  const when = new Map(steps.map((step) => [step.to, step.at]));
  const options = serials.map((serial) => [String(serial), when.get(serial) ? `${serial}, ${local(when.get(serial))}` : String(serial)]);
  const from = choice(options, query.from || String(steps[0].from), {});
  const to = choice(options, query.to || String(steps[0].to), {});
  const shown = el("div", { "aria-live": "polite" });
  const show = async () => {
    remember(hash(["zone", zone, "history"], { from: from.value, to: to.value }));
    try {
      const found = await get(ofZone(zone, "diff"), { from: from.value, to: to.value }, signal);
      put(shown, el("h2", {}, `From serial ${from.value} to ${to.value}`), difference(found));
    } catch (error) {
      if (!signal.aborted) put(shown, el("p", { class: "fault", role: "alert" }, words(error)));
    }
  };
  const row = (step) => [
    `${step.from} → ${step.to}`, step.at ? moment(step.at) : DASH, [step.by || DASH, step.node ? ` (${step.node})` : ""],
    number(step.removed), number(step.added),
    button("Show", () => { from.value = String(step.from); to.value = String(step.to); return show(); }, { "aria-label": `Show the step from ${step.from} to ${step.to}` }),
  ];
  put(main,
    form({ class: "filters" }, show, field("From serial", from), field("To serial", to), submit("Compare")), shown,
    el("h2", {}, "Steps"),
    table("Steps, the newest first", ["Serials", "When", "By", { label: "Removed", class: "num" }, { label: "Added", class: "num" }, { label: "", class: "acts" }], steps.map(row)));
  await show();
}
