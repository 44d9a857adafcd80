//! LOC: a location on Earth (RFC 1876).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | VERSION: 0; other versions are undefined |
//! | 1 | SIZE: diameter in cm, mantissa and power of ten, four bits each, both up to 9 |
//! | 1 | HORIZ PRE: horizontal precision, same format |
//! | 1 | VERT PRE: vertical precision, same format |
//! | 4 | LATITUDE: thousandths of a second of arc, 2³¹ at the equator |
//! | 4 | LONGITUDE: thousandths of a second of arc, 2³¹ at the prime meridian |
//! | 4 | ALTITUDE: cm above 100,000 m below the WGS 84 spheroid |
//!
//! Text: `d1 [m1 [s1]] N|S d2 [m2 [s2]] E|W alt[m] [siz[m] [hp[m] [vp[m]]]]`.

use std::fmt;

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text::{decimal, write_decimal};

pub(super) static LAYOUT: Layout =
    Layout::new(Type::LOC, &[Field::new("location", Kind::Special(&Location))]);

/// The value of the equator and the prime meridian.
const MIDDLE: u32 = 1 << 31;
/// Thousandths of a second of arc in a degree.
const DEGREE: u32 = 3_600_000;
/// Centimetres added to altitudes.
const BASE: i64 = 10_000_000;
/// Defaults of size, horizontal and vertical precision in text: 1 m, 10 km, 10 m (RFC 1876 §3).
const DEFAULTS: [u8; 3] = [0x12, 0x16, 0x13];
/// The largest size or precision that mantissa and exponent can express, in cm.
const MAX_SIZE_CM: u64 = 9_000_000_000;

struct Location;

impl Special for Location {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        match rest {
            [0, bytes @ ..] => {
                let fields: &[u8; 15] = bytes.first_chunk().ok_or(Malformed)?;
                let sizes = fields[..3].iter().all(|&size| size >> 4 <= 9 && size & 15 <= 9);
                let Coordinates { latitude, longitude, .. } = coordinates(fields);
                let on_earth =
                    latitude.abs_diff(MIDDLE) <= 90 * DEGREE && longitude.abs_diff(MIDDLE) <= 180 * DEGREE;
                if sizes && on_earth { Ok(16) } else { Err(Malformed) }
            }
            [_, ..] => Ok(rest.len()),
            [] => Err(Malformed),
        }
    }

    /// Checks for version 0, and for sizes as text produces them: a mantissa of 0 has the exponent 0.
    fn has_text(&self, bytes: &[u8]) -> bool {
        bytes[0] == 0 && bytes[1..4].iter().all(|&size| size >> 4 != 0 || size == 0)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let latitude = angle(cursor, 90, [b'N', b'S'])?;
        let longitude = angle(cursor, 180, [b'E', b'W'])?;
        let altitude = altitude(cursor.word()?)?;
        let mut sizes = DEFAULTS;
        for size in &mut sizes {
            if !cursor.at_end() {
                *size = size_from(cursor.word()?)?;
            }
        }
        out.push(0);
        out.extend_from_slice(&sizes);
        for number in [latitude, longitude, altitude] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        let fields: &[u8; 15] = bytes.get(1..).and_then(<[u8]>::first_chunk).ok_or(fmt::Error)?;
        let Coordinates { latitude, longitude, altitude } = coordinates(fields);
        write_angle(latitude, ["N", "S"], to)?;
        to.write_str(" ")?;
        write_angle(longitude, ["E", "W"], to)?;
        let centimetres = altitude as i64 - BASE;
        to.write_str(if centimetres < 0 { " -" } else { " " })?;
        write_metres(centimetres.unsigned_abs(), to)?;
        for &size in &fields[..3] {
            to.write_str(" ")?;
            write_metres((size >> 4) as u64 * 10u64.pow((size & 15) as u32), to)?;
        }
        Ok(())
    }
}

/// A place, in the units of the RDATA (RFC 1876 §2).
struct Coordinates {
    latitude: u32,
    longitude: u32,
    altitude: u32,
}

fn coordinates(fields: &[u8; 15]) -> Coordinates {
    let number = |at: usize| u32::from_be_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
    Coordinates { latitude: number(3), longitude: number(7), altitude: number(11) }
}

/// Parses degrees, optional minutes and seconds, and one of two directions, the first of which is positive.
fn angle(cursor: &mut Cursor<'_, '_>, most: u32, [plus, minus]: [u8; 2]) -> Result<u32, TextFaultKind> {
    let mut angle = cursor.number(most as u64)? as u32 * DEGREE;
    for step in 0..3 {
        let word = cursor.word()?;
        if let [letter] = word
            && letter.is_ascii_alphabetic()
        {
            let out_of_range = angle > most * DEGREE;
            return match letter.to_ascii_uppercase() {
                _ if out_of_range => Err(TextFaultKind::OutOfRange { min: 0, max: most as u64 }),
                found if found == plus => Ok(MIDDLE + angle),
                found if found == minus => Ok(MIDDLE - angle),
                _ => Err(TextFaultKind::BadForm("a direction: N or S, then E or W")),
            };
        }
        angle += match step {
            0 => minutes(word)?,
            1 => seconds(word)?,
            _ => return Err(TextFaultKind::BadForm("a direction: N or S, then E or W")),
        };
    }
    Err(TextFaultKind::Missing)
}

fn minutes(word: &[u8]) -> Result<u32, TextFaultKind> {
    match decimal(word) {
        Some(value @ 0..=59) => Ok(value as u32 * 60_000),
        Some(_) => Err(TextFaultKind::OutOfRange { min: 0, max: 59 }),
        None => Err(TextFaultKind::NotANumber),
    }
}

fn seconds(word: &[u8]) -> Result<u32, TextFaultKind> {
    match fixed_point(word, 3)? {
        value @ 0..=59_999 => Ok(value as u32),
        _ => Err(TextFaultKind::OutOfRange { min: 0, max: 59 }),
    }
}

/// Parses a decimal number with up to `places` digits after the point, as a multiple of the last place.
fn fixed_point(word: &[u8], places: usize) -> Result<u64, TextFaultKind> {
    let (whole, fraction) = match word.iter().position(|&byte| byte == b'.') {
        Some(point) => (&word[..point], &word[point + 1..]),
        None => (word, &b"0"[..]),
    };
    if fraction.len() > places {
        return Err(TextFaultKind::BadForm("a number with so few digits behind the point"));
    }
    // Up to eleven digits before the point keep all products far below overflow.
    let whole = decimal(whole).filter(|&value| value < 100_000_000_000).ok_or(TextFaultKind::NotANumber)?;
    let part = decimal(fraction).ok_or(TextFaultKind::NotANumber)?;
    Ok(whole * 10u64.pow(places as u32) + part * 10u64.pow((places - fraction.len()) as u32))
}

/// Parses metres with an optional `m`, as centimetres.
fn metres(word: &[u8]) -> Result<u64, TextFaultKind> {
    fixed_point(word.strip_suffix(b"m").or(word.strip_suffix(b"M")).unwrap_or(word), 2)
}

fn altitude(word: &[u8]) -> Result<u32, TextFaultKind> {
    let centimetres = match word {
        [b'-', rest @ ..] => -(metres(rest)? as i64),
        [b'+', rest @ ..] | rest => metres(rest)? as i64,
    };
    u32::try_from(centimetres + BASE)
        .map_err(|_| TextFaultKind::BadForm("an altitude of -100000 m to 42849672.95 m"))
}

/// A size or precision as mantissa and exponent; drops digits that the mantissa cannot hold.
fn size_from(word: &[u8]) -> Result<u8, TextFaultKind> {
    let (mut mantissa, mut exponent) = (metres(word)?, 0);
    if mantissa > MAX_SIZE_CM {
        return Err(TextFaultKind::OutOfRange { min: 0, max: MAX_SIZE_CM / 100 });
    }
    while mantissa > 9 {
        (mantissa, exponent) = (mantissa / 10, exponent + 1);
    }
    Ok((mantissa as u8) << 4 | exponent)
}

fn write_angle(value: u32, [plus, minus]: [&str; 2], to: &mut dyn fmt::Write) -> fmt::Result {
    let angle = value.abs_diff(MIDDLE);
    let (degrees, minutes, thousandths) = (angle / DEGREE, angle / 60_000 % 60, angle % 60_000);
    write!(to, "{degrees} {minutes} {}.{:03} ", thousandths / 1000, thousandths % 1000)?;
    to.write_str(if value >= MIDDLE { plus } else { minus })
}

fn write_metres(centimetres: u64, to: &mut dyn fmt::Write) -> fmt::Result {
    write_decimal(centimetres / 100, to)?;
    write!(to, ".{:02}m", centimetres % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, reads, write};

    #[test]
    fn examples_read_and_write() {
        // RFC 1876 §4: cambridge-net.kei.com.
        let cambridge = hex("00 12 16 13 8917 2dd0 70be 15f0 0098 8d20");
        reads(Type::LOC, "42 21 54 N 71 06 18 W -24m 30m", &[&[0, 0x33], &cambridge[2..]].concat());
        both(Type::LOC, "42 21 54.000 N 71 6 18.000 W -24.00m 1.00m 10000.00m 10.00m", &cambridge);
        reads(Type::LOC, "42 21 54 N 71 6 18 W -24", &cambridge);
        reads(Type::LOC, "0 S 180 W -100000", &hex("00 12 16 13 80000000 59604e00 00000000"));
    }

    #[test]
    fn limits_hold() {
        for bad in [
            "91 N 0 E 0",
            "90 0 0.001 N 0 E 0",
            "1 60 N 0 E 0",
            "1 1 60 N 0 E 0",
            "1 E 1 N 0",
            "1 1 1 1 N 0 E 0",
            "1 N 1 E",
            "1 N 1 E -100001",
            "1 N 1 E 42849672.96",
            "1 N 1 E 0 1 1 1 1",
            "1 N 1 E 1.234",
            "1 N 1 E 0 100000000m",
            "1 N 1 E 0 90000000.01m",
            "1 N 1 E 0 99999999m",
            "1 N 1 E 0 1m 90000001m",
            "1 N 1 E x",
            "1 N",
            "",
        ] {
            assert!(parse(Type::LOC, bad).is_err(), "{bad}");
        }
        assert!(parse(Type::LOC, "90 N 180 E 42849672.95m 90000000m 0.00m 0.01m").is_ok());
    }

    #[test]
    fn what_text_cannot_say_is_written_as_bytes() {
        assert_eq!(write(Type::LOC, &[1, 2, 3]), r"\# 3 010203");
        assert!(write(Type::LOC, &hex("00 01 16 13 80000000 80000000 00989680")).starts_with(r"\# 16"));
    }
}
