"""Many sessions commit changes in schema `nomen`, some late, some rolled back; readers follow by number, and may miss nothing.

One thread decides by the seed which session does what next; statements that wait for a lock wait while others go on. There are no nodes.
"""
import json, random, select, time

from .postgres import Postgres, Session, SqlError, quote
from .world import init_schema

OPERATIONS, WRITERS, READERS, ZONES, OWNERS = 3000, 12, 4, 30, 8
TTL = 60
# Errors of a statement that are part of the test: a deadlock.
ACCEPTED = ("40P01",)


def soa(serial):
    return "ns.example. admin.example. %d 3600 600 86400 60" % serial


def line(owner, rtype, data):
    return "%s %d %s %s" % (owner, TTL, rtype, data)


def rrset(owner, rtype, data):
    return {"name": owner, "type": rtype, "covers": "", "ttl": TTL, "data": [data]}


def commit_statement(changes, node, tag):
    """The call of nomen.commit for (zone, name, serial before, serial after, old SOA data, new SOA data, owner, old TXT data, new TXT data)."""
    payload = []
    for zone, name, before, after, old_soa, new_soa, owner, old, new in changes:
        step = {"before": before, "after": after, "author": "check", "removed": [line(name, "SOA", old_soa)], "added": [line(name, "SOA", new_soa)]}
        commit = {"zone": zone, "before": before, "after": after, "gone": [], "rrsets": [rrset(name, "SOA", new_soa)], "steps": [step]}
        if old is not None:
            step["removed"].append(line(owner, "TXT", old))
        if new is not None:
            step["added"].append(line(owner, "TXT", new))
            commit["rrsets"].append(rrset(owner, "TXT", new))
        else:
            commit["gone"].append({"name": owner, "type": "TXT", "covers": ""})
        payload.append(commit)
    return "SELECT * FROM nomen.commit(%s::jsonb, %s, %d)" % (quote(json.dumps(payload)), quote(node), tag)


class Replica:
    """A reader: the zones of one snapshot, and the changes since, by number."""

    def __init__(self, session):
        self.session, self.busy, self.zones, self.step = session, False, {}, "new"
        self.number, self.wrong, self.tags = 0, [], set()

    def begin(self, pick):
        self.busy = True
        if self.step == "new":
            self.session.begin("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT last_change, NULL, NULL, NULL, NULL FROM nomen.about"
                               " UNION ALL SELECT z.id, z.name, z.serial::text, r.name || ' ' || r.type, r.data[1] FROM nomen.zones z JOIN nomen.rrsets r ON r.zone = z.id; COMMIT")
        else:
            self.session.begin("SELECT number, zone, kind, serial_before, serial_after, array_to_string(removed, '|'), array_to_string(added, '|'), tag"
                               " FROM nomen.changes WHERE number > %d ORDER BY number LIMIT %d" % (self.number, pick.choice((1, 3, 100))))

    def end(self):
        rows, self.busy = self.session.end(), False
        if self.step == "new":
            for number, name, serial, key, data in rows:
                if name is None:
                    self.number = int(number)
                else:
                    zone = self.zones.setdefault(int(number), [int(serial), {}])
                    zone[1][key] = data
            self.step = "follow"
            return
        for row in rows:
            self.follow(*row)

    def follow(self, number, zone, kind, before, after, removed, added, tag):
        number, zone = int(number), int(zone)
        if number != self.number + 1:
            self.wrong.append("a reader gets change %d after %d" % (number, self.number))
        self.number = number
        self.tags.add(int(tag))
        if kind == "create":
            # Its records are read as a whole: here, they are those that every zone begins with.
            self.zones[zone] = [int(after), None]
        elif kind == "remove":
            self.zones.pop(zone, None)
        else:
            serial, records = self.zones[zone]
            if serial != int(before):
                self.wrong.append("change %d begins with serial %s, the reader has %d" % (number, before, serial))
            self.zones[zone][0] = int(after)
            if records is not None:
                self.apply(number, records, removed, added)

    def apply(self, number, records, removed, added):
        split = lambda text: (text.split(" ", 3) for text in text.split("|") if text)
        for owner, _, rtype, data in split(removed):
            if records.pop(owner + " " + rtype, None) != data:
                self.wrong.append("change %d removes what the reader does not have" % number)
        for owner, _, rtype, data in split(added):
            records[owner + " " + rtype] = data


class Writer:
    """A session that changes zones: in one statement, or in a transaction that is left open for a while."""

    def __init__(self, check):
        self.check, self.session = check, check.database.session()
        self.session.query("SET deadlock_timeout = '50ms'")
        self.busy, self.is_open, self.tag, self.last = False, False, None, None

    def begin(self, pick):
        """Begins the next statement."""
        self.busy = True
        if self.is_open:
            self.last = pick.choice(("COMMIT",) * 6 + ("ROLLBACK",) * 3 + ("again", "again", "end"))
            if self.last in ("COMMIT", "ROLLBACK"):
                self.session.begin(self.last)
            elif self.last == "again":
                self.session.begin("SELECT pg_sleep(0.001)")
            else:
                self.abandon()
            return
        self.check.tag += 1
        self.tag, self.last = self.check.tag, "change"
        self.is_open = pick.random() < 0.4
        self.session.begin(("BEGIN; " if self.is_open else "") + self.statement(pick))

    def statement(self, pick):
        check, kind = self.check, pick.random()
        name = "z%d.example." % pick.randrange(ZONES)
        if kind < 0.04 or not check.zones:
            return check.creation(name, self.tag)
        if kind < 0.06:
            return "SELECT %d, 'committed', nomen.remove_zone(%d, 'check', 'check', %d)" % (*[pick.choice(sorted(check.zones))] * 2, self.tag)
        changes = []
        for zone in pick.sample(sorted(check.zones), min(len(check.zones), pick.choice((1, 1, 2, 3)))):
            name, serial, records = check.zones[zone]
            owner = "n%d.%s" % (pick.randrange(OWNERS), name)
            old = records.get(owner + " TXT")
            new = None if old is not None and pick.random() < 0.2 else '"mark-%d"' % self.tag
            # Now and then a serial that is not known any more: the change has to be left out.
            before = serial - (serial > 1 and pick.random() < 0.05)
            changes.append((zone, name, before, before + 1, records[name + " SOA"], soa(before + 1), owner, old, new))
        return commit_statement(changes, "check", self.tag)

    def abandon(self):
        """Ends the session in an open transaction, and begins another one."""
        self.session.close()
        self.check.count["rolled back"] += 1
        self.check.rolled_back.add(self.tag)
        self.__init__(self.check)

    def end(self):
        check = self.check
        self.busy = False
        try:
            rows = self.session.end()
        except SqlError as why:
            check.count["failed"] += 1
            if why.state not in ACCEPTED:
                check.errors.add(str(why))
            check.rolled_back.add(self.tag)
            if self.is_open:
                self.session.query("ROLLBACK")
            self.is_open = False
            return
        if self.last == "change":
            self.made = [row for row in rows if row[1] == "committed" and row[2]]
            check.count["conflict"] += len(rows) - len(self.made)
            if not self.is_open:
                check.note(self)
        elif self.last in ("COMMIT", "ROLLBACK"):
            self.is_open = False
            check.note(self) if self.last == "COMMIT" else check.rolled_back.add(self.tag)
            check.count["rolled back"] += self.last == "ROLLBACK"


class Check:
    def __init__(self, database, seed):
        self.database, self.pick, self.tag = database, random.Random("sql %d" % seed), 0
        self.zones, self.committed, self.rolled_back, self.errors = {}, set(), set(), set()
        self.count = {"changes": 0, "committed": 0, "conflict": 0, "rolled back": 0, "failed": 0}
        self.admin = database.session()
        self.writers = [Writer(self) for _ in range(WRITERS)]
        self.readers = [Replica(database.session())]
        for number in range(ZONES):
            self.tag += 1
            self.admin.query(self.creation("z%d.example." % number, self.tag))

    @staticmethod
    def creation(name, tag):
        put = [rrset(name, "SOA", soa(1)), rrset(name, "NS", "ns.example.")]
        return "SELECT made, 'committed', at_number FROM nomen.create_zone('', %s, NULL, 1, %s::jsonb, 'check', 'check', %d)" % (
            quote(name), quote(json.dumps(put)), tag)

    def note(self, writer):
        if writer.made:
            self.committed.add(writer.tag)
            self.count["committed"] += 1
        self.refresh()

    def refresh(self):
        """Reads the zones as writers know them: what they change may have changed since."""
        zones = {}
        for zone, name, serial, key, data in self.admin.query("SELECT z.id, z.name, z.serial, r.name || ' ' || r.type, r.data[1]"
                                                              " FROM nomen.zones z JOIN nomen.rrsets r ON r.zone = z.id"):
            zones.setdefault(int(zone), (name, int(serial), {}))[2][key] = data
        self.zones = zones

    def run(self):
        self.refresh()
        for _ in range(OPERATIONS):
            self.count["changes"] += 1
            if len(self.readers) < READERS and self.pick.random() < 0.002 * READERS:
                self.readers.append(Replica(self.database.session()))
            idle = [one for one in (self.writers if self.pick.random() < 0.85 else self.readers) if not one.busy]
            if idle:
                self.pick.choice(idle).begin(self.pick)
            self.take(0 if idle and self.pick.random() < 0.5 else 0.003)
        self.drain()

    def take(self, timeout):
        """Takes the replies that are there."""
        busy = {one.session.socket: one for one in self.writers + self.readers if one.busy}
        # `end` reads a whole reply; those that begin to come are there soon.
        for socket in select.select(list(busy), [], [], timeout)[0]:
            busy[socket].end()

    def drain(self):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for writer in self.writers:
                if not writer.busy and writer.is_open:
                    writer.last, writer.busy = "COMMIT", True
                    writer.session.begin("COMMIT")
            if not any(one.busy for one in self.writers + self.readers):
                break
            self.take(0.01)
        last = int(self.admin.value("SELECT last_change FROM nomen.about"))
        for reader in self.readers:
            while reader.number < last or reader.step == "new":
                before = (reader.number, reader.step)
                reader.begin(self.pick)
                reader.end()
                if (reader.number, reader.step) == before:
                    reader.wrong.append("a reader stands at %d, and the last change is %d" % (reader.number, last))
                    break

    def compare(self):
        """Returns what is wrong at the end."""
        wrong = [text for reader in self.readers for text in reader.wrong] + ["a statement fails: %s" % text for text in self.errors]
        rows = self.admin.query("SELECT number, tag FROM nomen.changes ORDER BY number")
        tags = {int(tag) for _, tag in rows}
        if [int(number) for number, _ in rows] != list(range(1, len(rows) + 1)):
            wrong.append("the numbers have gaps")
        if int(self.admin.value("SELECT last_change FROM nomen.about")) != len(rows):
            wrong.append("last_change is not the number of the last change")
        wrong += ["change %d was committed, and is not there" % tag for tag in self.committed - tags]
        wrong += ["change %d was rolled back, and is there" % tag for tag in self.rolled_back & tags]
        self.refresh()
        for reader in self.readers:
            if {zone: serial for zone, (serial, _) in reader.zones.items()} != {zone: serial for zone, (_, serial, _) in self.zones.items()}:
                wrong.append("a reader has other serials than the database")
            for zone, (_, records) in reader.zones.items():
                if records is not None and records != self.zones[zone][2]:
                    wrong.append("a reader has another zone %d than the database" % zone)
        for zone, (name, serial, records) in self.zones.items():
            if records[name + " SOA"] != soa(serial):
                wrong.append("zone %d has serial %d, and the SOA record %s" % (zone, serial, records[name + " SOA"]))
        return wrong


def play(program, folder, template, seed, sql=None):
    """Runs the check. Returns the columns of its row, and what is wrong."""
    database = Postgres(folder)
    database.create(template)
    database.start()
    try:
        database.create_database()
        init_schema(program, database.port, sql)
        check = Check(database, seed)
        check.run()
        wrong = check.compare()
    finally:
        database.stop()
    count = check.count
    row = ["sql", seed, count["failed"], count["changes"], count["committed"], count["conflict"], count["rolled back"], "–", "–", "–", "–", "–"]
    return row, wrong
