//! Names in messages processed label by label, the simple way: the comparison for `wire` in the benchmark
//! `names`, and the reference for its results. The writer keeps the offset of every suffix in a map.

use std::collections::HashMap;

use wire::Name;

/// Returns the name at `at` of `message`, read label by label; each pointer must point further to the front.
/// `None` if there is no name.
pub fn read(message: &[u8], mut at: usize) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(255);
    let mut from = at;
    loop {
        let &length = message.get(at)?;
        match length {
            0 => {
                name.push(0);
                return Some(name).filter(|name| name.len() <= 255);
            }
            1..=63 => {
                let label = message.get(at + 1..at + 1 + usize::from(length))?;
                name.push(length);
                name.extend_from_slice(label);
                at += 1 + label.len();
            }
            0xc0.. => {
                let target = usize::from(length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                if target >= from {
                    return None;
                }
                (at, from) = (target, target);
            }
            _ => return None,
        }
    }
}

/// The suffixes in a message, with their offsets.
#[derive(Default)]
pub struct Suffixes {
    places: HashMap<Vec<u8>, u16>,
}

impl Suffixes {
    /// Removes all suffixes.
    pub fn clear(&mut self) {
        self.places.clear();
    }

    /// Appends a name to `message`: the labels before the longest known suffix, and a pointer to it.
    pub fn write(&mut self, message: &mut Vec<u8>, name: Name<'_>) {
        let mut rest = name.as_wire();
        while rest.len() > 1 {
            if let Some(place) = self.places.get(rest) {
                message.extend_from_slice(&(0xc000 | place).to_be_bytes());
                return;
            }
            if message.len() < 0x4000 {
                self.places.insert(rest.to_vec(), message.len() as u16);
            }
            let (label, behind) = rest.split_at(1 + usize::from(rest[0]));
            message.extend_from_slice(label);
            rest = behind;
        }
        message.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages;
    use wire::message::{Builder, Compressor, HEADER_LEN, Header, Offset, Parser};

    #[test]
    fn wire_writes_the_same_bytes_and_reads_the_same_names() {
        for names in [messages::hosts(5), messages::hosts(300), messages::zone_names(1500)] {
            let (mut compressor, mut buf) = (Compressor::large(), vec![0; 65_535]);
            let mut builder = Builder::new(&mut buf, 65_535, Header::query(1), &mut compressor);
            let places: Vec<Offset> =
                names.iter().map(|name| builder.name(name.as_name()).expect("room")).collect();
            let written = builder.message();
            let (mut plain, mut suffixes) = (written[..HEADER_LEN].to_vec(), Suffixes::default());
            names.iter().for_each(|name| suffixes.write(&mut plain, name.as_name()));
            assert_eq!(plain, written);
            let (_, mut parser) = Parser::new(&written).expect("a header");
            for (name, at) in names.iter().zip(places) {
                let read_by_label = read(&written, at.index());
                assert_eq!(read_by_label.as_deref(), Some(name.as_name().as_wire()));
                assert_eq!(parser.name_at(at).as_ref(), Ok(name));
            }
        }
    }

    #[test]
    fn what_is_no_name_is_not_read() {
        let long = [[63; 64]; 4].concat();
        let faults: [&[u8]; 6] = [b"", b"\x03ab", b"\x01a", b"\xc0\x00", b"\x40\x00", &long];
        for message in faults {
            assert_eq!(read(message, 0), None, "{message:?}");
        }
        assert_eq!(read(b"\x01a\x00\x01b\xc0\x00", 3), Some(b"\x01b\x01a\x00".to_vec()));
    }
}
