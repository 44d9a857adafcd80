//! [`KeySigningRequest`]: the DNSKEY records of the ZSKs, for each slot of time.

use wire::{Name, Ttl, Type, UnixTime};

use super::lines::{
    ExchangeFault, ExchangeFaultKind, ExchangeLine, read_lines, read_time, write_end, write_header,
    write_record,
};

const WORD: &str = "KeySigningRequest";
/// Comes before the end of the last slot, in the last line.
const UNTIL: &str = ", until ";

/// The DNSKEY records of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSlot {
    /// When it begins. It ends when the next one begins.
    pub inception: UnixTime,
    /// TTL of the DNSKEY RRset; `None`: the text has none.
    pub ttl: Option<Ttl>,
    /// RDATA of the records.
    pub dnskeys: Vec<Vec<u8>>,
}

/// A key signing request (KSR).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySigningRequest {
    /// The slots, by time; at least one.
    pub slots: Vec<RequestSlot>,
    /// The end of the last slot. Requests of other programs do not have it.
    pub until: Option<UnixTime>,
}

impl KeySigningRequest {
    /// Parses the text of a request for a zone.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(text: &str, zone: Name<'_>) -> Result<KeySigningRequest, ExchangeFault> {
        let mut request = KeySigningRequest::default();
        let mut last = 1;
        for line in read_lines(text, zone, WORD, &[Type::DNSKEY]) {
            let (line, read) = line?;
            let at = |kind| ExchangeFault { line, kind };
            last = line;
            match read {
                ExchangeLine::Slot(inception) => {
                    check_last(&request.slots, Some(inception)).map_err(at)?;
                    request.slots.push(RequestSlot { inception, ttl: None, dnskeys: Vec::new() });
                }
                ExchangeLine::End(words) => {
                    let until = words.rsplit_once(UNTIL).and_then(|(_, until)| read_time(until));
                    request.until = request.until.or(until);
                }
                ExchangeLine::Record(_, ttl, rdata) => {
                    let slot = request.slots.last_mut();
                    let slot = slot.ok_or_else(|| at(ExchangeFaultKind::NoHeader(WORD)))?;
                    // The smaller one, as BIND takes.
                    slot.ttl = [slot.ttl, ttl].into_iter().flatten().min();
                    if !slot.dnskeys.contains(&rdata) {
                        slot.dnskeys.push(rdata);
                    }
                }
            }
        }
        check_last(&request.slots, None).map_err(|kind| ExchangeFault { line: last, kind })?;
        match request.slots.is_empty() {
            true => Err(ExchangeFault { line: last, kind: ExchangeFaultKind::NoSlots }),
            false => Ok(request),
        }
    }

    /// Returns the text of the request, made at `now`.
    pub fn write(&self, zone: Name<'_>, now: UnixTime) -> String {
        let mut out = String::new();
        for slot in &self.slots {
            write_header(&mut out, WORD, slot.inception);
            for rdata in &slot.dnskeys {
                write_record(&mut out, zone, Type::DNSKEY, slot.ttl.unwrap_or(Ttl::ZERO), rdata);
            }
        }
        let mut more = String::new();
        if let Some(until) = self.until {
            more.push_str(UNTIL);
            // Writing to a String cannot fail.
            let _ = wire::text::write_time(until.to_serial().0, &mut more);
        }
        write_end(&mut out, WORD, now, &more);
        out
    }
}

/// Checks the last slot, and that the next one begins after it.
fn check_last(slots: &[RequestSlot], next: Option<UnixTime>) -> Result<(), ExchangeFaultKind> {
    match slots.last() {
        Some(last) if last.dnskeys.is_empty() => Err(ExchangeFaultKind::NoKeys),
        Some(last) if next.is_some_and(|next| next <= last.inception) => Err(ExchangeFaultKind::Order),
        _ => Ok(()),
    }
}
