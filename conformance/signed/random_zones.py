"""Random zones, and random changes of them by dynamic updates.

An owner is relative to the apex, `@` is the apex itself, and `<o>` in record data is the apex. So one zone can have any apex.
Aliases lead only to names that are never at or below a delegation: a resolver can follow each of them.
"""
LABELS = ["a", "b", "c", "www", "x1", "_tcp", "*", "*", "UPPER", "Mixed", "\\000", "\\255", "dot\\.ted", "sp\\032ace", "at\\@", "zz", "0", "-",
          "l" * 63, "q\\\"uote", "xn--bcher-kva"]
TTLS = [60, 60, 300, 3600, 86400]
TARGETS = ["ns1.<o>", "<o>", "missing.<o>", "host.target.<o>", "a.b.elsewhere."]
DATA = {
    "A": lambda pick: "192.0.2.%d" % pick.randrange(256),
    "AAAA": lambda pick: "2001:db8::%x" % pick.randrange(65536),
    "TXT": lambda pick: " ".join('"%s"' % ("t%d" % pick.randrange(1000) * pick.choice((1, 1, 40))) for _ in range(pick.choice((1, 1, 2, 30)))),
    "MX": lambda pick: "%d %s" % (pick.randrange(100), pick.choice(TARGETS)),
    "SRV": lambda pick: "0 %d 443 %s" % (pick.randrange(100), pick.choice(TARGETS)),
    "PTR": lambda pick: pick.choice(TARGETS),
    "HINFO": lambda pick: '"cpu %d" "os"' % pick.randrange(100),
    "CAA": lambda pick: '0 issue "ca%d.test"' % pick.randrange(100),
    "SSHFP": lambda pick: "4 2 %064x" % pick.getrandbits(256),
    "TLSA": lambda pick: "3 1 1 %064x" % pick.getrandbits(256),
    "NAPTR": lambda pick: '%d 10 "S" "SIP+D2U" "" %s' % (pick.randrange(100), pick.choice(TARGETS)),
    "LOC": lambda pick: "52 22 %d.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m" % pick.randrange(60),
    "SVCB": lambda pick: "%d ns1.<o> port=%d" % (pick.randrange(1, 9), pick.randrange(1, 9999)),
    "HTTPS": lambda pick: '%d . alpn="h2,h3"' % pick.randrange(1, 99),
    "URI": lambda pick: '10 1 "https://h%d.test/"' % pick.randrange(100),
    "TYPE65280": lambda pick: "\\# 4 %08x" % pick.getrandbits(32),
}
KINDS = ["data"] * 9 + ["insecure", "secure", "cname", "dname", "deep"]


def absolute(text, apex):
    """Text with its `<o>` replaced by the apex."""
    return text.replace(".<o>", "." if apex == "." else "." + apex).replace("<o>", apex)


def full(owner, apex):
    return apex if owner == "@" else absolute(owner + ".<o>", apex)


def new_name(pick, names):
    """A name below the apex or, often, below another one; also above one, where nothing is."""
    if names and pick.random() < 0.5:
        parent = pick.choice(names)
        name = pick.choice(LABELS) + "." + parent
        if pick.random() < 0.2:
            name = pick.choice(LABELS) + "." + name
    else:
        name = ".".join(pick.choice(LABELS) for _ in range(pick.choice((1, 1, 1, 2, 3))))
    # Four labels of 63 octets are no name.
    return name if len(name) < 150 else pick.choice(LABELS)


def records_of(pick, kind, owner):
    """The records of a new node: owner, TTL, type, data."""
    ttl = pick.choice(TTLS)
    star = owner.startswith("*")
    if kind in ("insecure", "secure") and not star:
        server = pick.choice(["ns1.<o>", "ns.%s.<o>" % owner, "ns.elsewhere."])
        found = [(owner, ttl, "NS", server)]
        if server.startswith("ns." + owner):
            found.append(("ns." + owner, ttl, "A", DATA["A"](pick)))
        if pick.random() < 0.3:
            found.append(("occluded." + owner, ttl, "TXT", '"below a cut"'))
        if pick.random() < 0.2:
            found.append((owner, ttl, "A", DATA["A"](pick)))
        if kind == "secure":
            found.append((owner, pick.choice(TTLS), "DS", "%d 13 2 %064x" % (pick.randrange(65536), pick.getrandbits(256))))
        return found
    if kind == "cname":
        # A wildcard that leads to a name that it matches is a loop.
        return [(owner, ttl, "CNAME", pick.choice(TARGETS[:2] if star else TARGETS))]
    if kind == "dname" and not star:
        found = [(owner, ttl, "DNAME", pick.choice(["target.<o>", "elsewhere.", "missing.<o>"]))]
        if pick.random() < 0.3:
            found.append(("occluded." + owner, ttl, "A", DATA["A"](pick)))
        return found + ([(owner, ttl, "TXT", '"beside a DNAME"')] if pick.random() < 0.3 else [])
    if kind == "deep":
        return [("e.f.*.g.%s" % owner, ttl, "TXT", '"below empty non-terminals"')]
    found = []
    for rtype in pick.sample(sorted(DATA), pick.choice((1, 1, 2, 3))):
        ttl = pick.choice(TTLS)
        found += [(owner, ttl, rtype, data) for data in sorted({DATA[rtype](pick) for _ in range(pick.choice((1, 1, 1, 3)))})]
    return found


class RandomZone:
    """A random zone: its records, and the updates that change it."""

    def __init__(self, pick, size):
        self.pick, self.names = pick, []
        self.records = [("@", 300, "SOA", "ns1.<o> Host\\.Master.<o> 1 3600 600 1209600 %d" % pick.choice((60, 300, 3600))),
                        ("@", 300, "NS", "ns1.<o>"), ("ns1", 300, "A", "192.0.2.53"), ("host.target", 300, "A", "192.0.2.54")]
        if pick.random() < 0.3:
            self.records.append(("@", 300, "TXT", '"apex"'))
        alone, taken = set(), {"ns1", "missing", "target", "host.target"}
        for _ in range(size):
            owner = new_name(pick, self.names)
            if owner.lower() in alone or owner.lower().split(".", 1)[-1] in taken and pick.random() < 0.9 or owner.lower() in taken:
                continue
            found = records_of(pick, pick.choice(KINDS), owner)
            alone.update(record[0].lower() for record in found)
            self.names.append(owner)
            self.records += found

    def text(self, apex):
        return "".join("%s %d %s %s\n" % (full(owner, apex), ttl, rtype, absolute(data, apex)) for owner, ttl, rtype, data in self.records)

    def updates(self, apex, count):
        """Scripts in the language of nsupdate, one update each."""
        found = []
        for _ in range(count):
            lines = []
            for _ in range(self.pick.choice((1, 1, 2, 5))):
                lines += self.change(apex)
            found.append("\n".join(lines) + "\nsend\n")
        return found

    def change(self, apex):
        action = self.pick.random()
        if action < 0.35 and self.names:
            owner = self.pick.choice(self.names)
            rtype = self.pick.choice(["", "", "NS", "DS", "A", "TXT", "CNAME", "DNAME"])
            return ["update delete %s %s" % (full(owner, apex), rtype)]
        if action < 0.45:
            record = self.pick.choice(self.records[2:])
            return ["update delete %s %s" % (full(record[0], apex), record[2])] if record[0] not in ("@", "ns1", "host.target") else []
        owner = self.pick.choice(self.names) if self.names and action < 0.6 else new_name(self.pick, self.names)
        if owner.lower() in ("missing", "target", "ns1"):
            return []
        self.names.append(owner)
        return ["update add %s %d %s %s" % (full(name, apex), ttl, rtype, absolute(data, apex))
                for name, ttl, rtype, data in records_of(self.pick, self.pick.choice(KINDS), owner)]
