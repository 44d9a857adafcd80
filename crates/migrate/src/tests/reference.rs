//! Generated configurations of each program, judged by a small model of what they let clients do: afterwards no client can do
//! what it could not do before.

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

/// A member of a list of BIND's.
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

/// Whether the list matches a client, and lets it pass: `Some(false)` is a refusal. `geoip` fits as it is said.
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
            // A refusal within is no match.
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

#[derive(Debug, Clone)]
struct BindZone {
    name: &'static str,
    kind: &'static str,
    query: Option<Acl>,
    transfer: Option<Acl>,
    update: Option<Acl>,
    forwarders: Upstream,
}

fn bind_zone(name: &'static str) -> impl Strategy<Value = BindZone> {
    let kind = select(&["primary", "secondary", "forward"][..]);
    (kind, of(acl()), of(acl()), of(acl()), upstream()).prop_map(
        move |(kind, query, transfer, update, forwarders)| BindZone {
            name,
            kind,
            query,
            transfer,
            update,
            forwarders,
        },
    )
}

fn of<T: Strategy>(strategy: T) -> impl Strategy<Value = Option<T::Value>>
where
    T::Value: Clone,
{
    prop::option::weighted(0.4, strategy)
}

fn forwarders_text(upstream: Upstream) -> String {
    match upstream {
        Upstream::None => String::new(),
        Upstream::Empty => "forwarders { };".into(),
        Upstream::Plain(server) => format!("forwarders {{ {server}; }}; forward only;"),
        Upstream::Encrypted(server) => format!("forwarders {{ {server} tls t; }}; forward only;"),
    }
}

fn said(key: &str, acl: &Option<Acl>) -> String {
    acl.as_ref().map_or(String::new(), |acl| format!("{key} {};\n", acl_text(acl)))
}

/// The names that are asked for afterwards were asked for in the same way before.
fn asks_no_more(before: &dyn Fn(&str) -> Asked, after: &After) -> Result<(), TestCaseError> {
    for name in NAMES {
        let (now, then) = (after.asks(name), before(name));
        prop_assert!(now == Asked::NoServer || now == then, "{name}: {then:?} before, {now:?} now");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn bind_lets_no_client_do_more(
        lists in prop::array::uniform5(of(acl())),
        recursion in any::<bool>(),
        local in of(acl()),
        forwarders in upstream(),
        zones in (bind_zone("a.example"), bind_zone("b.a.example"), bind_zone("c.example")),
        geoip in any::<bool>(),
    ) {
        let [query, recurse, cache, transfer, black] = lists;
        let zones = [zones.0, zones.1, zones.2];
        let mut text = "key k1 { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\nkey k2 { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n".to_owned();
        text += &format!("options {{ recursion {};\n", if recursion { "yes" } else { "no" });
        for (key, acl) in [("allow-query", &query), ("allow-recursion", &recurse), ("allow-query-cache", &cache),
            ("allow-transfer", &transfer), ("blackhole", &black), ("allow-recursion-on", &local)] {
            text += &said(key, acl);
        }
        text += &format!("{} }};\n", forwarders_text(forwarders));
        for zone in &zones {
            text += &format!("zone {} {{ type {};\n", zone.name, zone.kind);
            text += &match zone.kind {
                "forward" => forwarders_text(zone.forwarders),
                "primary" => format!("file \"/z\"; {}", said("allow-update", &zone.update)),
                _ => format!("primaries {{ 192.0.2.1; }}; {}", said("allow-update-forwarding", &zone.update)),
            };
            if zone.kind != "forward" {
                text += &(said("allow-query", &zone.query) + &said("allow-transfer", &zone.transfer));
            }
            text += "};\n";
        }
        let after = After::of(PeerProgram::Bind, &[("/n", &text)]);
        let all = |acl: &Option<Acl>| acl.clone();
        for client in askers() {
            let black = passes(&black, false, client, geoip);
            for zone in zones.iter().filter(|zone| zone.kind != "forward") {
                let may_query = !black && passes(&all(&zone.query).or(query.clone()), true, client, geoip);
                prop_assert!(may_query || !after.serves(zone.name), "{client:?} queries {}\n{text}", zone.name);
                let may = !black && passes(&all(&zone.transfer).or(transfer.clone()), true, client, geoip);
                prop_assert!(may || !after.lists(zone.name, "allow-transfer", client), "{client:?}\n{text}");
                let may = !black && passes(&zone.update, false, client, geoip);
                for key in ["allow-update", "forward-updates"] {
                    prop_assert!(may || !after.lists(zone.name, key, client), "{client:?} {key}\n{text}");
                }
            }
            let usual = client.is_in(ATTACHED[0]) || client.is_in(ATTACHED[1]) || client.address == "::1";
            let of_recursion = recurse.clone().or(cache.clone()).or(query.clone());
            let of_cache = cache.clone().or(recurse.clone()).or(query.clone());
            // The server's own address that is asked is its first.
            let own = Asker { address: OWN[2], key: None, tcp: client.tcp };
            let may = recursion && !black && passes(&of_recursion, usual, client, geoip)
                && passes(&of_cache, usual, client, geoip) && passes(&local, true, own, geoip);
            prop_assert!(may || !after.recurses(client), "{client:?} recurses\n{text}");
        }
        let before = |name: &str| {
            let zone = zones.iter().filter(|zone| is_below(name, zone.name)).max_by_key(|zone| zone.name.len());
            let forwarders = match zone {
                _ if !recursion => return Asked::NoServer,
                Some(zone) if zone.kind != "forward" => return Asked::NoServer,
                // Without servers, nothing is forwarded.
                Some(zone) => zone.forwarders,
                None => forwarders,
            };
            match forwarders {
                Upstream::None | Upstream::Empty => Asked::Roots,
                Upstream::Plain(server) => Asked::Servers(vec![server.into()]),
                Upstream::Encrypted(_) => Asked::NoServer,
            }
        };
        asks_no_more(&before, &after)?;
    }

    #[test]
    fn unbound_lets_no_client_do_more(
        access in prop::collection::vec((select(NETWORKS), select(&["allow", "deny", "refuse", "allow_snoop", "allow_cookie", "refuse_non_local", "frob"][..])), 0..5),
        view in of(select(NETWORKS)),
        rules in prop::collection::vec((select(&[".", "a.example", "b.a.example", "c.example"][..]), upstream(), any::<bool>()), 0..3),
        zones in prop::collection::btree_set(select(&["b.a.example", "c.example"][..]), 0..2),
        locals in prop::collection::vec((select(&["a.example", "x.b.a.example", "other.test"][..]), select(&["refuse", "deny", "static", "always_nxdomain", "redirect", "transparent", "block_a"][..])), 0..2),
        all_tls in prop::bool::weighted(0.1),
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
                Upstream::Plain(server) => format!("  {kind}-addr: {server}\n"),
                Upstream::Encrypted(server) => format!("  {kind}-addr: {server}@853\n  {kind}-tls-upstream: yes\n"),
            };
        }
        for zone in &zones {
            text += &format!("auth-zone:\n  name: {zone}\n  zonefile: /z\n  for-downstream: yes\n");
        }
        let after = After::of(PeerProgram::Unbound, &[("/u", &text)]);
        for client in askers() {
            let mut best: Option<(u8, &str)> = None;
            for (network, action) in [("127.0.0.0/8", "allow"), ("::1", "allow")].iter().chain(&access) {
                let length = network.split_once('/').map_or(if network.contains(':') { 128 } else { 32 }, |(_, n)| n.parse().expect("a number"));
                if client.is_in(network) && best.is_none_or(|(longest, _)| length >= longest) {
                    best = Some((length, action));
                }
            }
            let viewed = view.is_some_and(|network| client.is_in(network));
            let may = !viewed && match best.map(|(_, action)| action) {
                Some("allow" | "allow_snoop") => true,
                Some("allow_cookie") => client.tcp,
                _ => false,
            };
            prop_assert!(may || !after.recurses(client), "{client:?} recurses\n{text}");
            prop_assert!(may || zones.iter().all(|zone| !after.serves(zone)), "{client:?} queries\n{text}");
        }
        let before = |name: &str| {
            let kind = locals.iter().filter(|(zone, _)| is_below(name, zone)).max_by_key(|(zone, _)| zone.len());
            if kind.is_some_and(|(_, kind)| *kind != "transparent") || zones.iter().any(|zone| is_below(name, zone)) {
                return Asked::NoServer;
            }
            let rule = rules.iter().filter(|(zone, ..)| is_below(name, zone)).max_by_key(|(zone, ..)| zone.trim_matches('.').len());
            match rule.map(|(_, upstream, _)| *upstream) {
                _ if all_tls => Asked::NoServer,
                None => Asked::Roots,
                // Its servers are asked, wherever they are; none of them is known here.
                Some(Upstream::None | Upstream::Empty | Upstream::Encrypted(_)) => Asked::NoServer,
                Some(Upstream::Plain(server)) => Asked::Servers(vec![server.into()]),
            }
        };
        asks_no_more(&before, &after)?;
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
            prop_assert!(lists[0].is_empty() || may(&lists[0]) || !after.serves("a.example"), "{client:?} queries\n{text}");
            let transfers = !encrypted && may(&lists[1]);
            prop_assert!(transfers || !after.lists("a.example", "allow-transfer", client), "{client:?} transfers\n{text}");
            prop_assert!(may(&lists[2]) || !after.lists("a.example", "allow-notify", client), "{client:?} notifies\n{text}");
        }
    }

    #[test]
    fn knot_lets_no_client_do_more(
        items in prop::collection::vec((
            prop::collection::vec(select(&["10.0.0.0/8", "10.66.0.0/16", "10.66.0.1-10.66.1.9", "0.0.0.0/0", "::/0", "/run/sock"][..]), 0..3),
            of(select(&["k1", "gone"][..])),
            prop::collection::btree_set(select(&["transfer", "update", "query"][..]), 0..3),
            prop::bool::weighted(0.3),
            of((select(&["www", "www.a.example.", "@", "*"][..]), select(&["equal", "sub-or-equal", "sub"][..]))),
        ), 0..4),
        automatic in any::<bool>(),
        own in any::<bool>(),
        guarded in prop::bool::weighted(0.1),
    ) {
        let mut text = format!("server:\n    automatic-acl: {}\n", if automatic { "on" } else { "off" });
        text += "key:\n  - id: k1\n    algorithm: hmac-sha256\n    secret: c2VjcmV0\n";
        text += &format!("remote:\n  - id: down\n    address: 10.66.0.1\n    automatic-acl: {}\n", if own { "on" } else { "off" });
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
        for client in askers() {
            // The first item that fits decides; an unknown key is one that the client may have.
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
                        _ => is_below(name, &whole),
                    }
                });
                (at && signed && acts && owned).then_some(!deny)
            });
            let by_itself = automatic && own && client.address == "10.66.0.1";
            let may_query = !guarded && decides("query", "").unwrap_or(true);
            prop_assert!(may_query || !after.serves("a.example"), "{client:?} queries\n{text}");
            let transfers = decides("transfer", "").unwrap_or(by_itself);
            // Knot takes no signed request for an unsigned one; nomen does, which is the same client.
            let unsigned = Asker { key: None, ..client };
            let listed = after.lists("a.example", "allow-transfer", unsigned);
            if client.key.is_none() {
                prop_assert!(transfers || !listed, "{client:?} transfers\n{text}");
            }
            for name in ["a.example", "www.a.example", "x.www.a.example", "z.a.example"] {
                let may = decides("update", name).unwrap_or(false);
                let does = after.updates("a.example", client, name, "A");
                let signed_for_unsigned = client.key.is_some() && after.updates("a.example", unsigned, name, "A");
                prop_assert!(may || !does || signed_for_unsigned, "{client:?} updates {name}\n{text}");
            }
        }
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
        for client in askers() {
            for key in ["allow-transfer", "forward-updates"] {
                prop_assert!(passes(client) || !authoritative.lists("a", key, client), "{client:?} {key} {list}");
            }
            prop_assert!(passes(client) || !recursor.recurses(client), "{client:?} recurses\n{text}");
            prop_assert!(passes(client) || !recursor.serves("b.a.example"), "{client:?} queries\n{text}");
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
        asks_no_more(&before, &recursor)?;
    }
}

/// The generated texts are read as they are meant.
#[test]
fn the_generated_texts_have_no_faults() {
    let files = memory(&[("/c", "options { allow-query { !{ 10.0.0.0/8; }; geoip country DE; }; };")]);
    assert!(super::convert(std::path::Path::new("/c"), Some(PeerProgram::Bind), &files).is_ok());
}
