//! Views compared with the text and validation of the same types.

use proptest::prelude::*;
use wire::rdata::validate;
use wire::rdata::view::{Dnskey, Ds, Ns, Nsec, Nsec3, Nsec3Param, Rrsig, Soa, TypeBitmap};
use wire::text::{write_base32hex, write_base64, write_hex, write_time};
use wire::{Malformed, Type};

use crate::arbitrary::rdata;
use crate::{read, written};

const TYPES: [Type; 8] =
    [Type::SOA, Type::NS, Type::RRSIG, Type::DNSKEY, Type::DS, Type::NSEC, Type::NSEC3, Type::NSEC3PARAM];

fn with(write: impl FnOnce(&mut dyn std::fmt::Write) -> std::fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("a String takes everything");
    text
}

fn bitmap(types: TypeBitmap<'_>) -> String {
    types.iter().map(|t| format!(" {t}")).collect()
}

fn param(param: &Nsec3Param<'_>) -> String {
    let salt = if param.salt.is_empty() { "-".to_owned() } else { with(|to| write_hex(param.salt, to)) };
    format!("{} {} {} {salt}", param.algorithm, param.flags, param.iterations)
}

/// The fields of a view as in a zone file.
fn text(t: Type, rdata: &[u8]) -> Result<String, Malformed> {
    Ok(match t {
        Type::SOA => {
            let Soa { mname, rname, numbers: n } = Soa::read(rdata)?;
            format!("{mname} {rname} {} {} {} {} {}", n.serial, n.refresh, n.retry, n.expire, n.minimum)
        }
        Type::NS => Ns::read(rdata)?.nsdname.to_string(),
        Type::RRSIG => {
            let s = Rrsig::read(rdata)?;
            assert_eq!([s.signed_fields, s.signature].concat(), rdata);
            assert_eq!(Rrsig::read_type_covered(rdata), Ok(s.type_covered));
            // In text the TTL is any number; its meaning differs (RFC 2181 §8).
            let ttl = u32::from_be_bytes(*rdata[4..].first_chunk().expect("four bytes"));
            assert_eq!(s.original_ttl.as_secs(), if ttl >> 31 == 0 { ttl } else { 0 });
            let times = [s.expiration, s.inception].map(|time| with(|to| write_time(time.0, to)));
            let (covered, labels, tag, signer) = (s.type_covered, s.labels, s.key_tag, s.signer);
            let signature = with(|to| write_base64(s.signature, to));
            let [expiration, inception] = times;
            format!(
                "{covered} {} {labels} {ttl} {expiration} {inception} {tag} {signer} {signature}",
                s.algorithm.0
            )
        }
        Type::DNSKEY => {
            let key = Dnskey::read(rdata)?;
            assert_eq!(key.rdata, rdata);
            let public = with(|to| write_base64(key.public_key, to));
            format!("{} {} {} {public}", key.flags, key.protocol, key.algorithm.0)
        }
        Type::DS => {
            let ds = Ds::read(rdata)?;
            let digest = with(|to| write_hex(ds.digest, to));
            format!("{} {} {} {digest}", ds.key_tag, ds.algorithm.0, ds.digest_type)
        }
        Type::NSEC => {
            let nsec = Nsec::read(rdata)?;
            format!("{}{}", nsec.next, bitmap(nsec.types))
        }
        Type::NSEC3 => {
            let nsec3 = Nsec3::read(rdata)?;
            assert_eq!(Nsec3::read_param(rdata), Ok(nsec3.param));
            let next = with(|to| write_base32hex(nsec3.next_hash, to));
            format!("{} {next}{}", param(&nsec3.param), bitmap(nsec3.types))
        }
        _ => param(&Nsec3Param::read(rdata)?),
    })
}

/// RDATA of one of the types, with the type.
fn any_of_them() -> impl Strategy<Value = (Type, Vec<u8>)> {
    prop::sample::select(TYPES.to_vec()).prop_flat_map(|t| (Just(t), rdata(t)))
}

proptest! {
    #[test]
    fn views_and_text_agree((t, rdata) in any_of_them()) {
        let seen = text(t, &rdata).expect("what is well formed has a view");
        prop_assert_eq!(&seen, &written(t, &rdata));
        prop_assert_eq!(read(t, &seen), Ok(rdata));
    }

    #[test]
    fn views_take_what_is_valid_and_nothing_else(
        (t, mut rdata) in any_of_them(),
        change in any::<prop::sample::Index>(),
        to: u8,
        more in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        if !rdata.is_empty() {
            let at = change.index(rdata.len());
            rdata[at] = to;
        }
        rdata.extend(more);
        prop_assert_eq!(text(t, &rdata).is_ok(), validate(t, &rdata).is_ok());
    }

    #[test]
    fn data_cut_short_is_refused_or_still_whole((t, rdata) in any_of_them()) {
        for len in 0..rdata.len() {
            let cut = &rdata[..len];
            prop_assert_eq!(text(t, cut).is_ok(), validate(t, cut).is_ok(), "{} of {} bytes", len, rdata.len());
        }
        prop_assert_eq!(text(t, &[]).is_ok(), false);
    }

    #[test]
    fn anything_at_all_is_read_or_refused(t in prop::sample::select(TYPES.to_vec()), rdata: Vec<u8>) {
        prop_assert_eq!(text(t, &rdata).is_ok(), validate(t, &rdata).is_ok());
    }
}
