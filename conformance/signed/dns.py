"""Names, queries and replies on the wire, as far as `signed-zones` needs them."""
import random, socket, struct

TYPES = {
    "A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "HINFO": 13, "MX": 15, "TXT": 16, "AAAA": 28, "LOC": 29, "SRV": 33, "NAPTR": 35,
    "DNAME": 39, "OPT": 41, "DS": 43, "SSHFP": 44, "RRSIG": 46, "NSEC": 47, "DNSKEY": 48, "NSEC3": 50, "NSEC3PARAM": 51, "TLSA": 52,
    "CDS": 59, "CDNSKEY": 60, "ZONEMD": 63, "SVCB": 64, "HTTPS": 65, "URI": 256, "CAA": 257, "TYPE65280": 65280}
RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED", 6: "YXDOMAIN"}


def labels(name):
    """The labels of a name in presentation format, as bytes."""
    found, label, at = [], b"", 0
    while at < len(name):
        if name[at] == "\\" and name[at + 1:at + 4].isdigit():
            label, at = label + bytes([int(name[at + 1:at + 4])]), at + 4
        elif name[at] == "\\":
            label, at = label + name[at + 1].encode(), at + 2
        elif name[at] == ".":
            found, label, at = found + ([label] if label else []), b"", at + 1
        else:
            label, at = label + name[at].encode(), at + 1
    return found + ([label] if label else [])


def below(name, ancestor):
    """Whether a name is the other one or below it. Both are tuples of labels."""
    return name[len(name) - len(ancestor):] == ancestor


def key(name):
    """A name for comparisons: its labels in lower case."""
    return tuple(label.lower() for label in labels(name))


def wire(name):
    return b"".join(bytes([len(label)]) + label for label in labels(name)) + b"\0"


def query(name, rtype, number, recursive=True):
    """A query with DO and AD, in EDNS."""
    flags = 0x0120 if recursive else 0x0020
    return struct.pack(">6H", number, flags, 1, 0, 0, 1) + wire(name) + struct.pack(">HH", TYPES[rtype], 1) + (
        b"\0" + struct.pack(">HHIH", 41, 1232, 0x8000, 0))


def skip_name(message, at):
    while message[at] and message[at] < 192:
        at += 1 + message[at]
    return at + (2 if message[at] else 1)


class Reply:
    """What a client compares: RCODE, AD, and the types and data of the answer section."""

    def __init__(self, message):
        _, flags, questions, answers = struct.unpack_from(">4H", message)
        self.rcode, self.secure, self.truncated = RCODES.get(flags & 15, str(flags & 15)), bool(flags & 0x20), bool(flags & 0x200)
        at, self.answer = 12, []
        for _ in range(questions):
            at = skip_name(message, at) + 4
        for _ in range(answers):
            at = skip_name(message, at)
            rtype, _, ttl, length = struct.unpack_from(">HHIH", message, at)
            self.answer.append((rtype, message[at + 10:at + 10 + length]))
            at += 10 + length

    def types(self):
        """The types of the answer section with their counts, without signatures."""
        found = [rtype for rtype, _ in self.answer if rtype != 46]
        return tuple(sorted(found))

    def has(self, rtype):
        return any(found == TYPES[rtype] for found, _ in self.answer)

    def data(self, rtype):
        return {data for found, data in self.answer if found == TYPES[rtype]}


def ask(port, name, rtype, recursive=True, timeout=5.0, tries=3):
    """Asks a server on loopback over UDP, over TCP if the reply is truncated. Returns the reply, or None if there is none."""
    number = random.randrange(65536)
    message = query(name, rtype, number, recursive)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", port))
        client.settimeout(timeout)
        for _ in range(tries):
            try:
                client.send(message)
                data = client.recv(65535)
                while data[:2] != message[:2]:
                    data = client.recv(65535)
            except OSError:
                continue
            reply = Reply(data)
            return ask_tcp(port, message, timeout) if reply.truncated else reply
    return None


def ask_tcp(port, message, timeout):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout) as client, client.makefile("rb") as stream:
            client.sendall(struct.pack(">H", len(message)) + message)
            return Reply(stream.read(struct.unpack(">H", stream.read(2))[0]))
    except (OSError, struct.error):
        return None


def update(zone, name, ttl, rtype, data):
    """An UPDATE (RFC 2136) that replaces the RRset of a name by one of these records. They may be none."""
    records = wire(name) + struct.pack(">HHIH", TYPES[rtype], 255, 0, 0)
    for one in data:
        records += wire(name) + struct.pack(">HHIH", TYPES[rtype], 1, ttl, len(one)) + one
    return struct.pack(">6H", random.randrange(65536), 5 << 11, 1, 0, 1 + len(data), 0) + wire(zone) + struct.pack(">HH", 6, 1) + records
