//! File names of stores.
//!
//! A store is `SHARD/NAME.zone`, in lower case. SHARD is two hexadecimal digits of a hash of the zone's name,
//! so that no folder has too many files. NAME keeps letters, digits, `-` and `_`, separates labels by dots,
//! and encodes any other byte as `%` and two hexadecimal digits. The root is `@`. A NAME of more than
//! [`MAX_STEM_BYTES`] bytes is cut to that length, and `~` and 32 hexadecimal digits of a hash follow: the
//! file itself names the zone it holds.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use wire::{LowerName, LowerNameBuf, Name};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Longest file name before its hash, in bytes: with hash and extension it fits the 255 bytes of file
/// systems.
const MAX_STEM_BYTES: usize = 200;
/// Extension of a store.
pub(crate) const STORE: &str = ".zone";
/// Extension of a store that is being written.
const UNFINISHED: &str = ".new";
/// Extension of a store that was set aside.
const ASIDE: &str = ".damaged";

/// Paths of one zone's files.
pub(crate) struct Paths {
    /// The folder that holds them.
    pub(crate) shard: PathBuf,
    /// The store.
    pub(crate) store: PathBuf,
    /// The store that is being written.
    pub(crate) unfinished: PathBuf,
    /// The store that was set aside.
    pub(crate) aside: PathBuf,
}

/// The zone that the file name of a store encodes, which ends in `.zone`; `None` if the name was cut or is
/// not that of a store.
pub fn apex_of(file: &str) -> Option<LowerNameBuf> {
    let name = file.strip_suffix(STORE)?;
    let mut wire = Vec::new();
    for label in name.split('.').filter(|_| name != "@") {
        let (start, mut bytes) = (wire.len(), label.bytes());
        wire.push(0);
        while let Some(byte) = bytes.next() {
            wire.push(match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => byte,
                b'%' => {
                    let mut digit = || char::from(bytes.next()?).to_digit(16);
                    u8::try_from(digit()? * 16 + digit()?).ok()?
                }
                _ => return None,
            });
        }
        wire[start] = u8::try_from(wire.len() - start - 1).ok()?;
    }
    wire.push(0);
    let apex = Name::from_wire(&wire).ok()?.to_lower();
    // Each zone has exactly one valid file name.
    (file_name(apex.as_lower()) == name).then_some(apex)
}

impl Paths {
    pub(crate) fn new(root: &Path, apex: LowerName<'_>) -> Paths {
        let shard = root.join(shard(xxh3_64(apex.as_wire()) as u8));
        let name = file_name(apex);
        let [store, unfinished, aside] =
            [STORE, UNFINISHED, ASIDE].map(|ending| shard.join(format!("{name}{ending}")));
        Paths { shard, store, unfinished, aside }
    }
}

/// The name of a shard folder.
pub(crate) fn shard(number: u8) -> String {
    format!("{number:02x}")
}

/// The file name of a zone, without the extension of a store.
pub fn file_name(apex: LowerName<'_>) -> String {
    let mut name = String::new();
    for (number, label) in apex.labels().enumerate() {
        if number > 0 {
            name.push('.');
        }
        for &byte in label {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
                _ => {
                    // Writing to a `String` cannot fail.
                    let _ = write!(name, "%{byte:02x}");
                }
            }
        }
    }
    if name.is_empty() {
        name.push('@');
    }
    if name.len() > MAX_STEM_BYTES {
        name.truncate(MAX_STEM_BYTES);
        let _ = write!(name, "~{:032x}", xxh3_128(apex.as_wire()));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::NameBuf;

    fn of(text: &str) -> String {
        let name: NameBuf = text.parse().expect("a name");
        file_name(name.as_name().to_lower().as_lower())
    }

    #[test]
    fn names_of_files_are_safe_and_differ() {
        assert_eq!(of("Example.COM."), "example.com");
        assert_eq!(of("."), "@");
        assert_eq!(of("@."), "%40");
        assert_eq!(of("0/25.2.0.192.in-addr.arpa."), "0%2f25.2.0.192.in-addr.arpa");
        assert_eq!(of(r"a\.b."), "a%2eb");
        assert_eq!(of(r"\.\.."), "%2e%2e");
        assert_eq!(of(r"\000\255%~."), "%00%ff%25%7e");
    }

    #[test]
    fn the_name_of_a_file_says_which_zone_it_is_of() {
        for text in
            ["example.com.", ".", "@.", "0/25.2.0.192.in-addr.arpa.", r"a\.b.", r"\.\..", r"\000\255%~."]
        {
            let name: NameBuf = text.parse().expect("a name");
            let file = format!("{}{STORE}", of(text));
            assert_eq!(apex_of(&file), Some(name.as_name().to_lower()), "{file}");
        }
        let long = format!("{}~{:032x}{STORE}", "a".repeat(MAX_STEM_BYTES), 1);
        for file in
            ["a.new", "A.zone", "a..zone", ".zone", "%61.zone", "%4.zone", "%zz.zone", "a b.zone", &long]
        {
            assert_eq!(apex_of(file), None, "{file}");
        }
    }

    #[test]
    fn long_names_are_cut_and_told_apart_by_their_hash() {
        let wire = |last: u8| [&[63; 1][..], &[0xff; 63], &[63], &[0xff; 63], &[1, last, 0]].concat();
        let names = [1, 2].map(|last| {
            let wire = wire(last);
            file_name(Name::from_wire(&wire).expect("a name").to_lower().as_lower())
        });
        assert!(names.iter().all(|name| name.len() + STORE.len().max(ASIDE.len()) <= 255));
        assert_ne!(names[0], names[1]);
        assert_eq!(names[0][..MAX_STEM_BYTES], names[1][..MAX_STEM_BYTES]);
    }
}
