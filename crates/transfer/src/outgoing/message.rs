//! Writes one message of a transfer: compresses names against all previous ones, and copies RRsets from the
//! snapshot in their compiled form.

use wire::bytes::copy;
use wire::message::{
    Full, HEADER_LEN, Header, MAX_MESSAGE, Offset, POINTER, POINTER_LEN, RECORD_HEAD, rdlength,
};
use wire::name::{MAX_LABELS, MAX_NAME};
use wire::{Class, LowerName, Name, Ttl, Type};
use zone::store::{COMPILED_HEAD, Node, NodeAddress, NodeFlags, RrSet};

use super::names::{MAX_TARGET_POINTERS, Standing, StandingNames};

/// Names of one RRset that later ones may point at: as many as the snapshot's compression has.
const RECORD_NAMES: usize = 64;

/// Hosts of one delegation whose positions are stored.
const MAX_HOSTS: usize = 16;

/// Most bytes that are rolled back so that records with names in common stay in one message.
const MOST_TAKEN_BACK: usize = 1024;

/// A position in a message, between two records.
#[derive(Clone, Copy)]
pub(super) struct MessageMark {
    len: usize,
    records: u16,
}

/// The compressed names in RDATA of a type (RFC 3597 §4): the bytes before them, and their number. A test
/// checks that [`wire::rdata::layout`] agrees.
#[inline]
pub(super) fn compressed_names(t: Type) -> Option<(usize, usize)> {
    match t {
        Type::NS | Type::CNAME | Type::PTR => Some((0, 1)),
        Type::MX => Some((2, 1)),
        Type::SOA | Type::MINFO => Some((0, 2)),
        Type::MD | Type::MF | Type::MB | Type::MG | Type::MR => Some((0, 1)),
        _ => None,
    }
}

/// The labels of a name: their offsets, and their positions in the message once written.
struct LabelPlaces {
    starts: [u16; MAX_LABELS + 1],
    standing: [Standing; MAX_LABELS + 1],
    count: usize,
}

impl LabelPlaces {
    fn new() -> Self {
        let (starts, standing) = ([0; MAX_LABELS + 1], [Standing::ROOT; MAX_LABELS + 1]);
        LabelPlaces { starts, standing, count: 0 }
    }

    /// Scans the labels from `bytes[at..]` on, up to a pointer, the root or `end`. Returns where they end.
    #[inline]
    fn scan(&mut self, bytes: &[u8], mut at: usize, end: usize) -> usize {
        self.count = 0;
        while at < end && self.count < MAX_LABELS {
            match bytes.get(at) {
                Some(&len) if len > 0 && len < POINTER => {
                    self.starts[self.count] = at as u16;
                    self.count += 1;
                    at += len as usize + 1;
                }
                _ => break,
            }
        }
        at
    }

    /// The position of the name that starts at offset `at` of what was scanned.
    #[inline]
    fn standing_at(&self, at: usize) -> Option<Standing> {
        let label = self.starts[..self.count].iter().position(|&start| start as usize == at)?;
        Some(self.standing[label])
    }
}

/// Buffers reused for every message, so that no message allocates.
pub(super) struct MessageScratch {
    names: StandingNames,
    /// The labels of the current owner, without those of the zone's name if its position is known.
    owner: LabelPlaces,
    /// The labels of the current name in RDATA.
    name: LabelPlaces,
    /// Nodes named by the current delegation, and their positions: in most zones their records follow it.
    hosts: Vec<(NodeAddress, Standing)>,
}

impl MessageScratch {
    pub(super) fn new() -> Self {
        MessageScratch {
            names: StandingNames::new(),
            owner: LabelPlaces::new(),
            name: LabelPlaces::new(),
            hosts: Vec::with_capacity(MAX_HOSTS),
        }
    }
}

/// A message being written; see the module. A record that does not fit leaves the message unchanged, except
/// for the names it is compressed against: the message must then be finished, or started again.
pub(super) struct TransferMessage<'b> {
    out: &'b mut [u8],
    len: usize,
    limit: usize,
    records: u16,
    scratch: &'b mut MessageScratch,
    /// The zone's name, in lower case, and its position.
    apex: LowerName<'b>,
    apex_at: Option<Standing>,
    /// Position of the current owner, if a pointer reaches it.
    owner_at: Option<Standing>,
}

impl<'b> TransferMessage<'b> {
    /// Starts a message of at most `limit` bytes in `out`, which must be large enough. `question` is empty or
    /// a question in wire form.
    pub(super) fn begin(
        out: &'b mut [u8],
        limit: usize,
        question: &[u8],
        apex: LowerName<'b>,
        scratch: &'b mut MessageScratch,
    ) -> Result<Self, Full> {
        scratch.names.clear();
        scratch.hosts.clear();
        let limit = limit.min(out.len()).min(MAX_MESSAGE);
        let apex_at = apex.as_name().is_root().then_some(Standing::ROOT);
        let mut message = TransferMessage {
            out,
            len: HEADER_LEN,
            limit,
            records: 0,
            scratch,
            apex,
            apex_at,
            owner_at: None,
        };
        if limit < HEADER_LEN {
            return Err(Full);
        }
        if !question.is_empty() {
            message.put(question)?;
            message.learn_question(question);
        }
        Ok(message)
    }

    /// Registers the name of the question; if it is the zone's name in lower case, its position is stored.
    fn learn_question(&mut self, question: &[u8]) {
        let places = &mut self.scratch.name;
        places.scan(question, 0, question.len());
        let mut parent = Standing::ROOT;
        for label in (0..places.count).rev() {
            let start = places.starts[label] as usize;
            let bytes = &question[start..=start + question[start] as usize];
            let hash = StandingNames::hash(parent, bytes);
            parent = Standing { at: (HEADER_LEN + start) as u16, depth: 0 };
            self.scratch.names.insert(hash, parent);
        }
        if question.starts_with(self.apex.as_wire()) {
            self.apex_at = Some(parent);
        }
    }

    /// Number of records written.
    pub(super) fn records(&self) -> u16 {
        self.records
    }

    /// A position at which the message may end.
    #[inline]
    pub(super) fn mark(&self) -> MessageMark {
        MessageMark { len: self.len, records: self.records }
    }

    /// Rolls back to `mark`, if that removes few bytes and leaves some records. The message must then be
    /// finished.
    pub(super) fn take_back(&mut self, mark: MessageMark) -> bool {
        let is_little = mark.records > 0 && self.len - mark.len <= MOST_TAKEN_BACK;
        if is_little {
            (self.len, self.records) = (mark.len, mark.records);
        }
        is_little
    }

    /// Writes the header, with this number of questions and additional records.
    pub(super) fn finish(self, mut header: Header, questions: u16, additional: u16) -> usize {
        header.set_counts([questions, self.records, 0, additional]);
        self.out[..HEADER_LEN].copy_from_slice(header.as_bytes());
        self.len
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.len + bytes.len();
        if end > self.limit {
            return Err(Full);
        }
        copy(&mut self.out[self.len..end], bytes);
        self.len = end;
        Ok(())
    }

    /// Appends a record of the additional section unchanged.
    pub(super) fn append(&mut self, record: &[u8], limit: usize) -> Result<(), Full> {
        self.limit = limit.min(self.out.len()).min(MAX_MESSAGE);
        self.put(record)
    }

    /// Begins the records of another owner, whose position is unknown.
    #[inline]
    pub(super) fn next_owner(&mut self) {
        self.owner_at = None;
        self.scratch.hosts.clear();
    }

    /// Begins the records of a node below a delegation. If it is one of the delegation's hosts, its name is
    /// already in the delegation's records.
    #[inline]
    pub(super) fn next_below(&mut self, node: Node<'_>) {
        let is_host = |(host, _): &&(NodeAddress, Standing)| *host == node.address();
        // An owner with upper-case letters is written without compression.
        let mut hosts = self.scratch.hosts.iter().filter(|_| !node.flags().contains(NodeFlags::CASED));
        self.owner_at = hosts.find(is_host).map(|(_, standing)| *standing);
        if self.owner_at.is_some() {
            // The positions of the labels of its name are unknown. Hardly any host has records for which they
            // matter.
            self.scratch.owner.count = 0;
        }
    }

    /// Records that the last record written names `host`.
    #[inline]
    pub(super) fn names_host(&mut self, host: NodeAddress) {
        let MessageScratch { name, hosts, .. } = &mut *self.scratch;
        let standing = name.standing[0];
        if hosts.len() < MAX_HOSTS && name.count > 0 && standing.is_within_reach() {
            hosts.push((host, standing));
        }
    }

    /// Writes the compiled record at offset `at` of the RRset's
    /// [`records_and_sigs`](RrSet::records_and_sigs), and returns the offset of the next one.
    #[inline]
    pub(super) fn compiled(
        &mut self,
        set: &RrSet<'_>,
        at: usize,
        memo: &mut RecordNames,
    ) -> Result<usize, Full> {
        let (start, known) = (self.len, self.owner_at);
        let done = self.try_compiled(set, at, memo);
        match done {
            Ok(_) => self.records += 1,
            Err(Full) => (self.len, self.owner_at) = (start, known),
        }
        done
    }

    #[inline]
    fn try_compiled(&mut self, set: &RrSet<'_>, at: usize, memo: &mut RecordNames) -> Result<usize, Full> {
        let data = set.records_and_sigs();
        let Some(head) = data.get(at + POINTER_LEN..at + COMPILED_HEAD) else { return Err(Full) };
        let rdata_at = at + COMPILED_HEAD;
        let end = rdata_at + rdlength(head);
        self.owner(set.node())?;
        // Signatures follow the records, and their names are not compressed.
        let names = compressed_names(set.rtype()).filter(|_| at < set.records().len());
        let Some((front, names)) = names.filter(|(front, _)| rdata_at + front <= end) else {
            self.put(&data[at + POINTER_LEN..end])?;
            return Ok(end);
        };
        let mut from = rdata_at + front;
        self.put(&data[at + POINTER_LEN..from])?;
        let written_at = self.len - front;
        for _ in 0..names {
            from = self.compiled_name(set, from, end, memo)?;
        }
        self.put(&data[from..end])?;
        let rdlen = (self.len - written_at) as u16;
        self.out[written_at - 2..written_at].copy_from_slice(&rdlen.to_be_bytes());
        Ok(end)
    }

    /// Writes the owner of `node`, as a pointer if its name is in the message.
    #[inline]
    fn owner(&mut self, node: Node<'_>) -> Result<(), Full> {
        if let Some(owner) = self.owner_at {
            return match owner.is_root() {
                true => self.put(&[0]),
                false => self.put(&owner.pointer()),
            };
        }
        let owner = if node.flags().contains(NodeFlags::CASED) {
            let written = node.written_owner();
            self.whole_owner(written.as_name())?
        } else {
            self.lower_owner(node.owner())?
        };
        self.owner_at = Some(owner).filter(|owner| owner.is_within_reach());
        Ok(())
    }

    fn whole_owner(&mut self, name: Name<'_>) -> Result<Standing, Full> {
        let wire = name.as_wire();
        self.scratch.owner.scan(wire, 0, wire.len());
        self.write_owner(wire, Standing::ROOT)
    }

    /// Writes an owner without upper-case letters: only the labels below the zone's name are looked up.
    #[inline]
    fn lower_owner(&mut self, name: LowerName<'_>) -> Result<Standing, Full> {
        let wire = name.as_wire();
        let below = wire.len() - self.apex.len().min(wire.len());
        if let Some(apex) = self.apex_at {
            self.scratch.owner.scan(wire, 0, below);
            return self.write_owner(wire, apex);
        }
        let owner = self.whole_owner(name.as_name())?;
        let apex = self.scratch.owner.standing_at(below);
        self.apex_at = apex.filter(|apex| apex.is_within_reach());
        Ok(owner)
    }

    #[inline]
    fn write_owner(&mut self, wire: &[u8], tail: Standing) -> Result<Standing, Full> {
        let MessageScratch { names, owner, .. } = &mut *self.scratch;
        let mut pen = Pen { out: self.out, len: self.len, limit: self.limit, names };
        let standing = pen.name(wire, owner, tail)?;
        self.len = pen.len;
        Ok(standing)
    }

    /// Writes the name at offset `from` of the compiled RRset, and returns where it ends there.
    fn compiled_name(
        &mut self,
        set: &RrSet<'_>,
        from: usize,
        end: usize,
        memo: &mut RecordNames,
    ) -> Result<usize, Full> {
        let data = set.records_and_sigs();
        let labels_end = self.scratch.name.scan(data, from, end);
        let (tail, after) = match *data.get(labels_end..end).unwrap_or_default() {
            [0, ..] => (Some(Standing::ROOT), labels_end + 1),
            [high, low, ..] if high >= POINTER => {
                let to = Offset::of_pointer([high, low]).index();
                (self.tail(set, to, memo), labels_end + POINTER_LEN)
            }
            // This is not a name: the RDATA does not have its type's format and is copied unchanged.
            _ => return Ok(from),
        };
        let Some(tail) = tail else {
            let name = set.name_at(from).ok_or(Full)?;
            let wire = name.as_name().as_wire();
            self.scratch.name.scan(wire, 0, wire.len());
            self.write_name(wire, Standing::ROOT)?;
            return Ok(after);
        };
        self.write_name(data, tail)?;
        if set.has_fixups() {
            memo.add(&self.scratch.name);
        }
        Ok(after)
    }

    #[inline]
    fn write_name(&mut self, bytes: &[u8], tail: Standing) -> Result<(), Full> {
        let MessageScratch { names, name, .. } = &mut *self.scratch;
        let mut pen = Pen { out: self.out, len: self.len, limit: self.limit, names };
        pen.name(bytes, name, tail)?;
        self.len = pen.len;
        Ok(())
    }

    /// The position of the name that a compiled RRset's pointer to `to` means, if known.
    #[inline]
    fn tail(&self, set: &RrSet<'_>, to: usize, memo: &RecordNames) -> Option<Standing> {
        let owner_len = set.node().owner().len();
        let found = match to.checked_sub(HEADER_LEN)? {
            0 => self.owner_at,
            to if to < owner_len && to == owner_len - self.apex.len() && !is_cased(set) => self.apex_at,
            to if to < owner_len => self.scratch.owner.standing_at(to),
            _ => memo.standing_at(to.checked_sub(set.compiled_at())?),
        };
        found.filter(|standing| standing.is_within_reach() && !standing.is_root())
    }

    /// Writes a record that is not in a snapshot; `rdata` is uncompressed.
    pub(super) fn record(&mut self, owner: Name<'_>, t: Type, ttl: Ttl, rdata: &[u8]) -> Result<(), Full> {
        let start = self.len;
        self.owner_at = None;
        let done = self.try_record(owner, t, ttl, rdata);
        match done {
            Ok(()) => self.records += 1,
            Err(Full) => self.len = start,
        }
        done
    }

    fn try_record(&mut self, owner: Name<'_>, t: Type, ttl: Ttl, rdata: &[u8]) -> Result<(), Full> {
        self.plain_name(owner)?;
        let mut head = [0; RECORD_HEAD];
        head[..2].copy_from_slice(&t.0.to_be_bytes());
        head[2..4].copy_from_slice(&Class::IN.0.to_be_bytes());
        head[4..8].copy_from_slice(&ttl.to_be_bytes());
        self.put(&head)?;
        let (rdata_at, mut done) = (self.len, 0);
        let (front, names) = compressed_names(t).unwrap_or((0, 0));
        if names > 0 && front <= rdata.len() {
            self.put(&rdata[..front])?;
            done = front;
            for _ in 0..names {
                let Ok(name) = Name::parse(&rdata[done..]) else { break };
                self.plain_name(name)?;
                done += name.len();
            }
        }
        self.put(&rdata[done..])?;
        let rdlen = u16::try_from(self.len - rdata_at).map_err(|_| Full)?;
        self.out[rdata_at - 2..rdata_at].copy_from_slice(&rdlen.to_be_bytes());
        Ok(())
    }

    fn plain_name(&mut self, name: Name<'_>) -> Result<(), Full> {
        let wire = name.as_wire();
        self.scratch.name.scan(wire, 0, wire.len());
        self.write_name(wire, Standing::ROOT)
    }
}

#[inline]
fn is_cased(set: &RrSet<'_>) -> bool {
    set.node().flags().contains(NodeFlags::CASED)
}

/// Positions in the message of the names in an RRset's RDATA, for later names that end in one. Valid for one
/// message.
pub(super) struct RecordNames {
    /// For each, its offset in the compiled RRset, and its position in the message.
    names: [(u16, Standing); RECORD_NAMES],
    count: usize,
}

impl RecordNames {
    pub(super) fn new() -> Self {
        RecordNames { names: [(0, Standing::ROOT); RECORD_NAMES], count: 0 }
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    #[inline]
    fn add(&mut self, name: &LabelPlaces) {
        for label in 0..name.count {
            if let Some(to) = self.names.get_mut(self.count) {
                *to = (name.starts[label], name.standing[label]);
                self.count += 1;
            }
        }
    }

    #[inline]
    fn standing_at(&self, at: usize) -> Option<Standing> {
        self.names[..self.count]
            .iter()
            .find(|(start, _)| *start as usize == at)
            .map(|(_, standing)| *standing)
    }
}

/// Writes names at the end of a message.
struct Pen<'p> {
    out: &'p mut [u8],
    len: usize,
    limit: usize,
    names: &'p mut StandingNames,
}

impl Pen<'_> {
    /// Writes the name made of the labels `places` of `bytes`, which are contiguous there, followed by the
    /// name at `tail`. Stores in `places` the position of each label, and returns the position of the whole
    /// name.
    #[inline]
    fn name(&mut self, bytes: &[u8], places: &mut LabelPlaces, tail: Standing) -> Result<Standing, Full> {
        let (mut parent, mut left, mut hash) = (tail, places.count, 0);
        while let Some(label) = left.checked_sub(1) {
            let start = places.starts[label] as usize;
            let label_bytes = &bytes[start..=start + bytes[start] as usize];
            hash = StandingNames::hash(parent, label_bytes);
            let Some(found) = self.names.find(self.out, parent, label_bytes, hash) else { break };
            (parent, left) = (found, label);
            places.standing[label] = found;
        }
        if left == 0 {
            match parent.is_root() {
                true => self.put(&[0])?,
                false => self.put(&parent.pointer())?,
            }
            return Ok(parent);
        }
        if parent.depth > MAX_TARGET_POINTERS {
            return self.name_at_length(bytes, places, left, parent);
        }
        let (first, last) = (places.starts[0] as usize, places.starts[left - 1] as usize);
        let own = &bytes[first..=last + bytes[last] as usize];
        let here = self.len;
        self.put(own)?;
        let depth = match parent.is_root() {
            true => {
                self.put(&[0])?;
                0
            }
            false => {
                self.put(&parent.pointer())?;
                parent.depth + 1
            }
        };
        for label in (0..left).rev() {
            let start = places.starts[label] as usize;
            if label + 1 < left {
                hash = StandingNames::hash(parent, &bytes[start..=start + bytes[start] as usize]);
            }
            parent = Standing { at: (here + start - first) as u16, depth };
            places.standing[label] = parent;
            if parent.is_within_reach() {
                self.names.insert(hash, parent);
            }
        }
        Ok(parent)
    }

    /// Writes a name without a pointer, because the suffix that it shares with others already needs too many
    /// pointers. Later names can point at this one.
    #[cold]
    fn name_at_length(
        &mut self,
        bytes: &[u8],
        places: &mut LabelPlaces,
        left: usize,
        parent: Standing,
    ) -> Result<Standing, Full> {
        let (first, last) = (places.starts[0] as usize, places.starts[left - 1] as usize);
        let own = &bytes[first..=last + bytes[last] as usize];
        let (mut whole, mut len) = ([0; MAX_NAME], own.len());
        whole.get_mut(..len).ok_or(Full)?.copy_from_slice(own);
        let mut at = parent.at as usize;
        while let Some(&size) = self.out[..self.len].get(at) {
            if size >= POINTER {
                let low = *self.out.get(at + 1).ok_or(Full)?;
                at = Offset::of_pointer([size, low]).index();
                continue;
            }
            let label = self.out.get(at..=at + size as usize).ok_or(Full)?;
            whole.get_mut(len..len + label.len()).ok_or(Full)?.copy_from_slice(label);
            len += label.len();
            at += label.len();
            if size == 0 {
                break;
            }
        }
        let here = self.len;
        self.put(&whole[..len])?;
        let mut all = LabelPlaces::new();
        all.scan(&whole, 0, len);
        let mut parent = Standing::ROOT;
        for label in (0..all.count).rev() {
            let start = all.starts[label] as usize;
            let hash = StandingNames::hash(parent, &whole[start..=start + whole[start] as usize]);
            parent = Standing { at: (here + start) as u16, depth: 0 };
            all.standing[label] = parent;
            if parent.is_within_reach() {
                self.names.insert(hash, parent);
            }
        }
        let count = places.count;
        places.standing[..count].copy_from_slice(&all.standing[..count]);
        Ok(parent)
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.len + bytes.len();
        if end > self.limit {
            return Err(Full);
        }
        copy(&mut self.out[self.len..end], bytes);
        self.len = end;
        Ok(())
    }
}
