//! Well-formed record data of every type, made from the types' own descriptions.
//!
//! Forms that only one type has are made here a second time, by hand, so that they are not tested against
//! themselves.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::Type;
use wire::rdata::{Kind, layout};

type Bytes = BoxedStrategy<Vec<u8>>;

/// How wild names and strings are.
#[derive(Clone, Copy, PartialEq)]
enum Taste {
    /// Any bytes.
    Any,
    /// Names as hosts have them, in lower case; strings of letters and digits. For readers that take no
    /// others.
    Plain,
}

/// Data of a type that has a form.
pub(crate) fn rdata(t: Type) -> Bytes {
    with_taste(t, Taste::Any)
}

/// Data of a type that has a form, with names and strings that everybody can read.
pub(crate) fn plain_rdata(t: Type) -> Bytes {
    with_taste(t, Taste::Plain)
}

fn with_taste(t: Type, taste: Taste) -> Bytes {
    match t {
        Type::X25 => vec(b'0'..=b'9', 4..20).prop_map(|digits| sized(&digits)).boxed(),
        // An algorithm means that there is a key.
        Type::IPSECKEY => (row_of(t, taste), any::<u8>())
            .prop_map(|(mut rdata, byte)| {
                rdata.push(byte);
                rdata
            })
            .boxed(),
        _ => row_of(t, taste),
    }
}

fn row_of(t: Type, taste: Taste) -> Bytes {
    let fields = layout(t).map_or(&[][..], |layout| layout.fields);
    row(fields.iter().map(|field| of_kind(t, &field.kind, taste)).collect())
}

fn row(parts: Vec<Bytes>) -> Bytes {
    parts.prop_map(|parts| parts.concat()).boxed()
}

fn bytes(len: impl Into<proptest::collection::SizeRange>) -> Bytes {
    vec(any::<u8>(), len).boxed()
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8], bytes].concat()
}

fn sized16(bytes: Vec<u8>) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat()
}

fn string(taste: Taste) -> Bytes {
    if taste == Taste::Plain {
        return "[a-zA-Z0-9]{1,20}".prop_map(|text| sized(text.as_bytes())).boxed();
    }
    prop_oneof![4 => bytes(0..12), 1 => bytes(0..=255), 2 => "[ -~]{0,20}".prop_map(String::into_bytes)]
        .prop_map(|bytes| sized(&bytes))
        .boxed()
}

fn name() -> Bytes {
    name_of(Taste::Any)
}

fn name_of(taste: Taste) -> Bytes {
    if taste == Taste::Plain {
        let labels = vec("[a-z]([a-z0-9-]{0,10}[a-z0-9])?", 1..4);
        let wire = |labels: Vec<String>| labels.iter().flat_map(|l| sized(l.as_bytes())).chain([0]).collect();
        return labels.prop_map(wire).boxed();
    }
    let label = prop_oneof![
        3 => "[a-zA-Z0-9*_-]{1,12}".prop_map(String::into_bytes),
        1 => bytes(1..8),
        1 => bytes(55..=63),
    ];
    let labels = vec(label, 0..4);
    labels.prop_map(|labels| labels.iter().flat_map(|label| sized(label)).chain([0]).collect()).boxed()
}

/// Sometimes a type with a mnemonic, sometimes any.
fn rtype() -> BoxedStrategy<u16> {
    prop_oneof![0..70u16, 0..260u16, any::<u16>()].boxed()
}

fn bitmap() -> Bytes {
    vec(rtype(), 0..10)
        .prop_map(|types| {
            let types: BTreeSet<u16> = types.into_iter().collect();
            let mut map = Vec::new();
            for window in 0..=255u8 {
                let of_window = types.iter().filter(|&&t| t >> 8 == window as u16).map(|t| t & 0xff);
                let mut bits = Vec::new();
                for t in of_window {
                    bits.resize(t as usize / 8 + 1, 0);
                    bits[t as usize / 8] |= 0x80 >> (t % 8);
                }
                if !bits.is_empty() {
                    map.push(window);
                    map.extend(sized(&bits));
                }
            }
            map
        })
        .boxed()
}

fn of_kind(t: Type, kind: &Kind, taste: Taste) -> Bytes {
    match *kind {
        Kind::Name(_) => name_of(taste),
        Kind::Names(_) => vec(name_of(taste), 0..3).prop_map(|names| names.concat()).boxed(),
        Kind::U8 | Kind::Mnemonic8(_) | Kind::Mnemonic8Named(_) => bytes(1),
        Kind::U16 | Kind::Mnemonic16(_) => bytes(2),
        Kind::U32 | Kind::Duration | Kind::Time | Kind::Ipv4 => bytes(4),
        Kind::U64 => bytes(8),
        Kind::Ipv6 => prop_oneof![bytes(16), vec(prop_oneof![Just(0), Just(1)], 16)].boxed(),
        Kind::String => string(taste),
        Kind::Strings => vec(string(taste), 1..4).prop_map(|strings| strings.concat()).boxed(),
        Kind::OptionalString => prop_oneof![string(taste), Just(Vec::new())].boxed(),
        Kind::Tag => "[a-zA-Z0-9]{1,15}".prop_map(|tag| sized(tag.as_bytes())).boxed(),
        Kind::LongString(least) if taste == Taste::Plain => vec(b'a'..=b'z', least..least + 80).boxed(),
        Kind::LongString(least) | Kind::Base64(least) | Kind::Hex(least) => bytes(least..least + 80),
        Kind::Base64OrDash | Kind::Opaque => bytes(0..80),
        Kind::SizedBase64 => bytes(0..40).prop_map(sized16).boxed(),
        Kind::SizedHex => bytes(0..=255).prop_map(|bytes| sized(&bytes)).boxed(),
        Kind::SizedBase32 => bytes(1..=255).prop_map(|bytes| sized(&bytes)).boxed(),
        Kind::Grouped { bytes: len, .. } => bytes(len),
        Kind::Type => rtype().prop_map(|t| t.to_be_bytes().to_vec()).boxed(),
        Kind::TypeBitmap => bitmap(),
        Kind::Special(_) => special(t),
    }
}

/// The field of its own that a type has.
fn special(t: Type) -> Bytes {
    match t {
        Type::WKS => bytes(0..60),
        Type::NSAP => bytes(1..24),
        Type::NXT => bytes(0..=16)
            .prop_map(|mut map| {
                map.iter_mut().take(1).for_each(|first| *first &= 0x7f);
                map
            })
            .boxed(),
        Type::ATMA => prop_oneof![
            bytes(2..22),
            "[0-9]{1,15}".prop_map(|digits| [b"\x01", digits.as_bytes()].concat()),
            bytes(1..20).prop_map(|address| [vec![0], address].concat()),
        ]
        .boxed(),
        Type::LOC => location(),
        Type::A6 => partial_address(),
        Type::APL => vec(prefix(), 0..5).prop_map(|items| items.concat()).boxed(),
        Type::SVCB | Type::HTTPS => parameters(),
        Type::IPSECKEY => relay(|kind, algorithm| vec![kind, algorithm]),
        Type::AMTRELAY => relay(|kind, algorithm| vec![kind | algorithm & 0x80]),
        Type::HIP => (bytes(1..=20), bytes(1..60), any::<u8>())
            .prop_map(|(hit, key, algorithm)| {
                [&[hit.len() as u8, algorithm][..], &(key.len() as u16).to_be_bytes(), &hit, &key].concat()
            })
            .boxed(),
        Type::NID | Type::L64 => bytes(8),
        Type::TSIG => bytes(6),
        other => unreachable!("{other} has no field of its own"),
    }
}

fn location() -> Bytes {
    let size = || (0..=9u8, 0..=9u8).prop_map(|(mantissa, exponent)| mantissa << 4 | exponent);
    let (latitude, longitude) = (90 * 3_600_000u32, 180 * 3_600_000u32);
    let angle = |most: u32| (1 << 31) - most..=(1 << 31) + most;
    (size(), size(), size(), angle(latitude), angle(longitude), any::<u32>())
        .prop_map(|(size, horizontal, vertical, latitude, longitude, altitude)| {
            let numbers = [latitude, longitude, altitude].map(u32::to_be_bytes).concat();
            [&[0, size, horizontal, vertical][..], &numbers].concat()
        })
        .boxed()
}

fn partial_address() -> Bytes {
    (0..=128u8, bytes(16), name())
        .prop_map(|(bits, address, name)| {
            let mut suffix = address[bits as usize / 8..].to_vec();
            suffix.iter_mut().take(1).for_each(|first| *first &= 0xff >> (bits % 8));
            [vec![bits], suffix, if bits == 0 { Vec::new() } else { name }].concat()
        })
        .boxed()
}

fn prefix() -> Bytes {
    let item = |family: u16, most_bits: u8, most_bytes: usize| {
        (0..=most_bits, any::<bool>(), bytes(0..=most_bytes)).prop_map(move |(bits, negated, mut address)| {
            while address.last() == Some(&0) {
                address.pop();
            }
            let len = address.len() as u8 | (negated as u8) << 7;
            [&family.to_be_bytes()[..], &[bits, len], &address].concat()
        })
    };
    prop_oneof![4 => item(1, 32, 4), 4 => item(2, 128, 16), 1 => item(3, 255, 20)].boxed()
}

fn relay(head: fn(u8, u8) -> Vec<u8>) -> Bytes {
    (0..=3u8, any::<u8>(), bytes(16), name())
        .prop_map(move |(kind, algorithm, address, name)| {
            let relay = match kind {
                0 => &[][..],
                1 => &address[..4],
                2 => &address,
                _ => &name,
            };
            [&head(kind, algorithm), relay].concat()
        })
        .boxed()
}

/// Service parameters that keep the rules among themselves.
fn parameters() -> Bytes {
    let strings = |least| {
        let item = prop_oneof![bytes(1..10), "[h,\\\\\"2 ]{1,6}".prop_map(String::into_bytes)];
        vec(item, least..3usize)
            .prop_map(|items| items.iter().flat_map(|item| sized(item)).collect::<Vec<u8>>())
    };
    let addresses = |len: usize| (1..4usize).prop_flat_map(move |count| bytes(count * len));
    let groups = vec(any::<u16>(), 1..5).prop_map(|groups| {
        let groups: BTreeSet<u16> = groups.into_iter().collect();
        groups.into_iter().flat_map(u16::to_be_bytes).collect::<Vec<u8>>()
    });
    let values: Vec<(u16, Bytes)> = vec![
        (1, strings(1).boxed()),
        (2, bytes(0)),
        (3, bytes(2)),
        (4, addresses(4).boxed()),
        (5, bytes(1..40)),
        (6, addresses(16).boxed()),
        (7, "[ -~äÄ]{1,20}".prop_map(String::into_bytes).boxed()),
        (8, bytes(0)),
        (9, groups.boxed()),
        (10, strings(0).boxed()),
        (667, bytes(0..20)),
        (65_534, bytes(0..20)),
    ];
    let values: Vec<_> =
        values.into_iter().map(|(key, value)| (Just(key), any::<bool>(), any::<bool>(), value)).collect();
    (values, any::<bool>())
        .prop_map(|(params, with_mandatory)| {
            let there = |key| params.iter().any(|param| param.0 == key && param.1);
            // no-default-alpn only together with alpn.
            let params: Vec<_> =
                params.iter().filter(|param| param.1 && (param.0 != 2 || there(1))).collect();
            let listed: Vec<u8> =
                params.iter().filter(|param| param.2).flat_map(|param| param.0.to_be_bytes()).collect();
            let mut bytes = Vec::new();
            if with_mandatory && !listed.is_empty() {
                bytes.extend([0, 0]);
                bytes.extend(sized16(listed));
            }
            for (key, _, _, value) in params {
                bytes.extend(key.to_be_bytes());
                bytes.extend(sized16(value.clone()));
            }
            bytes
        })
        .boxed()
}
