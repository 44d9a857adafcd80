//! [`Files`]: the file system operations needed. Tests use an in-memory file system.

use std::io;
use std::path::{Component, Path, PathBuf};

/// A read-only file system.
pub trait Files {
    /// Reads a whole file.
    ///
    /// # Errors
    /// Read errors.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Returns the names in a folder, in any order.
    ///
    /// # Errors
    /// Read errors.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;
}

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsFiles;

impl Files for OsFiles {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Reading from a pipe or device might never end.
        if !path.metadata()?.is_file() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        std::fs::read(path)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder)?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
    }
}

/// `path` relative to `base`, with `.` and `..` resolved in the text where possible.
pub(crate) fn join(base: &Path, path: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            Component::ParentDir if out.has_root() => {}
            part => out.push(part),
        }
    }
    out
}

/// Whether the path has a wildcard.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The files that match an absolute pattern of glob(7), sorted by name.
pub(crate) fn expand(files: &dyn Files, pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let text = part.as_os_str().to_string_lossy();
        if !is_pattern(&text) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let mut next = Vec::new();
        for folder in &found {
            let mut names = files.names(folder).unwrap_or_default();
            names.retain(|name| fits(text.as_bytes(), name.as_bytes()) && !name.starts_with('.'));
            names.sort();
            next.extend(names.iter().map(|name| folder.join(name)));
        }
        found = next;
    }
    found
}

/// Whether a file name matches a pattern of `*`, `?` and `[…]`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // Where to continue if the text after the last `*` does not match.
    let (mut p, mut n, mut retry) = (0, 0, None);
    while n < name.len() {
        let step = match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'[') => one_of(&pattern[p..], name[n]),
            Some(byte) if *byte == name[n] => Some(1),
            _ => None,
        };
        match (step, retry) {
            (Some(step), _) => (p, n) = (p + step, n + 1),
            (None, Some((star, from))) => {
                (p, n) = (star + 1, from + 1);
                retry = Some((star, from + 1));
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// The length of the leading `[…]` of a pattern, if it matches this byte.
fn one_of(pattern: &[u8], byte: u8) -> Option<usize> {
    let end = 2 + pattern.iter().skip(2).position(|byte| *byte == b']')?;
    let inner = &pattern[1..end];
    let (not, inner) = match inner.first() {
        Some(b'!' | b'^') => (true, &inner[1..]),
        _ => (false, inner),
    };
    let range = inner.windows(3).any(|w| w[1] == b'-' && (w[0]..=w[2]).contains(&byte));
    (not != (range || inner.contains(&byte))).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, good, bad) in [
            ("*.conf", "a.conf", "a.conf.bak"),
            ("a*b*c", "axxbxbc", "axxb"),
            ("?[0-9].conf", "x7.conf", "xy.conf"),
            ("[!a]*", "b", "a"),
            ("*", "", "-"),
        ] {
            assert!(fits(pattern.as_bytes(), good.as_bytes()), "{pattern} {good}");
            assert!(!fits(pattern.as_bytes(), bad.as_bytes()) || pattern == "*", "{pattern} {bad}");
        }
    }

    #[test]
    fn paths_are_made_plain() {
        assert_eq!(join(Path::new("/etc/bind"), "../x/./y"), Path::new("/etc/x/y"));
        assert_eq!(join(Path::new("/etc/bind"), "/a"), Path::new("/a"));
        assert_eq!(join(Path::new("/"), "../../a"), Path::new("/a"));
        assert_eq!(join(Path::new(""), "../a"), Path::new("../a"));
    }
}
