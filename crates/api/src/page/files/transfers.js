// Zones between servers: the state of each zone with its primaries, and the servers that are sent NOTIFY.

import { el, put, link, badge, bytes, every, moment, number, remark, section, table, words, DASH } from "/dom.js";
import { get } from "/api.js";

const REFRESH_SECONDS = 10;
const MOST = 200;

/** Returns the last fault of a primary as text; null if there is none. */
export function faultText(status) {
  return status.fault ? [`${status.fault.primary}: ${status.fault.fault}, `, moment(status.fault.at)] : null;
}

/** Returns the last transfer as text; null if there was none. */
export function transferText(status) {
  const last = status.last_transfer;
  return last ? [`${last.kind} from ${last.primary} to serial ${last.to}, ${number(last.records)} records, ${bytes(last.bytes)} in ${last.milliseconds} ms, `,
    moment(last.at)] : null;
}

export async function transfers({ main, signal }) {
  const shown = el("div", {});
  put(main, el("h1", {}, "Transfers"), shown);
  await every(REFRESH_SECONDS, signal, async () => {
    try {
      draw(shown, await get("/secondaries", { limit: MOST }, signal));
    } catch (error) {
      if (!signal.aborted) put(shown, el("p", { class: "fault" }, words(error)));
    }
  });
}

function draw(node, { zones, more }) {
  put(node,
    section("Zones from primaries", table("Zones from primaries", ["Zone", "State", { label: "Serial", class: "num" }, "Confirmed", "Next refresh", "Expires", "Last fault"],
      zones.map(incoming), "No zone comes from a primary.")),
    more > 0 ? remark(`${number(more)} further zones are not shown; those with faults come first.`) : null);
}

function incoming({ zone, serial, transfers: of }) {
  return {
    cells: [link(["zone", zone, "servers"], {}, zone), badge(of.state || "unknown", of.state === "fresh" ? "good" : "bad"), serial ?? DASH,
      of.confirmed ? moment(of.confirmed) : "never", of.next_refresh ? moment(of.next_refresh) : of.under_way ? "under way" : DASH,
      of.expires ? moment(of.expires) : DASH, faultText(of) || DASH],
    tone: of.fault ? "warn" : undefined,
  };
}
