//! A tree of zones from the root down, most of them with valid signatures: small, with every case that a
//! validator meets.
//!
//! ```text
//! .            NSEC                      opt.test.          NSEC3 with opt-out
//! test.        NSEC                        bare.opt.test.     not signed, left out of the chain
//! nsec.test.   NSEC                      iter.test.         NSEC3 with 51 iterations
//!   child.nsec.test.  NSEC               island.test.       signed, without DS
//!   bare.nsec.test.   not signed         odd.test.          DS of an unknown algorithm
//! slow.test.   NSEC3 with 50 iterations
//! hash.test.   NSEC3                     digest.test.       DS of an unknown digest type
//!   child.hash.test.  NSEC3              plain.test.        not signed
//!   bare.hash.test.   not signed           child.plain.test.  signed, DS in a zone that is not
//! ```
//!
//! All zones except the root have the same names.

use std::collections::BTreeMap;

use validator::{
    Need, Progress, Response, TrustAnchors, TrustTable, Validated, Validation, ValidationBudget,
    ValidationLimits, ValidationSettings, Validator,
};
use wire::message::{Builder, Compressor, Header, Owner, Section};
use wire::rdata::view::Rrsig;
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type, UnixTime};

use crate::answers::{Line, ModelZones};
use crate::data::soa;
use crate::keys::{SigningKey, Validity};
use crate::model::ModelZone;
use crate::sign::sign_by;
use crate::{Chain, ModelRecord, name};

/// The current time of all tests, in Unix time.
pub const NOW: u32 = 1_790_000_000;
/// The same for validators.
pub const UNIX_NOW: UnixTime = UnixTime::from_secs(NOW as u64);

/// The default validity period of signatures.
pub const VALID: Validity = Validity { inception: NOW - 3600, expiration: NOW + 86_400 };

/// TTL of all records.
const TTL: Ttl = Ttl::from_secs(3600);

/// The DS RRset of a delegation.
#[derive(Clone, Copy)]
enum Ds {
    /// A digest of the zone's key.
    Good,
    /// No DS.
    None,
    /// A DS with another algorithm.
    Algorithm(u8),
    /// A DS with another digest type.
    Digest(u8),
}

/// A zone of the tree.
struct Specified {
    apex: &'static str,
    chain: Option<Chain>,
    ds: Ds,
}

/// Returns the zones.
fn specification() -> Vec<Specified> {
    let nsec3 =
        |opt_out, iterations, salt: &[u8]| Some(Chain::Nsec3 { opt_out, iterations, salt: salt.to_vec() });
    let zones = [
        (".", Some(Chain::Nsec), Ds::None),
        ("test.", Some(Chain::Nsec), Ds::Good),
        ("nsec.test.", Some(Chain::Nsec), Ds::Good),
        ("child.nsec.test.", Some(Chain::Nsec), Ds::Good),
        ("bare.nsec.test.", None, Ds::None),
        ("hash.test.", nsec3(false, 0, b""), Ds::Good),
        ("child.hash.test.", nsec3(false, 1, b"\xab"), Ds::Good),
        ("bare.hash.test.", None, Ds::None),
        ("opt.test.", nsec3(true, 1, b"\xab\xcd"), Ds::Good),
        ("bare.opt.test.", None, Ds::None),
        ("iter.test.", nsec3(false, 51, b""), Ds::Good),
        ("island.test.", Some(Chain::Nsec), Ds::None),
        ("odd.test.", Some(Chain::Nsec), Ds::Algorithm(16)),
        ("digest.test.", Some(Chain::Nsec), Ds::Digest(3)),
        ("plain.test.", None, Ds::None),
        ("child.plain.test.", Some(Chain::Nsec), Ds::Good),
        ("slow.test.", nsec3(false, 50, b"\xab\xcd"), Ds::Good),
    ];
    zones.into_iter().map(|(apex, chain, ds)| Specified { apex, chain, ds }).collect()
}

/// Makes a record of a zone. The owner and the name in the RDATA are relative to `apex` unless they end in a
/// dot.
fn record(apex: &str, owner: &str, rtype: Type, front: &[u8], target: Option<&str>) -> ModelRecord {
    let absolute = |text: &str| match text {
        "@" => name(apex),
        text if text.ends_with('.') => name(text),
        text => NameBuf::from_text(text.as_bytes(), Some(name(apex).as_name())).expect("a name"),
    };
    let mut rdata = front.to_vec();
    target.into_iter().for_each(|target| rdata.extend(absolute(target).as_name().as_wire()));
    ModelRecord { owner: absolute(owner), rtype, ttl: TTL, rdata }
}

/// Returns the records that every zone except the root has.
fn leaf(apex: &str) -> Vec<ModelRecord> {
    let address = |owner, last| record(apex, owner, Type::A, &[192, 0, 2, last], None);
    vec![
        address("ns", 53),
        address("www", 1),
        address("www", 2),
        record(apex, "www", Type::TXT, b"\x05hello", None),
        record(apex, "mail", Type::MX, &[0, 10], Some("www")),
        record(apex, "alias", Type::CNAME, &[], Some("www")),
        record(apex, "far", Type::CNAME, &[], Some("www.nsec.test.")),
        record(apex, "gone", Type::CNAME, &[], Some("nothing.hash.test.")),
        address("a.deep.ent", 3),
        address("*.wild", 4),
        address("here.wild", 5),
        address("*.top", 8),
        address("a.b.top", 9),
        record(apex, "*.walias", Type::CNAME, &[], Some("www")),
        record(apex, "moved", Type::DNAME, &[], Some("wild")),
        address("zz", 6),
    ]
}

/// A response, section by section.
#[derive(Clone, Debug)]
pub struct TreeReply {
    /// QNAME.
    pub name: NameBuf,
    /// QTYPE.
    pub qtype: Type,
    /// The response code.
    pub rcode: Rcode,
    /// The class of its records.
    pub class: Class,
    /// The answer section.
    pub answer: Vec<Line>,
    /// The authority section.
    pub authority: Vec<Line>,
}

impl TreeReply {
    /// Encodes the message.
    ///
    /// # Panics
    /// If it is too long for one: tests call this.
    pub fn message(&self) -> Vec<u8> {
        let mut buf = vec![0; 65_535];
        let mut names = Compressor::large();
        let mut header = Header::query(0);
        header.set_response(true);
        header.set_rcode(self.rcode);
        let mut b = Builder::new(&mut buf, 65_535, header, &mut names);
        b.question(self.name.as_name(), self.qtype, Class::IN).expect("room");
        for (section, lines) in [(Section::Answer, &self.answer), (Section::Authority, &self.authority)] {
            for Line { owner, rtype, ttl, rdata } in lines {
                let owner = Owner::Name(owner.as_name());
                b.record(section, owner, *rtype, self.class, *ttl, rdata).expect("room");
            }
        }
        b.message()
    }

    /// Encodes and decodes the response.
    ///
    /// # Panics
    /// If it cannot be: tests call this.
    pub fn response(&self) -> Response {
        Response::read(&self.message(), self.rcode).expect("a response")
    }

    /// Returns all records of both sections.
    pub fn lines_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.answer.iter_mut().chain(&mut self.authority)
    }

    /// Removes the records for which `drop` returns true.
    pub fn without(mut self, mut drop: impl FnMut(&Line) -> bool) -> Self {
        self.answer.retain(|line| !drop(line));
        self.authority.retain(|line| !drop(line));
        self
    }
}

/// Returns the type that an RRSIG covers; `None` for other records.
pub fn covered(line: &Line) -> Option<Type> {
    let sig = Rrsig::read(&line.rdata).ok().filter(|_| line.rtype == Type::RRSIG)?;
    Some(sig.type_covered)
}

/// The zones, with their keys.
pub struct Tree {
    served: ModelZones,
    keys: BTreeMap<NameBuf, [SigningKey; 2]>,
}

/// Result of a validation.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The validation's result.
    pub validated: Validated,
    /// What it has spent of its budget.
    pub budget: ValidationBudget,
    /// The records that it requested, in order.
    pub needs: Vec<Need>,
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

impl Tree {
    /// Makes and signs all zones.
    ///
    /// # Panics
    /// Never: all of it is written down here.
    pub fn new() -> Self {
        Self::valid(VALID)
    }

    /// Makes and signs all zones with this validity period.
    ///
    /// # Panics
    /// Never: all of it is written down here.
    pub fn valid(validity: Validity) -> Self {
        let zones = specification();
        let seeds = 1u16..;
        let key = |seed: u16| {
            [SigningKey::new(2 * seed, SigningKey::KSK), SigningKey::new(2 * seed + 1, SigningKey::ZSK)]
        };
        let keys: BTreeMap<NameBuf, _> =
            zones.iter().zip(seeds).map(|(zone, seed)| (name(zone.apex), key(seed))).collect();
        let mut tree =
            Tree { served: ModelZones { zones: Vec::new(), unloaded: Vec::new(), max_chain: 8 }, keys };
        for Specified { apex, chain, .. } in &zones {
            let at = name(apex);
            let mut records = vec![record(apex, "@", Type::SOA, &soa(at.as_name(), 1), None)];
            records.push(record(apex, "@", Type::NS, &[], Some("ns.test.")));
            if *apex != "." {
                records.extend(leaf(apex));
            }
            for Specified { apex: child, ds, .. } in
                zones.iter().filter(|zone| parent(&zones, zone.apex) == Some(*apex))
            {
                records.push(record(apex, child, Type::NS, &[], Some(&format!("ns.{child}"))));
                records.extend(tree.ds(child, *ds));
            }
            if let Some(chain) = chain {
                let keys = &tree.keys[&at];
                records.extend(keys.iter().map(|key| record(apex, "@", Type::DNSKEY, &key.dnskey, None)));
                let sign = |owner, rtype, ttl, rdatas: &[Vec<u8>]| {
                    vec![tree.sign(at, owner, rtype, ttl, rdatas, validity)]
                };
                records = sign_by(at.as_name(), &records, chain, &sign);
            }
            tree.served.zones.push(ModelZone::new(at.as_name(), &records));
        }
        tree
    }

    fn ds(&self, child: &str, ds: Ds) -> Option<ModelRecord> {
        let mut rdata = self.keys[&name(child)][0].ds(name(child).as_name());
        match ds {
            Ds::Good => {}
            Ds::None => return None,
            Ds::Algorithm(algorithm) => rdata[2] = algorithm,
            Ds::Digest(digest_type) => rdata[3] = digest_type,
        }
        Some(ModelRecord { owner: name(child), rtype: Type::DS, ttl: TTL, rdata })
    }

    /// Returns a zone's key-signing key and zone-signing key.
    pub fn keys(&self, zone: NameBuf) -> &[SigningKey; 2] {
        &self.keys[&zone]
    }

    /// Signs an RRset with a key of the zone.
    pub fn sign(
        &self,
        zone: NameBuf,
        owner: NameBuf,
        rtype: Type,
        ttl: Ttl,
        rdatas: &[Vec<u8>],
        validity: Validity,
    ) -> ModelRecord {
        let [ksk, zsk] = &self.keys[&zone];
        let key = if rtype == Type::DNSKEY { ksk } else { zsk };
        key.sign(zone.as_name(), owner, rtype, ttl, rdatas, validity)
    }

    /// Returns the trust anchors for the root.
    ///
    /// # Panics
    /// Never: the root has a key.
    pub fn anchors(&self) -> TrustAnchors {
        let mut anchors = TrustAnchors::none();
        anchors.add_ds(Name::ROOT, &self.keys[&NameBuf::ROOT][0].ds(Name::ROOT)).expect("an anchor");
        anchors
    }

    /// Returns the authoritative response for a name. The same servers serve all zones, and follow CNAMEs
    /// from zone to zone.
    ///
    /// # Panics
    /// Never: the root answers for all names.
    pub fn reply(&self, name: NameBuf, qtype: Type) -> TreeReply {
        let expected = self.served.answer(name.as_name(), qtype, true).expect("an answer");
        let (rcode, mut answer, authority) = (expected.rcode, expected.answer, expected.authority);
        answer.extend(expected.one_of.into_iter().flatten());
        TreeReply { name, qtype, rcode, class: Class::IN, answer, authority }
    }

    /// Returns the response of the parent zone's servers for the name of `child`.
    ///
    /// # Panics
    /// If there is no such zone: tests call this.
    pub fn referral(&self, child: NameBuf) -> TreeReply {
        let above =
            |zone: &&ModelZone| child.as_name() != zone.apex() && child.as_name().is_at_or_below(zone.apex());
        let parent = self.served.zones.iter().filter(above).max_by_key(|zone| zone.apex().label_count());
        let zones = vec![parent.expect("a zone above").clone()];
        let served = ModelZones { zones, ..self.served.clone() };
        let expected = served.answer(child.as_name(), Type::A, true).expect("an answer");
        let (answer, authority) = (expected.answer, expected.authority);
        TreeReply { name: child, qtype: Type::A, rcode: expected.rcode, class: Class::IN, answer, authority }
    }

    /// Validates a response with default settings and unchanged zones.
    pub fn validate(&self, reply: &TreeReply) -> Ended {
        self.validate_with(reply, &ValidationSettings::default(), &mut |_, reply| Some(reply))
    }

    /// Validates a response. Each further response that is requested passes through `other`, which may
    /// replace or drop it.
    pub fn validate_with(
        &self,
        reply: &TreeReply,
        settings: &ValidationSettings,
        other: &mut dyn FnMut(&Need, TreeReply) -> Option<TreeReply>,
    ) -> Ended {
        let table = TrustTable::new(1000);
        let anchors = self.anchors();
        self.run(Validator::answer(reply.response()), settings, &anchors, &table, other)
    }

    /// Runs a validator to its end.
    pub fn run(
        &self,
        mut validator: Validator,
        settings: &ValidationSettings,
        anchors: &TrustAnchors,
        table: &TrustTable,
        other: &mut dyn FnMut(&Need, TreeReply) -> Option<TreeReply>,
    ) -> Ended {
        let mut budget = ValidationBudget::new(ValidationLimits::default());
        let by = Validation { settings, anchors, now: UNIX_NOW };
        let mut needs = Vec::new();
        loop {
            match validator.step(&by, table, &mut budget) {
                Progress::Done(validated) => return Ended { validated, budget, needs },
                // There is no other server to ask.
                Progress::Again(_) => validator.give_up(&by, table),
                Progress::Need(need) => {
                    needs.push(need);
                    let reply = self.reply(need.name().to_buf(), need.rtype());
                    match other(&need, reply) {
                        Some(reply) => validator.receive(reply.response(), &by, table),
                        None => validator.give_up(&by, table),
                    }
                }
            }
        }
    }
}

/// Returns the closest zone above `child`.
fn parent(zones: &[Specified], child: &str) -> Option<&'static str> {
    let child = name(child);
    let above = |apex: &str| child.as_name().is_at_or_below(name(apex).as_name()) && child != name(apex);
    let above = zones.iter().map(|zone| zone.apex).filter(|apex| above(apex));
    above.max_by_key(|apex| name(apex).as_name().label_count())
}
