//! Records that an operator configures.

use std::fmt;
use std::str::FromStr;

use wire::name::NameTextError;
use wire::rdata::{self, TextFault};
use wire::text::{self, Token};
use wire::{Class, Name, NameBuf, Ttl, Type};

/// TTL of a record without one: one hour.
const DEFAULT_TTL: Ttl = Ttl::from_secs(3600);

/// A local record of class IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalRecord {
    /// The owner name. A leading `*` makes it a wildcard for all names below without records of their own.
    pub owner: NameBuf,
    /// Its type; never a meta type.
    pub rtype: Type,
    /// How long clients may cache it.
    pub ttl: Ttl,
    /// Its data, uncompressed.
    pub rdata: Vec<u8>,
}

/// Why a text is not a local record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalRecordFault {
    /// The line is empty.
    Empty,
    /// The first token is not a name.
    Owner(NameTextError),
    /// The TTL is not a number of seconds up to 2147483647 (RFC 2181 §8).
    Ttl,
    /// A class other than IN.
    Class(Class),
    /// The type is missing.
    NoType,
    /// The type is unknown.
    UnknownType,
    /// A meta type such as ANY, which no record has (RFC 6895 §3.1).
    QuestionType(Type),
    /// The data does not fit the type. Tokens are counted from the first one of the data.
    Data(TextFault),
}

impl fmt::Display for LocalRecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty; a record is written as `name [TTL] type data`"),
            Self::Owner(fault) => write!(f, "name: {fault}"),
            Self::Ttl => f.write_str("TTL: not a number of seconds up to 2147483647"),
            Self::Class(class) => write!(f, "class {class}: there is only IN"),
            Self::NoType => f.write_str("the record type is missing"),
            Self::UnknownType => f.write_str("unknown record type"),
            Self::QuestionType(rtype) => write!(f, "{rtype} is a type of questions, not of records"),
            Self::Data(fault) => fault.fmt(f),
        }
    }
}
impl std::error::Error for LocalRecordFault {}

impl LocalRecord {
    /// Parses one line of master-file text (RFC 1035 §5.1) without comments and parentheses:
    /// `name [TTL] [IN] type data`, TTL and class in either order. Names without a final dot are absolute.
    /// The TTL defaults to one hour.
    ///
    /// # Errors
    /// [`LocalRecordFault`]
    pub fn parse(line: &str) -> Result<Self, LocalRecordFault> {
        let tokens: Vec<Token<'_>> = text::tokens(line).collect();
        let (owner, mut rest) = tokens.split_first().ok_or(LocalRecordFault::Empty)?;
        let owner = NameBuf::from_text(owner.bytes, Some(Name::ROOT)).map_err(LocalRecordFault::Owner)?;
        let (mut ttl, mut class) = (None, None);
        let rtype = loop {
            let (token, behind) = rest.split_first().ok_or(LocalRecordFault::NoType)?;
            rest = behind;
            // No type begins with a digit.
            if ttl.is_none() && token.bytes.first().is_some_and(u8::is_ascii_digit) {
                let seconds = text::duration(token.bytes).filter(|seconds| *seconds <= Ttl::MAX.as_secs());
                ttl = Some(Ttl::from_secs(seconds.ok_or(LocalRecordFault::Ttl)?));
            } else if let (None, Ok(read)) = (class, Class::from_text(token.bytes)) {
                class = Some(read);
            } else {
                break Type::from_text(token.bytes).map_err(|_| LocalRecordFault::UnknownType)?;
            }
        };
        if let Some(other) = class.filter(|class| *class != Class::IN) {
            return Err(LocalRecordFault::Class(other));
        }
        if rtype.is_meta() {
            return Err(LocalRecordFault::QuestionType(rtype));
        }
        let mut rdata = Vec::new();
        rdata::parse_text(rtype, rest, Some(Name::ROOT), &mut rdata).map_err(LocalRecordFault::Data)?;
        Ok(LocalRecord { owner, rtype, ttl: ttl.unwrap_or(DEFAULT_TTL), rdata })
    }
}

impl FromStr for LocalRecord {
    type Err = LocalRecordFault;

    /// Same as [`LocalRecord::parse`].
    fn from_str(line: &str) -> Result<Self, LocalRecordFault> {
        LocalRecord::parse(line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::rdata::TextFaultKind;

    use super::*;

    #[test]
    fn ttl_and_class_may_be_left_out_and_change_places() {
        for (line, ttl) in [
            ("printer.lan. 300 A 192.168.1.5", 300),
            ("printer.lan IN A 192.168.1.5", 3600),
            ("printer.lan. 5m IN A 192.168.1.5", 300),
            ("printer.lan in 2h a 192.168.1.5", 7200),
            (r"printer.lan. TYPE1 \# 4 c0a80105", 3600),
        ] {
            let record = LocalRecord::parse(line).expect(line);
            assert_eq!(record.owner, "printer.lan.".parse().expect("a name"), "{line}");
            assert_eq!((record.rtype, record.ttl.as_secs()), (Type::A, ttl), "{line}");
            assert_eq!(record.rdata, [192, 168, 1, 5], "{line}");
        }
    }

    #[test]
    fn names_without_a_final_dot_have_one() {
        let record = LocalRecord::parse("*.ads CNAME sink.lan").expect("a record");
        assert_eq!(record.owner.as_name().as_wire(), b"\x01*\x03ads\0");
        assert_eq!(record.rdata, b"\x04sink\x03lan\0");
    }

    #[test]
    fn each_fault_has_its_name() {
        let fault = |line| LocalRecord::parse(line).expect_err(line);
        assert_eq!(fault("  "), LocalRecordFault::Empty);
        assert_eq!(fault("a..b A 192.0.2.1"), LocalRecordFault::Owner(NameTextError::EmptyLabel));
        assert_eq!(fault("a 2147483648 A 192.0.2.1"), LocalRecordFault::Ttl);
        assert_eq!(fault("a 1x A 192.0.2.1"), LocalRecordFault::Ttl);
        assert_eq!(fault("a CH A 192.0.2.1"), LocalRecordFault::Class(Class::CH));
        assert_eq!(fault("a 300"), LocalRecordFault::NoType);
        assert_eq!(fault("a 300 192.0.2.1"), LocalRecordFault::UnknownType);
        assert_eq!(fault("a IN ANY 192.0.2.1"), LocalRecordFault::QuestionType(Type::ANY));
        let data = TextFault { token: 0, field: "Address", kind: TextFaultKind::BadIpv4 };
        assert!(
            matches!(fault("a A 192.0.2"), LocalRecordFault::Data(TextFault { kind, .. }) if kind == data.kind)
        );
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(line in r#"[a-zA-Z0-9*.@\\" ]{0,60}"#) {
            if let Ok(record) = LocalRecord::parse(&line) {
                prop_assert_eq!(rdata::validate(record.rtype, &record.rdata), Ok(()));
            }
        }
    }
}
