//! Access rules for queries: of the server, by client, key, opcode and type, and those of single zones.
//!
//! The server's rules decide before any data is read, about messages of every opcode; a message that matches
//! none is accepted. The rules of a zone decide about ordinary queries for its names, and also where a chain
//! of aliases leads into it; a query that matches none is refused. Transfers, NOTIFY and UPDATE have rules of
//! their own.

use std::sync::Arc;

use transport::Client;
use wire::{LowerName, LowerNameBuf, Opcode, Type};
use zone::catalog::ZoneEntry;

use crate::access::{Access, AccessAction, AccessRule, KeyMasks, TooManyRules};
use crate::request::Request;

/// The number of opcodes (RFC 1035 §4.1.1).
const OPCODES: usize = 16;

/// What happens to a message that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryAction {
    /// It is accepted.
    Allow,
    /// It gets REFUSED (RFC 8914 §4.19).
    Refuse,
    /// It gets no reply.
    Drop,
    /// Over UDP it gets a truncated reply without records; over other transports it is accepted.
    Truncate,
}

/// A rule: an action, and conditions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryRule {
    /// The action.
    pub action: QueryAction,
    /// Conditions on the client's address, on the local address and on the transport. Its action has no
    /// meaning.
    pub clients: AccessRule,
    /// Keys: a message that one of them has signed fulfills the condition on the client's address.
    pub keys: Vec<LowerNameBuf>,
    /// The key that must have signed the message, whatever its address; `None` for any, and for unsigned
    /// ones.
    pub signed_by: Option<LowerNameBuf>,
    /// Its opcode is one of these; `None` for any.
    pub opcodes: Option<Vec<Opcode>>,
    /// The type in its question is one of these; `None` for any, and for messages without a question.
    pub types: Option<Vec<Type>>,
}

/// Compiled rules: for every condition a mask of the rules that it does not rule out, as in [`Access`].
#[derive(Clone, Debug)]
pub struct QueryAccess {
    access: Access,
    keys: KeyMasks,
    /// Rules that require a key.
    with_signer: u64,
    /// The rules that require each key.
    signers: KeyMasks,
    by_opcode: [u64; OPCODES],
    /// Rules that name types.
    with_type: u64,
    /// For each type the rules that name it, sorted by type.
    by_type: Box<[(Type, u64)]>,
    actions: Box<[QueryAction]>,
}

/// The properties of a message that rules decide by.
#[derive(Clone, Copy, Debug)]
pub struct QueryTraits<'a> {
    /// The client's address and transport.
    pub client: &'a Client,
    /// The key that has signed the message, if its TSIG is valid.
    pub key: Option<LowerName<'a>>,
    /// The opcode.
    pub opcode: Opcode,
    /// The type in the question.
    pub qtype: Option<Type>,
}

impl<'a> QueryTraits<'a> {
    /// Returns the properties of a parsed message.
    pub(crate) fn of(request: &Request, client: &'a Client, key: Option<LowerName<'a>>) -> Self {
        let qtype = request.question.map(|question| question.qtype);
        QueryTraits { client, key, opcode: request.header.opcode(), qtype }
    }
}

impl QueryAccess {
    /// Compiles rules.
    ///
    /// # Errors
    /// There are more than 64.
    pub fn new(rules: &[QueryRule]) -> Result<QueryAccess, TooManyRules> {
        let clients: Vec<AccessRule> = rules
            .iter()
            .map(|rule| AccessRule { action: AccessAction::Allow, ..rule.clients.clone() })
            .collect();
        let access = Access::new(&clients)?;
        let those = |fits: &dyn Fn(&QueryRule) -> bool| {
            let numbered = (0u8..).zip(rules).filter(|(_, rule)| fits(rule));
            numbered.fold(0, |mask, (number, _)| mask | 1u64 << number)
        };
        let mut by_opcode = [0; OPCODES];
        for (mask, opcode) in by_opcode.iter_mut().zip(0..) {
            let named = |all: &Vec<Opcode>| all.contains(&Opcode(opcode));
            *mask = those(&|rule| rule.opcodes.as_ref().is_none_or(named));
        }
        let mut types: Vec<Type> =
            rules.iter().flat_map(|rule| rule.types.iter().flatten()).copied().collect();
        types.sort_unstable();
        types.dedup();
        let of_type = |qtype: Type| those(&|rule| rule.types.iter().flatten().any(|named| *named == qtype));
        Ok(QueryAccess {
            access,
            keys: KeyMasks::new(rules.iter().map(|rule| &*rule.keys)),
            with_signer: those(&|rule| rule.signed_by.is_some()),
            signers: KeyMasks::new(rules.iter().map(|rule| rule.signed_by.as_slice())),
            by_opcode,
            with_type: those(&|rule| rule.types.is_some()),
            by_type: types.into_iter().map(|qtype| (qtype, of_type(qtype))).collect(),
            actions: rules.iter().map(|rule| rule.action).collect(),
        })
    }

    /// Returns the number of the first rule that a message matches.
    pub fn first(&self, message: &QueryTraits<'_>) -> Option<usize> {
        let (by_key, by_signer) =
            message.key.map_or((0, 0), |key| (self.keys.mask(key), self.signers.mask(key)));
        let mut fits = self.access.fitting_or(message.client, by_key);
        fits &= !self.with_signer | by_signer;
        fits &= self.by_opcode.get(usize::from(message.opcode.0)).copied().unwrap_or(0);
        if fits & self.with_type != 0 {
            fits &= !self.with_type | message.qtype.map_or(0, |qtype| self.of_type(qtype));
        }
        (fits != 0).then_some(fits.trailing_zeros() as usize)
    }

    /// Returns the rules that name this type.
    fn of_type(&self, qtype: Type) -> u64 {
        let found = self.by_type.binary_search_by_key(&qtype, |(named, _)| *named).ok();
        found.and_then(|at| self.by_type.get(at)).map_or(0, |(_, mask)| *mask)
    }

    /// Returns the action for a message; `None` if no rule matches it.
    pub fn action(&self, message: &QueryTraits<'_>) -> Option<QueryAction> {
        self.actions.get(self.first(message)?).copied()
    }
}

/// The rules of all zones that have any. The entry of such a zone in the catalog has their number, from 1
/// ([`ZoneEntry::access`]); zones with the same rules have the same number. A number keeps its rules for the
/// life of the process, so that the catalog and these rules need not be replaced together.
#[derive(Clone, Debug, Default)]
pub struct ZoneAccess {
    rules: Vec<Arc<QueryAccess>>,
}

impl ZoneAccess {
    /// Adds rules. Returns their number.
    pub fn add(&mut self, rules: QueryAccess) -> u32 {
        self.rules.push(Arc::new(rules));
        u32::try_from(self.rules.len()).unwrap_or(u32::MAX)
    }

    /// Whether a client may query the zone of this entry. If its rules are newer than these, it may not.
    #[inline]
    pub fn allows(&self, entry: &ZoneEntry, message: &QueryTraits<'_>) -> bool {
        match entry.access() {
            0 => true,
            number => self.allows_by(number, message),
        }
    }

    #[inline(never)]
    fn allows_by(&self, number: u32, message: &QueryTraits<'_>) -> bool {
        let rules = (number as usize).checked_sub(1).and_then(|at| self.rules.get(at));
        rules.and_then(|rules| rules.action(message)) == Some(QueryAction::Allow)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;
    use transport::{TRANSPORTS, Transport};
    use wire::NameBuf;

    use super::*;
    use crate::access::LocalAddress;
    use crate::access::tests::local_address;
    use crate::prefix::tests::{address, prefix};

    fn key(text: &str) -> LowerNameBuf {
        text.parse::<NameBuf>().expect("a name").as_name().to_lower()
    }

    fn rule(action: QueryAction, from: &[&str]) -> QueryRule {
        let from = from.iter().map(|text| text.parse().expect("a network")).collect();
        let clients = AccessRule { action: AccessAction::Allow, from, local: None, transports: None };
        QueryRule { action, clients, keys: Vec::new(), signed_by: None, opcodes: None, types: None }
    }

    fn decided(
        rules: &[QueryRule],
        peer: &str,
        key: Option<&LowerNameBuf>,
        qtype: Type,
    ) -> Option<QueryAction> {
        let peer = (peer.parse::<IpAddr>().expect("an address"), 1024).into();
        let client = Client { peer, local: peer, transport: Transport::Udp };
        let (key, opcode) = (key.map(LowerNameBuf::as_lower), Opcode::QUERY);
        let message = QueryTraits { client: &client, key, opcode, qtype: Some(qtype) };
        QueryAccess::new(rules).expect("few rules").action(&message)
    }

    #[test]
    fn a_key_counts_as_a_network_and_a_required_key_beside_it() {
        let (one, two) = (key("one."), key("two."));
        let with_key = QueryRule { keys: vec![one], ..rule(QueryAction::Allow, &["192.0.2.0/24"]) };
        let by =
            |rules: &[QueryRule], peer, key| decided(rules, peer, key, Type::A) == Some(QueryAction::Allow);
        let rules = [with_key];
        assert!(by(&rules, "192.0.2.1", None) && by(&rules, "198.51.100.1", Some(&one)));
        assert!(!by(&rules, "198.51.100.1", Some(&two)));
        let rules = [QueryRule { signed_by: Some(one), ..rule(QueryAction::Allow, &["192.0.2.0/24"]) }];
        assert!(by(&rules, "::ffff:192.0.2.1", Some(&one)));
        assert!(!by(&rules, "192.0.2.1", None) && !by(&rules, "192.0.2.1", Some(&two)));
        assert!(!by(&rules, "198.51.100.1", Some(&one)));
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_there_may_be_none() {
        let any = &["0.0.0.0/0", "::/0"];
        let drops = QueryRule { types: Some(vec![Type::ANY, Type::TXT]), ..rule(QueryAction::Drop, any) };
        let rules = [drops, rule(QueryAction::Refuse, &["192.0.2.0/24"])];
        assert_eq!(decided(&rules, "192.0.2.1", None, Type::TXT), Some(QueryAction::Drop));
        assert_eq!(decided(&rules, "192.0.2.1", None, Type::A), Some(QueryAction::Refuse));
        assert_eq!(decided(&rules, "192.0.3.1", None, Type::A), None);
        assert_eq!(QueryAccess::new(&vec![rules[1].clone(); 65]).err(), Some(TooManyRules { rules: 65 }));
    }

    const KEYS: [&str; 3] = ["a.", "b.", "c."];
    const CODES: [Opcode; 4] = [Opcode::QUERY, Opcode::NOTIFY, Opcode::UPDATE, Opcode(15)];
    const KINDS: [Type; 4] = [Type::A, Type::SOA, Type::ANY, Type(65_535)];

    fn any_rule() -> impl Strategy<Value = QueryRule> {
        let actions = [QueryAction::Allow, QueryAction::Refuse, QueryAction::Drop, QueryAction::Truncate];
        let local = prop::option::of(prop::collection::vec(local_address(), 0..2));
        let transports = prop::option::of(prop::sample::subsequence(Transport::ALL, 0..=TRANSPORTS));
        let clients = (prop::collection::vec(prefix(), 0..3), local, transports);
        let keys = prop::sample::subsequence(KEYS.to_vec(), 0..=2);
        let signed_by = prop::option::weighted(0.2, prop::sample::select(KEYS.to_vec()));
        let opcodes = prop::option::of(prop::sample::subsequence(CODES.to_vec(), 0..=3));
        let types = prop::option::of(prop::sample::subsequence(KINDS.to_vec(), 0..=3));
        (prop::sample::select(actions.to_vec()), clients, keys, signed_by, opcodes, types).prop_map(
            |(action, (from, local, transports), keys, signed_by, opcodes, types)| {
                let clients = AccessRule { action: AccessAction::Allow, from, local, transports };
                let keys = keys.into_iter().map(key).collect();
                QueryRule { action, clients, keys, signed_by: signed_by.map(key), opcodes, types }
            },
        )
    }

    /// The rules evaluated one after the other.
    fn walk(rules: &[QueryRule], message: &QueryTraits<'_>) -> Option<QueryAction> {
        let Client { peer, local, transport } = message.client;
        let (peer, own) = (peer.ip().to_canonical(), local.ip().to_canonical());
        let is_at = |named: &LocalAddress| {
            named.address.to_canonical() == own && named.port.is_none_or(|port| port == local.port())
        };
        let has = |named: &LowerNameBuf| message.key == Some(named.as_lower());
        let fits = |rule: &&QueryRule| {
            let QueryRule { clients, keys, signed_by, opcodes, types, .. } = rule;
            let AccessRule { from, local: at, transports, .. } = clients;
            (from.iter().any(|prefix| prefix.to_canonical().contains(peer)) || keys.iter().any(has))
                && signed_by.as_ref().is_none_or(has)
                && at.as_ref().is_none_or(|all| all.iter().any(is_at))
                && transports.as_ref().is_none_or(|all| all.contains(transport))
                && opcodes.as_ref().is_none_or(|all| all.contains(&message.opcode))
                && types.as_ref().is_none_or(|all| message.qtype.is_some_and(|qtype| all.contains(&qtype)))
        };
        rules.iter().find(fits).map(|rule| rule.action)
    }

    proptest! {
        #[test]
        fn compiled_rules_decide_as_a_walk_over_them(
            rules in prop::collection::vec(any_rule(), 0..10),
            (peer, local) in (address(), address()),
            at in any::<prop::sample::Index>(),
            transport in prop::sample::select(Transport::ALL),
            named in prop::option::of(prop::sample::select(KEYS.to_vec())),
            opcode in prop::sample::select(CODES.to_vec()),
            qtype in prop::option::of(prop::sample::select(KINDS.to_vec())),
        ) {
            let locals = rules.iter().flat_map(|rule| rule.clients.local.iter().flatten());
            let locals: Vec<IpAddr> = locals.map(|local| local.address).collect();
            let local = if locals.is_empty() { local } else { *at.get(&locals) };
            let edges = rules.iter().flat_map(|rule| &rule.clients.from).map(wire::Prefix::address);
            let access = QueryAccess::new(&rules).expect("few rules");
            let named = named.map(key);
            for peer in edges.chain([peer]) {
                let client = Client { peer: (peer, 1).into(), local: (local, 53).into(), transport };
                let key = named.as_ref().map(LowerNameBuf::as_lower);
                let message = QueryTraits { client: &client, key, opcode, qtype };
                prop_assert_eq!(access.action(&message), walk(&rules, &message));
            }
        }
    }
}
