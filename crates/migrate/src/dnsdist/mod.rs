//! dnsdist 1.8 to 2.1: dnsdist.conf in Lua, and dnsdist.yml.
//!
//! dnsdist passes queries on to servers; nomen forwards to the same ones. A reader for each form fills a
//! [`Balancer`]. Of its rules the first that ends the evaluation decides; nomen has its own places for
//! clients, names and rates. What a rule denies and nomen cannot, is denied to more clients or names, or to
//! all.

mod lua;
mod script;
mod settings;

use std::path::Path;

use crate::encrypted::{self, EncryptedListens};
use crate::ledger::Coverage;
use crate::model::{Keys, Section};
use crate::narrow::is_below;
use crate::network::Network;
use crate::rates;
use crate::source_rates::{Lengths, SourceRates};
use crate::text::{SyntaxFault, Texts};
use crate::tree::Statement;
use crate::work::{Work, domain, with_port};

/// Clients that may ask without a list.
const LOCAL: [&str; 9] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "192.168.0.0/16",
    "172.16.0.0/12",
    "::1",
    "fc00::/7",
    "fe80::/10",
];
/// Most blocks of `[[server.access]]`.
const MAX_BLOCKS: usize = 64;

/// Which queries a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Selector {
    All,
    Networks(Vec<Network>),
    /// Names at and below these.
    Suffixes(Vec<String>),
    /// Queries of an address or network beyond a rate.
    ClientRate {
        rate: u64,
        burst: u64,
        lengths: Lengths,
    },
    /// Queries beyond a rate, of all clients together.
    TotalRate,
    /// Queries that match all of these.
    Every(Vec<Selector>),
    /// Others.
    Unknown,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    /// Ends the evaluation: the query is passed on to the default pool.
    Allow,
    Drop,
    /// An answer without records that the client does not want.
    Refuse,
    Truncate,
    /// Answers later.
    Delay,
    /// Drops queries beyond a rate, of all clients together.
    QueriesPerSecond,
    Pool(String),
    /// Changes neither which queries are answered, nor by which server.
    Harmless,
    Unknown,
}

impl Action {
    /// Whether clients get less because of it.
    fn denies(&self) -> bool {
        matches!(self, Self::Drop | Self::Refuse | Self::Truncate)
    }

    /// `action` of `[[server.access]]`.
    fn access(&self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Truncate => "truncate",
            Self::Allow => "allow",
            _ => "refuse",
        }
    }
}

struct BalancerRule {
    statement: Statement,
    selector: Selector,
    action: Action,
}

/// The parts of a configuration.
#[derive(Default)]
struct Balancer {
    listens: Keys,
    encrypted: EncryptedListens,
    /// Networks of clients; `None` without a list.
    acl: Option<Vec<Network>>,
    /// Servers in nomen's format, with their pools; the default pool has an empty name.
    servers: Vec<(Vec<String>, String)>,
    rules: Vec<BalancerRule>,
    /// Limits of dynamic rules, by kind of reply.
    dynamic: Vec<(Statement, [Option<u64>; 4], Lengths)>,
    /// Clients without them.
    unlimited: Vec<Network>,
}

/// Whether a text is a configuration of dnsdist in Lua.
pub(crate) fn is_script(text: &str) -> bool {
    const CALLS: [&str; 8] = [
        "newServer(",
        "newServer{",
        "addLocal(",
        "setLocal(",
        "setACL(",
        "addAction(",
        "setServerPolicy(",
        "controlSocket(",
    ];
    text.lines().any(|line| CALLS.iter().any(|call| line.trim_start().starts_with(call)))
}

/// Whether a text is a configuration of dnsdist in YAML.
pub(crate) fn is_yaml(text: &str) -> bool {
    let begins = |keys: &[&str]| text.lines().any(|line| keys.iter().any(|key| line.starts_with(key)));
    begins(&["binds:", "backends:"]) && begins(&["backends:", "query_rules:", "acl:", "webserver:", "pools:"])
}

/// Converts a configuration.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let number = texts.open(path, None)?;
    let text = texts.text(number);
    work.recurse();
    let mut found = Balancer::default();
    let all = match path.extension().is_some_and(|end| end == "yml" || end == "yaml") || is_yaml(&text) {
        true => settings::read(texts, number, path, work, &mut found)?,
        false => script::read(texts, number, work, &mut found)?,
    };
    texts.close();
    finish(work, found);
    work.ledger.sweep(&all, &|statement| {
        (Coverage::Missing, format!("nomen has nothing for `{}`", statement.key()))
    });
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(&all), 0);
    Ok(())
}

impl Balancer {
    /// Adds an address that is listened on. Returns whether nomen can.
    fn listen(&mut self, work: &mut Work, statement: &Statement, text: &str, proto: &'static str) -> bool {
        let usual = match proto {
            "tls" | "quic" => 853,
            "https" | "h3" => 443,
            "http" => 80,
            _ => 53,
        };
        let fault = match address(text, usual) {
            Some(address) => match encrypted::clear_http_fault(&address).filter(|_| proto == "http") {
                None if proto.is_empty() => {
                    self.listens.add("addr", address);
                    None
                }
                None => {
                    self.encrypted.add(proto, address);
                    None
                }
                fault => fault,
            },
            None => Some("nomen listens on addresses with ports"),
        };
        match fault {
            Some(why) => work.ledger.missing(statement, why),
            None => work.ledger.translated(statement, "`addr` of [[listen]]"),
        }
        fault.is_none()
    }

    /// Sets or extends the clients. A member that is no network admits no client.
    fn clients(&mut self, work: &mut Work, statement: &Statement, all: &[String], replaces: bool) {
        let usual = || LOCAL.iter().filter_map(|text| Network::parse(text)).collect();
        let mut list = self.acl.take().filter(|_| !replaces).unwrap_or_else(|| match replaces {
            true => Vec::new(),
            false => usual(),
        });
        for text in all {
            match (Network::parse(text), text.starts_with('!')) {
                (Some(network), _) if !network.is_mapped() => list.push(network),
                (_, true) => {
                    work.refuse_recursion(statement, "a list that refuses networks is not moved");
                }
                _ => work.ledger.missing(statement, format!("`{text}` is not a network; it is left out")),
            }
        }
        if !work.ledger.is_seen(statement) {
            work.ledger.translated(statement, "[[resolver.access]] and [[server.access]]");
        }
        self.acl = Some(list);
    }

    /// Adds a server, or reports why queries for its pools do not go there.
    fn server(&mut self, work: &mut Work, statement: &Statement, server: &SourceServer) {
        let pools = if server.pools.is_empty() { vec![String::new()] } else { server.pools.clone() };
        let usual = match (&server.path, &server.identity) {
            (Some(_), _) => 443,
            (None, Some(_)) => 853,
            (None, None) => 53,
        };
        let why = match (server.fault, address(&server.address, usual)) {
            (Some(why), _) => why,
            (None, Some(address)) => {
                let address = match (&server.identity, &server.path) {
                    (Some(identity), Some(path)) => over_https(&address, identity, path),
                    (Some(identity), None) => format!("{address}#{identity}"),
                    (None, _) => {
                        address.strip_suffix("@53").unwrap_or(&address).trim_matches(['[', ']']).to_owned()
                    }
                };
                self.servers.push((pools, address));
                return work.ledger.translated(statement, "`servers` of [[resolver.forward]]");
            }
            (None, None) => "it is not the address of a server",
        };
        work.ledger.missing(statement, why);
    }

    fn rule(&mut self, statement: &Statement, selector: Selector, action: Action) {
        self.rules.push(BalancerRule { statement: statement.clone(), selector, action });
    }

    /// Adds a limit of a dynamic rule: the name of its function, and the response code that it counts.
    fn dynamic(
        &mut self,
        work: &mut Work,
        statement: &Statement,
        (name, rcode): (&str, &str),
        rate: u64,
        masks: Lengths,
    ) {
        let rates = match name {
            "setQueryRate" => [Some(rate); 4],
            // nomen counts 256 bytes as one.
            "setResponseByteRate" => [Some((rate / 256).max(1)); 4],
            "setRCodeRate" if rcode.to_ascii_lowercase().ends_with("nxdomain") => {
                [None, None, Some(rate), None]
            }
            "setRCodeRate" if rcode.to_ascii_lowercase().ends_with("noerror") => {
                [Some(rate), Some(rate), None, None]
            }
            "setRCodeRate" => [None, None, None, Some(rate)],
            _ => {
                return work
                    .ledger
                    .missing(statement, "[rate-limits] counts kinds of replies, not types or ratios");
            }
        };
        work.in_key(statement, Section::RateLimits, "answers-per-second");
        let how = "nomen drops the replies beyond the rate, and blocks no client for a time";
        work.ledger.part(&statement.span, &statement.title(), Coverage::Differs, how);
        self.dynamic.push((statement.clone(), rates, masks));
    }

    /// The servers of a pool.
    fn pool(&self, name: &str) -> Vec<String> {
        let of = self.servers.iter().filter(|(pools, _)| pools.iter().any(|pool| pool == name));
        of.map(|(_, server)| server.clone()).collect()
    }
}

/// A server as the source has it.
#[derive(Debug, Default)]
struct SourceServer {
    address: String,
    pools: Vec<String>,
    /// How it is authenticated over TLS; `None` without TLS.
    identity: Option<String>,
    /// The path of DNS over HTTPS; `None` without HTTPS.
    path: Option<String>,
    /// Why nomen cannot query it.
    fault: Option<&'static str>,
}

/// The identity of a server over TLS.
fn identity(address: &str, subject: &str, validates: bool) -> String {
    let own = address.rsplit_once(':').filter(|(ip, _)| !ip.contains(':') || ip.starts_with('['));
    let own = own.map_or(address, |(ip, _)| ip).trim_matches(['[', ']']);
    match domain(subject) {
        _ if !validates => "opportunistic".to_owned(),
        Some(name) if !subject.is_empty() => name,
        _ => own.to_owned(),
    }
}

/// A server over HTTPS in nomen's format, of `IP@PORT`, the name or address in its certificate and its path.
fn over_https(address: &str, identity: &str, path: &str) -> String {
    let (ip, port) = address.rsplit_once('@').unwrap_or((address, "443"));
    let bare = ip.trim_matches(['[', ']']);
    let port = if port == "443" { String::new() } else { format!(":{port}") };
    match identity == bare {
        true => format!("https://{ip}{port}{path}"),
        false => format!("https://{}{port}{path}@{bare}", identity.trim_end_matches('.')),
    }
}

/// Why a server over HTTPS cannot be queried, if it cannot.
fn https_fault(identity: Option<&String>, path: &str) -> Option<&'static str> {
    match identity.map(String::as_str) {
        Some("opportunistic") => {
            Some("nomen authenticates servers over HTTPS, by a name, an address or a pin")
        }
        Some(_) if path.starts_with('/') && !path.contains(['#', '@', ' ']) => None,
        Some(_) => Some("it is not a path of DNS over HTTPS"),
        None => Some("nomen asks over HTTPS with TLS alone"),
    }
}

/// An address with an optional port, in nomen's format.
fn address(text: &str, usual: u16) -> Option<String> {
    let (ip, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ip, port)) => (ip, port.strip_prefix(':')),
        None if text.matches(':').count() == 1 => text.split_once(':').map(|(ip, port)| (ip, Some(port)))?,
        None => (text, None),
    };
    let port = port.map_or(Some(usual), |port| port.parse().ok()).filter(|port| *port > 0)?;
    Some(with_port(ip.parse().ok()?, port))
}

/// Writes the configuration.
fn finish(work: &mut Work, mut found: Balancer) {
    if found.listens.0.is_empty() && found.encrypted.blocks().next().is_none() {
        found.listens.add("addr", "127.0.0.1@53");
    }
    if !found.listens.0.is_empty() {
        work.nomen.listens.push(std::mem::take(&mut found.listens));
    }
    std::mem::take(&mut found.encrypted).finish(work);
    let usual = rules(work, &found);
    for (statement, rates, masks) in &found.dynamic {
        let mut out = SourceRates::of_networks(*rates, 0, *masks);
        out.exempt = found.unlimited.iter().map(ToString::to_string).collect();
        rates::write(work, out, statement);
    }
    forward(work, &found, ".", &usual);
    work.recurse().switch("validate", false);
    let usual = || LOCAL.iter().filter_map(|text| Network::parse(text)).collect();
    let clients: Vec<Network> = found.acl.clone().unwrap_or_else(usual);
    for network in &clients {
        work.nomen.grant("allow", network.to_string());
        work.nomen.accept("allow", network.to_string());
    }
    work.nomen.accept("drop", "any");
    if clients.is_empty() {
        work.nomen.grant("refuse", "any");
    }
    if work.nomen.server_access.len() > MAX_BLOCKS {
        work.nomen.server_access.clear();
        work.nomen.accept("drop", "any");
        work.ledger.unwritten(
            Coverage::Narrower,
            "there can be 64 blocks of [[server.access]], and its rules need more: no client is answered",
        );
    }
    work.ledger.unwritten(
        Coverage::Differs,
        "dnsdist passes on what its servers answer; nomen resolves with them: it caches, chooses the server that \
         is fastest, and answers special names (`special-names-off`)",
    );
}

/// Forwards a domain to servers; without any, its names are refused.
fn forward(work: &mut Work, found: &Balancer, name: &str, pool: &str) {
    let servers = found.pool(pool);
    if servers.is_empty() {
        return work.refuse_domain(name);
    }
    let mut rule = Keys::default();
    rule.text("domain", name);
    servers.into_iter().for_each(|server| rule.add("servers", server));
    work.nomen.forwards.push(rule);
}

/// Converts the rules in their order. Returns the default pool of the queries that no rule is for.
fn rules(work: &mut Work, found: &Balancer) -> String {
    let (mut decided, mut exempt): (Vec<String>, Vec<Network>) = (Vec::new(), Vec::new());
    let mut rules = found.rules.iter();
    while let Some(BalancerRule { statement, selector, action }) = rules.next() {
        match (selector, action) {
            (Selector::ClientRate { .. }, Action::Delay) => {
                limits(work, statement, selector, action, &exempt);
            }
            (_, Action::Harmless | Action::Delay) => {
                work.ledger.missing(
                    statement,
                    "nomen has nothing for this action: queries are answered as without it",
                );
            }
            (Selector::All, Action::Allow | Action::Pool(_)) => {
                work.ledger.translated(statement, "[[resolver.forward]]");
                let why = "a rule for all queries is before it";
                rules.for_each(|rest| work.ledger.unneeded(&rest.statement, why));
                return match action {
                    Action::Pool(pool) => pool.clone(),
                    _ => String::new(),
                };
            }
            (Selector::All, _) if action.denies() => {
                work.nomen.accept(action.access(), "any");
                work.ledger.translated(statement, "[[server.access]]");
            }
            (Selector::TotalRate, _) if action.denies() || *action == Action::QueriesPerSecond => {
                work.ledger
                    .missing(statement, "nomen limits replies to each client, not queries of all together");
            }
            (Selector::Networks(networks), action) => {
                of_clients(work, statement, networks, action);
                if *action == Action::Allow {
                    exempt.extend(networks);
                }
            }
            (Selector::Suffixes(names), action) => {
                of_names(work, found, statement, names, action, &mut decided)
            }
            (Selector::ClientRate { .. }, _) if action.denies() => {
                limits(work, statement, selector, action, &exempt);
            }
            (Selector::Every(all), _) if action.denies() => {
                every(work, found, statement, all, action, &exempt, &mut decided);
            }
            (_, Action::Allow) => {
                work.ledger.narrower(
                    statement,
                    "nomen has no such condition: the rules after it hold for these queries",
                );
            }
            _ => work.refuse_recursion(statement, "a rule with this condition or action is not moved"),
        }
    }
    String::new()
}

/// Converts a rule about clients.
fn of_clients(work: &mut Work, statement: &Statement, networks: &[Network], action: &Action) {
    let action = match action {
        Action::Allow => action.access(),
        action if action.denies() => action.access(),
        Action::Pool(_) | Action::Unknown => {
            work.ledger
                .narrower(statement, "clients have no servers of their own in nomen: they are refused");
            "refuse"
        }
        _ => return,
    };
    let usable = networks.iter().filter(|network| action != "allow" || !network.is_mapped());
    usable.for_each(|network| work.nomen.accept(action, network.unmapped().to_string()));
    if !work.ledger.is_seen(statement) {
        work.ledger.translated(statement, "[[server.access]]");
    }
}

/// Converts a rule about names, unless one before it decides about them.
fn of_names(
    work: &mut Work,
    found: &Balancer,
    statement: &Statement,
    names: &[String],
    action: &Action,
    decided: &mut Vec<String>,
) {
    for name in names {
        if decided.iter().any(|above| is_below(name, above)) {
            let words = format!("a rule before it decides about {name}");
            work.ledger.part(&statement.span, &statement.title(), Coverage::Unneeded, words);
            continue;
        }
        decided.push(name.clone());
        match action {
            Action::Pool(pool) => forward(work, found, name, pool),
            Action::Allow => forward(work, found, name, ""),
            action => {
                work.refuse_domain(name);
                if action.denies() {
                    work.narrow.exact.push(name.clone());
                }
            }
        }
    }
    match action {
        Action::Pool(_) | Action::Allow => work.ledger.translated(statement, "[[resolver.forward]]"),
        _ => work.ledger.differs(statement, "its names are refused to recursive clients (`refused-domains`)"),
    }
}

/// Converts a limit for each client.
fn limits(work: &mut Work, statement: &Statement, selector: &Selector, action: &Action, exempt: &[Network]) {
    let Selector::ClientRate { rate, burst, lengths } = selector else { return };
    let slip = u64::from(*action == Action::Truncate);
    let mut out = SourceRates::of_networks([Some(*rate); 4], slip, *lengths);
    out.burst = burst.saturating_mul(1000) / (*rate).max(1);
    out.exempt = exempt.iter().map(ToString::to_string).collect();
    work.in_key(statement, Section::RateLimits, "answers-per-second");
    rates::write(work, out, statement);
}

/// Converts a rule with several conditions, for more queries than it was for.
fn every(
    work: &mut Work,
    found: &Balancer,
    statement: &Statement,
    all: &[Selector],
    action: &Action,
    exempt: &[Network],
    decided: &mut Vec<String>,
) {
    let rate = all.iter().find(|one| matches!(one, Selector::ClientRate { .. }));
    let of = |kind: fn(&Selector) -> bool| all.iter().find(|one| kind(one));
    let names = of(|one| matches!(one, Selector::Suffixes(_)));
    let networks = of(|one| matches!(one, Selector::Networks(_)));
    match (rate, names, networks) {
        (Some(rate), ..) => limits(work, statement, rate, action, exempt),
        (None, Some(Selector::Suffixes(names)), _) => {
            of_names(work, found, statement, names, action, decided)
        }
        (None, None, Some(Selector::Networks(networks))) => of_clients(work, statement, networks, action),
        _ if all.contains(&Selector::TotalRate) => {
            return work
                .ledger
                .missing(statement, "nomen limits replies to each client, not queries of all together");
        }
        _ => return work.refuse_recursion(statement, "a rule with these conditions is not moved"),
    }
    let why =
        "nomen has no rule with several conditions: this one holds for all queries that meet one of them";
    work.ledger.part(&statement.span, &statement.title(), Coverage::Narrower, why);
}
