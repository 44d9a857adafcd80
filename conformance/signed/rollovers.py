"""The part `rollovers`: keys, algorithms and layouts change in seconds, while validating resolvers with caches ask all the time.

The parent zone and its children are served by one nomen. The children's policies change by a reload when the step before has settled.
The script does the work of the parent's registry: it copies the CDS records of a child to DS records, a random moment later.
"""
import collections, random, shutil, subprocess, threading, time
from . import dns
from .resolvers import PROGRAMS, RESOLVERS, ds_data
from .servers import Failure, Resolver, Signer, trust_anchor

PARENT, TTL = "parent.", 2
# Beyond the TTLs of 2 s, a safety of 12 s: the validator of nomen keeps keys and DS records for 10 s at least.
TIMES = "".join('%s = "%s"\n' % pair for pair in (
    ("dnskey-ttl", "2s"), ("publish-safety", "12s"), ("retire-safety", "12s"), ("zone-propagation-delay", "1s"),
    ("parent-propagation-delay", "1s"), ("parent-ds-ttl", "2s"), ("signature-jitter", "0s"), ("purge-keys", "1m")))
ZONE = "%(apex)s 2 SOA ns.parent. admin 1 3600 600 86400 2\n%(apex)s 2 NS ns.parent.\nwww.%(apex)s 2 A 192.0.2.1\n*.w.%(apex)s 2 TXT \"wild\"\n"
LONG, SHORT = 'signature-validity = "1m"\nsignature-refresh = "52s"\n', 'signature-validity = "1m"\nsignature-refresh = "57s"\n'


def policy(algorithm="ecdsap256sha256", single=True, more=""):
    return algorithm, single, more


# What happens to a zone, step by step, again from the start after the last one; None is the policy "insecure".
SCENARIOS = {
    "zsk": [policy(single=False, more='zsk-lifetime = "1m"\n')],
    "ksk": [policy(single=False, more='ksk-lifetime = "1m"\n')],
    "csk": [policy(more='ksk-lifetime = "1m"\n')],
    "algorithm": [policy(), policy("ed25519"), policy("rsasha256")],
    "algorithm-split": [policy(single=False), policy("ecdsap384sha384", False)],
    "layout": [policy(), policy(single=False)],
    "all-at-once": [policy(), policy("ed25519", False, "nsec3 = true\n")],
    "insecure": [policy(), None],
    "denial": [policy(), policy(more="nsec3 = true\n"), policy(more='nsec3 = true\nnsec3-salt = "aa"\n')],
    "signatures": [policy(more=SHORT)],
}
ALGORITHM_NUMBERS = {"rsasha256": 8, "rsasha512": 10, "ecdsap256sha256": 13, "ecdsap384sha384": 14, "ed25519": 15}
SETTLED_SECONDS = 4
# So long after its first secure answer, a resolver may have insecure ones in its cache.
CACHED_SECONDS = 5


class Child:
    """A zone whose keys change."""

    def __init__(self, name, steps):
        self.name, self.apex, self.steps, self.step, self.done = name, name + "." + PARENT, steps, 0, 0
        self.seen, self.since, self.state, self.ds, self.due, self.keys = set(), 0.0, None, set(), None, set()

    def settings(self):
        step = self.steps[self.step]
        if step is None:
            return "insecure", ""
        algorithm, single, more = step
        return "p-" + self.name, 'algorithm = "%s"\nsingle-key = %s\n%s%s%s' % (
            algorithm, str(single).lower(), TIMES, more, "" if "signature-validity" in more else LONG)

    def observe(self, signer):
        """Reads the zone's keys and its parent's DS records. Returns whether they are those of this step for some time."""
        keys = dns.ask(signer.port, self.apex, "DNSKEY", False)
        ds = dns.ask(signer.port, self.apex, "DS", False)
        cds = dns.ask(signer.port, self.apex, "CDS", False)
        if not keys or not ds or not cds:
            return False
        self.keys, self.ds = keys.data("DNSKEY"), ds.data("DS")
        self.seen |= self.keys
        wanted = cds.data("CDS")
        if wanted and wanted != self.ds and not (wanted == {b"\0\0\0\0\0"} and not self.ds):
            self.due = self.due or time.monotonic() + random.random() * 2
            if time.monotonic() > self.due:
                data = [] if wanted == {b"\0\0\0\0\0"} else sorted(wanted)
                signer.update(dns.update(PARENT, self.apex, TTL, "DS", data))
                self.due = None
        state = frozenset(self.keys), frozenset(self.ds)
        if state != self.state:
            self.state, self.since = state, time.monotonic()
        return self.as_wanted() and time.monotonic() - self.since > SETTLED_SECONDS

    def as_wanted(self):
        step = self.steps[self.step]
        if step is None:
            # The keys stay for the times of the policy "insecure", which are hours.
            return not self.ds
        algorithm, single, _ = step
        flags = sorted(data[1] & 1 for data in self.keys)
        return {data[3] for data in self.keys} == {ALGORITHM_NUMBERS[algorithm]} and flags == ([1] if single else [0, 1]) and (
            self.ds == {ds_data(self.apex, data) for data in self.keys if data[1] & 1})


class Counts:
    """The rows of this part."""

    def __init__(self):
        self.children, self.asked, self.secure, self.insecure = [], collections.Counter(), collections.Counter(), collections.Counter()
        self.wrong, self.lock, self.resolvers = [], threading.Lock(), []

    def count(self, resolver, child, reply, what, begun):
        with self.lock:
            self.asked[resolver] += 1
            (self.secure if reply.secure else self.insecure)[resolver] += 1
            place = "%s: %s at second %.0f, step %d: " % (resolver, what, time.monotonic() - begun, child.step)
            if reply.rcode not in ("NOERROR", "NXDOMAIN"):
                self.wrong.append(place + reply.rcode)
            elif reply.secure:
                child.secured.setdefault(resolver, time.monotonic())
            elif time.monotonic() - child.secured.get(resolver, time.monotonic()) > CACHED_SECONDS and None not in child.steps:
                self.wrong.append(place + "insecure, was secure before")


def client(resolver, children, counts, begun, stop):
    """Asks a resolver continuously."""
    pick = random.Random(resolver.name)
    while not stop.is_set():
        for child in children:
            name, rtype = pick.choice((("www", "A"), ("www", "AAAA"), ("nx%d" % pick.randrange(10 ** 6), "A"), ("a%d.w" % pick.randrange(
                1000), "TXT"), ("", "SOA"), ("", "DNSKEY"), ("", "DS"), ("", "NS")))
            full = (name + "." if name else "") + child.apex
            reply = dns.ask(resolver.port, full, rtype, timeout=10, tries=1)
            if reply is None:
                with counts.lock:
                    counts.wrong += [] if stop.is_set() else ["%s: %s %s: no answer" % (resolver.name, full, rtype)]
            elif not stop.is_set():
                # The DS RRset is the parent's, which is always secure.
                if rtype != "DS" or reply.rcode == "SERVFAIL":
                    counts.count(resolver.name, child, reply, full + " " + rtype, begun)
        stop.wait(0.05)


def delv(signer, children, counts, begun, stop):
    """Asks nomen by delv, which validates itself and has no cache."""
    anchors = " ".join('"%s" static-key %d %d %d "%s";' % (PARENT, *anchor) for anchor in trust_anchor(signer, PARENT))
    signer.write("delv.anchors", "trust-anchors { %s };\n" % anchors)
    while not stop.is_set():
        for child in children:
            words = ["delv", "@127.0.0.1", "-p", str(signer.port), "-a", "delv.anchors", "+root=" + PARENT, "www." + child.apex, "A"]
            done = subprocess.run(words, cwd=signer.folder, capture_output=True, text=True)
            said = done.stdout + done.stderr
            reply = dns.Reply(b"\0" * 12)
            reply.secure = "; fully validated" in said
            if not reply.secure and "; unsigned answer" not in said:
                reply.rcode = "failure: " + said.strip()[:300]
            counts.count("delv", child, reply, "www." + child.apex, begun)
        stop.wait(0.2)


def configure(signer, child):
    name, settings = child.settings()
    if settings:
        signer.policies[name] = settings
    signer.zones[child.apex] = name, 'parental-servers = ["127.0.0.1@%d"]\n' % signer.port


def rollovers(options):
    """Runs the part. Returns its counts."""
    counts, signer, started, stop, threads = Counts(), Signer(options.program), [], threading.Event(), []
    children = counts.children = [Child(name, steps) for name, steps in SCENARIOS.items()]
    text = "parent. 2 SOA ns admin 1 3600 600 86400 2\nparent. 2 NS ns.parent.\nns.parent. 2 A 127.0.0.1\n"
    signer.policies["parent"] = 'nsec3 = false\n'
    signer.add(PARENT, text + "".join("%s 2 NS ns.parent.\n" % child.apex for child in children), "parent")
    for child in children:
        child.secured = {}
        signer.add(child.apex, ZONE % {"apex": child.apex}, "parent")
        configure(signer, child)
    try:
        signer.serve()
        for kind in RESOLVERS:
            program = options.program if kind == "nomen" else shutil.which(PROGRAMS[kind])
            if program:
                started.append(Resolver(kind, program, signer, PARENT))
        counts.resolvers, begun = [resolver.name for resolver in started], time.monotonic()
        threads = [threading.Thread(target=client, args=(resolver, children, counts, begun, stop)) for resolver in started]
        if shutil.which("delv"):
            threads.append(threading.Thread(target=delv, args=(signer, children, counts, begun, stop)))
        for thread in threads:
            thread.start()
        while time.monotonic() - begun < options.seconds:
            for child in children:
                if child.observe(signer) and len(child.steps) > 1:
                    child.step, child.done, child.state = (child.step + 1) % len(child.steps), child.done + 1, None
                    configure(signer, child)
                    signer.reload()
            time.sleep(0.2)
        if signer.process.poll() is not None:
            raise Failure("nomen ended: " + signer.log()[-2000:])
    except Failure as why:
        counts.wrong.append(str(why))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for process in started:
            counts.wrong += [process.name + ": " + line for line in process.log().splitlines() if counts.wrong and "validation failure" in line][:5]
            process.end()
        if options.keep and counts.wrong:
            shutil.copytree(signer.folder, options.keep + "/rollovers", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
        signer.end()
    return counts
