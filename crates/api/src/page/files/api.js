// Requests to the native API, the token, and the rights of the token. The token is in the session storage of the
// browser tab and is sent in a header; there are no cookies.

const BASE = "/api/nomen/v1";
const TOKEN = "nomen.token";
const TIMEOUT_MS = 60_000;

/** A reply that is not a success. `status` is 0 if there was no reply. */
export class ApiError extends Error {
  constructor(status, message, body) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.field = body && body.field;
    this.body = body;
  }
}

/** Who uses the page: the name and rights of the token. `listeners` run when that changes. */
export const session = { name: null, rights: [], reason: null };
const listeners = [];

export function onSession(listener) {
  listeners.push(listener);
}

export function token() {
  return sessionStorage.getItem(TOKEN);
}

/** Removes the token; also edits that are not committed, unless the server has ended the session (`reason`). */
export function signOut(reason) {
  if (reason) sessionStorage.removeItem(TOKEN);
  else sessionStorage.clear();
  Object.assign(session, { name: null, rights: [], reason: reason || null });
  listeners.forEach((listener) => listener());
}

/** Reads the rights of the token that is stored, if there is one. */
export async function refreshSession() {
  if (!token()) return;
  const self = await get("/self");
  Object.assign(session, { name: self.token, rights: self.rights });
}

/** Stores a token if the server accepts it. */
export async function signIn(text) {
  sessionStorage.setItem(TOKEN, text);
  try {
    await refreshSession();
  } catch (error) {
    sessionStorage.removeItem(TOKEN);
    throw error;
  }
  session.reason = null;
  listeners.forEach((listener) => listener());
}

/** Whether the token has a right: for the whole server, or for a zone if one is named. The server decides about
 *  each request; this is what the page offers. Rights for zones include reading them. */
export function can(right, zone) {
  return session.rights.some((one) => includes(one.right, right, zone) &&
    (zone ? !one.zones || one.zones.some((pattern) => covers(pattern, zone)) : !one.zones && !one.names && !one.types));
}

/** Whether the token has a right for some zone. */
export function canSome(right) {
  return session.rights.some((one) => includes(one.right, right, true));
}

function includes(granted, wanted, zone) {
  if (granted === "all" || granted === wanted) return true;
  return wanted === "read" && (zone ? ["change", "manage"] : ["policy", "server"]).includes(granted);
}

/** Returns the limits of the right to change records of a zone: owners and types; null if there are none. */
export function limitsOf(zone) {
  const fitting = session.rights.filter((one) => (one.right === "change" || one.right === "all") &&
    (!one.zones || one.zones.some((pattern) => covers(pattern, zone))));
  if (fitting.length === 0 || fitting.some((one) => !one.names && !one.types)) return null;
  return fitting.map((one) => [one.names && `names ${one.names.join(", ")}`, one.types && `types ${one.types.join(", ")}`]
    .filter(Boolean).join("; ")).join(" or ");
}

function covers(pattern, zone) {
  const plain = (text) => text.toLowerCase().replace(/\.$/, "").split("@")[0];
  const [of, name] = [plain(pattern), plain(zone)];
  if (of === "*" || of === name) return true;
  return of.startsWith("*.") && name.endsWith(of.slice(1));
}

function address(path, query) {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query || {})) {
    if (value !== undefined && value !== null && value !== "" && value !== false) parameters.set(key, value);
  }
  const text = parameters.toString();
  return BASE + path + (text ? "?" + text : "");
}

/** Returns the path of a zone, or of something of it. */
export function ofZone(zone, rest) {
  return `/zones/${encodeURIComponent(zone)}${rest ? "/" + rest : ""}`;
}

function headers(more) {
  const all = { Accept: "application/json", ...more };
  if (token()) all["X-API-Key"] = token();
  return all;
}

async function send(method, path, { query, body, signal, accept, timeout } = {}) {
  const limits = timeout === 0 ? [] : [AbortSignal.timeout(timeout || TIMEOUT_MS)];
  const ends = [signal, ...limits].filter(Boolean);
  const request = {
    method,
    headers: headers({ ...(accept && { Accept: accept }), ...(body !== undefined && { "Content-Type": "application/json" }) }),
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: ends.length > 0 ? AbortSignal.any(ends) : undefined,
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
  };
  const sent = token();
  let reply;
  try {
    reply = await fetch(address(path, query), request);
  } catch (error) {
    if (signal && signal.aborted) throw new DOMException("cancelled", "AbortError");
    if (error.name === "TimeoutError") throw new ApiError(0, `The server did not answer within ${TIMEOUT_MS / 1000} s.`);
    throw new ApiError(0, "The server cannot be reached.");
  }
  if (reply.status === 401 && session.name && sent === token()) {
    signOut("The server does not accept the token: it is wrong, or it has expired.");
  }
  if (!reply.ok) throw await fault(reply);
  return reply;
}

async function fault(reply) {
  const text = await reply.text().catch(() => "");
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // The body is not JSON: the status is all there is.
  }
  const message = body && typeof body.error === "string" ? body.error : `The server answered ${reply.status} ${reply.statusText}.`;
  return new ApiError(reply.status, message, body);
}

async function json(method, path, options) {
  const reply = await send(method, path, options);
  const text = await reply.text();
  return text ? JSON.parse(text) : null;
}

export const get = (path, query, signal) => json("GET", path, { query, signal });
export const post = (path, body, signal) => json("POST", path, { body: body === undefined ? {} : body, signal });
export const remove = (path, query) => json("DELETE", path, { query });

/** Yields the events of a stream: their kind and their JSON. */
export async function* events(path, query, signal) {
  const reply = await send("GET", path, { query, signal, accept: "text/event-stream", timeout: 0 });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split(/\r?\n\r?\n/);
    text = blocks.pop();
    for (const block of blocks) {
      const event = { kind: "message", data: "" };
      for (const line of block.split(/\r?\n/)) {
        if (line.startsWith("event:")) event.kind = line.slice(6).trim();
        else if (line.startsWith("data:")) event.data += line.slice(5).trim();
      }
      if (event.data) yield { kind: event.kind, data: JSON.parse(event.data) };
    }
  }
}
