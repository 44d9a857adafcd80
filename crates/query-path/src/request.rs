//! Parses queries: header, the one question, OPT and TSIG. Copies and allocates nothing: a request holds
//! lengths and flags only.

use wire::edns::{Edns, OptionCode};
use wire::message::{HEADER_LEN, Header, Malformed, Offset, Parser, QUESTION_TAIL, RawRecord};
use wire::{Class, Name, Opcode, Type};

use crate::client_groups::ClientIds;

/// A parsed query, as far as it can be parsed.
#[derive(Clone, Debug)]
pub struct Request {
    /// The query's header.
    pub header: Header,
    /// The question, if it can be parsed.
    pub question: Option<QueryQuestion>,
    /// The fields of OPT, if the query has one.
    pub edns: Option<ClientEdns>,
    /// Offset of the owner name of the TSIG record, if the message ends in one.
    pub tsig_at: Option<Offset>,
    /// Why the query gets no ordinary answer, if so.
    pub fault: Option<QueryFault>,
}

/// The question. QNAME follows the header in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryQuestion {
    /// Length of QNAME in bytes.
    pub name_len: u16,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
}

impl QueryQuestion {
    /// Returns the length of the question section in bytes.
    #[inline]
    pub fn len_in_message(&self) -> usize {
        self.name_len as usize + QUESTION_TAIL
    }

    /// Returns QNAME as the client wrote it. `packet` is the packet that the question was parsed from.
    #[inline]
    pub fn name<'p>(&self, packet: &'p [u8]) -> Name<'p> {
        let end = HEADER_LEN + self.name_len as usize;
        packet.get(HEADER_LEN..end).map_or(Name::ROOT, Name::of_checked)
    }
}

/// The fields of the client's OPT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientEdns {
    /// The largest UDP payload the client takes, at least 512 (RFC 6891 §6.2.3).
    pub udp_size: u16,
    /// EDNS version.
    pub version: u8,
    /// DO: the client requests DNSSEC records.
    pub dnssec_ok: bool,
    /// The requested options, one bit for each.
    options: u8,
    /// Offset of the data of the COOKIE option in the packet, if there is one.
    cookie_at: u16,
    /// Offset and length of the options in the packet, if one of them may say something about the client.
    ids_at: u16,
    ids_len: u16,
}

/// Bits of [`ClientEdns::options`].
mod option_bit {
    pub(super) const NSID: u8 = 1;
    pub(super) const KEEPALIVE: u8 = 2;
    pub(super) const EXPIRE: u8 = 4;
    pub(super) const ZONE_VERSION: u8 = 8;
    pub(super) const COOKIE: u8 = 16;
    pub(super) const PADDING: u8 = 32;
    /// Set by the flag CO of OPT, not by an option.
    pub(super) const COMPACT_OK: u8 = 64;
}

impl ClientEdns {
    /// Returns the fields of OPT, without its options.
    #[inline]
    fn of(edns: &Edns<'_>) -> Self {
        let Edns { udp_size, version, dnssec_ok, compact_ok, .. } = *edns;
        let options = u8::from(compact_ok) * option_bit::COMPACT_OK;
        ClientEdns { udp_size: udp_size.max(512), version, dnssec_ok, options, ..ClientEdns::default() }
    }

    /// Whether NSID is requested (RFC 5001).
    pub fn nsid(&self) -> bool {
        self.options & option_bit::NSID != 0
    }

    /// Whether TCP keepalive is requested (RFC 7828).
    pub fn keepalive(&self) -> bool {
        self.options & option_bit::KEEPALIVE != 0
    }

    /// Whether EXPIRE is requested (RFC 7314).
    pub fn expire(&self) -> bool {
        self.options & option_bit::EXPIRE != 0
    }

    /// Whether ZONEVERSION is requested (RFC 9660).
    pub fn zone_version(&self) -> bool {
        self.options & option_bit::ZONE_VERSION != 0
    }

    /// Whether the client sends a cookie (RFC 7873).
    #[inline]
    pub fn has_cookie(&self) -> bool {
        self.options & option_bit::COOKIE != 0
    }

    /// Whether the query is padded, so that its reply is to be as well (RFC 7830 §4).
    #[inline]
    pub fn padding(&self) -> bool {
        self.options & option_bit::PADDING != 0
    }

    /// Whether the client accepts NXDOMAIN with a compact denial (CO, RFC 9824 §5.1).
    #[inline]
    pub fn compact_ok(&self) -> bool {
        self.options & option_bit::COMPACT_OK != 0
    }

    /// Returns the data of the COOKIE option. `packet` is the packet that OPT was parsed from, or the head
    /// that [`Request::head_of`] made of it.
    pub(crate) fn cookie<'p>(&self, packet: &'p [u8]) -> Option<&'p [u8]> {
        let at = usize::from(self.cookie_at);
        let len = packet.get(at.checked_sub(2)?..at)?;
        packet.get(at..)?.get(..usize::from(u16::from_be_bytes([*len.first()?, *len.last()?])))
    }

    /// Returns the options that may say something about the client. `packet` is the packet that OPT was
    /// parsed from.
    #[inline]
    pub fn client_ids<'p>(&self, packet: &'p [u8]) -> Option<ClientIds<'p>> {
        if self.ids_len == 0 {
            return None;
        }
        let (at, len) = (usize::from(self.ids_at), usize::from(self.ids_len));
        Some(ClientIds(packet.get(at..)?.get(..len)?))
    }

    /// Whether EXPIRE or ZONEVERSION is requested.
    #[inline]
    pub fn asks_of_zone(&self) -> bool {
        self.options & (option_bit::EXPIRE | option_bit::ZONE_VERSION) != 0
    }

    /// Returns whether any of the options above is requested.
    #[inline]
    pub(crate) fn asks_for_options(&self) -> bool {
        self.options != 0
    }
}

/// Why a query gets no ordinary answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryFault {
    /// Shorter than a header, or a response: no reply.
    Silent,
    /// The sections cannot be parsed as the header's counts require: FORMERR.
    Format,
    /// OPT has a version above 0: BADVERS.
    Version,
    /// Nothing but OPT with a cookie: a request for a server cookie (RFC 7873 §5.4).
    CookieOnly,
}

impl Request {
    /// Parses a packet. Never fails: stores the fault, and keeps what could be parsed for the reply.
    #[inline]
    pub fn read(packet: &[u8]) -> Request {
        let mut request = Request::of(Header::query(0));
        request.set(packet);
        request
    }

    /// Parses `packet` into `self`, as [`read`](Self::read) does.
    #[inline]
    pub(crate) fn set(&mut self, packet: &[u8]) {
        let Ok((header, mut parser)) = Parser::new(packet) else {
            *self = Request { fault: Some(QueryFault::Silent), ..Request::of(Header::query(0)) };
            return;
        };
        *self = Request::of(header);
        if header.is_response() {
            self.fault = Some(QueryFault::Silent);
            return;
        }
        let body = self.read_body(&mut parser);
        // The sections of a message with an unknown opcode need not be well-formed.
        if matches!(header.opcode(), Opcode::QUERY | Opcode::NOTIFY | Opcode::UPDATE) {
            self.fault = match (body, &self.edns) {
                (Err(Malformed), _) => Some(self.malformed(parser.at_end())),
                (Ok(()), Some(client)) if client.version > 0 => Some(QueryFault::Version),
                _ => None,
            };
        }
    }

    #[inline]
    fn of(header: Header) -> Request {
        Request { header, question: None, edns: None, tsig_at: None, fault: None }
    }

    /// Parses all sections. There must be exactly one question (RFC 9619), or one zone (RFC 2136 §2.3), and
    /// no bytes after the last record. If the sections are malformed, the fields of OPT are discarded.
    #[inline]
    fn read_body(&mut self, parser: &mut Parser<'_>) -> Result<(), Malformed> {
        let questions = self.header.counts()[0];
        let read = self.read_sections(parser);
        if read.is_err() {
            self.edns = None;
        }
        if questions != 1 {
            self.question = None;
            return Err(Malformed);
        }
        read?;
        if parser.at_end() { Ok(()) } else { Err(Malformed) }
    }

    /// Returns the fault of a message that is not as its header requires, or has not one question.
    #[cold]
    fn malformed(&self, is_read_to_its_end: bool) -> QueryFault {
        let asks_for_a_cookie = is_read_to_its_end
            && self.header.opcode() == Opcode::QUERY
            && self.header.counts() == [0, 0, 0, 1]
            && self.edns.is_some_and(|client| client.version == 0 && client.has_cookie());
        if asks_for_a_cookie { QueryFault::CookieOnly } else { QueryFault::Format }
    }

    /// Returns what of the packet the reply needs later: header, question and cookie. This request then
    /// refers to it.
    pub(crate) fn head_of(&mut self, packet: &[u8]) -> Box<[u8]> {
        let len = HEADER_LEN + self.question.map_or(0, |question| question.len_in_message());
        let head = &packet[..len.min(packet.len())];
        if let Some(client) = &mut self.edns {
            client.ids_len = 0;
        }
        let Some((client, cookie)) = self.edns.as_mut().and_then(|client| {
            let cookie = client.cookie(packet)?;
            Some((client, cookie))
        }) else {
            return head.into();
        };
        client.cookie_at = head.len() as u16 + 2;
        [head, &(cookie.len() as u16).to_be_bytes(), cookie].concat().into()
    }

    #[inline]
    fn read_sections(&mut self, parser: &mut Parser<'_>) -> Result<(), Malformed> {
        let [questions, answers, authorities, additionals] = self.header.counts();
        for _ in 0..questions {
            let question = parser.question()?;
            self.question = Some(QueryQuestion {
                name_len: question.name.len() as u16,
                qtype: question.qtype,
                qclass: question.qclass,
            });
        }
        // The usual query ends with an OPT record without options.
        if let (0, 0, 1) = (answers, authorities, additionals)
            && let Some(edns) = Edns::plain(parser.rest())
        {
            parser.take_rest();
            self.edns = Some(ClientEdns::of(&edns));
            return Ok(());
        }
        for _ in 0..answers as u32 + authorities as u32 {
            // OPT and TSIG belong in the additional section (RFC 6891 §6.1.1, RFC 8945 §5.1).
            if matches!(parser.record()?.rtype, Type::OPT | Type::TSIG) {
                return Err(Malformed);
            }
        }
        for left in (0..additionals).rev() {
            let record = parser.record()?;
            match record.rtype {
                Type::OPT => self.read_opt(parser.message(), &record)?,
                // TSIG must be the last record (RFC 8945 §5.1).
                Type::TSIG if left == 0 => self.tsig_at = Some(record.owner_at),
                Type::TSIG => return Err(Malformed),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads OPT; a second OPT is a format error (RFC 6891 §6.1.1).
    fn read_opt(&mut self, message: &[u8], record: &RawRecord) -> Result<(), Malformed> {
        if self.edns.is_some() {
            return Err(Malformed);
        }
        let edns = Edns::parse(message, record)?;
        let mut client = ClientEdns::of(&edns);
        let (mut at, mut has_ids) = (record.rdata.start, false);
        for (code, data) in edns.options {
            // Code and length precede the data.
            at += 4;
            client.options |= match code {
                OptionCode::COOKIE if !cookies::is_well_formed(data) => return Err(Malformed),
                // Only the first one counts.
                OptionCode::COOKIE if !client.has_cookie() => {
                    client.cookie_at = u16::try_from(at).map_err(|_| Malformed)?;
                    option_bit::COOKIE
                }
                // The option in a query has no data. EXPIRE with data is answered all the same, as BIND and
                // Knot do: RFC 7314 §2 binds the client, not the server.
                OptionCode::EXPIRE => option_bit::EXPIRE,
                // With data it is a format error, as for NSD (RFC 9660 §3: queries send it empty).
                OptionCode::ZONEVERSION if !data.is_empty() => return Err(Malformed),
                OptionCode::ZONEVERSION => option_bit::ZONE_VERSION,
                OptionCode::NSID => option_bit::NSID,
                OptionCode::KEEPALIVE => option_bit::KEEPALIVE,
                OptionCode::PADDING => option_bit::PADDING,
                code => {
                    has_ids |= ClientIds::is_known(code);
                    0
                }
            };
            at += data.len();
        }
        if has_ids {
            let [at, len] = [record.rdata.start, record.rdata.len()].map(u16::try_from);
            (client.ids_at, client.ids_len) = (at.map_err(|_| Malformed)?, len.map_err(|_| Malformed)?);
        }
        self.edns = Some(client);
        Ok(())
    }

    /// Returns whether this is an ordinary query of class IN: no fault, no TSIG, no transfer.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        let is_ordinary = |question: QueryQuestion| {
            question.qclass == Class::IN && !matches!(question.qtype, Type::AXFR | Type::IXFR)
        };
        self.fault.is_none()
            && self.tsig_at.is_none()
            && self.header.opcode() == Opcode::QUERY
            && self.question.is_some_and(is_ordinary)
    }

    /// Whether the client requests EXPIRE or ZONEVERSION in OPT.
    #[inline]
    pub fn asks_of_zone(&self) -> bool {
        self.edns.is_some_and(|e| e.asks_of_zone())
    }

    /// Whether the client requests DNSSEC records.
    #[inline]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|e| e.dnssec_ok)
    }

    /// Whether the client accepts NXDOMAIN with a compact denial.
    #[inline]
    pub fn compact_ok(&self) -> bool {
        self.edns.is_some_and(|e| e.compact_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x01a\0\0\x01\0\x01";
    const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\0";

    fn packet(counts: [u16; 4], body: &[&[u8]]) -> Vec<u8> {
        let mut header = Header::query(7);
        header.set_counts(counts);
        [header.as_bytes().as_slice(), &body.concat()].concat()
    }

    fn fault(counts: [u16; 4], body: &[&[u8]]) -> Option<QueryFault> {
        Request::read(&packet(counts, body)).fault
    }

    #[test]
    fn a_plain_query_with_opt() {
        let packet = packet([1, 0, 0, 1], &[QUESTION, OPT]);
        let request = Request::read(&packet);
        assert_eq!(request.fault, None);
        let question = request.question.expect("question");
        assert_eq!((question.qtype, question.qclass, question.len_in_message()), (Type::A, Class::IN, 7));
        assert_eq!(question.name(&packet).to_string(), "a.");
        assert_eq!(request.edns.map(|e| (e.udp_size, e.dnssec_ok)), Some((1232, true)));
    }

    #[test]
    fn exactly_one_question_as_rfc_9619_says() {
        assert_eq!(fault([0, 0, 0, 0], &[]), Some(QueryFault::Format));
        assert_eq!(fault([2, 0, 0, 0], &[QUESTION, QUESTION]), Some(QueryFault::Format));
        assert_eq!(fault([1, 0, 0, 0], &[QUESTION]), None);
    }

    #[test]
    fn a_second_opt_and_bytes_left_over_are_format_errors() {
        assert_eq!(fault([1, 0, 0, 2], &[QUESTION, OPT, OPT]), Some(QueryFault::Format));
        assert_eq!(fault([1, 0, 0, 1], &[QUESTION, OPT, b"x"]), Some(QueryFault::Format));
        assert_eq!(
            fault([1, 0, 0, 1], &[QUESTION, b"\x01a\0\0\x29\x04\xd0\0\0\0\0\0\0"]),
            Some(QueryFault::Format)
        );
    }

    #[test]
    fn a_question_about_the_zones_version_has_no_data_and_one_about_its_expire_time_may() {
        let opt = |options: &[u8]| {
            let head = b"\0\0\x29\x04\xd0\0\0\0\0\0";
            [&head[..], &[options.len() as u8], options].concat()
        };
        let read = |options: &[u8]| Request::read(&packet([1, 0, 0, 1], &[QUESTION, &opt(options)]));
        let asks = |options: &[u8]| read(options).edns.map(|edns| (edns.expire(), edns.zone_version()));
        assert_eq!(asks(b"\0\x09\0\0\0\x13\0\0"), Some((true, true)));
        assert_eq!(asks(b"\0\x09\0\x04\0\0\0\x01"), Some((true, false)));
        assert_eq!(read(b"\0\x09\0\x04\0\0\0\x01").fault, None);
        assert_eq!(read(b"\0\x13\0\x06\x01\0\0\0\0\x01").fault, Some(QueryFault::Format));
    }

    /// OPT with these options.
    fn opt_with(options: &[u8]) -> Vec<u8> {
        [&b"\0\0\x29\x04\xd0\0\0\0\0\0"[..], &[options.len() as u8], options].concat()
    }

    #[test]
    fn the_first_cookie_counts_and_a_malformed_one_is_a_format_error() {
        let cookie = |options: &[u8]| {
            let packet = packet([1, 0, 0, 1], &[QUESTION, &opt_with(options)]);
            let request = Request::read(&packet);
            (request.fault, request.edns.and_then(|edns| edns.cookie(&packet).map(<[u8]>::to_vec)))
        };
        let (one, two) = (b"\0\x0a\0\x08AAAAAAAA".as_slice(), b"\0\x0a\0\x08BBBBBBBB".as_slice());
        let nsid = b"\0\x03\0\0".as_slice();
        assert_eq!(cookie(&[nsid, one, two].concat()), (None, Some(b"AAAAAAAA".to_vec())));
        assert_eq!(cookie(nsid), (None, None));
        assert_eq!(cookie(b"\0\x0a\0\x07AAAAAAA").0, Some(QueryFault::Format));
        assert_eq!(cookie(&[one, b"\0\x0a\0\0"].concat()).0, Some(QueryFault::Format));
    }

    #[test]
    fn options_about_the_client_are_found_and_those_of_others_cost_nothing() {
        let ids = |options: &[u8]| {
            let packet = packet([1, 0, 0, 1], &[QUESTION, &opt_with(options)]);
            let mut request = Request::read(&packet);
            let found = request.edns.and_then(|edns| edns.client_ids(&packet).map(|ids| ids.0.to_vec()));
            let head = request.head_of(&packet);
            assert_eq!(request.edns.and_then(|edns| edns.client_ids(&head)), None);
            found
        };
        let tagged = b"\0\x03\0\0\0\x10\0\x02\0\x07".as_slice();
        assert_eq!(ids(tagged).as_deref(), Some(tagged));
        assert_eq!(ids(b"\0\x03\0\0\0\x11\0\x02\0\x07"), None);
    }

    #[test]
    fn what_is_kept_for_a_late_answer_has_the_cookie() {
        let with_cookie =
            packet([1, 0, 0, 1], &[QUESTION, &opt_with(b"\0\x03\0\0\0\x0a\0\x08AAAAAAAA\0\x0c\0\x02pp")]);
        let mut request = Request::read(&with_cookie);
        let head = request.head_of(&with_cookie);
        assert_eq!(*head, [&with_cookie[..HEADER_LEN + 7], b"\0\x08AAAAAAAA"].concat()[..]);
        assert_eq!(request.edns.and_then(|edns| edns.cookie(&head)), Some(&b"AAAAAAAA"[..]));
        let without = packet([1, 0, 0, 1], &[QUESTION, OPT]);
        assert_eq!(*Request::read(&without).head_of(&without), without[..HEADER_LEN + 7]);
    }

    #[test]
    fn a_query_for_a_cookie_alone_has_no_question_and_nothing_else() {
        let cookie = opt_with(b"\0\x0a\0\x08AAAAAAAA");
        assert_eq!(fault([0, 0, 0, 1], &[&cookie]), Some(QueryFault::CookieOnly));
        assert_eq!(fault([0, 0, 0, 1], &[&cookie, b"x"]), Some(QueryFault::Format));
        assert_eq!(fault([0, 0, 0, 1], &[OPT]), Some(QueryFault::Format));
        assert_eq!(fault([0, 1, 0, 1], &[b"\0\0\x01\0\x01\0\0\0\0\0\0", &cookie]), Some(QueryFault::Format));
    }

    #[test]
    fn a_later_edns_version_is_noted() {
        assert_eq!(
            fault([1, 0, 0, 1], &[QUESTION, b"\0\0\x29\x04\xd0\0\x01\0\0\0\0"]),
            Some(QueryFault::Version)
        );
    }

    #[test]
    fn responses_and_stubs_are_met_with_silence() {
        let mut header = Header::query(7);
        header.set_response(true);
        assert_eq!(Request::read(header.as_bytes()).fault, Some(QueryFault::Silent));
        assert_eq!(Request::read(b"short").fault, Some(QueryFault::Silent));
    }
}
