//! Answers made of denials that were proven before (RFC 8198): nobody is asked for a name that is known not to be there.

use cache::Now;
use dnssec::{ProvenDenial, ProvenDenials, Response, Validated};
use resolver::Inquiry;
use wire::message::{Builder, Compressor, Full, Header, Offset, Owner, Section};
use wire::{Class, Ttl, Type};

use crate::message::Message;
use crate::policy::Policy;
use crate::realms::Realm;
use crate::service::{Piece, Service};

/// Room for an answer; a longer one is asked for.
const ROOM: usize = 4096;

/// The time as denials are kept by: seconds.
fn seconds(now: Now) -> u64 {
    now.since(Now::since_start(0)).into()
}

/// What was proven for one client may deny names to others, if the operator has nothing against it.
pub(crate) fn denials(policy: &Policy) -> ProvenDenials {
    ProvenDenials::new(room(policy))
}

fn room(policy: &Policy) -> usize {
    if policy.aggressive_nsec { policy.denials } else { 0 }
}

impl Service {
    /// Drops all denials that were proven under another policy.
    pub(crate) fn forget_denials(&self, policy: &Policy) {
        self.denials.clear(room(policy));
    }

    /// Takes what an answer proves not to be there, which was found secure and may be kept for `ttl`.
    pub(crate) fn learn_denial(
        &self,
        policy: &Policy,
        inquiry: &Inquiry,
        (response, validated): (&Response, &Validated),
        ttl: Ttl,
        now: Now,
    ) {
        if let Some(realm) = self.realm(policy, inquiry).filter(|realm| is_denied_in(policy, *realm)) {
            self.denials.learn(realm.number, response, validated, ttl, seconds(now));
        }
    }

    /// The answer to a question, if it is known that there is nothing.
    pub(crate) fn denied(&self, policy: &Policy, inquiry: &Inquiry, realm: Realm, now: Now) -> Option<Piece> {
        if inquiry.checking_disabled || inquiry.qclass != Class::IN || !is_denied_in(policy, realm) {
            return None;
        }
        let name = inquiry.name.as_name();
        let denial = self.denials.deny(realm.number, name, inquiry.qtype, seconds(now))?;
        let message = write(inquiry, &denial).ok()?;
        self.stats().denied.add();
        Some(Piece {
            message: Message::Own(message.into()),
            rcode: denial.rcode,
            authentic: realm.passes_ad,
            negative_ttl: Some(denial.ttl),
            stale: false,
            info: None,
        })
    }
}

fn is_denied_in(policy: &Policy, realm: Realm) -> bool {
    policy.aggressive_nsec && realm.validates
}

/// The message: the SOA, and for those who have set DO its signature and what proves it.
fn write(inquiry: &Inquiry, denial: &ProvenDenial) -> Result<Vec<u8>, Full> {
    let (mut written, mut names) = (vec![0; ROOM], Compressor::small());
    let mut header = Header::query(0).reply();
    header.set_rcode(denial.rcode);
    let mut b = Builder::new(&mut written, ROOM, header, &mut names);
    b.question(inquiry.name.as_name(), inquiry.qtype, inquiry.qclass)?;
    b.learn(inquiry.name.as_name(), Offset::QNAME);
    for set in denial.sets.iter().filter(|set| inquiry.dnssec_ok || set.rtype == Type::SOA) {
        let own = set.rdatas.iter().map(|rdata| (set.rtype, rdata));
        let signatures = set.signatures.iter().map(|signature| (Type::RRSIG, &signature.rdata));
        for (rtype, rdata) in own.chain(signatures.filter(|_| inquiry.dnssec_ok)) {
            let owner = Owner::Name(set.owner.as_name());
            b.record(Section::Authority, owner, rtype, inquiry.qclass, denial.ttl, rdata)?;
        }
    }
    let len = b.finish();
    written.truncate(len);
    Ok(written)
}
