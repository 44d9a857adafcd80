//! Builds query messages.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use wire::edns::{OptWriter, OptionCode};
use wire::message::{Builder, Compressor, Full, Header, Owner, Section};
use wire::name::{Name, NameBuf};
use wire::{Class, Opcode, Prefix, Serial, Ttl, Type};

/// Size of the buffer for any query, in bytes.
const QUERY_ROOM: usize = 2048;

/// The contents of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QuerySpec {
    /// The name.
    pub name: NameBuf,
    /// The type.
    pub qtype: Type,
    /// The class.
    pub qclass: Class,
    /// The message ID; random if absent.
    pub id: Option<u16>,
    /// The opcode.
    pub opcode: Opcode,
    /// Omit the question.
    pub header_only: bool,
    /// Header flags that queries normally do not have.
    pub flags: ExtraFlags,
    /// The client's current serial, for IXFR (RFC 1995 §3).
    pub has_version: Option<Serial>,
    /// RD.
    pub recursion_desired: bool,
    /// AD.
    pub authentic_data: bool,
    /// CD.
    pub checking_disabled: bool,
    /// EDNS version; `None` omits OPT, and with it everything below.
    pub edns: Option<u8>,
    /// DO.
    pub dnssec_ok: bool,
    /// Advertised UDP size, in bytes.
    pub udp_size: u16,
    /// Request the server's identifier (RFC 5001).
    pub nsid: bool,
    /// Request the idle timeout (RFC 7828); for TCP only.
    pub keepalive: bool,
    /// Send a client cookie (RFC 7873).
    pub cookie: bool,
    /// The cookie to send; a random client cookie if absent.
    pub cookie_bytes: Option<Vec<u8>>,
    /// EDNS flags besides DO.
    pub edns_flags: u16,
    /// Further EDNS options.
    pub options: Vec<EdnsOption>,
    /// Request the zone's remaining expire time (RFC 7314).
    pub expire: bool,
    /// Request the version of the zone (RFC 9660).
    pub zone_version: bool,
    /// Pad the query to a multiple of this many bytes (RFC 7830).
    pub padding: Option<u16>,
    /// Client subnet (RFC 7871).
    pub subnet: Option<Prefix>,
}

/// An EDNS option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdnsOption {
    /// Its code.
    pub code: OptionCode,
    /// Its data.
    pub data: Vec<u8>,
}

/// Header flags that only servers set, or that are reserved; queries with them are for testing servers.
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

/// A query for the root's A records, with dig's defaults.
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
    /// Returns the message, with a random ID unless one is set.
    ///
    /// # Errors
    /// If the query does not fit into a message.
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

/// Writes the SOA record in the authority section of IXFR; only its serial counts (RFC 1995 §3).
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
    // The EDNS version is the second byte of the field that is the TTL in other records.
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
    if let Some(subnet) = spec.subnet {
        write_subnet(b, &mut opt, subnet)?;
    }
    for EdnsOption { code, data } in &spec.options {
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

/// Writes the client subnet: only the bytes that the length covers (RFC 7871 §6).
fn write_subnet(b: &mut Builder<'_>, opt: &mut OptWriter, subnet: Prefix) -> Result<(), Full> {
    let length = subnet.len();
    let (family, mut address) = match subnet.address() {
        IpAddr::V4(ip) => (1u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (2, ip.octets().to_vec()),
    };
    address.truncate(usize::from(length).div_ceil(8));
    opt.option(b, OptionCode::SUBNET, &[&[0, family, length, 0], &address])
}
