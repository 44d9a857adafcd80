//! A query as a message.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use wire::edns::{OptWriter, OptionCode};
use wire::message::{Builder, Compressor, Full, Header, Owner, Section};
use wire::name::{Name, NameBuf};
use wire::{Class, Opcode, Serial, Ttl, Type};

/// Room for any query, in bytes.
const QUERY_ROOM: usize = 2048;

/// What a query holds.
#[derive(Debug, Clone, PartialEq)]
pub struct QuerySpec {
    /// The name.
    pub name: NameBuf,
    /// The type.
    pub qtype: Type,
    /// The class.
    pub qclass: Class,
    /// The message ID; a random one without it.
    pub id: Option<u16>,
    /// The opcode.
    pub opcode: Opcode,
    /// Leave the question out.
    pub header_only: bool,
    /// Header flags that a query does not have by itself.
    pub flags: ExtraFlags,
    /// The version that the client has, for IXFR (RFC 1995 §3).
    pub has_version: Option<Serial>,
    /// RD.
    pub recursion_desired: bool,
    /// AD.
    pub authentic_data: bool,
    /// CD.
    pub checking_disabled: bool,
    /// EDNS version; none leaves OPT out, with everything below.
    pub edns: Option<u8>,
    /// DO.
    pub dnssec_ok: bool,
    /// UDP size announced, in bytes.
    pub udp_size: u16,
    /// Ask for the server's identifier (RFC 5001).
    pub nsid: bool,
    /// Ask for the idle timeout (RFC 7828), which is for TCP only.
    pub keepalive: bool,
    /// Send a client cookie (RFC 7873).
    pub cookie: bool,
    /// The cookie to send; a random client cookie without it.
    pub cookie_bytes: Option<Vec<u8>>,
    /// EDNS flags beside DO.
    pub edns_flags: u16,
    /// Further EDNS options: code and data.
    pub options: Vec<(OptionCode, Vec<u8>)>,
    /// Ask how long the zone may still be served (RFC 7314).
    pub expire: bool,
    /// Ask for the version of the zone (RFC 9660).
    pub zone_version: bool,
    /// Pad the query to a multiple of this many bytes (RFC 7830).
    pub padding: Option<u16>,
    /// Client subnet (RFC 7871): an address and the length of its prefix in bits.
    pub subnet: Option<(IpAddr, u8)>,
}

/// Header flags that servers set, or that are reserved; a query with them is for tests of servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtraFlags {
    /// AA.
    pub authoritative: bool,
    /// TC.
    pub truncated: bool,
    /// RA.
    pub recursion_available: bool,
    /// Z, which is reserved (RFC 6895 §2.1).
    pub reserved: bool,
}

/// The root's A records, asked for as dig does.
impl Default for QuerySpec {
    fn default() -> Self {
        Self {
            name: Name::ROOT.to_buf(),
            qtype: Type::A,
            qclass: Class::IN,
            id: None,
            opcode: Opcode::QUERY,
            header_only: false,
            flags: ExtraFlags::default(),
            has_version: None,
            recursion_desired: true,
            authentic_data: false,
            checking_disabled: false,
            edns: Some(0),
            dnssec_ok: false,
            udp_size: 1232,
            nsid: false,
            keepalive: false,
            cookie: false,
            cookie_bytes: None,
            edns_flags: 0,
            options: Vec::new(),
            expire: false,
            zone_version: false,
            padding: None,
            subnet: None,
        }
    }
}

/// A query that does not fit into a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryTooLong;

impl fmt::Display for QueryTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the query does not fit into a message")
    }
}

impl QuerySpec {
    /// The message, with an ID of its own.
    pub fn message(&self) -> Result<Vec<u8>, QueryTooLong> {
        let mut buf = vec![0; QUERY_ROOM];
        let mut names = Compressor::small();
        let random = || RandomState::new().hash_one(std::process::id()) as u16;
        let mut header = Header::query(self.id.unwrap_or_else(random));
        header.set_authoritative(self.flags.authoritative);
        header.set_truncated(self.flags.truncated);
        header.set_recursion_available(self.flags.recursion_available);
        header.set_recursion_desired(self.recursion_desired);
        header.set_authentic_data(self.authentic_data);
        header.set_checking_disabled(self.checking_disabled);
        let mut b = Builder::new(&mut buf, QUERY_ROOM, header, &mut names);
        let question = match self.header_only {
            true => Ok(()),
            false => b.question(self.name.as_name(), self.qtype, self.qclass),
        };
        question
            .and_then(|()| write_version(&mut b, self))
            .and_then(|()| write_opt(&mut b, self))
            .map_err(|Full| QueryTooLong)?;
        let len = b.finish();
        buf.truncate(len);
        // Opcode and Z (RFC 1035 §4.1.1).
        buf[2] |= (self.opcode.0 & 0xf) << 3;
        buf[3] |= if self.flags.reserved { 0x40 } else { 0 };
        Ok(buf)
    }
}

/// The SOA that IXFR has in the authority section; only its serial counts (RFC 1995 §3).
fn write_version(b: &mut Builder<'_>, spec: &QuerySpec) -> Result<(), Full> {
    let Some(Serial(serial)) = spec.has_version else { return Ok(()) };
    let mut rdata = [0; 22]; // two root names and five numbers
    rdata[2..6].copy_from_slice(&serial.to_be_bytes());
    let owner = Owner::Name(spec.name.as_name());
    b.record(Section::Authority, owner, Type::SOA, spec.qclass, Ttl::ZERO, &rdata).map(drop)
}

fn write_opt(b: &mut Builder<'_>, spec: &QuerySpec) -> Result<(), Full> {
    let Some(version) = spec.edns else { return Ok(()) };
    let start = b.len();
    let mut opt = OptWriter::begin(b, spec.udp_size, 0, spec.dnssec_ok)?;
    // The version is the second byte of what is the TTL in other records.
    b.written_mut()[start + 6] = version;
    for (byte, bits) in b.written_mut()[start + 7..].iter_mut().zip(spec.edns_flags.to_be_bytes()) {
        *byte |= bits;
    }
    if spec.nsid {
        opt.option(b, OptionCode::NSID, &[])?;
    }
    if spec.cookie {
        let cookie = RandomState::new().hash_one(std::process::id()).to_be_bytes();
        opt.option(b, OptionCode::COOKIE, &[spec.cookie_bytes.as_deref().unwrap_or(&cookie)])?;
    }
    if spec.keepalive {
        opt.option(b, OptionCode::KEEPALIVE, &[])?;
    }
    if spec.expire {
        opt.option(b, OptionCode::EXPIRE, &[])?;
    }
    if spec.zone_version {
        opt.option(b, OptionCode::ZONEVERSION, &[])?;
    }
    if let Some((ip, length)) = spec.subnet {
        write_subnet(b, &mut opt, ip, length)?;
    }
    for (code, data) in &spec.options {
        opt.option(b, *code, &[data])?;
    }
    if let Some(block) = spec.padding {
        let used = b.len() + 4;
        let block = usize::from(block);
        let padding = used.next_multiple_of(block) - used;
        opt.option(b, OptionCode::PADDING, &[&vec![0; padding]])?;
    }
    Ok(())
}

/// Client subnet: only the bytes that the length covers, spare bits zero (RFC 7871 §6).
fn write_subnet(b: &mut Builder<'_>, opt: &mut OptWriter, ip: IpAddr, length: u8) -> Result<(), Full> {
    let (family, mut address) = match ip {
        IpAddr::V4(ip) => (1u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (2, ip.octets().to_vec()),
    };
    address.truncate(usize::from(length).div_ceil(8));
    if let (Some(last), 1..) = (address.last_mut(), length % 8) {
        *last &= 0xff << (8 - length % 8);
    }
    opt.option(b, OptionCode::SUBNET, &[&[0, family, length, 0], &address])
}
