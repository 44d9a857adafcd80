//! Odd or malformed messages: headers, counts, questions, OPT records. The comparison is about whether a
//! server answers, and with what header.

use crate::client;
use crate::name::Name;
use crate::query::{Query, Transport, rtype};
use crate::rng::Rng;
use std::net::SocketAddr;
use std::time::Duration;

/// How long to wait for an answer: short, as many of these messages get none.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(400);

/// One raw message; its first two bytes are its index in the list.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// What is odd about it.
    pub name: String,
    /// The bytes.
    pub wire: Vec<u8>,
    /// Its question if it were well-formed.
    pub query: Query,
}

/// Sends the messages; by TCP, one per connection.
pub(crate) fn send(
    server: SocketAddr,
    wires: &[Vec<u8>],
    transport: Transport,
) -> Result<Vec<Option<Vec<u8>>>, String> {
    match transport {
        Transport::Udp => client::udp(server, wires, SILENCE_TIMEOUT),
        Transport::Tcp => client::tcp(server, wires, SILENCE_TIMEOUT, 1),
    }
    .map_err(|e| e.to_string())
}

#[derive(Default)]
struct List {
    messages: Vec<Message>,
}

/// Parts of a message; the counts need not match the body.
struct Parts<'a> {
    flags: u16,
    counts: [u16; 4],
    body: &'a [&'a [u8]],
}

impl List {
    fn raw(&mut self, name: &str, query: &Query, mut wire: Vec<u8>) {
        let id = (self.messages.len() as u16).to_be_bytes();
        for (byte, id) in wire.iter_mut().zip(id) {
            *byte = id;
        }
        self.messages.push(Message { name: name.to_owned(), wire, query: query.clone() });
    }

    fn add(&mut self, name: &str, query: &Query, parts: &Parts<'_>) {
        let mut wire = vec![0, 0];
        wire.extend_from_slice(&parts.flags.to_be_bytes());
        for count in parts.counts {
            wire.extend_from_slice(&count.to_be_bytes());
        }
        for part in parts.body {
            wire.extend_from_slice(part);
        }
        self.raw(name, query, wire);
    }
}

/// A query with opcode 0 and no flags.
fn parts<'a>(counts: [u16; 4], body: &'a [&'a [u8]]) -> Parts<'a> {
    Parts { flags: 0, counts, body }
}

fn question(name: &Name, qtype: u16, class: u16) -> Vec<u8> {
    let mut out = name.to_wire();
    out.extend_from_slice(&qtype.to_be_bytes());
    out.extend_from_slice(&class.to_be_bytes());
    out
}

/// An OPT record with this owner, size, TTL field and options.
fn opt(owner: &[u8], size: u16, ttl: u32, options: &[u8]) -> Vec<u8> {
    let mut out = owner.to_vec();
    out.extend_from_slice(&[0, 41]);
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(options.len() as u16).to_be_bytes());
    out.extend_from_slice(options);
    out
}

/// A record for a section that is normally empty in queries.
fn record(owner: &Name, rtype: u16, rdata: &[u8]) -> Vec<u8> {
    let mut out = question(owner, rtype, 1);
    out.extend_from_slice(&60u32.to_be_bytes());
    out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    out.extend_from_slice(rdata);
    out
}

/// Returns all messages of the suite.
pub(crate) fn all(seed: u64) -> Vec<Message> {
    let mut list = List::default();
    let apex = Name::from_text("hard.test.").unwrap_or_default();
    let soa = Query::plain(apex.clone(), rtype::SOA);
    let ask = question(&apex, rtype::SOA, 1);
    headers(&mut list, &soa, &ask, &apex);
    questions(&mut list, &soa, &ask, &apex);
    edns(&mut list, &soa, &ask);
    sections(&mut list, &soa, &ask, &apex);
    meta(&mut list, &apex);
    cut_and_mangled(&mut list, &soa, &ask, seed);
    list.messages
}

fn headers(list: &mut List, soa: &Query, ask: &[u8], apex: &Name) {
    for (name, flags) in [
        ("plain", 0),
        ("RD", 0x0100),
        ("QR set", 0x8000),
        ("QR and AA set", 0x8400),
        ("AA set", 0x0400),
        ("TC set", 0x0200),
        ("RA set", 0x0080),
        ("Z set", 0x0040),
        ("AD set", 0x0020),
        ("CD set", 0x0010),
        ("RCODE set", 0x0003),
        ("all but QR and opcode", 0x07ff),
    ] {
        list.add(name, soa, &Parts { flags, counts: [1, 0, 0, 0], body: &[ask] });
    }
    for opcode in 1..16u16 {
        let name = format!("opcode {opcode}");
        list.add(&name, soa, &Parts { flags: opcode << 11, counts: [1, 0, 0, 0], body: &[ask] });
        let name = format!("opcode {opcode} with EDNS");
        let opt = opt(&[0], 1232, 0, &[]);
        list.add(&name, soa, &Parts { flags: opcode << 11, counts: [1, 0, 0, 1], body: &[ask, &opt] });
        let name = format!("opcode {opcode} without question");
        list.add(&name, soa, &Parts { flags: opcode << 11, counts: [0; 4], body: &[] });
    }
    let notify = Query::plain(Name::from_text("not.served.").unwrap_or_default(), rtype::SOA);
    let foreign = question(&notify.name, rtype::SOA, 1);
    list.add(
        "NOTIFY of a zone not served",
        &notify,
        &Parts { flags: 0x2400, counts: [1, 0, 0, 0], body: &[&foreign] },
    );
    list.add("NOTIFY of a primary zone", soa, &Parts { flags: 0x2400, counts: [1, 0, 0, 0], body: &[ask] });
    list.add("UPDATE of a primary zone", soa, &Parts { flags: 0x2800, counts: [1, 0, 0, 0], body: &[ask] });
    let add = record(&apex.child(b"new"), rtype::A, &[192, 0, 2, 1]);
    list.add(
        "UPDATE that adds a record",
        soa,
        &Parts { flags: 0x2800, counts: [1, 0, 1, 0], body: &[ask, &add] },
    );
    list.add(
        "UPDATE of a zone not served",
        &notify,
        &Parts { flags: 0x2800, counts: [1, 0, 0, 0], body: &[&foreign] },
    );
}

fn questions(list: &mut List, soa: &Query, ask: &[u8], apex: &Name) {
    let other = question(&apex.child(b"www"), rtype::A, 1);
    let root = question(&Name::root(), rtype::NS, 1);
    for (name, count, body) in [
        ("QDCOUNT 0 and nothing", 0, &[][..]),
        ("QDCOUNT 0 with a question behind", 0, &[ask][..]),
        ("QDCOUNT 2, the same twice", 2, &[ask, ask][..]),
        ("QDCOUNT 2, two questions", 2, &[ask, &other][..]),
        ("QDCOUNT 2, one question", 2, &[ask][..]),
        ("QDCOUNT 65535, one question", 65_535, &[ask][..]),
        ("QDCOUNT 1 and nothing", 1, &[][..]),
        ("root name", 1, &[root.as_slice()][..]),
    ] {
        list.add(name, soa, &Parts { flags: 0, counts: [count, 0, 0, 0], body });
    }
    let opt = opt(&[0], 1232, 0, &[]);
    list.add("QDCOUNT 0 with EDNS", soa, &Parts { flags: 0, counts: [0, 0, 0, 1], body: &[&opt] });
    list.add(
        "QDCOUNT 2 with EDNS",
        soa,
        &Parts { flags: 0, counts: [2, 0, 0, 1], body: &[ask, &other, &opt] },
    );
    let type_class = [0, 6, 0, 1];
    for (name, qname) in [
        ("pointer to itself", &[0xc0, 12][..]),
        ("pointer to the header", &[0xc0, 0]),
        ("pointer forward", &[0xc0, 200]),
        ("pointer loop of two", &[0xc0, 14, 0xc0, 12]),
        ("label and pointer to itself", &[1, b'a', 0xc0, 12]),
        ("label and pointer behind the end", &[1, b'a', 0xff, 0xff]),
        ("label type 01", &[0x41, b'a', 0]),
        ("label type 10", &[0x81, b'a', 0]),
        ("label of 63 cut short", &[63, b'a', b'b']),
        ("no end of the name", &[4, b't', b'e', b's', b't']),
    ] {
        list.add(name, soa, &Parts { flags: 0, counts: [1, 0, 0, 0], body: &[qname, &type_class] });
    }
    // 127 labels of one byte are 255 bytes, which is legal; 128 are not.
    for (name, labels) in [("name of 255 bytes", 127), ("name of 257 bytes", 128), ("name of 401 bytes", 200)]
    {
        let mut qname: Vec<u8> = [1, b'a'].repeat(labels);
        qname.push(0);
        list.add(name, soa, &Parts { flags: 0, counts: [1, 0, 0, 0], body: &[&qname, &type_class] });
    }
    // The second question's name points to the first: legal compression, illegal count.
    let pointed = [0xc0, 12, 0, 1, 0, 1];
    list.add("QDCOUNT 2, compressed", soa, &Parts { flags: 0, counts: [2, 0, 0, 0], body: &[ask, &pointed] });
}

fn edns(list: &mut List, soa: &Query, ask: &[u8]) {
    let good = opt(&[0], 1232, 0, &[]);
    list.add("EDNS", soa, &parts([1, 0, 0, 1], &[ask, &good]));
    list.add("two OPT", soa, &parts([1, 0, 0, 2], &[ask, &good, &good]));
    list.add("OPT in the answer section", soa, &parts([1, 1, 0, 0], &[ask, &good]));
    list.add("OPT in the authority section", soa, &parts([1, 0, 1, 0], &[ask, &good]));
    list.add("ARCOUNT 1 and nothing", soa, &parts([1, 0, 0, 1], &[ask]));
    list.add("ARCOUNT 2, one OPT", soa, &parts([1, 0, 0, 2], &[ask, &good]));
    list.add("ARCOUNT 0 with an OPT behind", soa, &parts([1, 0, 0, 0], &[ask, &good]));
    let cases: [(&str, Vec<u8>); 21] = [
        ("OPT not at the root", opt(&[1, b'a', 0], 1232, 0, &[])),
        ("OPT at a pointer to the apex", opt(&[0xc0, 12], 1232, 0, &[])),
        ("EDNS size 0", opt(&[0], 0, 0, &[])),
        ("EDNS size 511", opt(&[0], 511, 0, &[])),
        ("EDNS size 65535", opt(&[0], 65_535, 0, &[])),
        ("EDNS version 1", opt(&[0], 1232, 0x0001_0000, &[])),
        ("EDNS version 255 and DO", opt(&[0], 1232, 0x00ff_8000, &[])),
        ("EDNS version 1 with a broken option", opt(&[0], 1232, 0x0001_0000, &[0, 3, 0, 9])),
        ("EDNS with an extended RCODE", opt(&[0], 1232, 0x0100_0000, &[])),
        ("EDNS with all Z bits", opt(&[0], 1232, 0x0000_7fff, &[])),
        ("EDNS with DO and all Z bits", opt(&[0], 1232, 0x0000_ffff, &[])),
        ("EDNS with an unknown option", opt(&[0], 1232, 0, &[0xfd, 0xe9, 0, 3, 1, 2, 3])),
        ("EDNS with an unknown empty option", opt(&[0], 1232, 0, &[0xfd, 0xe9, 0, 0])),
        ("EDNS option cut short", opt(&[0], 1232, 0, &[0xfd, 0xe9, 0, 9, 1])),
        ("EDNS option header cut short", opt(&[0], 1232, 0, &[0xfd, 0xe9, 0])),
        ("EDNS NSID", opt(&[0], 1232, 0, &[0, 3, 0, 0])),
        ("EDNS NSID with data", opt(&[0], 1232, 0, &[0, 3, 0, 2, 1, 2])),
        // No malformed cookie: cookies are off here, and then NSD and Knot do not look at them.
        ("EDNS client cookie", opt(&[0], 1232, 0, &[0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8])),
        ("EDNS padding", opt(&[0], 1232, 0, &[0, 12, 0, 4, 0, 0, 0, 0])),
        ("EDNS keepalive", opt(&[0], 1232, 0, &[0, 11, 0, 0])),
        ("EDNS client subnet", opt(&[0], 1232, 0, &[0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2])),
    ];
    for (name, opt) in &cases {
        list.add(name, soa, &parts([1, 0, 0, 1], &[ask, opt]));
    }
    let mut long = good.clone();
    long[9..11].copy_from_slice(&[0, 40]);
    list.add("OPT with RDLENGTH behind the end", soa, &parts([1, 0, 0, 1], &[ask, &long]));
    list.add("OPT cut short", soa, &parts([1, 0, 0, 1], &[ask, &good[..7]]));
    list.add("bytes behind the OPT", soa, &parts([1, 0, 0, 1], &[ask, &good, &[1, 2, 3]]));
}

fn sections(list: &mut List, soa: &Query, ask: &[u8], apex: &Name) {
    let extra = record(apex, rtype::A, &[192, 0, 2, 1]);
    let good = opt(&[0], 1232, 0, &[]);
    for (name, counts) in [
        ("a record in the answer section", [1, 1, 0, 0]),
        ("a record in the authority section", [1, 0, 1, 0]),
        ("a record in the additional section", [1, 0, 0, 1]),
    ] {
        list.add(name, soa, &Parts { flags: 0, counts, body: &[ask, &extra] });
    }
    list.add("a record before the OPT", soa, &parts([1, 0, 0, 2], &[ask, &extra, &good]));
    list.add("a record behind the OPT", soa, &parts([1, 0, 0, 2], &[ask, &good, &extra]));
    list.add("ANCOUNT 1 and nothing", soa, &parts([1, 1, 0, 0], &[ask]));
    list.add("NSCOUNT 65535 and nothing", soa, &parts([1, 0, 65_535, 0], &[ask]));
    list.add("bytes behind the question", soa, &parts([1, 0, 0, 0], &[ask, &[0; 5]]));
}

fn meta(list: &mut List, apex: &Name) {
    for (text, class) in [
        ("IN", 1),
        ("class 0", 0),
        ("CS", 2),
        ("CH", 3),
        ("HS", 4),
        ("NONE", 254),
        ("ANY", 255),
        ("class 1000", 1000),
    ] {
        for name in [apex.clone(), Name::from_text("not.served.").unwrap_or_default(), Name::root()] {
            let mut query = Query::plain(name, rtype::SOA);
            query.class = class;
            let body = question(&query.name, query.qtype, class);
            let title = format!("{} in {text}", query.name);
            list.add(&title, &query, &Parts { flags: 0, counts: [1, 0, 0, 0], body: &[&body] });
        }
    }
    for qtype in [0, 41, 128, 200, 248, 249, 250, 251, 252, 253, 254, 255, 65_535] {
        for name in
            [apex.clone(), apex.child(b"nothing-here"), Name::from_text("not.served.").unwrap_or_default()]
        {
            let query = Query::plain(name, qtype);
            let body = question(&query.name, qtype, 1);
            let title = format!("QTYPE {qtype} at {}", query.name);
            list.add(&title, &query, &Parts { flags: 0, counts: [1, 0, 0, 0], body: &[&body] });
        }
    }
    for text in
        ["version.bind.", "version.server.", "hostname.bind.", "id.server.", "authors.bind.", "VERSION.bind."]
    {
        for qtype in [rtype::TXT, rtype::A, rtype::ANY] {
            let mut query = Query::plain(Name::from_text(text).unwrap_or_default(), qtype);
            query.class = 3;
            let body = question(&query.name, qtype, 3);
            let title = format!("CH {text} {qtype}");
            list.add(&title, &query, &Parts { flags: 0, counts: [1, 0, 0, 0], body: &[&body] });
        }
    }
}

/// The message cut at every length, and with bytes changed at random.
fn cut_and_mangled(list: &mut List, soa: &Query, ask: &[u8], seed: u64) {
    let mut whole = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    whole.extend_from_slice(ask);
    whole.extend_from_slice(&opt(&[0], 1232, 0x8000, &[0, 3, 0, 0]));
    for len in 2..whole.len() {
        list.raw(&format!("cut to {len} bytes"), soa, whole[..len].to_vec());
    }
    let mut rng = Rng::new(seed);
    for number in 0..400 {
        let mut wire = whole.clone();
        for _ in 0..1 + rng.below(3) {
            let at = 2 + rng.below(wire.len() - 2);
            wire[at] = if rng.chance(50) { rng.byte() } else { wire[at] ^ (1 << rng.below(8)) };
        }
        list.raw(&format!("mangled {number}: {}", hex(&wire[2..])), soa, wire);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|o| format!("{o:02x}")).collect()
}
