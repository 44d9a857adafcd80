"""Histories: clients change zones on random nodes, watchers ask all nodes, and what was acknowledged is compared with what is there.

Every value that a client writes is a text of its own (`mark-NUMBER`), so that it is found wherever it is. Each zone has the number of its
creation in the primary server of its SOA record (`i3.ns.example.`), because a zone that is created again begins with any serial.
"""
import random, re, threading, time

from . import dns
from .nodes import MADE, REFUSED, UNCLEAR

SHARED, ZONES, PASSING = 12, 4, 3
SUFFIX = "mark.example."
# Serials of new zones: one of them passes from the largest number to zero within a few changes.
SERIALS = (1, 4294967290, 2147483640, 2026010100)
UNANSWERED = 4


def creation_of(soa):
    """The number of the creation of a zone, from its SOA record."""
    found = re.match(r"i(\d+)\.ns\.example\. ", soa)
    return int(found.group(1)) if found else 0


class Zone:
    """What is known of a zone: the last creation or removal that was acknowledged, and whether a later one is unclear."""

    def __init__(self, name):
        self.name, self.creation, self.is_there, self.in_doubt, self.possible, self.begun = name, 0, False, False, set(), 0.0


class Change:
    """A change of records: values by owner; the monotonic times of its beginning and its end; how it ended."""

    def __init__(self, number, zone, creation, node, values, way):
        self.number, self.zone, self.creation, self.node, self.values, self.way = number, zone, creation, node, values, way
        self.begun, self.ended, self.end, self.why = time.monotonic(), None, UNCLEAR, None


class History:
    """All that clients did and watchers saw in one scene."""

    def __init__(self, nodes, seed):
        self.nodes, self.seed, self.lock = nodes, seed, threading.Lock()
        self.zones = {name + SUFFIX: Zone(name + SUFFIX) for name in ["z%d." % n for n in range(ZONES)] + ["p%d." % n for n in range(PASSING)]}
        self.changes, self.wrong, self.seen, self.snapshots, self.observed = [], [], {}, {}, set()
        self.number, self.creations, self.created, self.removed, self.answers = 0, 0, 0, 0, 0
        # Times between which acknowledged changes may be lost: set when a replica that lags is promoted.
        self.loss, self.backwards = None, 0
        # Whether the database has forgotten changes.
        self.log_is_cut = False
        self.manager_pace = 0.4
        self.changing, self.watching, self.paused, self.pace, self.clients, self.watchers = True, True, False, 0.01, [], []

    def report(self, text):
        """Notes something that is wrong."""
        with self.lock:
            if len(self.wrong) < 40:
                self.wrong.append(text)

    def next_number(self):
        with self.lock:
            self.number += 1
            return self.number

    # Changes.

    def change(self, node, zone, owners, way):
        """Has a node change records; notes what became of it."""
        creation, number = zone.creation, self.next_number()
        change = Change(number, zone.name, creation, node.name, {owner + "." + zone.name: "mark-%d" % number for owner in owners}, way)
        with self.lock:
            self.changes.append(change)
        if way == "update":
            self.send_update(node, change)
        else:
            change.end, change.why = node.edit(zone.name, change.values)
        change.ended = time.monotonic()
        if change.end == MADE:
            self.check_reading(node, change)
        return change

    def send_update(self, node, change):
        asker = dns.Asker(node.dns, 8)
        try:
            rcode = asker.update(change.zone, change.values)
            # SERVFAIL leaves it open; the other rcodes are refusals.
            change.end = {dns.NOERROR: MADE, dns.SERVFAIL: UNCLEAR}.get(rcode, REFUSED)
            change.why = "rcode %d" % rcode
        except dns.DnsError as why:
            change.why = str(why)
        finally:
            asker.close()

    def check_reading(self, node, change):
        """A node that acknowledges a change answers with it."""
        serial = change.why.get("to") if isinstance(change.why, dict) else None
        try:
            soa = self.ask(node, lambda asker: asker.soa(change.zone))
        except dns.DnsError:
            return
        if soa is not None and serial is not None and creation_of(soa) == change.creation and dns.is_newer(serial, dns.serial_of(soa)):
            if not self.loss:
                self.report("node %s acknowledges serial %d of %s, and answers %d afterwards" % (node.name, serial, change.zone, dns.serial_of(soa)))

    @staticmethod
    def ask(node, question, timeout=2.0):
        asker = dns.Asker(node.dns, timeout)
        try:
            return question(asker)
        finally:
            asker.close()

    def create(self, node, zone):
        with self.lock:
            self.creations += 1
            creation = self.creations
            zone.possible.add(creation)
        zone.begun = time.monotonic()
        serial = SERIALS[creation % len(SERIALS)]
        records = ["@ 60 SOA i%d.ns.example. admin.example. %d 3600 600 86400 60" % (creation, serial), "@ 60 NS ns1.example.net.",
                   "@ 60 NS ns2.example.net.", "www 60 A 192.0.2.1"]
        end, why = node.create(zone.name, records)
        if end == MADE:
            zone.creation, zone.is_there, zone.in_doubt = creation, True, self.may_be_undone(zone.begun)
            self.created += 1
        elif end == UNCLEAR:
            zone.in_doubt = True
        else:
            zone.possible.discard(creation)
        return end, why

    def remove(self, node, zone):
        zone.in_doubt, begun = True, time.monotonic()
        end, why = node.remove(zone.name)
        if end == MADE:
            zone.is_there, zone.in_doubt = False, self.may_be_undone(begun)
            zone.possible = zone.possible if zone.in_doubt else set()
            self.removed += 1
        elif end == REFUSED and zone.creation in zone.possible:
            zone.in_doubt = len(zone.possible) > 1
        return end, why

    def may_be_undone(self, begun):
        """Whether a failover that lags may have lost a creation or a removal that began then: the reply may come after the failover."""
        return self.loss is not None and begun <= self.loss[1]

    # Threads.

    def start(self, clients=4):
        self.clients = [threading.Thread(target=self.client, args=(n,), daemon=True) for n in range(clients)]
        self.clients.append(threading.Thread(target=self.manager, daemon=True))
        self.watchers = [threading.Thread(target=self.watch, args=(node,), daemon=True) for node in self.nodes]
        for thread in self.clients + self.watchers:
            thread.start()

    def stop_clients(self):
        self.changing = False
        for thread in self.clients:
            thread.join(60)

    def stop_watchers(self):
        self.watching = False
        for thread in self.watchers:
            thread.join(60)

    def client(self, number):
        pick = random.Random("%s client %d" % (self.seed, number))
        while self.changing:
            node, zone = pick.choice(self.nodes), pick.choice(list(self.zones.values()))
            unique = "u%d" % (self.number + pick.randrange(1 << 40))
            owners = pick.choice([[unique], ["n%d" % pick.randrange(SHARED)], [unique + "a", unique + "b"], [unique, "n%d" % pick.randrange(SHARED)]])
            way = pick.choice(("edit", "edit", "update"))
            if zone.is_there and node.is_up and not self.paused:
                self.change(node, zone, owners, way)
            time.sleep(self.pace * pick.random() * 2)

    def manager(self):
        """Creates and removes the zones that come and go. It alone does, so that it is known which of them are there."""
        pick = random.Random("%s manager" % self.seed)
        while self.changing:
            zone, node = self.zones["p%d." % pick.randrange(PASSING) + SUFFIX], pick.choice(self.nodes)
            if node.is_up and not self.paused:
                (self.remove if zone.is_there and not zone.in_doubt else self.create)(node, zone)
            time.sleep(pick.random() * self.manager_pace)

    def watch(self, node):
        """Asks a node for every zone, again and again."""
        asker, pick, failed = dns.Asker(node.dns, 1), random.Random("%s watch %s" % (self.seed, node.name)), 0
        while self.watching:
            for zone in self.zones.values():
                starts = node.starts
                if not node.is_up:
                    failed = 0
                    continue
                try:
                    self.see(node, zone, asker.soa(zone.name), starts)
                    if pick.random() < 0.2:
                        self.see_text(asker, "n%d.%s" % (pick.randrange(SHARED), zone.name))
                    if pick.random() < 0.02:
                        self.snapshot(node, zone)
                    failed = 0
                except dns.DnsError as why:
                    failed += node.is_up and starts == node.starts
                    if failed == UNANSWERED:
                        self.report("node %s does not answer: %s" % (node.name, why))
            time.sleep(0.01)
        asker.close()

    def see(self, node, zone, soa, starts):
        """Notes a version that a node answers with; it may not be older than one that it answered with before."""
        self.answers += 1
        key = (node.name, zone.name)
        if soa is None:
            if zone.name.startswith("z") and node.is_up and node.starts == starts and key in self.seen and not self.loss:
                self.report("node %s does not have %s any more" % (node.name, zone.name))
            return
        version, before = (creation_of(soa), dns.serial_of(soa)), self.seen.get(key)
        if before and (version[0] < before[0] or version[0] == before[0] and dns.is_newer(before[1], version[1])):
            if self.loss:
                self.backwards += 1
            else:
                self.report("node %s answers %s with version %r after %r" % (node.name, zone.name, version, before))
        self.seen[key] = version

    def see_text(self, asker, owner):
        rcode, records = asker.ask(owner, dns.TXT)
        for record in records:
            self.observed.add((record[0], record[3].strip('"')))

    def snapshot(self, node, zone):
        """Transfers a zone. The same version is the same zone on all nodes."""
        try:
            serial, records = dns.axfr(node.dns, zone.name)
        except dns.DnsError as why:
            if why.rcode is None and node.is_up:
                raise
            return
        self.compare_version(node, zone, serial, records)

    def compare_version(self, node, zone, serial, records):
        soa = next(record[3] for record in records if record[1] == "SOA")
        key = (zone.name, creation_of(soa), serial)
        with self.lock:
            other = self.snapshots.setdefault(key, (node.name, frozenset(records)))
        if other[1] != records and not self.loss:
            self.report("nodes %s and %s have two zones %s with serial %d: %s" % (
                other[0], node.name, zone.name, serial, sorted(other[1] ^ records)[:4]))

    # What has to be at the end.

    def counts(self):
        ends = [change.end for change in list(self.changes)]
        return len(ends), ends.count(MADE), ends.count(REFUSED), ends.count(UNCLEAR)

    def may_be_lost(self, change):
        return self.loss is not None and change.ended >= self.loss[0] and change.begun <= self.loss[1]

    def check_zone(self, where, zone, records):
        """Compares the records of a zone with the changes that were acknowledged."""
        found = {owner: data.strip('"') for owner, rtype, _, data in records if rtype == "TXT"}
        creation = creation_of(next(record[3] for record in records if record[1] == "SOA"))
        # A change may meet the zone that was created after it began, in place of the one that it was meant for.
        late = {change for change in self.changes if change.zone == zone.name and change.creation < creation and change.ended >= zone.begun}
        # A failover that loses the creation of a zone brings the zone before it back, and changes meet that one until it is created again.
        if self.loss is not None:
            late |= {change for change in self.changes
                     if change.zone == zone.name and change.creation > creation and change.ended >= self.loss[0]}
        changes = [change for change in self.changes if change.zone == zone.name and (change.creation == creation or change in late)]
        writes = {}
        for change in changes:
            for owner, value in change.values.items():
                writes.setdefault(owner, []).append((change, value))
            there = [found.get(owner) == value for owner, value in change.values.items() if owner.startswith("u")]
            if there and any(there) != all(there):
                self.report("%s: half of change %d of %s is there" % (where, change.number, zone.name))
        for owner, all_writes in writes.items():
            self.check_owner(where, owner, all_writes, found.get(owner), late)
        for owner in set(found) - set(writes):
            self.report("%s: %s TXT %s was written by no client" % (where, owner, found[owner]))

    def check_owner(self, where, owner, writes, value, late):
        """The value of an owner is that of the last change, or of one that was under way beside it, or of one that is unclear."""
        sure = [change for change, _ in writes if change.end == MADE and not self.may_be_lost(change) and change not in late]
        last = max((change.begun for change in sure), default=None)
        possible = {text for change, text in writes if change.end != REFUSED and (last is None or change.end == UNCLEAR or self.may_be_lost(change)
                                                                                    or change.ended >= last)}
        if last is None:
            possible.add(None)
        if value not in possible:
            kind = [(change.number, change.end, change.why) for change, text in writes if text == value]
            self.report("%s: %s TXT is %s (%s), possible is %s" % (where, owner, value, kind, sorted(map(str, possible))[:6]))

    def check_observed(self):
        """No answer had a value of a change that was refused."""
        refused = {(owner, value): change for change in self.changes if change.end == REFUSED for owner, value in change.values.items()}
        for one in self.observed & set(refused):
            self.report("%s TXT %s was answered, and change %d was refused: %s" % (*one, refused[one].number, refused[one].why))

    def check_log(self, session):
        """The changes of the database: without gaps, each value once, nothing that was refused, all that was acknowledged."""
        rows = session.query("SELECT number, zone, serial_before, serial_after, kind, array_to_string(added, E'\\n') FROM nomen.changes ORDER BY number")
        numbers, chains, values = [int(row[0]) for row in rows], {}, {}
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            self.report("the numbers of the changes have gaps: %s" % numbers[:20])
        for number, zone, before, after, kind, added in rows:
            if kind == "keys":
                continue
            if kind == "change" and zone in chains and chains[zone] != before:
                self.report("change %s of zone %s begins with serial %s, and the one before ended with %s" % (number, zone, before, chains[zone]))
            chains[zone] = after
            for value in re.findall(r"mark-\d+", added or ""):
                values.setdefault(value, set()).add(number)
        for change in self.changes:
            value = "mark-%d" % change.number
            made = len(values.get(value, ()))
            if made > 1:
                self.report("change %d is in the database %d times" % (change.number, made))
            elif made and change.end == REFUSED:
                self.report("change %d is in the database, and was refused: %s" % (change.number, change.why))
            elif not made and change.end == MADE and not self.log_is_cut and not self.may_be_lost(change) and change.creation \
                    and not (change.way == "update" and self.is_overwritten(change)):
                self.report("change %d of %s is not in the database, and node %s acknowledged it (%s)" % (
                    change.number, change.zone, change.node, change.way))

    def is_overwritten(self, change):
        """Whether the values of an update were replaced by updates that the node decided together with it: signed together, they are one change of
        the log. All of them wait for their replies when they are decided, so their times overlap; one that was refused replaced nothing."""
        beside = [other for other in self.changes if other is not change and other.zone == change.zone and other.way == "update"
                  and other.node == change.node and other.end != REFUSED and other.begun <= change.ended and change.begun <= other.ended]
        return all(any(owner in other.values for other in beside) for owner in change.values)
