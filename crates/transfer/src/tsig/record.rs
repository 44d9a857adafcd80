//! The TSIG record on the wire (RFC 8945 §4.2).

use wire::message::{Full, HEADER_LEN, Header, Malformed, Offset, Parser, RECORD_HEAD};
use wire::{Class, LowerNameBuf, Name, Type, UnixTime};

use super::TsigRcode;

/// Bytes of the RDATA after the algorithm's name, without MAC and other data: time signed, fudge, MAC size,
/// original ID, error, other length.
const FIXED_DATA: usize = 6 + 2 + 2 + 2 + 2 + 2;
/// Time signed has 48 bits.
const TIME_MASK: u64 = (1 << 48) - 1;

/// A TSIG record in a received message.
pub(super) struct TsigRecord<'m> {
    /// The key's name.
    pub(super) owner: LowerNameBuf,
    pub(super) algorithm: LowerNameBuf,
    pub(super) time: UnixTime,
    /// Seconds.
    pub(super) fudge: u16,
    pub(super) mac: &'m [u8],
    pub(super) original_id: u16,
    pub(super) error: TsigRcode,
    pub(super) other: &'m [u8],
}

impl<'m> TsigRecord<'m> {
    /// Parses the record that starts at `at` and must end the message.
    pub(super) fn read(message: &'m [u8], at: Offset) -> Result<Self, Malformed> {
        let (header, mut parser) = Parser::new(message)?;
        let owner = parser.name_at(at)?;
        parser.seek(at);
        let record = parser.record()?;
        // RFC 8945 §4.2: the class must be ANY and the TTL 0.
        let form = (record.rtype, record.class, record.ttl_field);
        let counted = header.counts()[3] > 0;
        if form != (Type::TSIG, Class::ANY, [0; 4]) || !parser.at_end() || !counted || at < Offset::QNAME {
            return Err(Malformed);
        }
        let mut rest = Data(message.get(record.rdata).ok_or(Malformed)?);
        let algorithm = Name::parse(rest.0).map_err(|_| Malformed)?;
        rest.take(algorithm.len())?;
        let time = (rest.u16()? as u64) << 32 | (rest.u16()? as u64) << 16 | rest.u16()? as u64;
        let time = UnixTime::from_secs(time);
        let fudge = rest.u16()?;
        let mac_len = rest.u16()? as usize;
        let mac = rest.take(mac_len)?;
        let (original_id, error) = (rest.u16()?, TsigRcode(rest.u16()?));
        let other_len = rest.u16()? as usize;
        let other = rest.take(other_len)?;
        if !rest.0.is_empty() {
            return Err(Malformed);
        }
        let (owner, algorithm) = (owner.as_name().to_lower(), algorithm.to_lower());
        Ok(TsigRecord { owner, algorithm, time, fudge, mac, original_id, error, other })
    }
}

/// RDATA not parsed yet.
struct Data<'m>(&'m [u8]);

impl<'m> Data<'m> {
    fn take(&mut self, len: usize) -> Result<&'m [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*bytes))
    }
}

/// A TSIG record to write.
#[derive(Clone, Copy)]
pub(super) struct NewTsig<'a> {
    /// The key's name.
    pub(super) owner: Name<'a>,
    pub(super) algorithm: Name<'a>,
    pub(super) time: UnixTime,
    /// Seconds.
    pub(super) fudge: u16,
    pub(super) mac: &'a [u8],
    pub(super) original_id: u16,
    pub(super) error: TsigRcode,
    pub(super) other: &'a [u8],
}

/// Bytes of a TSIG record with names, MAC and other data of these lengths.
pub(super) fn record_len(owner: usize, algorithm: usize, mac: usize, other: usize) -> usize {
    owner + RECORD_HEAD + algorithm + FIXED_DATA + mac + other
}

/// The 48 bits of a time, in wire form.
pub(super) fn time_bytes(time: UnixTime) -> [u8; 6] {
    let [_, _, bytes @ ..] = (time.as_secs() & TIME_MASK).to_be_bytes();
    bytes
}

impl NewTsig<'_> {
    /// Appends the record to the message of `len` bytes at the start of `buf`, adds it to the count, and
    /// returns the new length.
    pub(super) fn append(&self, buf: &mut [u8], len: usize) -> Result<usize, Full> {
        let data = self.algorithm.len() + FIXED_DATA + self.mac.len() + self.other.len();
        let data_len = u16::try_from(data).map_err(|_| Full)?;
        let mut header = buf.get(..len).and_then(Header::of).ok_or(Full)?;
        let mut counts = header.counts();
        counts[3] = counts[3].checked_add(1).ok_or(Full)?;
        let end = len + self.owner.len() + RECORD_HEAD + data;
        let mut rest = buf.get_mut(len..end).ok_or(Full)?;
        let mut put = |bytes: &[u8]| {
            let (to, later) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            to.copy_from_slice(bytes);
            rest = later;
        };
        put(self.owner.as_wire());
        put(&Type::TSIG.0.to_be_bytes());
        put(&Class::ANY.0.to_be_bytes());
        put(&[0; 4]); // TTL
        put(&data_len.to_be_bytes());
        put(self.algorithm.as_wire());
        put(&time_bytes(self.time));
        put(&self.fudge.to_be_bytes());
        put(&(self.mac.len() as u16).to_be_bytes());
        put(self.mac);
        put(&self.original_id.to_be_bytes());
        put(&self.error.0.to_be_bytes());
        put(&(self.other.len() as u16).to_be_bytes());
        put(self.other);
        header.set_counts(counts);
        buf[..HEADER_LEN].copy_from_slice(header.as_bytes());
        Ok(end)
    }
}
