//! Requests for NS records and glue: each rule alone.

use testkit::keys::SigningKey;
use testkit::name;

use super::*;
use crate::children::answers::ChildServerFault;
use crate::children::testing::{NOW, child, denied_at, now, rrset, rrset_at, valid};

const IMMEDIATE: u16 = Csync::IMMEDIATE;
const MINIMUM: u16 = Csync::SOA_MINIMUM;
/// Type bit maps: NS, A, and A with NS and AAAA.
const NS: &[u8] = &[0, 1, 0x20];
const A: &[u8] = &[0, 1, 0x40];
const ALL: &[u8] = &[0, 4, 0x60, 0, 0, 8];

fn key() -> SigningKey {
    SigningKey::new(1, SigningKey::KSK)
}

fn wire(text: &str) -> Vec<u8> {
    name(text).as_name().as_wire().to_vec()
}

/// A child zone at one server, signed by one key.
#[derive(Clone)]
struct Zone {
    serial: u32,
    later_serial: u32,
    csync: Vec<Vec<u8>>,
    ns: Vec<&'static str>,
    /// Name servers in the child, and the last byte of their address.
    glue: Vec<(&'static str, u8)>,
    has_denials: bool,
}

fn csync(serial: u32, flags: u16, types: &[u8]) -> Vec<u8> {
    [&serial.to_be_bytes()[..], &flags.to_be_bytes(), types].concat()
}

/// A child that asks for all, and has moved from `ns1` to `ns2`.
fn moved() -> Zone {
    Zone {
        serial: 7,
        later_serial: 7,
        csync: vec![csync(7, IMMEDIATE | MINIMUM, ALL)],
        ns: vec!["ns2.child.example", "ns.other.test"],
        glue: vec![("ns2.child.example", 2)],
        has_denials: true,
    }
}

fn soa(serial: u32) -> Vec<u8> {
    [wire("ns"), wire("host"), serial.to_be_bytes().to_vec(), vec![0; 16]].concat()
}

impl Zone {
    fn start(&self, key: &SigningKey) -> CsyncAnswers {
        let set = |rtype, rdatas: &[Vec<u8>]| rrset(rtype, rdatas, &[key], valid());
        CsyncAnswers {
            soa: set(Type::SOA, &[soa(self.serial)]),
            csync: set(Type::CSYNC, &self.csync),
            dnskey: set(Type::DNSKEY, std::slice::from_ref(&key.dnskey)),
        }
    }

    fn ns(&self, key: &SigningKey) -> ChildRrset {
        let ns: Vec<Vec<u8>> = self.ns.iter().map(|ns| wire(ns)).collect();
        rrset(Type::NS, &ns, &[key], valid())
    }

    fn address(&self, key: &SigningKey, host: NameBuf, rtype: Type) -> ChildGlue {
        let text = host.to_string();
        let text = text.trim_end_matches('.');
        let last = self.glue.iter().find(|(name, _)| *name == text).map(|(_, last)| *last);
        let set = match last.filter(|_| rtype == Type::A) {
            Some(last) => rrset_at(text, rtype, &[vec![192, 0, 2, last]], &[key], valid()),
            None if self.has_denials => denied_at(text, rtype, key, valid()),
            None => rrset_at(text, rtype, &[], &[], valid()),
        };
        ChildGlue { host, rtype, set }
    }
}

/// The delegation to `ns1`, with its address.
fn parental() -> (Vec<Vec<u8>>, Vec<RrsetOfDelegation>) {
    let glue = RrsetOfDelegation {
        owner: name("ns1.child.example"),
        rtype: Type::A,
        rdatas: vec![vec![192, 0, 2, 1]],
    };
    (vec![wire("ns1.child.example")], vec![glue])
}

fn answer<T>(server: &str, found: T) -> ServerAnswer<T> {
    ServerAnswer { server: server.to_owned(), found: Ok(found) }
}

/// Reads and judges what two servers have.
fn judged_at(zones: [&Zone; 2], last: Option<u32>) -> Result<Option<CsyncDecision>, ChildRefusal> {
    judged_with(zones, last, &[key().ds(child().as_name())], &key())
}

fn judged_with(
    zones: [&Zone; 2],
    last: Option<u32>,
    ds: &[Vec<u8>],
    key: &SigningKey,
) -> Result<Option<CsyncDecision>, ChildRefusal> {
    let starts = zones.map(|zone| answer("a", zone.start(key)));
    let Some(request) = CsyncRequest::read(&starts)? else { return Ok(None) };
    let (ns, glue) = parental();
    let parental = ParentalRecords { ns: &ns, glue: &glue };
    let child = child();
    let names = zones.map(|zone| answer("a", zone.ns(key)));
    let hosts = request.hosts(child.as_name(), &names, &parental)?;
    let content = |zone: &Zone| CsyncContent {
        start: zone.start(key),
        ns: zone.ns(key),
        glue: hosts.iter().map(|(host, rtype)| zone.address(key, *host, *rtype)).collect(),
        end: rrset(Type::SOA, &[soa(zone.later_serial)], &[key], valid()),
    };
    let contents = zones.map(|zone| answer("a", content(zone)));
    let delegation = DelegationSigners { child: child.as_name(), ds, last: None };
    let settings = (&ValidationSettings::default(), now());
    request.judge(&delegation, &parental, last.map(Serial), &contents, settings).map(Some)
}

fn judged(zone: &Zone) -> Result<Option<CsyncDecision>, ChildRefusal> {
    judged_at([zone, zone], None)
}

fn reason(judged: Result<Option<CsyncDecision>, ChildRefusal>) -> RefusalReason {
    judged.expect_err("a refusal").reason
}

/// The RRsets of a change as text, with the number of their records.
fn changes(judged: Result<Option<CsyncDecision>, ChildRefusal>) -> Vec<(String, usize)> {
    match judged {
        Ok(Some(CsyncDecision::Change { sets, .. })) => {
            let text = |set: &RrsetOfDelegation| format!("{} {}", set.owner, set.rtype);
            sets.iter().map(|set| (text(set), set.rdatas.len())).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn name_servers_and_their_addresses_follow_the_child() {
    let zone = moved();
    let wanted = [
        ("child.example. NS".to_owned(), 2),
        ("ns1.child.example. A".to_owned(), 0),
        ("ns2.child.example. A".to_owned(), 1),
    ];
    assert_eq!(changes(judged(&zone)), wanted);
    let same = Zone { ns: vec!["ns1.child.example"], glue: vec![("ns1.child.example", 1)], ..moved() };
    assert_eq!(judged(&same), Ok(Some(CsyncDecision::Unchanged { serial: Serial(7) })));
}

#[test]
fn only_the_types_of_the_record_are_copied() {
    let renumbered = Zone { glue: vec![("ns1.child.example", 9)], csync: vec![csync(0, 1, A)], ..moved() };
    assert_eq!(changes(judged(&renumbered)), [("ns1.child.example. A".to_owned(), 1)]);
    let only_ns = Zone { csync: vec![csync(0, 1, NS)], ..moved() };
    assert_eq!(reason(judged(&only_ns)), RefusalReason::Glue, "the new server would have no address");
    let outside = Zone { ns: vec!["ns.other.test"], ..only_ns };
    let wanted = [("child.example. NS".to_owned(), 1), ("ns1.child.example. A".to_owned(), 0)];
    assert_eq!(changes(judged(&outside)), wanted);
    let nothing = Zone { csync: vec![csync(0, 1, &[])], ..moved() };
    assert_eq!(judged(&nothing), Ok(None));
    assert_eq!(judged(&Zone { csync: Vec::new(), ..moved() }), Ok(None));
}

#[test]
fn flags_and_types_decide_whether_the_record_counts() {
    let with = |flags, types| Zone { csync: vec![csync(7, flags, types)], ..moved() };
    assert_eq!(reason(judged(&with(MINIMUM, ALL))), RefusalReason::NotImmediate);
    assert_eq!(reason(judged(&with(IMMEDIATE | 4, ALL))), RefusalReason::UnsupportedCsync);
    // SOA besides NS and A.
    assert_eq!(reason(judged(&with(IMMEDIATE, &[0, 1, 0x62]))), RefusalReason::UnsupportedCsync);
    let two = Zone { csync: vec![csync(1, 1, ALL), csync(2, 1, ALL)], ..moved() };
    assert_eq!(reason(judged(&two)), RefusalReason::Malformed);
}

#[test]
fn serial_numbers_are_compared_in_serial_arithmetic() {
    let at = |serial, minimum, flags| Zone {
        serial,
        later_serial: serial,
        csync: vec![csync(minimum, flags, ALL)],
        ..moved()
    };
    let both = IMMEDIATE | MINIMUM;
    assert_eq!(reason(judged(&at(6, 7, both))), RefusalReason::BelowMinimum);
    assert_eq!(reason(judged(&at(0xffff_fff0, 7, both))), RefusalReason::BelowMinimum);
    assert!(judged(&at(5, 0xffff_fff0, both)).is_ok(), "the number has wrapped");
    assert!(judged(&at(6, 7, IMMEDIATE)).is_ok(), "the number does not count without the flag");
    let zone = moved();
    assert_eq!(reason(judged_at([&zone, &zone], Some(8))), RefusalReason::OlderSerial);
    assert!(judged_at([&zone, &zone], Some(7)).is_ok());
    assert!(judged_at([&zone, &zone], Some(0xffff_ffff)).is_ok());
    let changing = Zone { later_serial: 8, ..moved() };
    assert_eq!(reason(judged(&changing)), RefusalReason::SerialChanged);
    let later = Zone { serial: 9, later_serial: 9, ..moved() };
    match judged_at([&later, &zone], None) {
        Ok(Some(CsyncDecision::Change { serial, .. })) => assert_eq!(serial, Serial(7), "the least one"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_servers_must_have_the_same() {
    let zone = moved();
    for other in [
        Zone { csync: vec![csync(6, 3, ALL)], ..moved() },
        Zone { ns: vec!["ns2.child.example"], ..moved() },
        Zone { glue: vec![("ns2.child.example", 3)], ..moved() },
    ] {
        assert_eq!(reason(judged_at([&zone, &other], None)), RefusalReason::ServersDisagree);
    }
    let lame = ServerAnswer { server: "a".to_owned(), found: Err(ChildServerFault::NotAuthoritative) };
    let refusal = CsyncRequest::read(&[answer("b", zone.start(&key())), lame]).expect_err("a refusal");
    assert_eq!(refusal.reason, RefusalReason::Lame);
}

#[test]
fn all_that_counts_is_signed() {
    let (zone, key, other) = (moved(), key(), SigningKey::new(2, SigningKey::KSK));
    let ds = [other.ds(child().as_name())];
    assert_eq!(reason(judged_with([&zone, &zone], None, &ds, &key)), RefusalReason::WrongSigner);
    let unproven = Zone { has_denials: false, ..moved() };
    assert_eq!(reason(judged(&unproven)), RefusalReason::BadSignature, "no AAAA records, without proof");
    // Each RRset alone is unsigned.
    let content = CsyncContent {
        start: zone.start(&key),
        ns: zone.ns(&key),
        glue: vec![zone.address(&key, name("ns2.child.example"), Type::A)],
        end: rrset(Type::SOA, &[soa(7)], &[&key], valid()),
    };
    let ds = [key.ds(child().as_name())];
    let (owner, settings) = (child(), ValidationSettings::default());
    let delegation = DelegationSigners { child: owner.as_name(), ds: &ds, last: None };
    let proven = |content: &CsyncContent| prove(&delegation, "a", content, &settings, now());
    assert_eq!(proven(&content), Ok(()));
    let without: [fn(&mut CsyncContent) -> &mut ChildRrset; 6] = [
        |content| &mut content.start.soa,
        |content| &mut content.start.csync,
        |content| &mut content.start.dnskey,
        |content| &mut content.ns,
        |content| &mut content.glue[0].set,
        |content| &mut content.end,
    ];
    for one in without {
        let mut content = content.clone();
        one(&mut content).set.as_mut().expect("records").signatures.clear();
        assert_eq!(proven(&content).map_err(|refusal| refusal.reason), Err(RefusalReason::Unsigned));
    }
    let late = UnixTime::from_secs(u64::from(NOW) * 2);
    let judged = prove(&delegation, "a", &content, &settings, late).map_err(|refusal| refusal.reason);
    assert_eq!(judged, Err(RefusalReason::BadSignature));
}

#[test]
fn the_delegation_stays_whole_and_within_bounds() {
    let empty = Zone { ns: Vec::new(), ..moved() };
    assert_eq!(reason(judged(&empty)), RefusalReason::NoNameServers);
    let no_glue = Zone { glue: Vec::new(), ..moved() };
    assert_eq!(reason(judged(&no_glue)), RefusalReason::Glue);
    let child = child();
    let (ns, glue) = parental();
    let parental = ParentalRecords { ns: &ns, glue: &glue };
    let request = CsyncRequest { minimum: None, ns: true, a: true, aaaa: true };
    let hosts = |count: usize| {
        let ns: Vec<Vec<u8>> = (0..count).map(|n| wire(&format!("n{n}.child.example"))).collect();
        let set = rrset(Type::NS, &ns, &[&key()], valid());
        request.hosts(child.as_name(), &[answer("a", set)], &parental)
    };
    assert_eq!(hosts(26).map(|hosts| hosts.len()), Ok(52));
    assert_eq!(hosts(27).map_err(|refusal| refusal.reason), Err(RefusalReason::TooMany));
    let zone = Zone { ns: vec!["ns2.child.example"], ..moved() };
    let many: Vec<Vec<u8>> = (0..65).map(|last| vec![192, 0, 2, last]).collect();
    let content = |count: usize| {
        let set = rrset_at("ns2.child.example", Type::A, &many[..count], &[&key()], valid());
        let end = rrset(Type::SOA, &[soa(7)], &[&key()], valid());
        let glue = vec![ChildGlue { host: name("ns2.child.example"), rtype: Type::A, set }];
        CsyncContent { start: zone.start(&key()), ns: zone.ns(&key()), glue, end }
    };
    let wanted = |count: usize| request.wanted(child.as_name(), &parental, &[("a", &content(count))]);
    assert!(wanted(64).is_ok());
    assert_eq!(wanted(65).map_err(|refusal| refusal.reason), Err(RefusalReason::TooMany));
}

#[test]
fn the_servers_of_the_new_delegation_have_it() {
    let (key, other) = (key(), SigningKey::new(2, SigningKey::KSK));
    let ds = [key.ds(child().as_name())];
    let (owner, settings) = (child(), ValidationSettings::default());
    let delegation = DelegationSigners { child: owner.as_name(), ds: &ds, last: None };
    let decision = judged(&moved()).expect("accepted").expect("a decision");
    let at = |zone: &Zone, key: &SigningKey| NewServerAnswers {
        dnskey: zone.start(key).dnskey,
        ns: zone.ns(key),
        soa: zone.start(key).soa,
    };
    let check = |found: ServerAnswer<NewServerAnswers>| {
        let checked = decision.check_new_servers(&delegation, &[found], (&settings, now()));
        checked.map_err(|refusal| refusal.reason)
    };
    assert_eq!(check(answer("b", at(&moved(), &key))), Ok(()));
    let older = Zone { serial: 6, ..moved() };
    let fewer = Zone { ns: vec!["ns2.child.example"], ..moved() };
    for found in [at(&older, &key), at(&fewer, &key), at(&moved(), &other)] {
        assert_eq!(check(answer("b", found)), Err(RefusalReason::NewServers));
    }
    let lame = ServerAnswer { server: "b".to_owned(), found: Err(ChildServerFault::NotAuthoritative) };
    assert_eq!(check(lame), Err(RefusalReason::NewServers));
}
