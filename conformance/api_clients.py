"""Real clients of the API of PowerDNS, run against a nomen: `conformance/api --clients`.

octodns copies a zone from a file into the server, finds nothing to do when asked again, and removes a record. dns-lexicon creates, lists
and deletes records. lego gets a certificate from pebble with its pdns provider, and removes its records. Each step is checked in what the
server answers over DNS or HTTP.
"""
import json, os, shutil, socket, ssl, subprocess, sys, time

ZONE = "clients.example."


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Run:
    """Runs clients and counts what is wrong."""

    def __init__(self, api, key, tools, folder):
        self.api, self.key, self.tools, self.folder, self.faults = api, key, tools, folder, 0

    def check(self, what, good, detail=""):
        print("%-5s %s%s" % ("ok" if good else "FAULT", what, "" if good else ": " + str(detail)[-2000:]))
        self.faults += 0 if good else 1

    def command(self, what, command, **more):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180, cwd=self.folder, **more)
        self.check(what, done.returncode == 0, done.stdout)
        return done.stdout

    def records(self, zone, name, rtype):
        status, body = self.api.send("GET", "/zones/%s?rrset_name=%s&rrset_type=%s" % (zone, name, rtype), None)
        sets = body.get("rrsets", []) if status == 200 else []
        return sorted(record["content"] for one in sets for record in one["records"])

    def served(self, name, rtype):
        done = subprocess.run(["dig", "@127.0.0.1", "-p", str(self.api.dns), "+short", name, rtype], stdout=subprocess.PIPE, text=True, timeout=30)
        return sorted(done.stdout.split("\n")[:-1])

    def create(self, zone):
        status, body = self.api.send("POST", "/zones", {"name": zone, "kind": "Native", "nameservers": ["ns1." + zone]})
        self.check("zone %s is created" % zone, status == 201, body)


def octodns(run):
    tool, zones = os.path.join(run.tools, "bin/octodns-sync"), os.path.join(run.folder, "octodns")
    os.makedirs(zones)
    name = "octo.example."
    with open(os.path.join(zones, name + "yaml"), "w") as file:
        file.write("""---
'':
  - {type: NS, ttl: 3600, values: [ns1.octo.example., ns2.octo.example.]}
  - {type: MX, ttl: 300, values: [{preference: 10, exchange: mail.octo.example.}]}
  - {type: CAA, ttl: 300, values: [{flags: 0, tag: issue, value: ca.example}]}
www: {type: A, ttl: 60, values: [192.0.2.1, 192.0.2.2]}
www6: {type: AAAA, ttl: 60, value: "2001:db8::1"}
txt: {type: TXT, ttl: 60, values: ["v=spf1 -all", 'with \\; semicolon']}
alias: {type: CNAME, ttl: 60, value: www.octo.example.}
_sip._tcp: {type: SRV, ttl: 60, value: {priority: 1, weight: 2, port: 5060, target: sip.octo.example.}}
"*": {type: A, ttl: 60, value: 192.0.2.9}
""")
    config = os.path.join(run.folder, "octodns.yaml")
    with open(config, "w") as file:
        file.write("""---
providers:
  file: {class: octodns.provider.yaml.YamlProvider, directory: %s, default_ttl: 3600, enforce_order: false}
  server: {class: octodns_powerdns.PowerDnsProvider, host: 127.0.0.1, port: %d, api_key: %s, soa_edit_api: default}
zones:
  %s: {sources: [file], targets: [server]}
""" % (zones, run.api.port, run.key, name))
    run.command("octodns creates a zone and its records", [tool, "--config-file", config, "--doit", "--force"])
    run.check("octodns: address served", run.served("www." + name, "A") == ["192.0.2.1", "192.0.2.2"], run.served("www." + name, "A"))
    run.check("octodns: wildcard served", run.served("any." + name, "A") == ["192.0.2.9"])
    run.check("octodns: MX and CAA stored", run.records(name, name, "MX") == ["10 mail.octo.example."] and run.records(name, name, "CAA") == ['0 issue "ca.example"'])
    text = run.command("octodns plans again", [tool, "--config-file", config])
    run.check("octodns finds nothing to do", "No changes were planned" in text, text)
    path = os.path.join(zones, name + "yaml")
    lines = [line for line in open(path) if not line.startswith("alias")]
    with open(path, "w") as file:
        file.writelines(line.replace("192.0.2.1, ", "") for line in lines)
    run.command("octodns changes and removes records", [tool, "--config-file", config, "--doit", "--force"])
    run.check("octodns: the change is served", run.served("www." + name, "A") == ["192.0.2.2"])
    run.check("octodns: the removal is served", run.records(name, "alias." + name, "CNAME") == [])


def lexicon(run):
    # lexicon asks DNS which zone a name is in: this server, not that of the machine.
    tool = os.path.join(run.folder, "run_lexicon.py")
    with open(tool, "w") as file:
        file.write("""import dns.resolver
resolver = dns.resolver.Resolver(configure=False)
resolver.nameservers, resolver.port = ["127.0.0.1"], %d
dns.resolver.default_resolver = resolver
from lexicon._private.cli import main
main()
""" % run.api.dns)
    zone = "lexicon.example."
    run.create(zone)
    server = ["--auth-token", run.key, "--pdns-server", "http://127.0.0.1:%d" % run.api.port, "--pdns-server-id", "localhost"]

    def go(what, action, *more):
        return run.command("lexicon " + what, [os.path.join(run.tools, "bin/python"), tool, "powerdns", *server, action, zone.rstrip("."), *more])
    go("creates a record", "create", "TXT", "--name", "_acme-challenge", "--content", "token-1")
    run.check("lexicon: the record is served", run.served("_acme-challenge." + zone, "TXT") == ['"token-1"'], run.served("_acme-challenge." + zone, "TXT"))
    go("creates a second value", "create", "TXT", "--name", "_acme-challenge", "--content", "token-2")
    run.check("lexicon: both values are served", run.served("_acme-challenge." + zone, "TXT") == ['"token-1"', '"token-2"'])
    text = go("lists records", "list", "TXT")
    run.check("lexicon: the list has both", "token-1" in text and "token-2" in text, text)
    go("deletes a value", "delete", "TXT", "--name", "_acme-challenge", "--content", "token-1")
    run.check("lexicon: one value is left", run.served("_acme-challenge." + zone, "TXT") == ['"token-2"'])
    go("creates an address", "create", "A", "--name", "www", "--content", "192.0.2.1")
    run.check("lexicon: the address is served", run.served("www." + zone, "A") == ["192.0.2.1"])
    go("deletes all of it", "delete", "A", "--name", "www")
    run.check("lexicon: the address is gone", run.served("www." + zone, "A") == [])


def lego(run):
    zone = "lego.example."
    run.create(zone)
    folder = os.path.join(run.folder, "pebble")
    os.makedirs(folder)
    port, management = free_port(), free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, "pebble.json"), "w") as file:
        json.dump({"pebble": {"listenAddress": "127.0.0.1:%d" % port, "managementListenAddress": "127.0.0.1:%d" % management, "certificate": "cert.pem",
                              "privateKey": "key.pem", "httpPort": free_port(), "tlsPort": free_port()}}, file)
    log = open(os.path.join(folder, "log"), "wb")
    environment = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
    pebble = subprocess.Popen(["pebble", "-config", "pebble.json", "-dnsserver", "127.0.0.1:%d" % run.api.dns], cwd=folder, stdout=log, stderr=log, env=environment)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        environment = {**os.environ, "PDNS_API_URL": "http://127.0.0.1:%d" % run.api.port, "PDNS_API_KEY": run.key, "LEGO_CA_CERTIFICATES": os.path.join(folder, "cert.pem"),
                       "PDNS_PROPAGATION_TIMEOUT": "10", "PDNS_POLLING_INTERVAL": "1"}
        run.command("lego gets a certificate for a name and a wildcard", [
            "lego", "--accept-tos", "--email", "a@b.example", "--server", "https://localhost:%d/dir" % port, "--dns", "pdns", "--dns.resolvers",
            "127.0.0.1:%d" % run.api.dns, "--dns.disable-cp", "--path", os.path.join(folder, "lego"), "--domains", zone.rstrip("."), "--domains",
            "*." + zone.rstrip("."), "run"], env=environment)
        made = os.path.join(folder, "lego/certificates", zone.rstrip(".") + ".crt")
        run.check("lego has the certificate", os.path.exists(made))
        run.check("lego removed its records", run.records(zone, "_acme-challenge." + zone, "TXT") == [])
    finally:
        pebble.terminate()
        pebble.wait(10)


def run_clients(api, key, tools, folder):
    """Runs the clients that are there; returns the number of faults."""
    run = Run(api, key, tools, folder)
    for name, program, client in [("octodns", tools and os.path.join(tools, "bin/octodns-sync"), octodns),
                                  ("lexicon", tools and os.path.join(tools, "bin/lexicon"), lexicon), ("lego", shutil.which("lego") and shutil.which("pebble"), lego)]:
        if not program or not os.path.exists(program):
            print("LEFT OUT  %s: the program is not here" % name)
            continue
        client(run)
    return run.faults
