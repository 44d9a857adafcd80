// The records of a zone: pages from the server, and edits that are collected, previewed and committed together.

import { el, put, hash, button, choice, confirm, dialog, failed, field, form, notice, plural, remark, section, settled, submit, table, words } from "/dom.js";
import { can, get, limitsOf, ofZone, post } from "/api.js";
import { difference } from "/diff.js";
import { pages } from "/zones.js";

const PAGE = 100;
const TYPING_MS = 250;
const TYPES = ["A", "AAAA", "CAA", "CNAME", "DNAME", "DS", "HTTPS", "LOC", "MX", "NAPTR", "NS", "PTR", "SOA", "SRV", "SSHFP", "SVCB", "TLSA", "TXT", "URI"];
/** Types that signing makes: they are shown but not edited. */
const OF_SIGNING = new Set(["RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "ZONEMD"]);

/** Edits of a zone that are not committed: {serial, edits}. They outlive a reload of the page, not the tab. */
class Draft {
  constructor(zone) {
    this.key = `nomen.edits.${zone.toLowerCase()}`;
    const stored = sessionStorage.getItem(this.key);
    Object.assign(this, { serial: null, edits: [] }, stored ? JSON.parse(stored) : {});
  }

  save() {
    if (this.edits.length === 0) sessionStorage.removeItem(this.key);
    else sessionStorage.setItem(this.key, JSON.stringify({ serial: this.serial, edits: this.edits }));
  }

  /** Adds an edit. One that sets or deletes the whole RRset replaces earlier edits of that RRset. */
  add(edit, serial) {
    if (this.edits.length === 0) this.serial = serial;
    const same = (one) => one.type === edit.type && one.name.toLowerCase() === edit.name.toLowerCase();
    if (edit.op === "replace" || edit.op === "delete") this.edits = this.edits.filter((one) => !same(one));
    this.edits.push(edit);
    this.save();
  }

  of(rrset) {
    return this.edits.filter((one) => one.type === rrset.type && one.name.toLowerCase() === rrset.name.toLowerCase());
  }
}

export async function records({ main, zone, query, signal, remember, again, status }) {
  const draft = new Draft(zone);
  const search = el("input", { type: "search", value: query.search, autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const type = choice([["", "all"], ...TYPES, ...[...OF_SIGNING].sort()], query.type || "", {});
  const list = el("div", {});
  const collected = el("div", {});
  const view = { zone, draft, editable: can("change", zone) && !status.edits_refused, serial: null, again };
  let after = query.after;
  const load = async (push) => {
    const asked = { search: search.value.trim(), type: type.value, after };
    remember(hash(["zone", zone, "records"], asked), push);
    const found = await get(ofZone(zone, "records"), { ...asked, limit: PAGE }, signal);
    view.serial = found.serial;
    view.redraw = () => { draw(list, found, view, after, turn); drawDraft(collected, view); };
    view.redraw();
  };
  const turn = (next) => { after = next; return load(true); };
  const restart = () => { after = undefined; load().catch(failed); };
  search.addEventListener("input", settled(TYPING_MS, restart));
  type.addEventListener("change", restart);
  put(main,
    form({ class: "filters", role: "search" }, async () => restart(), field("Search names and data", search), field("Type", type),
      view.editable ? button("Add records", () => editRrset(view, null), { class: "primary" }) : null),
    permission(zone, status), list, collected);
  await load();
}

/** Returns why records cannot be edited, or what the token may edit. */
function permission(zone, status) {
  if (status.edits_refused) return remark(`Records are read-only: ${status.edits_refused}.`);
  if (!can("change", zone)) return remark("This token has no right “change” for this zone: its records are read-only.");
  const limits = limitsOf(zone);
  return limits ? remark(`This token may change ${limits}.`) : null;
}

/** Returns an owner relative to the zone, as operators write it. */
function relative(name, zone) {
  const apex = zone.split("@")[0].toLowerCase().replace(/\.$/, "");
  const plain = name.replace(/\.$/, "");
  if (plain.toLowerCase() === apex) return "@";
  return plain.toLowerCase().endsWith("." + apex) ? plain.slice(0, -apex.length - 1) : name;
}

/** Returns the absolute name of what an operator has entered. */
function absolute(text, zone) {
  const apex = zone.split("@")[0].replace(/\.$/, "");
  const name = text.trim();
  if (name === "" || name === "@") return apex + ".";
  if (/(^|[^\\])(\\\\)*\.$/.test(name)) return name;
  return `${name}.${apex === "" ? "" : apex + "."}`;
}

function draw(node, { rrsets, next, total }, view, after, turn) {
  const row = (rrset) => {
    const edits = view.draft.of(rrset);
    const own = view.editable && !OF_SIGNING.has(rrset.type);
    const about = `${relative(rrset.name, view.zone)} ${rrset.type}`;
    return {
      cells: [
        el("span", { title: rrset.name, class: "mono" }, relative(rrset.name, view.zone)), rrset.type, String(rrset.ttl),
        el("ul", { class: "data" }, rrset.records.map((text) => el("li", {}, el("code", {}, text)))),
        own ? el("div", { class: "row" },
          button("Edit", () => editRrset(view, rrset), { "aria-label": `Edit ${about}` }),
          rrset.type === "SOA" ? null : button("Delete", () => {
            view.draft.add({ op: "delete", name: rrset.name, type: rrset.type }, view.serial);
            view.redraw();
          }, { "aria-label": `Delete ${about}` })) : null,
      ],
      tone: edits.length > 0 ? "warn" : undefined,
    };
  };
  put(node,
    el("p", { class: "count" }, total === undefined ? null : `${plural(total, "RRset", "RRsets")}, `, `serial ${view.serial}`),
    table("Records", ["Name", "Type", { label: "TTL", class: "num" }, { label: "Data", class: "wide" }, { label: "", class: "acts" }],
      rrsets.map(row), "No record fits."),
    pages(after, next, turn));
}

/** Shows the dialog for one RRset, or for a new one. */
function editRrset(view, rrset) {
  const pending = rrset && view.draft.of(rrset).find((one) => one.op === "replace");
  dialog(rrset ? `Edit ${relative(rrset.name, view.zone)} ${rrset.type}` : "Add records", (close) => {
    const name = el("input", {
      type: "text", value: rrset ? relative(rrset.name, view.zone) : "", autocomplete: "off", spellcheck: "false", autocapitalize: "off",
      readonly: Boolean(rrset), placeholder: "www",
    });
    const type = el("input", { type: "text", value: rrset ? rrset.type : "A", list: "types", required: true, readonly: Boolean(rrset), autocomplete: "off", spellcheck: "false" });
    const ttl = el("input", { type: "text", value: String((pending || rrset || { ttl: 3600 }).ttl), inputmode: "numeric", pattern: "[0-9]+", required: true, autocomplete: "off" });
    const data = el("textarea", { rows: 5, spellcheck: "false", autocapitalize: "off", required: true, autofocus: Boolean(rrset) });
    data.value = ((pending || rrset || { records: [] }).records).join("\n");
    const all = el("datalist", { id: "types" }, TYPES.map((one) => el("option", { value: one })));
    const fault = el("p", { class: "fault", role: "alert" });
    const take = async () => {
      const lines = data.value.split("\n").map((text) => text.trim()).filter(Boolean);
      const edit = { op: rrset ? "replace" : "add", name: rrset ? rrset.name : absolute(name.value, view.zone), type: type.value.trim().toUpperCase(), ttl: Number(ttl.value), records: lines };
      if (lines.length === 0) { put(fault, "Enter the data of one record at least, or delete the RRset in the list."); return; }
      // The server checks the data; nothing is changed by that.
      try {
        await post(ofZone(view.zone, "edit"), { dry_run: true, edits: [edit] });
      } catch (error) {
        if (error.status !== 0) { put(fault, faultOf(error)); return; }
        throw error;
      }
      view.draft.add(edit, view.serial);
      close();
      view.redraw();
    };
    return form({}, take, all,
      field("Name", name, rrset ? null : "Below the zone; @ or empty for the zone itself; with a final dot as it is."),
      el("div", { class: "row" }, field("Type", type), field("TTL in seconds", ttl)),
      field("Data, one record on each line", data, "As in a zone file: for MX “10 mail.example.com.”, for TXT “\"v=spf1 -all\"”."), fault,
      el("div", { class: "row" }, submit(rrset ? "Take the edit" : "Take the records"), el("button", { type: "button", click: close }, "Cancel")),
      remark("Nothing changes in the zone until the edits are committed."));
  });
}

/** Returns why the server refuses an edit, with the number of the record that is at fault. */
function faultOf(error) {
  const found = /^edits\[\d+\]\.records\[(\d+)\]$/.exec(error.field || "");
  return found ? `Record ${Number(found[1]) + 1}: ${error.message}` : error.message;
}

function editText({ op, name, type, ttl, records: lines }, zone) {
  const what = { replace: "set", delete: "delete", add: "add", remove: "remove" }[op];
  return `${what} ${relative(name, zone)} ${type}${lines ? ` (TTL ${ttl}): ${lines.join(" | ")}` : ""}`;
}

/** Shows the edits that are collected. */
function drawDraft(node, view) {
  const { draft } = view;
  if (draft.edits.length === 0) { put(node, null); return; }
  put(node, el("section", { class: "draft", "aria-label": "Edits that are not committed" },
    el("h2", {}, `${plural(draft.edits.length, "edit", "edits")}, not committed`),
    el("ul", {}, draft.edits.map((edit, at) => el("li", {}, el("code", {}, editText(edit, view.zone)), " ",
      button("Drop", () => { draft.edits.splice(at, 1); draft.save(); view.redraw(); }, { class: "small", "aria-label": `Drop the edit: ${editText(edit, view.zone)}` })))),
    el("div", { class: "row" },
      button("Preview and commit", () => preview(view), { class: "primary" }),
      button("Drop all edits", () => confirm("Drop all edits", "The collected edits are forgotten. The zone does not change.", "Drop them", async () => {
        draft.edits = [];
        draft.save();
        view.redraw();
      })))));
}

/** Shows what the collected edits change in the zone as it is now, and commits them. */
async function preview(view) {
  const { draft, zone } = view;
  const body = () => ({ at_serial: draft.serial, edits: draft.edits });
  let found;
  try {
    found = await post(ofZone(zone, "edit"), { ...body(), dry_run: true });
  } catch (error) {
    if (!isConflict(error)) throw error;
    await conflict(view, error);
    return;
  }
  dialog("Preview", (close) => {
    const fault = el("p", { class: "fault", role: "alert" });
    const commit = async () => {
      let done;
      try {
        done = await post(ofZone(zone, "edit"), body());
      } catch (error) {
        if (isConflict(error)) { close(); await conflict(view, error); } else put(fault, words(error));
        return;
      }
      draft.edits = [];
      draft.save();
      close();
      notice(done.changed === false ? "The zone has these records already: nothing changed." : `Committed: serial ${done.from} → ${done.to}.`);
      view.again();
    };
    const warnings = found.warnings || [];
    return form({}, commit,
      el("p", {}, `${zone}, serial ${draft.serial}. The commit is one transaction: all of it or nothing.`),
      difference(found),
      warnings.length === 0 ? null : section("Warnings", el("ul", {}, warnings.map((one) => el("li", {}, typeof one === "string" ? one : words(one))))),
      fault,
      el("div", { class: "row" }, submit("Commit", { autofocus: true }), el("button", { type: "button", click: close }, "Back to the edits")));
  });
}

const isConflict = (error) => error.status === 409 || error.status === 412;

/** Shows what has changed in the zone since the edits were begun. */
async function conflict(view, error) {
  const { draft, zone } = view;
  const now = (error.body && error.body.serial) ?? (await get(ofZone(zone))).serial;
  if (now === draft.serial) throw error;
  const changed = await get(ofZone(zone, "diff"), { from: draft.serial, to: now }).catch((fault) => ({ fault: words(fault) }));
  dialog("The zone has changed", (close) => [
    el("p", {}, `The edits began with serial ${draft.serial}; the zone has serial ${now} now. Nothing was committed.`),
    section("What has changed since", changed.fault ? el("p", { class: "fault" }, changed.fault) : difference(changed)),
    el("div", { class: "row" },
      button("Preview on the newest version", async () => {
        draft.serial = now;
        draft.save();
        close();
        await preview(view);
      }, { class: "primary", autofocus: true }),
      el("button", { type: "button", click: () => { close(); view.again(); } }, "Back to the edits")),
  ]);
}
