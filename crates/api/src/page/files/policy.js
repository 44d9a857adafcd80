// Block lists and response policy zones: their state, what they block most, and pauses of groups.

import { el, put, link, badge, button, choice, checkbox, dialog, failed, field, form, moment, notice, number, remark, section, submit, table, words, DASH } from "/dom.js";
import { can, get, post } from "/api.js";
import { asking } from "/explain.js";

const TOP = 20;

export async function policy({ main, signal }) {
  const state = el("div", {});
  const allowed = can("policy");
  const refresh = async () => {
    try {
      draw(state, await get("/policy", {}, signal), allowed, refresh);
    } catch (error) {
      if (!signal.aborted) put(state, el("p", { class: "fault" }, words(error)));
    }
  };
  put(main, el("h1", {}, "Policy"),
    section("Why was this blocked?", asking({})),
    allowed ? null : remark("Fetching lists and pausing groups need the right “policy”."),
    state, section("Blocked most", top(signal)));
  await refresh();
}

function draw(node, all, allowed, refresh) {
  const lists = all.filter((one) => one.kind === "block" || one.kind === "allow");
  const zones = all.filter((one) => one.kind === "policy-zone");
  const groups = all.filter((one) => one.kind === "group");
  const fetch = async (list) => {
    const done = await post("/policy/refresh", list ? { list } : {});
    const text = (done.lists || []).map((one) => `${one.name}: ${one.result}`).join(", ");
    notice(text || "Done.");
    await refresh();
  };
  const list = (one) => ({
    cells: [one.name, one.kind, el("span", { class: "mono" }, one.url || one.file || DASH), number(one.rules), number(one.blocked), one.loaded ? moment(one.loaded) : DASH,
      one.next_attempt ? moment(one.next_attempt) : DASH, faultOf(one),
      allowed ? button(one.url ? "Fetch" : "Read", () => fetch(one.name), { "aria-label": `Fetch the list ${one.name}` }) : null],
    tone: one.fault ? "bad" : undefined,
  });
  const zone = (one) => [one.name, one.serial ?? DASH, number(one.rules), one.owners_unusable ? badge(`${one.owners_unusable} unusable`, "warn") : "0",
    Object.entries(one.queries || {}).filter(([, count]) => count > 0).map(([word, count]) => `${word} ${number(count)}`).join(", ") || DASH];
  const hasDefault = all.some((one) => one.kind === "group" && one.name === "default");
  put(node,
    section("Lists", table("Lists", ["List", "Kind", { label: "Source", class: "wide" }, { label: "Rules", class: "num" }, { label: "Blocked", class: "num" }, "Loaded", "Next", "Fault", { label: "", class: "acts" }],
      lists.map(list), "No list is configured."),
    allowed && lists.length > 1 ? el("div", { class: "row" }, button("Fetch all lists", () => fetch())) : null),
    section("Policy zones", table("Policy zones", ["Zone", { label: "Serial", class: "num" }, { label: "Rules", class: "num" }, "Unusable", "Queries"], zones.map(zone), "No policy zone is configured.")),
    section("Groups", table("Groups", ["Group", "Rules", { label: "", class: "acts" }], [
      ...(hasDefault ? [] : [{ name: "default", paused_until: null }]), ...groups].map((one) => groupRow(one, allowed, refresh)))));
}

function faultOf(one) {
  const unusable = one.lines_unusable ? badge(`${number(one.lines_unusable)} lines unusable`, "warn") : null;
  if (!one.fault && !unusable) return DASH;
  return [one.fault || null, one.fault && unusable ? " " : null, unusable];
}

function groupRow(one, allowed, refresh) {
  const now = one.paused_until && one.paused_until > Date.now() / 1000;
  const end = async () => { await post("/policy/pause", { group: one.name }); await refresh(); };
  return [one.name, now ? [badge("paused", "warn"), " until ", moment(one.paused_until)] : badge("in force", "good"),
    !allowed ? null : now ? button("End the pause", end, { "aria-label": `End the pause of ${one.name}` })
      : button("Pause", () => pause(one.name, refresh), { "aria-label": `Pause the rules of ${one.name}` })];
}

function pause(group, refresh) {
  dialog(`Pause the rules of ${group}`, (close) => {
    const time = choice([["5m", "5 minutes"], ["10m", "10 minutes"], ["30m", "30 minutes"], ["1h", "1 hour"], ["8h", "8 hours"], ["1d", "1 day"]], "10m", {});
    const fault = el("p", { class: "fault", role: "alert" });
    const send = async () => {
      try {
        await post("/policy/pause", { group, time: time.value });
        close();
        notice(`No rule applies to ${group} until the pause ends.`);
        refresh().catch(failed);
      } catch (error) {
        put(fault, words(error));
      }
    };
    return form({}, send, el("p", {}, "No list and no policy zone applies to clients of the group during the pause."), field("For", time), fault,
      el("div", { class: "row" }, submit("Pause"), el("button", { type: "button", click: close }, "Cancel")));
  });
}

function top(signal) {
  const by = choice([["name", "names"], ["client", "clients"], ["rule-source", "lists and policy zones"]], "name", {});
  const hour = checkbox("in the last hour", true);
  const shown = el("div", { "aria-live": "polite" });
  const load = async () => {
    try {
      const found = await get("/policy/top", { by: by.value, count: TOP, hour: hour.box.checked }, signal);
      put(shown, el("p", { class: "count" }, `${number(found.queries)} queries were blocked or rewritten ${hour.box.checked ? "in the last hour" : "since the start"}.`),
        table("Blocked most", [{ name: "Name", client: "Client", rule_source: "List or zone" }[found.by] || found.by, { label: "Queries", class: "num" }, { label: "", class: "acts" }],
          found.top.map((one) => [el("span", { class: "mono" }, one[found.by]), number(one.queries), found.by === "name" ? link(["explain"], { name: one.name }, "Why?") : null]), "Nothing was blocked."));
    } catch (error) {
      if (!signal.aborted) put(shown, el("p", { class: "fault" }, words(error)));
    }
  };
  by.addEventListener("change", load);
  hour.box.addEventListener("change", load);
  load();
  return [el("div", { class: "filters" }, field("By", by), hour.node), shown];
}
