"""The part `resolvers`: a signed tree of zones, and what validating resolvers say about its names.

The tree is the root zone and zones below it, each with a DS record in the root, but for a few without one. All are signed and served by
one nomen, after updates. The resolvers have the root's key as their trust anchor and ask this nomen for every name.
"""
import concurrent.futures, hashlib, random, re, shutil, struct
from . import dns
from .random_zones import RandomZone
from .servers import Failure, Resolver, Signer
from .zones import MADE_BY_SIGNER, POLICIES, Case, apex_of, policy_name, policy_settings, update

TYPES = ["A", "TXT", "DS", "NS", "MX", "CNAME", "DNAME", "SOA", "DNSKEY", "TYPE65280", "NSEC3PARAM"]
RESOLVERS = ["unbound", "bind", "nomen"]
PROGRAMS = {"unbound": "unbound", "bind": "named"}
ROOT = ". 300 SOA ns. admin. 1 3600 600 86400 60\n. 300 NS ns.\nns. 300 A 127.0.0.1\na.b.elsewhere. 300 A 192.0.2.7\n"


def key_tag(data):
    total = sum(byte << 8 if at % 2 == 0 else byte for at, byte in enumerate(data))
    return (total + (total >> 16)) & 0xffff


def ds_data(zone, dnskey):
    """The data of a DS record (SHA-256) of a DNSKEY record."""
    owner = b"".join(bytes([len(label)]) + label.lower() for label in dns.labels(zone)) + b"\0"
    return struct.pack(">HBB", key_tag(dnskey), dnskey[3], 2) + hashlib.sha256(owner + dnskey).digest()


def ds_lines(signer, zone):
    reply = dns.ask_tcp(signer.port, dns.query(zone, "DNSKEY", 1, False), 10)
    keys = [data for data in reply.data("DNSKEY") if data[1] & 1]
    found = [ds_data(zone, data) for data in keys]
    return "".join("%s 300 DS %d %d %d %s\n" % (zone, *struct.unpack_from(">HBB", data), data[4:].hex()) for data in found)


class Tree:
    """The zones with their names, and the questions about them."""

    def __init__(self, options, pick):
        self.options, self.pick, self.signer, self.cases = options, pick, Signer(options.program), []
        policies = pick.sample(POLICIES, len(POLICIES))
        self.signer.policies = {"root": 'algorithm = "ecdsap256sha256"\n'}
        self.signer.add(".", ROOT, "root")
        for number in range(options.resolved):
            zone = RandomZone(random.Random(options.seed * 7919 + number), pick.choice((10, 30)))
            apex = apex_of(number, pick)
            case = Case(apex, zone.text(apex), policies[number % len(policies)], zone.updates(apex, options.updates), "random")
            self.cases.append(case)
            # One in six is insecure: signed, but without a DS record.
            case.secure = number % 6 != 5
            self.signer.policies[policy_name(case.policy)] = policy_settings(case.policy)
            self.signer.add(apex, case.text, policy_name(case.policy))

    def serve(self):
        self.signer.serve()
        for number, case in enumerate(self.cases):
            update(case, self.options, self.signer.folder, self.signer, number)
        text = ROOT.replace(" 1 3600", " 2 3600")
        for case in self.cases:
            text += "%s 300 NS ns.\n%s" % (case.apex, ds_lines(self.signer, case.apex) if case.secure else "")
        self.signer.write(self.signer.files["."], text)
        self.signer.reload()

    def questions(self, case):
        """Names and types: all names of a zone, their ancestors and names that do not exist, but for what is below a cut."""
        lines = [line.split(None, 4) for line in self.signer.transfer(case.apex)]
        apex = dns.key(case.apex)
        names, cuts, dnames = {}, [], []
        for owner, _, _, rtype, _ in lines:
            if rtype not in ("NSEC3", "RRSIG"):
                names.setdefault(dns.key(owner), (owner, set()))[1].add(rtype)
        for name, (owner, types) in names.items():
            if "NS" in types and name != apex:
                cuts.append(name)
            if "DNAME" in types:
                dnames.append(name)
        found = set()
        for name, (owner, types) in list(names.items()):
            parent = owner
            while dns.key(parent) != apex:
                found.update((parent, rtype) for rtype in self.pick.sample(TYPES, 3) + sorted(types & set(TYPES)) if parent != owner or rtype in dns.TYPES)
                found.update(("%s.%s" % (label, parent), "A") for label in self.pick.sample(["nx", "\\000", "*", "zzz", "A-b"], 2))
                parent = parent_of(parent)
        found.update((case.apex, rtype) for rtype in TYPES)
        found.update((("nx%d" % number if case.apex == "." else "nx%d.%s" % (number, case.apex)), "A") for number in range(3))
        return [(name, rtype) for name, rtype in sorted(found) if len(dns.wire(name)) < 256 and self.comparable(name, rtype, cuts, dnames)]

    @staticmethod
    def comparable(name, rtype, cuts, dnames):
        """Whether resolvers have to agree about a name. They cannot reach the zones below a cut, which no server has. Of Unbound, a query
        for CNAME, DNAME or DS below a DNAME fails, and after it others below the DNAME: it requires a signature of the CNAME that is made
        from the DNAME, which has none (RFC 6672, section 5.3.1)."""
        owner = dns.key(name)
        return not any(dns.below(owner, cut) and (owner != cut or rtype != "DS") for cut in cuts) and not any(
            dns.below(owner, dname) and owner != dname and rtype in ("CNAME", "DNAME", "DS") for dname in dnames)


def parent_of(name):
    """A name in presentation format without its first label."""
    at = 0
    while name[at] != ".":
        at += 4 if name[at] == "\\" and name[at + 1].isdigit() else 2 if name[at] == "\\" else 1
    return name[at + 1:] or "."


def expected(case, tree_reply, replies, name, rtype):
    """What is wrong with the replies of the resolvers. `tree_reply` is that of the server of the zones."""
    wrong = []
    secure = case.secure or (rtype == "DS" and dns.key(name) == dns.key(case.apex))
    opt_out = case.policy[1] == "opt-out"
    for resolver, reply in replies.items():
        if reply is None:
            wrong.append("%s does not answer" % resolver)
        elif reply.rcode == "SERVFAIL":
            wrong.append("%s: SERVFAIL" % resolver)
        elif reply.rcode != tree_reply.rcode and not tree_reply.has("CNAME"):
            wrong.append("%s: %s, not %s" % (resolver, reply.rcode, tree_reply.rcode))
        elif reply.secure and not secure:
            wrong.append("%s: AD without a chain of trust" % resolver)
        elif not reply.secure and secure and not opt_out and not tree_reply.has("CNAME"):
            wrong.append("%s: no AD" % resolver)
    states = {(reply.rcode, reply.secure, reply.types()) for reply in replies.values() if reply}
    if len(states) > 1 and not wrong:
        wrong.append("they differ: " + ", ".join("%s %s AD=%d %s" % (
            resolver, reply.rcode, reply.secure, reply.types()) for resolver, reply in replies.items() if reply))
    return wrong


def empty_wildcard(owners, case, own, name):
    """NODATA at a name, or the target of an alias, that matches a wildcard without records (RFC 4592, section 2.2.2: `*.example` is there if
    `a.*.example` is)."""
    return own.rcode == "NOERROR" and (own.has("CNAME") or not own.answer) and any(
        name[at] == b"*" and name[at:] not in owners for name in owners for at in range(1, len(name)))


def wildcard_beside_opt_out(owners, case, own, name):
    """A name below an empty non-terminal that is there for insecure delegations, beside a wildcard. With opt-out it has no NSEC3
    record (RFC 5155, erratum 3441), so its parent is the closest provable encloser, and the wildcard there is not denied."""
    labels = dns.key(name)
    if case.policy[1] != "opt-out" or own.rcode != "NXDOMAIN":
        return False
    return any(labels[at:] not in owners and any(
        dns.below(owner, (b"*",) + labels[at + 1:]) for owner in owners) and any(
        dns.below(owner, labels[at:]) and "NS" in types and "DS" not in types for owner, types in owners.items()) for at in range(1, len(labels)))


# Why Unbound, alone of the resolvers, rejects an answer that is right.
EXPLAINED = [empty_wildcard, wildcard_beside_opt_out]


class Counts:
    """The rows of this part."""

    def __init__(self):
        self.questions, self.secure, self.insecure, self.wrong, self.explained, self.zones, self.resolvers = 0, 0, 0, [], [], 0, []


def resolvers(options):
    """Runs the part. Returns its counts."""
    counts, started = Counts(), []
    tree = Tree(options, random.Random(options.seed))
    try:
        tree.serve()
        for kind in RESOLVERS:
            program = options.program if kind == "nomen" else shutil.which(PROGRAMS[kind])
            if program:
                started.append(Resolver(kind, program, tree.signer, "."))
        counts.resolvers = [resolver.name for resolver in started]
        with concurrent.futures.ThreadPoolExecutor(len(started)) as pool:
            for case in tree.cases:
                counts.zones += 1
                ask_all(tree, case, started, pool, counts)
    except Failure as why:
        counts.wrong.append(str(why))
    finally:
        for process in started + [tree.signer]:
            process.end()
    return counts


def ask_all(tree, case, started, pool, counts):
    questions = tree.questions(case)
    if len(questions) > tree.options.questions:
        questions = tree.pick.sample(questions, tree.options.questions)
    owners = {}
    for line in tree.signer.transfer(case.apex):
        owner, _, _, rtype, _ = line.split(None, 4)
        if rtype not in MADE_BY_SIGNER:
            owners.setdefault(dns.key(owner), set()).add(rtype)
    columns = list(pool.map(lambda resolver: [dns.ask(resolver.port, name, rtype) for name, rtype in questions], started))
    for at, (name, rtype) in enumerate(questions):
        replies = {resolver.name: column[at] for resolver, column in zip(started, columns)}
        own = dns.ask(tree.signer.port, name, rtype, False)
        counts.questions += 1
        counts.secure += all(reply and reply.secure for reply in replies.values())
        counts.insecure += all(reply and not reply.secure for reply in replies.values())
        if own and replies.get("unbound") and replies["unbound"].rcode == "SERVFAIL":
            rules = [rule.__name__.replace("_", "-") for rule in EXPLAINED if rule(owners, case, own, name)]
            counts.explained += rules[:1]
            if rules:
                del replies["unbound"]
        wrong = expected(case, own, replies, name, rtype) if own else ["nomen does not answer"]
        counts.wrong += ["%s %s, policy %s: %s" % (name, rtype, policy_name(case.policy), text) for text in wrong]
        if wrong:
            counts.wrong += ["%s: %s" % (resolver.name, line) for resolver in started for line in resolver.log().splitlines()[-100:]
                             if "validation failure <" + re.sub(r"\\\d\d\d|\\.", "?", name) in line][:1]
