//! The `hickory-proto` crate as oracle: it reads the same bytes from our text, and we from its text.

use hickory_proto::rr::{Name, RData, RecordType};
use hickory_proto::serialize::binary::{BinDecoder, BinEncodable, BinEncoder, NameEncoding, Restrict};
use hickory_proto::serialize::txt::Parser;
use wire::Type;

use crate::{agree, arbitrary, known_types, read, written};

/// The types whose text `hickory-proto` reads.
///
/// It says that DNSSEC types "should be dynamically generated"; it does not support the others.
const READ: &[Type] = &[
    Type::A,
    Type::NS,
    Type::CNAME,
    Type::PTR,
    Type::HINFO,
    Type::MX,
    Type::TXT,
    Type::AAAA,
    Type::SRV,
    Type::NAPTR,
    Type::CERT,
    Type::SSHFP,
    Type::TLSA,
    Type::SMIMEA,
    Type::OPENPGPKEY,
    Type::CAA,
];

/// The types that `hickory-proto` writes in zone file form; others are written as base64, and TXT without the
/// boundaries of its strings.
const WRITTEN: &[Type] = &[
    Type::A,
    Type::NS,
    Type::CNAME,
    Type::PTR,
    Type::HINFO,
    Type::MX,
    Type::AAAA,
    Type::SRV,
    Type::NAPTR,
    Type::SSHFP,
    Type::TLSA,
    Type::SMIMEA,
    Type::OPENPGPKEY,
    Type::CAA,
];

fn bytes_of(data: &RData) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    data.emit(&mut encoder).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The bytes that it reads from a line of a zone file.
fn bytes_of_text(t: Type, text: &str) -> Result<Vec<u8>, String> {
    let line = format!("owner.example. 3600 IN {t} {text}\n");
    let (_, sets) = Parser::new(line, None, Some(Name::root())).parse().map_err(|error| error.to_string())?;
    let set = sets.values().next().ok_or("no record")?;
    bytes_of(&set.records_without_rrsigs().next().ok_or("no record")?.data)
}

fn data_of_bytes(t: Type, rdata: &[u8]) -> Result<RData, String> {
    let mut decoder = BinDecoder::new(rdata);
    RData::read(&mut decoder, RecordType::from(t.0), Restrict::new(rdata.len() as u16))
        .map_err(|error| error.to_string())
}

#[test]
fn what_hickory_takes_in_it_sends_unchanged() {
    let types: Vec<Type> = known_types().collect();
    agree(&types, 60, arbitrary::rdata, |t, rdata| match data_of_bytes(t, rdata) {
        Ok(data) => match bytes_of(&data)? {
            bytes if bytes == rdata => Ok(()),
            bytes => Err(format!("they send {bytes:?}, not {rdata:?}")),
        },
        // RFC 3403 §4.1 leaves FLAGS to the application, RFC 7477 §2.1.1.2 rejects unknown flags of CSYNC
        // only when acting on them, RFC 9460 §2.2 has unknown and later keys in wire form.
        Err(_) if matches!(t, Type::NAPTR | Type::CSYNC | Type::SVCB | Type::HTTPS) => Ok(()),
        Err(error) => Err(format!("{rdata:?}: {error}")),
    });
}

// RFC 1035 §2.3.3 requires that letter case is preserved, and §5.1 allows any byte as \DDD: `hickory-proto`
// supports neither, so names and strings are plain ones.

#[test]
fn hickory_reads_our_text() {
    agree(READ, 60, arbitrary::plain_rdata, |t, rdata| {
        let text = written(t, rdata);
        match bytes_of_text(t, &text) {
            Ok(bytes) if bytes == rdata => Ok(()),
            // RFC 4398 §2.2: the type is "an unsigned decimal integer or ... a mnemonic symbol"; it reads
            // only digits.
            Err(_) if t == Type::CERT && text.starts_with(|c: char| !c.is_ascii_digit()) => Ok(()),
            other => Err(format!("{text}: {other:?}, not {rdata:?}")),
        }
    });
}

#[test]
fn we_read_the_text_of_hickory() {
    agree(WRITTEN, 60, arbitrary::plain_rdata, |t, rdata| {
        let text = data_of_bytes(t, rdata)?.to_string();
        match read(t, &text) {
            Ok(bytes) if bytes == rdata => Ok(()),
            other => Err(format!("{text}: {other:?}, not {rdata:?}")),
        }
    });
}
