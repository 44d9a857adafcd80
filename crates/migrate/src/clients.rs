//! Client lists in which the first match decides, as `allow-query` of nomen.
//!
//! A list is evaluated for each key that it names and for clients without one of them: the result is a set of
//! addresses. So nested lists and refused keys are exact. Where the source's list depends on the host, or on
//! what nomen cannot know, the result has no address that may be refused.

use std::fmt;

use crate::addresses::AddressSet;
use crate::network::{Client, Member, Network};

/// Most rules of `allow-query`; members in a row that differ in their networks alone are one rule.
const MAX_RULES: usize = 64;
/// Most members of a list. A longer list is not intended.
const MAX_MEMBERS: usize = 2000;

/// Where a client is, as far as a list can depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In no network that the host is attached to.
    Elsewhere,
    /// In such a network.
    Attached,
    /// The host itself.
    Own,
}

/// All places.
pub(crate) const PLACES: [Place; 3] = [Place::Elsewhere, Place::Attached, Place::Own];

/// The addresses of clients that a list permits: those that it permits certainly, and those that it may
/// permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permitted {
    pub(crate) surely: AddressSet,
    pub(crate) maybe: AddressSet,
}

impl Permitted {
    fn of(set: AddressSet) -> Self {
        Self { surely: set.clone(), maybe: set }
    }

    /// Whether the list is exact about these clients.
    pub(crate) fn is_exact(&self) -> bool {
        self.surely == self.maybe
    }
}

/// The clients with a key, or with none of those in the list, at a place, that a list permits.
pub(crate) fn permitted(list: &[Member], key: Option<&str>, place: Place) -> Permitted {
    // From the last member to the first: a client that a member does not match is for those after it.
    list.iter().rev().fold(Permitted::of(AddressSet::none()), |after, member| {
        let matched = matching(&member.client, key, place);
        match member.deny {
            true => Permitted {
                surely: after.surely.minus(&matched.maybe),
                maybe: after.maybe.minus(&matched.surely),
            },
            false => {
                Permitted { surely: after.surely.or(&matched.surely), maybe: after.maybe.or(&matched.maybe) }
            }
        }
    })
}

fn matching(client: &Client, key: Option<&str>, place: Place) -> Permitted {
    let if_so = |so: bool| if so { AddressSet::all() } else { AddressSet::none() };
    match client {
        Client::Networks(networks) => {
            let set = |mapped: bool| {
                let some: Vec<Network> = networks
                    .iter()
                    .filter(|network| network.is_mapped() == mapped)
                    .map(|network| network.unmapped())
                    .collect();
                AddressSet::of(&some)
            };
            // nomen takes mapped addresses for IPv4 addresses; the other programs may or may not.
            let surely = set(false);
            Permitted { maybe: surely.or(&set(true)), surely }
        }
        Client::Key(wanted) => Permitted::of(if_so(key == Some(wanted.as_str()))),
        Client::Own => Permitted::of(match place {
            Place::Own => AddressSet::all(),
            _ => AddressSet::of(&Network::loopback()),
        }),
        Client::Attached => Permitted::of(match place {
            Place::Elsewhere => AddressSet::none(),
            _ => AddressSet::all(),
        }),
        Client::Unknown => Permitted { surely: AddressSet::none(), maybe: AddressSet::all() },
        Client::List(inner) => permitted(inner, key, place),
    }
}

/// The keys that lists name, each once.
pub(crate) fn keys(list: &[Member]) -> Vec<&str> {
    let mut out: Vec<&str> = Vec::new();
    for member in list {
        let found = match &member.client {
            Client::Key(key) => vec![key.as_str()],
            Client::List(inner) => keys(inner),
            _ => Vec::new(),
        };
        for key in found {
            if !out.contains(&key) {
                out.push(key);
            }
        }
    }
    out
}

/// A member of `allow-query`, without conditions about the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) refuses: bool,
    /// `None` for every address.
    pub(crate) network: Option<Network>,
    pub(crate) key: Option<String>,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.refuses { "!" } else { "" })?;
        match (self.network, &self.key) {
            (None, None) => f.write_str("any"),
            (Some(network), None) => network.fmt(f),
            (None, Some(key)) => write!(f, "key:{key}"),
            (Some(network), Some(key)) => write!(f, "{network} key:{key}"),
        }
    }
}

/// `allow-query` of members in order; `None` if these are more than nomen can have.
pub(crate) fn allow_query(grants: &[Grant]) -> Option<Vec<String>> {
    let is_short = rules(grants) <= MAX_RULES && grants.len() <= MAX_MEMBERS;
    is_short.then(|| grants.iter().map(ToString::to_string).collect())
}

/// `allow-query` that permits no client.
pub(crate) fn no_client() -> Vec<String> {
    vec!["!any".to_owned()]
}

/// A list as `allow-query`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueryList {
    /// Its members; none of a list that permits every client.
    pub(crate) grants: Vec<Grant>,
    /// Whether it permits as many clients as before.
    pub(crate) is_exact: bool,
}

impl QueryList {
    /// Whether it permits no client.
    pub(crate) fn is_for_none(&self) -> bool {
        self.grants.len() == 1 && self.grants[0].refuses
    }

    /// A list that permits no client, though it may have been for some.
    pub(crate) fn of_none(is_exact: bool) -> Self {
        Self { grants: vec![Grant { refuses: true, network: None, key: None }], is_exact }
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.grants.iter().map(ToString::to_string).collect()
    }
}

/// Converts a list. Clients that nomen cannot express do not pass.
pub(crate) fn query_list(list: &[Member]) -> QueryList {
    let keys = keys(list);
    // Each key takes a rule at least, and an evaluation of the list.
    if keys.len() > MAX_RULES {
        return QueryList::of_none(false);
    }
    let of = |key: Option<&str>| {
        let all = PLACES.map(|place| permitted(list, key, place));
        let surely = all.iter().fold(AddressSet::all(), |set, one| set.and(&one.surely));
        // Addresses of the host itself that are not listed are reported where the list is read.
        let others = all.iter().take(2);
        let maybe = others.fold(AddressSet::none(), |set, one| set.or(&one.maybe));
        Permitted { surely, maybe }
    };
    let (signed, others): (Vec<Permitted>, Permitted) =
        (keys.iter().map(|key| of(Some(key))).collect(), of(None));
    let is_exact = signed.iter().chain([&others]).all(Permitted::is_exact);
    if signed.iter().chain([&others]).all(|one| one.surely.is_all()) {
        return QueryList { grants: Vec::new(), is_exact: true };
    }
    if signed.iter().chain([&others]).all(|one| one.surely.is_empty()) {
        return QueryList::of_none(is_exact);
    }
    let is_right = |grants: &Vec<Grant>| {
        let decided = |key| decided(grants, key);
        rules(grants) <= MAX_RULES
            && decided(None) == others.surely
            && keys.iter().zip(&signed).all(|(key, one)| decided(Some(key)) == one.surely)
    };
    let mut as_written = Vec::new();
    let grants = match written(list, &mut as_written) {
        Some(()) => as_written,
        None => Vec::new(),
    };
    let grants = Some(without_end(grants)).filter(&is_right);
    let grants = grants.or_else(|| Some(by_key(&keys, &signed, &others)).filter(is_right));
    match grants.filter(|grants| grants.len() <= MAX_MEMBERS) {
        Some(grants) => QueryList { grants, is_exact },
        None => QueryList::of_none(false),
    }
}

/// The number of nomen's rules for these members.
fn rules(grants: &[Grant]) -> usize {
    grants.chunk_by(|a, b| (a.refuses, &a.key) == (b.refuses, &b.key)).count()
}

/// The addresses of clients with a key that members permit.
fn decided(grants: &[Grant], key: Option<&str>) -> AddressSet {
    let (mut out, mut left) = (AddressSet::none(), AddressSet::all());
    for run in grants.chunk_by(|a, b| (a.refuses, &a.key) == (b.refuses, &b.key)) {
        let Some(first) = run.first().filter(|first| first.key.is_none() || first.key.as_deref() == key)
        else {
            continue;
        };
        let matched = match run.iter().any(|grant| grant.network.is_none()) {
            true => AddressSet::all(),
            false => AddressSet::of(run.iter().filter_map(|grant| grant.network.as_ref())),
        };
        if !first.refuses {
            out = out.or(&left.and(&matched));
        }
        left = left.minus(&matched);
    }
    out
}

/// The members as they are written, if nesting has no effect on them; `None` if it may have. Those after a
/// refusal of clients that nomen cannot express are left out.
fn written(list: &[Member], out: &mut Vec<Grant>) -> Option<()> {
    for (at, member) in list.iter().enumerate() {
        let mut add = |networks: &[Network]| {
            let whole = Network::all().iter().all(|all| networks.contains(all));
            let networks = networks.iter().filter(|network| !network.is_mapped());
            match whole {
                true => out.push(Grant { refuses: member.deny, network: None, key: None }),
                false => out.extend(networks.map(|network| Grant {
                    refuses: member.deny,
                    network: Some(*network),
                    key: None,
                })),
            }
        };
        match &member.client {
            Client::Networks(networks) => add(networks),
            Client::Own if !member.deny => add(&Network::loopback()),
            Client::Attached | Client::Unknown if !member.deny => {}
            Client::Own | Client::Attached | Client::Unknown => return Some(()),
            Client::Key(key) => {
                out.push(Grant { refuses: member.deny, network: None, key: Some(key.clone()) });
            }
            Client::List(inner) => {
                let mut nested = Vec::new();
                written(inner, &mut nested)?;
                let is_plain = !nested.iter().any(|grant| grant.refuses);
                // A refusal within a list leaves its clients to the members after the list.
                if !is_plain && (member.deny || at + 1 < list.len()) {
                    return None;
                }
                out.extend(nested.into_iter().map(|grant| match member.deny {
                    true => Grant { refuses: true, ..grant },
                    false => grant,
                }));
            }
        }
    }
    Some(())
}

/// Removes refusals at the end, where every client is refused.
fn without_end(mut grants: Vec<Grant>) -> Vec<Grant> {
    while grants.last().is_some_and(|grant| grant.refuses) {
        grants.pop();
    }
    grants
}

/// Members that decide for the keys first, then for all other clients.
fn by_key(keys: &[&str], signed: &[Permitted], others: &Permitted) -> Vec<Grant> {
    let mut out = Vec::new();
    let all = &others.surely;
    for (key, one) in keys.iter().zip(signed) {
        let own = &one.surely;
        let key = Some((*key).to_owned());
        let mut add = |refuses, set: AddressSet| {
            out.extend(set.networks().into_iter().map(|network| Grant {
                refuses,
                network: Some(network),
                key: key.clone(),
            }));
        };
        if own == all {
            continue;
        }
        if own.is_all() || own.is_empty() {
            out.push(Grant { refuses: own.is_empty(), network: None, key });
            continue;
        }
        add(true, all.minus(own));
        add(false, own.minus(all));
    }
    match all.is_all() {
        true => out.push(Grant { refuses: false, network: None, key: None }),
        false => out.extend(all.networks().into_iter().map(|network| Grant {
            refuses: false,
            network: Some(network),
            key: None,
        })),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf(text: &str) -> Member {
        let (deny, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
        let client = match (text.strip_prefix("key:"), text) {
            (Some(key), _) => Client::Key(key.into()),
            (None, "any") => Client::Networks(Network::all().into()),
            (None, "localhost") => Client::Own,
            (None, "localnets") => Client::Attached,
            (None, "geoip") => Client::Unknown,
            (None, text) => Client::Networks(Network::parse_range(text).expect(text)),
        };
        Member { deny, client }
    }

    fn list(texts: &[&str]) -> Vec<Member> {
        texts.iter().map(|text| leaf(text)).collect()
    }

    fn nested(deny: bool, texts: &[&str]) -> Member {
        Member { deny, client: Client::List(list(texts)) }
    }

    #[test]
    fn a_plain_list_is_as_it_was_written() {
        let of = |texts: &[&str]| query_list(&list(texts)).texts();
        assert_eq!(of(&["!10.9.0.0/16", "10.0.0.0/8", "key:k"]), ["!10.9.0.0/16", "10.0.0.0/8", "key:k"]);
        assert_eq!(of(&["!key:k", "192.0.2.1", "!any"]), ["!key:k", "192.0.2.1"]);
        assert_eq!(of(&["!192.0.2.1", "any"]), ["!192.0.2.1", "any"]);
        assert_eq!(of(&["!any"]), ["!any"]);
        assert_eq!(of(&[]), ["!any"]);
        assert_eq!(of(&["0.0.0.0/0", "::/0", "!10.0.0.1"]), [""; 0]);
        assert_eq!(of(&["key:k", "any"]), [""; 0]);
    }

    #[test]
    fn nested_lists_are_exact() {
        let both = [nested(true, &["!10.0.0.0/8", "any"]), leaf("key:k")];
        assert_eq!(query_list(&both).texts(), ["10.0.0.0/8 key:k"]);
        // The refusal within the list leaves 10.66.0.0/16 to what follows.
        let skips = [nested(false, &["!10.66.0.0/16", "10.0.0.0/8"]), leaf("10.66.1.0/24"), leaf("!any")];
        let found = query_list(&skips);
        assert!(found.is_exact && !found.texts().iter().any(|text| text.starts_with('!')), "{found:?}");
        let allowed = |text: &str| {
            let at = Network::parse(text).expect(text);
            found.grants.iter().any(|grant| grant.network.is_some_and(|network| network.covers(at)))
        };
        assert!(allowed("10.66.1.7") && allowed("10.1.0.1") && !allowed("10.66.2.1") && !allowed("11.0.0.1"));
        let flat = [nested(false, &["10.0.0.0/8", "key:k"]), nested(true, &["192.0.2.0/24"]), leaf("any")];
        assert_eq!(query_list(&flat).texts(), ["10.0.0.0/8", "key:k", "!192.0.2.0/24", "any"]);
    }

    #[test]
    fn what_the_host_decides_is_never_permitted_too_much() {
        let of = |texts: &[&str]| {
            let found = query_list(&list(texts));
            (found.texts(), found.is_exact)
        };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(of(&["localhost", "10.0.0.0/8"]), (texts(&["127.0.0.1", "::1", "10.0.0.0/8"]), true));
        assert_eq!(of(&["10.0.0.0/8", "!localnets", "any"]), (texts(&["10.0.0.0/8"]), false));
        assert_eq!(of(&["geoip", "10.0.0.0/8"]), (texts(&["10.0.0.0/8"]), false));
        assert_eq!(of(&["!geoip", "any"]), (texts(&["!any"]), false));
        // A list of mapped addresses permits no IPv4 address, and may refuse it.
        assert_eq!(of(&["::ffff:10.0.0.0/104", "192.0.2.1"]), (texts(&["192.0.2.1"]), false));
        let (found, is_exact) = of(&["!::ffff:10.0.0.0/104", "0.0.0.0/0"]);
        assert!(!found.contains(&"0.0.0.0/0".into()) && !is_exact, "{found:?}");
    }

    #[test]
    fn more_rules_than_nomen_has_are_put_together_or_permit_no_client() {
        let alternating: Vec<String> =
            (0..70).map(|n| format!("{}10.{n}.0.0/16", if n % 2 == 0 { "!" } else { "" })).collect();
        let found = query_list(&list(&alternating.iter().map(String::as_str).collect::<Vec<_>>()));
        assert!(found.is_exact && rules(&found.grants) == 1, "{found:?}");
        let many: Vec<String> =
            (0..70).flat_map(|n| [format!("!10.{n}.0.0/16"), format!("key:k{n}")]).collect();
        let found = query_list(&list(&many.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!((found.texts(), found.is_exact), (vec!["!any".into()], false));
    }

    fn member() -> impl Strategy<Value = Member> {
        let texts =
            ["10.0.0.0/8", "10.66.0.0/16", "10.66.0.1", "any", "key:a", "key:b", "192.0.2.0/24", "::/0"];
        let leaf = prop::sample::select(texts.to_vec()).prop_map(leaf);
        let nested = leaf.prop_recursive(3, 12, 4, |inner| {
            prop::collection::vec(inner, 0..4)
                .prop_map(|all| Member { deny: false, client: Client::List(all) })
        });
        (any::<bool>(), nested).prop_map(|(deny, member)| Member { deny, ..member })
    }

    /// The definition of a list: the first match decides, and a refusal within a list is no match of it.
    fn decides(list: &[Member], at: Network, key: Option<&str>) -> Option<bool> {
        list.iter().find_map(|member| {
            let matched = match &member.client {
                Client::Networks(networks) => networks.iter().any(|network| network.covers(at)),
                Client::Key(wanted) => key == Some(wanted),
                Client::List(inner) => decides(inner, at, key) == Some(true),
                other => panic!("{other:?}"),
            };
            matched.then_some(!member.deny)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn a_converted_list_lets_the_same_clients_pass(all in prop::collection::vec(member(), 0..5)) {
            let found = query_list(&all);
            prop_assert!(found.is_exact);
            for at in ["10.66.0.1", "10.66.0.2", "10.1.0.1", "192.0.2.7", "203.0.113.1", "2001:db8::1"] {
                let at = Network::parse(at).expect(at);
                for key in [None, Some("a"), Some("b"), Some("c")] {
                    let fits = |grant: &&Grant| {
                        grant.network.is_none_or(|network| network.covers(at))
                            && grant.key.as_deref().is_none_or(|wanted| key == Some(wanted))
                    };
                    let now = found.grants.iter().find(fits).map_or(found.grants.is_empty(), |one| !one.refuses);
                    prop_assert_eq!(decides(&all, at, key) == Some(true), now, "{} {:?} {:?}", at, key, found.texts());
                }
            }
        }
    }
}
