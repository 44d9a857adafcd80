//! [`ViewName`]: the name of a view, that is of a set of zones for some of the clients.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Most characters of a view's name.
pub const MAX_VIEW_NAME: usize = 32;

/// The name of a view: at most 32 characters out of `a` to `z`, `0` to `9`, `-` and `_`, so that it can be a
/// part of any file name. The first character is no `-`. All clones share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewName(Arc<str>);

/// A text that cannot be the name of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadViewName;

impl fmt::Display for BadViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the name of a view has 1 to {MAX_VIEW_NAME} characters out of a-z, 0-9, \"-\" and \"_\", and \
             does not begin with \"-\""
        )
    }
}
impl std::error::Error for BadViewName {}

impl ViewName {
    /// The name as text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Splits the text `ZONE@VIEW` in the text of a zone's name and a view; the view is `None` if the text
    /// has none. An escaped `@` is part of the zone's name.
    ///
    /// # Errors
    /// The part behind the `@` is no name of a view.
    pub fn split(text: &str) -> Result<(&str, Option<ViewName>), BadViewName> {
        match text.rsplit_once('@') {
            // The text of a zone's name alone may be "@", and every name may have its final dot.
            Some((zone, view)) if !zone.is_empty() && !zone.ends_with('\\') && !view.ends_with('.') => {
                Ok((zone, Some(view.parse()?)))
            }
            _ => Ok((text, None)),
        }
    }
}

impl FromStr for ViewName {
    type Err = BadViewName;

    fn from_str(text: &str) -> Result<Self, BadViewName> {
        let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        let is_name =
            (1..=MAX_VIEW_NAME).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('-');
        if is_name { Ok(ViewName(text.into())) } else { Err(BadViewName) }
    }
}
impl Borrow<str> for ViewName {
    fn borrow(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_views_can_be_parts_of_file_names() {
        for good in ["inside", "a", "0", "_x-9", &"v".repeat(32)] {
            assert_eq!(good.parse::<ViewName>().map(|view| view.to_string()).as_deref(), Ok(good));
        }
        for bad in ["", "-a", "Inside", "a.b", "a/b", "a@b", "é", &"v".repeat(33)] {
            assert_eq!(bad.parse::<ViewName>(), Err(BadViewName), "{bad}");
        }
    }

    #[test]
    fn the_view_follows_the_last_at_sign_of_a_text() {
        let split = |text: &'static str| {
            ViewName::split(text).map(|(zone, view)| (zone, view.map(|view| view.to_string())))
        };
        assert_eq!(split("example.com@inside"), Ok(("example.com", Some("inside".into()))));
        assert_eq!(split("example.com.@inside"), Ok(("example.com.", Some("inside".into()))));
        assert_eq!(split(".@inside"), Ok((".", Some("inside".into()))));
        for alone in ["example.com", ".", "@", r"a\@b", "a@b.example."] {
            assert_eq!(split(alone), Ok((alone, None)));
        }
        assert_eq!(split("example.com@In"), Err(BadViewName));
    }
}
