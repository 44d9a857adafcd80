//! Signed queries. There are no keys here yet, so every signature is by a key nobody knows: NOTAUTH, with a
//! TSIG with the error BADKEY and no signature (RFC 8945 §5.2.1, §5.3.2).

use wire::message::{Builder, Full, Malformed, Offset, Owner, Parser, Section};
use wire::{Class, Ttl, Type};

/// The TSIG error BADKEY (RFC 8945 §3).
const BADKEY: u16 = 17;
/// Bytes of TSIG data between the algorithm's name and the MAC: time signed and fudge.
const TIME_AND_FUDGE: usize = 8;

/// Adds the TSIG that refuses the one whose owner stands at `at` of `packet`. One that cannot be read, or that
/// finds no room, is left out: the response code says enough.
#[cold]
pub(crate) fn refuse(b: &mut Builder<'_>, packet: &[u8], at: Offset) {
    let _ = try_refuse(b, packet, at);
}

fn try_refuse(b: &mut Builder<'_>, packet: &[u8], at: Offset) -> Result<(), RefuseError> {
    let (header, mut parser) = Parser::new(packet)?;
    let owner = parser.name_at(at)?;
    parser.seek(at);
    let record = parser.record()?;
    let algorithm = parser.name_at(record.rdata_at())?;
    parser.seek(record.rdata_at());
    parser.skip_name()?;
    let times_at = parser.position().index();
    let times = packet.get(times_at..times_at + TIME_AND_FUDGE).ok_or(Malformed)?;
    let mut rdata = algorithm.as_name().as_wire().to_vec();
    rdata.extend_from_slice(times);
    rdata.extend_from_slice(&[0, 0]); // no MAC
    rdata.extend_from_slice(&header.id().to_be_bytes());
    rdata.extend_from_slice(&BADKEY.to_be_bytes());
    rdata.extend_from_slice(&[0, 0]); // no other data
    b.record(Section::Additional, Owner::Name(owner.as_name()), Type::TSIG, Class::ANY, Ttl::ZERO, &rdata)?;
    Ok(())
}

/// Why there is no TSIG in the refusal.
enum RefuseError {
    Unreadable,
    NoRoom,
}

impl From<Malformed> for RefuseError {
    fn from(_: Malformed) -> Self {
        Self::Unreadable
    }
}

impl From<Full> for RefuseError {
    fn from(_: Full) -> Self {
        Self::NoRoom
    }
}
