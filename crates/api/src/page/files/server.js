// The server as a whole: listeners, certificates, tokens, limits, discovery, the sandbox, and the reload.

import { el, put, badge, button, facts, moment, notice, number, remark, section, table, words, DASH } from "/dom.js";
import { can, get, post } from "/api.js";
import { rightText } from "/rights.js";

export async function server({ main, signal, again }) {
  const status = await get("/status", {}, signal);
  const part = (path, query, draw) => {
    const node = el("div", {});
    get(path, query, signal).then((found) => put(node, draw(found)), (error) => {
      if (!signal.aborted) put(node, el("p", { class: "empty" }, words(error)));
    });
    return node;
  };
  put(main, el("h1", {}, "Server"),
    can("server")
      ? el("div", { class: "row" }, button("Reload the configuration and zones", () => reload(again), { class: "primary" }))
      : remark("The reload needs the right “server”."),
    section("Process", facts([
      ["Version", status.version], ["Process", status.pid], ["Started", moment(status.started)], ["Configuration", status.configuration],
      ["Log", typeof status.log === "string" ? status.log : JSON.stringify(status.log)], ["Sandbox", sandbox(status.sandbox)],
    ])),
    section("Listeners", table("Listeners", ["Address", "Transport", { label: "Queries", class: "num" }],
      status.listeners.map((one) => [el("span", { class: "mono" }, one.address), one.transport, number(one.queries)]))),
    section("Certificates", table("Certificates", ["Names", "File", "Expires"],
      (status.certificates || []).map((one) => [(one.names || []).join(", ") || DASH, one.file || DASH, moment(one.expires)]), "No listener has a certificate."),
    status.acme ? facts([["Ordered from", status.acme.directory], ["State", status.acme.state], ["Challenge", status.acme.challenge], ["Next attempt", moment(status.acme.next_attempt)], ["Fault", status.acme.fault]]) : null),
    status.database ? section("Database", part("/database", {}, database)) : null,
    section("Tokens", can("server") ? part("/tokens", {}, tokens) : remark("The list of tokens needs the right “server”.")),
    section("Networks that are limited most", part("/limits/top", { count: 10 }, (found) => table("Limited networks", ["Network", { label: "Replies", class: "num" }],
      found.top.map((one) => [one.network, number(one.replies)]), "No reply was limited."))),
    section("Discovery of encrypted listeners", part("/discovery", {}, (found) => [
      facts([["Name", found.name], ["DHCPv4 option 162", found.dhcpv4]]), el("pre", { tabindex: "0" }, [...(found.answered || []), ...(found.records || [])].join("\n"))])));
}

function sandbox(found) {
  if (typeof found !== "object" || found === null) return String(found ?? DASH);
  return `Landlock ${found.landlock}, seccomp ${found.seccomp}, capabilities ${found.capabilities}`;
}

/** Returns the nodes that use the database, changes by their result, and zones that are not served. */
function database(found) {
  const node = (one) => ({
    cells: [one.name, number(one.change), number(one.behind), number(one.zones), moment(one.seen), one.version, one.address || DASH],
    tone: one.behind > 0 ? "warn" : undefined,
  });
  return [
    found.nodes_fault ? el("p", { class: "fault" }, found.nodes_fault) : null,
    table("Nodes", ["Node", { label: "Change", class: "num" }, { label: "Behind", class: "num" }, { label: "Zones", class: "num" }, "Seen", "Version", "Address"],
      found.nodes.map(node), "No node has reported."),
    facts(Object.entries(found.commits || {}).map(([word, count]) => [`Changes, ${word}`, number(count)])),
    found.unserved_zones.length === 0 ? null : table("Zones that are not served", ["Zone", "Reason"], found.unserved_zones.map((one) => [one.zone, one.why])),
  ];
}

function tokens(found) {
  return table("Tokens", ["Name", "Rights", "Expires", { label: "Requests", class: "num" }, "Last used"], found.map((one) => ({
    cells: [one.name, one.rights.map(rightText).join(", "), one.expired ? badge("expired", "bad") : one.expires || "never", number(one.requests),
      one.last_used ? [moment(one.last_used), one.last_client ? ` from ${one.last_client}` : ""] : badge("not since the start")],
    tone: one.expired ? "warn" : undefined,
  })), "No token is configured.");
}

async function reload(again) {
  const done = await post("/reload");
  const summary = done && done.summary;
  notice(summary ? `Reloaded: ${number(summary.zones)} zones, ${number(summary.loaded)} of them read again.` : "Reloaded.");
  again();
}
