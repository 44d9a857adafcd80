//! The access that a converted configuration permits, which is never more than before.

use super::*;
use crate::ledger::Account;
use crate::model::{Keys, Nomen, Setting, Zone};
pub(super) use crate::narrow::is_below;
use crate::network::Network;

/// A client: its address, its TSIG key, and whether it uses TCP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) address: &'static str,
    pub(super) key: Option<&'static str>,
    pub(super) tcp: bool,
}

/// The networks attached to the host, including its own addresses.
pub(super) const ATTACHED: [&str; 2] = ["127.0.0.0/8", "10.77.0.0/16"];
pub(super) const OWN: [&str; 3] = ["127.0.0.1", "::1", "10.77.0.1"];

const ADDRESSES: [&str; 10] = [
    "127.0.0.1",
    "10.1.0.1",
    "10.66.0.1",
    "10.66.1.1",
    "10.77.0.1",
    "10.77.0.9",
    "192.0.2.7",
    "203.0.113.5",
    "2001:db8::1",
    "::1",
];

/// Clients of all kinds.
pub(super) fn askers() -> impl Iterator<Item = Asker> {
    let keys = [None, Some("k1"), Some("k2")];
    let of = move |address| {
        keys.into_iter().flat_map(move |key| [true, false].map(|tcp| Asker { address, key, tcp }))
    };
    ADDRESSES.into_iter().flat_map(of)
}

impl Asker {
    pub(super) fn network(self) -> Network {
        Network::parse(self.address).expect(self.address)
    }
    pub(super) fn is_in(self, network: &str) -> bool {
        Network::parse(network).expect(network).covers(self.network())
    }
}

/// The servers queried for a name in the clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    NoServer,
    Servers(Vec<String>),
    /// These servers and, if they do not answer, resolution from the root servers.
    ServersThenRoots(Vec<String>),
    Roots,
}

/// A converted configuration with its outcomes.
pub(super) struct After(pub(super) Nomen, Vec<Account>, Vec<ListFile>);

impl After {
    pub(super) fn of(program: PeerProgram, files: &[(&str, &str)]) -> Self {
        let files_in_memory = memory(files);
        let (mut texts, mut work) = (Texts::new(&files_in_memory), Work::default());
        run(&mut texts, Path::new(files[0].0), Some(program), &mut work).unwrap_or_else(|e| panic!("{e:?}"));
        finish(&mut texts, &mut work);
        Self(work.nomen, work.ledger.accounts, work.made_lists.files())
    }

    /// Whether the report, and so the exit status, says that something is narrower or missing.
    pub(super) fn is_reported_as_less(&self) -> bool {
        ledger::is_less(&self.1)
    }

    /// Whether the server accepts a client's messages.
    fn accepts(&self, client: Asker) -> bool {
        let first = self.0.server_access.iter().find(|block| is_among(block, client));
        first.is_none_or(|block| match block.get("action") {
            Some(Setting::Text(action)) => action == "allow" || action == "truncate" && client.tcp,
            other => panic!("{other:?}"),
        })
    }

    /// The view of a client: by its key, otherwise by its address.
    pub(super) fn view_of(&self, client: Asker) -> Option<&str> {
        let key = client.key.map(|key| format!("key:{key}"));
        let of_key = key.and_then(|key| self.0.views.iter().find(|view| view.members("from").contains(&key)));
        let unsigned = Asker { key: None, ..client };
        let found = of_key.or_else(|| self.0.views.iter().find(|view| is_among(view, unsigned)))?;
        match found.get("name") {
            Some(Setting::Text(name)) => Some(name),
            other => panic!("{other:?}"),
        }
    }

    /// The zone of this name that a client gets: that of its view, otherwise that without one.
    pub(super) fn zone(&self, name: &str, client: Asker) -> Option<&Zone> {
        let view = self.view_of(client);
        let of =
            |view: Option<&str>| self.0.zones.iter().find(|zone| zone.name == name && zone.view() == view);
        view.and_then(|view| of(Some(view))).or_else(|| of(None)).filter(|_| self.accepts(client))
    }

    /// Whether a client gets answers from a zone.
    pub(super) fn serves(&self, name: &str, client: Asker) -> bool {
        self.zone(name, client).is_some_and(|zone| {
            let list = zone.keys.members("allow-query");
            let first = list.iter().find(|text| fits(text.trim_start_matches('!'), client));
            zone.keys.get("catalog-template").is_none()
                && (list.is_empty() || first.is_some_and(|text| !text.starts_with('!')))
        })
    }

    /// Whether a list of a zone contains a client.
    pub(super) fn lists(&self, zone: &str, key: &str, client: Asker) -> bool {
        let found = self.zone(zone, client);
        found.is_some_and(|zone| zone.keys.members(key).iter().any(|text| fits(text, client)))
    }

    /// Whether a client may change records of a name and type, by `allow-update` or by a rule.
    pub(super) fn updates(&self, zone: &str, client: Asker, name: &str, rtype: &str) -> bool {
        let Some(found) = self.zone(zone, client) else { return false };
        for rule in found.keys.members("update-policy") {
            let words: Vec<&str> = rule.split(' ').collect();
            let relations = ["name", "subdomain", "wildcard", "pattern", "self", "selfsub", "zone"];
            let at = words.iter().position(|word| relations.contains(word));
            let at = at.expect("names");
            if !fits(&words[1..at].join(" "), client) {
                continue;
            }
            let named = words.get(at + 1).map_or("", |word| word.trim_end_matches('.'));
            let (of_name, types) = match words[at] {
                "name" => (name == named, &words[at + 2..]),
                "subdomain" => (is_below(name, named), &words[at + 2..]),
                "wildcard" => {
                    let parent = named.strip_prefix("*.").expect("a wildcard");
                    (name != parent && is_below(name, parent), &words[at + 2..])
                }
                "pattern" => (has_form(name, named), &words[at + 2..]),
                "self" => (client.key == Some(name), &words[at + 1..]),
                "selfsub" => (client.key.is_some_and(|key| is_below(name, key)), &words[at + 1..]),
                _ => (is_below(name, zone), &words[at + 1..]),
            };
            let of_type = match types {
                [] => !["NS", "SOA"].contains(&rtype),
                types => types.contains(&rtype) || *types == ["ANY"],
            };
            if of_name && of_type {
                return words[0] == "grant";
            }
        }
        found.keys.members("allow-update").iter().any(|text| fits(text, client))
    }

    /// Whether a client may use recursion.
    pub(super) fn recurses(&self, client: Asker) -> bool {
        if self.0.resolver.is_none() || !self.accepts(client) {
            return false;
        }
        assert!(!self.0.access.is_empty(), "without a block, nomen has clients of its own choice");
        let first = self.0.access.iter().find(|block| is_among(block, client));
        first.is_some_and(|block| block.get("action") == Some(&Setting::Text("allow".into())))
    }

    /// Whether a name is at or below a zone of a client's view.
    pub(super) fn is_in_a_zone(&self, name: &str, client: Option<Asker>) -> bool {
        let view = client.and_then(|client| self.view_of(client));
        let mut zones = self.0.zones.iter().filter(|zone| zone.view().is_none() || zone.view() == view);
        zones.any(|zone| is_below(name, &zone.name))
    }

    /// Whether a list blocks a name.
    fn is_blocked(&self, name: &str) -> bool {
        let lines: Vec<&str> = self.2.iter().flat_map(|list| list.text.lines()).collect();
        let has = |start: &str| {
            let domains = lines.iter().filter_map(|line| line.strip_prefix(start)?.strip_suffix('^'));
            domains.into_iter().any(|domain| is_below(name, domain))
        };
        has("||") && !has("@@||")
    }

    /// The servers queried for a name, for a client or for any.
    pub(super) fn asks(&self, name: &str, client: Option<Asker>) -> Asked {
        let Some(resolver) = &self.0.resolver else { return Asked::NoServer };
        if client.is_some_and(|client| !self.recurses(client))
            || self.is_in_a_zone(name, client)
            || self.is_blocked(name)
        {
            return Asked::NoServer;
        }
        let refused =
            resolver.members("refused-domains").iter().map(|domain| (domain.clone(), Asked::NoServer));
        let rules = self.0.forwards.iter().chain(&self.0.stubs).map(|rule| {
            let servers = rule.members("servers").to_vec();
            let asked = match rule.get("forward-first") {
                Some(Setting::Switch(true)) => Asked::ServersThenRoots(servers),
                _ => Asked::Servers(servers),
            };
            match rule.get("domain") {
                Some(Setting::Text(domain)) => (domain.clone(), asked),
                other => panic!("{other:?}"),
            }
        });
        let longest = refused.chain(rules).filter(|(domain, _)| is_below(name, domain));
        let iterates = resolver.get("iterate") != Some(&Setting::Switch(false));
        let usual = if iterates { Asked::Roots } else { Asked::NoServer };
        longest.max_by_key(|(domain, _)| domain.trim_matches('.').len()).map_or(usual, |(_, asked)| asked)
    }
}

/// Whether a name matches a nomen pattern: a `*` is one label, and at the end one or more.
fn has_form(name: &str, form: &str) -> bool {
    let (labels, forms): (Vec<&str>, Vec<&str>) = (name.split('.').collect(), form.split('.').collect());
    let is_open = forms.last() == Some(&"*");
    let long_enough = labels.len() == forms.len() || is_open && labels.len() > forms.len();
    long_enough && labels.iter().zip(&forms).all(|(label, form)| *form == "*" || label == form)
}

/// Whether a client is among those of a block with `from`. Queries arrive at the first address of the host.
fn is_among(block: &Keys, client: Asker) -> bool {
    let (protos, transport) = (block.members("proto"), if client.tcp { "tcp" } else { "udp" });
    let of = |word: &String| match word.as_str() {
        "any" => true,
        "loopback" => client.is_in("127.0.0.0/8") || client.is_in("::1"),
        "attached" => ATTACHED.iter().any(|network| client.is_in(network)),
        word => match word.strip_prefix("key:") {
            Some(key) => client.key == Some(key),
            None => client.is_in(word),
        },
    };
    (protos.is_empty() || protos.iter().any(|proto| proto == transport))
        && block.members("from").iter().any(of)
}

/// Whether a client meets all conditions of a member of a list.
fn fits(text: &str, client: Asker) -> bool {
    text.split(' ').all(|word| match (word.strip_prefix("key:"), word.strip_prefix("on:")) {
        (Some(key), _) => client.key == Some(key),
        (_, Some(address)) => address == OWN[2],
        _ => word == "any" || client.is_in(word),
    })
}

fn narrower(found: &Converted) -> usize {
    found.accounts.iter().filter(|account| account.outcome == Coverage::Narrower).count()
}

#[test]
fn a_zone_of_bind_is_for_the_clients_that_could_query_it() {
    let zone = |own: &str| format!("zone a.example {{ type primary; file \"/a\"; {own} }};\n");
    for (options, own, list) in [
        ("", "allow-query { none; };", "[\"!any\"]"),
        ("", "allow-query { 10.0.0.0/8; };", "[\"10.0.0.0/8\"]"),
        ("", "allow-query { !192.0.2.1; any; };", "[\"!192.0.2.1\", \"any\"]"),
        ("", "allow-query { !{ !10/8; any; }; key xfer; };", "[\"10.0.0.0/8 key:xfer\"]"),
        ("", "allow-query-on { 127.0.0.1; };", "[\"any on:127.0.0.1\"]"),
        ("", "allow-query-on { !192.0.2.1; any; };", "[\"!any on:192.0.2.1\", \"any\"]"),
        ("", "allow-query { 10/8; }; allow-query-on { ::1; };", "[\"10.0.0.0/8 on:::1\"]"),
        ("allow-query { key xfer; };", "", "[\"key:xfer\"]"),
        // That of the zone counts alone.
        ("allow-query { none; };", "allow-query { 10.1.1.1; };", "[\"10.1.1.1\"]"),
    ] {
        for recursion in ["no", "yes"] {
            let text = format!("{KEY} options {{ recursion {recursion}; {options} }};\n{}", zone(own));
            let found = bind(&text);
            has(&found, &[&format!("allow-query = {list}\n")]);
            let of_recursion = found.accounts.iter().filter(|one| one.words.contains("recursion"));
            assert_eq!(
                narrower(&found),
                of_recursion.filter(|one| one.outcome == Coverage::Narrower).count()
            );
            assert!(!found.toml.contains("refused-domains"), "{text}");
        }
    }
    for all in
        ["allow-query { any; };", "allow-query { 0.0.0.0/0; ::/0; };", "allow-query-on { localhost; };", ""]
    {
        let found = bind(&format!("options {{ recursion no; }};\n{}", zone(all)));
        assert!(!found.toml.contains("allow-query"), "{}", found.toml);
        assert_eq!(narrower(&found), 0);
    }
}

#[test]
fn what_bind_never_answers_is_dropped() {
    let of = |list: &str| bind(&format!("options {{ recursion no; blackhole {{ {list} }}; }};"));
    let drop = |from: &str| format!("[[server.access]]\naction = \"drop\"\nfrom = [{from}]\n");
    has(&of("192.0.2.0/24; localnets;"), &[&drop("\"192.0.2.0/24\", \"attached\"")]);
    let found = of("!192.0.2.1; 192.0.2.0/24; !10/8;");
    has(&found, &["action = \"allow\"\nfrom = [\"192.0.2.1\"]", &drop("\"192.0.2.0/24\"")]);
    assert!(!found.toml.contains("10.0.0.0"), "{}", found.toml);
    has(&of("{ !192.0.2.1; 192.0.2.0/31; };"), &[&drop("\"192.0.2.0\"")]);
    let unknown = of("geoip country DE; 192.0.2.1;");
    has(&unknown, &[&drop("\"0.0.0.0/0\", \"::/0\"")]);
    assert_eq!(narrower(&unknown), 1);
    assert!(!of("none;").toml.contains("[[server.access]]"));
}

#[test]
fn clients_of_attached_networks_were_dropped_with_localhost_without_a_report() {
    let found = bind("options { recursion no; blackhole { localhost; }; };");
    has(&found, &["action = \"drop\"\nfrom = [\"loopback\", \"attached\"]"]);
    assert_eq!(narrower(&found), 1);
}

#[test]
fn zones_over_tls_of_bind_are_taken_over_tls_or_not_at_all() {
    let tls = "tls named { remote-hostname \"NS1.example.\"; ca-file \"ca.pem\"; cert-file \"/c.pem\"; key-file \"/k.pem\"; };\n\
               tls by-address { ca-file \"/other.pem\"; };\ntls bare { ciphers \"HIGH\"; };\n";
    let of = |list: &str| {
        let zone = format!("zone \"a\" {{ type secondary; primaries {list}; }};\n");
        of(
            PeerProgram::Bind,
            &[("/etc/named.conf", &format!("options {{ directory \"/var/b\"; }};\n{tls}{zone}"))],
        )
    };
    let named = of("{ 192.0.2.1 port 853 tls named; 2001:db8::1 tls named; 192.0.2.3 port 53 tls named; }");
    has(
        &named,
        &[
            "primaries = [\"192.0.2.1@853#ns1.example\", \"[2001:db8::1]@853#ns1.example\", \"192.0.2.3@53#ns1.example\"]",
            "ca-file = \"/var/b/ca.pem\"",
            "client-chain = \"/c.pem\"",
            "client-key = \"/k.pem\"",
        ],
    );
    assert_eq!(outcomes(&named, "remote-hostname"), [Coverage::Translated]);
    let address = of("{ 192.0.2.1 tls by-address; }");
    has(&address, &["primaries = [\"192.0.2.1@853#192.0.2.1\"]", "ca-file = \"/other.pem\""]);
    for (list, servers) in [
        ("port 8853 tls bare { 192.0.2.1; }", "192.0.2.1@8853#opportunistic"),
        ("{ 192.0.2.1 tls ephemeral; }", "192.0.2.1@853#opportunistic"),
        ("tls bare { 192.0.2.1 tls none; }", "192.0.2.1"),
        // A second file of CA certificates, and a block that is not there.
        ("{ 192.0.2.1 tls by-address; 192.0.2.2 tls named; 192.0.2.3 tls gone; }", "192.0.2.1@853#192.0.2.1"),
    ] {
        has(&of(list), &[&format!("primaries = [\"{servers}\"]")]);
    }
    assert!(!of("{ 192.0.2.3 tls gone; }").toml.contains("192.0.2.3"));
}

#[test]
fn zones_over_tls_of_nsd_and_knot_are_taken_over_tls_or_not_at_all() {
    let nsd = |xfr: &str| {
        let auth = "tls-auth:\n name: t\n auth-domain-name: NS1.example\n client-cert: /c.pem\n client-key: /k.pem\n";
        let text = format!(
            "server:\n zonesdir: /z\n tls-cert-bundle: ca.pem\n{auth}zone:\n name: a\n request-xfr: {xfr}\n"
        );
        of(PeerProgram::Nsd, &[("/n", &text)])
    };
    let named = nsd("192.0.2.1 NOKEY t");
    has(
        &named,
        &["primaries = [\"192.0.2.1#ns1.example\"]", "ca-file = \"/z/ca.pem\"", "client-key = \"/k.pem\""],
    );
    assert_eq!(outcomes(&named, "auth-domain-name"), [Coverage::Translated]);
    has(&nsd("AXFR 192.0.2.1@53 NOKEY t"), &["primaries = [\"192.0.2.1@53#ns1.example\"]"]);
    assert!(!nsd("192.0.2.1 NOKEY gone").toml.contains("192.0.2.1"));

    let pin = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let knot = |entries: &str| {
        let text = format!(
            "remote:\n  - id: r\n    address: 192.0.2.1\n{entries}zone:\n  - domain: a\n    master: r\n"
        );
        of(PeerProgram::Knot, &[("/k", &text)])
    };
    for (entries, server) in [
        (format!("    tls: on\n    cert-key: {pin}\n"), format!("192.0.2.1@853#sha256/{pin}")),
        ("    tls: on\n    cert-hostname: NS1.example\n".into(), "192.0.2.1@853#ns1.example".into()),
        ("    tls: on\n".into(), "192.0.2.1@853#opportunistic".into()),
        (format!("    cert-key: {pin}\n"), "192.0.2.1".into()),
    ] {
        has(&knot(&entries), &[&format!("primaries = [\"{server}\"]")]);
    }
    for entries in [
        "    tls: on\n    cert-hostname: [a.example, b.example]\n",
        "    tls: on\n    cert-hostname: a..b\n",
        "    quic: on\n",
    ] {
        assert!(!knot(entries).toml.contains("192.0.2.1"), "{entries}");
    }
}

#[test]
fn what_unbound_asks_over_tls_is_asked_over_tls_or_not_at_all() {
    let unbound =
        |text: &str| of(PeerProgram::Unbound, &[("/u", &format!("server:\n  interface: 127.0.0.1\n{text}"))]);
    let rule = |name: &str, addr: &str, more: &str| {
        format!("forward-zone:\n  name: \"{name}\"\n  forward-addr: {addr}\n{more}")
    };
    let tls = "  forward-tls-upstream: yes\n";
    let named = unbound(&rule(".", "192.0.2.53@853#dns.example.net", tls));
    has(&named, &["servers = [\"192.0.2.53@853#dns.example.net\"]"]);
    assert!(!named.toml.contains("ca-file"), "{}", named.toml);
    assert_eq!(outcomes(&named, "forward-tls-upstream"), [Coverage::Translated]);
    let usual = unbound(&rule(".", "2001:db8::53#DNS.example.net.", tls));
    has(&usual, &["servers = [\"[2001:db8::53]@853#dns.example.net\"]"]);
    // Unbound verifies nothing without a name.
    let unnamed = unbound(&rule(".", "192.0.2.53@853", tls));
    has(&unnamed, &["servers = [\"192.0.2.53@853#opportunistic\"]"]);
    let bundle = "  tls-cert-bundle: /etc/ssl/own.pem\n";
    let own = unbound(&(bundle.to_owned() + &rule(".", "192.0.2.53#dns.example.net", tls)));
    has(&own, &["ca-file = \"/etc/ssl/own.pem\""]);
    let no_use = unbound(&(bundle.to_owned() + &rule(".", "192.0.2.53", tls)));
    assert!(!no_use.toml.contains("ca-file"), "{}", no_use.toml);
    let odd = unbound(&rule(".", "192.0.2.53#dns.example.net", "  forward-tls-upstream: perhaps\n"));
    has(&odd, &["servers = [\"192.0.2.53@853#dns.example.net\"]"]);
    // A server that cannot be authenticated as there is not asked.
    let bad = unbound(&(rule("corp.example", "192.0.2.53#a..b", tls) + &rule(".", "192.0.2.54", "")));
    has(&bad, &["refused-domains = [\"corp.example\"]", "servers = [\"192.0.2.54\"]"]);
    let root = "stub-zone:\n  name: \".\"\n  stub-addr: 192.0.2.53@853\n  stub-tls-upstream: yes\n";
    let root = unbound(&(root.to_owned() + &rule("lan", "10.0.0.1", "")));
    has(&root, &["iterate = false"]);
    assert!(!root.toml.contains("192.0.2.53") && narrower(&root) > 0, "{}", root.toml);
    let whole = unbound(&("  tls-upstream: yes\n".to_owned() + &rule("lan", "10.0.0.1", "")));
    assert!(!whole.toml.contains("[resolver]"), "{}", whole.toml);
}

#[test]
fn a_network_that_the_recursor_refused_was_allowed() {
    let after = After::of(
        PeerProgram::Recursor,
        &[("/r", "local-address=127.0.0.1\nallow-from=10.0.0.0/8, !10.66.0.0/16\n")],
    );
    let recurses = |address| after.recurses(Asker { address, key: None, tcp: false });
    assert!(recurses("10.1.0.1") && !recurses("10.66.0.1") && !recurses("192.0.2.7"));
    let found =
        of(PeerProgram::Recursor, &[("/r", "local-address=127.0.0.1\nallow-from=10.0.0.0/8, !10.66.x\n")]);
    has(&found, &["action = \"refuse\"\nfrom = [\"any\"]"]);
    assert_eq!(outcomes(&found, "!10.66.x"), [Coverage::Narrower]);
}

#[test]
fn a_relative_owner_of_updates_was_dropped() {
    let text = "key:\n  - id: k1\n    algorithm: hmac-sha256\n    secret: c2VjcmV0\nacl:\n  - id: u\n    key: k1\n    action: update\n    update-owner: name\n    update-owner-match: equal\n    update-owner-name: [www, \"@\", mail.a.example., b.c]\nzone:\n  - domain: a.example\n    acl: u\n";
    let found = of(PeerProgram::Knot, &[("/k", text)]);
    for name in ["www.a.example", "a.example", "mail.a.example", "b.c.a.example"] {
        has(&found, &[&format!("\"grant key:k1 name {name}.\"")]);
    }
    assert_eq!(narrower(&found), 0);
}

#[test]
fn policies_that_cannot_be_moved_were_left_out_and_their_names_resolved() {
    let unbound = |text: &str| of(PeerProgram::Unbound, &[("/u", text)]);
    let closed = "action = \"refuse\"\nfrom = [\"any\"]";
    has(
        &unbound("server:\n  access-control: 10.0.0.0/8 allow\nrpz:\n  name: r\n  url: http://r\n"),
        &[closed],
    );
    has(&bind("options { allow-recursion { any; }; response-policy { zone r; }; };"), &[closed]);
    let lua = [("/r", "allow-from=10.0.0.0/8\nlua-config-file=/l\n"), ("/l", "rpzFile('x')\n")];
    has(&of(PeerProgram::Recursor, &lua), &[closed]);
    let names = unbound(
        "server:\n  local-zone: ads.example. always_nxdomain\n  local-zone: bad.example deny\n  local-zone: kids.example transparent\n  local-zone-tag: kids.example \"t\"\n  local-data: \"x.kids.example A 192.0.2.1\"\n",
    );
    has(&names, &["refused-domains = [\"kids.example\", \"bad.example\"]"]);
    assert_eq!(names.lists[0].text, "||ads.example^\n");
    assert!(!names.toml.contains("192.0.2.1"), "{}", names.toml);
}

#[test]
fn mapped_addresses_opened_recursion_to_all_of_ipv4() {
    let found = of(PeerProgram::Unbound, &[("/u", "server:\n  access-control: ::ffff:0:0/96 allow\n")]);
    assert!(!found.toml.contains("ffff"), "{}", found.toml);
    assert_eq!(outcomes(&found, "access-control"), [Coverage::Narrower]);
    let found = bind("options { allow-recursion { ::ffff:0:0/96; 10/8; }; };");
    assert!(!found.toml.contains("ffff"), "{}", found.toml);
}

#[test]
fn any_signer_was_any_client() {
    let text = format!(
        "{KEY} options {{ recursion no; }}; zone a.example {{ type primary; file \"/a\"; update-policy {{ grant * subdomain a.example. A; }}; }};"
    );
    has(&bind(&text), &["update-policy = [\"grant key:xfer subdomain a.example. A\"]"]);
}
