//! The answers that rules of response policy zones make.

use policy::{AnswerSources, Match, PolicyQuery, Rewrites, SourceId, SourceMask};
use query_path::{GroupClient, RuleNote, RuleTrigger};
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Full, Offset, Owner, Parser, Section};
use wire::{Class, Malformed, Name, NameBuf, Rcode, Ttl, Type};

use crate::policy_rules::{PolicyRules, hash_target, soa};
use crate::rewrite_state::address;
use crate::rpz::{PolicyZone, RewriteKind, RpzOrder, TargetTooLong, noted_trigger, substituted};

impl PolicyRules {
    /// Returns the zone that has the rule.
    pub fn zone(&self, of: &Match) -> Option<&PolicyZone> {
        self.zones().get(usize::from(of.rule.source.0))
    }

    /// Returns what clients get by the rule: the label of its action, with the operator's override.
    pub fn action_label(&self, of: &Match) -> Option<&'static str> {
        let kind = self.zone(of)?.order(of).kind();
        RewriteKind::ALL.iter().find(|(other, _)| *other == kind).map(|(_, label)| *label)
    }

    /// Returns what logs receive of the rule of a zone, which orders this.
    pub(crate) fn note_order(&self, rule: &Match, order: RpzOrder<'_>) -> Option<RuleNote> {
        self.note(rule.rule.source, order.noted(), noted_trigger(rule.trigger))
    }

    /// Whether a rule about a query name cannot be applied before there is an answer: an earlier zone has
    /// rules about answers, or signed answers are not rewritten for this client.
    pub(crate) fn must_wait(&self, rule: &Match, of: &SourceMask, dnssec_ok: bool) -> bool {
        let of_answers = self.rules().of_answers();
        let all = [&of_answers.ip, &of_answers.ns_names, &of_answers.ns_ips];
        let options = self.options();
        options.qname_wait_recurse
            || (dnssec_ok && !options.break_dnssec)
            || all.iter().any(|sources| sources.has_before(rule.rule.source, of))
    }

    /// Counts a query that a zone exempts.
    pub(crate) fn count_exempt(&self, zone: SourceId) {
        if let Some(zone) = self.zones().get(usize::from(zone.0)) {
            zone.counts.of(RewriteKind::Passthru).add();
        }
    }

    /// Counts a query that a disabled zone has a rule about.
    #[inline]
    pub(crate) fn count_disabled(&self, query: &PolicyQuery<'_>) {
        if *self.disabled() == SourceMask::default() {
            return;
        }
        let found = self.rules().of_query(query, self.disabled()).rpz;
        if let Some(zone) = found.and_then(|rule| self.zone(&rule)) {
            zone.counts.of(RewriteKind::Disabled).add();
        }
    }

    /// Whether answers are compared with rules about name servers.
    #[inline]
    pub(crate) fn needs_servers(&self, of: &SourceMask) -> bool {
        let AnswerSources { ns_names, ns_ips, .. } = self.rules().of_answers();
        ns_names.meets(of) || ns_ips.meets(of)
    }

    /// Whether an answer may have what a rule is about: it begins with an alias, or there are rules about
    /// addresses. Its records begin at `from`.
    #[inline]
    pub(crate) fn look_at(&self, message: &[u8], from: Offset, answers: u16) -> bool {
        if answers == 0 || self.rules().of_answers().ip.meets(&SourceMask::ALL) {
            return answers > 0;
        }
        let Ok((_, mut parser)) = Parser::new(message) else { return false };
        parser.seek(from);
        let first = parser.record().map(|record| record.rtype);
        matches!(first, Ok(Type::CNAME | Type::DNAME | Type::RRSIG))
    }

    /// Whether a policy zone has a rule about an alias or an address of an answer.
    ///
    /// `message` has one question and `answers` records in its answer section; its header may be unwritten.
    #[inline]
    pub(crate) fn has_rule_about_answer(
        &self,
        key: &HashKey,
        client: GroupClient<'_>,
        message: &[u8],
        answers: u16,
    ) -> bool {
        // A malformed message is no answer of ours.
        !self.zones().is_empty()
            && self.matches_answer(key, self.sources_of(client), message, answers).unwrap_or(false)
    }

    fn matches_answer(
        &self,
        key: &HashKey,
        sources: &SourceMask,
        message: &[u8],
        answers: u16,
    ) -> Result<bool, Malformed> {
        let (_, mut parser) = Parser::new(message)?;
        let (mut hashed, mut far) = (HashedName::new(), Vec::new());
        parser.question()?;
        for _ in 0..answers {
            let record = parser.record()?;
            let rdata = message.get(record.rdata.clone()).ok_or(Malformed)?;
            if let Some(address) = address(record.rtype, rdata) {
                if self.rules().of_answer(address, sources).is_some() {
                    return Ok(true);
                }
            } else if record.rtype == Type::CNAME {
                hash_target(key, &mut parser, &record, &mut hashed, &mut far)?;
                let query = PolicyQuery { name: &hashed, qtype: Type::CNAME, client: None, group: None };
                if self.decide(&query, sources).rpz.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the target of the alias that a rule makes of a name, if it makes one for this type.
    pub(crate) fn alias(
        &self,
        order: RpzOrder<'_>,
        name: Name<'_>,
        qtype: Type,
    ) -> Option<Result<NameBuf, TargetTooLong>> {
        if matches!(qtype, Type::CNAME | Type::ANY) {
            return None;
        }
        self.cname(order, name).map(|(target, _)| target)
    }

    /// Returns the target and the TTL of the CNAME record that a rule makes of a name.
    fn cname(&self, order: RpzOrder<'_>, name: Name<'_>) -> Option<(Result<NameBuf, TargetTooLong>, Ttl)> {
        let (target, ttl) = match order {
            RpzOrder::Cname(target) => (*target, self.ttl()),
            RpzOrder::Data(data) => {
                let record = self.rules().local_data(data).find(|record| record.rtype == Type::CNAME)?;
                (Name::from_wire(record.rdata).ok()?.to_buf(), record.ttl)
            }
            RpzOrder::Rewrites(rewrites) => {
                let mut records = rewrites.records().flat_map(|data| self.rules().local_data(data));
                let record = records.find(|record| record.rtype == Type::CNAME)?;
                // A name of a list is taken as it is.
                return Some((Ok(Name::from_wire(record.rdata).ok()?.to_buf()), record.ttl));
            }
            _ => return None,
        };
        Some((substituted(name, &target), ttl))
    }

    /// Writes the records that a rule makes of a name, and sets the response code.
    pub(crate) fn write_order(
        &self,
        zone: &PolicyZone,
        order: RpzOrder<'_>,
        name: Name<'_>,
        qtype: Type,
        b: &mut Builder<'_>,
    ) -> Result<(), Full> {
        b.set_rcode(if order == RpzOrder::NxDomain { Rcode::NXDOMAIN } else { Rcode::NOERROR });
        let mut add = |rtype, ttl: Ttl, rdata: &[u8]| {
            let ttl = ttl.min(zone.max_ttl);
            b.record(Section::Answer, Owner::Name(name), rtype, Class::IN, ttl, rdata).map(drop)
        };
        match (self.cname(order, name), order) {
            (Some((Ok(target), ttl)), _) => add(Type::CNAME, ttl, target.as_name().as_wire())?,
            (Some((Err(TargetTooLong), _)), _) => b.set_rcode(Rcode::YXDOMAIN),
            (None, RpzOrder::Data(data)) => {
                for record in self.rules().local_data(data) {
                    if record.rtype == qtype || qtype == Type::ANY {
                        add(record.rtype, record.ttl, record.rdata)?;
                    }
                }
            }
            (None, RpzOrder::Rewrites(rewrites)) => {
                for record in rewrites.records().flat_map(|data| self.rules().local_data(data)) {
                    if record.rtype == qtype || qtype == Type::ANY {
                        add(record.rtype, record.ttl, record.rdata)?;
                    }
                }
                self.end_rewrite(rewrites, name, b)?;
            }
            (None, _) => {}
        }
        write_soa(zone, b)
    }

    /// Sets the response code of an answer of lists, and adds an SOA record if there is no other record,
    /// so that clients cache it (RFC 2308 §5).
    fn end_rewrite(&self, rewrites: &Rewrites, name: Name<'_>, b: &mut Builder<'_>) -> Result<(), Full> {
        let code = rewrites.code.unwrap_or(Rcode::NOERROR);
        b.set_rcode(code);
        let is_denial = matches!(code, Rcode::NOERROR | Rcode::NXDOMAIN);
        if !is_denial || b.count(Section::Answer) > 0 {
            return Ok(());
        }
        let ttl = self.ttl();
        b.record(Section::Authority, Owner::Name(name), Type::SOA, Class::IN, ttl, &soa(ttl)).map(drop)
    }

    /// Returns what logs receive of an answer of lists.
    pub(crate) fn note_rewrite(&self, rewrites: &Rewrites) -> Option<RuleNote> {
        self.note(rewrites.source, RpzOrder::Rewrites(rewrites).noted(), RuleTrigger::Qname)
    }
}

/// Writes the SOA record of a zone that has rewritten an answer.
pub(crate) fn write_soa(zone: &PolicyZone, b: &mut Builder<'_>) -> Result<(), Full> {
    let Some((ttl, soa)) = &zone.soa else { return Ok(()) };
    // In the authority section it would be a denial for caches, by a zone that the name is not in.
    let owner = Owner::Name(zone.name.as_name());
    b.record(Section::Additional, owner, Type::SOA, Class::IN, *ttl, soa).map(drop)
}
