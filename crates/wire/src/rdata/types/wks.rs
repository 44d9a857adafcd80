//! WKS: the well known services of an address (RFC 1035 §3.4.2), obsolete.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | ADDRESS |
//! | 1 | PROTOCOL: an IP protocol number, in text optionally a mnemonic |
//! | n | BIT MAP: one bit per port, from port 0 on |

use std::fmt;

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::WKS,
    &[
        Field::new("ADDRESS", Kind::Ipv4),
        Field::new("PROTOCOL", Kind::Mnemonic8(PROTOCOLS)),
        Field::new("BIT MAP", Kind::Special(&Ports)),
    ],
);

/// The protocols with named services.
const PROTOCOLS: &[(u8, &str)] = &[(6, "TCP"), (17, "UDP")];

/// Services whose names are the same in RFC 1010, to which WKS refers, and in today's registry.
const SERVICES: &[(u16, &str)] = &[
    (5, "rje"),
    (7, "echo"),
    (9, "discard"),
    (11, "systat"),
    (13, "daytime"),
    (17, "qotd"),
    (19, "chargen"),
    (20, "ftp-data"),
    (21, "ftp"),
    (22, "ssh"),
    (23, "telnet"),
    (25, "smtp"),
    (37, "time"),
    (42, "nameserver"),
    (43, "nicname"),
    (43, "whois"),
    (53, "domain"),
    (67, "bootps"),
    (68, "bootpc"),
    (69, "tftp"),
    (70, "gopher"),
    (79, "finger"),
    (80, "http"),
    (101, "hostname"),
    (109, "pop2"),
    (110, "pop3"),
    (111, "sunrpc"),
    (113, "auth"),
    (115, "sftp"),
    (117, "uucp-path"),
    (119, "nntp"),
    (123, "ntp"),
    (143, "imap"),
    (161, "snmp"),
    (443, "https"),
    (543, "klogin"),
    (544, "kshell"),
];

/// Bytes of a map with one bit for every port.
const MAX_MAP_BYTES: usize = 65_536 / 8;

struct Ports;

impl Special for Ports {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        if rest.len() <= MAX_MAP_BYTES { Ok(rest.len()) } else { Err(Malformed) }
    }

    /// Text lists the ports, but not how many zero bytes follow them.
    fn has_text(&self, bytes: &[u8]) -> bool {
        bytes.last() != Some(&0)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let start = out.len();
        while !cursor.at_end() {
            let port = port(cursor.word()?)? as usize;
            let at = start + port / 8;
            if at >= out.len() {
                out.resize(at + 1, 0);
            }
            out[at] |= 0x80 >> (port % 8);
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        let ports = (0u64..).zip(bytes).flat_map(|(i, &byte)| {
            (0..8).filter(move |bit| byte & 0x80 >> bit != 0).map(move |bit| i * 8 + bit)
        });
        for (i, port) in ports.enumerate() {
            if i > 0 {
                to.write_str(" ")?;
            }
            text::write_decimal(port, to)?;
        }
        Ok(())
    }
}

/// A port by number or by the name of its service.
fn port(word: &[u8]) -> Result<u16, TextFaultKind> {
    match text::decimal(word) {
        Some(number) => u16::try_from(number).map_err(|_| TextFaultKind::OutOfRange { min: 0, max: 65_535 }),
        None => SERVICES
            .iter()
            .find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(word))
            .map(|&(port, _)| port)
            .ok_or(TextFaultKind::BadMnemonic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, reads, write};

    #[test]
    fn examples_read_and_write() {
        // Port 25 is the bit that RFC 1035 §3.4.2 describes: the 26th.
        both(Type::WKS, "10.0.0.1 6 25", &hex("0a000001 06 00000040"));
        both(Type::WKS, "10.0.0.1 17", &hex("0a000001 11"));
        reads(Type::WKS, "10.0.0.1 TCP TELNET SMTP ftp", &hex("0a000001 06 00000540"));
        assert_eq!(parse(Type::WKS, "10.0.0.1 TCP nope"), Err(TextFaultKind::BadMnemonic));
    }

    #[test]
    fn zero_bytes_at_the_end_survive() {
        assert_eq!(write(Type::WKS, &hex("0a000001 06 00")), r"\# 6 0A0000010600");
    }
}
