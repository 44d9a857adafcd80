//! Domain names as lists of labels, read from text and encoded. Shares no code with the server's own name
//! type, as it judges the server.

use std::fmt;

/// A name as its labels, leftmost first, without the root label. Keeps letter case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name(pub Vec<Vec<u8>>);

impl Name {
    /// Returns the root.
    pub(crate) fn root() -> Self {
        Self(Vec::new())
    }

    /// Parses presentation format (RFC 1035, section 5.1: `\.`, `\DDD`); the name is always absolute.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut labels = Vec::new();
        let mut label = Vec::new();
        let mut i = 0;
        if text == "." {
            return Some(Self::root());
        }
        while i < bytes.len() {
            match bytes[i] {
                b'.' => {
                    if label.is_empty() {
                        return None;
                    }
                    labels.push(std::mem::take(&mut label));
                }
                b'\\' => {
                    let digits = bytes.get(i + 1..i + 4).filter(|d| d.iter().all(u8::is_ascii_digit));
                    if let Some(digits) = digits {
                        let value = digits.iter().fold(0u32, |n, d| n * 10 + u32::from(d - b'0'));
                        label.push(u8::try_from(value).ok()?);
                        i += 3;
                    } else {
                        i += 1;
                        label.push(*bytes.get(i)?);
                    }
                }
                other => label.push(other),
            }
            i += 1;
        }
        if !label.is_empty() {
            labels.push(label);
        }
        let name = Self(labels);
        name.is_legal().then_some(name)
    }

    /// Decodes an uncompressed name at the start of `wire`; returns it and its size in bytes.
    pub(crate) fn from_wire(wire: &[u8]) -> Option<(Self, usize)> {
        let mut labels = Vec::new();
        let mut at = 0;
        loop {
            let len = usize::from(*wire.get(at)?);
            at += 1;
            match len {
                0 => return Some((Self(labels), at)),
                1..=63 => labels.push(wire.get(at..at + len)?.to_vec()),
                _ => return None,
            }
            at += len;
        }
    }

    /// Whether labels have 1 to 63 bytes, and the name at most 255 (RFC 1035, section 2.3.4).
    pub(crate) fn is_legal(&self) -> bool {
        self.0.iter().all(|l| (1..=63).contains(&l.len())) && self.wire_len() <= 255
    }

    /// Returns the uncompressed size in bytes.
    pub(crate) fn wire_len(&self) -> usize {
        1 + self.0.iter().map(|l| l.len() + 1).sum::<usize>()
    }

    /// Returns the uncompressed wire format.
    pub(crate) fn to_wire(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.wire_len());
        for label in &self.0 {
            out.push(label.len() as u8);
            out.extend_from_slice(label);
        }
        out.push(0);
        out
    }

    /// Returns the name with ASCII letters in lower case.
    pub(crate) fn lower(&self) -> Self {
        Self(self.0.iter().map(|l| l.to_ascii_lowercase()).collect())
    }

    /// Whether `self` is `ancestor` or below it; ignores letter case.
    pub(crate) fn is_under(&self, ancestor: &Name) -> bool {
        let (n, m) = (self.0.len(), ancestor.0.len());
        n >= m && self.0[n - m..].iter().zip(&ancestor.0).all(|(a, b)| a.eq_ignore_ascii_case(b))
    }

    /// Returns the name without its leftmost label; the parent of the root is the root.
    pub(crate) fn parent(&self) -> Self {
        Self(self.0.iter().skip(1).cloned().collect())
    }

    /// Returns the name with `label` added to the left.
    pub(crate) fn child(&self, label: &[u8]) -> Self {
        let mut labels = Vec::with_capacity(self.0.len() + 1);
        labels.push(label.to_vec());
        labels.extend(self.0.iter().cloned());
        Self(labels)
    }

    /// Whether the leftmost label is `*`.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.0.first().is_some_and(|l| l == b"*")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        for label in &self.0 {
            for &b in label {
                match b {
                    b'-' | b'_' | b'*' | b'/' => write!(f, "{}", b as char)?,
                    b if b.is_ascii_alphanumeric() => write!(f, "{}", b as char)?,
                    // Programs differ in how they read other characters, bare or after a backslash.
                    _ => write!(f, "\\{b:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn text_reads_back() {
        for text in [".", "a.b.", "\\000\\255.x.", "dot\\046ted.", "\\092.y.", "semi\\059.", "*.A.b."] {
            let name = Name::from_text(text).unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(Name::from_wire(&name.to_wire()).unwrap(), (name.clone(), name.wire_len()));
        }
        assert_eq!(Name::from_text("a..b."), None);
        assert_eq!(Name::from_text(&"a.".repeat(128)), None);
        assert!(Name::from_text(&"a.".repeat(127)).is_some());
    }

    #[test]
    fn under_ignores_case() {
        let zone = Name::from_text("Test.").unwrap();
        assert!(Name::from_text("a.tEST.").unwrap().is_under(&zone));
        assert!(zone.is_under(&zone));
        assert!(!Name::from_text("atest.").unwrap().is_under(&zone));
    }
}
