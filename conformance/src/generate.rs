//! Makes queries from a seed: names in, between and outside the zones, with every type and transport.

use crate::name::Name;
use crate::query::{Edns, Query, Transport, rtype};
use crate::rng::Rng;
use crate::zones::{World, Zone};

/// QTYPEs, the common ones more often.
const TYPES: &[u16] = &[
    1, 1, 1, 28, 28, 2, 2, 6, 6, 5, 5, 15, 15, 16, 16, 39, 39, 43, 43, 43, 33, 255, 255, 46, 47, 48, 50, 51,
    12, 64, 65, 65280, 1234, 35, 257, 13, 10, 99, 24, 25, 30, 38, 62, 63, 32769, 65535, 7, 8, 9, 17, 18, 256,
    29,
];

/// Labels to put below existing names.
const LABELS: &[&[u8]] = &[
    b"a", b"b", b"www", b"*", b"ns", b"_tcp", b"x", b"\x00", b"\xff", b"zz", b"host", b"wild", b"foo.bar",
    b"@", b"ent", b"in", b"target", b"ns1", b"mail", b"**", b"-", b"cut",
];

/// Makes queries about one world.
pub(crate) struct Generator<'a> {
    world: &'a World,
    names: Vec<Vec<(&'a Name, bool)>>,
    rng: Rng,
}

impl<'a> Generator<'a> {
    /// Creates a generator; its queries depend only on `seed` and the world.
    pub(crate) fn new(world: &'a World, seed: u64) -> Self {
        let names = world
            .zones
            .iter()
            .map(|zone| zone.nodes.iter().map(|(name, types)| (name, is_special(name, types))).collect())
            .collect();
        Self { world, names, rng: Rng::new(seed) }
    }

    /// Returns the next query.
    pub(crate) fn next_query(&mut self) -> Query {
        let (name, from) = self.name();
        let qtype = self.qtype(&name, from);
        let mut query = Query::plain(name, qtype);
        let rng = &mut self.rng;
        query.rd = rng.chance(30);
        query.cd = rng.chance(10);
        query.ad = rng.chance(10);
        if rng.chance(75) {
            query.edns = Some(Edns {
                size: *rng.pick(&[512, 1232, 1232, 1232, 4096, 4096, 700, 0]),
                version: if rng.chance(1) { 1 + rng.byte() % 255 } else { 0 },
                dnssec_ok: rng.chance(60),
                options: Vec::new(),
            });
        }
        if rng.chance(7) {
            query.transport = Transport::Tcp;
        }
        if rng.below(400) == 0 {
            query.class = *rng.pick(&[3, 4, 254, 255, 2, 0]);
        }
        query
    }

    fn qtype(&mut self, name: &Name, from: Option<&Zone>) -> u16 {
        if self.rng.chance(35)
            && let Some(types) = from.and_then(|z| z.nodes.get(&name.lower()))
        {
            let types: Vec<_> = types.iter().filter_map(|t| type_number(t)).collect();
            if !types.is_empty() {
                return *self.rng.pick(&types);
            }
        }
        if self.rng.chance(3) {
            // Meta types other than ANY are part of the message suite; these are plain unknown types.
            return 300 + (self.rng.next() % 60_000) as u16;
        }
        *self.rng.pick(TYPES)
    }

    fn name(&mut self) -> (Name, Option<&'a Zone>) {
        if self.rng.chance(2) {
            return (self.stray_name(), None);
        }
        let rng = &mut self.rng;
        let index = rng.below(self.world.zones.len());
        let zone = &self.world.zones[index];
        let names = &self.names[index];
        let mut base = *rng.pick(names);
        for _ in 0..2 {
            if !base.1 {
                base = *rng.pick(names);
            }
        }
        let mut name = base.0.clone();
        match rng.below(20) {
            0..=5 => {}
            6..=9 => {
                for _ in 0..1 + rng.below(3) {
                    name = below(rng, name, names);
                }
            }
            10 => name = name.child(b"*"),
            11 | 12 => name = name.parent(),
            13 => name = name.parent().parent(),
            14 => name = sibling(rng, name),
            15 => {
                let parent = name.parent();
                name = below(rng, parent, names);
            }
            16 => {
                let sibling = sibling(rng, name);
                name = below(rng, sibling, names);
            }
            17 => name = long(rng, name),
            18 => {
                let other = rng.pick(names).0;
                let keep = other.0.len().saturating_sub(zone.name.0.len());
                let mut labels = other.0[..keep].to_vec();
                labels.extend(name.0.clone());
                name = Name(labels);
            }
            _ => name = below(rng, name.parent(), names),
        }
        if !name.is_legal() {
            name = base.0.clone();
        }
        if rng.chance(25) {
            for byte in name.0.iter_mut().flatten() {
                if rng.chance(50) {
                    byte.make_ascii_uppercase();
                }
            }
        }
        (name, Some(zone))
    }

    fn stray_name(&mut self) -> Name {
        let rng = &mut self.rng;
        let text: &[&str] =
            &[".", "test.", "com.", "arpa.", "example.net.", "zz.", "a.root-servers.net.", "hard.test.com."];
        match rng.below(3) {
            0 => Name(
                (0..1 + rng.below(4)).map(|_| (0..1 + rng.below(9)).map(|_| rng.byte()).collect()).collect(),
            ),
            _ => Name::from_text(rng.pick::<&str>(text)).unwrap_or_default(),
        }
    }
}

fn below(rng: &mut Rng, name: Name, names: &[(&Name, bool)]) -> Name {
    match rng.below(4) {
        0 | 1 => name.child(rng.pick::<&[u8]>(LABELS)),
        2 => {
            let other = rng.pick(names).0;
            if other.0.is_empty() { name } else { name.child(&other.0[0]) }
        }
        _ => {
            let label: Vec<u8> = (0..1 + rng.below(6)).map(|_| rng.byte()).collect();
            name.child(&label)
        }
    }
}

/// Returns a name just before or after `name` in canonical order (RFC 4034, section 6.1).
fn sibling(rng: &mut Rng, mut name: Name) -> Name {
    let Some(label) = name.0.first_mut() else { return name };
    match rng.below(5) {
        0 => label.push(0),
        1 => {
            label.pop();
            if label.is_empty() {
                label.push(b'0');
            }
        }
        2 | 3 => {
            let up = rng.chance(50);
            if let Some(last) = label.last_mut() {
                *last = if up { last.wrapping_add(1) } else { last.wrapping_sub(1) };
            }
        }
        _ => {
            let at = rng.below(label.len());
            label[at] = rng.byte();
        }
    }
    name
}

/// Extends a name to nearly the maximum length: below DNAMEs that leads to YXDOMAIN.
fn long(rng: &mut Rng, mut name: Name) -> Name {
    let goal = 200 + rng.below(56);
    while name.wire_len() < goal {
        let room = (goal - name.wire_len()).min(64);
        if room < 2 {
            break;
        }
        name = name.child(&vec![b'l'; room - 1]);
    }
    name
}

/// Whether a name is queried more often.
fn is_special(name: &Name, types: &std::collections::BTreeSet<String>) -> bool {
    name.is_wildcard() || ["NS", "DNAME", "CNAME", "DS"].iter().any(|t| types.contains(*t))
}

/// Returns a type's number from its mnemonic or `TYPEnnn`.
pub(crate) fn type_number(text: &str) -> Option<u16> {
    text.parse::<domain::base::Rtype>().ok().map(domain::base::Rtype::to_int).filter(|t| *t != rtype::OPT)
}
