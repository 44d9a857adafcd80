//! State of one client's query: the chain that it has followed, and what its lookups are charged to.

use std::net::SocketAddr;

use policy::{GroupFacts, PolicyQuery};
use query_path::GroupClient;
use resolver::{Budget, ClientPrefix, Partition, QueryKey};
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::{Header, LowerNameBuf, Rcode, Type};

use crate::message::{Message, Piece, Reply, Unjoinable, join};
use crate::quota::ValidationQuota;
use crate::rewrite_state::RewriteState;
use crate::settings::Policy;

/// State of a client's query.
pub(crate) struct QueryState {
    /// The client's query.
    pub(crate) asked: QueryKey,
    /// The query to answer next.
    pub(crate) next: QueryKey,
    /// The client's network.
    pub(crate) client: ClientPrefix,
    /// The client's partition.
    pub(crate) partition: Partition,
    /// The partition that the client was in at first has gone, so the answer may be of several.
    pub(crate) is_mixed: bool,
    /// A lookup in the client's partition found no rule: its rules may not have reached the resolver yet.
    pub(crate) is_retried: bool,
    /// Pays for the upstream queries, for all names of a chain.
    pub(crate) budget: Budget,
    pub(crate) links: Option<Links>,
    /// An alias that is made here leads to the next name, which a zone served here may have.
    pub(crate) is_led_here: bool,
    /// While A records are looked up for DNS64: the answer without AAAA records and the links that led to it.
    pub(crate) without: Option<(Piece, Option<Links>)>,
    /// Whether DNS64 applies to this query.
    pub(crate) dns64: bool,
    /// All names of the chain so far, QNAME first.
    passed: Vec<LowerNameBuf>,
    pub(crate) chain_left: u8,
    pub(crate) authentic: bool,
    pub(crate) stale: bool,
    pub(crate) info: Option<ErrorInfo>,
    /// The server that sent the newest piece of the answer, if it was not cached.
    pub(crate) upstream: Option<SocketAddr>,
    /// Pays for validation, for all names of a chain.
    pub(crate) quota: ValidationQuota,
    /// What response policy zones do to the answer.
    pub(crate) rewrite: RewriteState,
}

/// The first part of a chain.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) message: Vec<u8>,
    /// It is from a zone served here.
    pub(crate) from_zone: bool,
}

impl QueryState {
    /// The state of a new query of `client`.
    pub(crate) fn new(policy: &Policy, asked: QueryKey, client: GroupClient<'_>) -> Self {
        let address = client.client.peer.ip();
        let partition = policy.partition_of(client);
        let asked = in_partition(policy, partition, asked);
        // A validating client must see the signed data (RFC 6147 §5.5).
        let validates = asked.dnssec_ok && asked.checking_disabled;
        let dns64 = policy.dns64.as_ref().is_some_and(|dns64| dns64.applies_to(address)) && !validates;
        QueryState {
            asked,
            next: asked,
            client: ClientPrefix::of(address),
            partition,
            is_mixed: false,
            is_retried: false,
            budget: Budget::default(),
            links: None,
            is_led_here: false,
            without: None,
            dns64: dns64 && asked.qtype == Type::AAAA,
            passed: vec![asked.name],
            chain_left: policy.max_chain,
            authentic: true,
            stale: false,
            info: None,
            upstream: None,
            quota: ValidationQuota::default(),
            rewrite: RewriteState::of(client),
        }
    }

    /// Returns the state behind `links`, which come from a zone served here and lead to `target`. The links
    /// are not validated (RFC 4035 §3.1.6).
    pub(crate) fn behind(mut self, links: Vec<u8>, target: LowerNameBuf) -> Self {
        self.authentic = false;
        self.links = Some(Links { message: links, from_zone: true });
        self.passed.push(target);
        self.next.name = target;
        self
    }

    /// Sets the partition that the next query is in. If the client's has gone since its query, the client
    /// is in the one of now.
    pub(crate) fn place_next(&mut self, policy: &Policy) {
        if !policy.cache_views.has(self.partition) {
            self.partition = policy.partition_of(self.rewrite.rule_client());
            self.is_mixed = true;
            self.asked = in_partition(policy, self.partition, self.asked);
        }
        self.next = in_partition(policy, self.partition, self.next);
    }

    /// Whether the answer depends on the client although that to the query name alone does not.
    pub(crate) fn is_across(&self, policy: &Policy) -> bool {
        policy.cache_views.is_across(&self.asked, self.passed.iter().copied())
    }

    /// Returns the links alone as an incomplete answer.
    pub(crate) fn links_alone(&mut self) -> Option<Reply> {
        let Links { message, from_zone } = self.links.take()?;
        let message = Message::Own(message.into());
        let (rcode, authoritative) = (Rcode::NOERROR, from_zone);
        Some(Reply { message, rcode, authoritative, authentic: false, info: None, truncated: false })
    }

    /// Returns the reply whose chain ends with this message, of a zone served here.
    pub(crate) fn with_end(&self, end: &[u8]) -> Result<Reply, Unjoinable> {
        let links = self.links.as_ref().ok_or(Unjoinable)?;
        let rcode = Header::of(end).ok_or(Unjoinable)?.rcode();
        let joined = self.rewrite.with_soa(join(&links.message, end, false)?);
        Ok(Reply { authentic: false, ..self.reply(Message::Own(joined.into()), rcode) })
    }

    /// Returns the reply with this message.
    pub(crate) fn reply(&self, message: Message, rcode: Rcode) -> Reply {
        let stale = match rcode {
            Rcode::NXDOMAIN => ErrorInfo::STALE_NXDOMAIN,
            _ => ErrorInfo::STALE_ANSWER,
        };
        let authoritative = self.links.as_ref().is_some_and(|links| links.from_zone);
        let info = if self.stale { Some(stale) } else { self.info };
        let authentic = self.authentic && !self.stale;
        Reply { message, rcode, authoritative, authentic, info, truncated: false }
    }

    /// Returns what rules may depend on, for the next name or a target of its aliases.
    pub(crate) fn policy_query<'n>(
        &self,
        name: &'n HashedName,
        qtype: Type,
        group: Option<&'n GroupFacts>,
    ) -> PolicyQuery<'n> {
        // A rule for certain types is about the records that a client gets of a name.
        let is_alias = name.as_lower() != self.asked.name.as_lower();
        let qtype = if is_alias { Type::CNAME } else { qtype };
        PolicyQuery { name, qtype, client: Some(self.rewrite.client.peer.ip()), group }
    }

    /// Continues with the chain's next name, unless the chain is too long or a loop.
    pub(crate) fn lead_on(&mut self, piece: &Piece, target: LowerNameBuf) -> Result<(), Unjoinable> {
        self.chain_left = self.chain_left.checked_sub(1).ok_or(Unjoinable)?;
        if self.passed.contains(&target) {
            return Err(Unjoinable);
        }
        self.passed.push(target);
        let (message, from_zone) = match self.links.take() {
            Some(links) => (join(&links.message, piece.message.bytes(), false)?, links.from_zone),
            None => (piece.message.bytes().to_vec(), false),
        };
        self.links = Some(Links { message, from_zone });
        self.next.name = target;
        Ok(())
    }
}

/// Returns the query in the partition of its lookup, for a client of this partition.
pub(crate) fn in_partition(policy: &Policy, of_client: Partition, query_key: QueryKey) -> QueryKey {
    let partition = policy.cache_views.partition(of_client, query_key.name.as_lower(), query_key.qtype);
    QueryKey { partition, ..query_key }
}
