//! Names of zones and keys in the configuration and on the command line.

use std::fmt;

use toml::Spanned;
use toml::de::DeValue;
use wire::name::{Name, NameBuf, NameTextError};

use super::table::read::Reader;
use super::table::value::{Value, quote};

/// Why the name of a zone is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZoneNameFault {
    /// The name is empty.
    Empty,
    /// This text is not a domain name.
    Malformed(String, NameTextError),
    /// The text has non-ASCII letters; with its A-labels, if they exist.
    NotAscii(String, Option<String>),
}

impl fmt::Display for ZoneNameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the zone name is empty; the root zone is \".\""),
            Self::Malformed(text, fault) => write!(f, "`{text}` is not a domain name: {fault}"),
            Self::NotAscii(text, Some(ascii)) => {
                write!(f, "`{text}` has letters that are not ASCII; in DNS the name is `{ascii}`")
            }
            Self::NotAscii(text, None) => write!(f, "`{text}` has letters that no domain name can have"),
        }
    }
}

/// Parses a zone name and converts it to lower case, so that names also compare as text. Non-ASCII letters
/// are refused: their bytes would make a name that no client queries. The fault has the A-labels that are
/// meant (RFC 5890 §2.3.2.1).
pub fn zone_name(text: &str) -> Result<NameBuf, ZoneNameFault> {
    if text.is_empty() {
        return Err(ZoneNameFault::Empty);
    }
    if !text.is_ascii() {
        let ascii = idna::domain_to_ascii(text).ok();
        return Err(ZoneNameFault::NotAscii(text.to_owned(), ascii));
    }
    let name = NameBuf::from_text(text.as_bytes(), Some(Name::ROOT))
        .map_err(|fault| ZoneNameFault::Malformed(text.to_owned(), fault))?;
    Ok(name.as_name().to_lower().into())
}

impl Value for NameBuf {
    fn kind() -> String {
        "domain name".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a domain name in quotes", zone_name)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_utf8_passed_unseen() {
        let fault = |text: &str| zone_name(text).expect_err("not a name").to_string();
        assert!(fault("bücher.example").ends_with("in DNS the name is `xn--bcher-kva.example`"));
        assert!(fault("Straße.example.").ends_with("`xn--strae-oqa.example.`"));
        assert!(matches!(zone_name("a\u{200e}.example"), Err(ZoneNameFault::NotAscii(_, None))));
        // The raw bytes are written with escapes.
        assert!(zone_name("b\\195\\188cher.example").is_ok());
    }
}
