// One zone: its state, its orders, and the parts that other files show.

import { el, put, link, hash, button, badge, confirm, facts, moment, notice, bytes, number, remark, section, words } from "/dom.js";
import { can, get, ofZone, post, remove } from "/api.js";
import { toneOf } from "/overview.js";
import { records } from "/records.js";
import { history } from "/history.js";
import { keys } from "/keys.js";
import { faultText, transferText } from "/transfers.js";

const PARTS = { records: "Records", history: "History", keys: "Keys", servers: "Other servers", status: "Status" };

export async function zone(context) {
  const { main, path, signal, again } = context;
  const name = path[1] || "";
  const part = PARTS[path[2]] ? path[2] : "records";
  const status = await get(ofZone(name), {}, signal);
  const shown = el("div", { id: "part" });
  put(main,
    el("p", { class: "crumbs" }, link(["zones"], {}, "Zones"), " / "),
    el("h1", { class: "name" }, status.name || name),
    el("p", { class: "badges" }, badge(status.state, toneOf(status.state)), badge(status.role || "zone"),
      status.signed ? badge("signed", "good") : null, status.frozen ? badge("frozen", "warn") : null,
      badge(`serial ${status.serial ?? "–"}`), status.records === null ? null : badge(`${number(status.records)} records`)),
    status.fault ? el("p", { class: "fault" }, status.fault) : null,
    orders(name, status, again),
    tabs(name, part, status), shown);
  const inner = { ...context, main: shown, zone: name, status };
  try {
    if (part === "records") await records(inner);
    else if (part === "history") await history(inner);
    else if (part === "keys") await keys(inner);
    else put(shown, part === "servers" ? servers(status) : details(status));
  } catch (error) {
    // The token may have the right for some records of the zone alone.
    if (signal.aborted || error.status !== 403) throw error;
    put(shown, remark(words(error)));
  }
}

function tabs(name, part, status) {
  const entries = Object.entries(PARTS).filter(([key]) => key !== "keys" || status.signing || status.signing_keys || status.signed);
  return el("nav", { class: "tabs", "aria-label": "Parts of the zone" }, entries.map(([key, text]) => {
    const anchor = link(["zone", name, key], {}, text);
    if (key === part) anchor.setAttribute("aria-current", "page");
    return anchor;
  }));
}

function orders(name, status, again) {
  const order = (text, verb, done, body) => button(text, async () => {
    const result = await post(ofZone(name, verb), body);
    notice(result && result.text ? result.text : done);
    again();
  });
  const secondary = status.role === "secondary";
  const manage = can("manage", name);
  const all = [];
  if (manage && !secondary) all.push(order("Reload", "reload", `Read the file of ${name} again.`));
  if (manage && secondary) {
    all.push(order("Refresh", "refresh", "The primaries are queried."));
    all.push(order("Transfer again", "retransfer", "The whole zone is transferred."));
  }
  if (manage || can("change", name)) all.push(order("Send NOTIFY", "notify", "NOTIFY is being sent to the secondaries."));
  if (manage && !secondary) {
    all.push(status.frozen ? order("Thaw", "thaw", "Changes are accepted again.") : order("Freeze", "freeze", "Changes are refused until Thaw."));
  }
  if (manage && status.signing) all.push(order("Sign again", "sign", "All signatures are being renewed."));
  if (manage) {
    all.push(button("Delete", () => {
      confirm(`Delete ${name}`, "The zone, its records and its history are deleted. Queries for it are answered as for a zone that is not here.",
        "Delete the zone", async () => {
          await remove(ofZone(name));
          notice(`Deleted ${name}.`);
          location.hash = hash(["zones"]);
        }, name);
    }, { class: "danger" }));
  }
  if (all.length === 0) return remark("Orders for this zone need the right “manage”, which this token does not have.");
  return el("div", { class: "row orders", role: "group", "aria-label": "Orders for the zone" }, all);
}

function details(status) {
  const updates = status.updates;
  return el("div", {},
    section("In service", facts([
      ["Role", status.role], ["Text from", status.file], ["Configured in", status.from], ["View", status.view],
      ["Loaded", status.loaded ? moment(status.loaded) : null], ["Serial", status.serial], ["Serial of the file", status.file_serial],
      ["File edited since", status.file_edited ? "yes" : null], ["Records", number(status.records)], ["Names", number(status.names)],
      ["Memory", bytes(status.memory_bytes)], ["Negative TTL", status.negative_ttl === null ? null : `${status.negative_ttl} s`],
      ["Denial", status.denial], ["Signatures", status.signatures], ["First signature expires", status.signatures_end ? moment(status.signatures_end) : null],
      ["Queries", status.queries === null ? null : number(status.queries)], ["Journal", status.journal ? status.journal.fault : null],
      ["Warnings in its text", status.warnings > 0 ? number(status.warnings) : null],
    ])),
    updates ? section("Changes since the start", facts([
      ["Changes", number(updates.changes)], ["Last", updates.last ? moment(updates.last) : null], ["Base on disk", bytes(updates.base_bytes)],
      ["Changes on disk", bytes(updates.change_bytes)], ["Older changes on disk", bytes(updates.history_bytes)],
      ["Fault of the disk", updates.fault], ["Fault of the file", updates.file_fault],
    ])) : null,
    (status.findings || []).length === 0 ? null : section("Findings", el("ul", {}, status.findings.map((one) => el("li", {}, el("pre", {}, one.text))))));
}

/** The servers that the zone is transferred from, and those that are sent NOTIFY. */
function servers(status) {
  const of = status.transfers;
  if (!of) return el("p", { class: "empty" }, "This zone is transferred from no server, and no server is sent NOTIFY.");
  return el("div", {},
    of.primaries.length === 0 ? null : section("From primaries", facts([
      ["State", badge(of.state || "unknown", of.state === "fresh" ? "good" : "bad")], ["Primaries", of.primaries.join(", ")], ["Under way", of.under_way ? "yes" : "no"],
      ["Confirmed", of.confirmed ? moment(of.confirmed) : "never"], ["Next refresh", of.next_refresh ? moment(of.next_refresh) : null],
      ["Expires", of.expires ? moment(of.expires) : null], ["Last fault", faultText(of)], ["Last transfer", transferText(of)],
    ])),
    section("To secondaries", of.notify.length === 0 ? el("p", { class: "empty" }, "No server is sent NOTIFY for this zone.") : el("p", {}, "NOTIFY goes to ", of.notify.join(", "), ".")));
}
