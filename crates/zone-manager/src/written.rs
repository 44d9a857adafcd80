//! Writing of a zone to a file as master-file text. The text is written beside the file and then renamed, so
//! that a reader finds either the old text or the new one, whole. Takes as much memory as one name, however
//! large the zone is. Waits for the disk: no thread that others wait for may call this.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zone::{Stamp, Zone};

use super::dump::dump_lines;
use telemetry::repeated::log_repeated;
use wording::reason;

/// Suffix of a file while it is written. Zone folders do not load such a file as a zone.
const UNFINISHED: &str = ".nomen.tmp";
/// Bytes per write.
const WRITE_BUFFER_BYTES: usize = 256 * 1024;
/// Permissions of a new file, before the process's umask.
const NEW_MODE: u32 = 0o644;

/// Why a zone was not written to a file. An existing file is unchanged.
#[derive(Debug)]
pub enum WriteFault {
    /// A system call failed.
    Io {
        /// The failed operation, as words that the path follows.
        what: &'static str,
        /// The file or its folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The path exists and is no ordinary file.
    NoFile(PathBuf),
    /// The file exists already and is not to be replaced.
    Exists(PathBuf),
    /// The `ready` callback rejected the file.
    Withdrawn,
}

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, error } => {
                write!(f, "cannot {what} {}: {}", path.display(), reason(error))
            }
            Self::NoFile(path) => write!(f, "{} is no ordinary file", path.display()),
            Self::Exists(path) => {
                write!(f, "{} is there already; --force replaces it", path.display())
            }
            Self::Withdrawn => f.write_str("the file was changed while it was written"),
        }
    }
}
impl std::error::Error for WriteFault {}

fn io_fault(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteFault {
    move |error| WriteFault::Io { what, path: path.to_owned(), error }
}

/// Writes a zone to the file at `path`, which may exist if `replace`. Follows a symbolic link, which stays a
/// link. The file gets the permissions of the one it replaces, and its owner and group as far as the system
/// permits.
///
/// Once the text is on disk and before the file has its name, `ready` is called with its stamp, which is the
/// file's final one except for its change time (ctime). If `ready` returns false, nothing is changed.
///
/// # Errors
/// [`WriteFault`].
pub fn write(
    zone: &Zone,
    path: &Path,
    replace: bool,
    ready: impl FnOnce(Stamp) -> bool,
) -> Result<(), WriteFault> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = match fs::symlink_metadata(path) {
        Ok(about) if !about.is_file() => return Err(WriteFault::NoFile(path.clone())),
        Ok(_) if !replace => return Err(WriteFault::Exists(path.clone())),
        Ok(about) => Some(about),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_fault("look at", path)(error)),
    };
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    let beside = PathBuf::from(name);
    let written = write_beside(zone, &beside, old.as_ref())
        .and_then(|stamp| if ready(stamp) { Ok(()) } else { Err(WriteFault::Withdrawn) })
        .and_then(|()| fs::rename(&beside, path).map_err(io_fault("rename a file to", path)));
    if written.is_err() {
        // The file is not needed. If this fails, the next try removes it.
        let _ = fs::remove_file(&beside);
        return written;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_fault("sync the folder", folder))
}

/// Writes the text to a new file, and returns its stamp when it is on disk.
fn write_beside(zone: &Zone, path: &Path, old: Option<&Metadata>) -> Result<Stamp, WriteFault> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_fault("remove", path)(error)),
        _ => {}
    }
    let mode = old.map_or(NEW_MODE, |_| 0o600);
    // Fails if the path exists, even as a link.
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file.map_err(io_fault("make", path))?);
    let finish = |out: &mut BufWriter<File>| {
        write_text(zone, out)?;
        out.flush()?;
        if let Some(old) = old {
            resemble(out.get_ref(), old, path)?;
        }
        out.get_ref().sync_all()?;
        out.get_ref().metadata()
    };
    finish(&mut out).map(|about| Stamp::from(&about)).map_err(io_fault("write", path))
}

/// Sets owner, group and permissions of a file to those of another, as far as the system permits.
fn resemble(file: &File, old: &Metadata, path: &Path) -> io::Result<()> {
    let about = file.metadata()?;
    let group = (about.gid() != old.gid()).then(|| nix::unistd::Gid::from_raw(old.gid()));
    let user = (about.uid() != old.uid()).then(|| nix::unistd::Uid::from_raw(old.uid()));
    for (user, group, what) in [(None, group, "group"), (user, None, "owner")] {
        if (user.is_some() || group.is_some()) && nix::unistd::fchown(file, user, group).is_err() {
            let about = ("other owner", &*path.display().to_string());
            log_repeated!(
                warn,
                WARN,
                about,
                "{}: it gets another {what} than the file that it replaces had",
                path.display()
            );
        }
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

/// Writes a zone as master-file text: a comment, then the records in canonical order, the SOA first, each on
/// one line.
///
/// # Errors
/// Those of `out`.
pub fn write_text(zone: &Zone, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "; zone {}, serial {}, written by nomen", zone.apex(), zone.serial())?;
    let mut written = Ok(());
    dump_lines(zone, &mut |line| {
        written = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
        written.is_ok()
    });
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::ControlFlow;
    use std::os::unix::fs::symlink;
    use wire::hash::HashKey;
    use wire::{Name, NameBuf, Ttl, Type};
    use zone::scan::TextSource;
    use zone::store::diff;
    use zone::{LoadConfig, ZoneBuilder};

    fn read(text: &[u8], apex: Name<'_>) -> Zone {
        let source = TextSource::bytes("test", text);
        let config = LoadConfig::default();
        let loaded =
            zone::load::load(source, apex, &HashKey::random(), &config, |_| ControlFlow::Continue(()));
        loaded.unwrap_or_else(|fault| panic!("{fault}\n{}", String::from_utf8_lossy(text))).zone
    }

    fn example() -> Zone {
        let apex: NameBuf = "example.".parse().expect("a name");
        read(b"$TTL 60\n@ SOA ns1 admin 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n", apex.as_name())
    }

    /// Labels of any bytes, preferring those that have a meaning in text.
    fn label() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![4 => any::<u8>(), 3 => prop::sample::select(&b"$@\\\".;() *\n\t#-_aA0"[..])];
        prop::collection::vec(byte, 1..8)
    }

    fn name(labels: &[Vec<u8>], apex: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(label.len() as u8);
            wire.extend(label);
        }
        wire.extend(apex);
        wire
    }

    /// Types whose data may be any bytes, written as character-strings or as unknown types (RFC 3597).
    fn data() -> impl Strategy<Value = (u16, Vec<u8>)> {
        let string = prop::collection::vec(label(), 1..3).prop_map(|strings| {
            (Type::TXT.0, strings.iter().flat_map(|s| [&[s.len() as u8][..], s].concat()).collect())
        });
        let unknown = prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| (65_280, bytes));
        let address = any::<[u8; 4]>().prop_map(|bytes| (Type::A.0, bytes.to_vec()));
        let mx = prop::collection::vec(label(), 0..3)
            .prop_map(|labels| (Type::MX.0, [vec![0, 7], name(&labels, &[0])].concat()));
        prop_oneof![string, unknown, address, mx]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]
        #[test]
        fn what_is_written_reads_back_as_the_same_zone(
            zone_name in prop::collection::vec(label(), 0..3),
            records in prop::collection::vec((prop::collection::vec(label(), 0..4), data(), 0..100_000u32), 0..20),
        ) {
            let apex = name(&zone_name, &[0]);
            let apex = Name::from_wire(&apex).expect("a name");
            let mut builder = ZoneBuilder::new(apex, &HashKey::random());
            let soa = [&[0, 0][..], &[0, 0, 0, 9], &[0; 16]].concat();
            builder.add(apex, Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
            builder.add(apex, Type::NS, Ttl::from_secs(60), &[0]).expect("a record");
            for (labels, (rtype, rdata), ttl) in &records {
                let owner = name(labels, apex.as_wire());
                let owner = Name::from_wire(&owner).expect("a name");
                // The builder sets one TTL for each RRset.
                let _ = builder.add(owner, Type(*rtype), Ttl::from_secs(*ttl), rdata);
            }
            let zone = builder.finish().expect("a zone");
            let mut text = Vec::new();
            write_text(&zone, &mut text).expect("written");
            let again = read(&text, apex);
            prop_assert!(diff(&zone, &again).is_empty(), "{}", String::from_utf8_lossy(&text));
            prop_assert_eq!(zone.record_count(), again.record_count());
        }
    }

    #[test]
    fn a_file_is_replaced_where_that_is_wanted_and_keeps_its_permissions_and_its_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let zone = example();
        write(&zone, &at("new"), false, |_| true).expect("written");
        let text = fs::read(at("new")).expect("the file");
        assert!(diff(&read(&text, zone.apex().as_name()), &zone).is_empty());
        assert!(matches!(write(&zone, &at("new"), false, |_| true), Err(WriteFault::Exists(_))));
        fs::write(at("old"), "some text").expect("written");
        fs::set_permissions(at("old"), Permissions::from_mode(0o640)).expect("set");
        symlink(at("old"), at("link")).expect("a link");
        let mut stamp = None;
        write(&zone, &at("link"), true, |ready| {
            stamp = Some(ready);
            true
        })
        .expect("written");
        assert_eq!(fs::read(at("old")).expect("the file"), text);
        assert!(fs::symlink_metadata(at("link")).expect("a link").is_symlink());
        assert_eq!(fs::metadata(at("old")).expect("a file").mode() & 0o777, 0o640);
        let (before, after) = (stamp.expect("a stamp"), Stamp::of(&at("old")).expect("a stamp"));
        assert_eq!((before.size, before.inode, before.modified), (after.size, after.inode, after.modified));
    }

    #[test]
    fn a_file_that_is_not_written_is_as_it_was_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let zone = example();
        let path = folder.path().join("old");
        fs::write(&path, "some text").expect("written");
        // A file that a crash has left.
        fs::write(folder.path().join("old.nomen.tmp"), "half").expect("written");
        assert!(matches!(write(&zone, &path, true, |_| false), Err(WriteFault::Withdrawn)));
        assert_eq!(fs::read_to_string(&path).expect("the file"), "some text");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        assert!(matches!(write(&zone, folder.path(), true, |_| true), Err(WriteFault::NoFile(_))));
        let nowhere = folder.path().join("nosuch/zone");
        assert!(matches!(write(&zone, &nowhere, true, |_| true), Err(WriteFault::Io { what: "make", .. })));
    }
}
