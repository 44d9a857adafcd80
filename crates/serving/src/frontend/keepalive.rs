//! The option edns-tcp-keepalive, with which a query over QUIC breaks the rules (RFC 9250 §5.5.2).

use wire::Type;
use wire::edns::{Edns, OptionCode};
use wire::message::Parser;

/// Whether the OPT record of the message has the option. A malformed message is for the query path.
pub(super) fn has_keepalive(message: &[u8]) -> bool {
    let Ok((header, mut parser)) = Parser::new(message) else { return false };
    let [questions, answers, authorities, additional] = header.counts();
    if additional == 0 {
        return false;
    }
    for _ in 0..questions {
        if parser.question().is_err() {
            return false;
        }
    }
    let records = u32::from(answers) + u32::from(authorities) + u32::from(additional);
    for _ in 0..records {
        let Ok(record) = parser.record() else { return false };
        if record.rtype == Type::OPT {
            return Edns::parse(message, &record)
                .is_ok_and(|edns| edns.option(OptionCode::KEEPALIVE).is_some());
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a query for `a.` with an OPT record that has these options.
    fn query(options: &[(u16, &[u8])]) -> Vec<u8> {
        let data: Vec<u8> = options
            .iter()
            .flat_map(|(code, data)| {
                [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
            })
            .collect();
        let mut out = b"\0\0\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01".to_vec();
        out.extend(b"\0\0\x29\x04\xd0\0\0\0\0");
        out.extend((data.len() as u16).to_be_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn the_option_is_found_among_others() {
        assert!(has_keepalive(&query(&[(11, b"")])));
        assert!(has_keepalive(&query(&[(11, b"\0\x64")])));
        assert!(has_keepalive(&query(&[(12, &[0; 300]), (3, b""), (11, b"")])));
        assert!(!has_keepalive(&query(&[])));
        assert!(!has_keepalive(&query(&[(12, b"\0\x0b\0\0"), (10, b"\0\x0b\0\0\0\0\0\0")])));
        assert!(!has_keepalive(b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01"));
    }

    #[test]
    fn malformed_messages_have_no_option() {
        let whole = query(&[(12, b"1234"), (11, b"")]);
        for len in 0..whole.len() {
            assert!(!has_keepalive(&whole[..len]), "{len}");
        }
        // An option that is longer than its record.
        let mut cut = query(&[(12, b"\0\x0b\0\0")]);
        let at = cut.len() - 6;
        cut[at..at + 2].copy_from_slice(&400_u16.to_be_bytes());
        assert!(!has_keepalive(&cut));
    }
}
