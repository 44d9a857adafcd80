//! Images: for any bytes, reading returns an error or a zone in which no lookup fails.
//!
//! The input is read as an image, and as changes to a valid one whose checksums are then not verified: the
//! remaining checks must find them. RFC 1035 §4.1.4 has a requirement for pointers that every zone must meet:
//! "an entire domain name or a list of labels at the end of a domain name is replaced with a pointer to a
//! prior occurance of the same name".

use std::sync::LazyLock;

use wire::hash::{HashKey, HashedName};
use wire::{Name, NameBuf, Ttl, Type};
use zone::image::{self, Image, Provenance};
use zone::store::{Zone, ZoneBuilder};

/// An image with every kind of part.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    image::write_to(&mut bytes, &zone(), &Provenance::default()).expect("a Vec takes everything");
    bytes
});

pub(crate) fn run(data: &[u8]) {
    if let Ok(zone) = Image::from_bytes(data).and_then(|image| image.read(&key(), 1)) {
        explore(&zone);
    }
    if let Ok(zone) = Image::unchecked(data).and_then(|image| image.read(&key(), 1)) {
        explore(&zone);
    }
    let mut bytes = WHOLE.clone();
    for change in data.as_chunks::<3>().0.iter().take(8) {
        let [high, low, byte] = *change;
        // Parts begin at page boundaries and are shorter than 1 KiB: every change hits one.
        let place = usize::from(u16::from_be_bytes([high, low]));
        let pages = bytes.len().div_ceil(4096);
        let at = place / 1024 % pages * 4096 + place % 1024;
        if let Some(there) = bytes.get_mut(at) {
            *there = byte;
        }
    }
    if let Ok(zone) = Image::unchecked(&bytes).and_then(|image| image.read(&key(), 1)) {
        explore(&zone);
    }
}

fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn zone() -> Zone {
    let mut builder = ZoneBuilder::new(name("example.").as_name(), &key());
    let mut add = |owner: &str, rtype: Type, rdata: &[u8]| {
        builder.add(name(owner).as_name(), rtype, Ttl::from_secs(3600), rdata).expect("a record");
    };
    add(
        "example.",
        Type::SOA,
        b"\x02ns\x07example\0\x05admin\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05",
    );
    add("example.", Type::RRSIG, b"\0\x06\x0d\x01\0\0\0\0\x60\0\0\0\x50\0\0\0\0\x01\x07example\0signature");
    add("example.", Type::NS, b"\x02ns\x07example\0");
    add("example.", Type::NS, b"\x03ns2\x02ns\x07example\0");
    add("example.", Type::NSEC, b"\x02ns\x07example\0\0\x01\x40");
    add("example.", Type::NSEC3PARAM, &[1, 0, 0, 0, 0]);
    add("ns.example.", Type::A, &[192, 0, 2, 1]);
    add("*.wild.example.", Type::MX, b"\0\x0a\x02ns\x07example\0");
    add("cut.example.", Type::NS, b"\x02ns\x03cut\x07example\0");
    add("ns.cut.example.", Type::A, &[192, 0, 2, 2]);
    let nsec3 = [&[1, 0, 0, 0, 0, 20][..], &[7; 20], b"\0\x01\x40"].concat();
    add("0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example.", Type::NSEC3, &nsec3);
    builder.finish().expect("a zone")
}

/// Reads everything in a zone, in the ways that answering does.
fn explore(zone: &Zone) {
    let (mut hashed, mut bytes) = (HashedName::new(), Vec::new());
    let mut look_up = |name: Name<'_>| {
        hashed.set(&key(), name);
        zone.prefetch_index(hashed.hash(0));
        zone.prefetch_node(hashed.hash(0))
            .into_iter()
            .for_each(|node| zone.prefetch_glue(zone.candidate(node)));
        let _ = zone.find(hashed.suffix(0), hashed.hash(0));
        let _ = zone.nsec().and_then(|chain| chain.covering(hashed.as_lower()));
    };
    for text in ["example.", "ns.example.", "www.example.", "a.wild.example.", "x.ns.cut.example."] {
        look_up(name(text).as_name());
    }
    for node in zone {
        look_up(node.written_owner().as_name());
        for set in node.rrsets() {
            bytes.clear();
            set.rdatas().chain(set.sig_rdatas()).for_each(|rdata| rdata.copy_to(&mut bytes));
            assert!(set.fixups().all(|fixup| usize::from(fixup.at) + 2 <= set.records().len()));
            for target in set.targets().filter(|target| target.node.is_some()) {
                assert!(target.name_at < set.records().len());
            }
        }
    }
    if let Some(chain) = zone.nsec3() {
        for byte in [0, 6, 0x80, 0xff] {
            let _ = chain.matching(&[byte; 20]);
            assert!(chain.covering(&[byte; 20]).rrset_count() < 1 << 16);
        }
    }
    zone::check::check(zone, &mut |_| {});
}
