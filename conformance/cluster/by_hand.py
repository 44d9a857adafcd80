"""What the scenes do to PostgreSQL and to nodes past the nodes: failovers, transactions by hand, broken tables, clocks."""
import glob, os, signal, time

from . import dns
from .history import Change
from .nodes import MADE, REFUSED
from .postgres import NODE_USER, SqlError
from .protocol import commit_statement

FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
BROKEN = "z1.mark.example."


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def fail_over(world):
    """Kills the primary, promotes the replica, and has the world use that."""
    world.primary.kill()
    world.rest(0, 1)
    world.standby.promote()
    world.primary = world.standby


def end_sessions(world):
    world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '%s'" % NODE_USER)


def take_all_connections(world):
    """Opens sessions until PostgreSQL has no connection left."""
    held = []
    try:
        while len(held) < 200:
            held.append(world.primary.session())
    except SqlError:
        pass
    return held


def unguarded(world, sql):
    """Executes statements in one transaction, without the triggers of the tables."""
    world.sql("SET session_replication_role = replica; " + sql)


def expect_refusal(world, sql, user=None):
    session = world.primary.session()
    try:
        if user:
            session.query("SET ROLE %s" % user)
        session.query("SET lock_timeout = '2s'")
        session.query(sql)
        world.history.report("the tables accept: %s%s" % (sql, " as the user of the nodes" if user else ""))
    except SqlError as why:
        if why.state == "55P03":
            world.history.report("no refusal of %s: %s" % (sql, why))
    finally:
        session.close()


def schema_faults(world):
    """Statements that break the schema, each with the one that mends it."""
    return [("ALTER FUNCTION nomen.commit(jsonb, text, bigint) RENAME TO commit_away", "ALTER FUNCTION nomen.commit_away(jsonb, text, bigint) RENAME TO commit"),
            ("ALTER TABLE nomen.rrsets RENAME COLUMN ttl TO ttl_away", "ALTER TABLE nomen.rrsets RENAME COLUMN ttl_away TO ttl"),
            ("UPDATE nomen.about SET version = version + 1", "UPDATE nomen.about SET version = version - 1"),
            ("ALTER TABLE nomen.changes RENAME TO changes_away", "ALTER TABLE nomen.changes_away RENAME TO changes"),
            ("ALTER SCHEMA nomen RENAME TO nomen_away", "ALTER SCHEMA nomen_away RENAME TO nomen")]


# The version of a zone after the next one, as a statement for all tables: the SOA record, the serial, the log of changes.
NEXT_VERSION = """
UPDATE nomen.about SET last_change = last_change + 1;
INSERT INTO nomen.changes (number, zone, view, name, kind, serial_before, serial_after, removed, added, author, node, at, tag)
    SELECT (SELECT last_change FROM nomen.about), id, view, name, 'replace', serial, (serial + 1) & 4294967295, NULL, NULL, 'hand', 'hand', now(), 0
    FROM nomen.zones WHERE name = '{zone}';
UPDATE nomen.rrsets SET data = ARRAY[regexp_replace(data[1], '^(\\S+ \\S+) \\d+',
        '\\1 ' || (SELECT (serial + 1) & 4294967295 FROM nomen.zones WHERE name = '{zone}'))]
    WHERE type = 'SOA' AND name = '{zone}';
UPDATE nomen.zones SET serial = (serial + 1) & 4294967295, change = (SELECT last_change FROM nomen.about) WHERE name = '{zone}';
"""


def set_address(world, address):
    unguarded(world, "BEGIN; SELECT 1 FROM nomen.zones WHERE name = '%s' FOR UPDATE; UPDATE nomen.rrsets SET data = ARRAY['%s']"
              " WHERE type = 'A' AND name = 'www.%s'; %s COMMIT" % (BROKEN, address, BROKEN, NEXT_VERSION.replace("{zone}", BROKEN)))


def break_zone(world):
    set_address(world, "not an address")


def mend_zone(world):
    set_address(world, "192.0.2.1")


def own_clock(node):
    """Has a node take its time from a file."""
    found = glob.glob(FAKETIME)
    step_clock(node, "+0")
    node.environment.update(LD_PRELOAD=found[0] if found else "", FAKETIME_TIMESTAMP_FILE=node.folder + "/clock", FAKETIME_NO_CACHE="1",
                            FAKETIME_DONT_FAKE_MONOTONIC="1")


def step_clock(node, step):
    with open(node.folder + "/clock.new", "w") as file:
        file.write(step + "\n")
    os.rename(node.folder + "/clock.new", node.folder + "/clock")


def take_the_database(world):
    """Has all nodes take what the database has, as an operator does after a loss: `nomen ctl zone retransfer`."""
    for node in world.nodes:
        for name in world.expected():
            for _ in range(3):
                try:
                    node.request("POST", "/zones/%s/retransfer" % name, {})
                    break
                except OSError:
                    # The connection was idle, and the node has closed it.
                    continue


def reach_serials(world, away, end):
    """Changes a zone by hand until it has the serial that it had last on a node which is away, and lets that return (`end`)."""
    history = world.history
    zone = history.zones["z0.mark.example."]
    target = history.seen[(away.name, zone.name)][1]
    until = time.monotonic() + 15
    while time.monotonic() < until:
        try:
            serial = world.expected()[zone.name]
        except SqlError:
            continue
        if not dns.is_newer(target, serial):
            break
        commit_by_hand(world, "n0", 0, "COMMIT", zone)
    end()
    # The clients change nothing until it has compared its zones.
    time.sleep(1)
    history.paused = False
    return serial == target


def commit_by_hand(world, owner, seconds, end, zone=None):
    """Changes a record with SQL, and ends the transaction after a while: with COMMIT, ROLLBACK, or the end of the session (None)."""
    history = world.history
    zone = zone or world.pick.choice([zone for zone in history.zones.values() if zone.name.startswith("z")])
    number = history.next_number()
    owner, value = owner + "." + zone.name, "mark-%d" % number
    change = Change(number, zone.name, zone.creation, "by hand", {owner: value}, "SQL")
    session = world.primary.session()
    try:
        session.query("BEGIN; SET LOCAL lock_timeout = '5s'")
        id_, serial = map(int, session.query("SELECT id, serial FROM nomen.zones WHERE name = '%s' FOR NO KEY UPDATE" % zone.name)[0])
        old_soa = session.value("SELECT data[1] FROM nomen.rrsets WHERE zone = %d AND type = 'SOA'" % id_)
        old = session.value("SELECT data[1] FROM nomen.rrsets WHERE zone = %d AND lower(name) = '%s' AND type = 'TXT'" % (id_, owner))
        after = (serial + 1) & 0xffffffff
        words = old_soa.split()
        new_soa = " ".join(words[:2] + [str(after)] + words[3:])
        rows = session.query(commit_statement([(id_, zone.name, serial, after, old_soa, new_soa, owner, old, '"%s"' % value)], "by hand", number))
        if [row[1] for row in rows] != ["committed"]:
            history.report("a change by hand ends with %s" % rows)
        time.sleep(seconds)
        if end:
            session.query(end)
        change.end = MADE if end == "COMMIT" else REFUSED
    except SqlError as why:
        change.end, change.why = REFUSED, str(why)
        if why.state not in ("55P03", "40P01", "08006", "57P01"):
            history.report("a change by hand fails: %s" % why)
    finally:
        session.close()
        change.ended = time.monotonic()
        with history.lock:
            history.changes.append(change)


def create_and_roll_back(world):
    session = world.primary.session()
    try:
        session.query("BEGIN; SELECT nomen.begin_zone('', 'gap.example.', NULL, 1)")
        world.rest(0, 0.2)
        session.query("ROLLBACK")
    finally:
        session.close()
