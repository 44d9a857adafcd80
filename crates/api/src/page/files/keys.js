// The keys of a zone that is signed here: their states, what happens next, DS records, rollovers.

import { el, put, badge, button, choice, confirm, copy, dialog, facts, field, form, local, moment, notice, remark, section, submit, table, words } from "/dom.js";
import { can, get, ofZone, post } from "/api.js";

const TONES = { hidden: "plain", rumoured: "warn", omnipresent: "good", unretentive: "warn" };

export async function keys({ main, zone, status, signal, again }) {
  if (!status.signing && !status.signing_keys) {
    put(main, remark("This zone is not signed here. ", status.signed ? "Its signatures come with its records." : "`dnssec-policy` of the zone turns signing on."));
    return;
  }
  const [found, timeline, ds] = await Promise.all([
    get(ofZone(zone, "keys"), {}, signal),
    get(ofZone(zone, "keys/timeline"), {}, signal).catch((error) => ({ fault: words(error) })),
    get(ofZone(zone, "keys/ds"), {}, signal).catch((error) => ({ fault: words(error) })),
  ]);
  const manage = can("manage", zone);
  put(main,
    found.fault ? el("p", { class: "fault" }, found.fault) : null,
    facts([["Policy", found.policy], ["Next check", moment(found.next_look)], ["First signature expires", found.signatures_end ? moment(found.signatures_end) : null]]),
    (found.waits || []).length === 0 ? null : el("ul", { class: "concerns" }, found.waits.map((text) => el("li", { "data-tone": "warn" }, text))),
    manage ? el("div", { class: "row" }, button("Roll a key", () => roll(zone, found.keys, again), { class: "primary" }))
      : remark("Orders for keys need the right “manage” for this zone."),
    section("Keys", table("Keys", ["Key", "Role", "Goal", "Records", "Dates", { label: "", class: "acts" }],
      found.keys.map((key) => row(zone, key, manage, again)), "There are no keys yet.")),
    events(timeline), parent(ds));
}

const idOf = (key) => `${key.tag}/${key.algorithm}`;

function row(zone, key, manage, again) {
  const order = (text, verb, title, about) => button(text, () => confirm(title, about, text, async () => {
    const done = await post(ofZone(zone, `keys/${verb}`), { key: idOf(key) });
    notice(done.result || "Done.");
    again();
  }), { "aria-label": `${text} ${idOf(key)}` });
  const ds = (key.records || []).find((one) => one.record === "ds");
  return [
    [el("b", {}, String(key.tag)), ` ${key.algorithm}`, key.bits ? `, ${key.bits} bits` : null],
    key.role, badge(key.goal, key.goal === "omnipresent" ? "good" : "plain"),
    [el("ul", { class: "plain" }, (key.records || []).map((one) => el("li", {}, `${one.record} `, badge(one.state, TONES[one.state]), one.since ? [" ", moment(one.since)] : null))),
      key.waits ? el("p", { class: "small" }, `waits: ${key.waits.for}`, key.waits.until ? [", ", moment(key.waits.until)] : null) : null],
    el("ul", { class: "plain" }, Object.entries(key.dates || {}).map(([name, at]) => el("li", { class: "nowrap" }, `${name.replaceAll("_", " ")} ${local(at).slice(0, 16)}`))),
    !manage ? null : el("div", { class: "row" },
      ds && ds.state !== "omnipresent" && key.goal === "omnipresent" ? order("DS is published", "ds-published", `DS of ${idOf(key)}`, "Confirm that all servers of the parent have the DS record of this key.") : null,
      ds && ds.state !== "hidden" && key.goal === "hidden" ? order("DS is withdrawn", "ds-withdrawn", `DS of ${idOf(key)}`, "Confirm that no server of the parent has the DS record of this key.") : null,
      key.goal === "omnipresent" ? order("Retire", "retire", `Retire ${idOf(key)}`, "The key is removed as soon as no cache needs it.") : null),
  ];
}

function events(timeline) {
  const rows = (timeline.events || []).map((one) => [local(one.at).slice(0, 16), moment(one.at), `${one.tag} ${one.algorithm}`, one.event]);
  return section("What happens next", timeline.fault ? el("p", { class: "fault" }, timeline.fault)
    : table("Events of keys", ["At", "", "Key", "Event"], rows, "No event is due."));
}

function parent(ds) {
  const text = (ds.ds || []).join("\n");
  return section("DS records for the parent", ds.fault ? el("p", { class: "fault" }, ds.fault)
    : text === "" ? el("p", { class: "empty" }, "No key wants a DS record.")
      : [el("pre", { tabindex: "0" }, text), button("Copy", () => copy(text))]);
}

function roll(zone, known, again) {
  const roles = [...new Set(known.map((key) => key.role.toLowerCase()))];
  const options = [...roles.map((role) => [`role:${role}`, `the ${role.toUpperCase()} in use`]), ...known.map((key) => [`key:${idOf(key)}`, `key ${idOf(key)}`])];
  dialog("Roll a key", (close) => {
    const target = choice(options, options.length > 0 ? options[0][0] : "", { required: true });
    const fault = el("p", { class: "fault", role: "alert" });
    const send = async () => {
      const [kind, value] = target.value.split(/:(.*)/);
      try {
        const done = await post(ofZone(zone, "keys/roll"), { [kind]: value });
        close();
        notice(done.result || "The rollover has begun.");
        again();
      } catch (error) {
        put(fault, words(error));
      }
    };
    return form({}, send, field("Replace", target, "A successor is made and published; the old key is removed when no cache needs it."), fault,
      el("div", { class: "row" }, submit("Start the rollover"), el("button", { type: "button", click: close }, "Cancel")));
  });
}
