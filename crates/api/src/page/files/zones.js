// The list of zones: search, filter by state, pages from the server, and creating a zone.

import { el, put, link, hash, button, badge, choice, dialog, field, form, moment, number, plural, notice, remark, settled, submit, table, words, failed, DASH } from "/dom.js";
import { canSome, get, post } from "/api.js";
import { STATES, toneOf } from "/overview.js";

const PAGE = 50;
const TYPING_MS = 200;
/** Ages of signatures that need attention, with their tones. */
const AGES = { expiring: "warn", expired: "bad" };

export async function zones({ main, query, signal, remember }) {
  const search = el("input", { type: "search", value: query.search, autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const state = choice([["", "all"], ...STATES.map(([word]) => word)], query.state || "", {});
  const signatures = choice([["", "all"], ["expiring", "expire soon"], ["expired", "expired"]], query.signatures || "", {});
  const list = el("div", { "aria-live": "polite" });
  let after = query.after;
  const load = async (push) => {
    const asked = { search: search.value.trim(), state: state.value, signatures: signatures.value, after };
    remember(hash(["zones"], asked), push);
    const found = await get("/zones", { ...asked, limit: PAGE }, signal);
    draw(list, found, after, (next) => { after = next; return load(true); });
  };
  const again = () => { after = undefined; load().catch(failed); };
  search.addEventListener("input", settled(TYPING_MS, again));
  state.addEventListener("change", again);
  signatures.addEventListener("change", again);
  put(main, el("h1", {}, "Zones"),
    form({ class: "filters", role: "search" }, async () => again(), field("Search", search), field("State", state), field("Signatures", signatures),
      canSome("manage") ? button("Create a zone", () => create(), { class: "primary" }) : null),
    list);
  await load();
}

function draw(node, { zones: rows, next, total }, after, turn) {
  const line = (zone) => ({
    cells: [[link(["zone", zone.name], {}, zone.name), zone.fault ? el("div", { class: "fault small" }, zone.fault) : null], badge(zone.state, toneOf(zone.state)), zone.role, zone.serial ?? DASH,
      number(zone.records), !zone.signed ? "no" : AGES[zone.signatures] ? badge(zone.signatures, AGES[zone.signatures]) : "yes",
      zone.loaded ? moment(zone.loaded) : DASH],
    tone: zone.state === "ok" ? undefined : toneOf(zone.state),
  });
  put(node,
    el("p", { class: "count" }, total === undefined ? null : plural(total, "zone", "zones"), after ? ", not from the beginning" : null),
    table("Zones", ["Zone", "State", "Role", { label: "Serial", class: "num" }, { label: "Records", class: "num" }, "Signed", "In service since"],
      rows.map(line), "No zone fits."),
    pages(after, next, turn));
}

/** Returns the buttons between pages of a list. */
export function pages(after, next, turn) {
  if (!after && !next) return null;
  return el("div", { class: "row pages" },
    after ? button("First page", () => turn(undefined)) : null,
    next ? button("Next page", () => turn(next)) : null);
}

function create() {
  dialog("Create a zone", (close) => {
    const name = el("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "example.com" });
    const kind = choice([["primary", "primary: its records are kept here"], ["secondary", "secondary: its records come from primaries"]], "primary", {});
    const template = el("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    const records = el("textarea", { rows: 7, spellcheck: "false", autocapitalize: "off" });
    const primaries = el("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "192.0.2.1, [2001:db8::1]:53 key:name" });
    const fault = el("p", { class: "fault", role: "alert" });
    const first = field("Records, one on each line", records, "NS records, at least; names without a final dot are below the zone. Without an SOA record, the zone gets one.");
    const from = field("Primaries", primaries, "Addresses, separated by commas, as `primaries` in the configuration.");
    const fit = () => { first.hidden = kind.value !== "primary"; from.hidden = kind.value === "primary"; };
    let suggested = "";
    const suggest = () => {
      if (records.value !== suggested) return;
      const apex = name.value.trim().replace(/\.$/, "").split("@")[0];
      suggested = apex ? `@ 3600 NS ns1.${apex}.\nns1 3600 A 192.0.2.1\n` : "";
      records.value = suggested;
    };
    kind.addEventListener("change", fit);
    name.addEventListener("input", suggest);
    fit();
    const send = async () => {
      const body = { name: name.value.trim() };
      if (template.value.trim()) body.template = template.value.trim();
      if (kind.value === "primary") body.records = records.value.split("\n").map((text) => text.trim()).filter(Boolean);
      else body.primaries = primaries.value.split(",").map((text) => text.trim()).filter(Boolean);
      try {
        await post("/zones", body);
        close();
        notice(`Created ${body.name}.`);
        location.hash = hash(["zone", body.name]);
      } catch (error) {
        put(fault, words(error));
      }
    };
    return form({}, send, field("Name", name), field("Kind", kind), first, from,
      field("Template", template, "Empty: the template of [api]."), fault,
      el("div", { class: "row" }, submit("Create"), el("button", { type: "button", click: close }, "Cancel")),
      remark("The zone is served at once, and stored before this is answered."));
  });
}
