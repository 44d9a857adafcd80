//! Trust points as text, to be stored between two runs: lines of words, times in seconds since 1970, RDATA in
//! hexadecimal.
//!
//! ```text
//! zone . seen 1767225600 next 1767268800 retry 17280
//! anchor 4F660802E06D…
//! key valid 1767225600 - 0101030803010001ACFFB4…
//! key pending 1767225600 1769817600 0101030803010001AF7A…
//! ```

use std::fmt;
use std::time::Duration;

use wire::rdata::view::{Dnskey, Ds};
use wire::text::{self, Hex, write_hex};
use wire::{Name, NameBuf, UnixTime};

use super::{AnchorKey, AnchorState, TrustPoint, TrustPoints};

/// The number of the malformed line, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustTextFault(pub usize);

impl fmt::Display for TrustTextFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} cannot be read", self.0)
    }
}
impl std::error::Error for TrustTextFault {}

/// The word for an absent time.
const NONE: &str = "-";

impl fmt::Display for TrustPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Option<UnixTime>| time.map_or_else(|| NONE.to_owned(), |time| time.to_string());
        for (zone, TrustPoint { configured, keys, seen, next, retry }) in &self.zones {
            write!(f, "zone ")?;
            text::write_name(zone.as_name(), f)?;
            writeln!(f, " seen {} next {next} retry {}", time(*seen), retry.as_secs())?;
            for ds in configured {
                write!(f, "anchor ")?;
                write_hex(ds, f)?;
                writeln!(f)?;
            }
            for AnchorKey { rdata, state, since } in keys {
                let other = match state {
                    AnchorState::Pending { until } => Some(*until),
                    AnchorState::Revoked { absent } => *absent,
                    AnchorState::Valid | AnchorState::Missing | AnchorState::Removed => None,
                };
                write!(f, "key {} {since} {} ", state.word(), time(other))?;
                write_hex(rdata, f)?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for TrustPoints {
    type Err = TrustTextFault;

    fn from_str(text: &str) -> Result<Self, TrustTextFault> {
        let mut points = TrustPoints::default();
        let mut zone: Option<(NameBuf, TrustPoint)> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let mut words = line.split(' ');
            let read = match words.next() {
                Some("zone") => read_zone(words).map(|next| {
                    let done = zone.replace(next);
                    points.zones.extend(done);
                }),
                Some("anchor") => zone.as_mut().and_then(|(_, point)| read_anchor(words, point)),
                Some("key") => zone.as_mut().and_then(|(_, point)| read_key(words, point)),
                _ => None,
            };
            read.ok_or(TrustTextFault(number))?;
        }
        points.zones.extend(zone);
        Ok(points)
    }
}

/// Parses a time.
fn time(word: &str) -> Option<UnixTime> {
    word.parse().ok().map(UnixTime::from_secs)
}

/// Parses a time or [`NONE`].
fn time_or_none(word: &str) -> Option<Option<UnixTime>> {
    if word == NONE { Some(None) } else { time(word).map(Some) }
}

fn bytes(word: &str) -> Option<Vec<u8>> {
    let (mut hex, mut out) = (Hex::default(), Vec::new());
    hex.feed(word.as_bytes(), &mut out).ok()?;
    hex.finish().ok().map(|()| out)
}

fn read_zone<'a>(words: impl Iterator<Item = &'a str>) -> Option<(NameBuf, TrustPoint)> {
    let words: Vec<&str> = words.collect();
    let [name, "seen", seen, "next", next, "retry", retry] = words[..] else { return None };
    let name = NameBuf::from_text(name.as_bytes(), Some(Name::ROOT)).ok()?;
    let (seen, next, retry) = (time_or_none(seen)?, time(next)?, Duration::from_secs(retry.parse().ok()?));
    Some((name, TrustPoint { seen, next, retry, ..TrustPoint::default() }))
}

fn read_anchor<'a>(words: impl Iterator<Item = &'a str>, point: &mut TrustPoint) -> Option<()> {
    let words: Vec<&str> = words.collect();
    let [data] = words[..] else { return None };
    let ds = bytes(data)?;
    Ds::read(&ds).ok()?;
    point.configured.insert(ds).then_some(())
}

fn read_key<'a>(words: impl Iterator<Item = &'a str>, point: &mut TrustPoint) -> Option<()> {
    let words: Vec<&str> = words.collect();
    let [state, since, other, data] = words[..] else { return None };
    let state = match (state, time_or_none(other)?) {
        ("pending", Some(until)) => AnchorState::Pending { until },
        ("valid", None) => AnchorState::Valid,
        ("missing", None) => AnchorState::Missing,
        ("revoked", absent) => AnchorState::Revoked { absent },
        ("removed", None) => AnchorState::Removed,
        _ => return None,
    };
    let (rdata, since) = (bytes(data)?, time(since)?);
    let is_key = Dnskey::read(&rdata).is_ok_and(|key| key.is_zone_key());
    let is_new = point.keys.iter().all(|key| key.rdata != rdata);
    point.keys.push(AnchorKey { rdata, state, since });
    (is_key && is_new).then_some(())
}
