"""DNS messages for the checks: queries, transfers, updates, and the few record types of their zones (SOA, NS, A, TXT).

A zone is a set of (owner, type, TTL, data): text in lower case, names with the final dot, data in presentation form.
"""
import random, socket, struct

A, NS, SOA, TXT, IXFR, AXFR, ANY = 1, 2, 6, 16, 251, 252, 255
TYPES = {A: "A", NS: "NS", SOA: "SOA", TXT: "TXT"}
NOERROR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, NOTAUTH = 0, 2, 3, 4, 5, 9
HOST = "127.0.0.1"


class DnsError(Exception):
    """A reply that is none, or says that there is no answer."""

    def __init__(self, text, rcode=None):
        super().__init__(text)
        self.rcode = rcode


def wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split(".") if label) + b"\0"


def read_name(message, at):
    """Returns the name at a place, and the place behind it."""
    labels, end = [], None
    while message[at]:
        if message[at] >= 192:
            end = end or at + 2
            at = struct.unpack_from(">H", message, at)[0] & 0x3fff
            continue
        labels.append(message[at + 1:at + 1 + message[at]].decode("ascii", "replace").lower())
        at += 1 + message[at]
    return ".".join(labels) + ".", end or at + 1


def read_data(message, at, length, rtype):
    end = at + length
    if rtype == A:
        return socket.inet_ntoa(message[at:end])
    if rtype == NS:
        return read_name(message, at)[0]
    if rtype == SOA:
        primary, at = read_name(message, at)
        contact, at = read_name(message, at)
        return "%s %s %d %d %d %d %d" % (primary, contact, *struct.unpack_from(">5I", message, at))
    if rtype == TXT:
        texts = []
        while at < end:
            texts.append('"%s"' % message[at + 1:at + 1 + message[at]].decode("ascii", "replace"))
            at += 1 + message[at]
        return " ".join(texts)
    return message[at:end].hex()


def read_records(message):
    """Returns the records of the answer section, in their order."""
    _, _, questions, answers = struct.unpack_from(">4H", message)
    at, records = 12, []
    for _ in range(questions):
        at = read_name(message, at)[1] + 4
    for _ in range(answers):
        owner, at = read_name(message, at)
        rtype, _, ttl, length = struct.unpack_from(">HHIH", message, at)
        at += 10
        records.append((owner, TYPES.get(rtype, "TYPE%d" % rtype), ttl, read_data(message, at, length, rtype)))
        at += length
    return records


def question(number, name, rtype, authority=b""):
    return struct.pack(">6H", number, 0, 1, 0, 1 if authority else 0, 0) + wire(name) + struct.pack(">HH", rtype, 1) + authority


def serial_of(data):
    return int(data.split()[2])


def is_newer(one, other):
    """Whether a serial number comes after another one (RFC 1982)."""
    return one != other and (one - other) & 0xffffffff < 1 << 31


class Asker:
    """A UDP socket to one server."""

    def __init__(self, port, timeout=1.0):
        # A late reply to another socket may come to its port: the numbers of two sockets differ.
        self.socket, self.number = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), random.randrange(1 << 16)
        self.socket.settimeout(timeout)
        self.socket.connect((HOST, port))

    def exchange(self, message):
        """Sends a message whose number is that of `next_number`. Returns the reply: of the same kind, with the same question."""
        end, opcode = message.index(b"\0", 12) + 5, message[2] & 0x78
        try:
            self.socket.send(message)
            while True:
                reply = self.socket.recv(4096)
                if reply[:2] == message[:2] and reply[2] & 0xf8 == 0x80 | opcode and reply[12:end].lower() in (b"", message[12:end].lower()):
                    return reply
        except OSError as why:
            raise DnsError("no reply: %s" % why)

    def next_number(self):
        self.number = (self.number + 1) & 0xffff
        return self.number

    def ask(self, name, rtype):
        """Returns the rcode and the records of the answer."""
        reply = self.exchange(question(self.next_number(), name, rtype))
        return reply[3] & 15, read_records(reply)

    def soa(self, zone):
        """Returns the data of the SOA record, or None if the server does not have the zone."""
        rcode, records = self.ask(zone, SOA)
        if rcode in (REFUSED, NOTAUTH):
            return None
        if rcode or len(records) != 1 or records[0][1] != "SOA":
            raise DnsError("%s SOA: rcode %d, %d records" % (zone, rcode, len(records)), rcode)
        return records[0][3]

    def update(self, zone, changes):
        """Sends an UPDATE (RFC 2136) that replaces the TXT records of names by one each. Returns the rcode."""
        records = []
        for name, text in changes.items():
            owner, data = wire(name), bytes([len(text)]) + text.encode()
            records.append(owner + struct.pack(">HHIH", TXT, ANY, 0, 0))
            records.append(owner + struct.pack(">HHIH", TXT, 1, 60, len(data)) + data)
        head = struct.pack(">6H", self.next_number(), 5 << 11, 1, 0, len(records), 0) + wire(zone) + struct.pack(">HH", SOA, 1)
        return self.exchange(head + b"".join(records))[3] & 15

    def close(self):
        self.socket.close()


def stream(port, message, is_last):
    """Sends a query over TCP. Yields the records of the messages of the reply, until `is_last` of all records so far."""
    records = []
    try:
        with socket.create_connection((HOST, port), timeout=10) as client, client.makefile("rb") as replies:
            client.sendall(struct.pack(">H", len(message)) + message)
            while not is_last(records):
                head = replies.read(2)
                reply = replies.read(struct.unpack(">H", head)[0]) if len(head) == 2 else b""
                if len(reply) < 12:
                    raise DnsError("the transfer ends early")
                if reply[3] & 15:
                    raise DnsError("rcode %d" % (reply[3] & 15), reply[3] & 15)
                records += read_records(reply)
    except OSError as why:
        raise DnsError("no transfer: %s" % why)
    return records


def axfr(port, zone):
    """Transfers a zone. Returns its serial and its records."""
    records = stream(port, question(1, zone, AXFR), lambda all: len(all) > 1 and all[-1][1] == "SOA")
    return serial_of(records[0][3]), set(records)


def ixfr(port, zone, serial, before):
    """Transfers what has changed since a serial. Returns the serial now, and the zone that results from `before`."""
    old = wire(zone) + struct.pack(">HHIH", SOA, 1, 0, 22) + b"\0\0" + struct.pack(">5I", serial, 0, 0, 0, 0)

    def is_last(records):
        soas = [place for place, record in enumerate(records) if record[1] == "SOA"]
        if not soas:
            return False
        first = records[0][3]
        if len(records) == 1:
            return serial_of(first) == serial or not is_newer(serial_of(first), serial)
        # Differences begin with an older SOA record; each is followed by a newer one, and the last is the first again.
        if records[1][1] == "SOA" and serial_of(records[1][3]) != serial_of(first):
            return len(soas) % 2 == 0 and len(soas) > 2 and records[soas[-1]][3] == first and soas[-1] == len(records) - 1
        return len(soas) == 2 and soas[1] == len(records) - 1

    records = stream(port, question(2, zone, IXFR, old), is_last)
    now = serial_of(records[0][3])
    if len(records) == 1:
        return now, set(before)
    if records[1][1] != "SOA" or serial_of(records[1][3]) == now:
        return now, set(records)
    zone_now, adds = set(before), True
    for record in records[1:-1]:
        if record[1] == "SOA":
            adds = not adds
        if adds:
            zone_now.add(record)
        elif record in zone_now:
            zone_now.remove(record)
        else:
            raise DnsError("the differences remove what is not there: %r" % (record,))
    return now, zone_now
