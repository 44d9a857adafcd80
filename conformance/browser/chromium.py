"""Chromium without a window, controlled by the DevTools protocol over a pipe. Standard library only."""
import base64, fcntl, itertools, json, os, queue, shutil, subprocess, tempfile, threading, time

PROGRAMS = ["chromium", "chromium-browser", "google-chrome"]
TIMEOUT = 15
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "Space": (32, " ")}
# Runs before the scripts of each page: records reports of the content security policy.
WATCH = "window.reports = []; addEventListener('securitypolicyviolation', (e) => reports.push(e.violatedDirective + ' ' + e.blockedURI));"


class Failure(Exception):
    """The page does not do what is expected."""


def program():
    return next((found for found in map(shutil.which, PROGRAMS) if found), None)


class Browser:
    """A Chromium with a profile of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="page-browser-")
        ours, theirs = os.pipe(), os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs[0], ours[1]))

        def place():
            os.dup2(read, 3)
            os.dup2(write, 4)

        # Without a sandbox, because containers refuse it to root; the only pages are those of the test.
        words = [program(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--user-data-dir=" + self.folder, "about:blank"]
        with open(self.folder + "/log", "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=place, pass_fds=(3, 4))
        for fd in (read, write, theirs[0], ours[1]):
            os.close(fd)
        self.reader, self.writer = os.fdopen(ours[0], "rb"), os.fdopen(theirs[1], "wb")
        self.ids, self.replies, self.listeners = itertools.count(1), {}, {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        buffer = b""
        while piece := self.reader.read1(1 << 16):
            *messages, buffer = (buffer + piece).split(b"\0")
            for text in messages:
                message = json.loads(text)
                if "id" in message:
                    self.replies[message["id"]].put(message)
                elif message.get("sessionId") in self.listeners:
                    self.listeners[message["sessionId"]](message["method"], message["params"])

    def call(self, method, session=None, **params):
        number, reply = next(self.ids), queue.Queue()
        self.replies[number] = reply
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        self.writer.write(json.dumps(message).encode() + b"\0")
        self.writer.flush()
        try:
            found = reply.get(timeout=4 * TIMEOUT)
        except queue.Empty:
            raise Failure("the browser does not answer " + method) from None
        finally:
            del self.replies[number]
        if "error" in found:
            raise Failure("%s: %s" % (method, found["error"]["message"]))
        return found["result"]

    def page(self, width=1280, height=860):
        """A tab with storage of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, session, width, height)

    def end(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (Failure, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Tab:
    """One page: it is used as a person does, by what is visible, the mouse and the keyboard."""

    def __init__(self, browser, session, width, height):
        self.browser, self.session, self.faults = browser, session, []
        browser.listeners[session] = self.event
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(domain + ".enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.size(width, height)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def event(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.faults.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            entry = params["entry"]
            # A reply with an error is what some steps provoke.
            if entry["source"] != "network":
                self.faults.append("%s: %s" % (entry["source"], entry["text"]))
        elif method == "Page.javascriptDialogOpening":
            self.faults.append("a script opened a dialog: " + params["message"])

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia", features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def js(self, text):
        found = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise Failure(found["exceptionDetails"].get("exception", {}).get("description", text))
        return found["result"].get("value")

    def goto(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'", "the page is loaded")

    def reload(self):
        self.js("window.before = true; location.reload()")
        self.wait("!window.before && document.readyState === 'complete'", "the page is loaded again")

    def view(self, hash_text):
        """Goes to a view by its address, as a link that was kept does."""
        self.js("location.hash = %s" % json.dumps(hash_text))

    def wait(self, condition, what=None, timeout=TIMEOUT):
        """Waits until a condition in JavaScript is true, and returns its value."""
        until = time.monotonic() + timeout
        while True:
            try:
                found = self.js(condition)
            except Failure:
                # A navigation that is under way.
                if time.monotonic() > until:
                    raise
                found = None
            if found:
                return found
            if time.monotonic() > until:
                raise Failure("not so: %s\nthe page:\n%s" % (what or condition, self.text()[:3000]))
            time.sleep(0.03)

    def text(self):
        return self.js("document.body.innerText")

    def sees(self, text, timeout=TIMEOUT):
        """Waits until a text is visible."""
        self.wait("document.body.innerText.includes(%s)" % json.dumps(text), "the page shows %r" % text, timeout)

    def sees_not(self, text):
        self.wait("!document.body.innerText.includes(%s)" % json.dumps(text), "the page does not show %r" % text)

    def locate(self, role, name, within="document"):
        """Returns an expression for the visible element with a role and an accessible name; the last dialog is the place if one is open."""
        kinds = {"button": "button", "link": "a", "field": "input,textarea,select"}[role]
        return """(() => {
          const dialogs = [...document.querySelectorAll('dialog[open]')];
          const place = dialogs.length > 0 && %(within)s === document ? dialogs[dialogs.length - 1] : %(within)s;
          const label = (e) => e.getAttribute('aria-label') || (e.labels && e.labels.length > 0 ? e.labels[0].innerText : e.innerText) || '';
          const all = [...place.querySelectorAll('%(kinds)s')].filter((e) => e.checkVisibility());
          const wanted = %(name)s;
          return all.find((e) => label(e).trim() === wanted) || all.find((e) => label(e).trim().startsWith(wanted));
        })()""" % {"within": within, "kinds": kinds, "name": json.dumps(name)}

    def has(self, role, name):
        return self.js("Boolean(%s)" % self.locate(role, name))

    def click(self, role, name, within="document"):
        """Clicks with the mouse in the middle of an element."""
        node = self.locate(role, name, within)
        self.wait("%s && !%s.disabled" % (node, node), "there is a %s %r that can be used" % (role, name))
        place = self.js("""(() => { const e = %s; e.scrollIntoView({block: 'center', behavior: 'instant'});
            const box = e.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()""" % node)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def fill(self, name, text):
        """Replaces the text of a field by typing."""
        node = self.locate("field", name)
        self.wait("Boolean(%s)" % node, "there is a field %r" % name)
        self.js("(() => { const e = %s; e.focus(); if (e.select) e.select(); })()" % node)
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.js("(() => { const e = %s; e.value = ''; e.dispatchEvent(new Event('input', {bubbles: true})); })()" % node)

    def choose(self, name, value):
        node = self.locate("field", name)
        self.wait("Boolean(%s)" % node, "there is a choice %r" % name)
        self.js("(() => { const e = %s; e.value = %s; e.dispatchEvent(new Event('change', {bubbles: true})); })()" % (node, json.dumps(value)))

    def press(self, key, shift=False):
        code, text = KEYS[key]
        common = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def tab_to(self, words, most=80):
        """Presses Tab until the element with this name has the focus. The focus must be visible."""
        for _ in range(most):
            self.press("Tab")
            name, ring = self.js("""(() => { const e = document.activeElement; const style = getComputedStyle(e);
                const label = e.getAttribute('aria-label') || (e.labels && e.labels.length > 0 ? e.labels[0].innerText : e.innerText) || '';
                return [label.trim(), e === document.body || e.id === 'main' || style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0]; })()""")
            if not ring:
                raise Failure("the focus on %r is not visible" % name)
            if name.startswith(words):
                return
        raise Failure("Tab does not reach %r" % words)

    def screenshot(self, path, quality=55):
        # Without the empty part below the content.
        height = self.js("""document.querySelector('dialog[open]') ? innerHeight
            : Math.min(innerHeight, Math.ceil(document.querySelector('main').getBoundingClientRect().bottom) - 40)""")
        clip = {"x": 0, "y": 0, "width": self.js("innerWidth"), "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="webp", quality=quality, clip=clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def check(self):
        """Fails if a script was refused, has failed, or has run that is not of the page."""
        reports = self.js("window.reports || []")
        ran = self.js("typeof window.hostile")
        if reports or self.faults or ran != "undefined":
            raise Failure("reports of the policy: %s; faults: %s; hostile script: %s" % (reports, self.faults, ran))
