//! [`Response`]: a response as RRsets with their signatures.

use std::collections::BTreeMap;

use wire::message::{Parser, Section};
use wire::rdata::{self, view::Rrsig};
use wire::{Class, LowerNameBuf, Malformed, Name, NameBuf, Rcode, Ttl, Type};

/// A parsed response: the answer and authority sections in class IN, grouped into RRsets. The additional
/// section is ignored, since nothing in it is ever validated.
#[derive(Clone, Debug)]
pub struct Response {
    /// QNAME.
    pub name: LowerNameBuf,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// The response code, extended by OPT.
    pub rcode: Rcode,
    /// RRsets in the order of their first records.
    pub sets: Vec<ReceivedSet>,
}

/// An RRset of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSet {
    /// Answer or authority.
    pub section: Section,
    /// Owner name, in the letter case of its first record.
    pub owner: NameBuf,
    /// The type; never RRSIG, nor a type that zones cannot hold.
    pub rtype: Type,
    /// The smallest TTL of its records.
    pub ttl: Ttl,
    /// Each distinct RDATA, uncompressed, in canonical form and order (RFC 4034 §6.2, §6.3).
    pub rdatas: Vec<Vec<u8>>,
    /// The RRSIGs that cover it, whatever their content.
    pub signatures: Vec<ReceivedSignature>,
}

/// An RRSIG record of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSignature {
    /// Its TTL.
    pub ttl: Ttl,
    /// Its RDATA, well formed or not.
    pub rdata: Vec<u8>,
}

impl ReceivedSignature {
    /// The signer, if the RDATA is well formed.
    pub(crate) fn signer(&self) -> Option<Name<'_>> {
        Rrsig::read(&self.rdata).ok().map(|sig| sig.signer)
    }
}

/// The key of an RRset: section, owner and type.
type Place = (u16, NameBuf, Type);

impl Response {
    /// Parses a message; `rcode` is its response code, extended by OPT. Skips records of other classes and of
    /// types that zones cannot hold.
    ///
    /// # Errors
    /// [`Malformed`] if the message does not have exactly one question, is truncated, or has RDATA that does
    /// not match its type's format.
    pub fn read(message: &[u8], rcode: Rcode) -> Result<Response, Malformed> {
        let (header, mut parser) = Parser::new(message)?;
        let [questions, answers, authorities, _] = header.counts();
        if questions != 1 || !header.is_response() {
            return Err(Malformed);
        }
        let question = parser.question()?;
        let mut response = Response {
            name: question.name.to_lower(),
            qtype: question.qtype,
            qclass: question.qclass,
            rcode,
            sets: Vec::new(),
        };
        let mut places = BTreeMap::new();
        let mut signatures: Vec<(Place, ReceivedSignature)> = Vec::new();
        for at in 0..answers as u32 + authorities as u32 {
            let section = if at < answers as u32 { Section::Answer } else { Section::Authority };
            let record = parser.record()?;
            if record.class != Class::IN || record.rtype.is_meta() {
                continue;
            }
            let owner = parser.name_at(record.owner_at)?;
            let mut data = Vec::with_capacity(record.rdata.len());
            parser.expand_rdata(&record, &mut data)?;
            if record.rtype == Type::RRSIG {
                let covered = Rrsig::read_type_covered(&data)?;
                let signature = ReceivedSignature { ttl: record.ttl(), rdata: data };
                signatures.push(((section as u16, owner, covered), signature));
                continue;
            }
            rdata::validate(record.rtype, &data)?;
            rdata::canonical(record.rtype, &mut data);
            response.add(&mut places, section, owner, record.rtype, record.ttl(), data);
        }
        for (place, signature) in signatures {
            let set = places.get(&place).and_then(|at: &usize| response.sets.get_mut(*at));
            set.into_iter().for_each(|set| set.signatures.push(signature.clone()));
        }
        for set in &mut response.sets {
            set.rdatas.sort_unstable();
            set.rdatas.dedup();
        }
        Ok(response)
    }

    fn add(
        &mut self,
        places: &mut BTreeMap<Place, usize>,
        section: Section,
        owner: NameBuf,
        rtype: Type,
        ttl: Ttl,
        rdata: Vec<u8>,
    ) {
        let at = *places.entry((section as u16, owner, rtype)).or_insert(self.sets.len());
        match self.sets.get_mut(at) {
            Some(set) => {
                set.ttl = set.ttl.min(ttl);
                set.rdatas.push(rdata);
            }
            None => {
                let (rdatas, signatures) = (vec![rdata], Vec::new());
                self.sets.push(ReceivedSet { section, owner, rtype, ttl, rdatas, signatures });
            }
        }
    }

    /// Index of the RRset with this owner and type.
    pub(crate) fn find(&self, section: Section, owner: Name<'_>, rtype: Type) -> Option<usize> {
        let is_it =
            |set: &ReceivedSet| set.section == section && set.rtype == rtype && set.owner.as_name() == owner;
        self.sets.iter().position(is_it)
    }
}
