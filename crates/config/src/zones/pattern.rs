//! Patterns that map zone names to files: the path of a template's zones, and the file names in a zone
//! directory. Both directions are here so that they agree on how a zone name is written as a file name.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;
use wire::name::{Name, NameBuf};

use super::{ZoneNameFault, zone_name};
use crate::table::read::Reader;
use crate::table::value::{Value, quote};

/// The word for the root zone in a file name, since "." is not usable as one.
const ROOT_WORD: &str = "root";

/// One piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// The whole zone name.
    Zone,
    /// The nth character of the zone name, from 1.
    Char(usize),
    /// The last label.
    Tld,
}

/// Why a pattern is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternFault {
    /// A `{` without its `}`.
    Unclosed,
    /// The placeholder does not exist.
    Unknown(String),
    /// All zones would have the same path.
    Fixed,
    /// A file name pattern contains a folder.
    Folder,
    /// A file name pattern does not have `{zone}` exactly once.
    NotOneZone,
}

impl fmt::Display for PatternFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclosed => f.write_str("a `{` is never closed"),
            Self::Unknown(word) => {
                write!(f, "unknown placeholder {{{word}}}; there are {{zone}}, {{1}}, {{2}}, {{3}}, {{tld}}")
            }
            Self::Fixed => f.write_str("the pattern has no placeholder such as {zone}"),
            Self::Folder => f.write_str("the pattern is for a file name and cannot contain `/`"),
            Self::NotOneZone => f.write_str("the pattern needs {zone} exactly once and no other placeholder"),
        }
    }
}

/// A path with placeholders for the zone's name; a relative one starts from the configuration file's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    base: PathBuf,
    text: String,
    pieces: Vec<Piece>,
}

impl PathPattern {
    /// Parses a pattern; one without placeholders is an error, since all zones would share one file.
    pub fn parse(text: &str, base: &Path) -> Result<Self, PatternFault> {
        let pieces = parse_pieces(text)?;
        if pieces.iter().all(|p| matches!(p, Piece::Text(_))) {
            return Err(PatternFault::Fixed);
        }
        Ok(Self { base: base.to_owned(), text: text.to_owned(), pieces })
    }

    /// Returns the path of a zone's file.
    pub fn path(&self, zone: Name<'_>) -> PathBuf {
        let name = file_word(zone);
        let mut path = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => path.push_str(text),
                Piece::Zone => path.push_str(&name),
                Piece::Char(n) => path.push(name.chars().nth(n - 1).unwrap_or('_')),
                Piece::Tld => path.push_str(name.rsplit('.').next().unwrap_or(&name)),
            }
        }
        self.base.join(path)
    }

    /// Returns the folder that all files of the pattern are in, at some depth.
    pub fn folder(&self) -> PathBuf {
        let fixed = match self.pieces.first() {
            Some(Piece::Text(text)) => text.rsplit_once('/').map_or("", |(folder, _)| folder),
            _ => "",
        };
        match fixed.is_empty() && self.text.starts_with('/') {
            true => PathBuf::from("/"),
            false => self.base.join(fixed),
        }
    }
}

/// A file name pattern with `{zone}`, which maps a file name to its zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePattern {
    before: String,
    after: String,
}

impl Default for FilePattern {
    fn default() -> Self {
        Self { before: String::new(), after: ".zone".into() }
    }
}

impl FilePattern {
    /// Parses a pattern with exactly one `{zone}` and no folder.
    pub fn parse(text: &str) -> Result<Self, PatternFault> {
        if text.contains('/') {
            return Err(PatternFault::Folder);
        }
        match parse_pieces(text)?.as_slice() {
            [Piece::Zone] => Ok(Self { before: String::new(), after: String::new() }),
            [Piece::Zone, Piece::Text(after)] => Ok(Self { before: String::new(), after: after.clone() }),
            [Piece::Text(before), Piece::Zone] => Ok(Self { before: before.clone(), after: String::new() }),
            [Piece::Text(before), Piece::Zone, Piece::Text(after)] => {
                Ok(Self { before: before.clone(), after: after.clone() })
            }
            _ => Err(PatternFault::NotOneZone),
        }
    }

    /// Returns the zone of a file; `None` if the name does not match the pattern or is hidden, an error if
    /// the matching part is not a zone name.
    pub fn zone_of(&self, file_name: &str) -> Option<Result<NameBuf, ZoneNameFault>> {
        let word = file_name.strip_prefix(self.before.as_str())?.strip_suffix(self.after.as_str())?;
        if word.is_empty() || self.is_leaving(file_name) {
            return None;
        }
        let name = if word == ROOT_WORD { "." } else { word };
        Some(zone_name(name))
    }

    /// Returns whether an editor or a tool left the file behind. An ending that the pattern itself contains
    /// does not count.
    fn is_leaving(&self, file_name: &str) -> bool {
        let ending = file_name.rsplit_once('.').map_or("", |(_, ending)| ending);
        file_name.starts_with(['.', '#'])
            || (self.after.is_empty() && (file_name.ends_with(['~', '#']) || LEAVINGS.contains(&ending)))
    }
}

/// Endings of files that editors, package managers and other servers leave beside zone files. None is a
/// top-level domain.
const LEAVINGS: [&str; 14] = [
    "bak",
    "dpkg-dist",
    "dpkg-new",
    "dpkg-old",
    "jbk",
    "jnl",
    "old",
    "orig",
    "rej",
    "rpmnew",
    "rpmsave",
    "signed",
    "swp",
    "tmp",
];

/// Returns a zone name without its final dot, safe as a file name.
fn file_word(zone: Name<'_>) -> String {
    if zone.is_root() {
        return ROOT_WORD.into();
    }
    let text = zone.to_string().to_ascii_lowercase();
    let word = text.strip_suffix('.').unwrap_or(&text).replace('/', "\\047");
    // A zone name never yields a leading dot: the presentation format writes it as `\.`.
    word
}

fn parse_pieces(text: &str) -> Result<Vec<Piece>, PatternFault> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        if open > 0 {
            pieces.push(Piece::Text(rest[..open].to_owned()));
        }
        let Some(close) = rest[open..].find('}').map(|i| open + i) else {
            return Err(PatternFault::Unclosed);
        };
        pieces.push(match &rest[open + 1..close] {
            "zone" => Piece::Zone,
            "1" => Piece::Char(1),
            "2" => Piece::Char(2),
            "3" => Piece::Char(3),
            "tld" => Piece::Tld,
            other => return Err(PatternFault::Unknown(other.to_owned())),
        });
        rest = &rest[close + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

impl Value for PathPattern {
    fn kind() -> String {
        "path with placeholders".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let base = reader.base.clone();
        reader.text(node, "a path with {zone} in it", |text| Self::parse(text, &base))
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.text))
    }
}

impl Value for FilePattern {
    fn kind() -> String {
        "file name with `{zone}`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a file name with {zone} in it", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&format!("{}{{zone}}{}", self.before, self.after)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> NameBuf {
        zone_name(text).expect("a name")
    }

    #[test]
    fn paths_are_filled_in() {
        let pattern = PathPattern::parse("z/{tld}/{1}/{2}/{zone}.zone", Path::new("/etc")).expect("pattern");
        assert_eq!(pattern.path(name("Example.COM").as_name()), Path::new("/etc/z/com/e/x/example.com.zone"));
        assert_eq!(pattern.path(name(".").as_name()), Path::new("/etc/z/root/r/o/root.zone"));
    }

    #[test]
    fn a_zone_name_cannot_leave_its_folder() {
        let pattern = PathPattern::parse("z/{zone}", Path::new("/etc")).expect("pattern");
        for hostile in ["\\.\\./x", "\\.\\./\\.\\./passwd", "/etc/passwd"] {
            let path = pattern.path(name(hostile).as_name());
            assert_eq!(path.parent(), Some(Path::new("/etc/z")), "{path:?}");
        }
    }

    #[test]
    fn bad_patterns() {
        for (bad, fault) in [
            ("z/fixed.zone", PatternFault::Fixed),
            ("z/{zone", PatternFault::Unclosed),
            ("z/{zones}", PatternFault::Unknown("zones".into())),
        ] {
            assert_eq!(PathPattern::parse(bad, Path::new("/")), Err(fault), "{bad}");
        }
        for (bad, fault) in [
            ("x", PatternFault::NotOneZone),
            ("{zone}{zone}", PatternFault::NotOneZone),
            ("{1}", PatternFault::NotOneZone),
            ("a/{zone}", PatternFault::Folder),
        ] {
            assert_eq!(FilePattern::parse(bad), Err(fault), "{bad}");
        }
    }

    #[test]
    fn file_names_are_read_backwards() {
        let pattern = FilePattern::default();
        assert_eq!(pattern.zone_of("example.com.zone"), Some(Ok(name("example.com"))));
        assert_eq!(pattern.zone_of("root.zone"), Some(Ok(name("."))));
        assert_eq!(pattern.zone_of(".zone"), None);
        assert_eq!(pattern.zone_of("example.com.bak"), None);
        assert!(matches!(pattern.zone_of("a..b.zone"), Some(Err(_))));
        let pattern = FilePattern::parse("db.{zone}").expect("pattern");
        assert_eq!(pattern.zone_of("db.example.com"), Some(Ok(name("example.com"))));
    }

    #[test]
    fn what_editors_and_tools_leave_behind_is_no_zone() {
        let all = FilePattern::parse("{zone}").expect("pattern");
        for left in [
            "example.com~",
            "example.com.bak",
            "example.com.jnl",
            "example.com.signed",
            "example.com.swp",
            "example.com.tmp",
            "example.com.orig",
            "#example.com#",
            ".example.com.swp",
            ".#example.com",
        ] {
            assert_eq!(all.zone_of(left), None, "{left}");
        }
        assert_eq!(FilePattern::default().zone_of(".#example.com.zone"), None);
        // An ending that the pattern contains is accepted.
        let signed = FilePattern::parse("{zone}.signed").expect("pattern");
        assert_eq!(signed.zone_of("example.com.signed"), Some(Ok(name("example.com"))));
        assert_eq!(signed.zone_of("example.com"), None);
    }

    proptest! {
        #[test]
        fn file_word_and_back(labels in prop::collection::vec("[a-z0-9-]{1,9}", 1..4)) {
            let zone = name(&labels.join("."));
            prop_assume!(labels.join(".") != ROOT_WORD);
            let path = PathPattern::parse("{zone}.zone", Path::new("")).expect("pattern").path(zone.as_name());
            let back = FilePattern::default().zone_of(path.to_str().expect("text"));
            prop_assert_eq!(back, Some(Ok(zone)));
        }
    }
}
