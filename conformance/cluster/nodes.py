"""Nodes: nomen programs with a database, an API and a DNS listener on loopback, each in a folder of its own."""
import hashlib, http.client, json, os, shutil, signal, subprocess, threading, time

from . import dns
from .postgres import DATABASE, HOST, NODE_USER, PASSWORD, free_port

KEY, BASE, START_SECONDS = "checks", "/api/nomen/v1", 60
MADE, REFUSED, UNCLEAR = "made", "refused", "unclear"
CONFIG = """[server]
state-dir = "state"
workers = 1
{server}
[[listen]]
addr = ["127.0.0.1@{dns}"]
[control]
socket = "ctl"
{database}
[api]
listen = ["127.0.0.1@{api}"]
requests-per-second = 100000
connections = 1000
template = "customers"
[[api.token]]
name = "checks"
hash = "sha256:{hash}"
rights = [ {{ right = "all" }} ]
[template.customers]
api = true
allow-update = ["127.0.0.0/8"]
allow-transfer = ["127.0.0.0/8"]
{signing}
"""
# Signatures are renewed every few seconds.
SIGNING = """dnssec-policy = "fast"
[dnssec-policy.fast]
signature-validity = "1m"
signature-refresh = "50s"
signature-jitter = "1s"
dnskey-ttl = "1s"
zone-propagation-delay = "0s"
publish-safety = "0s"
"""
SECTION = """[database]
url-file = "url"
template = "customers"
node = "{name}"
poll = "500ms"
timeout = "2s"
"""


class Node:
    """A nomen. `ports` are those of its ways to PostgreSQL, in the order in which it tries them; none: a node without a database."""

    def __init__(self, program, folder, name, ports, server="", section=SECTION, signed=False):
        self.program, self.name, self.folder = os.path.realpath(program), name, os.path.join(folder, name)
        self.dns, self.api, self.process, self.environment, self.log = free_port(), free_port(), None, dict(os.environ), self.folder + "/log"
        self.asker = dns.Asker(self.dns, 3)
        os.makedirs(self.folder + "/state")
        database = section.format(name=name) if ports else ""
        text = CONFIG.format(dns=self.dns, api=self.api, hash=hashlib.sha256(KEY.encode()).hexdigest(), database=database, server=server,
                             signing=SIGNING if signed else "")
        with open(self.folder + "/nomen.toml", "w") as file:
            file.write(text)
        self.write_url(ports)
        self.local = threading.local()
        # Signaled changes of it are known to the watcher: a node that is being killed may leave queries without a reply.
        self.is_up, self.starts = False, 0

    def write_url(self, ports):
        hosts = ",".join("%s:%d" % (HOST, port) for port in ports)
        with open(os.open(self.folder + "/url", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("postgresql://%s:%s@%s/%s\n" % (NODE_USER, PASSWORD, hosts, DATABASE))

    def start(self, wait=True):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([self.program, "serve", "--config", "nomen.toml"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True, env=self.environment)
        if wait:
            self.wait_until_up()

    def wait_until_up(self):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if self.request("GET", "/self")[0] == 200:
                    self.is_up, self.starts = True, self.starts + 1
                    return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("node %s does not start; its log is %s" % (self.name, self.log))

    def kill(self):
        self.is_up = False
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Ends the node as an operator does. Returns how long that takes."""
        begun, self.is_up = time.monotonic(), False
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        return time.monotonic() - begun

    def forget(self):
        """Removes all that the node has stored."""
        shutil.rmtree(self.folder + "/state")
        os.mkdir(self.folder + "/state")

    def request(self, method, path, body=None, timeout=15):
        """Sends a request on the connection of this thread. Returns the status and the decoded body. OSError: no reply."""
        connection = getattr(self.local, "connection", None)
        if connection is None or connection.sock is None:
            connection = self.local.connection = http.client.HTTPConnection(HOST, self.api, timeout=timeout)
        try:
            connection.request(method, BASE + path, json.dumps(body) if body is not None else None, {"X-API-Key": KEY, "Content-Type": "application/json"})
            reply = connection.getresponse()
            data = reply.read()
            return reply.status, json.loads(data) if data[:1] in (b"{", b"[") else data.decode("utf-8", "replace")
        except (OSError, http.client.HTTPException, ValueError) as why:
            connection.close()
            self.local.connection = None
            raise OSError("%s %s: %r" % (method, path, why))

    def change(self, method, path, body=None):
        """Has the node change something. Returns MADE, REFUSED or UNCLEAR, and the reply or why there is none."""
        try:
            status, reply = self.request(method, path, body)
        except OSError as why:
            return UNCLEAR, str(why)
        return outcome_of(status, reply), reply if status < 300 else (status, reply)

    def edit(self, zone, values):
        edits = [{"op": "replace", "name": name, "type": "TXT", "ttl": 60, "records": ['"%s"' % text]} for name, text in values.items()]
        return self.change("POST", "/zones/%s/edit" % zone, {"edits": edits})

    def create(self, zone, records):
        return self.change("POST", "/zones", {"name": zone, "records": records})

    def remove(self, zone):
        return self.change("DELETE", "/zones/%s" % zone)

    def dump(self, zone, path):
        """Writes a zone to a file as it is served."""
        with open(path, "w") as file:
            subprocess.run([self.program, "ctl", "-s", self.folder + "/ctl", "zone", "dump", zone], stdin=subprocess.DEVNULL, stdout=file, check=True, timeout=60)

    def memory(self):
        """Kilobytes of memory that the process uses."""
        for line in open("/proc/%d/status" % self.process.pid):
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        return 0


def outcome_of(status, reply):
    """Whether a change is made. Only a reply that says so is a refusal: all others leave it open."""
    if status < 300:
        return MADE
    text = json.dumps(reply)
    if "not known whether" in text or status in (408, 502, 504) or status == 500 and "not available" not in text and "other nodes change" not in text:
        return UNCLEAR
    return REFUSED
