//! `soa_edit_api`: how the API raises the serial number of a zone with a change.

use wire::rdata::view::Soa;
use wire::{Serial, UnixTime};

use super::fault::Refused;

/// A value of `soa_edit_api`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SoaEditApi {
    /// The date and two digits, from YYYYMMDD01 on.
    Default,
    /// One more.
    Increase,
    /// Seconds since 1970.
    Epoch,
    /// As the zone's `serial-policy` says.
    Policy,
}

impl SoaEditApi {
    /// Reads a value.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn read(word: &str) -> Result<SoaEditApi, Refused> {
        match word.to_ascii_uppercase().as_str() {
            "DEFAULT" | "INCEPTION-INCREMENT" | "SOA-EDIT" => Ok(SoaEditApi::Default),
            "INCREASE" | "SOA-EDIT-INCREASE" => Ok(SoaEditApi::Increase),
            "EPOCH" => Ok(SoaEditApi::Epoch),
            "" | "OFF" => Ok(SoaEditApi::Policy),
            _ => Err(Refused::unfit(format!(
                "'soa_edit_api' is none of DEFAULT, INCREASE, EPOCH, SOA-EDIT and OFF: '{word}'"
            ))),
        }
    }

    /// Returns the serial number after one; `None` leaves the choice to the zone's `serial-policy`.
    pub(super) fn next(self, serial: Serial, now: UnixTime) -> Option<Serial> {
        let more = serial.0.wrapping_add(1);
        let greater = |wanted: u32| if wanted > serial.0 { wanted } else { more };
        Some(Serial(match self {
            SoaEditApi::Default => greater(date(now).saturating_mul(100).saturating_add(1)),
            SoaEditApi::Increase => more,
            SoaEditApi::Epoch => greater(u32::try_from(now.as_secs()).unwrap_or(0)),
            SoaEditApi::Policy => return None,
        }))
    }

    /// Sets the serial number of an SOA record to the next one.
    pub(super) fn apply(self, rdata: &mut [u8], now: UnixTime) {
        let Ok(serial) = Soa::read(rdata).map(|soa| soa.numbers.serial) else { return };
        let Some(next) = self.next(serial, now) else { return };
        // The serial number is the first of five numbers of four bytes at the end.
        let at = rdata.len().saturating_sub(20);
        if let Some(place) = rdata.get_mut(at..at + 4) {
            place.copy_from_slice(&next.0.to_be_bytes());
        }
    }
}

/// Returns the UTC date as the number YYYYMMDD.
fn date(now: UnixTime) -> u32 {
    let mut text = String::new();
    // Writing to a `String` cannot fail. The text is YYYYMMDDHHmmSS.
    let _ = wire::text::write_time(u32::try_from(now.as_secs()).unwrap_or(0), &mut text);
    text.get(..8).and_then(|date| date.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2023-11-14.
    const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

    #[test]
    fn serial_numbers_rise_as_powerdns_raises_them() {
        for (word, before, after) in [
            ("DEFAULT", 5, 2_023_111_401),
            ("DEFAULT", 2_023_111_401, 2_023_111_402),
            ("DEFAULT", 2_030_010_101, 2_030_010_102),
            ("INCREASE", 5, 6),
            ("INCREASE", u32::MAX, 0),
            ("EPOCH", 5, 1_700_000_000),
            ("EPOCH", 1_800_000_000, 1_800_000_001),
        ] {
            let next = SoaEditApi::read(word).expect("a value").next(Serial(before), NOW);
            assert_eq!(next, Some(Serial(after)), "{word} {before}");
        }
        assert_eq!(SoaEditApi::read("").expect("a value").next(Serial(5), NOW), None);
        assert!(SoaEditApi::read("NOPE").is_err());
    }

    #[test]
    fn the_serial_number_of_an_soa_record_is_replaced() {
        let owner: wire::NameBuf = "example.".parse().expect("a name");
        let mut rdata =
            super::super::content::read(owner.as_name(), wire::Type::SOA, "a. b. 5 1 2 3 4").expect("RDATA");
        SoaEditApi::Increase.apply(&mut rdata, NOW);
        assert_eq!(super::super::content::shown(wire::Type::SOA, &rdata), "a. b. 6 1 2 3 4");
    }
}
