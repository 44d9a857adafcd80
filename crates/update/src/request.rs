//! [`UpdateRequest`]: zone, prerequisites and updates of a message. Makes all checks that do not need the
//! zone's content (RFC 2136 §3.1.1, §3.2.5, §3.4.1).

use wire::message::{Malformed, Parser, RawRecord};
use wire::{Class, LowerName, LowerNameBuf, Name, NameBuf, Opcode, Ttl, Type, rdata};

use crate::fault::{UpdateFault, UpdateFaultKind as Kind};

/// Limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateLimits {
    /// Prerequisites and updates together.
    pub records: usize,
}

impl Default for UpdateLimits {
    /// 1,000 records.
    fn default() -> Self {
        UpdateLimits { records: 1000 }
    }
}

/// A condition on the zone (RFC 2136 §2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// The name has at least one record (§2.4.4). An empty non-terminal has none.
    NameInUse(NameBuf),
    /// The name has no record (§2.4.5).
    NameNotInUse(NameBuf),
    /// The RRset exists, whatever its records (§2.4.1).
    RrsetExists(NameBuf, Type),
    /// The RRset does not exist (§2.4.3).
    NoRrset(NameBuf, Type),
    /// A record of an RRset that must have exactly the records listed for its name and type, regardless of
    /// TTLs (§2.4.2).
    RrsetHas {
        /// The owner.
        owner: NameBuf,
        /// The type.
        rtype: Type,
        /// RDATA, uncompressed.
        rdata: Vec<u8>,
    },
}

/// A change (RFC 2136 §2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Adds a record to its RRset (§2.5.1).
    Add {
        /// The owner.
        owner: NameBuf,
        /// The type.
        rtype: Type,
        /// The TTL, which the whole RRset gets (RFC 2181 §5.2).
        ttl: Ttl,
        /// RDATA, uncompressed and well formed.
        rdata: Vec<u8>,
    },
    /// Deletes an RRset (§2.5.2).
    DeleteRrset(NameBuf, Type),
    /// Deletes all RRsets of a name (§2.5.3).
    DeleteName(NameBuf),
    /// Deletes a record from its RRset (§2.5.4).
    Delete {
        /// The owner.
        owner: NameBuf,
        /// The type.
        rtype: Type,
        /// RDATA, uncompressed and well formed.
        rdata: Vec<u8>,
    },
}

impl Update {
    /// The name and the type that change; ANY for all types.
    pub fn target(&self) -> (Name<'_>, Type) {
        match self {
            Update::Add { owner, rtype, .. }
            | Update::Delete { owner, rtype, .. }
            | Update::DeleteRrset(owner, rtype) => (owner.as_name(), *rtype),
            Update::DeleteName(owner) => (owner.as_name(), Type::ANY),
        }
    }
}

/// A well-formed request to change a zone of class IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRequest {
    zone: LowerNameBuf,
    prerequisites: Vec<Prerequisite>,
    updates: Vec<Update>,
}

impl UpdateRequest {
    /// Parses a message of opcode UPDATE. Does not verify its signature (RFC 8945).
    ///
    /// Accepts RDATA of unknown types as it is (RFC 3597).
    ///
    /// # Errors
    /// [`UpdateFault`]: FORMERR, NOTZONE, NOTAUTH for a zone of another class, or REFUSED beyond the limits.
    /// The first fault in the order of the message is reported.
    pub fn read(message: &[u8], limits: UpdateLimits) -> Result<UpdateRequest, UpdateFault> {
        let (header, mut parser) = Parser::new(message)?;
        let [zones, prerequisites, updates, additional] = header.counts();
        if header.opcode() != Opcode::UPDATE || header.is_response() {
            return Err(Kind::Malformed.into());
        }
        if zones != 1 {
            return Err(Kind::ZoneSection.into());
        }
        let zone = parser.question()?;
        if zone.qtype != Type::SOA {
            return Err(Kind::ZoneSection.into());
        }
        if zone.qclass != Class::IN {
            return Err(Kind::OtherZone.into());
        }
        if prerequisites as usize + updates as usize > limits.records {
            return Err(Kind::TooManyRecords.into());
        }
        let mut request =
            UpdateRequest { zone: zone.name.to_lower(), prerequisites: Vec::new(), updates: Vec::new() };
        for _ in 0..prerequisites {
            let record = Record::read(&mut parser, zone.name)?;
            request.prerequisites.push(record.prerequisite()?);
        }
        for _ in 0..updates {
            let record = Record::read(&mut parser, zone.name)?;
            request.updates.push(record.update()?);
        }
        for _ in 0..additional {
            parser.record()?;
        }
        match parser.at_end() {
            true => Ok(request),
            false => Err(Kind::Malformed.into()),
        }
    }

    /// Creates a request from its parts, for callers that change a zone without a message. All names must be
    /// at or below `zone`, RDATA well formed, and no type [a meta type](Type::is_meta). The
    /// [`Updater`](crate::Updater) does not check this, but the zone will reject such records.
    pub fn of(zone: LowerName<'_>, prerequisites: Vec<Prerequisite>, updates: Vec<Update>) -> UpdateRequest {
        UpdateRequest { zone: zone.to_buf(), prerequisites, updates }
    }

    /// The name of the zone to change.
    pub fn zone(&self) -> LowerName<'_> {
        self.zone.as_lower()
    }

    /// The prerequisites.
    pub fn prerequisites(&self) -> &[Prerequisite] {
        &self.prerequisites
    }

    /// The changes, in order.
    pub fn updates(&self) -> &[Update] {
        &self.updates
    }
}

/// A record of the prerequisite or the update section, in the zone.
struct Record<'p, 'm> {
    parser: &'p mut Parser<'m>,
    raw: RawRecord,
    owner: NameBuf,
}

impl<'p, 'm> Record<'p, 'm> {
    /// Parses a record; its owner must be at or below `zone`.
    fn read(parser: &'p mut Parser<'m>, zone: Name<'_>) -> Result<Self, UpdateFault> {
        let raw = parser.record()?;
        let owner = parser.name_at(raw.owner_at)?;
        if !owner.as_name().is_at_or_below(zone) {
            return Err(Kind::OutOfZone.of(owner.as_name(), raw.rtype));
        }
        Ok(Record { parser, raw, owner })
    }

    /// Parses a prerequisite (RFC 2136 §3.2.5).
    fn prerequisite(self) -> Result<Prerequisite, UpdateFault> {
        let (owner, rtype, class) = (self.owner, self.raw.rtype, self.raw.class);
        self.require(self.raw.ttl_field == [0; 4], Kind::Ttl)?;
        if class == Class::IN {
            return Ok(Prerequisite::RrsetHas { owner, rtype, rdata: self.data()? });
        }
        self.require(class == Class::ANY || class == Class::NONE, Kind::Class)?;
        self.require(self.raw.rdata.is_empty(), Kind::DataNotEmpty)?;
        Ok(match (class == Class::ANY, rtype) {
            (true, Type::ANY) => Prerequisite::NameInUse(owner),
            (true, _) => Prerequisite::RrsetExists(owner, rtype),
            (false, Type::ANY) => Prerequisite::NameNotInUse(owner),
            (false, _) => Prerequisite::NoRrset(owner, rtype),
        })
    }

    /// Parses an update (RFC 2136 §3.4.1.2).
    fn update(self) -> Result<Update, UpdateFault> {
        let (owner, rtype, class) = (self.owner, self.raw.rtype, self.raw.class);
        let deletes = class == Class::ANY || class == Class::NONE;
        self.require(deletes || class == Class::IN, Kind::Class)?;
        self.require(!rtype.is_meta() || class == Class::ANY && rtype == Type::ANY, Kind::MetaType)?;
        self.require(!deletes || self.raw.ttl_field == [0; 4], Kind::Ttl)?;
        if class != Class::ANY {
            let ttl = self.raw.ttl();
            let rdata = self.data()?;
            return Ok(match class {
                Class::IN => Update::Add { owner, rtype, ttl, rdata },
                _ => Update::Delete { owner, rtype, rdata },
            });
        }
        self.require(self.raw.rdata.is_empty(), Kind::DataNotEmpty)?;
        Ok(match rtype {
            Type::ANY => Update::DeleteName(owner),
            _ => Update::DeleteRrset(owner, rtype),
        })
    }

    fn require(&self, holds: bool, kind: Kind) -> Result<(), UpdateFault> {
        if holds { Ok(()) } else { Err(kind.of(self.owner.as_name(), self.raw.rtype)) }
    }

    /// RDATA, uncompressed and well formed.
    fn data(self) -> Result<Vec<u8>, UpdateFault> {
        let (mut data, rtype) = (Vec::new(), self.raw.rtype);
        let read = self.parser.expand_rdata(&self.raw, &mut data);
        read.and_then(|()| rdata::validate(rtype, &data))
            .map_err(|Malformed| Kind::BadData.of(self.owner.as_name(), rtype))?;
        Ok(data)
    }
}
