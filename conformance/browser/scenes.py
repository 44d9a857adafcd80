"""What a person does with the page: each scene is a function with the stage that it uses."""
import http.client, json, time
from .chromium import Failure
from .servers import HOSTILE_NAME, HOSTILE_TEXT, TOKENS

VIEWS = ["#/overview", "#/zones", "#/zone/example.com./records", "#/zone/example.com./history", "#/zone/example.com./servers",
         "#/zone/example.com./status", "#/zone/signed.test./keys", "#/zone/hostile.test./records", "#/transfers", "#/resolver", "#/policy", "#/queries",
         "#/explain?name=www.ads.test", "#/server"]
FIRST_PAINT_MS = 200


class Stage:
    """The servers, the browser, and the folder for pictures if there is one."""

    def __init__(self, server, browser, pictures):
        self.server, self.browser, self.pictures = server, browser, pictures

    def signed_in(self, name="admin", width=1280, height=860):
        tab = self.browser.page(width, height)
        tab.goto(self.server.url("/"))
        tab.fill("Token", TOKENS[name])
        tab.press("Enter")
        tab.wait("document.getElementById('nav').children.length > 0", "signed in as " + name)
        return tab

    def picture(self, tab, name):
        if self.pictures:
            time.sleep(0.3)
            tab.screenshot("%s/%s.webp" % (self.pictures, name))


def expect(condition, what):
    if not condition:
        raise Failure(what)


def serial(stage, zone="example.com"):
    return int(stage.server.dig(zone, "SOA")[0].split()[2])


def show(tab, view, text):
    tab.view(view)
    tab.sees(text)


def headers(stage):
    """The files have a strict policy, may not be sniffed or framed, and a browser that has them gets no second copy."""
    for path in ["/", "/app.js", "/style.css", "/icon.svg"]:
        connection = http.client.HTTPConnection("127.0.0.1", stage.server.api, timeout=10)
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read()
        policy = reply.getheader("Content-Security-Policy") or ""
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"]:
            expect(part in policy, "%s: the policy lacks %s: %s" % (path, part, policy))
        expect("unsafe" not in policy and reply.getheader("X-Content-Type-Options") == "nosniff", path + ": header fields")
        expect(reply.getheader("Referrer-Policy") == "no-referrer" and reply.status == 200 and body, path + ": header fields")
        tag = reply.getheader("ETag")
        expect(tag, path + ": no ETag")
        connection.request("GET", path, headers={"If-None-Match": tag})
        again = connection.getresponse()
        expect(again.status == 304 and not again.read(), path + ": a second copy was sent")


def sign_in(stage):
    """A wrong token is refused; the right one opens the views; signing out leaves nothing in the tab."""
    tab = stage.browser.page()
    tab.goto(stage.server.url("/"))
    tab.sees("Sign in")
    expect(not tab.has("link", "Zones"), "views without a token")
    stage.picture(tab, "page-sign-in")
    tab.fill("Token", "a-wrong-one")
    tab.click("button", "Sign in")
    tab.wait("document.querySelector('[role=alert]').innerText.length > 0", "the wrong token is refused")
    expect(tab.js("sessionStorage.length") == 0, "the wrong token is stored")
    tab.fill("Token", TOKENS["admin"])
    tab.click("button", "Sign in")
    tab.sees("Overview")
    tab.click("button", "Sign out")
    tab.sees("Sign in")
    expect(tab.js("sessionStorage.length + localStorage.length + document.cookie.length") == 0, "something is stored after signing out")
    return tab


def first_paint(stage):
    """The page is drawn soon. The second load of two counts, since the first one starts processes of the browser."""
    tab = stage.browser.page()
    best = None
    for _ in range(4):
        tab.goto(stage.server.url("/?%d" % time.monotonic_ns()))
        tab.sees("Sign in")
        took = tab.wait("(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime", "there is a first paint")
        best = min(took, best or took)
    expect(best <= FIRST_PAINT_MS, "the first paint takes %.0f ms" % best)
    print("  first contentful paint after %.0f ms" % best)
    return tab


def overview(stage):
    """Rates, charts and the states of zones are shown, and follow the queries."""
    tab = stage.signed_in(height=1250)
    tab.sees("Queries per second")
    stage.server.ask(["www.example.com", "www.upstream.test", "www.ads.test", "none.example.com"], 40 if stage.pictures else 6)
    tab.wait("document.querySelectorAll('.chart .line').length >= 4 && [...document.querySelectorAll('.chart .line')].some((e) => (e.getAttribute('d') || '').length > 10)",
             "a chart has a line", 40)
    tab.sees("zones")
    stage.picture(tab, "page-overview")
    return tab


def zone_list(stage):
    """Zones are found by search; the server sends pages, never all zones."""
    tab = stage.signed_in()
    show(tab, "#/zones", "Next page")
    rows = "document.querySelectorAll('tbody tr').length"
    expect(0 < tab.js(rows) <= 100, "a page has %s rows" % tab.js(rows))
    before = tab.js("document.querySelector('tbody td').innerText")
    tab.click("button", "Next page")
    tab.wait("document.querySelector('tbody td').innerText !== %s" % json.dumps(before), "the next page is shown")
    address = tab.js("location.hash")
    tab.reload()
    tab.wait("location.hash === %s && document.querySelectorAll('tbody tr').length > 0" % json.dumps(address), "the link is kept")
    expect(tab.js("document.querySelector('tbody td').innerText") != before, "the link leads to the same page")
    tab.js("history.back()")
    tab.wait("document.querySelector('tbody tr') && document.querySelector('tbody td').innerText === %s" % json.dumps(before), "back to the first page")
    tab.fill("Search", "example.com")
    tab.wait(rows + " === 1", "one zone fits")
    stage.picture(tab, "page-zones")
    tab.choose("State", "failed")
    tab.sees("No zone fits")
    return tab


def edit(stage):
    """A record is changed with a preview; the answer of the server is the new one. Several edits are one transaction."""
    tab, before = stage.signed_in(), serial(stage)
    show(tab, "#/zone/example.com./records?search=www", "192.0.2.80")
    tab.click("button", "Edit www A")
    tab.fill("Data, one record on each line", "not an address")
    tab.click("button", "Take the edit")
    tab.wait("document.querySelector('dialog .fault').innerText.length > 5", "bad data are refused with the reason")
    tab.fill("Data, one record on each line", "192.0.2.81\n192.0.2.82")
    tab.click("button", "Take the edit")
    tab.sees("1 edit, not committed")
    tab.click("button", "Add records")
    tab.fill("Name", "fresh")
    tab.fill("Type", "TXT")
    tab.fill("Data, one record on each line", '"two words" "%s"' % HOSTILE_TEXT)
    tab.click("button", "Take the records")
    tab.sees("2 edits, not committed")
    expect(serial(stage) == before and stage.server.dig("www.example.com", "A") == ["192.0.2.80"], "edits are in force before the commit")
    tab.reload()
    tab.sees("2 edits, not committed")
    tab.click("button", "Preview and commit")
    tab.sees("1 removed, 3 added")
    stage.picture(tab, "page-preview")
    tab.click("button", "Commit")
    tab.sees("Committed")
    expect(stage.server.dig("www.example.com", "A") == ["192.0.2.81", "192.0.2.82"], "dig does not see the commit")
    expect(stage.server.dig("fresh.example.com", "TXT") == ['"two words" "%s"' % HOSTILE_TEXT], "dig does not see the added record")
    expect(serial(stage) == before + 1, "the commit was not one transaction")
    show(tab, "#/zone/example.com./records?search=fresh", "two words")
    tab.click("button", "Delete fresh TXT")
    tab.sees("1 edit, not committed")
    tab.click("button", "Preview and commit")
    tab.click("button", "Commit")
    tab.sees_not("not committed")
    expect(stage.server.dig("fresh.example.com", "TXT") == [], "dig sees the deleted record")
    return tab


def conflict(stage):
    """A zone that changes while edits are collected: the page shows what changed, and commits on the new version."""
    tab = stage.signed_in()
    show(tab, "#/zone/example.com./records?search=mail", "192.0.2.25")
    tab.click("button", "Edit mail A")
    tab.fill("Data, one record on each line", "192.0.2.26")
    tab.click("button", "Take the edit")
    tab.sees("1 edit, not committed")
    tab.click("button", "Preview and commit")
    tab.sees("1 removed, 1 added")
    stage.server.request("POST", "/zones/example.com./edit", {"edits": [
        {"op": "replace", "name": "other.example.com.", "type": "TXT", "ttl": 60, "records": ['"by another program"']}]})
    tab.click("button", "Commit")
    tab.sees("The zone has changed")
    tab.sees("by another program")
    expect(stage.server.dig("mail.example.com", "A") == ["192.0.2.25"], "a conflict was committed")
    stage.picture(tab, "page-conflict")
    tab.click("button", "Preview on the newest version")
    tab.sees("1 removed, 1 added")
    tab.click("button", "Commit")
    tab.sees("Committed")
    expect(stage.server.dig("mail.example.com", "A") == ["192.0.2.26"], "dig does not see the commit")
    expect(stage.server.dig("other.example.com", "TXT") == ['"by another program"'], "the other change is lost")
    return tab


def history(stage):
    """The kept versions have their times and authors; any two are compared."""
    tab = stage.signed_in()
    for text in ["one", "two", "three"]:
        stage.server.request("POST", "/zones/example.com./edit", {"edits": [
            {"op": "replace", "name": "story.example.com.", "type": "TXT", "ttl": 60, "records": ['"%s"' % text]}]})
    newest = serial(stage)
    show(tab, "#/zone/example.com./history", "%d → %d" % (newest - 1, newest))
    tab.sees("admin")
    tab.choose("From serial", str(newest - 3))
    tab.choose("To serial", str(newest))
    tab.click("button", "Compare")
    tab.sees("From serial %d to %d" % (newest - 3, newest))
    tab.wait("document.querySelector('.diff') && document.querySelector('.diff').innerText.includes('three')", "the difference is shown")
    stage.picture(tab, "page-history")
    tab.reload()
    tab.sees("From serial %d to %d" % (newest - 3, newest))
    return tab


def hostile(stage):
    """Names and data that are markup are shown as text; no script of theirs runs, and nothing is loaded for them."""
    tab = stage.signed_in()
    show(tab, "#/zone/hostile.test./records", HOSTILE_NAME)
    tab.sees(HOSTILE_TEXT)
    expect(tab.js("document.querySelectorAll('main img, main script, main svg').length") == 0, "data became markup")
    stage.server.request("POST", "/zones/hostile.test./edit", {"edits": [
        {"op": "add", "name": HOSTILE_NAME + ".new.hostile.test.", "type": "TXT", "ttl": 60, "records": ['"%s"' % HOSTILE_TEXT]}]})
    number = serial(stage, "hostile.test")
    show(tab, "#/zone/hostile.test./history", "%d → %d" % (number - 1, number))
    tab.sees(HOSTILE_TEXT)
    show(tab, "#/zone/%s/records" % "%3Cimg%20src%3Dx%20onerror%3Dhostile%3D1%3E", "Try again")
    show(tab, "#/explain?name=%3Cscript%3Ehostile%3D1%3C/script%3E.hostile.test&type=TXT", "Answer")
    tab.sees('"of a name"')
    show(tab, "#/zones?search=0/25", "0/25.2.0.192.in-addr.arpa.")
    tab.click("link", "0/25.2.0.192.in-addr.arpa.")
    tab.sees("ns1.0/25.2.0.192.in-addr.arpa.")
    show(tab, "#/%3Cscript%3E", "Not found")
    show(tab, "#/zones?search=%3Cscript%3Ehostile%3D1%3C%2Fscript%3E", "No zone fits")
    return tab


def keys(stage):
    """The keys of a signed zone, the DS record for its parent, what happens next, and a rollover."""
    tab = stage.signed_in()
    until = time.monotonic() + 60
    while not stage.server.ctl("key", "export-ds", "signed.test")["ds"]:
        expect(time.monotonic() < until, "no key wants a DS record")
        time.sleep(0.5)
    show(tab, "#/zone/signed.test./keys", "DS records for the parent")
    wanted = " ".join(stage.server.ctl("key", "export-ds", "signed.test", "--digest", "sha256")["ds"][0].split()[3:])
    tab.sees(wanted)
    tab.sees("What happens next")
    stage.picture(tab, "page-keys")
    rows = "document.querySelectorAll('table')[0].querySelectorAll('tbody tr').length"
    before = tab.js(rows)
    tab.click("button", "DS is published")
    tab.click("button", "DS is published")
    until = time.monotonic() + 30
    while any(one["record"] == "ds" and one["state"] != "omnipresent" for key in stage.server.ctl("key", "list", "signed.test")["keys"] for one in key["records"]):
        expect(time.monotonic() < until, "the DS record is not known everywhere")
        time.sleep(0.5)
    tab.click("button", "Roll a key")
    tab.click("button", "Start the rollover")
    tab.wait("%s === %d" % (rows, before + 1), "the successor is shown")
    return tab


def resolver(stage):
    """The cache, servers and their health; flushing a name; negative trust anchors; rules."""
    tab = stage.signed_in(height=1250)
    stage.server.dig("www.upstream.test", "A")
    show(tab, "#/resolver", "upstream.test")
    tab.sees("127.0.0.1:%d" % stage.server.upstream.port)
    tab.fill("Flush a name", "www.upstream.test")
    tab.click("button", "Flush")
    tab.wait("/Removed from the cache: [1-9]/.test(document.body.innerText)", "entries are removed")
    tab.click("button", "Add a negative trust anchor")
    tab.fill("Domain", "broken.test")
    tab.click("button", "Add")
    tab.sees("broken.test.")
    expect(any(one["domain"] == "broken.test." for one in stage.server.ctl("nta", "list")), "the negative trust anchor is not there")
    stage.picture(tab, "page-resolver")
    tab.click("button", "Remove the negative trust anchor of broken.test.")
    tab.sees_not("broken.test.")
    tab.click("button", "Add a rule")
    tab.fill("Domain", "other.test")
    tab.fill("Servers", "192.0.2.1@53")
    tab.click("button", "Add")
    tab.sees("other.test.")
    tab.click("button", "Remove the rule for other.test.")
    tab.click("button", "Remove the rule")
    tab.sees_not("other.test.")
    return tab


def policy(stage):
    """Lists and their counts, the reason of a block, and a pause of a group."""
    tab = stage.signed_in(height=1100)
    for _ in range(5):
        stage.server.dig("www.ads.test", "A")
    show(tab, "#/policy", "www.ads.test")
    stage.picture(tab, "page-policy")
    tab.fill("Name", "www.ads.test")
    tab.fill("Client", "127.0.0.1")
    tab.click("button", "Explain")
    tab.sees("the list ads, line 1, blocks it")
    stage.picture(tab, "page-why-blocked")
    show(tab, "#/policy", "children")
    tab.click("button", "Pause the rules of children")
    tab.click("button", "Pause")
    tab.sees("paused")
    tab.click("button", "End the pause of children")
    tab.wait("!document.querySelector('main').innerText.includes('paused')", "the pause has ended")
    return tab


def query_stream(stage):
    """Queries appear; filters, pause and clear work; the list is bounded."""
    tab = stage.signed_in()
    show(tab, "#/queries", "received")
    def asked(name, seconds=20):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            stage.server.dig(name, "A")
            if tab.js("document.querySelector('.stream').innerText.includes(%s)" % json.dumps(name)):
                return True
        return False
    expect(asked("www.example.com"), "a query does not appear")
    stage.server.ask(["www.example.com", "www.upstream.test", "www.ads.test", "none.example.com"], 0.1)
    stage.picture(tab, "page-queries")
    tab.fill("Name", "host-001.example.com")
    tab.press("Enter")
    expect(asked("host-001.example.com"), "a query that fits does not appear")
    stage.server.dig("www.example.com", "A")
    expect(asked("host-001.example.com"), "a query that fits does not appear")
    expect(not tab.js("document.querySelector('.stream').innerText.includes('www.example.com')"), "the filter does not filter")
    tab.click("button", "Pause")
    tab.sees("paused")
    tab.click("button", "Clear")
    tab.wait("document.querySelectorAll('.stream tbody tr').length === 0", "the list is empty")
    return tab


def rights(stage):
    """What a token may not do is not offered, and the page says why."""
    tab = stage.signed_in("viewer")
    show(tab, "#/zones", "example.com")
    expect(not tab.has("button", "Create a zone"), "a viewer may create zones")
    show(tab, "#/zone/example.com./records", "read-only")
    expect(not tab.has("button", "Edit www A") and not tab.has("button", "Delete the zone"), "a viewer may edit")
    show(tab, "#/resolver", "need the right “server”")
    expect(not tab.has("button", "Flush"), "a viewer may flush")
    show(tab, "#/policy", "need the right “policy”")
    show(tab, "#/queries", "needs the right “server”")
    tab.check()
    tab = stage.signed_in("octodns")
    show(tab, "#/zones", "example.com")
    expect(not tab.has("link", "Resolver"), "a token for one zone sees the resolver")
    expect("hostile.test" not in tab.text(), "a token for one zone sees another")
    show(tab, "#/zone/example.com./records?search=www", "types TXT")
    return tab


def create_and_delete(stage):
    """A zone is created with its records, answered at once, and deleted after its name was typed."""
    tab = stage.signed_in()
    show(tab, "#/zones", "Create a zone")
    tab.click("button", "Create a zone")
    tab.fill("Name", "fresh.test")
    tab.wait("document.querySelector('dialog textarea').value.includes('ns1.fresh.test.')", "records are suggested")
    stage.picture(tab, "page-create")
    tab.click("button", "Create")
    tab.wait("location.hash.startsWith('#/zone/fresh.test')", "the new zone is shown")
    expect(stage.server.dig("fresh.test", "NS") == ["ns1.fresh.test."], "dig does not see the zone")
    tab.click("button", "Delete")
    tab.click("button", "Delete the zone")
    tab.sees("Enter fresh.test")
    expect(stage.server.dig("fresh.test", "NS"), "the zone was deleted without its name")
    tab.fill("Enter fresh.test", "fresh.test")
    tab.click("button", "Delete the zone")
    tab.wait("location.hash.startsWith('#/zones')", "back at the list")
    expect(stage.server.dig("fresh.test", "NS") == [], "dig sees the deleted zone")
    return tab


def keyboard(stage):
    """Everything is reached with the keyboard; the focus is visible; Esc closes dialogs and the focus returns."""
    tab = stage.browser.page()
    tab.goto(stage.server.url("/"))
    tab.sees("Sign in")
    tab.type(TOKENS["admin"])
    tab.press("Enter")
    tab.sees("Queries per second")
    tab.reload()
    tab.sees("Queries per second")
    tab.press("Tab")
    expect(tab.js("document.activeElement.className") == "skip", "the skip link is not first")
    tab.press("Enter")
    expect(tab.js("document.activeElement.id") == "main", "the skip link does not lead to the content")
    tab.reload()
    tab.sees("Queries per second")
    tab.tab_to("Zones")
    tab.press("Enter")
    tab.sees("Create a zone")
    tab.tab_to("Search")
    tab.type("example.com")
    tab.wait("document.querySelectorAll('tbody tr').length === 1", "one zone fits")
    tab.tab_to("example.com")
    tab.press("Enter")
    tab.sees("Add records")
    tab.tab_to("Add records")
    tab.press("Enter")
    tab.wait("Boolean(document.querySelector('dialog[open]'))", "the dialog is open")
    for _ in range(12):
        tab.press("Tab")
        expect(tab.js("document.querySelector('dialog').contains(document.activeElement) || document.activeElement === document.body"),
               "the focus leaves the dialog")
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')", "Esc closes the dialog")
    expect(tab.js("document.activeElement.innerText") == "Add records", "the focus does not return to the button")
    unnamed = tab.js("""[...document.querySelectorAll('input,select,textarea,button,a')].filter((e) => e.checkVisibility() &&
        !(e.getAttribute('aria-label') || (e.labels && e.labels.length) || e.innerText.trim())).length""")
    expect(unnamed == 0, "%d controls have no name" % unnamed)
    return tab


def narrow(stage):
    """At 360 pixels no view scrolls sideways."""
    tab = stage.signed_in()
    tab.size(360, 740, mobile=True)
    for view in VIEWS:
        tab.view(view)
        tab.wait("document.querySelector('main h1') && document.readyState === 'complete'")
        time.sleep(0.5)
        width = tab.js("document.documentElement.scrollWidth")
        wide = tab.js("""[...document.querySelectorAll('main *')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > 361)
            .slice(0, 5).map((e) => e.tagName + '.' + (e.className.baseVal ?? e.className)).join(' ')""")
        expect(width <= 360, "%s is %d pixels wide: %s" % (view, width, wide))
    show(tab, "#/zone/example.com./records?search=host-00", "host-001")
    stage.picture(tab, "page-phone")
    return tab


def dark(stage):
    """In dark mode the page is dark, and text has enough contrast in both modes."""
    tab = stage.signed_in()
    contrast = """(() => {
      const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
      const light = (text) => { const [r, g, b] = rgb(text).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
        return .2126 * r + .7152 * g + .0722 * b; };
      const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; const v = rgb(c); if (v.length < 4 || v[3] > .9) return c; } return 'rgb(255,255,255)'; };
      const texts = [...document.querySelectorAll('main *, #top *')].filter((e) => e.checkVisibility() && e.childElementCount === 0 && e.innerText && !e.disabled);
      const faint = texts.map((e) => { const a = light(getComputedStyle(e).color), b = light(behind(e));
        return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.innerText.slice(0, 30)]; }).filter(([ratio]) => ratio < 4.5);
      return {body: light(getComputedStyle(document.body).backgroundColor), faint};
    })()"""
    for mode in ["light", "dark"]:
        tab.media(prefers_color_scheme=mode, prefers_reduced_motion="reduce")
        for view, text in [("#/overview", "Queries per second"), ("#/zone/example.com./records", "Add records"), ("#/policy", "Blocked most")]:
            show(tab, view, text)
            time.sleep(0.3)
            found = tab.js(contrast)
            expect((found["body"] < 0.2) == (mode == "dark"), "%s mode: the background has luminance %.2f" % (mode, found["body"]))
            expect(not found["faint"], "%s mode, %s: too little contrast: %s" % (mode, view, found["faint"][:5]))
    moving = tab.js("[...document.querySelectorAll('button,a')].filter((e) => parseFloat(getComputedStyle(e).transitionDuration) > 0).length")
    expect(moving == 0, "something moves although reduced motion is preferred")
    show(tab, "#/overview", "Queries per second")
    tab.size(1280, 1250)
    stage.picture(tab, "page-dark")
    return tab


def every_view(stage):
    """Every view opens without an error of a script."""
    tab = stage.signed_in(height=1250)
    for view in VIEWS:
        tab.view(view)
        tab.wait("Boolean(document.querySelector('main h1'))")
        time.sleep(0.4)
        tab.check()
        expect(not tab.has("button", "Try again"), "%s fails: %s" % (view, tab.js("document.querySelector('main').innerText")))
    show(tab, "#/server", "Listeners")
    stage.picture(tab, "page-server")
    return tab


def transfers(stage):
    """Zones from primaries with their state; the servers of one zone; a zone that comes from elsewhere is not edited here."""
    tab = stage.signed_in()
    show(tab, "#/transfers", "copied.test")
    tab.sees("fresh")
    show(tab, "#/zone/copied.test./servers", "AXFR from 127.0.0.1")
    tab.click("button", "Refresh")
    tab.sees("The primaries are queried")
    show(tab, "#/zone/copied.test./records", "Records are read-only: the zone comes from its primaries")
    expect(not tab.has("button", "Add records"), "records of a secondary zone can be edited")
    show(tab, "#/zone/zone-000000.test./records", "`api = true`")
    show(tab, "#/zone/example.com./servers", "NOTIFY goes to 127.0.0.1")
    return tab


def lost(stage):
    """A server that is away: the page keeps what it shows, says that it is old, and goes on when the server is back."""
    tab = stage.signed_in()
    tab.sees("Queries per second")
    tab.call("Network.enable")
    tab.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    tab.sees("These figures are old")
    tab.sees("Queries per second")
    tab.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    tab.sees_not("These figures are old")
    return tab


ALL = [headers, sign_in, first_paint, overview, zone_list, edit, conflict, history, hostile, keys, resolver, policy, query_stream, rights,
       create_and_delete, transfers, keyboard, narrow, dark, every_view, lost]
