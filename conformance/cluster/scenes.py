"""The faults, each as a scene: what it needs, and what happens while clients change zones and watchers ask all nodes."""
import glob, signal, time

from . import by_hand
from .nodes import REFUSED
from .postgres import NODE_USER, SqlError

SCENES = {}
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class Left(Exception):
    """A scene that cannot be run here, with the reason."""


def scene(name, **needs):
    """Notes a scene, with what its world needs."""
    def note(function):
        SCENES[name] = (function, needs)
        return function
    return note


@scene("calm")
def calm(world):
    """No fault."""
    world.rest(3, 4)


@scene("removals")
def removals(world):
    """Zones are removed and created again in quick succession while they change."""
    world.history.manager_pace = 0.05
    world.rest(4, 5)


@scene("kill-database")
def kill_database(world):
    """kill -9 of all processes of PostgreSQL, which starts again."""
    for _ in range(3):
        world.rest()
        world.primary.kill()
        world.rest(0, 1.5)
        world.primary.start()
        world.rest(0.5, 2)


@scene("kill-session")
def kill_session(world):
    """kill -9 of a process of a session, upon which PostgreSQL restarts all; and sessions that are ended by hand."""
    for number in range(6):
        world.rest(0.2, 0.8)
        try:
            rows = world.sql("SELECT pid FROM pg_stat_activity WHERE usename = '%s'" % NODE_USER)
            if rows and number % 2:
                world.sql("SELECT pg_terminate_backend(%s)" % world.pick.choice(rows)[0])
            elif rows:
                by_hand.kill(int(world.pick.choice(rows)[0]))
        except SqlError:
            continue
    world.rest()


@scene("kill-node")
def kill_node(world):
    """kill -9 of nodes."""
    for _ in range(5):
        world.rest(0.2, 0.8)
        node = world.pick.choice(world.nodes)
        node.kill()
        world.rest(0, 0.6)
        node.start()
    world.rest()


@scene("kill-both")
def kill_both(world):
    """kill -9 of a node and of PostgreSQL at the same time; the node starts first."""
    for _ in range(3):
        world.rest()
        node = world.pick.choice(world.nodes)
        for one in world.pick.sample([node, world.primary], 2):
            one.kill()
        node.start()
        world.rest(0, 1)
        world.primary.start()
        world.rest(0.5, 2)


@scene("start-alone")
def start_alone(world):
    """All nodes start while PostgreSQL is down. They answer with what they had, and refuse changes."""
    world.rest(1, 2)
    for round_ in range(2):
        world.primary.kill()
        for node in world.nodes:
            node.kill() if round_ else node.stop()
        for node in world.nodes:
            node.start()
        zone = world.history.zones["z0.mark.example."]
        for node in world.nodes:
            soa = world.history.ask(node, lambda asker: asker.soa(zone.name))
            if soa is None:
                world.history.report("node %s has started without the database, and does not answer %s" % (node.name, zone.name))
            change = world.history.change(node, zone, ["n1"], "edit")
            if change.end != REFUSED:
                world.history.report("a change with the database down ends as %s: %s" % (change.end, change.why))
        world.primary.start()
        world.rest(1, 2)


@scene("signer", signed=True)
def signer(world):
    """The nodes sign the zones. The one that maintains keys and signatures is killed, stands still or is cut off; another one takes over."""
    for number in range(6):
        world.rest(0.5, 1.5)
        node = world.signer() or world.pick.choice(world.nodes)
        ways = world.proxies[world.nodes.index(node)]
        if number % 3 == 0:
            node.kill()
            world.rest(0.5, 1.5)
            node.start()
        elif number % 3 == 1:
            for way in ways:
                way.refuse = True
                way.cut()
            world.rest(0.5, 1.5)
            for way in ways:
                way.refuse = False
        else:
            node.process.send_signal(signal.SIGSTOP)
            world.rest(0.5, 1.5)
            node.process.send_signal(signal.SIGCONT)
    world.rest(5, 6)


@scene("lost-store")
def lost_store(world):
    """Nodes lose all that they have stored, and start empty."""
    for _ in range(3):
        world.rest()
        node = world.pick.choice(world.nodes)
        node.kill()
        # What it served before is not known to it any more: it may answer any version until it has the zones again.
        node.forget()
        for zone in world.history.zones:
            world.history.seen.pop((node.name, zone), None)
        node.start()
    world.rest()


@scene("cut")
def cut(world):
    """The network between nodes and PostgreSQL is cut, with RST and with FIN, and comes back."""
    for _ in range(4):
        world.rest(0.2, 0.8)
        way = world.pick.choice(world.ways())
        way.refuse = True
        way.cut(world.pick.random() < 0.5)
        world.rest(0.1, 1.5)
        way.refuse = False
    world.rest()


@scene("created-anew")
def created_anew(world):
    """A node is cut off, or down, while zones are removed and created again: what it has of them is of other zones."""
    for number in range(3):
        world.rest()
        node = world.pick.choice(world.nodes)
        ways = world.proxies[world.nodes.index(node)]
        if number == 1:
            node.kill()
        for way in ways:
            way.refuse = True
            way.cut()
        world.history.manager_pace = 0.02
        world.rest(1, 1.5)
        world.history.manager_pace = 0.4
        for way in ways:
            way.refuse = False
        if number == 1:
            node.start()
    world.rest()


@scene("cut-commit")
def cut_commit(world):
    """Connections end in the middle of a commit: before it arrives, within it, after it is made, and within its reply."""
    for number in range(12):
        trap = ("before", "half", "reply", "half-reply")[number % 4]
        way = world.pick.choice(world.ways())
        sprung, way.trap = way.sprung, trap
        until = time.monotonic() + 3
        while way.sprung == sprung and time.monotonic() < until:
            time.sleep(0.02)
        way.trap = None
        world.rest(0.05, 0.5)


@scene("cut-commit-away")
def cut_commit_away(world):
    """The same, and the database cannot be reached for a while then: the node cannot find out how the commit ended."""
    for number in range(6):
        trap = ("reply", "half-reply", "before")[number % 3]
        way = world.pick.choice(world.ways())
        sprung, way.trap = way.sprung, trap
        until = time.monotonic() + 3
        while way.sprung == sprung and time.monotonic() < until:
            time.sleep(0.002)
        way.refuse, way.trap = True, None
        world.rest(0.1, 3)
        way.refuse = False
        world.rest(0.2, 0.6)


@scene("silent")
def silent(world):
    """The network forwards nothing for a while, and no connection ends; then all that was sent arrives late."""
    for _ in range(3):
        world.rest(0.2, 0.8)
        way = world.pick.choice(world.ways())
        way.silent = True
        world.rest(0.5, 4)
        way.silent = False
    world.rest()


@scene("delay")
def delay(world):
    """Slow networks: up to 150 ms in each direction, other ones for each node."""
    for way in world.ways():
        way.delay = world.pick.uniform(0.01, 0.1)
    world.rest(3, 4)


@scene("failover-sync", replica="sync")
def failover_sync(world):
    """The primary is killed, and its synchronous replica is promoted. Nothing may be lost."""
    world.rest(1, 2)
    by_hand.fail_over(world)
    world.rest(1, 2)


@scene("failover-sync-cut", replica="sync")
def failover_sync_cut(world):
    """The replication stands still, so that no commit ends; then the primary is killed, and its synchronous replica is promoted."""
    world.rest(1, 2)
    world.replication.silent = True
    world.rest(1, 4)
    by_hand.fail_over(world)
    world.rest(1, 2)


@scene("failover-lag", replica="async")
def failover_lag(world):
    """An asynchronous replica that lags is promoted. Changes of the last moments are lost; the operator has the nodes take what it has."""
    world.rest(1, 2)
    world.replication.silent = True
    world.history.loss = (time.monotonic() - 1, float("inf"))
    world.rest(0.5, 1)
    by_hand.fail_over(world)
    for zone in world.history.zones.values():
        zone.in_doubt = zone.name.startswith("p")
    world.history.loss = (world.history.loss[0], time.monotonic())
    world.rest(2, 3)
    by_hand.take_the_database(world)


def lag_and_return(world, begin, end):
    """An asynchronous replica that lags is promoted while a node is away; it returns when a zone has the serial that it has again."""
    world.rest(1, 2)
    world.replication.silent = True
    world.history.loss = (time.monotonic() - 1, float("inf"))
    world.rest(0.5, 1)
    world.history.paused = True
    world.rest(0.3, 0.5)
    begin()
    by_hand.fail_over(world)
    for zone in world.history.zones.values():
        zone.in_doubt = zone.name.startswith("p")
    world.history.loss = (world.history.loss[0], time.monotonic())
    return by_hand.reach_serials(world, world.nodes[0], end)


@scene("failover-lag-away", replica="async")
def failover_lag_away(world):
    """The same, and a node is cut off meanwhile: a zone has the serial again that it has when it connects."""
    def cut_off(refuse):
        for way in world.proxies[0]:
            way.refuse = refuse
            way.cut()

    lag_and_return(world, lambda: cut_off(True), lambda: cut_off(False))
    world.rest(1, 2)
    by_hand.take_the_database(world)


@scene("failover-lag-down", replica="async")
def failover_lag_down(world):
    """The same, and the node is stopped meanwhile: what it has stored has that serial, and is another zone."""
    node = world.nodes[0]
    lag_and_return(world, node.kill, node.start)
    world.rest(1, 2)
    by_hand.take_the_database(world)


@scene("old-primary", replica="async")
def old_primary(world):
    """After a failover the old primary starts again by mistake, and takes writes: nodes that connect again must not use it."""
    world.rest(1, 2)
    world.history.loss = (time.monotonic() - 1, float("inf"))
    old = world.primary
    by_hand.fail_over(world)
    for zone in world.history.zones.values():
        zone.in_doubt = zone.name.startswith("p")
    world.history.loss = (world.history.loss[0], time.monotonic())
    world.rest(1, 2)
    old.start()
    for way in world.ways():
        way.cut()
    world.rest(1, 2)
    old.kill()
    world.rest(1, 2)
    by_hand.take_the_database(world)


@scene("clock-steps", server="sandbox = false", prepare=by_hand.own_clock)
def clock_steps(world):
    """The clocks of nodes step by days, forwards and backwards."""
    if not glob.glob(FAKETIME):
        raise Left("the library of faketime is missing")
    for step in ("+10d", "-30d", "+3650d", "+0"):
        world.rest(0.3, 0.8)
        by_hand.step_clock(world.pick.choice(world.nodes), step)
    world.rest(1, 2)
    # A node with a wrong clock signs nothing.
    for node in world.nodes if world.signed else ():
        by_hand.step_clock(node, "+0")


@scene("connection-limit")
def connection_limit(world):
    """The user of the nodes may have one connection only, and later PostgreSQL has none left."""
    world.rest()
    world.sql("ALTER ROLE %s CONNECTION LIMIT 1" % NODE_USER)
    by_hand.end_sessions(world)
    world.rest(1, 2)
    world.sql("ALTER ROLE %s CONNECTION LIMIT -1" % NODE_USER)
    world.rest(1, 2)
    by_hand.end_sessions(world)
    held = by_hand.take_all_connections(world)
    world.rest(1, 2)
    for session in held:
        session.close()
    world.rest()


@scene("slow-disk", fsync=True)
def slow_disk(world):
    """Commits take 100 ms; then PostgreSQL stands still for longer than the timeout of the nodes, and goes on."""
    world.sql("ALTER SYSTEM SET commit_delay = 100000")
    world.sql("ALTER SYSTEM SET commit_siblings = 0")
    world.sql("SELECT pg_reload_conf()")
    world.rest(1, 2)
    for _ in range(2):
        world.primary.signal_all(signal.SIGSTOP)
        world.rest(0.5, 4)
        world.primary.signal_all(signal.SIGCONT)
        world.rest(0.5, 1)


@scene("rolled-back")
def rolled_back(world):
    """Changes by hand, in transactions that are rolled back after a while or whose session is killed."""
    for number in range(6):
        world.rest(0.1, 0.5)
        by_hand.commit_by_hand(world, "n%d" % world.pick.randrange(4), world.pick.uniform(0, 0.8), "ROLLBACK" if number % 2 else None)
    world.rest()


@scene("late-commit")
def late_commit(world):
    """Changes by hand, in transactions that are committed late: some after the timeout of the nodes."""
    for number in range(5):
        world.rest(0.1, 0.5)
        by_hand.commit_by_hand(world, "n%d" % world.pick.randrange(4), world.pick.uniform(0, 3.5), "COMMIT")
    world.rest()


@scene("number-gaps")
def number_gaps(world):
    """Numbers of zones are left out, by hand and by creations that are rolled back."""
    for _ in range(6):
        world.rest(0.1, 0.5)
        by_hand.create_and_roll_back(world)
        world.sql("SELECT nextval(pg_get_serial_sequence('nomen.zones', 'id')) FROM generate_series(1, %d)" % world.pick.randrange(1, 1000))
    world.rest()


@scene("old-changes")
def old_changes(world):
    """The database forgets all changes but the last ones while a node is away: it gets whole zones."""
    world.history.log_is_cut = True
    for _ in range(2):
        world.rest(0.5, 1)
        way = world.pick.choice(world.ways())
        way.refuse = True
        way.cut()
        world.rest(0.5, 1)
        by_hand.unguarded(world, "DELETE FROM nomen.changes WHERE number <= (SELECT last_change - 2 FROM nomen.about)")
        way.refuse = False
    world.rest()


@scene("sql-by-hand")
def sql_by_hand(world):
    """Statements of others: the tables refuse them; zones are locked for a while; a table is vacuumed and analyzed."""
    statements = ["UPDATE nomen.zones SET serial = serial + 1", "DELETE FROM nomen.rrsets", "UPDATE nomen.rrsets SET ttl = 1",
                  "DELETE FROM nomen.zones", "INSERT INTO nomen.zones (name, serial, change) VALUES ('by.hand.', 1, 1)",
                  "UPDATE nomen.about SET last_change = 0", "DELETE FROM nomen.changes", "TRUNCATE nomen.rrsets", "TRUNCATE nomen.zones CASCADE",
                  "UPDATE nomen.changes SET tag = 0"]
    for text in statements:
        world.rest(0, 0.2)
        for user in (None, NODE_USER):
            by_hand.expect_refusal(world, text, user)
    world.sql("VACUUM FULL nomen.rrsets")
    world.sql("ANALYZE")
    session = world.primary.session()
    session.query("BEGIN; LOCK TABLE nomen.rrsets IN ACCESS EXCLUSIVE MODE")
    world.rest(0.5, 3)
    session.query("ROLLBACK")
    session.close()
    world.rest()


@scene("half-migrated")
def half_migrated(world):
    """A function is missing, a column has another name, the version is one that the nodes do not know; then all is as before."""
    for broken, mended in by_hand.schema_faults(world):
        world.rest(0.3, 0.8)
        by_hand.unguarded(world, broken)
        by_hand.end_sessions(world)
        world.rest(0.5, 1)
        node = world.pick.choice(world.nodes)
        node.kill()
        node.start()
        world.rest(0.3, 0.8)
        by_hand.unguarded(world, mended)
    world.rest()


@scene("unfit-records")
def unfit_records(world):
    """Records that do not parse, written past the triggers. The nodes keep the last version of that zone, and the others go on."""
    world.rest(0.5, 1)
    by_hand.break_zone(world)
    world.rest(1, 2)
    node = world.pick.choice(world.nodes)
    node.kill()
    node.start()
    world.rest(1, 2)
    by_hand.mend_zone(world)
    world.rest()
