//! Damaged, truncated, outdated and malicious images, and how they are handled. `tests/model.rs` checks that
//! intact images have the content of their zones.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use testkit::random;
use testkit::tld::Tld;
use wire::hash::{HashKey, HashedName};
use wire::{Name, NameBuf, Serial, Ttl, Type};
use zone::image::{self, Image, ImageError, Provenance};
use zone::store::{Zone, ZoneBuilder};
use zone::{LoadConfig, Loaded, load_file};

fn key() -> HashKey {
    HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7])
}

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

/// A zone with everything that an image can contain: several names, NSEC, NSEC3, a wildcard, glue.
fn zone() -> Zone {
    let apex = name("example.");
    let mut builder = ZoneBuilder::new(apex.as_name(), &key());
    let mut add = |owner: &str, rtype, rdata: &[u8]| {
        builder.add(name(owner).as_name(), rtype, Ttl::from_secs(3600), rdata).expect("a record");
    };
    add("example.", Type::SOA, &random::soa(apex.as_name(), 7));
    add("example.", Type::RRSIG, &random::rrsig(Type::SOA, 1));
    add("example.", Type::NS, b"\x03ns1\x07example\0");
    add("example.", Type::NS, b"\x03ns2\x03ns1\x07example\0");
    add("example.", Type::NSEC3PARAM, &[1, 0, 0, 0, 0]);
    add("example.", Type::NSEC, b"\x01*\x07example\0\0\x01\x40");
    add("*.example.", Type::MX, b"\0\x0a\x04mail\x07example\0");
    add("*.example.", Type::NSEC, b"\x07example\0\0\x01\x40");
    add("ns1.example.", Type::A, &[192, 0, 2, 1]);
    add("cut.example.", Type::NS, b"\x02ns\x03cut\x07example\0");
    add("ns.cut.example.", Type::A, &[192, 0, 2, 2]);
    let nsec3 = [&[1, 0, 0, 0, 0, 20][..], &[7; 20], b"\0\x01\x40"].concat();
    add("0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example.", Type::NSEC3, &nsec3);
    builder.finish().expect("a zone")
}

/// The bytes of an image.
fn bytes(zone: &Zone) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = image::write_to(&mut bytes, zone, &Provenance::default()).expect("written");
    assert_eq!(bytes.len() as u64, len);
    bytes
}

/// Opens and reads a file with these bytes.
fn read(folder: &TempDir, bytes: &[u8]) -> Result<Zone, ImageError> {
    let path = folder.path().join("image");
    fs::write(&path, bytes).expect("written");
    Image::open(&path)?.read(&key(), 2)
}

#[test]
fn damage_and_loss_are_noticed_wherever_they_are() {
    let (folder, whole) = (tempfile::tempdir().expect("a folder"), bytes(&zone()));
    assert!(read(&folder, &whole).is_ok());
    // The padding between parts is not verified; every other byte is.
    let padding = |at: usize| {
        let page = whole[at..].iter().take(4096 - at % 4096).all(|&byte| byte == 0);
        page && !at.is_multiple_of(4096)
    };
    let mut damaged = whole.clone();
    let mut tried = 0;
    for at in (0..whole.len()).filter(|&at| !padding(at)) {
        damaged[at] ^= 1 << (at % 8);
        assert!(read(&folder, &damaged).is_err(), "byte {at}");
        damaged[at] = whole[at];
        tried += 1;
    }
    assert!(tried > 500, "{tried} bytes");
    for at in (0..whole.len()).step_by(4096).flat_map(|page| [page, page + 1, page + 24, page + 100]) {
        let end = at.min(whole.len() - 1);
        assert!(read(&folder, &whole[..end]).is_err(), "cut after {end}");
    }
    let longer = [&whole[..], b"more"].concat();
    assert!(read(&folder, &longer).is_ok(), "what follows is no part of it");
}

#[test]
fn damage_in_any_mebibyte_of_a_large_zone_is_reported_with_its_place() {
    let apex = name("com.");
    let mut builder = ZoneBuilder::new(apex.as_name(), &key());
    for record in Tld::new(apex, 120_000) {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata).expect("a record");
    }
    let zone = builder.finish().expect("a zone");
    let (folder, mut bytes) = (tempfile::tempdir().expect("a folder"), bytes(&zone));
    let again = read(&folder, &bytes).expect("the zone");
    assert_eq!((again.record_count(), again.memory()), (zone.record_count(), zone.memory()));
    assert!(bytes.len() > 3 << 20, "{}", bytes.len());
    for at in (5000..bytes.len()).step_by(1 << 20) {
        bytes[at] ^= 0x10;
        match read(&folder, &bytes) {
            Err(ImageError::Damaged(what)) => assert!(what.contains("checksum of part"), "{what}"),
            other => panic!("byte {at}: {other:?}"),
        }
        bytes[at] ^= 0x10;
    }
}

#[test]
fn other_keys_and_what_is_no_image_have_errors_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    assert!(matches!(Image::open(&path).err(), Some(ImageError::Missing)));
    for other in [&b""[..], b"nomen", b"; a master file that is longer than a header\n"] {
        assert!(matches!(read(&folder, other), Err(ImageError::OtherFormat)), "{other:?}");
    }
    image::write(&path, &zone(), &Provenance::default()).expect("written");
    let image = Image::open(&path).expect("an image");
    assert_eq!((image.apex().as_name().to_buf(), image.serial()), (name("example."), Serial(7)));
    let other = HashKey::new([1, 2, 3]);
    assert!(matches!(image.read(&other, 1), Err(ImageError::OtherKey)));
    assert!(matches!(Image::open(folder.path()).err(), Some(ImageError::Io(_))), "a folder");
}

const APEX: &str = "$TTL 60\n@ SOA ns1 admin 7 1 2 3 4\n@ NS ns1\nns1 A 192.0.2.1\n";

fn load(path: &Path) -> Loaded {
    load_file(path, name("example.").as_name(), &key(), &LoadConfig::default()).expect("a zone")
}

#[test]
fn images_are_current_until_any_of_their_files_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("zone"), format!("{APEX}$INCLUDE part\n")).expect("written");
    fs::write(path("part"), "www A 192.0.2.7\n").expect("written");
    let check = || {
        let apex = name("example.");
        Image::open(&path("image")).expect("an image").check_current(apex.as_name(), &path("zone"), &key())
    };
    let compile = || {
        let loaded = load(&path("zone"));
        let sources = loaded.sources.expect("all from files");
        assert_eq!(sources.len(), 2);
        image::write(&path("image"), &loaded.zone, &Provenance { sources, warnings: 3 }).expect("written");
        check().expect("current");
    };
    let changed = |of: &str| match check() {
        Err(ImageError::Changed(file)) => assert_eq!(file, path(of)),
        other => panic!("{other:?}"),
    };
    compile();
    assert_eq!(Image::open(&path("image")).expect("an image").provenance().warnings, 3);
    fs::write(path("part"), "www A 192.0.2.77\n").expect("written");
    changed("part");
    compile();
    fs::remove_file(path("part")).expect("removed");
    changed("part");
    fs::write(path("part"), "www A 192.0.2.77\n").expect("written");
    changed("part");
    compile();
    // The same content with another modification time.
    let time = fs::metadata(path("zone")).and_then(|about| about.modified()).expect("a time");
    let file = fs::File::options().append(true).open(path("zone")).expect("opened");
    file.set_modified(time + std::time::Duration::from_secs(1)).expect("set");
    changed("zone");
    compile();
    let image = Image::open(&path("image")).expect("an image");
    let error = image.check_current(name("example.").as_name(), &path("part"), &key());
    assert!(matches!(error, Err(ImageError::OtherFile(_))), "{error:?}");
    let error = image.check_current(name("other.").as_name(), &path("zone"), &key());
    assert!(matches!(error, Err(ImageError::OtherZone)), "{error:?}");
    let error = image.check_current(name("example.").as_name(), &path("zone"), &HashKey::random());
    assert!(matches!(error, Err(ImageError::OtherKey)), "{error:?}");
}

#[test]
fn text_that_is_no_file_has_no_sources() {
    let source = zone::scan::TextSource::bytes("text", APEX.as_bytes());
    let go_on = |_| std::ops::ControlFlow::Continue(());
    let loaded = zone::load::load(source, name("example.").as_name(), &key(), &LoadConfig::default(), go_on);
    assert!(loaded.expect("a zone").sources.is_none());
}

#[test]
fn writing_leaves_the_old_image_or_the_new_one() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    image::write(&path, &zone(), &Provenance::default()).expect("written");
    assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o7777, 0o600);
    // The file that a writer leaves if it is killed before the last step.
    let whole = fs::read(&path).expect("read");
    let left = folder.path().join(format!("{}1-0-image", image::TEMPORARY));
    let busy = folder.path().join(format!("{}2-0-image", image::TEMPORARY));
    fs::write(&left, &whole[..5000]).expect("written");
    let writing = fs::File::create(&busy).expect("created");
    writing.lock().expect("locked");
    assert_eq!(whole, bytes(&zone()));
    assert!(read_at(&path).is_ok());
    image::remove_leftovers(folder.path()).expect("removed");
    assert!(!left.exists() && busy.exists() && path.exists());
    // A folder at the image's path makes the rename fail: no file is left.
    let blocked = folder.path().join("blocked");
    fs::create_dir(&blocked).expect("created");
    assert!(image::write(&blocked, &zone(), &Provenance::default()).is_err());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
    assert!(image::write(&folder.path().join("nowhere/image"), &zone(), &Provenance::default()).is_err());
}

fn read_at(path: &Path) -> Result<Zone, ImageError> {
    Image::open(path)?.read(&key(), 1)
}

/// Reads everything in a zone, in every way that answering does.
fn explore(zone: &Zone, names: &[NameBuf]) -> usize {
    let (mut hashed, mut bytes, mut seen) = (HashedName::new(), Vec::new(), 0);
    let own: Vec<NameBuf> = zone.iter().map(|node| node.owner().as_name().to_buf()).collect();
    for name in names.iter().chain(&own) {
        hashed.set(&key(), name.as_name());
        zone.prefetch_index(hashed.hash(0));
        zone.prefetch_node(hashed.hash(0))
            .into_iter()
            .for_each(|node| zone.prefetch_glue(zone.candidate(node)));
        seen += usize::from(zone.find(hashed.suffix(0), hashed.hash(0)).is_some());
        seen += usize::from(zone.nsec().is_some_and(|chain| chain.covering(hashed.as_lower()).is_some()));
    }
    for node in zone {
        seen += node.written_owner().as_name().len();
        for set in node.rrsets() {
            bytes.clear();
            set.rdatas().chain(set.sig_rdatas()).for_each(|rdata| rdata.copy_to(&mut bytes));
            seen += set.fixups().count() + set.records_and_sigs().len() + bytes.len();
            for target in set.targets().filter(|target| target.node.is_some()) {
                seen += set.records()[target.name_at] as usize;
            }
        }
    }
    if let Some(chain) = zone.nsec3() {
        for byte in [0, 6, 0x80, 0xff] {
            seen += chain.covering(&[byte; 20]).rrset_count();
            seen += usize::from(chain.matching(&[byte; 20]).is_some());
        }
    }
    zone::check::check(zone, &mut |_| seen += 1);
    seen
}

fn questions() -> Vec<NameBuf> {
    ["example.", "ns1.example.", "www.example.", "*.example.", "a.b.cut.example.", "other."]
        .map(name)
        .to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// Checksums do not protect against a writer that can compute them.
    #[test]
    fn wrong_content_is_refused_or_harmless(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        thread_local! {
            static WHOLE: Vec<u8> = bytes(&zone());
        }
        let mut bytes = WHOLE.with(Clone::clone);
        let meaningful: Vec<usize> = (24..bytes.len()).filter(|&at| at % 4096 < 700).collect();
        for (at, byte) in changes {
            bytes[meaningful[at.index(meaningful.len())]] = byte;
        }
        if let Ok(image) = Image::unchecked(&bytes)
            && let Ok(zone) = image.read(&key(), 1)
        {
            explore(&zone, &questions());
        }
    }
}

/// Changes every byte in ways that make lengths, counts and addresses wrong.
#[test]
fn every_wrong_byte_is_refused_or_harmless() {
    let whole = bytes(&zone());
    let mut bytes = whole.clone();
    let (mut refused, mut harmless) = (0, 0);
    for at in (8..whole.len()).filter(|&at| at % 4096 < 900) {
        for change in [1u8, 0x10, 0x80, 0xff] {
            bytes[at] = whole[at] ^ change;
            match Image::unchecked(&bytes).and_then(|image| image.read(&key(), 1)) {
                Ok(zone) => harmless += explore(&zone, &questions()).min(1),
                Err(_) => refused += 1,
            }
        }
        bytes[at] = whole[at];
    }
    assert!(refused > 1000 && harmless > 100, "{refused} refused, {harmless} harmless");
    assert!(explore(&zone(), &questions()) > 100);
}

/// Two pointers in one place would make the server copy RDATA backwards.
#[test]
fn pointers_stand_one_after_the_other() {
    let mut builder = ZoneBuilder::new(name("example.").as_name(), &key());
    // The offsets of the two pointers in the RRset: after `ns1` and after `admin`.
    let soa = [&b"\x03ns1\x07example\0\x05admin\x07example\0"[..], &[0; 20]].concat();
    builder.add(name("example.").as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
    let whole = bytes(&builder.finish().expect("a zone"));
    let places = [16u8, 0, 24, 0];
    let at = whole.windows(4).position(|bytes| bytes == places).expect("the places");
    for wrong in [[16, 0, 16, 0], [24, 0, 24, 0], [24, 0, 16, 0], [16, 0, 17, 0]] {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&wrong);
        let read = Image::unchecked(&bytes).and_then(|image| image.read(&key(), 1));
        assert!(matches!(read, Err(ImageError::Damaged(_))), "{wrong:?}");
    }
}

#[test]
fn names_of_the_root_zone_are_names_of_the_zone() {
    let mut builder = ZoneBuilder::new(Name::ROOT, &key());
    builder.add(Name::ROOT, Type::SOA, Ttl::from_secs(60), &random::soa(Name::ROOT, 1)).expect("a record");
    builder.add(name("a.b.").as_name(), Type::A, Ttl::from_secs(60), &[1, 2, 3, 4]).expect("a record");
    let folder = tempfile::tempdir().expect("a folder");
    let zone = read(&folder, &bytes(&builder.finish().expect("a zone"))).expect("the zone");
    assert!(zone.find_name(name("b.").as_name()).is_some());
}
