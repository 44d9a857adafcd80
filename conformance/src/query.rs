//! One query: its question, header bits, transport and wire format. Queries are chosen in `generate`.

use crate::name::Name;

/// Record types used by name in this crate (IANA registry).
pub(crate) mod rtype {
    #![allow(missing_docs)]
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const MX: u16 = 15;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const SIG: u16 = 24;
    pub(crate) const KEY: u16 = 25;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const NXT: u16 = 30;
    pub(crate) const DNAME: u16 = 39;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const DS: u16 = 43;
    pub(crate) const RRSIG: u16 = 46;
    pub(crate) const NSEC: u16 = 47;
    pub(crate) const NSEC3: u16 = 50;
    pub(crate) const SVCB: u16 = 64;
    pub(crate) const HTTPS: u16 = 65;
    pub(crate) const IXFR: u16 = 251;
    pub(crate) const AXFR: u16 = 252;
    pub(crate) const ANY: u16 = 255;
}

/// The transport of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transport {
    /// A datagram.
    Udp,
    /// A connection shared with other queries.
    Tcp,
}

/// The OPT record of a query (RFC 6891).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Edns {
    /// Requestor's UDP payload size, in bytes.
    pub size: u16,
    /// EDNS version; a server answers any but 0 with BADVERS.
    pub version: u8,
    /// DNSSEC OK.
    pub dnssec_ok: bool,
    /// Raw options, already encoded.
    pub options: Vec<u8>,
}

/// A question with its header bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Query {
    /// QNAME, letter case as sent.
    pub name: Name,
    /// QTYPE.
    pub qtype: u16,
    /// QCLASS, 1 for IN.
    pub class: u16,
    /// Recursion desired.
    pub rd: bool,
    /// Checking disabled.
    pub cd: bool,
    /// Authentic data.
    pub ad: bool,
    /// OPCODE, 0 for QUERY.
    pub opcode: u8,
    /// The OPT record, if one is sent.
    pub edns: Option<Edns>,
    /// UDP or TCP.
    pub transport: Transport,
}

impl Query {
    /// Creates a query by UDP without EDNS.
    pub(crate) fn plain(name: Name, qtype: u16) -> Self {
        Self {
            name,
            qtype,
            class: 1,
            rd: false,
            cd: false,
            ad: false,
            opcode: 0,
            edns: None,
            transport: Transport::Udp,
        }
    }

    /// Encodes the message, with `id`.
    pub(crate) fn to_wire(&self, id: u16) -> Vec<u8> {
        let mut out = Vec::with_capacity(300);
        out.extend_from_slice(&id.to_be_bytes());
        out.push((self.opcode << 3) | u8::from(self.rd));
        out.push((u8::from(self.ad) << 5) | (u8::from(self.cd) << 4));
        out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(self.edns.is_some())]);
        out.extend_from_slice(&self.name.to_wire());
        out.extend_from_slice(&self.qtype.to_be_bytes());
        out.extend_from_slice(&self.class.to_be_bytes());
        if let Some(edns) = &self.edns {
            out.extend_from_slice(&[0, 0, 41]);
            out.extend_from_slice(&edns.size.to_be_bytes());
            out.extend_from_slice(&[0, edns.version, u8::from(edns.dnssec_ok) << 7, 0]);
            out.extend_from_slice(&(edns.options.len() as u16).to_be_bytes());
            out.extend_from_slice(&edns.options);
        }
        out
    }

    /// Returns the query as a `dig` command line (without server and port).
    pub(crate) fn to_dig(&self) -> String {
        let mut out = format!("'{}' TYPE{}", self.name, self.qtype);
        if self.class != 1 {
            out += &format!(" -c CLASS{}", self.class);
        }
        if self.opcode != 0 {
            out += &format!(" +opcode={}", self.opcode);
        }
        out += if self.rd { " +rec" } else { " +norec" };
        out += if self.ad { " +ad" } else { " +noad" };
        out += if self.cd { " +cd" } else { " +nocd" };
        match &self.edns {
            None => out += " +noedns",
            Some(e) => {
                out += &format!(" +edns={} +bufsize={} +nocookie +noednsneg", e.version, e.size);
                out += if e.dnssec_ok { " +dnssec" } else { " +nodnssec" };
                if !e.options.is_empty() {
                    out += &format!(" (options {:02x?})", e.options);
                }
            }
        }
        out += if self.transport == Transport::Tcp { " +tcp" } else { " +ignore" };
        out
    }
}
