//! [`ZoneName`]: the shared name of a zone.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::{LowerName, LowerNameBuf, Name, NameBuf, ViewName};

/// The name of a zone, in lower case and wire form, and the view that the zone is in, if any. All clones
/// share it.
///
/// Takes 16 bytes and the length of the name, where a [`LowerNameBuf`] takes 256. Compares and hashes as the
/// bytes of [`as_key`](Self::as_key) do, so a map with such keys can be searched by `&[u8]`. Its order is
/// that of these bytes, not the canonical order. The key of a zone outside views is the wire form of its
/// name; that of a zone in a view goes on with the name of the view, and with a byte that has the length of
/// what follows the zone's name, where the other key ends in the root label, which is 0.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneName(Arc<[u8]>);

const _: () = assert!(super::view::MAX_VIEW_NAME < u8::MAX as usize);

impl ZoneName {
    /// Returns the name of a zone in a view; `None`: of a zone outside views.
    pub fn in_view(name: LowerName<'_>, view: Option<&ViewName>) -> ZoneName {
        let Some(view) = view.map(ViewName::as_str) else { return name.into() };
        let tail = [view.len() as u8 + 1];
        ZoneName([name.as_wire(), view.as_bytes(), &tail].concat().into())
    }

    /// Borrows the name as a [`Name`].
    #[inline]
    pub fn as_name(&self) -> Name<'_> {
        Name(self.as_wire())
    }

    /// Borrows the name.
    #[inline]
    pub fn as_lower(&self) -> LowerName<'_> {
        LowerName::of_checked(self.as_wire())
    }

    /// The wire form of the name, root label included.
    #[inline]
    pub fn as_wire(&self) -> &[u8] {
        let end = self.0.len() - self.tail();
        self.0.get(..end).unwrap_or_default()
    }

    /// The bytes that a map with such keys is searched by: name and view.
    #[inline]
    pub fn as_key(&self) -> &[u8] {
        &self.0
    }

    /// The name of the view that the zone is in.
    pub fn view(&self) -> Option<&str> {
        let (end, tail) = (self.0.len(), self.tail());
        let view = self.0.get(end - tail..end.checked_sub(1)?).filter(|_| tail > 0)?;
        std::str::from_utf8(view).ok()
    }

    /// Returns the view that the zone is in.
    pub fn to_view(&self) -> Option<ViewName> {
        self.view()?.parse().ok()
    }

    /// Whether the zone is in a view.
    #[inline]
    pub fn is_in_view(&self) -> bool {
        self.tail() > 0
    }

    /// Returns the name of the zone of the same name outside views.
    pub fn outside(&self) -> ZoneName {
        if self.is_in_view() { self.as_lower().into() } else { self.clone() }
    }

    /// Length of what follows the name.
    #[inline]
    fn tail(&self) -> usize {
        self.0.last().copied().unwrap_or_default().into()
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
    /// Zone file text with the final dot, followed by `@` and the view for a zone in a view.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view() {
            None => fmt::Display::fmt(&self.as_name(), f),
            Some(view) => f.pad(&format!("{}@{view}", self.as_name())),
        }
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

    #[test]
    fn the_same_name_in_two_views_and_outside_is_three_zones() {
        let name: NameBuf = "WWW.example.".parse().expect("a name");
        let lower = name.as_name().to_lower();
        let in_view = |view: &str| {
            ZoneName::in_view(lower.as_lower(), Some(&view.parse().expect("the name of a view")))
        };
        let (outside, a, ab) = (ZoneName::from(&name), in_view("a"), in_view("ab"));
        assert_eq!(ZoneName::in_view(lower.as_lower(), None), outside);
        assert_eq!([&outside, &a, &ab].map(|zone| zone.view()), [None, Some("a"), Some("ab")]);
        assert_eq!([&outside, &a, &ab].map(ZoneName::as_wire), [lower.as_lower().as_wire(); 3]);
        assert_eq!([&a, &ab].map(ZoneName::outside), [outside.clone(), outside.clone()]);
        assert_eq!(a.to_string(), "www.example.@a");
        let zones = HashMap::from([(outside.clone(), 1), (a.clone(), 2), (ab.clone(), 3)]);
        assert_eq!([&outside, &a, &ab].map(|zone| zones.get(zone.as_key())), [Some(&1), Some(&2), Some(&3)]);
        assert_eq!(a.to_view().map(|view| view.to_string()).as_deref(), Some("a"));
        let root = ZoneName::in_view(Name::ROOT.to_lower().as_lower(), a.to_view().as_ref());
        assert_eq!((root.as_wire(), root.view(), root.to_string()), (&b"\0"[..], Some("a"), ".@a".into()));
    }

    proptest::proptest! {
        #[test]
        fn keys_of_different_zones_differ(
            names in proptest::collection::vec("([a-c]{1,3}\\.){0,3}", 2),
            views in proptest::collection::vec(proptest::option::of("[a-c]{1,3}"), 2),
        ) {
            let zone = |at: usize| {
                let text = if names[at].is_empty() { "." } else { &names[at] };
                let name: NameBuf = text.parse().expect("a name");
                let view = views[at].as_ref().map(|view| view.parse().expect("the name of a view"));
                ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref())
            };
            let same = (&names[0], &views[0]) == (&names[1], &views[1]);
            proptest::prop_assert_eq!(zone(0) == zone(1), same);
            let first = zone(0);
            proptest::prop_assert_eq!(first.view(), views[0].as_deref());
        }
    }
}
