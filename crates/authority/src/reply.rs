//! Writes RRsets into the message.
//!
//! A compiled RRset of the snapshot is already an answer: its owner is the pointer `c00c`, and its names are
//! compressed against a question for its owner. Where the owner is a suffix of QNAME, it is copied and its
//! pointers are adjusted; any other RRset is written record by record through the builder's compression
//! table.

use dnssec::nsec3::HASH_LEN;
use wire::hash::HashedName;
use wire::message::{
    Builder, Full, Header, Offset, Owner, POINTER, POINTER_LEN, Parser, QUESTION_TAIL, RDLENGTH_AT,
    RECORD_HEAD, Section, TTL_AT, rdlength,
};
use wire::{Class, LowerName, NameHash, Rcode, Ttl, Type};
use zone::store::{COMPILED_HEAD, Node, NodeAddress, NodeFlags, Nsec3Chain, Rdata, RrSet, Zone};

use crate::ask::Ask;
use crate::here::Here;
use crate::lookup::{self, LookupResult};
use crate::memo::Memo;
use crate::search;
use crate::unanswered::Unanswered;

/// Most denial records of one answer: chains of wildcards need the most.
const MAX_PROOFS: usize = 12;
/// Most denial records that one name needs (RFC 5155 §7.2.2, §7.2.5).
const MOST_PROOFS_OF_A_NAME: usize = 3;
/// Most hosts whose addresses are added to one answer.
const MAX_HOSTS: usize = 32;

/// An answer under construction.
pub(crate) struct Reply<'r, 'b, 'z> {
    b: &'r mut Builder<'b>,
    ask: &'r Ask<'r>,
    rdata: &'r mut Vec<u8>,
    /// Cached NSEC3 hashes.
    memo: &'r mut Memo,
    dnssec_ok: bool,
    /// Whether the compression table contains the question's name.
    learned: bool,
    /// Whether owners without upper-case letters are compared with the name in the message, too.
    any_case: bool,
    /// Requested denial records. Created with the first one, as is `hosts`: most answers need neither.
    proofs: Option<Few<Option<Node<'z>>, MAX_PROOFS>>,
    /// Nodes whose addresses are in the message.
    hosts: Option<Few<NodeAddress, MAX_HOSTS>>,
    /// Whether the last name is delegated, and resolved for the client.
    delegated: bool,
    /// Why there is no answer, if an RRset could not be signed.
    refused: Option<Unanswered>,
}

/// A small set.
pub(crate) struct Few<T, const N: usize> {
    items: [T; N],
    len: usize,
}

impl<T: Copy + Default + PartialEq, const N: usize> Few<T, N> {
    pub(crate) fn new() -> Self {
        Few { items: [T::default(); N], len: 0 }
    }

    /// Adds an item; returns `false` if it is present or the set is full.
    #[inline]
    pub(crate) fn add(&mut self, item: T) -> bool {
        if self.len == N || self.items[..self.len].contains(&item) {
            return false;
        }
        self.items[self.len] = item;
        self.len += 1;
        true
    }

    fn contains(&self, item: T) -> bool {
        self.items[..self.len].contains(&item)
    }
}

/// The place of an RRset in the message, for finding names in its RDATA.
pub(crate) struct Placed {
    start: Offset,
    /// Whether it is a copy of the compiled form, so that offsets in it hold.
    compiled: bool,
    /// The offset of the owner's name.
    owner_at: Offset,
}

impl Placed {
    /// Returns the offset of the owner's name.
    pub(crate) fn owner(&self) -> Offset {
        self.owner_at
    }

    /// Returns the offset in the message of the name that is `name_at` bytes into the compiled RRset, if the
    /// compiled form was copied.
    #[inline]
    fn name_at(&self, name_at: usize) -> Option<Offset> {
        self.start.plus(name_at).filter(|_| self.compiled)
    }
}

impl<'r, 'b, 'z> Reply<'r, 'b, 'z> {
    pub(crate) fn new(
        b: &'r mut Builder<'b>,
        ask: &'r Ask<'r>,
        rdata: &'r mut Vec<u8>,
        memo: &'r mut Memo,
    ) -> Self {
        Reply {
            b,
            ask,
            rdata,
            memo,
            dnssec_ok: ask.dnssec_ok,
            learned: false,
            any_case: false,
            proofs: None,
            hosts: None,
            delegated: false,
            refused: None,
        }
    }

    /// Returns the NSEC3 hash of a name that other answers may need.
    pub(crate) fn hash(&mut self, chain: Nsec3Chain<'_>, name: LowerName<'_>) -> [u8; HASH_LEN] {
        self.memo.hash(chain, name, &self.ask.hashing)
    }

    /// Returns the NSEC3 node for the current name without its `skip` leftmost labels, and whether it matches
    /// that name.
    #[inline]
    pub(crate) fn search_nsec3(
        &mut self,
        chain: Nsec3Chain<'z>,
        here: &Here<'_, 'z>,
        skip: usize,
    ) -> (Node<'z>, bool) {
        let (memo, hashing) = (&mut *self.memo, &self.ask.hashing);
        search::nsec3(chain, here.hashed, skip, here.begun, |name| memo.hash_once(chain, name, hashing))
    }

    pub(crate) fn set_rcode(&mut self, rcode: Rcode) {
        self.b.set_rcode(rcode);
    }

    /// Notes that the name is delegated, and resolved for the client.
    #[cold]
    pub(crate) fn set_delegated(&mut self) {
        self.delegated = true;
    }

    /// Whether the last name is delegated, and resolved for the client.
    #[inline]
    pub(crate) fn is_delegated(&self) -> bool {
        self.delegated
    }

    /// Notes why there is no answer, and returns what ends it.
    #[cold]
    pub(crate) fn refuse(&mut self, why: Unanswered) -> Full {
        self.refused = Some(why);
        Full
    }

    /// Returns why there is no answer.
    pub(crate) fn refused(&self) -> Option<Unanswered> {
        self.refused
    }

    pub(crate) fn set_authoritative(&mut self) {
        self.b.flags(|h| h.set_authoritative(true));
    }

    pub(crate) fn truncate(&mut self) {
        self.b.flags(|h: &mut Header| h.set_truncated(true));
    }

    /// Writes an RRset, with its signatures if the client requests them, with its owner in the zone. `at` is
    /// the owner's offset in the message, if known.
    #[inline]
    pub(crate) fn put(
        &mut self,
        section: Section,
        set: RrSet<'z>,
        at: Option<Offset>,
    ) -> Result<Placed, Full> {
        match at.or_else(|| self.offset_in_question(set.node().owner())) {
            Some(at) => self.put_at(section, set, at),
            None => self.put_named(section, set, Owner::Name(set.node().written_owner().as_name())),
        }
    }

    /// Writes an RRset with the name at offset `at` as its owner: its own owner, or the name that a wildcard
    /// matches.
    ///
    /// An owner in lower case appears in the letter case at that offset, mostly the question's: so a client
    /// that mixes letter case costs no pointer. An owner with upper-case letters appears as in the zone's
    /// source.
    #[inline]
    pub(crate) fn put_at(&mut self, section: Section, set: RrSet<'z>, at: Offset) -> Result<Placed, Full> {
        if self.is_to_compare(set.node()) && !self.is_written_at(at, set.node()) {
            return self.put_named(section, set, Owner::Name(set.node().written_owner().as_name()));
        }
        let question_end = Offset::QNAME.index() + self.ask.qname.as_lower().len();
        let within_reach = || self.b.len() + RrSet::POINTER_REACH < Offset::REACH;
        let movable = !set.has_fixups() || (at.index() < question_end && within_reach());
        let Some(pointer) = at.pointer().filter(|_| movable) else {
            return self.put_named(section, set, Owner::At(at));
        };
        let start = self.copy(section, set, at, pointer)?;
        if set.has_fixups() {
            // Both end where the question's name ends, so pointers into it move by the difference in length.
            let question = (question_end + QUESTION_TAIL) as isize - set.compiled_at() as isize;
            let own = start.index() as isize - set.compiled_at() as isize;
            if question != 0 || own != 0 {
                self.move_pointers(set, start, question, own);
            }
        }
        Ok(Placed { start, compiled: true, owner_at: at })
    }

    /// Whether the letter case must be compared before a pointer replaces the owner of `node`.
    #[inline]
    fn is_to_compare(&self, node: Node<'z>) -> bool {
        node.flags().contains(NodeFlags::CASED) || self.any_case
    }

    /// Whether the name at offset `at` has the letter case of `node`'s owner. A name that a wildcard matches
    /// has its own.
    #[cold]
    fn is_written_at(&self, at: Offset, node: Node<'z>) -> bool {
        if node.flags().contains(NodeFlags::WILDCARD) {
            return true;
        }
        let there = Parser::new(self.b.written()).and_then(|(_, mut parser)| parser.name_at(at));
        there.is_ok_and(|name| name.as_name().as_wire() == node.written_owner().as_name().as_wire())
    }

    /// From here on owners point at the targets of `set`. If targets have upper-case letters, the zone's
    /// owners may be written differently.
    #[inline]
    pub(crate) fn compare_case(&mut self, set: RrSet<'z>) {
        self.any_case |= set.has_cased_targets();
    }

    /// Writes the NS records of a cut without signatures: they are not ours to sign.
    #[inline]
    pub(crate) fn put_unsigned(&mut self, ns: RrSet<'z>, at: Option<Offset>) -> Result<Placed, Full> {
        let dnssec_ok = std::mem::replace(&mut self.dnssec_ok, false);
        let placed = self.put(Section::Authority, ns, at);
        self.dnssec_ok = dnssec_ok;
        placed
    }

    /// Copies the compiled RRset, whose owner is at offset `at`, and makes `pointer`, which points to it, the
    /// owner of its records.
    #[inline]
    fn copy(
        &mut self,
        section: Section,
        set: RrSet<'z>,
        at: Offset,
        pointer: [u8; POINTER_LEN],
    ) -> Result<Offset, Full> {
        let (bytes, mut count) = (set.records(), set.count());
        let bytes = if self.dnssec_ok {
            count += set.sig_count();
            set.records_and_sigs()
        } else {
            bytes
        };
        let start = self.b.append(bytes)?;
        self.b.add_count(section, count);
        if at != Offset::QNAME {
            point_owners(&mut self.b.written_mut()[start.index()..], pointer);
        }
        Ok(start)
    }

    /// Adjusts the pointers of a copy that starts at `start`: those into the question by `question` bytes,
    /// the others by `own`. Within reach of pointers the sum never changes the bits that make them pointers.
    fn move_pointers(&mut self, set: RrSet<'z>, start: Offset, question: isize, own: isize) {
        let written = &mut self.b.written_mut()[start.index()..];
        for fixup in set.fixups() {
            let at = fixup.at as usize;
            let shift = if fixup.to_question { question } else { own };
            let pointer = u16::from_be_bytes([written[at], written[at + 1]]);
            let moved = (pointer as isize + shift) as u16;
            written[at..at + POINTER_LEN].copy_from_slice(&moved.to_be_bytes());
        }
    }

    /// Writes an RRset record by record, where its compiled form cannot be copied.
    #[cold]
    fn put_named(&mut self, section: Section, set: RrSet<'z>, owner: Owner<'_>) -> Result<Placed, Full> {
        let (start, dnssec_ok) = (self.b.end(), self.dnssec_ok);
        let sigs = set.sig_rdatas().filter(|_| dnssec_ok).map(|r| (Type::RRSIG, r));
        let owner_at = self.put_each(section, owner, set.rdatas().map(|r| (set.rtype(), r)).chain(sigs))?;
        Ok(Placed { start, compiled: false, owner_at })
    }

    /// Writes records one by one and returns the offset of their owner's name.
    fn put_each(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        records: impl Iterator<Item = (Type, Rdata<'z>)>,
    ) -> Result<Offset, Full> {
        self.learn_question();
        let owner_at = match owner {
            Owner::At(at) => at,
            Owner::Name(_) => self.b.end(),
        };
        for (rtype, rdata) in records {
            self.rdata.clear();
            rdata.copy_to(self.rdata);
            self.b.record(section, owner, rtype, Class::IN, rdata.ttl(), self.rdata)?;
        }
        Ok(owner_at)
    }

    /// Adds one record that is not in the zone: the CNAME synthesized from a DNAME. Returns the offset of its
    /// RDATA.
    pub(crate) fn put_made(
        &mut self,
        owner_at: Offset,
        rtype: Type,
        ttl: Ttl,
        rdata: &[u8],
    ) -> Result<Offset, Full> {
        self.put_extra(Section::Answer, Owner::At(owner_at), rtype, ttl, rdata)
    }

    /// Adds one record that is not in the zone. Returns the offset of its RDATA.
    pub(crate) fn put_extra(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rtype: Type,
        ttl: Ttl,
        rdata: &[u8],
    ) -> Result<Offset, Full> {
        self.learn_question();
        self.b.record(section, owner, rtype, Class::IN, ttl, rdata)
    }

    fn learn_question(&mut self) {
        if !self.learned {
            self.learned = true;
            self.b.learn(self.ask.qname.as_lower().as_name(), Offset::QNAME);
        }
    }

    /// Returns the offset of `owner` in the message as a suffix of the question's name.
    #[inline]
    fn offset_in_question(&self, owner: LowerName<'_>) -> Option<Offset> {
        let (question, owner) = (self.ask.qname.as_lower().as_wire(), owner.as_wire());
        let cut = question.len().checked_sub(owner.len())?;
        if &question[cut..] != owner {
            return None;
        }
        // The bytes are equal; the boundary must be one between labels.
        (0..=self.ask.qname.label_count())
            .find(|&skip| self.ask.qname.offset(skip) >= cut)
            .filter(|&skip| self.ask.qname.offset(skip) == cut)?;
        Offset::QNAME.plus(cut)
    }

    /// Writes all signatures at a name, for QTYPE RRSIG. Returns whether there are any.
    pub(crate) fn put_sigs(&mut self, node: Node<'z>, owner_at: Offset) -> Result<bool, Full> {
        let mut any = false;
        let written = self.is_to_compare(node) && !self.is_written_at(owner_at, node);
        let written = written.then(|| node.written_owner());
        let owner = written.as_ref().map_or(Owner::At(owner_at), |name| Owner::Name(name.as_name()));
        for set in node.rrsets().filter(|set| set.rtype() != Type::NSEC3) {
            let own = set.rtype() == Type::RRSIG;
            let bytes = if own { set.records() } else { set.sigs() };
            if bytes.is_empty() {
                continue;
            }
            any = true;
            let Some(pointer) = owner_at.pointer().filter(|_| written.is_none()) else {
                let all = set.rdatas().filter(|_| own).chain(set.sig_rdatas());
                self.put_each(Section::Answer, owner, all.map(|r| (Type::RRSIG, r)))?;
                continue;
            };
            let start = self.b.append(bytes)?;
            self.b.add_count(Section::Answer, if own { set.count() } else { set.sig_count() });
            if owner_at != Offset::QNAME {
                point_owners(&mut self.b.written_mut()[start.index()..], pointer);
            }
        }
        Ok(any)
    }

    /// Writes SOA into the authority section, with the TTL of negative answers (RFC 2308 §3).
    pub(crate) fn put_soa(
        &mut self,
        apex: Node<'z>,
        at: Option<Offset>,
        negative_ttl: Ttl,
    ) -> Result<(), Full> {
        let Some(soa) = apex.rrset(Type::SOA) else { return Ok(()) };
        let start = self.b.len();
        self.put(Section::Authority, soa, at)?;
        if soa.ttl() != negative_ttl {
            set_ttls(&mut self.b.written_mut()[start..], negative_ttl);
        }
        Ok(())
    }

    /// Requests the denial record at `node`; it is written when the answer section is complete.
    pub(crate) fn prove(&mut self, node: Option<Node<'z>>) {
        if node.is_some() {
            self.proofs.get_or_insert_with(Few::new).add(node);
        }
    }

    /// Whether there is room for the proofs of one more name.
    pub(crate) fn can_prove_more(&self) -> bool {
        self.proofs.as_ref().map_or(0, |proofs| proofs.len) + MOST_PROOFS_OF_A_NAME <= MAX_PROOFS
    }

    /// Writes the requested denial records.
    #[inline]
    pub(crate) fn proofs(&mut self) -> Result<(), Full> {
        match &self.proofs {
            None => Ok(()),
            Some(_) => self.put_proofs(),
        }
    }

    #[inline(never)]
    fn put_proofs(&mut self) -> Result<(), Full> {
        let Some(proofs) = &mut self.proofs else { return Ok(()) };
        for i in 0..std::mem::take(&mut proofs.len) {
            let Some(node) = self.proofs.as_ref().and_then(|proofs| proofs.items[i]) else { continue };
            let set = node.rrset(Type::NSEC).or_else(|| node.rrset(Type::NSEC3));
            let Some(set) = set else { continue };
            match self.offset_in_question(node.owner()).filter(|_| !self.is_to_compare(node)) {
                Some(at) => self.put_at(Section::Authority, set, at)?,
                None => {
                    let mark = self.b.mark();
                    // Neither NSEC nor NSEC3 has names that may be compressed: a copy is enough, with its
                    // owner written out in the first record.
                    match self.put_denial(set) {
                        Ok(placed) => placed,
                        Err(Full) => {
                            self.b.rollback(mark);
                            return Err(Full);
                        }
                    }
                }
            };
        }
        Ok(())
    }

    /// Writes an RRset with its owner written out at the message's end; the records after the first point to
    /// it.
    fn put_denial(&mut self, set: RrSet<'z>) -> Result<Placed, Full> {
        let owner_at = self.b.end();
        let Some(owner_pointer) = owner_at.pointer() else {
            return self.put_named(
                Section::Authority,
                set,
                Owner::Name(set.node().written_owner().as_name()),
            );
        };
        self.put_owner(set.node())?;
        let (bytes, mut count) = (set.records_and_sigs(), set.count() + set.sig_count());
        let bytes = if self.dnssec_ok {
            bytes
        } else {
            count = set.count();
            set.records()
        };
        let start = self.b.append(&bytes[POINTER_LEN..])?.index();
        let first = compiled_len(bytes) - POINTER_LEN;
        point_owners(&mut self.b.written_mut()[start + first..], owner_pointer);
        self.b.add_count(Section::Authority, count);
        Ok(Placed { start: owner_at, compiled: false, owner_at })
    }

    /// Writes the owner of `node`, with its longest suffix that the question has as a pointer.
    #[inline]
    fn put_owner(&mut self, node: Node<'z>) -> Result<(), Full> {
        let owner = node.owner();
        let cased = node.flags().contains(NodeFlags::CASED).then(|| node.written_owner());
        let written = cased.as_ref().map_or(owner.as_wire(), |name| name.as_name().as_wire());
        let mut rest = owner;
        while let Some(parent) = rest.parent() {
            rest = parent;
            let (front, end) = written.split_at(owner.len() - rest.len());
            let at = self.offset_in_question(rest).filter(|&at| cased.is_none() || self.ends_alike(at, end));
            if let Some(pointer) = at.and_then(Offset::pointer) {
                self.b.append(front)?;
                return self.b.append(&pointer).map(|_| ());
            }
        }
        self.b.append(written).map(|_| ())
    }

    /// Whether the question's suffix at `at` can replace `end`: its letter case is the same, or `end` is in
    /// lower case.
    fn ends_alike(&self, at: Offset, end: &[u8]) -> bool {
        !end.iter().any(u8::is_ascii_uppercase) || self.b.written()[at.index()..].starts_with(end)
    }

    /// Writes addresses of the hosts that the records of `set` name, as far as they fit. With `required`,
    /// those at or below that name must fit (RFC 9471 §3.1) and come first.
    pub(crate) fn put_hosts(
        &mut self,
        zone: &'z Zone,
        set: RrSet<'z>,
        placed: &Placed,
        required: Option<Node<'z>>,
    ) -> Result<(), Full> {
        // The additional section follows the proofs, including those of earlier names of the chain.
        self.proofs()?;
        self.compare_case(set);
        if let Some(cut) = required {
            for (name_at, node) in set.hosts().filter(|(_, host)| host.owner().is_at_or_below(cut.owner())) {
                // Required hosts are written even if the list of hosts is full.
                let hosts = self.hosts.get_or_insert_with(Few::new);
                if hosts.add(node.address()) || !hosts.contains(node.address()) {
                    self.put_addresses(set, node, placed, name_at)?;
                }
            }
        }
        for (name_at, node) in set.hosts() {
            if self.hosts.get_or_insert_with(Few::new).add(node.address()) {
                // Addresses that are not required are omitted if they do not fit.
                let _ = self.put_addresses(set, node, placed, name_at);
            }
        }
        if zone.has_wildcards() {
            self.put_wildcard_hosts(zone, set, placed);
        }
        Ok(())
    }

    /// Writes addresses that a wildcard yields for hosts that do not exist in the zone.
    #[cold]
    fn put_wildcard_hosts(&mut self, zone: &'z Zone, set: RrSet<'z>, placed: &Placed) {
        let (mut hashed, mut seen) = (HashedName::new(), Few::<NameHash, MAX_HOSTS>::new());
        for target in set.targets().filter(|target| target.node.is_none()) {
            let Some(host) = set.name_at(target.name_at) else { continue };
            let host = host.as_name();
            if !host.is_at_or_below(zone.apex().as_name()) {
                continue;
            }
            hashed.set(self.ask.key, host);
            if !seen.add(hashed.hash(0)) {
                continue;
            }
            let below = host.label_count() - zone.apex().label_count();
            let LookupResult::Wildcard { node, .. } = lookup::find(zone, self.ask.key, &hashed, below, false)
            else {
                continue;
            };
            for rtype in [Type::A, Type::AAAA] {
                let Some(addresses) = node.rrset(rtype) else { continue };
                let mark = self.b.mark();
                let done = match placed.name_at(target.name_at) {
                    Some(at) => self.put_at(Section::Additional, addresses, at),
                    None => self.put_named(Section::Additional, addresses, Owner::Name(host)),
                };
                if done.is_err() {
                    self.b.rollback(mark);
                }
            }
        }
    }

    /// Writes addresses of the host at `node`, which a record of `of` names at `name_at`; for SVCB and HTTPS
    /// also the host's records of that type (RFC 9460 §4.1).
    fn put_addresses(
        &mut self,
        of: RrSet<'z>,
        node: Node<'z>,
        placed: &Placed,
        name_at: usize,
    ) -> Result<(), Full> {
        // `.` means the owner, whose name is not in the RDATA (RFC 9460 §2.5.2).
        let own = node == of.node() && of.records()[name_at] == 0;
        let service = matches!(of.rtype(), Type::SVCB | Type::HTTPS) && node != of.node();
        let at = match own {
            true => Some(placed.owner_at),
            false => {
                let usable = |at: &Offset| !self.is_to_compare(node) || self.is_written_at(*at, node);
                self.offset_in_question(node.owner()).filter(usable).or_else(|| placed.name_at(name_at))
            }
        };
        for rtype in [Type::A, Type::AAAA, of.rtype()].into_iter().take(2 + service as usize) {
            let Some(set) = node.rrset(rtype) else { continue };
            let mark = self.b.mark();
            let done = match at {
                Some(at) => self.put_at(Section::Additional, set, at),
                None => {
                    let owner = node.written_owner();
                    self.put_named(Section::Additional, set, Owner::Name(owner.as_name()))
                }
            };
            if done.is_err() {
                self.b.rollback(mark);
                return Err(Full);
            }
        }
        Ok(())
    }

    /// Returns the offset in the message of the target name in the first record of a set just written.
    pub(crate) fn target_at(&self, set: RrSet<'z>, placed: &Placed) -> Option<Offset> {
        if placed.compiled {
            return placed.name_at(set.targets().next()?.name_at);
        }
        // Written by the builder: an owner, and then the record's fixed fields.
        let owner = self.b.written().get(placed.start.index()..)?;
        placed.start.plus(name_len(owner) + RECORD_HEAD)
    }
}

/// Returns the length of the first of `records`, which are compiled.
#[inline]
fn compiled_len(records: &[u8]) -> usize {
    COMPILED_HEAD + rdlength(&records[POINTER_LEN..])
}

/// Makes `pointer` the owner of each record in `records`, which are compiled: their owners are pointers
/// already.
#[inline]
fn point_owners(mut records: &mut [u8], pointer: [u8; POINTER_LEN]) {
    while records.len() >= COMPILED_HEAD {
        records[..POINTER_LEN].copy_from_slice(&pointer);
        let len = compiled_len(records);
        records = &mut records[len..];
    }
}

/// Returns the length of the name at the start of `written`, including a pointer at its end.
fn name_len(written: &[u8]) -> usize {
    let mut at = 0;
    while written[at] != 0 {
        if written[at] >= POINTER {
            return at + POINTER_LEN;
        }
        at += written[at] as usize + 1;
    }
    at + 1
}

/// Sets the TTL of each record; owners may be names or pointers.
fn set_ttls(mut records: &mut [u8], ttl: Ttl) {
    while !records.is_empty() {
        let owner = name_len(records);
        let head = &mut records[owner..];
        head[TTL_AT..RDLENGTH_AT].copy_from_slice(&ttl.to_be_bytes());
        let len = RECORD_HEAD + rdlength(head);
        records = &mut head[len..];
    }
}
