"""The part `zones`: signed zones beside four verifiers."""
import base64, concurrent.futures, glob, hashlib, itertools, os, random, re, subprocess, tempfile
from . import dns
from .random_zones import RandomZone
from .servers import Failure, Signer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN_TIMEOUT, DIGEST_TIMEOUT, SINGLE_UPDATES = 60, 4, 3
ALGORITHMS = ["ecdsap256sha256", "ed25519", "rsasha256", "ecdsap384sha384", "rsasha512"]
DENIALS = ["nsec", "nsec3", "opt-out", "salted"]
POLICIES = [(algorithm, denial, single, zonemd) for single, zonemd, denial, algorithm in itertools.product(
    (True, False), (True, False), DENIALS, ALGORITHMS)]
MADE_BY_SIGNER = ("RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "ZONEMD")


class Rule:
    """A message of a verifier about a zone that is right. EXPLAINED.md has a section for each, with its reason."""

    def __init__(self, name, verifier, message, when):
        self.name, self.verifier, self.message, self.when = name, verifier, message, when

    def fits(self, line, case, lines):
        found = re.search(self.message, line)
        return bool(found) and self.when(found, case, lines)


def below_dname(found, case, lines):
    """Whether the owner in a message is below a DNAME of the zone."""
    owner = dns.key(found[1])
    dnames = [dns.key(line.split()[0]) for line in lines if line.split(None, 4)[3] == "DNAME"]
    return any(len(owner) > len(dname) and dns.below(owner, dname) for dname in dnames)


def digest_and_nsec3(_, case, lines):
    """Whether a zone has a digest and NSEC3 records."""
    return case.policy[3] and case.policy[1] != "nsec"


def wildcard_ns(_, case, lines):
    """Whether a zone has NS records at a wildcard."""
    return any(line.startswith("*.") and line.split(None, 4)[3] == "NS" for line in lines)


def dnskey_below_apex(found, case, lines):
    """Whether a zone has a DNSKEY RRset at this name, which is not the apex."""
    return dns.key(found[1]) != dns.key(case.apex) and any(
        line.split(None, 4)[3] == "DNSKEY" and dns.key(line.split()[0]) == dns.key(found[1]) for line in lines)


def amtrelay(found, case, lines):
    """Whether the line of a message has an AMTRELAY record."""
    return lines[int(found[1]) - 1].split(None, 4)[3] == "AMTRELAY"


def nsec3_hash(name, salt, iterations):
    """The hash of a name (RFC 5155, section 5), a tuple of labels in lower case, in base32hex."""
    digest = b"".join(bytes([len(label)]) + label for label in name) + b"\0"
    for _ in range(iterations + 1):
        digest = hashlib.sha1(digest + salt).digest()
    return base64.b32hexencode(digest).decode().lower()


def covers_delegation_below_dname(found, case, lines):
    """Whether the NSEC3 record in a message covers a delegation that a DNAME occludes."""
    rows = [line.split(None, 4) for line in lines]
    first = found[1].split(".")[0].lower()
    for owner, _, _, rtype, data in rows:
        if rtype == "NSEC3" and owner.split(".")[0].lower() == first:
            _, _, iterations, salt, following = data.split()[:5]
            break
    else:
        return False
    following, salt = following.lower(), b"" if salt == "-" else bytes.fromhex(salt)
    dnames = [dns.key(row[0]) for row in rows if row[3] == "DNAME"]
    for name in {dns.key(row[0]) for row in rows if row[3] == "NS"}:
        if any(len(name) > len(dname) and dns.below(name, dname) for dname in dnames):
            place = nsec3_hash(name, salt, int(iterations))
            if first < place < following if first < following else place > first or place < following:
                return True
    return False


EXPLAINED = [
    Rule("below-dname", "kzonecheck", r"^\[(\S+)\] wrong NSEC3 opt-out", covers_delegation_below_dname),
    Rule("amtrelay", "ldns-verify-zone", r"could not parse the RR's rdata at line (\d+)", amtrelay),
    Rule("digest-and-nsec3", "ldns-verify-zone", r"^it does not end in", digest_and_nsec3),
    Rule("wildcard-ns", "dnssec-verify", r"invalid NS owner name \(wildcard\)", wildcard_ns),
    Rule("dnskey-below-apex", "dnssec-verify", r"^No correct \S+ signature for (\S+) DNSKEY", dnskey_below_apex),
    Rule("below-dname", "kzonecheck", r"^\[(\S+)\] missing NSEC\(3\) record", below_dname),
]


def policy_name(policy):
    algorithm, denial, single, zonemd = policy
    return "-".join((algorithm, denial, "csk" if single else "ksk-zsk")) + ("-zonemd" if zonemd else "")


def policy_settings(policy):
    """The section of a policy in nomen's configuration."""
    algorithm, denial, single, zonemd = policy
    lines = ['algorithm = "%s"' % algorithm, "single-key = %s" % str(single).lower(), "zonemd = %s" % str(zonemd).lower()]
    if denial != "nsec":
        lines.append("nsec3 = true")
    if denial == "opt-out":
        lines.append("nsec3-opt-out = true")
    if denial == "salted":
        lines += ['nsec3-salt = "ab01cd"', "nsec3-iterations = 3"]
    return "\n".join(lines) + "\n"


def sign_options(policy):
    """The same for `nomen zone sign`."""
    _, denial, _, zonemd = policy
    return {"nsec": [], "nsec3": ["--nsec3"], "opt-out": ["--nsec3", "--opt-out"], "salted": [
        "--nsec3", "--salt", "ab01cd", "--iterations", "3", "--allow-iterations"]}[denial] + (["--zonemd"] if zonemd else [])


class Case:
    """One zone under one policy, with the results of signing it."""

    def __init__(self, apex, text, policy, scripts, origin):
        self.apex, self.text, self.policy, self.scripts, self.origin = apex, text, policy, scripts, origin
        self.results, self.wrong, self.explained, self.checks, self.refused = {}, [], [], 0, 0

    def fault(self, what):
        self.wrong.append("%s (%s), policy %s: %s" % (self.apex, self.origin, policy_name(self.policy), what))


def run(words, folder, text=None, limit=RUN_TIMEOUT):
    """Runs a program, for some seconds at most. Returns its exit status and its output."""
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", input=text, timeout=limit)
    except subprocess.TimeoutExpired:
        return -1, "it does not end in %d s" % limit
    return done.returncode, done.stdout + done.stderr


def real_zones():
    """The zones of the project that are not signed: name, and text with `<apex>` for their apex."""
    found = []
    for path in sorted(glob.glob(ROOT + "/conformance/zones/*.zone")) + [ROOT + "/crates/server/src/builtin/example.com.zone"]:
        with open(path) as file:
            text = file.read()
        name = re.search(r"^\$ORIGIN (\S+)", text, re.MULTILINE)
        text = text.replace(name[1] if name else os.path.basename(path)[:-4] + "test.", "<apex>")
        found.append((os.path.basename(path), text))
    return found


def apex_of(number, pick):
    """An apex of a zone: mostly of one label, some deep or with escapes."""
    return pick.choice(["z%d.", "z%d.", "Upper.Z%d.", "z%d.a.b.c.d.e.f.", "\\000\\.x.z%d.", "sp\\032ace.z%d."]) % number


def cases(options):
    """All zones, each under several policies."""
    pick, found = random.Random(options.seed), []
    policies = itertools.cycle(pick.sample(POLICIES, len(POLICIES)))
    texts = [(name, text) for name, text in real_zones()] if options.real else []
    for name, text in texts:
        for _ in range(options.policies):
            apex = "r%d.test-zones." % len(found)
            found.append(Case(apex, text.replace("<apex>", apex), next(policies), [], name))
    for number in range(options.zones):
        zone = RandomZone(random.Random(options.seed * 1_000_003 + number), pick.choice((3, 10, 30, 60)))
        for _ in range(options.policies):
            apex = "." if not any(case.apex == "." for case in found) else apex_of(len(found), pick)
            found.append(Case(apex, zone.text(apex), next(policies), zone.updates(apex, options.updates), "random %d" % number))
    return found


def sign_offline(case, options, folder):
    """Signs by `nomen zone sign`. The result goes to `case.results`."""
    algorithm, _, single, _ = case.policy
    for role in ["csk"] if single else ["ksk", "zsk"]:
        code, said = run([options.program, "key", "generate", "-a", algorithm, "--role", role, "-K", ".", "--", case.apex], folder)
        if code:
            return case.fault("key generate: " + said)
    with open(folder + "/plain", "w") as file:
        file.write(case.text)
    words = [options.program, "zone", "sign", *sign_options(case.policy), "-K", ".", "-o", "offline", "--", case.apex, "plain"]
    code, said = run(words, folder)
    if code:
        return case.fault("zone sign: " + said)
    case.results["offline"] = "offline"


def verifiers(case, name):
    """The commands that read a signed zone."""
    _, _, single, zonemd = case.policy
    return {
        "dnssec-verify": ["dnssec-verify", "-q", *(["-z"] if single else []), "-o", case.apex, name],
        "ldns-verify-zone": ["ldns-verify-zone", *(["-Z", "-Z"] if zonemd else []), name],
        "kzonecheck": ["kzonecheck", "-d", "on", "-o", case.apex, name],
        "nomen": ["nomen", "zone", "check", "--dnssec", "--errors", "1000", "--", case.apex, name],
    }


def known_faults(verifier, case, options, folder, lines):
    """What kzonecheck and nomen say about the same zone without signatures."""
    kept = [line for line in lines if line.split(None, 4)[3] not in MADE_BY_SIGNER]
    with open(folder + "/bare", "w") as file:
        file.write("\n".join(kept) + "\n")
    words = ["kzonecheck", "-d", "off", "-o", case.apex, "bare"] if verifier == "kzonecheck" else [
        options.program, "zone", "check", "--errors", "1000", "--", case.apex, "bare"]
    return set(faults_in(verifier, run(words, folder)[1]))


def faults_in(verifier, said):
    """The faults that a verifier prints, without their places."""
    if verifier == "nomen":
        return re.findall(r"^\S+ error: (.*)", said, re.MULTILINE)
    skip = r"\s*\d+\t|.*Serious semantic|\s*$" if verifier == "kzonecheck" else r"\s*$"
    return [line.strip() for line in said.splitlines() if not re.match(skip, line)]


def verify(case, options, folder, way):
    """Has all verifiers read a result."""
    name = case.results[way]
    with open(folder + "/" + name) as file:
        lines = file.read().splitlines()
    for verifier, words in verifiers(case, name).items():
        if verifier == "nomen":
            words[0] = options.program
        code, said = run(words, folder, limit=DIGEST_TIMEOUT if verifier == "ldns-verify-zone" and digest_and_nsec3(
            None, case, lines) else RUN_TIMEOUT)
        case.checks += 1
        if not code:
            continue
        left = faults_in(verifier, said)
        if verifier in ("kzonecheck", "nomen"):
            known = known_faults(verifier, case, options, folder, lines)
            left = [line for line in left if line not in known]
            if not left and known:
                continue
        rules = [rule for rule in EXPLAINED if rule.verifier == verifier]
        matched = {rule.name for rule in rules for line in left if rule.fits(line, case, lines)}
        left = [line for line in left if not any(rule.fits(line, case, lines) for rule in rules)]
        if matched and not left:
            case.explained += sorted(matched)
        else:
            case.fault("%s, %s: %s" % (way, verifier, "\n    ".join(left[:12])))
            if options.keep:
                run(["cp", name, "%s/%s-%s" % (options.keep, re.sub(r"[^\w.]", "_", case.apex), way)], folder)


def chain(lines):
    """What a zone has of denial, and which RRsets are signed, without what differs between signings."""
    found = set()
    for line in lines:
        owner, ttl, _, rtype, data = line.split(None, 4)
        if rtype in ("NSEC", "NSEC3", "NSEC3PARAM"):
            found.add((owner.lower(), ttl, rtype, data.lower()))
        elif rtype == "RRSIG":
            covered, algorithm, count, original = data.split()[:4]
            found.add((owner.lower(), ttl, rtype, covered, algorithm, count, original))
    return found


def compare_with_offline(case, options, folder, server, way):
    """Signs the records of the server's result again, as a whole, with the same keys: the chains have to be equal."""
    with open(folder + "/" + case.results[way]) as file:
        lines = file.read().splitlines()
    kept = [line for line in lines if line.split(None, 4)[3] not in MADE_BY_SIGNER or line.split(None, 4)[3] in (
        "CDS", "CDNSKEY", "ZONEMD", "DNSKEY")]
    with open(folder + "/again.plain", "w") as file:
        file.write("\n".join(kept) + "\n")
    words = [options.program, "zone", "sign", *sign_options(case.policy), "-K", server.folder + "/state/keys", "-o", "again", "--",
             case.apex, "again.plain"]
    code, said = run(words, folder)
    case.checks += 1
    if code:
        return case.fault("%s, signed again: %s" % (way, said))
    # In the same form.
    outputs = []
    for name in case.results[way], "again":
        code, said = run([options.program, "zone", "dump", "--", case.apex, name], folder)
        outputs.append(chain(line for line in said.splitlines() if line and not line.startswith(";")))
    if outputs[0] != outputs[1]:
        more, less = sorted(outputs[0] - outputs[1])[:4], sorted(outputs[1] - outputs[0])[:4]
        case.fault("%s differs from signing the whole zone: only here %s, only there %s" % (way, more, less))


def update(case, options, folder, server, number):
    """Changes a zone by dynamic updates, by nomen's client or by BIND's."""
    text = "server 127.0.0.1 %d\nzone %s\n" % (server.port, case.apex)
    if number % 2:
        code, said = run(["nsupdate", "-t", "30"], folder, "check-names no\n" + text + "".join(case.scripts))
        case.refused += said.count("update failed")
        if code and "update failed" not in said:
            case.fault("nsupdate: " + said[:500])
    else:
        for script in case.scripts[:SINGLE_UPDATES]:
            case.refused += bool(run([options.program, "update"], folder, text + script)[0])
        case.refused += bool(run([options.program, "update"], folder, text + "".join(case.scripts[SINGLE_UPDATES:]))[0])


def results_of_server(case, options, folder, server, way):
    with open(folder + "/" + way, "w") as file:
        file.write("\n".join(server.transfer(case.apex)) + "\n")
    case.results[way] = way
    verify(case, options, folder, way)
    if way in case.results:
        compare_with_offline(case, options, folder, server, way)


def zones(options, folder=None):
    """Runs the part. Returns rows of counts, explained differences, and what is wrong."""
    found, server, batches = cases(options), None, []
    for first in range(0, len(found), options.batch):
        batches.append(found[first:first + options.batch])
    for batch in batches:
        server = Signer(options.program)
        with tempfile.TemporaryDirectory(prefix="signed-zones-") as place, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            try:
                batch_of_zones(batch, options, place, server, pool)
            except Failure as why:
                batch[0].fault(str(why))
            finally:
                server.end()
    return found


def batch_of_zones(batch, options, place, server, pool):
    folders = {}
    for number, case in enumerate(batch):
        folders[case] = "%s/%d" % (place, number)
        os.mkdir(folders[case])
    list(pool.map(lambda case: sign_offline(case, options, folders[case]), batch))
    for case in batch:
        server.policies[policy_name(case.policy)] = policy_settings(case.policy)
        server.add(case.apex, case.text, policy_name(case.policy))
    server.serve()
    list(pool.map(lambda case: "offline" in case.results and verify(case, options, folders[case], "offline"), batch))

    def work(item):
        number, case = item
        try:
            results_of_server(case, options, folders[case], server, "server")
            if case.scripts:
                update(case, options, folders[case], server, number)
                results_of_server(case, options, folders[case], server, "updated")
        except Failure as why:
            case.fault(str(why))

    list(pool.map(work, enumerate(batch)))
    if server.process.poll() is not None:
        raise Failure("nomen ended: " + server.log()[-2000:])
