//! The `domain` crate as oracle: it reads the same bytes from our text, and we from its text.

use domain::base::rdata::{ComposeRecordData, ParseAnyRecordData};
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::base::{ParsedName, Rtype};
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use wire::Type;
use wire::rdata::embedded_names;

use crate::{agree, arbitrary, read, written};

/// The types whose text form `domain` supports.
const KNOWN: &[Type] = &[
    Type::A,
    Type::NS,
    Type::MD,
    Type::MF,
    Type::CNAME,
    Type::SOA,
    Type::MB,
    Type::MG,
    Type::MR,
    Type::PTR,
    Type::HINFO,
    Type::MINFO,
    Type::MX,
    Type::TXT,
    Type::RP,
    Type::AAAA,
    Type::SRV,
    Type::NAPTR,
    Type::DNAME,
    Type::DS,
    Type::SSHFP,
    Type::IPSECKEY,
    Type::RRSIG,
    Type::NSEC,
    Type::DNSKEY,
    Type::NSEC3,
    Type::NSEC3PARAM,
    Type::TLSA,
    Type::CDS,
    Type::CDNSKEY,
    Type::OPENPGPKEY,
    Type::ZONEMD,
    Type::SVCB,
    Type::HTTPS,
    Type::CAA,
];

/// The bytes that `domain` reads from a line of a zone file.
fn bytes_of_text(t: Type, text: &str) -> Result<Vec<u8>, String> {
    let line = format!("owner.example. 3600 IN {t} {text}\n");
    let entry =
        Zonefile::from(line.as_str()).allow_invalid().next_entry().map_err(|error| error.to_string())?;
    let Some(Entry::Record(record)) = entry else { return Err("no record".into()) };
    let mut bytes = Vec::new();
    record.data().compose_rdata(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The text that `domain` writes for bytes, and the bytes it would send.
fn text_of_bytes(t: Type, rdata: &[u8]) -> Result<(String, Vec<u8>), String> {
    let mut parser = Parser::from_ref(rdata);
    let data = AllRecordData::<_, ParsedName<_>>::parse_any_rdata(Rtype::from_int(t.0), &mut parser)
        .map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    data.compose_rdata(&mut bytes).map_err(|error| error.to_string())?;
    Ok((data.display_zonefile(DisplayKind::Simple).to_string(), bytes))
}

/// Text that `domain` rejects although it is valid.
fn unread_by_domain(t: Type, text: &str) -> bool {
    match t {
        // RFC 3597 §4 and the registry: NSAP-PTR is a mnemonic like any other; `domain` writes it without a
        // hyphen.
        Type::NSEC | Type::NSEC3 | Type::RRSIG => text.contains("NSAP-PTR"),
        // RFC 9460 §2.1: unrecognised keys are written "keyNNNNN"; `domain` does not read them everywhere.
        // §7.1.1: "the parser MAY disallow" commas and backslashes in ALPN identifiers, and `domain` does.
        Type::SVCB | Type::HTTPS => text.contains("key") || text.contains('\\'),
        _ => false,
    }
}

/// Text that `domain` writes for bytes, with another meaning.
fn miswritten_by_domain(t: Type, rdata: &[u8], text: &str) -> bool {
    // RFC 1035 §5.1: a quotation mark begins a quoted string; `domain` does not escape it in names.
    let quote = embedded_names(t, rdata).any(|n| rdata[n.start..n.start + n.len].contains(&b'"'));
    quote
        || match t {
            // RFC 4025 §3.1 has a dot for no gateway; `domain` writes nothing.
            Type::IPSECKEY => rdata.get(1) == Some(&0),
            // As above: the registry's mnemonic is NSAP-PTR.
            Type::NSEC | Type::NSEC3 | Type::RRSIG => text.contains("NSAPPTR"),
            // RFC 9460 appendix A: white space, quotes and bytes beyond ASCII are escaped in values, commas
            // in lists; `domain` does not do this for every key, and §14.3.2 has hyphens in no-default-alpn.
            Type::SVCB | Type::HTTPS => {
                let ours = written(t, rdata);
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ',' | '-' | '/');
                let mut quoted = ours.split('"').skip(1).step_by(2);
                quoted.any(|value| !value.chars().all(plain))
                    || ["docpath", "nodefaultalpn"].iter().any(|&name| text.contains(name))
            }
            _ => false,
        }
}

#[test]
fn domain_reads_our_text() {
    agree(KNOWN, 100, arbitrary::rdata, |t, rdata| {
        let text = written(t, rdata);
        match bytes_of_text(t, &text) {
            Ok(bytes) if bytes == rdata => Ok(()),
            _ if unread_by_domain(t, &text) => Ok(()),
            other => Err(format!("{text}: {other:?}, not {rdata:?}")),
        }
    });
}

#[test]
fn we_read_the_text_of_domain() {
    agree(KNOWN, 100, arbitrary::rdata, |t, rdata| {
        let (text, bytes) = text_of_bytes(t, rdata)?;
        if bytes != rdata {
            return Err(format!("they send {bytes:?}, not {rdata:?}"));
        }
        match read(t, &text) {
            Ok(bytes) if bytes == rdata => Ok(()),
            _ if miswritten_by_domain(t, rdata, &text) => Ok(()),
            other => Err(format!("{text}: {other:?}, not {rdata:?}")),
        }
    });
}
