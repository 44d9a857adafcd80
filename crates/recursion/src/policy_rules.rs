//! The rules of response policy zones and of lists in one snapshot. For lists: the decision about a query
//! name and about the aliases of an answer, and the answer that clients get instead.
//!
//! A query name is checked before cache and lookup, the targets of aliases in every answer before it is sent.
//! The cache holds answers as they were received, so that a change of lists needs no flush.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use policy::{Decision, Match, PolicyQuery, Rewrites, RuleEffect, Rules, SourceId, SourceMask};
use query_path::{GroupClient, RuleAction, RuleNote, RuleTrigger, SourceKind, SourceName};
use resolver::QueryKey;
use wire::edns::ErrorInfo;
use wire::hash::{HashKey, HashedName};
use wire::message::{
    Builder, Compressor, Full, Header, MAX_MESSAGE, Offset, Owner, Parser, RawRecord, Section,
};
use wire::{Class, Malformed, Name, Rcode, Ttl, Type};

use crate::count::SharedCount;
use crate::groups::{ClientGroups, GroupView};
use crate::rpz::{PolicyZone, RpzOptions, RpzOverride};

/// What clients get for a blocked name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockAnswer {
    /// The name does not exist.
    NxDomain,
    /// The name has no records of the type.
    NoData,
    /// These addresses; for other types than A and AAAA, and for a family without one, no records.
    Addresses(Vec<IpAddr>),
}

impl BlockAnswer {
    /// The unspecified addresses, 0.0.0.0 and ::, at which no host answers.
    pub fn null() -> Self {
        BlockAnswer::Addresses(vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()])
    }
}

/// A list that is in force.
#[derive(Debug)]
pub struct BlockList {
    /// Its name.
    pub name: String,
    /// What clients get for a name that it blocks.
    pub answer: BlockAnswer,
    /// Number of queries that it blocked.
    pub blocked: Arc<SharedCount>,
}

/// The response policy zones and the lists in force. The sources of [`Rules`] are the zones, then the lists.
#[derive(Clone)]
pub struct PolicyRules {
    rules: Rules,
    zones: Arc<[PolicyZone]>,
    options: RpzOptions,
    /// All sources but zones that are disabled, and these.
    sources: SourceMask,
    disabled: SourceMask,
    groups: Option<ClientGroups>,
    lists: Arc<[BlockList]>,
    /// The names of all sources, for logs.
    names: Arc<[SourceName]>,
    /// Stands in place of a zone for answers of lists.
    rewriter: Arc<PolicyZone>,
    ttl: Ttl,
}

impl fmt::Debug for PolicyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("PolicyRules");
        f.field("zones", &self.zones).field("lists", &self.lists).finish_non_exhaustive()
    }
}

/// A name that a list blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    list: usize,
    /// Number of labels that the name has before the name of the rule.
    skip: usize,
}

impl Blocked {
    /// Returns the same for a name with an alias to the blocked name: all of it is blocked.
    pub(crate) fn of_alias(self) -> Self {
        Blocked { skip: 0, ..self }
    }
}

impl PolicyRules {
    /// `ttl` is that of the answers for blocked names.
    pub fn new(
        rules: Rules,
        zones: Vec<PolicyZone>,
        options: RpzOptions,
        lists: Vec<BlockList>,
        ttl: Ttl,
    ) -> Self {
        let (mut sources, mut disabled) = (SourceMask::default(), SourceMask::default());
        for number in 0..=u8::MAX {
            let zone = zones.get(usize::from(number));
            let to = match zone.is_some_and(|zone| zone.instead == RpzOverride::Disabled) {
                true => &mut disabled,
                false => &mut sources,
            };
            *to = to.with(SourceId(number));
        }
        let of_zones = zones.iter().map(|zone| SourceName::new(&zone.name.as_name().to_string()));
        let names = of_zones.chain(lists.iter().map(|list| SourceName::new(&list.name))).collect();
        PolicyRules {
            rules,
            zones: zones.into(),
            options,
            sources,
            disabled,
            groups: None,
            lists: lists.into(),
            names,
            rewriter: Arc::new(PolicyZone::of_lists(ttl)),
            ttl,
        }
    }

    /// Returns the same rules with other groups; `None`: all sources count for all clients.
    #[must_use]
    pub fn with_groups(&self, mut groups: Option<ClientGroups>) -> Self {
        groups.iter_mut().for_each(|groups| groups.retain(&self.sources));
        PolicyRules { groups, ..self.clone() }
    }

    /// Returns these rules after a change of some response policy zones: with the settings that they had,
    /// `zones` are all of them.
    #[must_use]
    pub fn changed(&self, rules: Rules, zones: Vec<PolicyZone>) -> Self {
        PolicyRules { rules, zones: zones.into(), ..self.clone() }
    }

    /// Returns these rules after a change of some lists, with all settings that they had.
    #[must_use]
    pub fn with_rules(&self, rules: Rules) -> Self {
        PolicyRules { rules, ..self.clone() }
    }

    /// The response policy zones.
    pub fn zones(&self) -> &[PolicyZone] {
        &self.zones
    }

    /// The options of response policy zones.
    pub(crate) fn options(&self) -> &RpzOptions {
        &self.options
    }

    /// The sources whose rules count for clients in no group.
    #[inline]
    pub fn sources(&self) -> &SourceMask {
        self.groups.as_ref().map_or(&self.sources, ClientGroups::others)
    }

    /// The response policy zones whose matches are counted only.
    pub(crate) fn disabled(&self) -> &SourceMask {
        &self.disabled
    }

    /// TTL of the answers for blocked names.
    pub(crate) fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// Returns what counts for a client.
    #[inline]
    pub fn group_of(&self, client: GroupClient<'_>) -> GroupView<'_> {
        match &self.groups {
            Some(groups) => groups.of(client),
            None => GroupView { sources: &self.sources, facts: None },
        }
    }

    /// Counts a query that a rule decides for the client's group, and returns the note with the group.
    pub(crate) fn counted(&self, client: GroupClient<'_>, note: Option<RuleNote>) -> Option<RuleNote> {
        match (&self.groups, note) {
            (Some(groups), Some(note)) => Some(groups.counted(client, note)),
            (_, note) => note,
        }
    }

    /// The sources whose rules count for a client.
    #[inline]
    pub fn sources_of(&self, client: GroupClient<'_>) -> &SourceMask {
        self.group_of(client).sources
    }

    /// Returns the answer that rules of lists give to a query, unless an allow list exempts it: `decided` is
    /// the rule of lists that decides otherwise.
    #[inline]
    pub fn rewrites(
        &self,
        query: &PolicyQuery<'_>,
        sources: &SourceMask,
        decided: Option<&Match>,
    ) -> Option<Rewrites> {
        if !self.rules.have_rewrites() {
            return None;
        }
        let is_exempt = decided.is_some_and(|found| {
            matches!(found.rule.effect, RuleEffect::Allow { .. })
                && self.rules.only_exempts(found.rule.source)
        });
        if is_exempt { None } else { self.rules.rewrites_of(query, sources) }
    }

    /// What holds for answers of lists, in place of a zone.
    pub(crate) fn rewriter(&self) -> &PolicyZone {
        &self.rewriter
    }

    /// Counts a query that a list answers.
    pub(crate) fn count_rewrite(&self, of: &Rewrites) {
        let list = usize::from(of.source.0).checked_sub(self.zones.len());
        if let Some(list) = list.and_then(|list| self.lists.get(list)) {
            list.blocked.add();
        }
    }

    /// Whether what the rules say depends on the client.
    #[inline]
    pub(crate) fn depends_on_client(&self) -> bool {
        self.groups.is_some() || self.rules.depends_on_client()
    }

    /// Returns the rules of these sources that decide about a query.
    #[inline]
    pub fn decide(&self, query: &PolicyQuery<'_>, sources: &SourceMask) -> Decision {
        self.rules.of_query(query, sources)
    }

    /// The lists.
    pub fn lists(&self) -> &[BlockList] {
        &self.lists
    }

    /// The rules of all lists.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the list's rule that decides about a query, if any covers it: a block or an exception.
    #[inline]
    fn rule(&self, query: &PolicyQuery<'_>, sources: &SourceMask) -> Option<Match> {
        self.decide(query, sources).list
    }

    /// Returns the list that has the rule.
    pub fn list(&self, of: &Match) -> Option<&BlockList> {
        self.lists.get(usize::from(of.rule.source.0).checked_sub(self.zones.len())?)
    }

    /// Returns what logs receive of a rule of this source.
    pub(crate) fn note(
        &self,
        source: SourceId,
        action: RuleAction,
        trigger: RuleTrigger,
    ) -> Option<RuleNote> {
        let number = usize::from(source.0);
        let kind = if number < self.zones.len() { SourceKind::Zone } else { SourceKind::List };
        let is_logged = self.zones.get(number).is_none_or(|zone| zone.is_logged);
        Some(RuleNote { action, trigger, kind, source: *self.names.get(number)?, group: None, is_logged })
    }

    /// Returns what logs receive of the rule of a list.
    pub(crate) fn note_blocked(&self, blocked: Blocked) -> Option<RuleNote> {
        let action = match self.lists.get(blocked.list)?.answer {
            BlockAnswer::NxDomain => RuleAction::NxDomain,
            BlockAnswer::NoData => RuleAction::NoData,
            BlockAnswer::Addresses(_) => RuleAction::LocalData,
        };
        let number = u8::try_from(self.zones.len() + blocked.list).ok()?;
        self.note(SourceId(number), action, RuleTrigger::Qname)
    }

    /// Returns what the rule blocks, if it is a block.
    #[inline]
    pub(crate) fn blocked(&self, by: &Match) -> Option<Blocked> {
        let is_block = matches!(by.rule.effect, RuleEffect::Block { .. });
        let list = usize::from(by.rule.source.0).checked_sub(self.zones.len())?;
        is_block.then_some(Blocked { list, skip: by.skip })
    }

    /// Returns whether a list blocks a query.
    #[inline]
    fn blocks(&self, query: &PolicyQuery<'_>, sources: &SourceMask) -> Option<Blocked> {
        self.blocked(&self.rule(query, sources)?)
    }

    /// Returns whether an exception of a list covers a query.
    pub(crate) fn exempts(&self, query: &PolicyQuery<'_>, sources: &SourceMask) -> bool {
        let rule = self.rule(query, sources);
        rule.is_some_and(|found| matches!(found.rule.effect, RuleEffect::Allow { .. }))
    }

    /// Returns whether an answer leads through an alias to a blocked name, unless the query name is exempt.
    /// The whole answer is replaced then, as for the query name itself.
    ///
    /// `message` has one question and `answers` records in its answer section; its header may be unwritten.
    pub(crate) fn blocks_alias(
        &self,
        key: &HashKey,
        client: GroupClient<'_>,
        message: &[u8],
        answers: u16,
    ) -> Option<Blocked> {
        // A malformed message is no answer of ours.
        self.find_alias(key, client, message, answers).ok().flatten()
    }

    fn find_alias(
        &self,
        key: &HashKey,
        client: GroupClient<'_>,
        message: &[u8],
        answers: u16,
    ) -> Result<Option<Blocked>, Malformed> {
        let (_, mut parser) = Parser::new(message)?;
        let (mut hashed, mut far, mut is_first) = (HashedName::new(), Vec::new(), true);
        let (question, GroupView { sources, facts: group }) = (parser.question()?, self.group_of(client));
        let client = Some(client.client.peer.ip());
        for _ in 0..answers {
            let record = parser.record()?;
            match record.rtype {
                Type::CNAME => {}
                Type::DNAME | Type::RRSIG => continue,
                // The chain of aliases comes first in every answer, and the data at its end.
                _ => break,
            }
            if std::mem::take(&mut is_first) {
                hashed.set(key, parser.name_at(record.owner_at)?.as_name());
                let qtype = question.qtype;
                if self.exempts(&PolicyQuery { name: &hashed, qtype, client, group }, sources) {
                    return Ok(None);
                }
            }
            hash_target(key, &mut parser, &record, &mut hashed, &mut far)?;
            let query = PolicyQuery { name: &hashed, qtype: Type::CNAME, client, group };
            if let Some(blocked) = self.blocks(&query, sources) {
                return Ok(Some(blocked.of_alias()));
            }
        }
        Ok(None)
    }

    /// Writes the answer for a blocked name into `b`, which holds the question with this name. Counts it.
    #[cold]
    pub(crate) fn write(
        &self,
        blocked: Blocked,
        name: Name<'_>,
        qtype: Type,
        b: &mut Builder<'_>,
    ) -> ErrorInfo {
        if let Some(BlockList { answer, blocked: count, .. }) = self.lists.get(blocked.list) {
            count.add();
            b.set_rcode(if *answer == BlockAnswer::NxDomain { Rcode::NXDOMAIN } else { Rcode::NOERROR });
            b.learn(name, Offset::QNAME);
            if let Err(Full) = self.records(answer, name, qtype, blocked.skip, b) {
                b.flags(|header| header.set_truncated(true));
            }
        }
        ErrorInfo::BLOCKED
    }

    fn records(
        &self,
        answer: &BlockAnswer,
        name: Name<'_>,
        qtype: Type,
        skip: usize,
        b: &mut Builder<'_>,
    ) -> Result<(), Full> {
        let addresses: &[IpAddr] = match answer {
            BlockAnswer::Addresses(addresses) => addresses,
            BlockAnswer::NxDomain | BlockAnswer::NoData => &[],
        };
        let before = b.count(Section::Answer);
        for address in addresses {
            let owner = Owner::At(Offset::QNAME);
            match (address, qtype) {
                (IpAddr::V4(v4), Type::A | Type::ANY) => {
                    b.record(Section::Answer, owner, Type::A, Class::IN, self.ttl, &v4.octets())?;
                }
                (IpAddr::V6(v6), Type::AAAA | Type::ANY) => {
                    b.record(Section::Answer, owner, Type::AAAA, Class::IN, self.ttl, &v6.octets())?;
                }
                _ => {}
            }
        }
        if b.count(Section::Answer) == before {
            // With an SOA record, clients cache the negative answer (RFC 2308 §5).
            let owner = Owner::Name(name.skip(skip));
            b.record(Section::Authority, owner, Type::SOA, Class::IN, self.ttl, &soa(self.ttl))?;
        }
        Ok(())
    }

    /// Returns the response to a query for a blocked name.
    pub(crate) fn message(&self, blocked: Blocked, query_key: &QueryKey) -> Option<(Vec<u8>, Rcode)> {
        let (mut room, mut names) = (vec![0; MAX_MESSAGE], Compressor::small());
        let QueryKey { name, qtype, qclass, .. } = query_key;
        let mut b = Builder::new(&mut room, MAX_MESSAGE, Header::query(0).reply(), &mut names);
        b.question(name.as_name(), *qtype, *qclass).ok()?;
        self.write(blocked, name.as_name(), *qtype, &mut b);
        let rcode = b.rcode();
        let len = b.finish();
        room.truncate(len);
        Some((room, rcode))
    }
}

/// Sets `hashed` to the target of a CNAME record. `far` is memory for a name that no pointer reaches.
pub(crate) fn hash_target(
    key: &HashKey,
    parser: &mut Parser<'_>,
    record: &RawRecord,
    hashed: &mut HashedName,
    far: &mut Vec<u8>,
) -> Result<(), Malformed> {
    match Offset::new(record.rdata.start) {
        Some(at) => hashed.set(key, parser.name_at(at)?.as_name()),
        None => {
            far.clear();
            parser.expand_rdata(record, far)?;
            hashed.set(key, Name::from_wire(far).map_err(|_| Malformed)?);
        }
    }
    Ok(())
}

/// RDATA of the SOA record of blocked names: no server, no mailbox, serial number 1, and the TTL as MINIMUM.
pub(crate) fn soa(ttl: Ttl) -> [u8; 22] {
    let mut rdata = [0; 22];
    let numbers: [u32; 5] = [1, 3600, 1200, 604_800, ttl.as_secs()];
    for (to, number) in rdata[2..].as_chunks_mut().0.iter_mut().zip(numbers) {
        *to = number.to_be_bytes();
    }
    rdata
}

#[cfg(test)]
mod tests {
    use policy::{ListFormat, NameKeys, RuleBuilder, SourceId};
    use resolver::Partition;
    use wire::NameBuf;

    use super::*;
    use crate::private::tests::response;

    fn key() -> HashKey {
        HashKey::new([1, 2, 3])
    }

    /// Lists with these texts; the last one exempts.
    fn lists(texts: &[(&str, BlockAnswer)]) -> PolicyRules {
        let mut builder = RuleBuilder::new(NameKeys::new(key()));
        let mut lists = Vec::new();
        for (source, (text, answer)) in (0..).zip(texts) {
            let exempts = usize::from(source) + 1 == texts.len();
            builder.list(SourceId(source), ListFormat::Auto, text.as_bytes(), exempts).expect("a list");
            let (name, answer) = (format!("list{source}"), answer.clone());
            lists.push(BlockList { name, answer, blocked: Arc::default() });
        }
        PolicyRules::new(builder.build(), Vec::new(), RpzOptions::default(), lists, Ttl::from_secs(60))
    }

    fn client() -> transport::Client {
        let local = ([127, 0, 0, 1], 53).into();
        transport::Client { peer: local, local, transport: transport::Transport::Udp }
    }

    fn usual(answer: BlockAnswer) -> PolicyRules {
        lists(&[("||ads.example^\n", answer), ("||good.ads.example^\nexempt.example\n", BlockAnswer::NoData)])
    }

    fn hashed(name: &str) -> HashedName {
        let mut hashed = HashedName::new();
        hashed.set(&key(), name.parse::<NameBuf>().expect("a name").as_name());
        hashed
    }

    /// A query of type A for a name.
    fn of_a(name: &HashedName) -> PolicyQuery<'_> {
        PolicyQuery { name, qtype: Type::A, client: None, group: None }
    }

    #[test]
    fn an_exception_comes_before_a_block() {
        let lists = usual(BlockAnswer::NxDomain);
        let blocked = |name| {
            lists.blocks(&of_a(&hashed(name)), lists.sources()).map(|blocked| (blocked.list, blocked.skip))
        };
        assert_eq!(blocked("ads.example."), Some((0, 0)));
        assert_eq!(blocked("x.y.ads.example."), Some((0, 2)));
        assert_eq!(blocked("good.ads.example."), None);
        assert_eq!(blocked("x.good.ads.example."), None);
        assert_eq!(blocked("example."), None);
    }

    #[test]
    fn an_alias_to_a_blocked_name_is_found_unless_the_query_name_is_exempt() {
        let lists = usual(BlockAnswer::NxDomain);
        let found = |question: &str, answers: &[&str]| {
            let answered = u16::try_from(answers.len()).expect("few");
            let client = client();
            let asking = GroupClient::by_address(&client);
            lists.blocks_alias(&key(), asking, &response(question, answers, &[]), answered).is_some()
        };
        let chain = ["www.example. 60 CNAME cdn.example.", "cdn.example. 60 CNAME t.Ads.example."];
        assert!(found("www.example. A", &chain));
        assert!(found("www.example. A", &chain[1..]));
        assert!(!found("www.example. A", &chain[..1]));
        assert!(!found("www.example. A", &["www.example. 60 CNAME x.good.ads.example."]));
        assert!(!found("exempt.example. A", &["exempt.example. 60 CNAME t.ads.example."]));
        assert!(!found("www.example. MX", &["www.example. 60 MX 10 ads.example."]));
    }

    /// AdGuard: for the target of an alias, the type is that of the record that has it.
    #[test]
    fn conditions_of_rules_hold_for_aliases() {
        let found = |rules: &str, exceptions: &str| {
            let lists = lists(&[(rules, BlockAnswer::NxDomain), (exceptions, BlockAnswer::NoData)]);
            let message = response("www.example. A", &["www.example. 60 CNAME t.ads.example."], &[]);
            lists.blocks_alias(&key(), GroupClient::by_address(&client()), &message, 1).is_some()
        };
        let none = "# none\n";
        assert!(found("||ads.example^$dnstype=CNAME\n", none));
        assert!(!found("||ads.example^$dnstype=~CNAME\n", none));
        assert!(!found("||ads.example^$dnstype=A\n", none));
        assert!(found("/^t\\.ads/$client=127.0.0.1\n", none));
        assert!(!found("/^t\\.ads/$client=~127.0.0.1\n", none));
        assert!(!found("||ads.example^\n", "||www.example^$dnstype=A\n"));
        assert!(found("||ads.example^\n", "||www.example^$dnstype=AAAA\n"));
    }

    /// Response code and records of the answer to a query, as type, TTL and data.
    fn answer(answer: BlockAnswer, qtype: Type) -> (Rcode, Vec<(Type, u32, Vec<u8>)>) {
        let lists = usual(answer);
        let name = hashed("x.ads.example.");
        let query_key = QueryKey {
            name: name.as_lower().to_buf(),
            qtype,
            qclass: Class::IN,
            dnssec_ok: false,
            checking_disabled: false,
            partition: Partition::SHARED,
        };
        let blocked = lists.blocks(&of_a(&name), lists.sources()).expect("blocked");
        let (message, rcode) = lists.message(blocked, &query_key).expect("it fits");
        assert_eq!(lists.lists()[0].blocked.get(), 1);
        let (header, mut parser) = Parser::new(&message).expect("a message");
        parser.question().expect("a question");
        let [_, answers, authorities, _] = header.counts();
        let records = (0..answers + authorities).map(|at| {
            let record = parser.record().expect("a record");
            let owner = parser.name_at(record.owner_at).expect("a name");
            let wanted = if at < answers { "x.ads.example." } else { "ads.example." };
            assert_eq!(owner.as_name().to_string(), wanted);
            (record.rtype, record.ttl().as_secs(), message[record.rdata.clone()].to_vec())
        });
        (rcode, records.collect())
    }

    #[test]
    fn clients_get_what_the_list_says() {
        let soa = || vec![(Type::SOA, 60, soa(Ttl::from_secs(60)).to_vec())];
        assert_eq!(answer(BlockAnswer::NxDomain, Type::A), (Rcode::NXDOMAIN, soa()));
        assert_eq!(answer(BlockAnswer::NoData, Type::A), (Rcode::NOERROR, soa()));
        let a = |bytes: [u8; 4]| (Type::A, 60, bytes.to_vec());
        let aaaa = |bytes: [u8; 16]| (Type::AAAA, 60, bytes.to_vec());
        assert_eq!(answer(BlockAnswer::null(), Type::A), (Rcode::NOERROR, vec![a([0; 4])]));
        assert_eq!(answer(BlockAnswer::null(), Type::AAAA), (Rcode::NOERROR, vec![aaaa([0; 16])]));
        assert_eq!(answer(BlockAnswer::null(), Type::HTTPS), (Rcode::NOERROR, soa()));
        assert_eq!(answer(BlockAnswer::null(), Type::ANY), (Rcode::NOERROR, vec![a([0; 4]), aaaa([0; 16])]));
        let own = || BlockAnswer::Addresses(vec![[192, 0, 2, 1].into(), [192, 0, 2, 2].into()]);
        let both = vec![a([192, 0, 2, 1]), a([192, 0, 2, 2])];
        assert_eq!(answer(own(), Type::A), (Rcode::NOERROR, both));
        assert_eq!(answer(own(), Type::AAAA), (Rcode::NOERROR, soa()));
    }
}
