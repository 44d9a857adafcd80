//! The OPT record and its options.
//!
//! RFC 6891 §6.1.2: "Any OPTION-CODE values not understood by a responder or requestor MUST be ignored": any
//! code and any content can be read, in order, and written options read back unchanged.

use wire::Header;
use wire::edns::{Edns, OptWriter};
use wire::message::{Builder, Compressor, Parser};

pub(crate) fn run(data: &[u8]) {
    let Some((fixed, options)) = data.split_first_chunk::<6>() else { return };
    let Ok(length) = u16::try_from(options.len()) else { return };

    let mut message = Header::query(1).as_bytes().to_vec();
    message.extend([0, 0, 41]);
    message.extend(fixed);
    message.extend(length.to_be_bytes());
    message.extend(options);
    let (_, mut parser) = Parser::new(&message).expect("the header is there");
    let record = parser.record().expect("the record is whole");
    let Ok(edns) = Edns::parse(&message, &record) else {
        assert_ne!(walk(options), options.len(), "options that fill the record exactly are good");
        return;
    };
    assert_eq!(walk(options), options.len());
    assert_eq!(edns.udp_size, u16::from_be_bytes([fixed[0], fixed[1]]));
    assert_eq!((edns.extended_rcode, edns.version), (fixed[2], fixed[3]));
    assert_eq!(edns.dnssec_ok, fixed[4] & 0x80 != 0);

    let mut buffer = vec![0; message.len()];
    let (limit, mut names) = (buffer.len(), Compressor::small());
    let mut builder = Builder::new(&mut buffer, limit, Header::query(1), &mut names);
    let mut opt =
        OptWriter::begin(&mut builder, edns.udp_size, edns.extended_rcode, edns.dnssec_ok).expect("fits");
    for (code, bytes) in edns.options {
        let (front, back) = bytes.split_at(bytes.len() / 2);
        opt.option(&mut builder, code, &[front, back]).expect("fits, as it did before");
    }
    let written = builder.finish();
    assert_eq!(&buffer[written - options.len()..written], options);
}

/// Returns the size of the complete options in bytes.
fn walk(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 4) {
        let next = at + 4 + usize::from(u16::from_be_bytes([head[2], head[3]]));
        if next > bytes.len() {
            break;
        }
        at = next;
    }
    at
}
