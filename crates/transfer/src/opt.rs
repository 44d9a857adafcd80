//! OPT (RFC 6891) in responses of primaries: the EXPIRE option (RFC 7314).

use wire::Type;
use wire::edns::{Edns, OptionCode};
use wire::message::{Malformed, RawRecord};

/// The OPT record of a response: at most one (RFC 6891 §6.1.1).
#[derive(Default)]
pub(crate) struct ResponseOpt {
    found: bool,
    /// Value of the EXPIRE option, in seconds, if present (RFC 7314 §3).
    pub(crate) expire: Option<u32>,
}

impl ResponseOpt {
    /// Reads the record if it is OPT; a second OPT is [`Malformed`].
    pub(crate) fn read(&mut self, message: &[u8], record: &RawRecord) -> Result<(), Malformed> {
        if record.rtype != Type::OPT {
            return Ok(());
        }
        if std::mem::replace(&mut self.found, true) {
            return Err(Malformed);
        }
        let data = Edns::parse(message, record)?.option(OptionCode::EXPIRE);
        self.expire = data.and_then(|data| data.try_into().ok()).map(u32::from_be_bytes);
        Ok(())
    }
}
