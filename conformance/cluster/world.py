"""What a scene happens in: PostgreSQL with or without a replica, nodes, a proxy for each way between them, and what has to be at the end."""
import os, random, re, shutil, subprocess, time

from . import dns
from .history import History, creation_of
from .nodes import MADE, REFUSED, Node
from .postgres import DATABASE, HOST, NODE_USER, PASSWORD, Postgres, Session, SqlError
from .proxy import Loop, Proxy

SETTLE_SECONDS, COMPARED_VERSIONS = 25, 12


def init_schema(program, port, sql=None):
    """Makes the schema: with `nomen database init`, or with the SQL files of a folder."""
    if sql:
        session = Session(port)
        session.query("SET ROLE %s" % NODE_USER)
        for name in sorted(name for name in os.listdir(sql) if name.endswith(".sql")):
            session.query(open(os.path.join(sql, name)).read())
        session.query("SET search_path = nomen, nomen_writes; INSERT INTO nomen.about (version) VALUES (1) ON CONFLICT DO NOTHING")
        session.close()
        return
    url = "postgresql://%s:%s@%s:%d/%s" % (NODE_USER, PASSWORD, HOST, port, DATABASE)
    done = subprocess.run([program, "database", "init", "--url", url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60)
    if done.returncode:
        raise RuntimeError("`nomen database init` ends with status %d: %s" % (done.returncode, done.stdout))


class World:
    """Servers and nodes of one scene. `replica`: None, "sync" or "async"."""

    def __init__(self, program, folder, template, seed, sql=None, nodes=3, replica=None, fsync=False, server="", prepare=None, signed=False):
        self.program, self.folder, self.pick, self.signed = program, folder, random.Random(seed), signed
        self.loop, self.proxies, self.nodes, self.databases = Loop(), [], [], []
        self.primary, self.standby, self.replication = Postgres(folder, fsync), None, None
        self.databases.append(self.primary)
        self.primary.create(template)
        self.primary.start()
        self.primary.create_database()
        init_schema(program, self.primary.port, sql)
        if replica:
            self.replication = Proxy(self.loop, self.primary.port)
            self.standby = self.primary.replica(folder, "standby", self.replication.port, replica == "sync")
            self.databases.append(self.standby)
        for number in range(nodes):
            ways = [Proxy(self.loop, database.port, random.Random("%s %d" % (seed, number))) for database in self.databases]
            self.proxies.append(ways)
            node = Node(program, folder, "node%d" % number, [way.port for way in ways], server, signed=signed)
            self.nodes.append(node)
            if prepare:
                prepare(node)
            node.start(wait=False)
        for node in self.nodes:
            node.wait_until_up()
        self.history = History(self.nodes, seed)
        self.by_hand = None

    def rest(self, least=0.3, most=1.2):
        time.sleep(self.pick.uniform(least, most))

    def ways(self):
        return [way for ways in self.proxies for way in ways]

    def sql(self, text):
        """Executes statements as the superuser, on the primary."""
        return self.primary.execute(text)

    def log(self, node):
        return open(node.log, errors="replace").read()

    def create_zones(self):
        """Creates the zones that stay, and waits until all nodes have them."""
        for zone in self.history.zones.values():
            until = time.monotonic() + 15
            while zone.name.startswith("z"):
                end, why = self.history.create(self.pick.choice(self.nodes), zone)
                if end == MADE:
                    break
                # An unclear creation may have been made after all.
                if zone.in_doubt and end == REFUSED:
                    self.history.remove(self.nodes[0], zone)
                if time.monotonic() > until:
                    raise RuntimeError("%s is not created: %s" % (zone.name, why))
                time.sleep(0.2)
        if self.settle() is None:
            raise RuntimeError("the nodes do not get the first zones: %s" % self.history.wrong)

    def heal(self):
        """Ends every fault that a scene may have left."""
        for way in self.ways():
            way.refuse, way.silent, way.delay, way.trap = False, False, 0.0, None
        if self.primary.process.poll() is not None:
            self.primary.start()
        for node in self.nodes:
            if node.process.poll() is not None:
                node.start()

    def expected(self):
        """The zones of the database: name -> serial."""
        return {name: int(serial) for name, serial in self.sql("SELECT name, serial FROM nomen.zones WHERE view = ''")}

    def lagging(self):
        """What the nodes do not have yet, as texts."""
        expected, late = self.expected(), []
        for node in self.nodes:
            for name in set(expected) | set(self.history.zones):
                try:
                    soa = History.ask(node, lambda asker: asker.soa(name))
                except dns.DnsError as why:
                    late.append("node %s, %s: %s" % (node.name, name, why))
                    continue
                serial = dns.serial_of(soa) if soa else None
                if serial != expected.get(name):
                    late.append("node %s answers %s with serial %s, the database has %s" % (node.name, name, serial, expected.get(name)))
        return late

    def settle(self):
        """Waits until all nodes have what the database has. Returns the seconds that it takes, or None."""
        begun, late = time.monotonic(), ["?"]
        while time.monotonic() < begun + SETTLE_SECONDS:
            try:
                late = self.lagging()
            except SqlError as why:
                late = ["the database: %s" % why]
            if not late:
                return time.monotonic() - begun
            time.sleep(0.1)
        for text in late[:6]:
            self.history.report("not after %d s: %s" % (SETTLE_SECONDS, text))
        return None

    def signer(self):
        """The node that maintains keys and signatures, if one is noted and runs."""
        rows = self.sql("SELECT node FROM nomen.signer")
        return next((node for node in self.nodes if [node.name] in rows or (node.name,) in rows), None)

    def rows(self, name):
        """The records of a zone in the database."""
        rows = self.sql("SELECT r.name, type, ttl, record FROM nomen.rrsets r JOIN nomen.zones z ON z.id = r.zone, unnest(data) AS record"
                        " WHERE z.view = '' AND z.name = '%s'" % name)
        return {(owner.lower(), rtype, int(ttl), data) for owner, rtype, ttl, data in rows}

    def check(self):
        """Compares everything at the end."""
        history, expected = self.history, self.expected()
        for zone in history.zones.values():
            if not zone.in_doubt and zone.is_there != (zone.name in expected):
                history.report("%s is %s the database, and it was %s last" % (
                    zone.name, "in" if zone.name in expected else "not in", "created" if zone.is_there else "removed"))
        for name in expected:
            rows = self.rows(name)
            if name in history.zones:
                history.check_zone("database", history.zones[name], rows)
                self.check_creation(history.zones[name], rows)
            for node in self.nodes:
                self.check_node(node, name, rows)
        history.check_observed()
        session = self.primary.session()
        history.check_log(session)
        session.close()

    def check_creation(self, zone, rows):
        creation = creation_of(next(data for _, rtype, _, data in rows if rtype == "SOA"))
        if creation != zone.creation and not zone.in_doubt:
            self.history.report("%s is that of creation %d, and creation %d was the last" % (zone.name, creation, zone.creation))

    def check_node(self, node, name, rows):
        """The zone of a node is that of the database, and so is each older version with the differences since."""
        history = self.history
        try:
            serial, records = dns.axfr(node.dns, name)
            # Signatures are renewed meanwhile.
            for _ in range(50 if self.signed else 0):
                if serial == next(dns.serial_of(data) for _, rtype, _, data in rows if rtype == "SOA"):
                    break
                time.sleep(0.05)
                rows = self.rows(name)
                serial, records = dns.axfr(node.dns, name)
            # What signing adds is compared between the nodes, and by verifiers.
            data = {record for record in records if record[1] in dns.TYPES.values()}
            if data != {row for row in rows if row[1] in dns.TYPES.values()}:
                history.report("node %s has another %s than the database: %s" % (node.name, name, sorted(data ^ rows)[:6]))
                return
            if self.signed:
                self.check_signatures(node, name)
            creation = creation_of(next(record[3] for record in records if record[1] == "SOA"))
            if name in history.zones:
                history.compare_version(node, history.zones[name], serial, records)
            older = [(key, value[1]) for key, value in history.snapshots.items() if key[:2] == (name, creation) and key[2] != serial]
            for key, before in self.pick.sample(older, min(len(older), COMPARED_VERSIONS)) if not history.loss else ():
                now, result = dns.ixfr(node.dns, name, key[2], before)
                if now != serial and self.signed:
                    continue
                if now != serial or result != records:
                    history.report("node %s: %s with the differences since %d is another zone: %s" % (
                        node.name, name, key[2], sorted(result ^ records)[:6]))
        except (dns.DnsError, StopIteration) as why:
            history.report("node %s: transfer of %s: %s" % (node.name, name, why))

    def check_signatures(self, node, name):
        """A zone passes verifiers, and still has the key that was made for it."""
        path = node.folder + "/signed"
        node.dump(name, path)
        for program in ([self.program, "zone", "check", "--dnssec", name, path], ["ldns-verify-zone", path]):
            if program[0] == self.program or shutil.which(program[0]):
                done = subprocess.run(program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
                if done.returncode:
                    self.history.report("node %s: %s is not signed well: %s: %s" % (node.name, name, os.path.basename(program[0]), done.stdout[-400:]))
        keys = self.sql("SELECT count(*) FROM nomen.keys k JOIN nomen.zones z ON z.id = k.zone WHERE z.view = '' AND z.name = '%s'" % name)
        if int(keys[0][0]) != 1:
            self.history.report("%s has %s keys, and one was made for it" % (name, keys[0][0]))

    def check_changes(self):
        """After all faults, every node takes changes of every zone."""
        for zone in self.history.zones.values():
            for node in self.nodes if zone.is_there and not zone.in_doubt else ():
                until, change = time.monotonic() + 20, None
                while time.monotonic() < until and (change is None or change.end != MADE):
                    change = self.history.change(node, zone, ["n0"], "edit")
                    time.sleep(0 if change.end == MADE else 0.3)
                if change.end != MADE:
                    self.history.report("node %s takes no change of %s after the faults: %s %s" % (node.name, zone.name, change.end, change.why))

    def faults_of_nodes(self):
        """Panics in the logs of the nodes."""
        for node in self.nodes:
            for line in re.findall(r".*panicked.*|.*thread .* has ended.*", self.log(node))[:3]:
                self.history.report("node %s: %s" % (node.name, line))

    def stop(self):
        for node in self.nodes:
            node.stop()
            node.asker.close()
        for way in self.ways() + ([self.replication] if self.replication else []):
            way.stop()
        for database in self.databases:
            database.stop()
        self.loop.stop()
