"""PostgreSQL for the checks: servers in temporary folders, their replicas, and a client of the simple query protocol.

The programs are those of Debian's package `postgresql` (/usr/lib/postgresql/VERSION/bin), or those of PATH. They run as the user `postgres`
if the script is root, because PostgreSQL refuses root.
"""
import glob, os, pwd, re, shutil, signal, socket, struct, subprocess, time

HOST, ADMIN, NODE_USER, PASSWORD, DATABASE = "127.0.0.1", "admin", "nomen", "secret", "nomen"
START_SECONDS = 30


class SqlError(Exception):
    """An error that PostgreSQL reports, with its SQLSTATE; "08006" if the connection has ended."""

    def __init__(self, text, state="08006"):
        super().__init__("%s (%s)" % (text, state))
        self.state = state


def quote(value):
    """A literal of SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "ARRAY[%s]::text[]" % ",".join(map(quote, value))
    return "'%s'" % value.replace("'", "''") if "\\" not in value else " E'%s'" % value.replace("\\", "\\\\").replace("'", "''")


class Session:
    """A connection. `begin` and `end` are the two halves of `query`, so that one thread can have many statements under way."""

    def __init__(self, port, user=ADMIN, database=DATABASE, timeout=60, name="check"):
        try:
            self.socket = socket.create_connection((HOST, port), timeout=timeout)
            fields = ("user", user, "database", database, "application_name", name)
            body = struct.pack(">I", 196608) + b"".join(field.encode() + b"\0" for field in fields) + b"\0"
            self.socket.sendall(struct.pack(">I", len(body) + 4) + body)
            self.replies = self.socket.makefile("rb")
        except OSError as why:
            raise SqlError(str(why))
        self.end()

    def query(self, sql):
        """Executes statements. Returns the rows of the last one that has rows: tuples of texts and None."""
        self.begin(sql)
        return self.end()

    def value(self, sql):
        rows = self.query(sql)
        return rows[0][0] if rows else None

    def begin(self, sql):
        body = sql.encode() + b"\0"
        try:
            self.socket.sendall(b"Q" + struct.pack(">I", len(body) + 4) + body)
        except OSError as why:
            raise SqlError(str(why))

    def end(self):
        rows, fault = [], None
        while True:
            kind, body = self.receive()
            if kind == b"T":
                rows = []
            elif kind == b"D":
                rows.append(self.row(body))
            elif kind == b"E":
                fields = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
                fault = SqlError(fields.get(b"M", "?") + (" | " + fields[b"H"] if b"H" in fields else ""), fields.get(b"C", "?"))
                if fields.get(b"V") in ("FATAL", "PANIC"):
                    raise fault
            elif kind == b"R" and struct.unpack_from(">I", body)[0]:
                raise SqlError("the server asks for a password", "28000")
            elif kind == b"Z":
                if fault:
                    raise fault
                return rows

    def receive(self):
        try:
            head = self.replies.read(5)
            size = struct.unpack(">I", head[1:])[0] - 4 if len(head) == 5 else 0
            body = self.replies.read(size)
        except (OSError, ValueError) as why:
            raise SqlError(str(why))
        if len(head) < 5 or len(body) < size:
            raise SqlError("the connection has ended")
        return head[:1], body

    @staticmethod
    def row(body):
        at, values = 2, []
        for _ in range(struct.unpack_from(">H", body)[0]):
            size = struct.unpack_from(">i", body, at)[0]
            values.append(None if size < 0 else body[at + 4:at + 4 + size].decode())
            at += 4 + max(size, 0)
        return tuple(values)

    def close(self):
        for one in (self.replies, self.socket):
            try:
                one.close()
            except OSError:
                pass


def programs():
    """The folder of PostgreSQL's programs, or None."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(re.findall(r"[\d.]+", path)[0].strip(".") or 0))
    found = shutil.which("initdb")
    return folders[-1] if folders else os.path.dirname(os.path.realpath(found)) if found else None


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class Postgres:
    """A PostgreSQL in a folder. `fsync` is off unless durability is measured: what a kill leaves is the same with both."""

    SETTINGS = {"listen_addresses": HOST, "wal_level": "replica", "max_wal_senders": 5, "max_connections": 60, "log_checkpoints": "off",
                "hot_standby": "on", "wal_keep_size": "64MB", "max_replication_slots": 5, "wal_sender_timeout": "3s", "wal_receiver_timeout": "3s",
                "log_connections": "on", "log_line_prefix": "'%m %p %a '", "max_wal_size": "512MB", "wal_retrieve_retry_interval": "200ms"}

    def __init__(self, folder, fsync=False, name="database"):
        self.name, self.data, self.port, self.process = name, os.path.join(folder, name), free_port(), None
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        self.settings, self.log = dict(self.SETTINGS, fsync="on" if fsync else "off"), os.path.join(folder, name + ".log")
        os.makedirs(folder, exist_ok=True)
        if self.user:
            os.chmod(folder, 0o711)

    def run(self, program, *words, check=True):
        """Runs one of PostgreSQL's programs to its end."""
        done = subprocess.run([self.command(program), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                              text=True, timeout=120, **self.rights())
        if check and done.returncode:
            raise SqlError("%s: %s" % (program, done.stdout), "?")
        return done.stdout

    def rights(self):
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}

    @staticmethod
    def command(program):
        return os.path.join(programs(), program)

    def make_folder(self):
        os.mkdir(self.data, 0o700)
        if self.user:
            os.chown(self.data, self.user.pw_uid, self.user.pw_gid)

    def create(self, template=None):
        """Makes the data folder: with initdb, or as a copy of that of a stopped server."""
        self.make_folder()
        if template:
            subprocess.run(["cp", "-a", template.data + "/.", self.data], check=True)
            return
        self.run("initdb", "-D", self.data, "-U", ADMIN, "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync")
        # The nodes have a password, as they have in service; the checks themselves have none.
        with open(self.data + "/pg_hba.conf", "w") as file:
            file.write("host all %s 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n"
                       % NODE_USER)

    def start(self, wait=True):
        """Starts the server. After a kill, its old processes may still be ending: it is tried again until they have."""
        until = time.monotonic() + START_SECONDS
        settings = [word for key, value in self.settings.items() for word in ("-c", "%s=%s" % (key, str(value).strip("'")))]
        while True:
            with open(self.log, "a") as log:
                self.process = subprocess.Popen([self.command("postgres"), "-D", self.data, "-p", str(self.port), "-k", "", *settings],
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, **self.rights())
            if not wait:
                return
            while self.process.poll() is None and time.monotonic() < until:
                try:
                    self.session(database="postgres").close()
                    return
                except SqlError:
                    time.sleep(0.03)
            if time.monotonic() > until:
                raise SqlError("PostgreSQL does not start; its log is %s" % self.log, "?")
            time.sleep(0.1)

    def session(self, user=ADMIN, database=DATABASE, timeout=60):
        return Session(self.port, user, database, timeout)

    def execute(self, sql, database=DATABASE):
        """Executes statements in a session of their own."""
        session = self.session(database=database)
        try:
            return session.query(sql)
        finally:
            session.close()

    def create_database(self):
        self.execute("CREATE ROLE %s LOGIN PASSWORD '%s'" % (NODE_USER, PASSWORD), "postgres")
        self.execute("CREATE DATABASE %s OWNER %s" % (DATABASE, NODE_USER), "postgres")

    def replica(self, folder, name, port=None, synchronous=True):
        """Makes and starts a replica of this server, which follows it at `port` (its own, or that of a proxy)."""
        replica = Postgres(folder, name=name)
        replica.settings = dict(self.settings)
        source = "host=%s port=%d user=%s application_name=%s" % (HOST, port or self.port, ADMIN, name)
        replica.make_folder()
        self.run("pg_basebackup", "-D", replica.data, "-d", source, "-R", "-c", "fast", "--no-sync")
        replica.start()
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '%s'" % ("*" if synchronous else ""), "postgres")
        self.execute("SELECT pg_reload_conf()", "postgres")
        until = time.monotonic() + START_SECONDS
        while self.execute("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND (sync_state = 'sync') = %s"
                           % str(synchronous).lower(), "postgres")[0][0] == "0":
            if time.monotonic() > until:
                raise SqlError("the replica does not follow", "?")
            time.sleep(0.05)
        return replica

    def promote(self):
        """Makes a replica the primary. It waits for no replica of its own from then on."""
        self.settings["synchronous_standby_names"] = ""
        self.execute("SELECT pg_promote(true, 20)", "postgres")

    def family(self):
        """The process and its children."""
        pids = [self.process.pid]
        try:
            pids += map(int, open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)).read().split())
        except OSError:
            pass
        return pids

    def signal_all(self, number):
        for pid in self.family():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        """Ends all processes at once, with nothing written."""
        self.signal_all(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.signal_all(signal.SIGCONT)
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
