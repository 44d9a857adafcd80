"""The servers of `signed-zones`: nomen with signed zones, and resolvers that validate them. All are on loopback at free ports."""
import base64, os, shutil, signal, socket, struct, subprocess, tempfile, time
from . import dns

START_TIMEOUT, SIGNING_TIMEOUT = 60, 120


def free_port():
    """A port that neither TCP nor UDP uses."""
    while True:
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            try:
                udp.bind(tcp.getsockname())
                return tcp.getsockname()[1]
            except OSError:
                pass


class Failure(Exception):
    """A program does not do what the comparison needs."""


class Process:
    """A server in a folder of its own."""

    def __init__(self, name):
        self.name, self.folder, self.port, self.process = name, tempfile.mkdtemp(prefix="signed-zones-"), free_port(), None
        os.chmod(self.folder, 0o755)

    def write(self, name, text):
        with open(os.path.join(self.folder, name + ".new"), "w") as file:
            file.write(text)
        os.replace(file.name, os.path.join(self.folder, name))

    def log(self):
        with open(self.folder + "/log", errors="replace") as file:
            return file.read()

    def start(self, words, zone):
        with open(self.folder + "/log", "a") as log:
            self.process = subprocess.Popen(words, cwd=self.folder, stdout=log, stderr=log)
        until = time.monotonic() + START_TIMEOUT
        while time.monotonic() < until and self.process.poll() is None:
            if dns.ask(self.port, zone, "SOA", timeout=0.5, tries=1):
                return
            time.sleep(0.05)
        raise Failure("%s does not start:\n%s" % (self.name, self.log()[-3000:]))

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Signer(Process):
    """A nomen that signs zones by policies."""

    def __init__(self, program):
        super().__init__("nomen")
        self.program, self.policies, self.zones, self.files = program, {}, {}, {}

    def add(self, zone, text, policy, more=""):
        """Adds a zone with the text of its file. `more` is further lines of its section."""
        self.files[zone] = "zone-%d" % len(self.files)
        self.write(self.files[zone], text)
        self.zones[zone] = policy, more

    def configure(self):
        text = '[server]\nstate-dir = "state"\nworkers = 1\n[[listen]]\naddr = ["127.0.0.1@%d"]\n[control]\nsocket = "ctl.sock"\n' % self.port
        for name, settings in self.policies.items():
            text += "[dnssec-policy.%s]\n%s" % (name, settings)
        for zone, (policy, more) in self.zones.items():
            quoted = zone.replace("\\", "\\\\").replace('"', '\\"')
            text += '[[zone]]\nname = "%s"\nfile = "%s"\nallow-update = ["127.0.0.0/8"]\nallow-transfer = ["127.0.0.0/8"]\n%s%s' % (
                quoted, self.files[zone], 'dnssec-policy = "%s"\n' % policy if policy else "", more)
        self.write("nomen.toml", text)

    def serve(self):
        self.configure()
        self.start([self.program, "serve", "--config", "nomen.toml"], next(iter(self.zones)))
        self.wait_for_signatures(self.zones)

    def wait_for_signatures(self, zones):
        until = time.monotonic() + SIGNING_TIMEOUT
        left = [zone for zone in zones if self.zones[zone][0]]
        while left:
            if time.monotonic() > until:
                raise Failure("nomen does not sign %s:\n%s" % (" ".join(left[:10]), self.log()[-3000:]))
            left = [zone for zone in left if not self.signed(zone)]
            time.sleep(0.1 if left else 0)

    def signed(self, zone):
        reply = dns.ask(self.port, zone, "SOA", False)
        return reply is not None and reply.has("RRSIG")

    def reload(self):
        self.configure()
        done = subprocess.run([self.program, "ctl", "--config", "nomen.toml", "reload"], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise Failure("reload: " + done.stdout + done.stderr)

    def transfer(self, zone):
        """The records of a zone, one a line, with the SOA once."""
        words = ["dig", "+noall", "+answer", "+onesoa", "+time=30", "-p", str(self.port), "@127.0.0.1", "-q", zone, "-t", "AXFR"]
        done = subprocess.run(words, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line and not line.startswith(";")]
        if done.returncode or not lines:
            raise Failure("AXFR of %s: %s%s" % (zone, done.stdout[-500:], done.stderr))
        return lines

    def update(self, message):
        """Sends an UPDATE. Returns its RCODE, None without a reply."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", self.port))
            client.settimeout(5)
            for _ in range(3):
                try:
                    client.send(message)
                    reply = client.recv(1500)
                    if reply[:2] == message[:2]:
                        return reply[3] & 15
                except OSError:
                    pass
        return None


def trust_anchor(signer, zone):
    """The keys with the SEP flag of a zone, in presentation format: flags, protocol, algorithm, key."""
    reply = dns.ask_tcp(signer.port, dns.query(zone, "DNSKEY", 1, False), 10)
    found = []
    for data in sorted(reply.data("DNSKEY")):
        flags, protocol, algorithm = struct.unpack_from(">HBB", data)
        if flags & 1:
            found.append((flags, protocol, algorithm, base64.b64encode(data[4:]).decode()))
    return found


UNBOUND = """server:
 directory: "%(folder)s"
 chroot: ""
 username: ""
 pidfile: ""
 use-syslog: no
 verbosity: 1
 val-log-level: 2
 interface: 127.0.0.1@%(port)d
 do-not-query-localhost: no
 access-control: 127.0.0.0/8 allow
 module-config: "validator iterator"
 trust-anchor-file: "anchor"
 num-threads: 1
 outgoing-range: 256
 so-rcvbuf: 0
 so-sndbuf: 0
 msg-cache-size: 16m
 rrset-cache-size: 16m
 aggressive-nsec: no
remote-control:
 control-enable: no
"""
BIND = """options {
 directory "%(folder)s";
 pid-file none;
 session-keyfile none;
 listen-on port %(port)d { 127.0.0.1; };
 listen-on-v6 { none; };
 recursion yes;
 forward only;
 forwarders port %(upstream)d { 127.0.0.1; };
 dnssec-validation yes;
 empty-zones-enable no;
 querylog no;
 max-cache-size 64M;
};
controls { };
trust-anchors { %(anchors)s };
"""
NOMEN = """[server]
state-dir = "state"
workers = 1
[[listen]]
addr = ["127.0.0.1@%(port)d"]
[control]
socket = "ctl.sock"
[resolver]
trust-anchors = [%(anchors)s]
[[resolver.access]]
from = ["127.0.0.0/8"]
[[resolver.forward]]
domain = "."
servers = ["127.0.0.1@%(upstream)d"]
validate = true
"""


class Resolver(Process):
    """A resolver that has one trust anchor and asks one server for all names."""

    def __init__(self, kind, program, signer, apex):
        super().__init__(kind)
        self.program = program
        anchors = trust_anchor(signer, apex)
        values = {"folder": self.folder, "port": self.port, "upstream": signer.port}
        if kind == "unbound":
            text = UNBOUND % values
            text += 'forward-zone:\n name: "."\n forward-addr: 127.0.0.1@%d\n' % signer.port
            self.write("anchor", "".join("%s IN DNSKEY %d %d %d %s\n" % (apex, *anchor) for anchor in anchors))
            self.words = [program, "-d", "-c", "unbound.conf"]
            self.write("unbound.conf", text)
        elif kind == "bind":
            self.write("named.conf", BIND % dict(values, anchors=" ".join(
                '"%s" static-key %d %d %d "%s";' % (apex, *anchor) for anchor in anchors)))
            self.words = [program, "-g", "-c", "named.conf"]
        else:
            self.write("nomen.toml", NOMEN % dict(values, anchors=", ".join(
                '"%s DNSKEY %d %d %d %s"' % (apex, *anchor) for anchor in anchors)))
            self.words = [program, "serve", "--config", "nomen.toml"]
        self.start(self.words, apex)
