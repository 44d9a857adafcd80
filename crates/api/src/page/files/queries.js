// The stream of queries: filters, pause, a bounded list, and the count of queries that are missing from it.

import { el, put, hash, button, choice, failed, field, form, number, link, remark, submit, words, DASH, microseconds } from "/dom.js";
import { can, events } from "/api.js";

/** Rows that are kept. */
const MOST = 500;
const DRAW_MS = 250;
const RETRY_MS = 3000;
const RCODES = ["NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR", "NOTIMP"];
const COLUMNS = ["Time", "Client", "Name", "Type", "Answer", "From", "Took"];

export async function queries({ main, query, signal, remember }) {
  if (!can("server")) {
    put(main, el("h1", {}, "Queries"), remark("The stream of queries needs the right “server”, which this token does not have."));
    return;
  }
  const plain = { autocomplete: "off", spellcheck: "false", autocapitalize: "off" };
  const name = el("input", { type: "search", value: query.name, placeholder: "example.com", ...plain });
  const client = el("input", { type: "search", value: query.client, placeholder: "192.0.2.0/24", ...plain });
  const type = el("input", { type: "search", value: query.type, placeholder: "all", ...plain });
  const rcode = choice([["", "all"], ...RCODES], query.rcode || "", {});
  const counts = el("p", { class: "count", role: "status" });
  const body = el("tbody", {});
  const state = { rows: [], waiting: [], received: 0, leftOut: 0, paused: false, missed: 0, fault: null, stop: null };
  const pauseButton = el("button", { type: "button", "aria-pressed": "false" }, "Pause");
  pauseButton.addEventListener("click", () => {
    state.paused = !state.paused;
    pauseButton.setAttribute("aria-pressed", String(state.paused));
    put(pauseButton, state.paused ? "Continue" : "Pause");
  });
  const begin = () => {
    const asked = { name: name.value.trim(), client: client.value.trim(), type: type.value.trim(), rcode: rcode.value };
    remember(hash(["queries"], asked));
    if (state.stop) state.stop.abort();
    clear(state, body);
    state.stop = new AbortController();
    follow(state, asked, AbortSignal.any([signal, state.stop.signal])).catch(failed);
  };
  rcode.addEventListener("change", begin);
  put(main, el("h1", {}, "Queries"),
    form({ class: "filters" }, async () => begin(), field("Name", name), field("Client", client), field("Type", type), field("RCODE", rcode),
      submit("Filter"), pauseButton, button("Clear", () => clear(state, body))),
    counts,
    el("table", { class: "stream" }, el("caption", { class: "unseen" }, "Queries, the newest first"),
      el("thead", {}, el("tr", {}, COLUMNS.map((text) => el("th", { scope: "col" }, text)))), body),
    remark(`The newest ${MOST} queries are shown. If there are more than this browser reads, the server leaves some out and sends their number.`));
  const timer = setInterval(() => drawRows(state, body, counts), DRAW_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  begin();
}

function clear(state, body) {
  Object.assign(state, { rows: [], waiting: [], received: 0, leftOut: 0, missed: 0 });
  put(body, null);
}

/** Reads the stream until the view or its filter changes; connects again after a failure. */
async function follow(state, asked, signal) {
  while (!signal.aborted) {
    try {
      state.fault = null;
      for await (const { kind, data } of events("/queries", asked, signal)) {
        if (kind === "lost") state.leftOut += data.lost;
        if (kind !== "message") continue;
        state.received += 1;
        if (state.paused) state.missed += 1;
        else {
          state.waiting.push(data);
          if (state.waiting.length > MOST) state.waiting.shift();
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      state.fault = words(error);
      if (error.status && error.status !== 429 && error.status < 500) return;
    }
    await new Promise((wake) => setTimeout(wake, RETRY_MS));
  }
}

function drawRows(state, body, counts) {
  const fresh = state.waiting.splice(0);
  for (const one of fresh) body.prepend(row(one));
  while (body.childElementCount > MOST) body.lastElementChild.remove();
  put(counts, state.fault ? el("span", { class: "fault" }, `${state.fault} `) : null,
    `${number(state.received)} received`, state.leftOut > 0 ? `, ${number(state.leftOut)} left out by the server` : ", none left out by the server",
    state.missed > 0 ? `, ${number(state.missed)} not shown during the pause` : null, state.paused ? " – paused" : null);
}

function row(one) {
  const date = new Date(one.time * 1000);
  const time = `${date.toLocaleTimeString("en-GB")}.${String(date.getMilliseconds()).padStart(3, "0")}`;
  const answer = one.rcode || "no reply";
  const tone = answer === "SERVFAIL" ? "bad" : one.policy || answer === "REFUSED" ? "warn" : undefined;
  const flags = [one.transport, one.dnssec_ok ? "DO" : null, one.truncated ? "TC" : null].filter(Boolean).join(" ");
  const cells = [time, el("span", { class: "mono" }, one.client),
    link(["explain"], { name: one.name, type: one.type, client: one.client }, one.name), one.type || DASH,
    [answer, " ", el("small", {}, flags)], sourceOf(one), microseconds(one.microseconds)];
  return el("tr", { "data-tone": tone }, cells.map((cell, column) => el("td", { "data-label": COLUMNS[column] }, cell)));
}

/** Returns where the answer is from. */
function sourceOf({ policy, zone, upstream, rcode }) {
  if (policy) return `${policy.action} by ${policy.source}`;
  if (zone) return `zone ${zone}`;
  if (upstream) return `server ${upstream}`;
  return rcode === "REFUSED" ? DASH : "cache";
}
