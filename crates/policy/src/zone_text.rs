//! The text of a response policy zone as a list: the part of a master file that such files have, and the
//! rules of it that a list can express.
//!
//! | read | |
//! |---|---|
//! | `$ORIGIN`, `$TTL` | the TTL has no meaning: that of answers is `block-ttl` |
//! | SOA | its owner is the name of the zone |
//! | other records of the zone itself, signatures, proofs of denial | without a meaning for rules |
//! | CNAME, A, AAAA of a name or a wildcard | rules |
//!
//! Names may be relative or absolute, an owner may be left out, and records may stand in parentheses over
//! several lines. Without `$ORIGIN` and without an absolute owner of the SOA record, the name of the zone is
//! not known; then owners must be relative.

use std::fmt;

use wire::rdata::parse_text;
use wire::text::Token;
use wire::{Class, LowerName, LowerNameBuf, Name, NameBuf, Rcode, Type};

use crate::local_data::PolicyRecord;
use crate::rewrites::RewriteText;
use crate::rpz::{self, Effect, OwnerFault, Trigger, TriggerName};
use crate::rule::{RpzAction, RuleReach};

/// Most bytes of a record.
const MAX_RECORD: usize = 4096;

/// Why a record of a response policy zone is no rule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneTextFault {
    /// Not an owner, a type and data.
    Record,
    /// Neither `$ORIGIN` nor `$TTL`.
    Directive(String),
    /// The owner is no name.
    Name,
    /// The owner is absolute, and the name of the zone is not known.
    Origin,
    /// The owner is not a trigger.
    Owner(OwnerFault),
    /// The trigger is about addresses or name servers.
    Trigger(&'static str),
    /// The action is about the transport of the reply.
    Action(&'static str),
    /// A list cannot answer with such records.
    Data(String),
    /// The record has more than 4096 bytes, or a parenthesis is not closed.
    TooLong,
}

impl fmt::Display for ZoneTextFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instead = "use the zone as a [[policy.zone]]";
        match self {
            Self::Record => f.write_str("not a record: an owner, a type and its data"),
            Self::Directive(word) => write!(f, "{word} is not supported in a list"),
            Self::Name => f.write_str("the owner is not a domain name"),
            Self::Origin => f.write_str(
                "the owner ends with a dot, and the name of the zone is not known: there is no $ORIGIN before \
                 it, and the owner of the SOA record is not absolute",
            ),
            Self::Owner(fault) => fault.fmt(f),
            Self::Trigger(kind) => write!(f, "a list has no rules of the kind {kind}: {instead}"),
            Self::Action(action) => write!(f, "a list has no action {action}: {instead}"),
            Self::Data(what) => write!(f, "a list cannot answer with {what}: {instead}"),
            Self::TooLong => {
                f.write_str("the record has more than 4096 bytes, or a parenthesis is not closed")
            }
        }
    }
}
impl std::error::Error for ZoneTextFault {}

/// What a record orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZoneRule {
    /// The name is blocked.
    Block,
    /// The name has no records.
    NoData,
    /// The name is exempt.
    Passthru,
    /// The name has this record.
    Answer(RewriteText),
}

/// Whether a text looks like a zone and not like another list: the first line that is no comment is `$TTL`
/// or `$ORIGIN`, or begins with an SOA record.
pub(crate) fn is_zone(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !matches!(line, [] | [b';' | b'#' | b'!', ..])).unwrap_or_default();
    let mut words = first.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is_directive =
        |word: &[u8]| [&b"$TTL"[..], b"$ORIGIN"].iter().any(|own| own.eq_ignore_ascii_case(word));
    match words.next() {
        Some(word) if is_directive(word) => words.next().is_some(),
        _ => words.take(3).any(|word| word.eq_ignore_ascii_case(b"SOA")),
    }
}

/// Reads a zone line by line.
#[derive(Debug)]
pub(crate) struct ZoneText {
    origin: NameBuf,
    /// The name of the zone, or the root while it is not known.
    apex: LowerNameBuf,
    has_soa: bool,
    /// Whether the origin is absolute.
    is_named: bool,
    /// The last owner, and whether it was absolute.
    owner: Option<(LowerNameBuf, bool)>,
    /// The lines of a record so far, without comments and parentheses.
    record: Vec<u8>,
    /// Number of parentheses that are open.
    depth: usize,
}

impl ZoneText {
    pub(crate) fn new() -> Self {
        let root = NameBuf::from(LowerNameBuf::ROOT);
        ZoneText {
            origin: root,
            apex: LowerNameBuf::ROOT,
            has_soa: false,
            is_named: false,
            owner: None,
            record: Vec::new(),
            depth: 0,
        }
    }

    /// Whether a record goes on in the next line.
    pub(crate) fn is_open(&self) -> bool {
        self.depth > 0
    }

    /// Reads a line; returns the rule of the record that ends with it, if it is one.
    pub(crate) fn line(&mut self, line: &[u8]) -> Result<Option<(TriggerName, ZoneRule)>, ZoneTextFault> {
        if self.depth == 0 {
            self.record.clear();
            // No name of the DNS begins so in practice; files have such comments.
            if matches!(line, [b'#' | b'!', ..]) {
                return Ok(None);
            }
        }
        self.add(line)?;
        if self.depth > 0 {
            return Ok(None);
        }
        let record = std::mem::take(&mut self.record);
        let rule = self.whole(&record);
        self.record = record;
        rule
    }

    /// Adds a line to the record, without comments and parentheses.
    fn add(&mut self, line: &[u8]) -> Result<(), ZoneTextFault> {
        let (mut is_quoted, mut is_escaped) = (false, false);
        for byte in line {
            let mut byte = *byte;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                b';' if !is_quoted => break,
                b'(' if !is_quoted => (self.depth, byte) = (self.depth + 1, b' '),
                b')' if !is_quoted => {
                    self.depth = self.depth.checked_sub(1).ok_or(ZoneTextFault::Record)?;
                    byte = b' ';
                }
                _ => {}
            }
            self.record.push(byte);
        }
        self.record.push(b' ');
        if self.record.len() > MAX_RECORD {
            self.depth = 0;
            return Err(ZoneTextFault::TooLong);
        }
        Ok(())
    }

    fn whole(&mut self, record: &[u8]) -> Result<Option<(TriggerName, ZoneRule)>, ZoneTextFault> {
        let has_owner = record.first().is_some_and(|byte| !byte.is_ascii_whitespace());
        let mut words = record.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
        if words.peek().is_none() {
            return Ok(None);
        }
        let first = if has_owner { words.next() } else { None };
        if let Some([b'$', ..]) = first {
            return self.directive(first.unwrap_or_default(), words.next()).map(|()| None);
        }
        // TTL and class may be left out, and stand in any order.
        while words.next_if(|word| is_ttl(word) || is_class(word)).is_some() {}
        let rtype = words.next().ok_or(ZoneTextFault::Record)?;
        let rtype = Type::from_text(rtype).map_err(|_| ZoneTextFault::Record)?;
        if let Some(text) = first {
            let is_absolute = is_absolute(text);
            let owner = self.name(text).ok_or(ZoneTextFault::Name)?;
            if rtype == Type::SOA && !self.has_soa {
                if is_absolute && !self.is_named {
                    (self.origin, self.is_named) = (owner, true);
                }
                self.has_soa = true;
                self.apex.set(owner.as_name());
            }
            self.owner = Some((owner.as_name().to_lower(), is_absolute));
        }
        let (owner, is_absolute) = self.owner.as_ref().ok_or(ZoneTextFault::Record)?;
        let (owner, apex) = (owner.as_lower(), self.apex.as_lower());
        if owner.as_name() == apex.as_name() || is_without_meaning(rtype) {
            return Ok(None);
        }
        if *is_absolute && !self.is_named {
            return Err(ZoneTextFault::Origin);
        }
        let trigger = name_trigger(owner, apex)?;
        let data: Vec<Token<'_>> = words.map(|bytes| Token { bytes, quoted: false }).collect();
        let rule = self.rule(&trigger, rtype, &data)?;
        Ok(Some((trigger, rule)))
    }

    fn directive(&mut self, word: &[u8], value: Option<&[u8]>) -> Result<(), ZoneTextFault> {
        if word.eq_ignore_ascii_case(b"$TTL") {
            return Ok(());
        }
        if !word.eq_ignore_ascii_case(b"$ORIGIN") {
            let word = String::from_utf8_lossy(word.get(..20).unwrap_or(word));
            return Err(ZoneTextFault::Directive(word.into_owned()));
        }
        let value = value.ok_or(ZoneTextFault::Name)?;
        self.origin = self.name(value).ok_or(ZoneTextFault::Name)?;
        self.is_named |= is_absolute(value);
        if !self.has_soa && self.apex.as_lower().as_name().is_root() {
            self.apex.set(self.origin.as_name());
        }
        Ok(())
    }

    /// Reads a name in relation to the origin.
    fn name(&self, text: &[u8]) -> Option<NameBuf> {
        match text {
            b"@" => Some(self.origin),
            _ => NameBuf::from_text(text, Some(self.origin.as_name())).ok(),
        }
    }

    fn rule(
        &self,
        trigger: &TriggerName,
        rtype: Type,
        data: &[Token<'_>],
    ) -> Result<ZoneRule, ZoneTextFault> {
        if !matches!(rtype, Type::CNAME | Type::A | Type::AAAA) {
            return Err(ZoneTextFault::Data(format!("records of type {rtype}")));
        }
        let mut rdata = Vec::new();
        parse_text(rtype, data, Some(self.origin.as_name()), &mut rdata)
            .map_err(|_| ZoneTextFault::Record)?;
        // The old form of rpz-passthru. is a CNAME to the name of the trigger.
        let own_name = match trigger.reach {
            RuleReach::Name => trigger.name().as_name(),
            _ => Name::ROOT,
        };
        let record = PolicyRecord { rtype, ttl: wire::Ttl::MAX, rdata: &rdata };
        match rpz::effect(own_name, &[record]).ok_or(ZoneTextFault::Record)? {
            Effect::Action(RpzAction::NxDomain) => Ok(ZoneRule::Block),
            Effect::Action(RpzAction::NoData) => Ok(ZoneRule::NoData),
            Effect::Action(RpzAction::Passthru) => Ok(ZoneRule::Passthru),
            Effect::Action(RpzAction::Drop) => Err(ZoneTextFault::Action("rpz-drop.")),
            Effect::Action(RpzAction::TcpOnly) => Err(ZoneTextFault::Action("rpz-tcp-only.")),
            Effect::Action(RpzAction::LocalData(_)) => Err(ZoneTextFault::Record),
            Effect::Data(_) if rdata.starts_with(b"\x01*") && rtype == Type::CNAME => {
                Err(ZoneTextFault::Data("an alias to a wildcard".into()))
            }
            Effect::Data(_) => Ok(ZoneRule::Answer(RewriteText::Record(rtype, rdata))),
        }
    }
}

/// The answer without records.
pub(crate) const NO_DATA: RewriteText = RewriteText::Code(Rcode::NOERROR);

/// Returns the trigger of an owner, if it is about names.
fn name_trigger(owner: LowerName<'_>, apex: LowerName<'_>) -> Result<TriggerName, ZoneTextFault> {
    match rpz::trigger(owner, apex).map_err(ZoneTextFault::Owner)? {
        Some(Trigger::Qname(name)) => Ok(name),
        Some(Trigger::ClientIp(_)) => Err(ZoneTextFault::Trigger("rpz-client-ip")),
        Some(Trigger::Ip(_)) => Err(ZoneTextFault::Trigger("rpz-ip")),
        Some(Trigger::NsDname(_)) => Err(ZoneTextFault::Trigger("rpz-nsdname")),
        Some(Trigger::NsIp(_)) => Err(ZoneTextFault::Trigger("rpz-nsip")),
        None => Err(ZoneTextFault::Record),
    }
}

/// Whether records of this type are neither rules nor data.
fn is_without_meaning(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::SOA
            | Type::RRSIG
            | Type::NSEC
            | Type::NSEC3
            | Type::NSEC3PARAM
            | Type::DNSKEY
            | Type::DS
            | Type::ZONEMD
    )
}

/// Whether a name in text form ends with the dot of the root.
fn is_absolute(text: &[u8]) -> bool {
    text.strip_suffix(b".").is_some_and(|rest| {
        let escapes = rest.iter().rev().take_while(|byte| **byte == b'\\').count();
        escapes % 2 == 0
    })
}

/// Whether a word is a TTL: a number, maybe with units.
fn is_ttl(word: &[u8]) -> bool {
    word.first().is_some_and(u8::is_ascii_digit)
        && word.iter().all(|byte| byte.is_ascii_digit() || b"smhdwSMHDW".contains(byte))
}

fn is_class(word: &[u8]) -> bool {
    Class::from_text(word).is_ok()
}
