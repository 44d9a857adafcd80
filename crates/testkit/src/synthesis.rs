//! Small signed zones of every shape, and answers that [`ProvenDenials`] synthesizes from some of their
//! answers: for every possible name, a synthesized answer must equal the one that the zone's servers return.

use std::time::Duration;

use validator::{DenialWork, ProvenDenials, ReceivedSet, Response, Security, Validated};
use wire::message::Section;
use wire::rdata::view::{Nsec3, Rrsig};
use wire::{Class, NameBuf, Rcode, Ttl, Type};

use crate::answers::ModelZones;
use crate::choices::Choices;
use crate::data::soa;
use crate::model::ModelZone;
use crate::tree::TreeReply;
use crate::{Chain, ModelRecord, name, sign};

/// Maximum number of records of a zone, not counting those that signing adds.
const MAX_RECORDS: usize = 16;
/// Labels of owner names; the last one is only in questions.
const LABELS: [&[u8]; 5] = [b"a", b"*", b"b", b"c", b"q"];
/// Maximum number of labels below the apex.
const MAX_LABELS_BELOW: usize = 3;
const TYPES: [Type; 5] = [Type::A, Type::TXT, Type::CNAME, Type::DS, Type::NS];
const TTLS: [u32; 2] = [3600, 60];
/// When all answers are stored.
const NOW: Duration = Duration::from_secs(1000);

/// Counts of correctly synthesized answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    /// NXDOMAIN.
    pub names: usize,
    /// NODATA.
    pub types: usize,
    /// Records from wildcards.
    pub wildcards: usize,
    /// Of these, CNAMEs.
    pub links: usize,
}

/// Makes random zones, stores some of their answers and then all, and checks every name each time.
///
/// # Panics
/// If a synthesized answer differs from the one of the zones' servers, or if one is missing although it
/// follows from all of their answers.
pub fn check(choices: &mut Choices<'_>) -> Made {
    let served = served(choices);
    let each = names().into_iter().flat_map(|name| TYPES.map(|qtype| (name, qtype)));
    let replies: Vec<ServersReply> = each.map(|(name, qtype)| reply(&served, name, qtype)).collect();
    let denials = ProvenDenials::new(16 << 20);
    let mut made = Made::default();
    for _ in 0..1 + choices.below(12) {
        learn(&denials, &replies[choices.below(replies.len())]);
    }
    replies.iter().for_each(|truth| made.look(&denials, truth, false));
    replies.iter().for_each(|truth| learn(&denials, truth));
    replies.iter().for_each(|truth| made.look(&denials, truth, true));
    made
}

/// Makes one zone, or one and another below it.
fn served(choices: &mut Choices<'_>) -> ModelZones {
    let apexes: &[&str] = if choices.one_in(3) { &["z.", "c.z."] } else { &["z."] };
    let mut zones = Vec::new();
    for apex in apexes.iter().map(|apex| name(apex)) {
        let nsec3 = |opt_out, salt: &[u8]| Chain::Nsec3 { opt_out, iterations: 1, salt: salt.to_vec() };
        let chain = match choices.below(5) {
            0 | 1 => Chain::Nsec,
            2 | 3 => nsec3(false, b"\xab"),
            _ => nsec3(true, b""),
        };
        let mut records: Vec<ModelRecord> = Vec::new();
        let ttl = Ttl::from_secs(3600);
        records.push(ModelRecord { owner: apex, rtype: Type::SOA, ttl, rdata: soa(apex.as_name(), 1) });
        let cut = apexes.get(1).map(|below| name(below)).filter(|below| *below != apex);
        if let Some(owner) = cut {
            let rdata = owner.as_name().as_wire().to_vec();
            records.push(ModelRecord { owner, rtype: Type::NS, ttl, rdata });
        }
        for _ in 0..choices.below(MAX_RECORDS) {
            let record = record(choices, apex);
            if cut == Some(record.owner) && record.rtype != Type::DS {
                continue;
            }
            // CNAME must be the only type at a name (RFC 1034 §3.6.2).
            let (is_alias, of) =
                (record.rtype == Type::CNAME, |known: &&ModelRecord| known.owner == record.owner);
            if records.iter().filter(of).all(|known| (known.rtype == Type::CNAME) == is_alias && !is_alias) {
                records.push(record);
            }
        }
        zones.push(ModelZone::new(apex.as_name(), &sign(apex.as_name(), &records, &chain)));
    }
    ModelZones { zones, unloaded: Vec::new(), max_chain: 8 }
}

fn record(choices: &mut Choices<'_>, apex: NameBuf) -> ModelRecord {
    let owner = below(choices, apex);
    // NS and DNAME at wildcards are undefined (RFC 4592 §4.2, §4.4).
    let kinds = if owner.as_name().is_wildcard() || owner == apex { 5 } else { 8 };
    let target = |choices: &mut Choices<'_>| below(choices, apex).as_name().as_wire().to_vec();
    let (rtype, rdata) = match choices.below(kinds) {
        0..=2 => (Type::A, vec![192, 0, 2, choices.byte() & 3]),
        3 => (Type::TXT, vec![1, b'a' + (choices.byte() & 1)]),
        4 => (Type::CNAME, target(choices)),
        5 => (Type::NS, target(choices)),
        6 => (Type::DS, [&[0, 1, 13, 2][..], &[7; 32]].concat()),
        _ => (Type::DNAME, target(choices)),
    };
    ModelRecord { owner, rtype, ttl: Ttl::from_secs(choices.pick(&TTLS)), rdata }
}

fn below(choices: &mut Choices<'_>, apex: NameBuf) -> NameBuf {
    let labels = (0..choices.below(MAX_LABELS_BELOW + 1)).map(|_| choices.pick(&LABELS[..4]));
    labels.fold(apex, |name, label| NameBuf::prepend(label, name.as_name()).unwrap_or(name))
}

/// Returns every name of up to [`MAX_LABELS_BELOW`] labels below the apex.
fn names() -> Vec<NameBuf> {
    let (mut all, mut from) = (vec![name("z.")], 0);
    for _ in 0..MAX_LABELS_BELOW {
        let above = from..all.len();
        from = all.len();
        for at in above {
            let child = |label: &&[u8]| NameBuf::prepend(label, all[at].as_name()).expect("a name");
            let children: Vec<NameBuf> = LABELS.iter().map(child).collect();
            all.extend(children);
        }
    }
    all
}

/// The servers' response.
struct ServersReply {
    response: Response,
    authoritative: bool,
}

fn reply(served: &ModelZones, name: NameBuf, qtype: Type) -> ServersReply {
    let said = served.answer(name.as_name(), qtype, true).expect("a zone");
    let (rcode, answer, authority) = (said.rcode, said.answer, said.authority);
    let reply = TreeReply { name, qtype, rcode, class: Class::IN, answer, authority };
    ServersReply { response: reply.response(), authoritative: said.authoritative }
}

/// Stores an answer as validated secure.
fn learn(denials: &ProvenDenials, ServersReply { response, .. }: &ServersReply) {
    let least = response.sets.iter().map(|set| set.ttl).min().unwrap_or(Ttl::ZERO);
    let validated = Validated {
        security: Security::Secure,
        ttl: least,
        at: NameBuf::ROOT,
        covers: (0..response.sets.len()).collect(),
        leads_to: None,
    };
    denials.store_denial(1, response, &validated, least, NOW);
    denials.store_wildcards(1, response, &validated, NOW);
}

impl Made {
    /// Checks what is synthesized in place of a response. If `all` answers are stored, wildcard matches must
    /// be synthesized.
    fn look(&mut self, denials: &ProvenDenials, reply: &ServersReply, all: bool) {
        let ServersReply { response: truth, authoritative } = reply;
        let (name, qtype) = (truth.name.as_name(), truth.qtype);
        let own = |set: &&ReceivedSet| set.section == Section::Answer && set.owner.as_name() == name;
        let found: Vec<&ReceivedSet> = truth.sets.iter().filter(own).collect();
        let denied = denials.deny(1, name, qtype, NOW, &mut DenialWork::default());
        if let Some(denial) = &denied {
            let is_there = truth.sets.iter().any(|set| set.section == Section::Answer);
            assert!(!is_there && *authoritative, "{name} {qtype}: {denial:#?}\n{truth:#?}");
            assert_eq!(denial.rcode, truth.rcode, "{name} {qtype}: {denial:#?}\n{truth:#?}");
            self.names += usize::from(denial.rcode == Rcode::NXDOMAIN);
            self.types += usize::from(denial.rcode == Rcode::NOERROR);
        }
        let Some(made) = denials.expand(1, name, qtype, NOW, &mut DenialWork::default()) else {
            // DS and NS need not be synthesized, with a CNAME or without.
            let is_due = all && !matches!(qtype, Type::DS | Type::NS) && !is_opt_out(truth);
            let of_wildcard = found.first().is_some_and(|set| is_of_wildcard(set));
            assert!(!(is_due && of_wildcard), "{name} {qtype} is not made: {truth:#?}");
            return;
        };
        assert_eq!(found, [&made.set], "{name} {qtype}: {truth:#?}");
        assert!(truth.sets.contains(&made.proof), "{name} {qtype}: {made:#?}\n{truth:#?}");
        assert!(
            denied.is_none() && made.ttl <= made.set.ttl.min(made.proof.ttl),
            "{name} {qtype}: {made:#?}"
        );
        assert_eq!(made.leads_to.is_some(), made.set.rtype != qtype, "{name} {qtype}: {made:#?}");
        self.wildcards += 1;
        self.links += usize::from(made.leads_to.is_some());
    }
}

/// Whether an RRset comes from a wildcard: its RRSIG counts fewer labels than its owner has.
fn is_of_wildcard(set: &ReceivedSet) -> bool {
    let owner = set.owner.as_name();
    let labels = owner.label_count() - usize::from(owner.is_wildcard());
    let signed = set.signatures.first().and_then(|signature| Rrsig::read(&signature.rdata).ok());
    signed.is_some_and(|sig| usize::from(sig.labels) < labels)
}

fn is_opt_out(response: &Response) -> bool {
    let nsec3 = response.sets.iter().filter(|set| set.rtype == Type::NSEC3);
    nsec3.flat_map(|set| &set.rdatas).any(|rdata| Nsec3::read(rdata).is_ok_and(|nsec3| nsec3.is_opt_out()))
}
