//! The chain of trust of a chase, as text and as JSON: the records, and the keys that sign them, from the
//! trust anchor down to the answer.

use std::fmt::Write as _;

use dnssec::verify::{SignedSet, verify};
use dnssec::{algorithm, key};
use serde::Serialize;
use serde_json::{Value, json};
use validator::{
    BogusReason, Progress, ReceivedSet, ReceivedSignature, Response, Security, Trust, Validated, Validation,
    Validator,
};
use wire::edns::ErrorInfo;
use wire::message::Section;
use wire::rdata::view::{Dnskey, Ds, Rrsig};
use wire::text::write_time;
use wire::{NameBuf, Serial, Type};

use super::chase::{Chase, ChasedAnswer, budget};

/// Largest number of signatures shown per RRset, and of RRsets per response.
const MAX_SIGNATURES: usize = 8;
const MAX_SETS: usize = 16;

/// Flag of a revoked key (RFC 5011 §3).
const REVOKE: u16 = 0x0080;

/// A step of the chain.
#[derive(Debug, Default, Serialize)]
pub struct ChainStep {
    /// The owner name of the records.
    name: String,
    /// Their type, or `trust anchor`.
    what: String,
    /// A remark on the records, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ds: Vec<ShownDs>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<ShownKey>,
    /// Other records, as text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    records: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<ShownSignature>,
}

#[derive(Debug, Serialize)]
struct ShownDs {
    tag: u16,
    algorithm: String,
    digest: String,
}

#[derive(Debug, Serialize)]
struct ShownKey {
    tag: u16,
    algorithm: String,
    /// The role by the flags: `KSK`, `ZSK`, `revoked` or `no zone key`.
    role: &'static str,
    /// Whether a DS or a trust anchor refers to this key.
    trusted: bool,
}

#[derive(Debug, Serialize)]
struct ShownSignature {
    signer: String,
    tag: u16,
    algorithm: String,
    from: String,
    until: String,
    good: bool,
    verdict: String,
}

impl Chase<'_> {
    /// Returns the chain, from the top.
    pub fn chain(&self) -> Vec<ChainStep> {
        let mut learned: Vec<&Response> = self.learned.iter().collect();
        // For each zone, the DS first.
        learned.sort_by_key(|response| {
            (NameBuf::from(response.name).as_name().label_count(), response.qtype != Type::DS)
        });
        let mut steps = Vec::new();
        for response in learned {
            match response.qtype {
                Type::DNSKEY => self.key_steps(response, &mut steps),
                _ => self.ds_steps(response, &mut steps),
            }
        }
        for ChasedAnswer { response, validated } in &self.links {
            let covered = validated.covers.iter().filter_map(|at| response.sets.get(*at));
            let before = steps.len();
            steps.extend(covered.take(MAX_SETS).map(|set| self.of_set(set)));
            if steps.len() == before {
                steps.extend(
                    response
                        .sets
                        .iter()
                        .filter(|set| is_telling(set))
                        .take(MAX_SETS)
                        .map(|set| self.of_set(set)),
                );
            }
        }
        steps
    }

    fn key_steps(&self, response: &Response, steps: &mut Vec<ChainStep>) {
        let zone = NameBuf::from(response.name);
        if let Some(anchors) = self.anchors.ds(zone.as_name()) {
            let ds = anchors.iter().filter_map(|rdata| shown_ds(rdata)).collect();
            let (name, what) = (zone.to_string(), "trust anchor".to_owned());
            steps.push(ChainStep { name, what, ds, ..ChainStep::default() });
        }
        let set = answer_of(response, zone, Type::DNSKEY);
        let mut step = set.map_or_else(|| nothing(zone, Type::DNSKEY), |set| self.of_set(set));
        step.says = self.said_of(zone);
        steps.push(step);
    }

    fn ds_steps(&self, response: &Response, steps: &mut Vec<ChainStep>) {
        let name = NameBuf::from(response.name);
        let said = self.said_of_ds(response);
        let set = answer_of(response, name, Type::DS);
        let is_last = said.is_none() && set.is_some() && self.learned_of(name, Type::DNSKEY).is_none();
        let step = set.map_or_else(|| nothing(name, Type::DS), |set| self.of_set(set));
        steps.push(ChainStep { says: said, ..step });
        if set.is_none() {
            let proofs = response.sets.iter().filter(|set| is_telling(set) && set.rtype != Type::SOA);
            steps.extend(proofs.take(MAX_SETS).map(|set| self.of_set(set)));
        }
        // The DNSKEY records could not be obtained.
        if let Some(says) = self.said_of(name).filter(|_| is_last) {
            steps.push(ChainStep { says: Some(says), ..nothing(name, Type::DNSKEY) });
        }
    }

    /// Returns the state of a zone's DS records, or of the proof that there are none, if they end the chain
    /// or do not extend it. They belong to the parent zone; that the keys they refer to are bogus is stated
    /// for the keys.
    fn said_of_ds(&self, response: &Response) -> Option<String> {
        let name = NameBuf::from(response.name);
        if let Trust::NoCut | Trust::Insecure(_) = self.table.get(name.as_name(), self.now)? {
            return self.said_of(name);
        }
        let by = Validation { settings: &self.settings, anchors: self.anchors, now: self.now };
        match Validator::answer(response.clone()).step(&by, &self.table, &mut budget()) {
            Progress::Done(Validated { security: Security::Bogus(reason), .. }) => {
                Some(format!("bogus: {reason}"))
            }
            _ => None,
        }
    }

    /// Returns the state of a name, if it ends the chain or does not extend it.
    fn said_of(&self, name: NameBuf) -> Option<String> {
        match self.table.get(name.as_name(), self.now)? {
            Trust::Secure(_) | Trust::Delegated(_) => None,
            Trust::NoCut => Some("no zone begins here".into()),
            Trust::Insecure(reason) => Some(format!("insecure: {reason}")),
            Trust::Bogus(reason) => Some(format!("bogus: {reason}")),
        }
    }

    fn of_set(&self, set: &ReceivedSet) -> ChainStep {
        let mut step =
            ChainStep { name: set.owner.to_string(), what: set.rtype.to_string(), ..ChainStep::default() };
        match set.rtype {
            Type::DS => step.ds = set.rdatas.iter().filter_map(|rdata| shown_ds(rdata)).collect(),
            Type::DNSKEY => step.keys = self.shown_keys(set),
            rtype => step.records = set.rdatas.iter().map(|rdata| text_of(rtype, rdata)).collect(),
        }
        step.signatures =
            set.signatures.iter().take(MAX_SIGNATURES).map(|sig| self.shown_signature(set, sig)).collect();
        step
    }

    fn shown_keys(&self, set: &ReceivedSet) -> Vec<ShownKey> {
        let zone = set.owner.as_name();
        let from_above = || self.learned_set(set.owner, Type::DS).map(|set| set.rdatas.clone());
        let ds = self.anchors.ds(zone).or_else(from_above).unwrap_or_default();
        let ds: Vec<Ds<'_>> = ds.iter().filter_map(|rdata| Ds::read(rdata).ok()).collect();
        let keys = set.rdatas.iter().filter_map(|rdata| Dnskey::read(rdata).ok());
        keys.map(|key| ShownKey {
            tag: key::tag(&key),
            algorithm: key.algorithm.to_string(),
            role: match (key.is_zone_key(), key.is_sep()) {
                (true, true) => "KSK",
                (true, false) => "ZSK",
                (false, _) if key.flags & REVOKE != 0 => "revoked",
                (false, _) => "no zone key",
            },
            trusted: ds.iter().any(|ds| key::fits(zone, &key, ds)),
        })
        .collect()
    }

    /// Returns the DS or DNSKEY records of a name, if they were queried and exist.
    fn learned_set(&self, name: NameBuf, rtype: Type) -> Option<&ReceivedSet> {
        self.learned_of(name, rtype).and_then(|response| answer_of(response, name, rtype))
    }

    /// Returns the response to the query for these records.
    fn learned_of(&self, name: NameBuf, rtype: Type) -> Option<&Response> {
        self.learned.iter().find(|r| r.qtype == rtype && NameBuf::from(r.name) == name)
    }

    fn shown_signature(&self, set: &ReceivedSet, signature: &ReceivedSignature) -> ShownSignature {
        let Ok(sig) = Rrsig::read(&signature.rdata) else {
            let (signer, algorithm, from, until) = Default::default();
            let verdict = "malformed RRSIG".into();
            return ShownSignature { signer, tag: 0, algorithm, from, until, good: false, verdict };
        };
        let signed = SignedSet { owner: set.owner.as_name(), rtype: set.rtype, rdatas: &set.rdatas };
        let verdict = self.learned_set(sig.signer.to_buf(), Type::DNSKEY).map(|set| {
            let keys = set.rdatas.iter().filter_map(|rdata| Dnskey::read(rdata).ok());
            let keys: Vec<Dnskey<'_>> = keys.collect();
            verify(&signed, &sig, sig.signer, &keys, self.now.to_serial())
        });
        let counts = self.settings.sha1_signatures || !algorithm::uses_sha1(sig.algorithm);
        ShownSignature {
            signer: sig.signer.to_string(),
            tag: sig.key_tag,
            algorithm: sig.algorithm.to_string(),
            from: time_of(sig.inception),
            until: time_of(sig.expiration),
            good: verdict == Some(Ok(())) && counts,
            verdict: match verdict {
                None => "not verified, since the signer's keys were not needed".into(),
                Some(Ok(())) if counts => "good".into(),
                Some(Ok(())) => "good, but SHA-1 is not accepted".into(),
                Some(Err(fault)) => fault.to_string(),
            },
        }
    }
}

/// Returns an RRset of the answer section.
fn answer_of(response: &Response, name: NameBuf, rtype: Type) -> Option<&ReceivedSet> {
    let is_it = |set: &&ReceivedSet| (set.section, set.owner, set.rtype) == (Section::Answer, name, rtype);
    response.sets.iter().find(is_it)
}

/// Returns whether an RRset is part of an answer or a denial.
fn is_telling(set: &ReceivedSet) -> bool {
    set.section == Section::Answer || matches!(set.rtype, Type::NSEC | Type::NSEC3 | Type::SOA)
}

/// Returns the step for records that do not exist.
fn nothing(name: NameBuf, rtype: Type) -> ChainStep {
    ChainStep { name: name.to_string(), what: format!("no {rtype}"), ..ChainStep::default() }
}

fn shown_ds(rdata: &[u8]) -> Option<ShownDs> {
    let ds = Ds::read(rdata).ok()?;
    let digest = match ds.digest_type {
        Ds::SHA1 => "SHA-1".to_owned(),
        Ds::SHA256 => "SHA-256".to_owned(),
        Ds::SHA384 => "SHA-384".to_owned(),
        other => format!("digest type {other}"),
    };
    Some(ShownDs { tag: ds.key_tag, algorithm: ds.algorithm.to_string(), digest })
}

fn text_of(rtype: Type, rdata: &[u8]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = wire::rdata::write_text(rtype, rdata, &mut out);
    out
}

fn time_of(Serial(seconds): Serial) -> String {
    let mut out = String::new();
    let _ = write_time(seconds, &mut out);
    out
}

/// Returns the chain as zone file comments.
pub fn text(steps: &[ChainStep]) -> String {
    let mut out = String::from("\n;; CHAIN OF TRUST:\n");
    for step in steps {
        let says = step.says.as_ref().map_or(String::new(), |says| format!(": {says}"));
        let _ = writeln!(out, "; {} {}{says}", step.name, step.what);
        for ShownDs { tag, algorithm, digest } in &step.ds {
            let _ = writeln!(out, ";   key {tag} {algorithm} by {digest}");
        }
        for ShownKey { tag, algorithm, role, trusted } in &step.keys {
            let trusted = if *trusted { ", trusted by the zone above or an anchor" } else { "" };
            let _ = writeln!(out, ";   key {tag} {algorithm} {role}{trusted}");
        }
        for record in &step.records {
            let _ = writeln!(out, ";   {record}");
        }
        for ShownSignature { signer, tag, algorithm, from, until, verdict, .. } in &step.signatures {
            let _ = writeln!(out, ";   signed by {signer} {tag} {algorithm}, {from} to {until}: {verdict}");
        }
    }
    out
}

/// Returns the security of the answer in one word.
fn word(security: Security) -> &'static str {
    match security {
        Security::Secure => "secure",
        Security::Insecure(_) => "insecure",
        Security::Bogus(_) => "bogus",
        Security::Indeterminate => "indeterminate",
    }
}

fn error_of(security: Security) -> Option<ErrorInfo> {
    match security {
        Security::Bogus(reason) => Some(BogusReason::extended_error(reason)),
        Security::Insecure(reason) => reason.extended_error(),
        Security::Secure | Security::Indeterminate => None,
    }
}

fn reason_of(security: Security) -> Option<String> {
    match security {
        Security::Secure => None,
        Security::Insecure(reason) => Some(reason.to_string()),
        Security::Bogus(reason) => Some(reason.to_string()),
        Security::Indeterminate => Some("no trust anchor is above it".into()),
    }
}

/// Returns the security of the answer with its reason, such as
/// `bogus at www.broken.: no good signature: … (EDE 7, Signature Expired)`.
pub fn outcome(validated: &Validated) -> String {
    let security = validated.security;
    let mut out = word(security).to_owned();
    if let Some(reason) = reason_of(security) {
        let _ = write!(out, " at {}: {reason}", validated.at);
    }
    if let Some(error) = error_of(security) {
        let _ = write!(out, " (EDE {}, {})", error.0, error.name());
    }
    out
}

/// Returns the security of the answer with its reason as JSON.
pub fn outcome_json(validated: &Validated) -> Value {
    let security = validated.security;
    json!({
        "security": word(security),
        "at": validated.at.to_string(),
        "reason": reason_of(security),
        "EDE": error_of(security).map(|error| json!({"code": error.0, "name": error.name()})),
    })
}

#[cfg(test)]
mod tests {
    use testkit::name;
    use testkit::tree::{Tree, TreeReply, UNIX_NOW};
    use validator::Need;

    use super::*;

    /// Returns the chain of `question` in the test tree; `server` may change the replies to DS and DNSKEY
    /// queries.
    fn chain(question: &str, server: fn(&Need, TreeReply) -> Option<TreeReply>) -> String {
        let (tree, mut budget) = (Tree::new(), budget());
        let anchors = tree.anchors();
        let mut chase = Chase::new(&anchors);
        chase.now = UNIX_NOW;
        let response = tree.reply(name(question), Type::A).response();
        let mut validator = Validator::answer(response.clone());
        let validated = loop {
            let by = Validation { settings: &chase.settings, anchors: &anchors, now: chase.now };
            let need = match validator.step(&by, &chase.table, &mut budget) {
                Progress::Done(validated) => break validated,
                Progress::Need(need) => need,
                Progress::Again(_) => {
                    validator.give_up(&by, &chase.table);
                    continue;
                }
            };
            match server(&need, tree.reply(need.name().to_buf(), need.rtype())) {
                Some(reply) => {
                    chase.learned.push(reply.response());
                    validator.receive(reply.response(), &by, &chase.table);
                }
                None => validator.give_up(&by, &chase.table),
            }
        };
        chase.links.push(ChasedAnswer { response, validated });
        text(&chase.chain())
    }

    /// Returns the reply with a changed last byte in the records of this type of `test.`.
    fn forged(need: &Need, mut reply: TreeReply, rtype: Type) -> Option<TreeReply> {
        let of_test = need.name() == name("test.").as_name() && need.rtype() == rtype;
        for line in reply.answer.iter_mut().filter(|line| of_test && line.rtype == rtype) {
            *line.rdata.last_mut().expect("data") ^= 1;
        }
        Some(reply)
    }

    #[test]
    fn what_is_said_of_ds_is_theirs_and_not_that_of_the_keys_they_lead_to() {
        let good = chain("www.nsec.test.", |_, reply| Some(reply));
        assert!(!good.contains("bogus") && good.contains("; test. DS\n"), "{good}");
        let keys = chain("www.nsec.test.", |need, reply| forged(need, reply, Type::DNSKEY));
        assert!(keys.contains("; test. DS\n") && keys.contains("; test. DNSKEY: bogus: "), "{keys}");
        let ds = chain("www.nsec.test.", |need, reply| forged(need, reply, Type::DS));
        assert!(ds.contains("; test. DS: bogus: "), "{ds}");
        let none =
            chain("www.nsec.test.", |need, reply| (*need != Need::Dnskey(name("test."))).then_some(reply));
        assert!(none.contains("; test. DS\n") && none.contains("; test. no DNSKEY: bogus: "), "{none}");
    }

    #[test]
    fn the_proof_that_there_are_no_ds_stands_below_what_it_means() {
        let bare = chain("www.plain.test.", |_, reply| Some(reply));
        let (_, after) = bare.split_once("; plain.test. no DS: insecure").expect("it is not signed");
        assert!(after.contains("NSEC") && !bare.contains("bogus"), "{bare}");
    }
}
