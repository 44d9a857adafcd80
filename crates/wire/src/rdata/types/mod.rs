//! The record types, one file each, and the table that finds a type's layout by its number.

mod a;
mod a6;
mod aaaa;
mod afsdb;
mod amtrelay;
mod apl;
mod atma;
mod avc;
mod brid;
mod caa;
mod cdnskey;
mod cds;
mod cert;
mod cla;
mod cname;
mod csync;
mod dhcid;
mod dlv;
mod dname;
mod dnskey;
mod doa;
mod ds;
mod dsync;
mod eid;
mod eui48;
mod eui64;
mod gid;
mod gpos;
mod hhit;
mod hinfo;
mod hip;
mod https;
mod ipn;
mod ipseckey;
mod isdn;
mod key;
mod kx;
mod l32;
mod l64;
mod loc;
mod lp;
mod mb;
mod md;
mod mf;
mod mg;
mod minfo;
mod mr;
mod mx;
mod naptr;
mod nid;
mod nimloc;
mod ninfo;
mod ns;
mod nsap;
mod nsap_ptr;
mod nsec;
mod nsec3;
mod nsec3param;
mod null;
mod nxt;
mod openpgpkey;
mod ptr;
mod px;
mod relay;
mod resinfo;
mod rkey;
mod rp;
mod rrsig;
mod rt;
mod sig;
mod sink;
mod smimea;
mod soa;
mod spf;
mod srv;
mod sshfp;
mod svcb;
mod ta;
mod talink;
mod tkey;
mod tlsa;
mod tsig;
mod txt;
mod uid;
mod uinfo;
mod unspec;
mod uri;
mod wallet;
mod wks;
mod x25;
mod zonemd;

use super::field::Layout;
use crate::rr::Type;

/// Every type with its own layout.
pub(super) static ALL: &[&Layout] = &[
    &a::LAYOUT,
    &a6::LAYOUT,
    &aaaa::LAYOUT,
    &afsdb::LAYOUT,
    &amtrelay::LAYOUT,
    &apl::LAYOUT,
    &atma::LAYOUT,
    &avc::LAYOUT,
    &brid::LAYOUT,
    &caa::LAYOUT,
    &cdnskey::LAYOUT,
    &cds::LAYOUT,
    &cert::LAYOUT,
    &cla::LAYOUT,
    &cname::LAYOUT,
    &csync::LAYOUT,
    &dhcid::LAYOUT,
    &dlv::LAYOUT,
    &dname::LAYOUT,
    &dnskey::LAYOUT,
    &doa::LAYOUT,
    &ds::LAYOUT,
    &dsync::LAYOUT,
    &eid::LAYOUT,
    &eui48::LAYOUT,
    &eui64::LAYOUT,
    &gid::LAYOUT,
    &gpos::LAYOUT,
    &hhit::LAYOUT,
    &hinfo::LAYOUT,
    &hip::LAYOUT,
    &https::LAYOUT,
    &ipn::LAYOUT,
    &ipseckey::LAYOUT,
    &isdn::LAYOUT,
    &key::LAYOUT,
    &kx::LAYOUT,
    &l32::LAYOUT,
    &l64::LAYOUT,
    &loc::LAYOUT,
    &lp::LAYOUT,
    &mb::LAYOUT,
    &md::LAYOUT,
    &mf::LAYOUT,
    &mg::LAYOUT,
    &minfo::LAYOUT,
    &mr::LAYOUT,
    &mx::LAYOUT,
    &naptr::LAYOUT,
    &nid::LAYOUT,
    &nimloc::LAYOUT,
    &ninfo::LAYOUT,
    &ns::LAYOUT,
    &nsap::LAYOUT,
    &nsap_ptr::LAYOUT,
    &nsec::LAYOUT,
    &nsec3::LAYOUT,
    &nsec3param::LAYOUT,
    &null::LAYOUT,
    &nxt::LAYOUT,
    &openpgpkey::LAYOUT,
    &ptr::LAYOUT,
    &px::LAYOUT,
    &resinfo::LAYOUT,
    &rkey::LAYOUT,
    &rp::LAYOUT,
    &rrsig::LAYOUT,
    &rt::LAYOUT,
    &sig::LAYOUT,
    &sink::LAYOUT,
    &smimea::LAYOUT,
    &soa::LAYOUT,
    &spf::LAYOUT,
    &srv::LAYOUT,
    &sshfp::LAYOUT,
    &svcb::LAYOUT,
    &ta::LAYOUT,
    &talink::LAYOUT,
    &tkey::LAYOUT,
    &tlsa::LAYOUT,
    &tsig::LAYOUT,
    &txt::LAYOUT,
    &uid::LAYOUT,
    &uinfo::LAYOUT,
    &unspec::LAYOUT,
    &uri::LAYOUT,
    &wallet::LAYOUT,
    &wks::LAYOUT,
    &x25::LAYOUT,
    &zonemd::LAYOUT,
];

/// Types below this are indexed by number; the few above are searched.
const DENSE: usize = 265;

static BY_NUMBER: [Option<&Layout>; DENSE] = by_number();

const fn by_number() -> [Option<&'static Layout>; DENSE] {
    let mut table = [None; DENSE];
    let mut i = 0;
    while i < ALL.len() {
        let number = ALL[i].rtype.0 as usize;
        if number < DENSE {
            table[number] = Some(ALL[i]);
        }
        i += 1;
    }
    table
}

/// The layout of a type.
#[inline]
pub(super) fn find(t: Type) -> Option<&'static Layout> {
    match BY_NUMBER.get(t.0 as usize) {
        Some(&found) => found,
        None => ALL.iter().copied().find(|layout| layout.rtype == t),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rr::TYPES;

    #[test]
    fn every_type_that_can_be_stored_has_its_description() {
        for &(t, _) in TYPES {
            let wire_only = matches!(t, Type::TKEY | Type::TSIG);
            assert_eq!(find(t).is_some(), !t.is_meta() || wire_only, "{t}");
            assert!(find(t).is_none_or(|layout| layout.rtype == t));
        }
        assert!(find(Type(0)).is_none() && find(Type(65280)).is_none());
    }
}
