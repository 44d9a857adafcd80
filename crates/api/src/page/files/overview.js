// The overview: rates, latency, the states of zones, and what needs attention.

import { el, put, link, badge, bytes, duration, every, facts, microseconds, moment, number, plural, percent, rate, section, table, DASH, words } from "/dom.js";
import { get } from "/api.js";
import { chart } from "/chart.js";
import { countsOf, hitsOf, samplesOf } from "/rates.js";

const REFRESH_SECONDS = 5;
const SOON_SECONDS = 14 * 86400;
/** Seconds after which a connected node that lacks changes needs attention. */
const LAG_SECONDS = 10;
/** The states of zones, with their tones. */
export const STATES = [["ok", "good"], ["old", "warn"], ["failed", "bad"], ["empty", "bad"], ["expired", "bad"]];

export const toneOf = (state) => (STATES.find(([word]) => word === state) || [state, "plain"])[1];

export async function overview({ main, signal }) {
  const tiles = el("div", { class: "tiles" });
  const charts = {
    queries: chart("Queries per second", rate, 1),
    faults: chart("SERVFAIL and unanswered, per second", rate, 1),
    latency: chart("Latency", microseconds, 100),
    cache: chart("Answered from the cache", percent, 1),
  };
  const attention = el("div", {});
  const state = el("div", { class: "columns" });
  const stale = el("p", { class: "fault", role: "alert" });
  put(main, el("h1", {}, "Overview"), stale, tiles, attention,
    el("div", { class: "charts" }, Object.values(charts).map((one) => one.node)), state);
  await every(REFRESH_SECONDS, signal, async () => {
    try {
      const [status, rates] = await Promise.all([get("/status", {}, signal), get("/rates", {}, signal)]);
      put(stale, null);
      const samples = samplesOf(rates);
      drawTiles(tiles, status, samples);
      drawCharts(charts, samples);
      drawAttention(attention, status);
      drawState(state, status, rates);
    } catch (error) {
      if (signal.aborted) return;
      put(stale, `These figures are old: ${words(error)}`);
    }
  });
}

function tile(label, value, note, tone) {
  return el("div", { class: "tile", "data-tone": tone }, el("span", { class: "label" }, label),
    el("span", { class: "value" }, value), note ? el("span", { class: "note" }, note) : null);
}

function unready(status) {
  const { zones } = status;
  return (zones.failed || 0) + (zones.empty || 0) + (zones.expired || 0);
}

function drawTiles(node, status, samples) {
  const last = samples[samples.length - 1] || {};
  const silent = unready(status);
  put(node,
    tile("Ready", silent === 0 ? "yes" : "no", silent === 0 ? "every zone is in service" : `${plural(silent, "zone is", "zones are")} not in service`,
      silent === 0 ? "good" : "bad"),
    tile("Queries per second", rate(last.queries)),
    tile("Cache hits", percent(last.hitShare)),
    tile("SERVFAIL per second", rate(last.servfail), null, last.servfail > 0 ? "warn" : undefined),
    tile("Unanswered per second", rate(last.unanswered), null, last.unanswered > 0 ? "warn" : undefined),
    tile("Latency, median", microseconds(last.p50), typeof last.p99 !== "number" ? null : `99 % within ${microseconds(last.p99)}`));
}

function drawCharts(charts, samples) {
  const times = samples.map((one) => one.at);
  const of = (key) => samples.map((one) => one[key] ?? null);
  charts.queries.update(times, [{ name: "queries", values: of("queries") }]);
  charts.faults.update(times, [{ name: "SERVFAIL", values: of("servfail") }, { name: "unanswered", values: of("unanswered") }]);
  charts.latency.update(times, [{ name: "median", values: of("p50") }, { name: "99 %", values: of("p99") }]);
  charts.cache.update(times, [{ name: "share", values: of("hitShare") }]);
  const asked = samples.some((one) => one.hitShare !== undefined && one.hitShare !== null);
  charts.cache.node.hidden = !asked;
}

/** Returns what needs the operator's attention, the most urgent first. */
function concerns(status) {
  const all = [];
  const concern = (tone, ...text) => all.push({ tone, text });
  const { zones, signatures } = status;
  for (const [word, tone] of STATES) {
    if (word !== "ok" && zones[word] > 0) concern(tone, link(["zones"], { state: word }, `${plural(zones[word], "zone", "zones")}: ${word}`));
  }
  const signed = (age, text) => link(["zones"], { signatures: age }, text);
  if (signatures && signatures.expired > 0) concern("bad", signed("expired", `${plural(signatures.expired, "zone has", "zones have")} expired signatures`));
  if (signatures && signatures.expiring > 0) concern("warn", signed("expiring", `${plural(signatures.expiring, "zone has", "zones have")} signatures that expire soon`));
  ofDatabase(status.database, concern);
  const now = Date.now() / 1000;
  for (const one of status.certificates || []) {
    const text = `certificate ${(one.names || []).join(", ") || one.file || ""}`;
    if (one.expires < now) concern("bad", `${text} has expired, `, moment(one.expires));
    else if (one.expires - now < SOON_SECONDS) concern("warn", `${text} expires `, moment(one.expires));
  }
  if (status.acme && status.acme.fault) concern("warn", `the order of a certificate failed: ${status.acme.fault}`);
  if (status.acme && status.acme.records_left) concern("warn", "records of a challenge are left in a zone, they could not be removed");
  if (status.local_root && status.local_root.fault) concern("warn", `the copy of the root zone: ${status.local_root.fault}`);
  const last = status.last_reload;
  if (last && last.error) concern("bad", `the last reload failed, `, moment(last.at), `: ${last.error}`);
  if (last && last.complaint) concern("warn", `the last reload, `, moment(last.at), `: ${last.complaint}`, el("ul", {}, last.faults.map(faultOf)));
  for (const one of status.signing_faults) concern("bad", link(["zone", one.zone, "keys"], {}, one.zone), `: its keys and signatures are not maintained: ${one.fault}`);
  for (const text of status.held_back || []) concern("warn", text);
  for (const text of status.refused || []) concern("warn", text);
  for (const one of status.catalogs || []) if (one.fault) concern("warn", `catalog zone ${one.zone}: ${one.fault}`);
  for (const key of status.pending_keys || []) concern("warn", `${key.section} ${key.key}: the change needs a restart`);
  return all;
}

/** Reports what of the database needs attention. */
function ofDatabase(database, concern) {
  if (!database) return;
  if (!database.connected) concern("bad", "the database is not connected", database.since ? [" since ", moment(database.since)] : "", `: ${database.fault || "no attempt has ended yet"}. Zones are served, and changes are refused.`);
  else if (database.lag_seconds > LAG_SECONDS) concern("warn", `this node lacks changes of the database since ${duration(database.lag_seconds)}: ${number(database.followed)} of ${number(database.last_change)}`);
  if (database.unserved > 0) concern("bad", `${plural(database.unserved, "zone", "zones")} of the database not served: `, link(["server"], {}, "which"));
  if (database.held > 0) concern("bad", `${plural(database.held, "zone is", "zones are")} no longer in the database, too many to be removed at once: nomen ctl reload --force removes them`);
  if (database.unfit > 0) concern("warn", `${plural(database.unfit, "zone has", "zones have")} records in the database that are no zone; the version before stays`);
}

/** Returns a fault of the last reload with its place. */
function faultOf({ zone, file, line, column, fault }) {
  return el("li", {}, el("span", { class: "mono" }, `${file}:${line}:${column}`), zone ? ` (${zone})` : "", `: ${fault}`);
}

function drawAttention(node, status) {
  const all = concerns(status);
  put(node, all.length === 0 ? null : section("Needs attention",
    el("ul", { class: "concerns" }, all.map(({ tone, text }) => el("li", { "data-tone": tone }, text)))));
}

function drawState(node, status, rates) {
  const total = STATES.reduce((sum, [word]) => sum + (status.zones[word] || 0), 0);
  const zones = el("ul", { class: "states" }, STATES.map(([word, tone]) => el("li", {},
    link(["zones"], { state: word }, badge(word, status.zones[word] > 0 ? tone : "plain"), " ", number(status.zones[word] || 0)))));
  const secondary = Object.entries(status.secondary_zones || {}).filter(([, count]) => count > 0);
  put(node,
    section("Zones", el("p", {}, link(["zones"], {}, plural(total, "zone", "zones"))), zones,
      secondary.length === 0 ? null : el("p", {}, "From primaries: ", secondary.map(([word, count]) => `${count} ${word}`).join(", "), ".")),
    section("Queries", table("Queries, and replies by response code",
      ["Counts", { label: "Total", class: "num" }, { label: "Mean/s", class: "num" }, { label: "Last minute/s", class: "num" }],
      countsOf(rates).map((one) => [one.what, number(one.count), rate(one.average), rate(one.rate)])), cacheOf(rates)),
    databaseOf(status.database),
    section("Server", facts([
      ["Version", status.version], ["Up for", duration(status.uptime_seconds)], ["Memory", bytes(status.memory_bytes)],
      ["TCP connections", number(status.tcp_connections)], ["Workers", number(status.workers)],
      ["Certificates", (status.certificates || []).length === 0 ? null
        : el("ul", { class: "plain" }, status.certificates.map((one) => el("li", {}, (one.names || []).join(", ") || DASH, ": expires ", moment(one.expires))))],
      ["Last reload", status.last_reload ? reloadOf(status.last_reload) : "none since the start"],
    ])));
}

/** Returns the card of the database; null without one. */
function databaseOf(database) {
  if (!database) return null;
  const { connected, last_change: last, followed } = database;
  return section("Database", el("p", {}, badge(connected ? "connected" : "not connected", connected ? "good" : "bad"), database.host ? ` ${database.host}` : ""), facts([
    [connected ? "Connected" : "Not connected", database.since ? moment(database.since) : DASH], ["Server", database.server ? `PostgreSQL ${database.server}` : null], ["This node", database.node],
    ["Last change", number(last)], ["Changes here", followed < last ? `${number(followed)}, ${number(last - followed)} behind` : number(followed)],
    ["Lag", database.lag_seconds > 0 ? duration(database.lag_seconds) : "none"], ["Zones", number(database.zones)],
    ["Being read", database.unread > 0 ? number(database.unread) : null], ["Waiting changes", number(database.waiting)],
    ["Schema", database.schema === "powerdns" ? "PowerDNS, read only" : null],
  ]), el("p", {}, link(["server"], {}, "All nodes")));
}

/** Returns the outcome of a reload. */
function reloadOf({ at, error, summary, complaint }) {
  if (error) return [moment(at), ": failed, the configuration before it stays in force"];
  return [moment(at), `: ${plural(summary.zones, "zone", "zones")}, ${number(summary.loaded)} of them read; ${complaint || "no faults"}`];
}

/** Returns the share of queries that the cache answered; null if nothing was resolved. */
function cacheOf(rates) {
  const { whole, minute } = hitsOf(rates);
  return whole === null ? null : el("p", {}, `Answered from the cache: ${percent(whole)} since the start, ${percent(minute)} in the last minute.`);
}
