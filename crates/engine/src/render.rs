//! The frame around an answer: header and question in front, OPT behind (RFC 6891 §6.1.1).

use wire::edns::{ErrorInfo, OPT_LEN, OptWriter, OptionCode};
use wire::message::{Builder, Compressor, HEADER_LEN, Header, Mark, Section};
use wire::{Class, Rcode, Ttl};

use crate::pipeline::Transport;
use crate::request::Request;

/// What this server says of itself in OPT.
#[derive(Clone, Debug)]
pub(crate) struct ServerEdns {
    /// The UDP payload we take and, at the most, send.
    pub(crate) udp_size: u16,
    /// NSID (RFC 5001), empty for none.
    pub(crate) nsid: Box<[u8]>,
    /// Idle timeout of streams in units of 100 ms, told to clients that ask (RFC 7828).
    pub(crate) keepalive: u16,
}

/// The most octets a reply to this request may have.
#[inline]
pub(crate) fn limit(request: &Request, transport: Transport, edns: &ServerEdns) -> usize {
    match (transport, request.edns) {
        (Transport::Tcp, _) => wire::message::MAX_MESSAGE,
        (Transport::Udp, Some(client)) => client.udp_size.min(edns.udp_size).max(512) as usize,
        (Transport::Udp, None) => 512,
    }
}

/// Starts the reply: header, the question echoed octet by octet, room kept free for OPT.
#[inline]
pub(crate) fn start<'b>(
    request: &Request,
    packet: &[u8],
    buf: &'b mut [u8],
    limit: usize,
    names: &'b mut Compressor,
    edns: &ServerEdns,
) -> Builder<'b> {
    let mut b = Builder::new(buf, limit, request.header.reply(), names);
    if let Some(question) = request.question {
        let end = HEADER_LEN + question.octets();
        if let Some(Ok(_)) = packet.get(HEADER_LEN..end).map(|octets| b.append(octets)) {
            b.add_question();
        }
    }
    if let Some(client) = request.edns {
        let nsid = if client.nsid && !edns.nsid.is_empty() { 4 + edns.nsid.len() } else { 0 };
        b.set_limit(limit.saturating_sub(OPT_LEN + nsid));
    }
    b
}

/// Sets the response code of an error and adds OPT, if the client sent one.
#[inline]
pub(crate) fn add_opt(
    b: &mut Builder<'_>,
    request: &Request,
    transport: Transport,
    edns: &ServerEdns,
    error: Option<(Rcode, Option<ErrorInfo>)>,
) {
    let (rcode, info) = error.unwrap_or((b.rcode(), None));
    if error.is_some() {
        b.set_rcode(rcode);
    }
    let Some(client) = request.edns else { return };
    b.set_limit(limit(request, transport, edns));
    // The room was kept free; an answer stands without OPT if a source overran it.
    let Ok(mut opt) = OptWriter::begin(b, edns.udp_size, (rcode.0 >> 4) as u8, client.dnssec_ok) else {
        return;
    };
    if client.nsid && !edns.nsid.is_empty() {
        let _ = opt.option(b, OptionCode::NSID, &[&edns.nsid]);
    }
    if client.keepalive && transport == Transport::Tcp {
        let _ = opt.option(b, OptionCode::KEEPALIVE, &[&edns.keepalive.to_be_bytes()]);
    }
    if let Some(info) = info {
        let _ = opt.extended_error(b, info, "");
    }
}

/// Cuts the reply down to its question and sets TC (RFC 2181 §9).
#[cold]
pub(crate) fn truncate(b: &mut Builder<'_>, question_only: Mark) {
    b.rollback(question_only);
    b.flags(|h: &mut Header| h.set_truncated(true));
}

/// A TXT record's data for `text`, in strings of at most 255 octets.
pub(crate) fn txt(b: &mut Builder<'_>, text: &[u8]) -> bool {
    let mut rdata = Vec::with_capacity(text.len() + 2);
    for part in text.chunks(255) {
        rdata.push(part.len() as u8);
        rdata.extend_from_slice(part);
    }
    if text.is_empty() {
        rdata.push(0);
    }
    let owner = wire::message::Owner::At(wire::message::Offset::QNAME);
    b.record(Section::Answer, owner, wire::Type::TXT, Class::CH, Ttl::ZERO, &rdata).is_ok()
}
