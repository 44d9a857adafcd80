//! Generated configurations of each program, compared with a small model of the access they permit: after the
//! conversion no client has more access than before, and less access is reported and sets the exit status.

use proptest::prelude::*;
use proptest::sample::select;

use super::narrow::{ATTACHED, After, Asked, Asker, OWN, askers, is_below};
use super::{PeerProgram, memory};

const NETWORKS: &[&str] = &[
    "10.0.0.0/8",
    "10.66.0.0/16",
    "10.66.0.1",
    "0.0.0.0/0",
    "::/0",
    "127.0.0.1",
    "192.0.2.0/24",
    "2001:db8::/32",
];
const NAMES: [&str; 6] =
    ["a.example", "www.a.example", "b.a.example", "x.b.a.example", "c.example", "other.test"];

/// A member of a BIND list.
#[derive(Debug, Clone)]
enum Element {
    Network(&'static str),
    Any,
    None,
    Localhost,
    Localnets,
    Key(&'static str),
    Unknown,
    List(Vec<(bool, Element)>),
}

type Acl = Vec<(bool, Element)>;

fn element() -> impl Strategy<Value = Element> {
    let leaf = prop_oneof![
        6 => select(NETWORKS).prop_map(Element::Network),
        2 => Just(Element::Any),
        1 => Just(Element::None),
        1 => Just(Element::Localhost),
        1 => Just(Element::Localnets),
        1 => select(&["k1", "k2"][..]).prop_map(Element::Key),
        1 => Just(Element::Unknown),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop::collection::vec((any::<bool>(), inner), 0..3).prop_map(Element::List)
    })
}

fn acl() -> impl Strategy<Value = Acl> {
    prop::collection::vec((prop::bool::weighted(0.3), element()), 0..4)
}

fn acl_text(acl: &Acl) -> String {
    let member = |(deny, element): &(bool, Element)| {
        let text = match element {
            Element::Network(text) => (*text).to_owned(),
            Element::Any => "any".into(),
            Element::None => "none".into(),
            Element::Localhost => "localhost".into(),
            Element::Localnets => "localnets".into(),
            Element::Key(key) => format!("key {key}"),
            Element::Unknown => "geoip country DE".into(),
            Element::List(inner) => acl_text(inner),
        };
        format!("{}{text}; ", if *deny { "!" } else { "" })
    };
    format!("{{ {} }}", acl.iter().map(member).collect::<String>())
}

/// Whether the list matches a client and permits it: `Some(false)` is a refusal. `geoip` is the result of a
/// geoip member.
fn matched(acl: &Acl, client: Asker, geoip: bool) -> Option<bool> {
    acl.iter().find_map(|(deny, element)| {
        let found = match element {
            Element::Network(network) => client.is_in(network),
            Element::Any => true,
            Element::None => return Some(*deny),
            Element::Localhost => OWN.contains(&client.address),
            Element::Localnets => ATTACHED.iter().any(|network| client.is_in(network)),
            Element::Key(key) => client.key == Some(key),
            Element::Unknown => geoip,
            // A refusal in a nested list is not a match.
            Element::List(inner) => matched(inner, client, geoip) == Some(true),
        };
        found.then_some(!deny)
    })
}

fn passes(acl: &Option<Acl>, usual: bool, client: Asker, geoip: bool) -> bool {
    acl.as_ref().map_or(usual, |acl| matched(acl, client, geoip) == Some(true))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upstream {
    None,
    Empty,
    Plain(&'static str),
    Encrypted(&'static str),
}

fn upstream() -> impl Strategy<Value = Upstream> {
    prop_oneof![
        2 => Just(Upstream::None),
        1 => Just(Upstream::Empty),
        3 => select(&["192.0.2.53", "10.0.0.53"][..]).prop_map(Upstream::Plain),
        3 => select(&["192.0.2.54", "10.0.0.54"][..]).prop_map(Upstream::Encrypted),
    ]
}

/// A rule of BIND's `update-policy`.
#[derive(Debug, Clone)]
struct PolicyRule {
    grant: bool,
    identity: &'static str,
    kind: &'static str,
    name: &'static str,
    types: &'static [&'static str],
}

fn policy_rule() -> impl Strategy<Value = PolicyRule> {
    let kinds = ["name", "subdomain", "wildcard", "self", "selfsub", "selfwild", "zonesub"];
    let names = ["a.example", "www.a.example", "*.a.example", "*.www.a.example", "k1", "x.k1"];
    let types: [&[&str]; 5] = [&[], &["A"], &["TXT", "A"], &["ANY"], &["NS"]];
    let identities = ["k1", "k2", "*", "gone", "*.k1"];
    (
        prop::bool::weighted(0.7),
        select(identities.to_vec()),
        select(kinds.to_vec()),
        select(names.to_vec()),
        select(types.to_vec()),
    )
        .prop_map(|(grant, identity, kind, name, types)| PolicyRule {
            grant,
            identity,
            kind,
            name,
            types,
        })
}

impl PolicyRule {
    fn text(&self) -> String {
        let action = if self.grant { "grant" } else { "deny" };
        let name = if self.kind == "zonesub" { "" } else { self.name };
        format!("{action} {} {} {name} {}; ", self.identity, self.kind, self.types.join(" "))
    }

    /// Whether the rule covers records of a name and type changed by a client; the client's key is its
    /// identity.
    fn fits(&self, client: Asker, zone: &str, name: &str, rtype: &str) -> bool {
        let Some(key) = client.key else { return false };
        let is_identity = match self.identity.strip_prefix('*') {
            Some("") => true,
            Some(rest) => key.ends_with(rest),
            None => self.identity == key,
        };
        let is_strictly_below = |parent: &str| name != parent && is_below(name, parent);
        let is_named = match self.kind {
            "name" => name == self.name,
            "subdomain" => is_below(name, self.name),
            "wildcard" => self.name.strip_prefix("*.").is_some_and(is_strictly_below),
            "self" => name == key,
            "selfsub" => is_below(name, key),
            "selfwild" => is_strictly_below(key),
            _ => is_below(name, zone),
        };
        let of_type = match self.types {
            [] => !["NS", "SOA"].contains(&rtype),
            types => types.contains(&rtype) || types == ["ANY"],
        };
        is_identity && is_named && of_type
    }
}

#[derive(Debug, Clone)]
struct BindZone {
    name: &'static str,
    kind: &'static str,
    query: Option<Acl>,
    transfer: Option<Acl>,
    update: Option<Acl>,
    policy: Option<Vec<PolicyRule>>,
    notify: Option<Acl>,
    forwarders: Upstream,
}

fn bind_zone(name: &'static str) -> impl Strategy<Value = BindZone> {
    let kind = select(&["primary", "secondary", "forward"][..]);
    let policy = of(prop::collection::vec(policy_rule(), 1..4));
    (kind, of(acl()), of(acl()), of(acl()), policy, of(acl()), upstream()).prop_map(
        move |(kind, query, transfer, update, policy, notify, forwarders)| BindZone {
            name,
            kind,
            query,
            transfer,
            // If both are set, BIND uses one.
            update: update.filter(|_| policy.is_none() || kind != "primary"),
            policy: policy.filter(|_| kind == "primary"),
            notify,
            forwarders,
        },
    )
}

/// A view: its clients, the addresses that it listens on, whether clients recurse, and its zones by number.
#[derive(Debug, Clone)]
struct BindView {
    clients: Option<Acl>,
    destinations: Option<Acl>,
    recursion: Option<bool>,
    recurse: Option<Acl>,
    zones: Vec<usize>,
}

fn bind_view() -> impl Strategy<Value = BindView> {
    let zones = prop::collection::btree_set(0usize..3, 0..3);
    let parts = (of(acl()), prop::option::weighted(0.1, acl()), of(any::<bool>()), of(acl()), zones);
    parts.prop_map(|(clients, destinations, recursion, recurse, zones)| BindView {
        clients,
        destinations,
        recursion,
        recurse,
        zones: zones.into_iter().collect(),
    })
}

impl BindView {
    fn text(&self, name: &str, zones: &[String]) -> String {
        let recursion = match self.recursion {
            Some(on) => format!("recursion {};\n", if on { "yes" } else { "no" }),
            None => String::new(),
        };
        let zones: String = self.zones.iter().map(|at| zones[*at].clone()).collect();
        format!(
            "view {name} {{ {}{}{}{recursion}{zones} }};\n",
            said("match-clients", &self.clients),
            said("match-destinations", &self.destinations),
            said("allow-recursion", &self.recurse)
        )
    }

    fn has(&self, client: Asker, geoip: bool) -> bool {
        let own = Asker { address: OWN[2], ..client };
        passes(&self.clients, true, client, geoip) && passes(&self.destinations, true, own, geoip)
    }
}

impl BindZone {
    fn text(&self, first: bool) -> String {
        let mut text = format!("zone {} {{ type {};\n", self.name, self.kind);
        text += &match self.kind {
            "forward" => forwarders_text(self.forwarders, first),
            "primary" => format!("file \"/z\"; {}", said("allow-update", &self.update)),
            _ => format!(
                "primaries {{ 192.0.2.1; }}; {}{}",
                said("allow-update-forwarding", &self.update),
                said("allow-notify", &self.notify)
            ),
        };
        if let Some(policy) = &self.policy {
            text +=
                &format!("update-policy {{ {}}};\n", policy.iter().map(PolicyRule::text).collect::<String>());
        }
        if self.kind != "forward" {
            text += &(said("allow-query", &self.query) + &said("allow-transfer", &self.transfer));
        }
        text + "};\n"
    }
}

fn of<T: Strategy>(strategy: T) -> impl Strategy<Value = Option<T::Value>>
where
    T::Value: Clone,
{
    prop::option::weighted(0.4, strategy)
}

fn forwarders_text(upstream: Upstream, first: bool) -> String {
    // `forward first` is the default.
    let mode = if first { "" } else { "forward only;" };
    match upstream {
        Upstream::None => String::new(),
        Upstream::Empty => "forwarders { };".into(),
        Upstream::Plain(server) => format!("forwarders {{ {server}; }}; {mode}"),
        Upstream::Encrypted(server) => format!("forwarders {{ {server} tls t; }}; {mode}"),
    }
}

fn said(key: &str, acl: &Option<Acl>) -> String {
    acl.as_ref().map_or(String::new(), |acl| format!("{key} {};\n", acl_text(acl)))
}

/// Checks that all names queried after the conversion were queried in the same way before. Returns whether
/// some are no longer queried, or at fewer servers.
fn asks_no_more(
    before: &dyn Fn(&str) -> Asked,
    after: &After,
    client: Option<Asker>,
) -> Result<bool, TestCaseError> {
    let mut less = false;
    for name in NAMES {
        let (now, then) = (after.asks(name, client), before(name));
        let fewer = match (&now, &then) {
            (Asked::NoServer, _) => true,
            (Asked::Servers(now), Asked::ServersThenRoots(then)) => now == then,
            _ => now == then,
        };
        prop_assert!(fewer, "{name}: {then:?} before, {now:?} now");
        // A rule for a name in a zone only counts below a delegation, in both programs.
        less |= now != then && !after.is_in_a_zone(name, client);
    }
    Ok(less)
}

/// Checks that lost access is reported.
fn reports(less: Option<String>, after: &After, text: &str) -> Result<(), TestCaseError> {
    let words = less.unwrap_or_default();
    prop_assert!(words.is_empty() || after.is_reported_as_less(), "not reported: {words}\n{text}");
    Ok(())
}

/// Records lost access.
fn note(less: &mut Option<String>, before: bool, now: bool, words: impl FnOnce() -> String) {
    if before && !now {
        less.get_or_insert_with(words);
    }
}

/// Names and types of changed records.
fn changed() -> impl Iterator<Item = (&'static str, &'static str)> {
    let names = ["a.example", "www.a.example", "x.www.a.example", "k1", "x.k1"];
    names.into_iter().flat_map(|name| ["A", "TXT", "NS"].map(|rtype| (name, rtype)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn bind_lets_no_client_do_more(
        lists in prop::array::uniform7(of(acl())),
        recursion in any::<bool>(),
        local in of(acl()),
        forwarders in upstream(),
        first in any::<bool>(),
        zones in (bind_zone("a.example"), bind_zone("b.a.example"), bind_zone("c.example")),
        views in prop::option::weighted(0.5, prop::collection::vec(bind_view(), 1..4)),
        geoip in any::<bool>(),
    ) {
        let [query, recurse, cache, transfer, black, notify, on] = lists;
        let zones = [zones.0, zones.1, zones.2];
        let mut text = "key k1 { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\nkey k2 { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n".to_owned();
        text += &format!("options {{ recursion {};\n", if recursion { "yes" } else { "no" });
        for (key, acl) in [("allow-query", &query), ("allow-recursion", &recurse), ("allow-query-cache", &cache), ("allow-query-on", &on),
            ("allow-transfer", &transfer), ("blackhole", &black), ("allow-notify", &notify), ("allow-recursion-on", &local)] {
            text += &said(key, acl);
        }
        text += &format!("{} }};\n", forwarders_text(forwarders, first));
        let texts = zones.each_ref().map(|zone| zone.text(first));
        text += &match &views {
            None => texts.concat(),
            Some(views) => (0..).zip(views).map(|(n, view)| view.text(&format!("v{n}"), &texts)).collect(),
        };
        let view_of = |client: Asker| views.iter().flatten().position(|view| view.has(client, geoip));
        // Without views, there is one for all.
        let all = BindView { clients: None, destinations: None, recursion: None, recurse: None, zones: vec![0, 1, 2] };
        let of_client = |client: Asker| match &views {
            None => Some(&all),
            Some(views) => view_of(client).map(|at| &views[at]),
        };
        let after = After::of(PeerProgram::Bind, &[("/n", &text)]);
        let mut less = None;
        for client in askers() {
            // BIND ignores keys in `blackhole`.
            let black = passes(&black, false, Asker { key: None, ..client }, geoip);
            let view = of_client(client);
            let own_zones: Vec<&BindZone> = view.into_iter().flat_map(|view| &view.zones).map(|at| &zones[*at]).collect();
            // Non-loopback addresses of the host are not in nomen's counterpart of BIND's `localhost`, which
            // is reported as different. They may be in another view, too.
            let is_counted = client.address != OWN[2] || !text.contains("localhost");
            if !is_counted && views.is_some() {
                continue;
            }
            for zone in zones.iter().filter(|zone| zone.kind != "forward") {
                let is_there = !black && own_zones.iter().any(|own| own.name == zone.name);
                if let (Some(found), Some(at)) = (after.zone(zone.name, client), view_of(client)) {
                    prop_assert!(found.view().is_none_or(|view| view == format!("v{at}")), "{client:?} {found:?}\n{text}");
                }
                let or = |own: &Option<Acl>, all: &Option<Acl>| own.clone().or(all.clone());
                let own = Asker { address: OWN[2], ..client };
                let may_query = is_there && passes(&or(&zone.query, &query), true, client, geoip) && passes(&on, true, own, geoip);
                let queries = after.serves(zone.name, client);
                prop_assert!(may_query || !queries, "{client:?} queries {}\n{text}", zone.name);
                note(&mut less, is_counted && may_query, queries, || format!("{client:?} queries {}", zone.name));
                let list = or(&zone.transfer, &transfer);
                let may = is_there && passes(&list, true, client, geoip);
                let does = after.lists(zone.name, "allow-transfer", client);
                prop_assert!(may || !does, "{client:?}\n{text}");
                note(&mut less, is_counted && may && list.is_some(), does, || format!("{client:?} transfers"));
                let may = is_there && zone.kind == "secondary" && passes(&or(&zone.notify, &notify), false, client, geoip);
                let does = after.lists(zone.name, "allow-notify", client);
                prop_assert!(may || !does, "{client:?} notifies\n{text}");
                note(&mut less, is_counted && may, does, || format!("{client:?} notifies"));
                let may = is_there && passes(&zone.update, false, client, geoip);
                for (kind, key) in [("primary", "allow-update"), ("secondary", "forward-updates")] {
                    let does = after.lists(zone.name, key, client);
                    prop_assert!(may || !does, "{client:?} {key}\n{text}");
                    note(&mut less, is_counted && may && kind == zone.kind, does, || format!("{client:?} {key}"));
                }
                for (name, rtype) in zone.policy.iter().flat_map(|_| changed()) {
                    let decides = zone.policy.iter().flatten().find(|rule| rule.fits(client, zone.name, name, rtype));
                    let may = is_there && decides.is_some_and(|rule| rule.grant);
                    let does = after.updates(zone.name, client, name, rtype);
                    prop_assert!(may || !does, "{client:?} changes {name} {rtype}\n{text}");
                    note(&mut less, may, does, || format!("{client:?} changes {name} {rtype}"));
                }
            }
            let may_recurse = |client: Asker| of_client(client).is_some_and(|view| {
                let usual = client.is_in(ATTACHED[0]) || client.is_in(ATTACHED[1]) || client.address == "::1";
                let recurse = view.recurse.clone().or(recurse.clone());
                let of_recursion = recurse.clone().or(cache.clone()).or(query.clone());
                let of_cache = cache.clone().or(recurse).or(query.clone());
                // The server's own address that is queried is its first one.
                let own = Asker { address: OWN[2], key: None, tcp: client.tcp };
                view.recursion.unwrap_or(recursion) && !black && passes(&of_recursion, usual, client, geoip)
                    && passes(&of_cache, usual, client, geoip) && passes(&local, true, own, geoip)
            });
            // With views, nomen does not look at keys for recursion: a client may leave its key away.
            let may = may_recurse(client) || views.is_some() && may_recurse(Asker { key: None, ..client });
            prop_assert!(may || !after.recurses(client), "{client:?} recurses\n{text}");
            // A key alone does not permit recursion in nomen; this is reported if a list has one.
            let is_unsigned = client.key.is_none() || views.is_none();
            note(&mut less, is_counted && is_unsigned && may_recurse(client), after.recurses(client), || format!("{client:?} recurses"));
            let before = |name: &str| {
                let zone = own_zones.iter().filter(|zone| is_below(name, zone.name)).max_by_key(|zone| zone.name.len());
                let forwarders = match zone {
                    _ if !may => return Asked::NoServer,
                    Some(zone) if zone.kind != "forward" => return Asked::NoServer,
                    // Without servers, nothing is forwarded.
                    Some(zone) => zone.forwarders,
                    None => forwarders,
                };
                match forwarders {
                    Upstream::None | Upstream::Empty => Asked::Roots,
                    Upstream::Plain(server) if first => Asked::ServersThenRoots(vec![server.into()]),
                    Upstream::Plain(server) => Asked::Servers(vec![server.into()]),
                    Upstream::Encrypted(_) => Asked::NoServer,
                }
            };
            // With views, a client may recurse with its key if it may without. Names that a view has for its
            // key alone are then asked for where that view has no zones in nomen.
            if !is_unsigned {
                continue;
            }
            if asks_no_more(&before, &after, Some(client))? && is_counted {
                less.get_or_insert_with(|| format!("names that {client:?} asks for"));
            }
        }
        reports(less, &after, &text)?;
    }

    /// Nothing else is narrower, so each omitted rule has to be reported.
    #[test]
    fn rules_of_updates_let_no_client_do_more(policy in prop::collection::vec(policy_rule(), 1..4)) {
        let zone = BindZone {
            name: "a.example",
            kind: "primary",
            query: None,
            transfer: None,
            update: None,
            policy: Some(policy.clone()),
            notify: None,
            forwarders: Upstream::None,
        };
        let keys = "key k1 { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\nkey k2 { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n";
        let text = format!("{keys}options {{ recursion no; }};\n{}", zone.text(false));
        let after = After::of(PeerProgram::Bind, &[("/n", &text)]);
        let mut less = None;
        for client in askers() {
            for (name, rtype) in changed() {
                let decides = policy.iter().find(|rule| rule.fits(client, zone.name, name, rtype));
                let (may, does) = (decides.is_some_and(|rule| rule.grant), after.updates(zone.name, client, name, rtype));
                prop_assert!(may || !does, "{client:?} changes {name} {rtype}\n{text}");
                note(&mut less, may, does, || format!("{client:?} changes {name} {rtype}"));
            }
        }
        reports(less, &after, &text)?;
    }

    #[test]
    fn unbound_lets_no_client_do_more(
        access in prop::collection::vec((select(NETWORKS), select(&["allow", "deny", "refuse", "allow_snoop", "allow_cookie", "refuse_non_local", "deny_non_local", "frob"][..])), 0..5),
        view in of(select(NETWORKS)),
        rules in prop::collection::vec((select(&[".", "a.example", "b.a.example", "c.example"][..]), upstream(), any::<bool>()), 0..3),
        zones in prop::collection::btree_set(select(&["b.a.example", "c.example"][..]), 0..2),
        locals in prop::collection::vec((select(&["a.example", "x.b.a.example", "b.a.example", "other.test"][..]), select(&["refuse", "deny", "static", "always_nxdomain", "redirect", "transparent", "block_a", "always_refuse", "always_null", "inform"][..])), 0..4),
        all_tls in prop::bool::weighted(0.1),
        first in any::<bool>(),
    ) {
        let mut text = "server:\n  interface: 192.0.2.1\n".to_owned();
        if all_tls {
            text += "  tls-upstream: yes\n";
        }
        for (network, action) in &access {
            text += &format!("  access-control: {network} {action}\n");
        }
        view.iter().for_each(|network| text += &format!("  access-control-view: {network} v\n"));
        locals.iter().for_each(|(name, kind)| text += &format!("  local-zone: {name} {kind}\n"));
        let mut seen = std::collections::HashSet::new();
        let rules: Vec<_> = rules.into_iter().filter(|(name, ..)| seen.insert(*name)).collect();
        for (name, upstream, stub) in &rules {
            let stub = *stub && *name != ".";
            let kind = if stub { "stub" } else { "forward" };
            text += &format!("{kind}-zone:\n  name: {name}\n");
            text += &match upstream {
                Upstream::None | Upstream::Empty => format!("  {kind}-host: ns.example\n"),
                Upstream::Plain(server) if first => format!("  {kind}-addr: {server}\n  {kind}-first: yes\n"),
                Upstream::Plain(server) => format!("  {kind}-addr: {server}\n"),
                Upstream::Encrypted(server) => format!("  {kind}-addr: {server}@853\n  {kind}-tls-upstream: yes\n"),
            };
        }
        for zone in &zones {
            text += &format!("auth-zone:\n  name: {zone}\n  zonefile: /z\n  for-downstream: yes\n");
        }
        let after = After::of(PeerProgram::Unbound, &[("/u", &text)]);
        let mut less = None;
        for client in askers() {
            let mut best: Option<(u8, &str)> = None;
            for (network, action) in [("127.0.0.0/8", "allow"), ("::1", "allow")].iter().chain(&access) {
                let length = network.split_once('/').map_or(if network.contains(':') { 128 } else { 32 }, |(_, n)| n.parse().expect("a number"));
                if client.is_in(network) && best.is_none_or(|(longest, _)| length >= longest) {
                    best = Some((length, action));
                }
            }
            let viewed = view.is_some_and(|network| client.is_in(network));
            let action = best.map(|(_, action)| action);
            let may = !viewed && match action {
                Some("allow" | "allow_snoop") => true,
                Some("allow_cookie") => client.tcp,
                _ => false,
            };
            // These clients get zones and local data alone.
            let queries = may || !viewed && matches!(action, Some("refuse_non_local" | "deny_non_local"));
            prop_assert!(may || !after.recurses(client), "{client:?} recurses\n{text}");
            prop_assert!(queries || zones.iter().all(|zone| !after.serves(zone, client)), "{client:?} queries\n{text}");
            note(&mut less, may, after.recurses(client), || format!("{client:?} recurses"));
            note(&mut less, queries, zones.iter().all(|zone| after.serves(zone, client)), || format!("{client:?} queries"));
        }
        let before = |name: &str| {
            // Of two local zones of one name, the first counts.
            let kind = locals.iter().rev().filter(|(zone, _)| is_below(name, zone)).max_by_key(|(zone, _)| zone.len());
            if kind.is_some_and(|(_, kind)| !["transparent", "inform"].contains(kind)) || zones.iter().any(|zone| is_below(name, zone)) {
                return Asked::NoServer;
            }
            let rule = rules.iter().filter(|(zone, ..)| is_below(name, zone)).max_by_key(|(zone, ..)| zone.trim_matches('.').len());
            match rule.map(|(_, upstream, _)| *upstream) {
                _ if all_tls => Asked::NoServer,
                None => Asked::Roots,
                // The zone's own servers are queried; none of them is known here.
                Some(Upstream::None | Upstream::Empty) => Asked::NoServer,
                Some(Upstream::Encrypted(server)) => {
                    Asked::Servers(vec![crate::work::with_port(server.parse().expect("an address"), 853) + "#opportunistic"])
                }
                // A stub in nomen only queries its own servers, which is reported as different.
                Some(Upstream::Plain(server)) if first && !rule.is_some_and(|(name, _, stub)| *stub && *name != ".") => {
                    Asked::ServersThenRoots(vec![server.into()])
                }
                Some(Upstream::Plain(server)) => Asked::Servers(vec![server.into()]),
            }
        };
        if asks_no_more(&before, &after, None)? {
            less.get_or_insert_with(|| "names that are asked for".to_owned());
        }
        reports(less, &after, &text)?;
    }

    #[test]
    fn nsd_lets_no_client_do_more(
        lists in prop::array::uniform3(prop::collection::vec((select(&["10.0.0.0/8", "10.66.0.0/16", "10.66.0.0&255.255.0.0", "10.66.0.1-10.66.1.9", "0.0.0.0/0", "::/0", "10.66.0.1@53"][..]), select(&["NOKEY", "BLOCKED", "k1", "gone"][..])), 0..4)),
        encrypted in prop::bool::weighted(0.2),
    ) {
        let mut text = "server:\n ip-address: 192.0.2.1\n".to_owned();
        if encrypted {
            text += " tls-auth-xfr-only: yes\n";
        }
        text += "key:\n name: k1\n algorithm: hmac-sha256\n secret: \"c2VjcmV0\"\nzone:\n name: a.example\n request-xfr: 192.0.2.9 NOKEY\n";
        for (key, list) in ["allow-query", "provide-xfr", "allow-notify"].into_iter().zip(&lists) {
            list.iter().for_each(|(network, client)| text += &format!(" {key}: {network} {client}\n"));
        }
        let after = After::of(PeerProgram::Nsd, &[("/n", &text)]);
        let mut less = None;
        for client in askers() {
            let fits = |network: &str| {
                let network = network.split('@').next().expect("an address");
                crate::network::Network::parse_range(network).expect(network).iter().any(|one| one.covers(client.network()))
            };
            let may = |list: &[(&str, &str)]| {
                let all = || list.iter().filter(|(network, _)| fits(network));
                !all().any(|(_, key)| *key == "BLOCKED")
                    && all().any(|(_, key)| *key == "NOKEY" || client.key == Some(key))
            };
            prop_assert!(lists[0].is_empty() || may(&lists[0]) || !after.serves("a.example", client), "{client:?} queries\n{text}");
            let transfers = !encrypted && may(&lists[1]);
            prop_assert!(transfers || !after.lists("a.example", "allow-transfer", client), "{client:?} transfers\n{text}");
            prop_assert!(may(&lists[2]) || !after.lists("a.example", "allow-notify", client), "{client:?} notifies\n{text}");
            let queries = lists[0].is_empty() || may(&lists[0]);
            note(&mut less, queries, after.serves("a.example", client), || format!("{client:?} queries"));
            for (key, before) in [("allow-transfer", transfers), ("allow-notify", may(&lists[2]))] {
                note(&mut less, before, after.lists("a.example", key, client), || format!("{client:?} {key}"));
            }
        }
        reports(less, &after, &text)?;
    }

    #[test]
    fn knot_lets_no_client_do_more(
        items in prop::collection::vec((
            prop::collection::vec(select(&["10.0.0.0/8", "10.66.0.0/16", "10.66.0.1-10.66.1.9", "0.0.0.0/0", "::/0", "/run/sock"][..]), 0..3),
            of(select(&["k1", "gone"][..])),
            prop::collection::btree_set(select(&["transfer", "update", "query"][..]), 0..3),
            prop::bool::weighted(0.3),
            of((
                select(&["www", "www.a.example.", "@", "*", "*.www", "x.*", "www.*.example.", "x.*."][..]),
                select(&["equal", "sub-or-equal", "sub", "pattern"][..]),
            )),
        ), 0..4),
        automatic in any::<bool>(),
        own in any::<bool>(),
        guarded in prop::bool::weighted(0.1),
    ) {
        let mut text = format!("server:\n    automatic-acl: {}\n", if automatic { "on" } else { "off" });
        text += "key:\n  - id: k1\n    algorithm: hmac-sha256\n    secret: c2VjcmV0\n";
        text += &format!("remote:\n  - id: down\n    address: 10.66.0.1\n    automatic-acl: {}\n", if own { "on" } else { "off" });
        if guarded {
            text += "mod-queryacl:\n  - id: x\n    address: 10.66.0.0/16\n";
        }
        text += "acl:\n";
        for (n, (addresses, key, actions, deny, owner)) in items.iter().enumerate() {
            text += &format!("  - id: i{n}\n");
            if !addresses.is_empty() {
                text += &format!("    address: [{}]\n", addresses.join(", "));
            }
            key.iter().for_each(|key| text += &format!("    key: {key}\n"));
            if !actions.is_empty() {
                text += &format!("    action: [{}]\n", actions.iter().copied().collect::<Vec<_>>().join(", "));
            }
            if *deny {
                text += "    deny: on\n";
            }
            if let Some((name, matching)) = owner {
                text += &format!("    update-owner: name\n    update-owner-match: {matching}\n    update-owner-name: \"{name}\"\n");
            }
        }
        text += "zone:\n  - domain: a.example\n    notify: down\n";
        if guarded {
            text += "    module: mod-queryacl/x\n";
        }
        let ids: Vec<String> = (0..items.len()).map(|n| format!("i{n}")).collect();
        if !ids.is_empty() {
            text += &format!("    acl: [{}]\n", ids.join(", "));
        }
        let after = After::of(PeerProgram::Knot, &[("/k", &text)]);
        let mut less = None;
        for client in askers() {
            // The first match decides; an unknown key may be the client's.
            let decides = |action: &str, name: &str| items.iter().find_map(|(addresses, key, actions, deny, owner)| {
                let at = addresses.is_empty() || addresses.iter().any(|network| {
                    crate::network::Network::parse_range(network).is_some_and(|all| all.iter().any(|one| one.covers(client.network())))
                });
                let signed = match key {
                    Some("gone") => client.key == Some("k2"),
                    Some(key) => client.key == Some(key),
                    None => client.key.is_none() || *deny,
                };
                let acts = actions.contains(action) || actions.is_empty() && *deny && action != "query";
                let owned = action != "update" || *deny || owner.is_none_or(|(wanted, matching)| {
                    let whole = match wanted {
                        "@" => "a.example".to_owned(),
                        wanted => wanted.strip_suffix('.').map_or(format!("{wanted}.a.example"), str::to_owned),
                    };
                    match matching {
                        "equal" => name == whole,
                        "sub" => name != whole && is_below(name, &whole),
                        // Each `*` is one label.
                        "pattern" => {
                            let (labels, forms): (Vec<&str>, Vec<&str>) = (name.split('.').collect(), whole.split('.').collect());
                            labels.len() == forms.len() && labels.iter().zip(&forms).all(|(label, form)| *form == "*" || label == form)
                        }
                        _ => is_below(name, &whole),
                    }
                });
                (at && signed && acts && owned).then_some(!deny)
            });
            let by_itself = automatic && own && client.address == "10.66.0.1";
            let may_query = decides("query", "").unwrap_or(true) && (!guarded || client.is_in("10.66.0.0/16"));
            let queries = after.serves("a.example", client);
            let signed_for_unsigned = client.key.is_some() && after.serves("a.example", Asker { key: None, ..client });
            prop_assert!(may_query || !queries || signed_for_unsigned, "{client:?} queries\n{text}");
            let transfers = decides("transfer", "").unwrap_or(by_itself);
            // Knot does not accept a signed request where an unsigned one is permitted; nomen does, for the
            // same client.
            let unsigned = Asker { key: None, ..client };
            let listed = after.lists("a.example", "allow-transfer", unsigned);
            if client.key.is_none() {
                prop_assert!(transfers || !listed, "{client:?} transfers\n{text}");
            }
            note(&mut less, may_query, after.serves("a.example", client), || format!("{client:?} queries"));
            let is_listed = after.lists("a.example", "allow-transfer", client);
            note(&mut less, transfers && queries, is_listed, || format!("{client:?} transfers"));
            for name in ["a.example", "www.a.example", "x.www.a.example", "z.a.example", "x.z.a.example", "q.x.www.a.example"] {
                let may = decides("update", name).unwrap_or(false);
                let does = after.updates("a.example", client, name, "A");
                let signed_for_unsigned = client.key.is_some() && after.updates("a.example", unsigned, name, "A");
                prop_assert!(may || !does || signed_for_unsigned, "{client:?} updates {name}\n{text}");
                note(&mut less, may, does, || format!("{client:?} updates {name}"));
            }
        }
        reports(less, &after, &text)?;
    }

    #[test]
    fn powerdns_lets_no_client_do_more(
        members in prop::collection::vec((any::<bool>(), select(NETWORKS)), 0..5),
        rules in prop::collection::vec((select(&[".", "a.example", "c.example"][..]), select(&["192.0.2.1", "192.0.2.2:853", "ns.example"][..]), any::<bool>()), 0..3),
        served in any::<bool>(),
    ) {
        let list: Vec<String> = members.iter().map(|(deny, network)| format!("{}{network}", if *deny { "!" } else { "" })).collect();
        let list = list.join(",");
        let passes = |client: Asker| {
            let mut best: Option<(u8, bool)> = None;
            for (deny, network) in &members {
                let length = network.split_once('/').map_or(if network.contains(':') { 128 } else { 32 }, |(_, n)| n.parse().expect("a number"));
                if client.is_in(network) && best.is_none_or(|(longest, _)| length >= longest) {
                    best = Some((length, !deny));
                }
            }
            best.is_some_and(|(_, allow)| allow)
        };
        let files = [
            ("/p", format!("launch=bind\nbind-config=/b\nallow-axfr-ips={list}\ndnsupdate=yes\nallow-dnsupdate-from={list}\n")),
            ("/b", "zone a { type slave; file \"a\"; masters { 192.0.2.1; }; };\n".to_owned()),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let authoritative = After::of(PeerProgram::PowerDns, &files);
        let mut seen = std::collections::HashSet::new();
        let rules: Vec<_> = rules.into_iter().filter(|(name, ..)| seen.insert(*name)).collect();
        let said: Vec<String> = rules.iter().map(|(name, server, recursive)| format!("{}{name}={server}", if *recursive { "+" } else { "" })).collect();
        let zones = if served { "auth-zones=b.a.example=/z\n" } else { "" };
        let text = format!("local-address=127.0.0.1\nallow-from={list}\nforward-zones={}\n{zones}", said.join(", "));
        let recursor = After::of(PeerProgram::Recursor, &[("/r", &text)]);
        let (mut less, mut less_recursion) = (None, None);
        for client in askers() {
            for key in ["allow-transfer", "forward-updates"] {
                let does = authoritative.lists("a", key, client);
                prop_assert!(passes(client) || !does, "{client:?} {key} {list}");
                note(&mut less, passes(client), does, || format!("{client:?} {key}"));
            }
            note(&mut less_recursion, passes(client), recursor.recurses(client), || format!("{client:?} recurses"));
            let queries = served && passes(client);
            note(&mut less_recursion, queries, recursor.serves("b.a.example", client), || format!("{client:?} queries"));
            prop_assert!(passes(client) || !recursor.recurses(client), "{client:?} recurses\n{text}");
            prop_assert!(passes(client) || !recursor.serves("b.a.example", client), "{client:?} queries\n{text}");
        }
        let before = |name: &str| {
            if served && is_below(name, "b.a.example") {
                return Asked::NoServer;
            }
            let rule = rules.iter().filter(|(zone, ..)| is_below(name, zone)).max_by_key(|(zone, ..)| zone.trim_matches('.').len());
            match rule {
                None => Asked::Roots,
                Some((_, "192.0.2.1", _)) => Asked::Servers(vec!["192.0.2.1".into()]),
                Some(_) => Asked::NoServer,
            }
        };
        if asks_no_more(&before, &recursor, None)? {
            less_recursion.get_or_insert_with(|| "names that are asked for".to_owned());
        }
        reports(less, &authoritative, &list)?;
        reports(less_recursion, &recursor, &text)?;
    }
}

/// The generated texts parse without faults.
#[test]
fn the_generated_texts_have_no_faults() {
    let files = memory(&[("/c", "options { allow-query { !{ 10.0.0.0/8; }; geoip country DE; }; };")]);
    assert!(
        super::convert(std::path::Path::new("/c"), Some(PeerProgram::Bind), &files, std::path::Path::new(""))
            .is_ok()
    );
}
