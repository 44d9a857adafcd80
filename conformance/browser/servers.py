"""The servers of `conformance/page`: nomen with the API, zones, keys, a resolver and lists; and a second nomen as its upstream and secondary."""
import hashlib, json, os, shutil, signal, socket, struct, subprocess, tempfile, time, urllib.error, urllib.request
from .chromium import Failure

TOKENS = {"admin": "all-of-it-5f2b", "viewer": "reads-only-77c1", "octodns": "some-records-0e9d"}
RIGHTS = {
    "admin": '[{ right = "all" }]',
    "viewer": '[{ right = "read" }]',
    "octodns": '[{ right = "change", zones = ["example.com"], types = ["TXT"] }]',
}
START_TIMEOUT = 60
HOSTILE_NAME = "<script>hostile=1</script>"
HOSTILE_TEXT = "<img src=x onerror='hostile=1'>"
EXAMPLE = """$TTL 3600
@ SOA ns1 hostmaster 1 7200 3600 1209600 300
@ NS ns1
@ MX 10 mail
ns1 A 127.0.0.1
mail A 192.0.2.25
www A 192.0.2.80
www AAAA 2001:db8::80
@ TXT "v=spf1 mx -all"
*.wild TXT "any name"
""" + "".join("host-%03d A 192.0.2.%d\n" % (number, number) for number in range(120))
HOSTILE = """$TTL 60
@ SOA ns1 hostmaster 1 7200 3600 1209600 300
@ NS ns1
ns1 A 127.0.0.1
%s TXT "%s"
text TXT "%s" "<script>hostile=1</script>" "\\"><svg onload=hostile=1>"
""" % (HOSTILE_NAME, "of a name", HOSTILE_TEXT)
PLAIN = "$TTL 60\n@ SOA ns1 hostmaster 1 7200 3600 1209600 300\n@ NS ns1\nns1 A 127.0.0.1\n"


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


class Server:
    """A nomen in a folder of its own."""

    def __init__(self, program, name):
        self.program, self.name, self.port, self.process = program, name, free_port(), None
        self.folder = tempfile.mkdtemp(prefix="page-%s-" % name)
        os.chmod(self.folder, 0o755)
        os.mkdir(self.folder + "/state")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def start(self, configuration, zone):
        self.write("nomen.toml", '[server]\nstate-dir = "state"\nworkers = 1\n[[listen]]\naddr = ["127.0.0.1@%d"]\n'
                   '[control]\nsocket = "ctl.sock"\n%s' % (self.port, configuration))
        with open(self.folder + "/log", "w") as log:
            self.process = subprocess.Popen([self.program, "serve", "--config", "nomen.toml"], cwd=self.folder, stdout=log, stderr=log)
        until = time.monotonic() + START_TIMEOUT
        while not self.dig(zone, "SOA"):
            if time.monotonic() > until or self.process.poll() is not None:
                with open(self.folder + "/log") as log:
                    raise Failure("%s does not start:\n%s" % (self.name, log.read()[-3000:]))
            time.sleep(0.05)

    def dig(self, name, rtype, *words):
        """The answers to a query, sorted."""
        done = subprocess.run(["dig", "+short", "+time=3", "+tries=1", "-p", str(self.port), "@127.0.0.1", name, rtype, *words],
                              capture_output=True, text=True, check=False)
        return sorted(line for line in done.stdout.splitlines() if line and not line.startswith(";"))

    def ask(self, names, seconds):
        """Sends queries for the names, some hundred a second."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", self.port))
            client.settimeout(0.2)
            until, number = time.monotonic() + seconds, 0
            while time.monotonic() < until:
                number += 1
                labels = names[number * number % 7 % len(names)].split(".")
                name = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
                client.send(struct.pack("!6H", number % 65536, 0x100, 1, 0, 0, 0) + name + struct.pack("!2H", 1, 1))
                try:
                    client.recv(4096)
                except TimeoutError:
                    continue
                time.sleep(0.002 + 0.003 * (number // 900 % 3))

    def ctl(self, *words):
        done = subprocess.run([self.program, "ctl", "-s", "ctl.sock", "--json", *words], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure("nomen ctl %s: %s" % (" ".join(words), done.stderr or done.stdout))
        return json.loads(done.stdout)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Tested(Server):
    """The nomen whose page is tested."""

    def __init__(self, program, zones):
        super().__init__(program, "nomen")
        self.api, self.zones, self.upstream = free_port(), zones, Server(program, "upstream")

    def url(self, path="/"):
        return "http://127.0.0.1:%d%s" % (self.api, path)

    def run(self):
        self.write("example.com.zone", EXAMPLE)
        self.write("hostile.zone", HOSTILE)
        self.write("signed.zone", PLAIN.replace("TTL 60", "TTL 2").replace(" 300\n", " 2\n"))
        self.write("slash.zone", PLAIN)
        self.write("ads.txt", "||ads.test^\n||tracker.test^\n")
        os.mkdir(self.folder + "/many")
        for number in range(self.zones):
            self.write("many/zone-%06d.test.zone" % number, PLAIN)
        upstream = self.upstream
        upstream.write("upstream.zone", PLAIN + "www A 192.0.2.53\n")
        upstream.start('[[zone]]\nname = "upstream.test"\nfile = "upstream.zone"\n[[zone]]\nname = "copied.test"\nfile = "upstream.zone"\n'
                       'allow-transfer = ["127.0.0.0/8"]\n[[zone]]\nname = "example.com"\nprimaries = ["127.0.0.1@%d"]\n'
                       % self.port, "upstream.test")
        tokens = "".join('[[api.token]]\nname = "%s"\nhash = "sha256:%s"\nrights = %s\n' % (
            name, hashlib.sha256(secret.encode()).hexdigest(), RIGHTS[name]) for name, secret in TOKENS.items())
        self.start("""
[api]
listen = ["127.0.0.1@%d"]
requests-per-second = 1000
%s
[resolver]
[[resolver.forward]]
domain = "upstream.test"
servers = ["127.0.0.1@%d"]
[[policy.list]]
name = "ads"
file = "ads.txt"
[[policy.group]]
name = "children"
from = ["127.0.0.2"]
[dnssec-policy.fast]
dnskey-ttl = "2s"
publish-safety = "1s"
retire-safety = "1s"
zone-propagation-delay = "1s"
parent-propagation-delay = "1s"
parent-ds-ttl = "2s"
[template.many]
directory = "many"
[[zone]]
name = "example.com"
file = "example.com.zone"
api = true
allow-transfer = ["127.0.0.0/8"]
notify = ["127.0.0.1@%d"]
[[zone]]
name = "copied.test"
primaries = ["127.0.0.1@%d"]
[[zone]]
name = "hostile.test"
file = "hostile.zone"
api = true
[[zone]]
name = "0/25.2.0.192.in-addr.arpa"
file = "slash.zone"
[[zone]]
name = "signed.test"
file = "signed.zone"
api = true
dnssec-policy = "fast"
""" % (self.api, tokens, upstream.port, upstream.port, upstream.port), "example.com")

    def request(self, method, path, body=None, token="admin"):
        """A request to the API beside the page: what another program does."""
        headers = {"X-API-Key": TOKENS[token], "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url("/api/nomen/v1" + path), data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as fault:
            raise Failure("%s %s: %d %s" % (method, path, fault.code, fault.read().decode(errors="replace"))) from None

    def end(self):
        self.upstream.end()
        super().end()
