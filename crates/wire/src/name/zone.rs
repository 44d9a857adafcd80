//! [`ZoneName`]: the shared name of a zone.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::{LowerName, LowerNameBuf, Name, NameBuf};

/// The name of a zone, in lower case and wire form. All clones share it.
///
/// Takes 16 bytes and the length of the name, where a [`LowerNameBuf`] takes 256. Compares and hashes as the
/// bytes of its wire form do, so a map with such keys can be searched by `&[u8]`. Its order is that of these
/// bytes, not the canonical order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneName(Arc<[u8]>);

impl ZoneName {
    /// Borrows the name as a [`Name`].
    #[inline]
    pub fn as_name(&self) -> Name<'_> {
        Name(&self.0)
    }

    /// Borrows the name.
    #[inline]
    pub fn as_lower(&self) -> LowerName<'_> {
        LowerName::of_checked(&self.0)
    }

    /// The wire form, root label included.
    #[inline]
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }
}

impl From<LowerName<'_>> for ZoneName {
    fn from(name: LowerName<'_>) -> ZoneName {
        ZoneName(name.as_wire().into())
    }
}
impl From<&LowerNameBuf> for ZoneName {
    fn from(name: &LowerNameBuf) -> ZoneName {
        name.as_lower().into()
    }
}
impl From<Name<'_>> for ZoneName {
    /// Converts the name to lower case.
    fn from(name: Name<'_>) -> ZoneName {
        (&name.to_lower()).into()
    }
}
impl From<&NameBuf> for ZoneName {
    /// Converts the name to lower case.
    fn from(name: &NameBuf) -> ZoneName {
        name.as_name().into()
    }
}
impl Borrow<[u8]> for ZoneName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}
impl fmt::Display for ZoneName {
    /// Zone file text with the final dot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_name(), f)
    }
}
impl fmt::Debug for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn names_are_in_lower_case_and_found_by_their_bytes() {
        let mixed: NameBuf = "WWW.example.".parse().expect("a name");
        let zone = ZoneName::from(&mixed);
        assert_eq!(
            (zone.as_wire(), zone.to_string().as_str()),
            (&b"\x03www\x07example\0"[..], "www.example.")
        );
        assert_eq!(zone, ZoneName::from(zone.as_lower()));
        assert_eq!(HashMap::from([(zone.clone(), 1)]).get(zone.as_wire()), Some(&1));
    }
}
