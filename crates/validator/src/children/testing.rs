//! Messages and servers of a child zone, for tests.

use testkit::keys::{SigningKey, Validity};
use testkit::name;
use wire::message::{Builder, Compressor, MAX_MESSAGE, Owner, Section};
use wire::{Class, Header, NameBuf, Rcode, Ttl, Type, UnixTime};

use super::answers::{ChildRrset, ServerAnswer};
use super::cds::{CdsAnswers, ChildKeys};

/// The child zone of the tests.
pub(super) fn child() -> NameBuf {
    name("child.example")
}

/// The time of the tests.
pub(super) const NOW: u32 = 1_700_000_000;
pub(super) const DAY: u32 = 86_400;
const TTL: Ttl = Ttl::from_secs(3600);

pub(super) fn now() -> UnixTime {
    UnixTime::from_secs(NOW.into())
}

/// A response.
pub(super) struct Message {
    qname: NameBuf,
    qtype: Type,
    is_authoritative: bool,
    rcode: Rcode,
    records: Vec<(Section, NameBuf, Type, Vec<u8>)>,
}

impl Message {
    pub(super) fn to(qname: &str, qtype: Type) -> Message {
        let (is_authoritative, rcode) = (false, Rcode::NOERROR);
        Message { qname: name(qname), qtype, is_authoritative, rcode, records: Vec::new() }
    }

    pub(super) fn authoritative(mut self) -> Message {
        self.is_authoritative = true;
        self
    }

    pub(super) fn rcode(mut self, rcode: Rcode) -> Message {
        self.rcode = rcode;
        self
    }

    pub(super) fn answer(mut self, owner: &str, rtype: Type, rdata: &[u8]) -> Message {
        self.records.push((Section::Answer, name(owner), rtype, rdata.to_vec()));
        self
    }

    pub(super) fn authority(mut self, owner: &str, rtype: Type, rdata: &[u8]) -> Message {
        self.records.push((Section::Authority, name(owner), rtype, rdata.to_vec()));
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let (mut buffer, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
        let mut header = Header::query(1).reply();
        header.set_authoritative(self.is_authoritative);
        header.set_rcode(self.rcode);
        let mut b = Builder::new(&mut buffer, MAX_MESSAGE, header, &mut names);
        b.question(self.qname.as_name(), self.qtype, Class::IN).expect("room");
        for (section, owner, rtype, rdata) in &self.records {
            b.record(*section, Owner::Name(owner.as_name()), *rtype, Class::IN, TTL, rdata).expect("room");
        }
        let len = b.finish();
        buffer.truncate(len);
        buffer
    }
}

/// When signatures of the tests are valid.
pub(super) fn valid() -> Validity {
    Validity { inception: NOW - DAY, expiration: NOW + DAY }
}

/// An RRset of the child with signatures by these keys.
pub(super) fn rrset(rtype: Type, rdatas: &[Vec<u8>], signers: &[&SigningKey], when: Validity) -> ChildRrset {
    rrset_at("child.example", rtype, rdatas, signers, when)
}

/// An RRset at a name of the child with signatures by these keys.
pub(super) fn rrset_at(
    owner: &str,
    rtype: Type,
    rdatas: &[Vec<u8>],
    signers: &[&SigningKey],
    when: Validity,
) -> ChildRrset {
    let mut rdatas = rdatas.to_vec();
    rdatas.sort_unstable();
    let mut message = Message::to(owner, rtype).authoritative();
    for rdata in &rdatas {
        message = message.answer(owner, rtype, rdata);
    }
    for key in signers.iter().filter(|_| !rdatas.is_empty()) {
        let signature = key.sign(child().as_name(), name(owner), rtype, TTL, &rdatas, when);
        message = message.answer(owner, Type::RRSIG, &signature.rdata);
    }
    ChildRrset::read(&message.bytes(), name(owner).as_name(), rtype).expect("an authoritative response")
}

/// The denial of an RRset at a name of the child that has TXT records only, signed by a key.
pub(super) fn denied_at(owner: &str, rtype: Type, signer: &SigningKey, when: Validity) -> ChildRrset {
    let types = [0, 6, 0, 0, 0x80, 0, 0, 3];
    let nsec = [child().as_name().as_wire(), &types].concat();
    let signature =
        signer.sign(child().as_name(), name(owner), Type::NSEC, TTL, std::slice::from_ref(&nsec), when);
    let message = Message::to(owner, rtype).authoritative().authority(owner, Type::NSEC, &nsec).authority(
        owner,
        Type::RRSIG,
        &signature.rdata,
    );
    ChildRrset::read(&message.bytes(), name(owner).as_name(), rtype).expect("an authoritative response")
}

/// A child zone at one server.
pub(super) struct TestChild<'k> {
    /// The DNSKEY RRset, and which keys sign it.
    pub(super) keys: Vec<&'k SigningKey>,
    pub(super) signers: Vec<&'k SigningKey>,
    /// The keys that sign the SOA.
    pub(super) zone_signers: Vec<&'k SigningKey>,
    pub(super) cds: Vec<Vec<u8>>,
    pub(super) cdnskey: Vec<Vec<u8>>,
    /// The keys that sign CDS and CDNSKEY.
    pub(super) cds_signers: Vec<&'k SigningKey>,
    pub(super) when: Validity,
}

impl<'k> TestChild<'k> {
    /// A child with these keys, which all sign everything. It asks for DS records of the last one.
    pub(super) fn new(keys: &[&'k SigningKey]) -> TestChild<'k> {
        let last = keys.last().expect("a key");
        let all = keys.to_vec();
        TestChild {
            keys: all.clone(),
            signers: all.clone(),
            zone_signers: all.clone(),
            cds: vec![last.ds(child().as_name())],
            cdnskey: vec![last.dnskey.clone()],
            cds_signers: all,
            when: valid(),
        }
    }

    /// What a server with the child answers.
    pub(super) fn at(&self, server: &str) -> ServerAnswer<(CdsAnswers, ChildKeys)> {
        let soa = [child().as_name().as_wire(), child().as_name().as_wire(), &[0; 20]].concat();
        let dnskey: Vec<Vec<u8>> = self.keys.iter().map(|key| key.dnskey.clone()).collect();
        let answers = CdsAnswers {
            cds: rrset(Type::CDS, &self.cds, &self.cds_signers, self.when),
            cdnskey: rrset(Type::CDNSKEY, &self.cdnskey, &self.cds_signers, self.when),
        };
        let keys = ChildKeys {
            dnskey: rrset(Type::DNSKEY, &dnskey, &self.signers, self.when),
            soa: rrset(Type::SOA, &[soa], &self.zone_signers, self.when),
        };
        ServerAnswer { server: server.to_owned(), found: Ok((answers, keys)) }
    }
}
