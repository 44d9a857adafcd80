//! AVC: application visibility and control (IANA registry; Wolfgang Riedel, 2016).
//!
//! Same form as TXT.
//!
//! | bytes | field |
//! |---|---|
//! | n | TXT-DATA: strings, each with a length byte |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::AVC, &[Field::new("TXT-DATA", Kind::Strings)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::AVC,
            r#""app-name:WOLFGANG|app-class:OAM" "b""#,
            &hex("1f6170702d6e616d653a574f4c4647414e477c6170702d636c6173733a4f414d0162"),
        );
    }
}
