// The resolver: its cache, the health of other servers, forwarding rules, failures, trust anchors.

import { el, put, badge, button, bytes, checkbox, choice, confirm, dialog, duration, every, facts, failed, field, form, microseconds, notice, number, plural, remark, section, submit, table, words, DASH } from "/dom.js";
import { can, get, post, remove } from "/api.js";

const REFRESH_SECONDS = 10;
/** Servers of an iterated domain that are shown at once. */
const STARTS = 3;
/** Purposes of extended errors (RFC 8914 and its registry) that servers send with SERVFAIL. */
const ERRORS = {
  0: "other", 1: "unsupported DNSKEY algorithm", 2: "unsupported DS digest", 3: "stale answer", 5: "DNSSEC indeterminate", 6: "DNSSEC bogus",
  7: "signature expired", 8: "signature not yet valid", 9: "DNSKEY missing", 10: "RRSIGs missing", 11: "no zone key bit set", 12: "NSEC missing",
  13: "cached error", 14: "not ready", 15: "blocked", 16: "censored", 17: "filtered", 18: "prohibited", 19: "stale NXDOMAIN answer",
  20: "not authoritative", 21: "not supported", 22: "no reachable authority", 23: "network error", 24: "invalid data",
  25: "signature expired before valid", 26: "too early", 27: "unsupported NSEC3 iterations", 30: "synthesized",
};

export async function resolver({ main, signal }) {
  const parts = { cache: el("div", {}), forward: el("div", {}), failures: el("div", {}), anchors: el("div", {}), negative: el("div", {}) };
  const server = can("server");
  const refresh = {};
  const part = (key, path, draw) => {
    refresh[key] = async () => {
      try {
        draw(parts[key], await get(path, {}, signal), refresh[key]);
      } catch (error) {
        if (!signal.aborted) put(parts[key], el("p", { class: "fault" }, words(error)));
      }
    };
  };
  part("cache", "/cache", drawCache);
  part("forward", "/forward", (node, found, again) => drawForward(node, found, server, again));
  part("failures", "/stats", drawFailures);
  part("anchors", "/trust-anchors", drawAnchors);
  part("negative", "/nta", (node, found, again) => drawNegative(node, found, server, again));
  put(main, el("h1", {}, "Resolver"),
    server ? null : remark("Flushing and changing rules need the right “server”."),
    section("Cache", parts.cache, server ? flush(() => refresh.cache()) : null),
    section("Servers and forwarding rules", parts.forward, server ? el("div", { class: "row" }, button("Add a rule", () => addRule(refresh.forward))) : null),
    section("SERVFAIL by reason, since the start", parts.failures),
    section("Negative trust anchors", parts.negative, server ? el("div", { class: "row" }, button("Add a negative trust anchor", () => addNegative(refresh.negative))) : null),
    section("Trust anchors", parts.anchors));
  await every(REFRESH_SECONDS, signal, () => Promise.all(Object.values(refresh).map((one) => one())));
}

function drawCache(node, cache) {
  put(node, facts([
    ["Hits", `${number(cache.hits)}${cache.hit_percent === null ? "" : ` (${cache.hit_percent} %)`}`], ["Negative hits", number(cache.negative_hits)],
    ["Misses", number(cache.misses)], ["Entries", number(cache.entries)], ["In use", `${bytes(cache.bytes)} of ${bytes(cache.bytes_at_most)}`],
    ["Evicted", number(cache.evicted)], ["Expired", number(cache.expired)], ["File", cache.file],
  ]));
}

function flush(again) {
  const name = el("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "example.com" });
  const tree = checkbox("and all names below", false);
  const type = el("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "all types" });
  const send = async () => {
    const body = { name: name.value.trim(), tree: tree.box.checked };
    if (type.value.trim()) body.type = type.value.trim();
    const done = await post("/cache/flush", body);
    notice(`Removed from the cache: ${plural(done.dropped, "entry", "entries")}.`);
    await again();
  };
  return form({ class: "filters" }, send, field("Flush a name", name), field("Type", type), tree.node, submit("Flush"));
}

function drawForward(node, rules, server, again) {
  const line = (rule) => [
    rule.domain, rule.kind + (rule.groups ? ` for ${rule.groups.join(", ")}` : ""),
    rule.servers ? el("ul", { class: "plain" }, rule.servers.map(health)) : startsAt(rule.begins_at || []),
    server && rule.kind !== "iterate" ? button("Remove", () => confirm(`Remove the rule for ${rule.domain}`, "Names of the domain are then resolved as those above it, until the next reload.",
      "Remove the rule", async () => { await remove("/forward", { domain: rule.domain }); notice("Removed, until the next reload."); await again(); }), { "aria-label": `Remove the rule for ${rule.domain}` }) : null,
  ];
  put(node, table("Rules", ["Domain", "Kind", { label: "Servers", class: "wide" }, { label: "", class: "acts" }], rules.map(line),
    "No rule: names are resolved from the root."));
}

/** Returns the first servers that a lookup may start at; the rest are shown on request. */
function startsAt(all) {
  if (all.length <= STARTS) return all.join(", ");
  return el("details", {}, el("summary", {}, `${all.slice(0, STARTS).join(", ")} and ${all.length - STARTS} further addresses`), all.slice(STARTS).join(", "));
}

function health(one) {
  const counts = [["timeouts", one.timeouts], ["failures", one.failures], ["bad replies", one.bad_replies]].filter(([, count]) => count > 0);
  return el("li", {}, el("span", { class: "mono" }, one.server), " ", one.state ? badge(one.state, one.state === "ok" ? "good" : "bad") : badge("not asked yet"),
    one.rtt_us ? ` ${microseconds(one.rtt_us)}` : "", one.udp !== undefined ? `, ${plural(one.udp + one.tcp + one.tls + one.https + one.quic + one.odoh, "query", "queries")}` : "",
    counts.length > 0 ? `, ${counts.map(([word, count]) => `${number(count)} ${word}`).join(", ")}` : "", one.tls_fault ? `, ${one.tls_fault}` : "");
}

function drawFailures(node, stats) {
  const rows = [];
  for (const [key, value] of Object.entries(stats)) {
    if (!value) continue;
    const found = key.match(/^nomen_(servfail|recursion_failures|forward_shed)_total\{(?:[a-z_]+)="(.*)"\}$/);
    if (!found) continue;
    const [, kind, label] = found;
    if (kind === "servfail") rows.push([ERRORS[label] ? `${ERRORS[label]} (extended error ${label})` : label, number(value), value]);
    else rows.push([kind === "forward_shed" ? `limit: ${label}` : label.replaceAll("-", " "), number(value), value]);
  }
  rows.sort((a, b) => b[2] - a[2]);
  put(node, table("SERVFAIL by reason", ["Reason", { label: "Replies", class: "num" }], rows.map((row) => row.slice(0, 2)), "No SERVFAIL since the start."));
}

function drawAnchors(node, anchors) {
  put(node, table("Trust anchors", ["Zone", "Key", "State", "Trusted", "In this state for"], anchors.map((one) => [
    one.zone, `${one.tag} ${one.algorithm}`, one.state, badge(one.trusted ? "yes" : "no", one.trusted ? "good" : "warn"),
    one.seconds_in_state === null || one.seconds_in_state === undefined ? DASH : duration(one.seconds_in_state),
  ]), "No trust anchor: answers are not validated."));
}

function drawNegative(node, anchors, server, again) {
  put(node, table("Negative trust anchors", ["Domain", "Ends in", { label: "", class: "acts" }], anchors.map((one) => [
    one.domain, one.seconds_left === null ? "no end (configuration)" : duration(one.seconds_left),
    server ? button("Remove", async () => { await remove("/nta", { domain: one.domain }); await again(); }, { "aria-label": `Remove the negative trust anchor of ${one.domain}` }) : null,
  ]), "None: every signed domain is validated."));
}

/** Shows a dialog with a form that sends a request. */
function sending(title, verb, fields, request, again) {
  dialog(title, (close) => {
    const fault = el("p", { class: "fault", role: "alert" });
    const send = async () => {
      try {
        const done = await request();
        close();
        notice(typeof done === "string" ? done : "Done.");
        again().catch(failed);
      } catch (error) {
        put(fault, words(error));
      }
    };
    return form({}, send, fields, fault, el("div", { class: "row" }, submit(verb), el("button", { type: "button", click: close }, "Cancel")));
  });
}

function addRule(again) {
  const domain = el("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const servers = el("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", placeholder: "192.0.2.1, 2001:db8::1@5353" });
  const kind = choice([["forward", "forward: resolvers"], ["stub", "stub: authoritative servers"]], "forward", {});
  sending("Add a rule", "Add", [field("Domain", domain), field("Servers", servers, "Addresses, with @PORT where it is not 53, separated by commas."), field("Kind", kind),
    remark("The rule is in force until the configuration is read again.")],
  () => post("/forward", { domain: domain.value.trim(), servers: servers.value.split(",").map((text) => text.trim()).filter(Boolean), stub: kind.value === "stub" }), again);
}

function addNegative(again) {
  const domain = el("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const time = el("input", { type: "text", required: true, value: "1h", autocomplete: "off" });
  sending("Add a negative trust anchor", "Add", [field("Domain", domain, "Nothing in it is validated until the time ends."), field("Time", time, "As 30m, 1h or 1d.")],
    () => post("/nta", { domain: domain.value.trim(), time: time.value.trim() }), again);
}
