//! The twelve bytes in front of every message (RFC 1035 §4.1.1, RFC 4035 §3 for AD and CD).

use std::fmt;

use super::layout::HEADER_LEN;

/// A message header in wire form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header([u8; HEADER_LEN]);

const QR: u8 = 0x80;
const AA: u8 = 0x04;
const TC: u8 = 0x02;
const RD: u8 = 0x01;
const RA: u8 = 0x80;
const AD: u8 = 0x20;
const CD: u8 = 0x10;

impl Header {
    /// The header of `message`; `None` if it is shorter than that.
    #[inline]
    pub fn of(message: &[u8]) -> Option<Header> {
        message.first_chunk().map(|bytes| Header(*bytes))
    }

    /// A query's header: one question, everything else zero.
    pub fn query(id: u16) -> Header {
        let mut header = Header([0; HEADER_LEN]);
        header.0[..2].copy_from_slice(&id.to_be_bytes());
        header.set_counts([1, 0, 0, 0]);
        header
    }

    /// The header of the response to this one: keeps ID, opcode and RD, sets QR, clears everything else (RFC
    /// 1035 §4.1.1).
    ///
    /// Resolvers have to copy CD; authoritative responses have it clear (RFC 4035 §3.1.6).
    #[inline]
    pub fn reply(self) -> Header {
        let mut out = [0; HEADER_LEN];
        out[..2].copy_from_slice(&self.0[..2]);
        out[2] = QR | self.0[2] & 0x79;
        Header(out)
    }

    /// The header in wire form.
    #[inline]
    pub fn as_bytes(&self) -> &[u8; HEADER_LEN] {
        &self.0
    }

    /// The ID that pairs a response with its query.
    #[inline]
    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]])
    }

    /// The kind of query.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        Opcode(self.0[2] >> 3 & 0xf)
    }

    /// The four low bits of the response code.
    #[inline]
    pub fn rcode(&self) -> Rcode {
        Rcode((self.0[3] & 0xf) as u16)
    }

    /// Sets the four low bits of the response code; the rest belongs in OPT (RFC 6891 §6.1.3).
    #[inline]
    pub fn set_rcode(&mut self, rcode: Rcode) {
        self.0[3] = self.0[3] & 0xf0 | (rcode.0 & 0xf) as u8;
    }

    /// Counts of questions, answers, authority and additional records.
    #[inline]
    pub fn counts(&self) -> [u16; 4] {
        std::array::from_fn(|i| u16::from_be_bytes([self.0[4 + 2 * i], self.0[5 + 2 * i]]))
    }

    /// Sets the four counts.
    #[inline]
    pub fn set_counts(&mut self, counts: [u16; 4]) {
        for (i, count) in counts.into_iter().enumerate() {
            self.0[4 + 2 * i..6 + 2 * i].copy_from_slice(&count.to_be_bytes());
        }
    }
}

macro_rules! flags {
    ($($get:ident $set:ident $at:literal $bit:ident $doc:literal;)*) => {
        impl Header {$(
            #[doc = $doc]
            #[inline]
            pub fn $get(&self) -> bool { self.0[$at] & $bit != 0 }
            #[doc = concat!("Sets or clears: ", $doc)]
            #[inline]
            pub fn $set(&mut self, on: bool) {
                if on { self.0[$at] |= $bit } else { self.0[$at] &= !$bit }
            }
        )*}
    };
}
flags! {
    is_response set_response 2 QR "QR: this is a response.";
    authoritative set_authoritative 2 AA "AA: from the zone itself.";
    truncated set_truncated 2 TC "TC: cut short, ask again over a stream.";
    recursion_desired set_recursion_desired 2 RD "RD: please resolve.";
    recursion_available set_recursion_available 3 RA "RA: resolution is offered.";
    authentic_data set_authentic_data 3 AD "AD: validated data (RFC 4035 §3.2.3).";
    checking_disabled set_checking_disabled 3 CD "CD: the client validates itself (RFC 4035 §3.2.2).";
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Header(id {}, {}, {}, flags {:02x}{:02x}, counts {:?})",
            self.id(),
            self.opcode(),
            self.rcode(),
            self.0[2],
            self.0[3],
            self.counts()
        )
    }
}

/// The kind of query (RFC 6895 §2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode(pub u8);

impl Opcode {
    /// A standard query.
    pub const QUERY: Opcode = Opcode(0);
    /// An inverse query, obsolete (RFC 3425).
    pub const IQUERY: Opcode = Opcode(1);
    /// A server status request, never defined.
    pub const STATUS: Opcode = Opcode(2);
    /// A notification of a zone change (RFC 1996).
    pub const NOTIFY: Opcode = Opcode(4);
    /// A dynamic update (RFC 2136).
    pub const UPDATE: Opcode = Opcode(5);
    /// Stateful operations (RFC 8490).
    pub const DSO: Opcode = Opcode(6);
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::QUERY => f.pad("QUERY"),
            Self::IQUERY => f.pad("IQUERY"),
            Self::STATUS => f.pad("STATUS"),
            Self::NOTIFY => f.pad("NOTIFY"),
            Self::UPDATE => f.pad("UPDATE"),
            Self::DSO => f.pad("DSO"),
            Opcode(n) => write!(f, "OPCODE{n}"),
        }
    }
}

/// A response code, with the eight upper bits from OPT (RFC 6895 §2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct Rcode(pub u16);

#[allow(missing_docs, reason = "each is the code of its mnemonic")]
impl Rcode {
    pub const NOERROR: Rcode = Rcode(0);
    pub const FORMERR: Rcode = Rcode(1);
    pub const SERVFAIL: Rcode = Rcode(2);
    pub const NXDOMAIN: Rcode = Rcode(3);
    pub const NOTIMP: Rcode = Rcode(4);
    pub const REFUSED: Rcode = Rcode(5);
    pub const YXDOMAIN: Rcode = Rcode(6);
    pub const YXRRSET: Rcode = Rcode(7);
    pub const NXRRSET: Rcode = Rcode(8);
    pub const NOTAUTH: Rcode = Rcode(9);
    pub const NOTZONE: Rcode = Rcode(10);
    pub const BADVERS: Rcode = Rcode(16);
    pub const BADCOOKIE: Rcode = Rcode(23);
}

/// Mnemonics by number; gaps are unassigned.
const RCODES: [&str; 24] = [
    "NOERROR",
    "FORMERR",
    "SERVFAIL",
    "NXDOMAIN",
    "NOTIMP",
    "REFUSED",
    "YXDOMAIN",
    "YXRRSET",
    "NXRRSET",
    "NOTAUTH",
    "NOTZONE",
    "DSOTYPENI",
    "",
    "",
    "",
    "",
    "BADVERS",
    "BADKEY",
    "BADTIME",
    "BADMODE",
    "BADNAME",
    "BADALG",
    "BADTRUNC",
    "BADCOOKIE",
];

impl fmt::Display for Rcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RCODES.get(self.0 as usize) {
            Some(&name) if !name.is_empty() => f.pad(name),
            _ => write!(f, "RCODE{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_keeps_id_opcode_and_rd_only() {
        let query = Header([0xab, 0xcd, 0x7f, 0xff, 0, 1, 0, 2, 0, 3, 0, 4]);
        let reply = query.reply();
        assert_eq!(reply.id(), 0xabcd);
        assert_eq!(reply.opcode(), query.opcode());
        assert!(reply.is_response() && reply.recursion_desired() && !reply.checking_disabled());
        assert!(!reply.authoritative() && !reply.truncated() && !reply.authentic_data());
        assert!(!reply.recursion_available());
        assert_eq!((reply.rcode(), reply.counts()), (Rcode::NOERROR, [0; 4]));
    }

    #[test]
    fn each_flag_has_its_own_bit() {
        let mut header = Header::query(7);
        header.set_authoritative(true);
        header.set_rcode(Rcode::NXDOMAIN);
        header.set_truncated(true);
        header.set_truncated(false);
        assert_eq!(header.as_bytes(), &[0, 7, 4, 3, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Rcode::BADVERS.to_string(), "BADVERS");
        assert_eq!(Rcode(13).to_string(), "RCODE13");
    }
}
