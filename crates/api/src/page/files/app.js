// The start of the page: views by the hash of the address, navigation, and signing in.

import { el, put, link, button, field, form, submit, words } from "/dom.js";
import { can, canSome, onSession, refreshSession, session, signIn, signOut } from "/api.js";
import { overview } from "/overview.js";
import { zones } from "/zones.js";
import { zone } from "/zone.js";
import { transfers } from "/transfers.js";
import { resolver } from "/resolver.js";
import { policy } from "/policy.js";
import { explain } from "/explain.js";
import { queries } from "/queries.js";
import { server } from "/server.js";
import { rightText } from "/rights.js";

const VIEWS = {
  overview: { text: "Overview", show: overview },
  zones: { text: "Zones", show: zones, zones: true },
  zone: { show: zone, zones: true },
  transfers: { text: "Transfers", show: transfers, zones: true },
  resolver: { text: "Resolver", show: resolver },
  policy: { text: "Policy", show: policy },
  queries: { text: "Queries", show: queries },
  explain: { text: "Explain", show: explain },
  server: { text: "Server", show: server },
};
const main = document.getElementById("main");
let current = null;
let shownPath = null;

/** Returns the path and the parameters of the address. */
function route() {
  const text = location.hash.replace(/^#\/?/, "");
  const [path, query] = text.split("?", 2);
  let parts = [];
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    // An address that was cut: the overview.
  }
  return { path: parts.length > 0 ? parts : ["overview"], query: Object.fromEntries(new URLSearchParams(query || "")) };
}

/** Whether the token may read what a view shows. */
function maySee(view) {
  return view.zones ? canSome("read") : can("read");
}

function drawNavigation(name) {
  const of = name === "zone" ? "zones" : name;
  const entries = Object.entries(VIEWS).filter(([, view]) => view.text && maySee(view));
  put(document.getElementById("nav"), session.name ? entries.map(([key, view]) => {
    const anchor = link([key], {}, view.text);
    if (key === of) anchor.setAttribute("aria-current", "page");
    return anchor;
  }) : null);
  put(document.getElementById("session"), session.name
    ? [el("span", { class: "who", title: session.rights.map(rightText).join("\n") }, session.name), " ",
      button("Sign out", () => signOut())]
    : null);
}

async function show() {
  if (current) current.abort();
  current = new AbortController();
  const { signal } = current;
  document.querySelectorAll("dialog[open]").forEach((open) => open.close());
  const { path, query } = route();
  if (location.hash.length < 3 && session.name && !can("read")) path[0] = "zones";
  const view = VIEWS[path[0]];
  drawNavigation(path[0]);
  if (!session.name) {
    signInView();
    return;
  }
  const place = path.slice(0, 2).join("/");
  const moved = shownPath !== null && shownPath !== place;
  shownPath = place;
  const title = view ? view.text || path[1] : "Not found";
  document.title = `${title} – nomen`;
  if (!view) {
    put(main, el("h1", {}, "Not found"), el("p", {}, "There is no such view. ", link([], {}, "Overview")));
    return;
  }
  if (!maySee(view)) {
    put(main, el("h1", {}, title), el("p", { class: "remark" }, view.zones
      ? "This view needs the right “read” for a zone, which this token does not have."
      : ["This view needs the right “read” for the whole server. This token has rights for zones: ", link(["zones"], {}, "Zones"), "."]));
    return;
  }
  if (moved) {
    // Before the view is loaded, so that Tab goes on from its beginning.
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  const context = { path, query, signal, main: put(main, null), remember, again: show };
  try {
    await view.show(context);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    put(main, el("h1", {}, title), el("p", { class: "fault", role: "alert" }, words(error)), button("Try again", show));
  }
}

/** Stores the state of a view in the address, so that the link can be kept; `push` makes a step for Back. */
function remember(hashText, push) {
  if (location.hash === hashText) return;
  history[push ? "pushState" : "replaceState"](null, "", hashText);
}

function signInView() {
  document.title = "Sign in – nomen";
  const box = el("input", {
    type: "password", autocomplete: "current-password", spellcheck: "false", required: true, name: "token", autofocus: true,
  });
  const fault = el("p", { class: "fault", role: "alert" }, session.reason);
  const enter = async () => {
    try {
      await signIn(box.value.trim());
    } catch (error) {
      put(fault, words(error));
      box.select();
    }
  };
  put(main, el("div", { class: "signin card" }, el("h1", {}, "Sign in"),
    form({}, enter, field("Token", box, "`nomen token NAME` makes a token; its hash belongs in [[api.token]] of the configuration."),
      fault, submit("Sign in")),
    el("p", { class: "remark" }, "The token stays in this browser tab and is removed by Sign out or when the tab closes.")));
  box.focus();
}

/** Shows that the server cannot be reached, and tries again. */
async function start() {
  try {
    await refreshSession();
    put(document.getElementById("banner"), null);
  } catch (error) {
    if (error.status === 0) {
      put(document.getElementById("banner"), el("p", { class: "fault" }, `${words(error)} The page tries again every 5 s.`));
      setTimeout(start, 5000);
      return;
    }
    // The token that was stored is no longer valid, or the server refuses it.
    signOut(error.status === 401 ? "The server does not accept the token any more." : words(error));
    return;
  }
  await show();
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", show);
onSession(() => {
  shownPath = null;
  show();
});
start();
