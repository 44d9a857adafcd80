//! Files of keys: any text is a key, or has a fault with a line of the text. A key comes back from the files
//! that are written of it. So do states of keys.
//!
//! The key tag depends on all of the RDATA (RFC 4034 appendix B), so the REVOKE bit (RFC 5011) changes it.

use signer::key::pem::{self, PemFault};
use signer::key::text::{PrivateText, PublicText};
use signer::key::times::KeyTimes;
use signer::key::{KeyRole, ZoneKey};
use signer::rollover::text::StateText;
use wire::Name;
use wire::rdata::view::SigAlgorithm;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines = text.lines().count().max(1);
    match PrivateText::parse(text) {
        Err(fault) => {
            assert!((1..=lines).contains(&fault.line), "{fault}");
            assert!(!fault.to_string().is_empty());
        }
        Ok(PrivateText { key, times }) => {
            comes_back(ZoneKey::new(Name::ROOT, KeyRole::KeySigning, key, times));
        }
    }
    match PublicText::parse(text) {
        Err(fault) => assert!((1..=lines).contains(&fault.line), "{fault}"),
        Ok(public) => assert!(public.dnskey().ends_with(&public.public_key)),
    }
    match StateText::parse(text) {
        Err(fault) => assert!((1..=lines).contains(&fault.line), "{fault}"),
        Ok(state) => {
            let written = state.write(Name::ROOT, 1);
            assert_eq!(StateText::parse(&written).expect("our own text"), state);
        }
    }
    match pem::parse(text, SigAlgorithm::RSASHA256) {
        Err(fault) => {
            assert!(fault.line().is_none_or(|line| (1..=lines).contains(&line)), "{fault}");
            assert!(pem::is_pem(text) || fault == PemFault::NoBegin);
        }
        Ok(key) => comes_back(ZoneKey::new(Name::ROOT, KeyRole::ZoneSigning, key, KeyTimes::default())),
    }
}

fn comes_back(key: ZoneKey) {
    let private = key.private_text().expect("text");
    let private = PrivateText::parse(&private).expect("our own text");
    let public = PublicText::parse(&key.public_text()).expect("our own text");
    let read = ZoneKey::join(public, private.key, private.times).expect("the same key");
    assert_eq!((read.dnskey(), read.times()), (key.dnskey(), key.times()));
    let [plain, revoked] = key.tags();
    assert!(plain != revoked && plain == key.tag());
}
