//! EDNS(0): the OPT record, its flags and options (RFC 6891), extended errors (RFC 8914).

use crate::message::{Builder, Full, Malformed, Offset, RECORD_HEAD, RawRecord};
use crate::rr::Type;

/// An option's code (IANA "DNS EDNS0 Option Codes").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionCode(pub u16);

impl OptionCode {
    /// Name server identifier (RFC 5001).
    pub const NSID: OptionCode = OptionCode(3);
    /// Client subnet (RFC 7871).
    pub const SUBNET: OptionCode = OptionCode(8);
    /// Zone EXPIRE (RFC 7314).
    pub const EXPIRE: OptionCode = OptionCode(9);
    /// Cookies (RFC 7873).
    pub const COOKIE: OptionCode = OptionCode(10);
    /// TCP keepalive (RFC 7828).
    pub const KEEPALIVE: OptionCode = OptionCode(11);
    /// Padding (RFC 7830).
    pub const PADDING: OptionCode = OptionCode(12);
    /// Extended error (RFC 8914).
    pub const EXTENDED_ERROR: OptionCode = OptionCode(15);
    /// Report channel: the agent for error reports (RFC 9567).
    pub const REPORT_CHANNEL: OptionCode = OptionCode(18);
    /// Zone version (RFC 9660).
    pub const ZONEVERSION: OptionCode = OptionCode(19);
    /// Tag of the client (draft-bellis-dnsop-edns-tags).
    pub const CLIENT_TAG: OptionCode = OptionCode(16);
    /// MAC address of the client's host, as dnsmasq's `add-mac` writes it. Not registered.
    pub const DEVICE_MAC: OptionCode = OptionCode(65001);
    /// Identifier of the client's device: with dnsmasq its MAC address as text or in base64. Not registered.
    pub const DEVICE_ID: OptionCode = OptionCode(65073);
    /// Identifier of the customer's equipment, as dnsmasq's `add-cpe-id` writes it. Not registered.
    pub const CPE_ID: OptionCode = OptionCode(65074);
}

/// The INFO-CODE of an extended error (RFC 8914 §4 and the IANA registry).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorInfo(pub u16);

impl ErrorInfo {
    /// Other: see the text.
    pub const OTHER: ErrorInfo = ErrorInfo(0);
    /// The zone has no key of a supported algorithm, so it is treated as insecure.
    pub const UNSUPPORTED_DNSKEY_ALGORITHM: ErrorInfo = ErrorInfo(1);
    /// The zone has no DS of a supported digest type, so it is treated as insecure.
    pub const UNSUPPORTED_DS_DIGEST: ErrorInfo = ErrorInfo(2);
    /// The answer is older than its TTL, because no server responded (RFC 8767).
    pub const STALE_ANSWER: ErrorInfo = ErrorInfo(3);
    /// Synthesized by this server, not by the name's zone.
    pub const FORGED_ANSWER: ErrorInfo = ErrorInfo(4);
    /// The security of the data cannot be determined (RFC 4035 §4.3).
    pub const DNSSEC_INDETERMINATE: ErrorInfo = ErrorInfo(5);
    /// The data should be secure, but is not (RFC 4035 §4.3).
    pub const DNSSEC_BOGUS: ErrorInfo = ErrorInfo(6);
    /// A signature has expired, and no other is valid.
    pub const SIGNATURE_EXPIRED: ErrorInfo = ErrorInfo(7);
    /// A signature is not valid yet, and no other is.
    pub const SIGNATURE_NOT_YET_VALID: ErrorInfo = ErrorInfo(8);
    /// No DNSKEY of the zone matches a DS of its parent.
    pub const DNSKEY_MISSING: ErrorInfo = ErrorInfo(9);
    /// Required signatures are missing.
    pub const RRSIGS_MISSING: ErrorInfo = ErrorInfo(10);
    /// No DNSKEY of the zone has the Zone Key flag.
    pub const NO_ZONE_KEY: ErrorInfo = ErrorInfo(11);
    /// The proof of nonexistence is missing.
    pub const NSEC_MISSING: ErrorInfo = ErrorInfo(12);
    /// A cached failure (RFC 9520).
    pub const CACHED_ERROR: ErrorInfo = ErrorInfo(13);
    /// The server is not ready to respond yet.
    pub const NOT_READY: ErrorInfo = ErrorInfo(14);
    /// Blocked by the policy of the server's operator.
    pub const BLOCKED: ErrorInfo = ErrorInfo(15);
    /// Blocked because an external authority requires it.
    pub const CENSORED: ErrorInfo = ErrorInfo(16);
    /// Filtered at the request of the client's operator.
    pub const FILTERED: ErrorInfo = ErrorInfo(17);
    /// The client is not permitted to ask this.
    pub const PROHIBITED: ErrorInfo = ErrorInfo(18);
    /// The denial is older than its TTL, because no server responded (RFC 8767).
    pub const STALE_NXDOMAIN: ErrorInfo = ErrorInfo(19);
    /// The server does not have the zone and offers no recursion.
    pub const NOT_AUTHORITATIVE: ErrorInfo = ErrorInfo(20);
    /// The operation or type is not supported.
    pub const NOT_SUPPORTED: ErrorInfo = ErrorInfo(21);
    /// No authoritative server was reachable, or all of them refused.
    pub const NO_REACHABLE_AUTHORITY: ErrorInfo = ErrorInfo(22);
    /// Communication with another server failed.
    pub const NETWORK_ERROR: ErrorInfo = ErrorInfo(23);
    /// The data is invalid (for example, a zone that could not be loaded, or has expired).
    pub const INVALID_DATA: ErrorInfo = ErrorInfo(24);

    /// The signature's expiration precedes its inception.
    pub const SIGNATURE_EXPIRED_BEFORE_VALID: ErrorInfo = ErrorInfo(25);
    /// NSEC3 with more iterations than supported, so the zone is treated as insecure (RFC 9276 §3.2).
    pub const UNSUPPORTED_NSEC3_ITERATIONS: ErrorInfo = ErrorInfo(27);
    /// The type of the query is one that no query may be for (RFC 9824 §3.5).
    pub const INVALID_QUERY_TYPE: ErrorInfo = ErrorInfo(30);

    /// The registry's name for the code.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 31] = [
            "Other",
            "Unsupported DNSKEY Algorithm",
            "Unsupported DS Digest Type",
            "Stale Answer",
            "Forged Answer",
            "DNSSEC Indeterminate",
            "DNSSEC Bogus",
            "Signature Expired",
            "Signature Not Yet Valid",
            "DNSKEY Missing",
            "RRSIGs Missing",
            "No Zone Key Bit Set",
            "NSEC Missing",
            "Cached Error",
            "Not Ready",
            "Blocked",
            "Censored",
            "Filtered",
            "Prohibited",
            "Stale NXDomain Answer",
            "Not Authoritative",
            "Not Supported",
            "No Reachable Authority",
            "Network Error",
            "Invalid Data",
            "Signature Expired before Valid",
            "Too Early",
            "Unsupported NSEC3 Iterations Value",
            "Unable to conform to policy",
            "Synthesized",
            "Invalid Query Type",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("Unassigned")
    }
}

/// The content of a message's OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns<'m> {
    /// The largest UDP payload that the sender accepts; values below 512 mean 512 (RFC 6891 §6.2.3).
    pub udp_size: u16,
    /// The upper eight bits of the response code.
    pub extended_rcode: u8,
    /// EDNS version; only 0 is supported.
    pub version: u8,
    /// DO: the client requests DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    /// CO: the client accepts NXDOMAIN with a compact denial of existence (RFC 9824 §5.1).
    pub compact_ok: bool,
    /// The options, still in wire form.
    pub options: Options<'m>,
}

/// The bit of CO in the upper byte of the flags.
const COMPACT_OK: u8 = 0x40;

/// Length of an OPT record without options: its owner is the root.
pub const OPT_LEN: usize = 1 + RECORD_HEAD;

/// An OPT record without options, of a response without an extended response code.
pub fn plain_opt(udp_size: u16, dnssec_ok: bool) -> [u8; OPT_LEN] {
    let ([a, b], [c, d]) = (Type::OPT.0.to_be_bytes(), udp_size.to_be_bytes());
    [0, a, b, c, d, 0, 0, u8::from(dnssec_ok) << 7, 0, 0, 0]
}

/// An OPT record with these options. Stops before the first option that exceeds the size of an option or
/// record.
pub fn opt_with_options(udp_size: u16, dnssec_ok: bool, options: &[(OptionCode, &[u8])]) -> Vec<u8> {
    let mut record = plain_opt(udp_size, dnssec_ok).to_vec();
    for (code, data) in options {
        let Ok(len) = u16::try_from(data.len()) else { break };
        if record.len() - OPT_LEN + 4 + data.len() > usize::from(u16::MAX) {
            break;
        }
        record.extend(code.0.to_be_bytes());
        record.extend(len.to_be_bytes());
        record.extend(*data);
    }
    let len = (record.len() - OPT_LEN) as u16;
    record[OPT_LEN - 2..OPT_LEN].copy_from_slice(&len.to_be_bytes());
    record
}

impl<'m> Edns<'m> {
    /// Parses an OPT record; [`Malformed`] if its owner is not the root or its options overrun it.
    pub fn parse(message: &'m [u8], record: &RawRecord) -> Result<Self, Malformed> {
        let rdata = message.get(record.rdata.clone()).ok_or(Malformed)?;
        if !record.owner_is_root(message) {
            return Err(Malformed);
        }
        let options = Options(rdata);
        options.check()?;
        let [extended_rcode, version, high, _] = record.ttl_field;
        let (dnssec_ok, compact_ok) = (high & 0x80 != 0, high & COMPACT_OK != 0);
        Ok(Edns { udp_size: record.class.0, extended_rcode, version, dnssec_ok, compact_ok, options })
    }

    /// Parses a whole OPT record without options; `None` for anything else.
    #[inline]
    pub fn plain(record: &'m [u8]) -> Option<Self> {
        let [0, t0, t1, s0, s1, extended_rcode, version, high, _, 0, 0] = *record.as_array::<OPT_LEN>()?
        else {
            return None;
        };
        let dnssec_ok = high & 0x80 != 0;
        let edns = Edns {
            udp_size: u16::from_be_bytes([s0, s1]),
            extended_rcode,
            version,
            dnssec_ok,
            compact_ok: high & COMPACT_OK != 0,
            options: Options(&[]),
        };
        (u16::from_be_bytes([t0, t1]) == Type::OPT.0).then_some(edns)
    }

    /// The first option with this code.
    pub fn option(&self, code: OptionCode) -> Option<&'m [u8]> {
        self.options.clone().find(|(c, _)| *c == code).map(|(_, data)| data)
    }
}

/// The options of an OPT record, in wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'m>(&'m [u8]);

impl Options<'_> {
    fn check(self) -> Result<(), Malformed> {
        let mut rest = self;
        while rest.next().is_some() {}
        if rest.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

impl<'m> Iterator for Options<'m> {
    type Item = (OptionCode, &'m [u8]);
    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        let len = u16::from_be_bytes([head[2], head[3]]) as usize;
        let (data, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((OptionCode(u16::from_be_bytes([head[0], head[1]])), data))
    }
}

/// An OPT record being written as the last record of a message.
pub struct OptWriter {
    /// Where the options start.
    options_at: Offset,
}

impl OptWriter {
    /// Writes the fixed part. Room for it should have been reserved.
    #[inline]
    pub fn begin(
        b: &mut Builder<'_>,
        udp_size: u16,
        extended_rcode: u8,
        dnssec_ok: bool,
    ) -> Result<Self, Full> {
        let [size_high, size_low] = udp_size.to_be_bytes();
        let [_, opt] = Type::OPT.0.to_be_bytes();
        let flags = if dnssec_ok { 0x80 } else { 0 };
        let to = b.spare_mut().first_chunk_mut::<OPT_LEN>().ok_or(Full)?;
        *to = [0, 0, opt, size_high, size_low, extended_rcode, 0, flags, 0, 0, 0];
        b.advance(OPT_LEN, [0, 0, 1]);
        Ok(OptWriter { options_at: b.end() })
    }

    /// Adds an option; on [`Full`] the record is unchanged.
    pub fn option(&mut self, b: &mut Builder<'_>, code: OptionCode, parts: &[&[u8]]) -> Result<(), Full> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        if 4 + len > b.room() {
            return Err(Full);
        }
        let len = u16::try_from(len).map_err(|_| Full)?;
        b.append(&code.0.to_be_bytes())?;
        b.append(&len.to_be_bytes())?;
        for part in parts {
            b.append(part)?;
        }
        b.end_rdata(self.options_at);
        Ok(())
    }

    /// Adds an extended error with a text, which may be empty.
    #[inline]
    pub fn extended_error(&mut self, b: &mut Builder<'_>, info: ErrorInfo, text: &str) -> Result<(), Full> {
        if !text.is_empty() {
            let parts = [&info.0.to_be_bytes(), text.as_bytes()];
            return self.option(b, OptionCode::EXTENDED_ERROR, &parts);
        }
        let ([a, b0], [c, d]) = (OptionCode::EXTENDED_ERROR.0.to_be_bytes(), info.0.to_be_bytes());
        b.append(&[a, b0, 0, 2, c, d])?;
        b.end_rdata(self.options_at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Compressor, Header, Parser};

    #[test]
    fn what_is_written_is_read_back() {
        let (mut buf, mut names) = ([0u8; 512], Compressor::small());
        let mut b = Builder::new(&mut buf, 512, Header::query(1), &mut names);
        let mut opt = OptWriter::begin(&mut b, 1232, 1, true).expect("fits");
        opt.option(&mut b, OptionCode::NSID, &[b"ams", b"1"]).expect("fits");
        opt.extended_error(&mut b, ErrorInfo::NOT_READY, "loading").expect("fits");
        let len = b.finish();
        let (_, mut parser) = Parser::new(&buf[..len]).expect("header");
        let record = parser.record().expect("record");
        let edns = Edns::parse(&buf[..len], &record).expect("OPT");
        assert_eq!((edns.udp_size, edns.extended_rcode, edns.version, edns.dnssec_ok), (1232, 1, 0, true));
        assert_eq!(edns.option(OptionCode::NSID), Some(b"ams1".as_slice()));
        assert_eq!(edns.option(OptionCode::EXTENDED_ERROR), Some(b"\0\x0eloading".as_slice()));
        assert_eq!(edns.option(OptionCode::COOKIE), None);
    }

    #[test]
    fn a_record_with_options_is_read_back() {
        let options = [(OptionCode::EXPIRE, b"\0\0\0\x07".as_slice()), (OptionCode::ZONEVERSION, b"")];
        let mut message = Header::query(1).as_bytes().to_vec();
        message.extend(opt_with_options(1232, true, &options));
        let (_, mut parser) = Parser::new(&message).expect("header");
        let record = parser.record().expect("record");
        assert!(parser.at_end());
        let edns = Edns::parse(&message, &record).expect("OPT");
        assert_eq!((edns.udp_size, edns.dnssec_ok), (1232, true));
        assert_eq!(edns.options.collect::<Vec<_>>(), options);
    }

    #[test]
    fn options_that_overrun_are_malformed() {
        for rdata in [b"\0\x03\0\x05abcd".as_slice(), b"\0\x03\0", b"\0"] {
            let mut message = Header::query(1).as_bytes().to_vec();
            message.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, rdata.len() as u8]);
            message.extend(rdata);
            let (_, mut parser) = Parser::new(&message).expect("header");
            let record = parser.record().expect("record");
            assert_eq!(Edns::parse(&message, &record), Err(Malformed));
        }
    }
}
