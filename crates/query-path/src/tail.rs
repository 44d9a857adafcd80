//! The parts that every reply has, at once or late: header and question at its start; after the sections
//! truncation, extended error, OPT (RFC 6891 §6.1.1) and TSIG; counters.

use std::cell::OnceCell;

use cookies::{CheckedCookie, CookieStanding, WHOLE_COOKIE};
use transport::{Client, Transport};
use wire::edns::{ErrorInfo, OPT_LEN, OptWriter, OptionCode};
use wire::message::{Builder, Compressor, HEADER_LEN, Header, MAX_MESSAGE, Mark};
use wire::{Name, Rcode, Type};

use crate::refusal::{Answered, Refusal};
use crate::request::{ClientEdns, Request};
use crate::rotation;
use crate::settings::EngineConfig;
use crate::signature::Signature;
use crate::stats::QueryStats;
use crate::zone_facts::{self, ZoneFacts};

/// The length of a padded reply is a multiple of this, in bytes (RFC 8467 §4.1).
const PADDED_TO: usize = 468;

/// The query that a [`ReplyFrame`] replies to.
#[derive(Clone, Copy)]
pub(crate) struct FramedQuery<'f> {
    pub(crate) request: &'f Request,
    /// The query, or its header, question and cookie.
    pub(crate) packet: &'f [u8],
    pub(crate) client: &'f Client,
}

/// Builds one reply around the sections that memory or a source writes.
pub(crate) struct ReplyFrame<'f> {
    pub(crate) request: &'f Request,
    /// The query, or its header, question and cookie.
    pub(crate) packet: &'f [u8],
    pub(crate) client: &'f Client,
    /// Whether recursion is available to the client: RA (RFC 1035 §4.1.1).
    pub(crate) may_recurse: bool,
    pub(crate) config: &'f EngineConfig,
    /// The result of the query's TSIG check, if the reply is signed for it.
    pub(crate) signed: Option<&'f Signature>,
    /// The agent domain in the reply's OPT (RFC 9567).
    pub(crate) agent: Option<Name<'f>>,
    /// The size limit of the reply before it is signed, in bytes.
    unsigned_limit: usize,
    /// The cookie of the query and that of the reply, once they are needed.
    cookie: OnceCell<Option<CheckedCookie>>,
}

/// A finished reply.
#[derive(Clone, Copy)]
pub(crate) struct FinishedReply {
    pub(crate) rcode: Rcode,
    pub(crate) truncated: bool,
    /// The extended error of the reply.
    pub(crate) info: Option<ErrorInfo>,
    /// Length of the message in bytes.
    pub(crate) len: usize,
}

impl<'f> ReplyFrame<'f> {
    /// Returns the frame of a reply to a query.
    #[inline]
    pub(crate) fn new(
        FramedQuery { request, packet, client }: FramedQuery<'f>,
        may_recurse: bool,
        config: &'f EngineConfig,
        signed: Option<&'f Signature>,
        agent: Option<Name<'f>>,
    ) -> Self {
        let mut frame = ReplyFrame {
            request,
            packet,
            client,
            may_recurse,
            config,
            signed,
            agent,
            unsigned_limit: 0,
            cookie: OnceCell::new(),
        };
        frame.unsigned_limit = match signed {
            None => frame.limit(),
            Some(signature) => frame.limit_beside(signature),
        };
        frame
    }

    /// Returns the size limit of the reply, in bytes.
    #[inline]
    fn limit(&self) -> usize {
        match &self.request.edns {
            _ if self.client.transport.is_stream() => MAX_MESSAGE,
            Some(client) => client.udp_size.min(self.config.max_udp_size).max(512) as usize,
            None => 512,
        }
    }

    /// Reserves space for the TSIG record, unless the question and OPT would not fit: they have precedence.
    #[cold]
    fn limit_beside(&self, signature: &Signature) -> usize {
        let question = self.request.question.map_or(0, |question| question.len_in_message());
        let unsigned = self.limit().saturating_sub(signature.reserve());
        if unsigned >= HEADER_LEN + question + OPT_LEN { unsigned } else { self.limit() }
    }

    /// Returns the header of the reply.
    #[inline]
    pub(crate) fn header(&self) -> Header {
        let mut header = self.request.header.reply();
        if self.may_recurse {
            header.set_recursion_available(true);
            // A recursive server repeats CD (RFC 4035 §3.2.2).
            header.set_checking_disabled(self.request.header.checking_disabled());
        }
        header
    }

    /// Starts the reply: writes the header, copies the question, and reserves space for OPT.
    #[inline]
    pub(crate) fn begin<'b>(&self, out: &'b mut [u8], names: &'b mut Compressor) -> Builder<'b> {
        let limit = self.unsigned_limit.min(out.len());
        let mut b = Builder::new(out, limit, self.header(), names);
        if let Some(question) = self.request.question {
            let end = HEADER_LEN + question.len_in_message();
            if let Some(Ok(_)) = self.packet.get(HEADER_LEN..end).map(|bytes| b.append(bytes)) {
                b.add_question();
            }
        }
        if let Some(client) = &self.request.edns {
            let options = if client.asks_for_options() { self.room_for_options(client) } else { 0 };
            b.set_limit(limit.saturating_sub(OPT_LEN + options));
        }
        b
    }

    /// Returns the most bytes that the requested options take, except KEEPALIVE, which only streams carry.
    #[cold]
    fn room_for_options(&self, client: &ClientEdns) -> usize {
        let nsid = if self.sends_nsid(client) { 4 + self.config.nsid.len() } else { 0 };
        let cookie = if self.sends_cookie(client) { 4 + WHOLE_COOKIE } else { 0 };
        nsid + cookie + zone_facts::room(*client)
    }

    fn sends_cookie(&self, client: &ClientEdns) -> bool {
        client.has_cookie() && self.config.cookies.is_some()
    }

    /// Returns the cookie of the query and that of the reply; `None` if it has none, or cookies are off.
    pub(crate) fn checked_cookie(&self) -> Option<CheckedCookie> {
        let check = || self.config.checked_cookie(self.request.edns.as_ref()?, self.packet, self.client);
        *self.cookie.get_or_init(check)
    }

    /// Whether the query has a valid server cookie.
    #[cold]
    pub(crate) fn has_valid_cookie(&self) -> bool {
        self.checked_cookie().is_some_and(|cookie| cookie.standing == CookieStanding::Valid)
    }

    fn sends_nsid(&self, client: &ClientEdns) -> bool {
        client.nsid() && !self.config.nsid.is_empty()
    }

    /// Removes everything after the question, and resets the flags.
    #[inline]
    pub(crate) fn clear(&self, b: &mut Builder<'_>, question_only: Mark) {
        b.rollback(question_only);
        b.flags(|h| *h = self.header());
    }

    /// Finishes the reply whose sections are written: truncation, response code, OPT. `facts` returns EXPIRE
    /// and ZONEVERSION of the zone that answers, for a client that requests them.
    #[inline]
    pub(crate) fn end(
        &self,
        b: &mut Builder<'_>,
        question_only: Mark,
        answered: Answered,
        stats: &QueryStats,
        facts: impl FnOnce() -> Option<ZoneFacts>,
    ) -> FinishedReply {
        self.end_saying(b, question_only, answered, "", stats, facts)
    }

    /// Finishes the reply as [`end`](Self::end) does, with a text for its extended error.
    #[inline]
    pub(crate) fn end_saying(
        &self,
        b: &mut Builder<'_>,
        question_only: Mark,
        answered: Answered,
        error_text: &str,
        stats: &QueryStats,
        facts: impl FnOnce() -> Option<ZoneFacts>,
    ) -> FinishedReply {
        if answered.is_err() {
            self.clear(b, question_only);
        }
        let truncated = b.header().truncated();
        if truncated {
            cut(b, question_only);
        }
        let Refusal { rcode, info } = match answered {
            Ok(info) => Refusal { rcode: b.rcode(), info },
            Err(refusal) => {
                b.set_rcode(refusal.rcode);
                refusal
            }
        };
        let facts = || if answered.is_ok() { facts() } else { None };
        self.add_opt(b, Refusal { rcode, info }, error_text, stats, facts);
        FinishedReply { rcode, truncated, info, len: b.close() }
    }

    /// Rotates the addresses of a finished reply, and signs it, if the query was signed and there is room.
    /// The reply is at the start of `out`.
    #[inline]
    pub(crate) fn seal(&self, reply: FinishedReply, out: &mut [u8]) -> FinishedReply {
        if let (Some(question), [_, _, _, _, _, _, high, low, ..]) = (self.request.question, &*out)
            && (*high > 0 || *low > 1)
            && matches!(question.qtype, Type::A | Type::AAAA)
            && self.config.rotate_addresses
        {
            let (end, records) = (HEADER_LEN + question.len_in_message(), u16::from_be_bytes([*high, *low]));
            rotation::rotate(&mut out[..reply.len], end, records, question.qtype);
        }
        match self.signed {
            None => reply,
            Some(signature) => {
                let limit = self.limit().min(out.len());
                let len = signature.append(
                    Refusal { rcode: reply.rcode, info: reply.info },
                    &mut out[..limit],
                    reply.len,
                );
                FinishedReply { len, ..reply }
            }
        }
    }

    /// Copies another server's response into `out` as the reply; `None` if it is too long for this client.
    pub(crate) fn pass_on(&self, message: &[u8], out: &mut [u8]) -> Option<FinishedReply> {
        let header = Header::of(message).filter(|_| message.len() <= self.limit())?;
        out.get_mut(..message.len())?.copy_from_slice(message);
        let (rcode, truncated) = (header.rcode(), header.truncated());
        Some(FinishedReply { rcode, truncated, info: None, len: message.len() })
    }

    /// Adds OPT, if the client sent one.
    #[inline]
    fn add_opt(
        &self,
        b: &mut Builder<'_>,
        Refusal { rcode, info }: Refusal,
        error_text: &str,
        stats: &QueryStats,
        facts: impl FnOnce() -> Option<ZoneFacts>,
    ) {
        let Some(client) = &self.request.edns else { return };
        b.set_limit(self.unsigned_limit);
        // Space was reserved; if a source has used it, the answer is sent without OPT.
        let high = (rcode.0 >> 4) as u8;
        let Ok(mut opt) = OptWriter::begin(b, self.config.max_udp_size, high, client.dnssec_ok) else {
            return;
        };
        if client.asks_for_options() {
            self.add_options(b, &mut opt, client, stats, facts);
        }
        if let Some(info) = info {
            let _ = opt.extended_error(b, info, error_text);
        }
        if let Some(agent) = self.agent {
            // Queries do not request it, so no space is reserved for it.
            let _ = opt.option(b, OptionCode::REPORT_CHANNEL, &[agent.as_wire()]);
        }
        if client.padding() && self.client.transport.is_padded() {
            pad(b, &mut opt);
        }
    }

    /// Adds the options that the client requests.
    #[cold]
    #[inline(never)]
    fn add_options(
        &self,
        b: &mut Builder<'_>,
        opt: &mut OptWriter,
        client: &ClientEdns,
        stats: &QueryStats,
        facts: impl FnOnce() -> Option<ZoneFacts>,
    ) {
        if let Some(cookie) = self.checked_cookie() {
            stats.cookie(cookie.standing);
            let _ = opt.option(b, OptionCode::COOKIE, &[&cookie.reply]);
        }
        if self.sends_nsid(client) {
            let _ = opt.option(b, OptionCode::NSID, &[&self.config.nsid]);
        }
        // HTTP has a keep-alive of its own, and RFC 9250 §5.5.2 forbids this one in QUIC.
        let keeps = matches!(self.client.transport, Transport::Tcp | Transport::Tls);
        if client.keepalive() && keeps {
            let _ = opt.option(b, OptionCode::KEEPALIVE, &[&self.config.keepalive.to_be_bytes()]);
        }
        let Some(facts) = (if client.asks_of_zone() { facts() } else { None }) else { return };
        let qtype = self.request.question.map_or(Type::ANY, |question| question.qtype);
        if let Some(data) = facts.expire_option(*client, qtype) {
            let _ = opt.option(b, OptionCode::EXPIRE, &[&data]);
        }
        if let Some(data) = facts.version_option(*client) {
            let _ = opt.option(b, OptionCode::ZONEVERSION, &[&data]);
        }
    }

    /// Counts the reply.
    #[inline]
    pub(crate) fn account(&self, reply: FinishedReply, stats: &QueryStats) {
        let FinishedReply { rcode, truncated, len, .. } = reply;
        stats.reply(self.client.transport, rcode.0, truncated, len);
    }
}

/// Lengthens the reply to a multiple of [`PADDED_TO`], if there is room. A TSIG record comes on top.
#[cold]
fn pad(b: &mut Builder<'_>, opt: &mut OptWriter) {
    let zeros = [0; PADDED_TO];
    let unpadded = b.len() + 4;
    let missing = unpadded.next_multiple_of(PADDED_TO) - unpadded;
    let _ = opt.option(b, OptionCode::PADDING, &[&zeros[..missing]]);
}

/// Truncates the reply to its question and sets TC (RFC 2181 §9).
#[cold]
fn cut(b: &mut Builder<'_>, question_only: Mark) {
    b.rollback(question_only);
    b.flags(|h: &mut Header| h.set_truncated(true));
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use transport::Transport;
    use wire::edns::Edns;
    use wire::message::Parser;

    use super::*;

    /// The reply to a query for `a.` with this additional section, for such an answer.
    fn reply(
        transport: Transport,
        additional: &[u8],
        answer: impl FnOnce(&mut Builder<'_>) -> Answered,
    ) -> (Vec<u8>, FinishedReply) {
        let mut header = Header::query(7);
        header.set_counts([1, 0, 0, u16::from(!additional.is_empty())]);
        let packet = [header.as_bytes().as_slice(), b"\x01a\0\0\x01\0\x01", additional].concat();
        let request = Request::read(&packet);
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
        let client = &Client { peer: at, local: at, transport };
        let config = &EngineConfig::default();
        let query = FramedQuery { request: &request, packet: &packet, client };
        let frame = ReplyFrame::new(query, false, config, None, None);
        let (mut out, mut names) = (vec![0; MAX_MESSAGE], Compressor::small());
        let mut b = frame.begin(&mut out, &mut names);
        let question_only = b.mark();
        let answered = answer(&mut b);
        let reply = frame.end(&mut b, question_only, answered, &QueryStats::default(), || None);
        out.truncate(reply.len);
        (out, reply)
    }

    /// OPT with this UDP payload size.
    fn opt(udp_size: u16) -> Vec<u8> {
        [b"\0\0\x29", &udp_size.to_be_bytes()[..], b"\0\0\0\0\0\0"].concat()
    }

    /// Fills the message up; returns whether it holds `len` bytes.
    fn holds(transport: Transport, additional: &[u8], len: usize) -> bool {
        let mut held = false;
        let (out, _) = reply(transport, additional, |b| {
            let room = len - b.len() - if additional.is_empty() { 0 } else { OPT_LEN };
            held = b.append(&vec![0; room]).is_ok();
            Ok(None)
        });
        assert!(!held || out.len() == len, "{} bytes, not {len}", out.len());
        held
    }

    #[test]
    fn a_reply_is_as_long_as_its_way_and_the_client_take() {
        // RFC 1035 §4.2.1; RFC 6891 §6.2.3: less than 512 means 512; our own limit; RFC 1035 §4.2.2.
        let ways = [
            (Transport::Udp, Vec::new(), 512),
            (Transport::Udp, opt(0), 512),
            (Transport::Udp, opt(700), 700),
            (Transport::Udp, opt(4096), 1232),
            (Transport::Tcp, Vec::new(), MAX_MESSAGE),
            (Transport::Tcp, opt(512), MAX_MESSAGE),
        ];
        for (transport, additional, limit) in ways {
            assert!(holds(transport, &additional, limit), "{transport} {additional:?}");
            assert!(!holds(transport, &additional, limit + 1), "{transport} {additional:?}");
        }
    }

    #[test]
    fn a_padded_query_over_tls_has_a_padded_reply() {
        let (padded, plain) = (b"\0\0\x29\x04\xd0\0\0\0\0\0\x05\0\x0c\0\x01\0", opt(1232));
        let len = |transport, additional: &[u8], answer: usize| {
            let (out, _) = reply(transport, additional, |b| {
                b.append(&vec![0; answer]).expect("there is room");
                Ok(None)
            });
            out.len()
        };
        let fixed = HEADER_LEN + 7 + OPT_LEN;
        for answer in 0..1500 {
            let (tls, least) = (len(Transport::Tls, padded, answer), fixed + answer + 4);
            assert!(
                tls.is_multiple_of(PADDED_TO) && (least..least + PADDED_TO).contains(&tls),
                "{answer}: {tls}"
            );
        }
        for (transport, additional) in
            [(Transport::Tls, &plain[..]), (Transport::Tcp, padded), (Transport::Udp, padded)]
        {
            assert_eq!(len(transport, additional, 100), fixed + 100, "{transport}");
        }
        let most = MAX_MESSAGE - fixed;
        assert_eq!(len(Transport::Tls, padded, most), MAX_MESSAGE, "no room for it");
    }

    #[test]
    fn a_refusal_leaves_nothing_of_what_was_written_before_it() {
        let (out, _) = reply(Transport::Udp, &opt(1232), |b| {
            b.flags(|h| {
                h.set_authoritative(true);
                h.set_truncated(true);
            });
            b.append(&[0; 100]).expect("there is room");
            Err(Refusal::NOT_LOADED)
        });
        let (header, mut parser) = Parser::new(&out).expect("a header");
        assert_eq!((header.rcode(), header.counts()), (Rcode::SERVFAIL, [1, 0, 0, 1]));
        assert!(!header.authoritative() && !header.truncated());
        parser.question().expect("the question");
        let opt = parser.record().expect("OPT");
        assert!(Edns::parse(&out, &opt).is_ok() && parser.at_end());
    }

    #[test]
    fn what_is_cut_keeps_question_and_opt() {
        let (out, said) = reply(Transport::Udp, &opt(1232), |b| {
            b.append(&[0; 100]).expect("there is room");
            b.flags(|h| h.set_truncated(true));
            Ok(None)
        });
        let (header, _) = Parser::new(&out).expect("a header");
        assert!(said.truncated && header.truncated());
        assert_eq!((header.counts(), out.len()), ([1, 0, 0, 1], HEADER_LEN + 7 + OPT_LEN));
    }
}
