//! `access-control` and `interface-action` of unbound.conf: which clients are answered, and which may
//! recurse.

use std::net::IpAddr;

use crate::addresses::AddressSet;
use crate::model::{Keys, Setting, add_clients};
use crate::network::Network;
use crate::tree::Statement;
use crate::work::Work;

/// Most blocks of `[[server.access]]`.
const MAX_BLOCKS: usize = 64;

/// The access of a client's queries, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Passage {
    /// No reply.
    Dropped,
    Refused,
    /// From zones alone.
    Local,
    /// Over TCP only: over UDP, a client needs a cookie, which rules of access do not check.
    OverTcp,
    Allowed,
}

impl Passage {
    /// `action` of `[[server.access]]`.
    fn action(self) -> &'static str {
        match self {
            Self::Dropped => "drop",
            Self::Refused => "refuse",
            // A client that asks over TCP has the address that it says.
            Self::OverTcp => "truncate",
            Self::Local | Self::Allowed => "allow",
        }
    }

    /// `[[resolver.access]]`: actions in order, with their transport.
    fn recursion(self) -> &'static [(&'static str, Option<&'static str>)] {
        match self {
            Self::Dropped | Self::Refused | Self::Local => &[("refuse", None)],
            Self::OverTcp => &[("allow", Some("tcp")), ("refuse", None)],
            Self::Allowed => &[("allow", None)],
        }
    }
}

/// The passage of an action's clients; `None` for an unknown one.
fn passage(action: &str) -> Option<Passage> {
    Some(match action {
        "allow" | "allow_snoop" | "allow_setrd" => Passage::Allowed,
        "allow_cookie" => Passage::OverTcp,
        "deny" => Passage::Dropped,
        "refuse" => Passage::Refused,
        "deny_non_local" | "refuse_non_local" => Passage::Local,
        _ => return None,
    })
}

/// Reports what becomes of an action.
fn report(work: &mut Work, statement: &Statement, action: &str, has_local_names: bool) {
    match action {
        "allow" | "refuse" | "deny" => {
            work.ledger.translated(statement, "[[server.access]] and [[resolver.access]]");
        }
        "allow_snoop" | "allow_setrd" => {
            work.ledger.differs(statement, "these clients may recurse, as with `allow`");
        }
        "allow_cookie" => work.ledger.narrower(
            statement,
            "rules of access do not check cookies: these clients are answered over TCP alone",
        ),
        "deny_non_local" | "refuse_non_local" if has_local_names => work.ledger.narrower(
            statement,
            "these clients get answers from zones; names of `local-zone` and `local-data` are for clients \
             that may recurse",
        ),
        "refuse_non_local" => work.ledger.translated(statement, "[[server.access]] and [[resolver.access]]"),
        "deny_non_local" => {
            work.ledger
                .differs(statement, "other names are answered with REFUSED; nomen does not stay silent");
        }
        _ => work.ledger.narrower(statement, "this action is not known here: these clients are refused"),
    }
}

/// Converts `access-control`. In Unbound the longest match decides, in nomen the first, so rules are sorted.
pub(super) fn access(work: &mut Work, all: &[&Statement]) {
    let has_local_names =
        all.iter().any(|s| ["local-zone", "local-data", "local-data-ptr"].contains(&s.key()));
    let mut rules: Vec<(u8, Passage, Network)> = Vec::new();
    for statement in all.iter().filter(|s| s.key() == "access-control") {
        let action = statement.argument(1).map_or("", |action| &action.text);
        let passage = passage(action).unwrap_or(Passage::Refused);
        let Some(network) = Network::parse(statement.value()) else {
            match passage {
                Passage::Refused | Passage::Dropped | Passage::Local => {
                    work.refuse_recursion(statement, "its network is not understood here");
                    work.unknown_clients = true;
                }
                _ => work.not_understood(statement),
            }
            continue;
        };
        let mapped = network.is_mapped();
        rules.retain(|(_, _, other)| *other != network);
        if !mapped {
            rules.push((network.length(), passage, network));
        }
        match passage {
            Passage::Allowed | Passage::OverTcp | Passage::Local if mapped => {
                let how = "nomen takes IPv4 addresses mapped into IPv6 for the IPv4 addresses themselves, so \
                           these clients are not named";
                work.ledger.narrower(statement, how);
            }
            _ => report(work, statement, action, has_local_names),
        }
    }
    let viewed = views(work, all, &mut rules);
    for text in ["127.0.0.0/8", "::1"] {
        let unnamed = |network: &Network| {
            !viewed.iter().any(|view| view.covers(*network))
                && !rules.iter().any(|(_, _, other)| other == network)
        };
        let network = Network::parse(text).filter(unnamed);
        rules.extend(network.map(|network| (network.length(), Passage::Allowed, network)));
    }
    rules.sort_by_key(|(length, passage, network)| (std::cmp::Reverse(*length), *passage, *network));
    write(work, &rules);
    interfaces(work, all, has_local_names);
    // Unbound refuses clients that no rule names.
    if work.unknown_clients {
        work.nomen.server_access.clear();
    }
    work.nomen.accept("refuse", "any");
    if work.nomen.access.is_empty() {
        work.nomen.grant("refuse", "any");
    }
}

/// Writes the blocks, in order.
fn write(work: &mut Work, rules: &[(u8, Passage, Network)]) {
    for (_, passage, network) in rules {
        for (action, proto) in passage.recursion() {
            work.nomen.grant_over(action, network.to_string(), *proto);
        }
    }
    let mut blocks: Vec<Keys> = Vec::new();
    for (_, passage, network) in rules {
        add_clients(&mut blocks, passage.action(), network.to_string(), None);
    }
    if blocks.len() >= MAX_BLOCKS {
        // The clients of each action are put together.
        blocks.clear();
        let mut before = AddressSet::none();
        let mut sets: Vec<(&str, AddressSet)> = Vec::new();
        for (_, passage, network) in rules {
            let set = AddressSet::of([network]);
            let own = set.minus(&before);
            before = before.or(&set);
            match sets.iter_mut().find(|(action, _)| *action == passage.action()) {
                Some((_, all)) => *all = all.or(&own),
                None => sets.push((passage.action(), own)),
            }
        }
        for (action, set) in &sets {
            for network in set.networks() {
                add_clients(&mut blocks, action, network.to_string(), None);
            }
        }
    }
    work.nomen.server_access = blocks;
}

/// Converts `interface-action`, for clients that `access-control` does not name. nomen has interfaces by
/// name.
fn interfaces(work: &mut Work, all: &[&Statement], has_local_names: bool) {
    let found: Vec<&Statement> = all.iter().filter(|s| s.key() == "interface-action").copied().collect();
    for (at, statement) in found.iter().enumerate() {
        let (name, action) = (statement.value(), statement.argument(1).map_or("", |action| &action.text));
        if found[at + 1..].iter().any(|later| later.value() == name) {
            work.ledger.unneeded(statement, "there is another one for it, and the last one counts");
            continue;
        }
        let address = name.split('@').next().unwrap_or_default();
        if name.contains('@') || address.is_empty() || address.parse::<IpAddr>().is_ok() {
            let why = "`interface` of [[server.access]] and [[resolver.access]] takes names of interfaces: \
                       clients that `access-control` does not name are refused here";
            work.ledger.narrower(statement, why);
            continue;
        }
        let passage = passage(action).unwrap_or(Passage::Refused);
        // Each block has one condition: what needs two is refused.
        let passage = if passage == Passage::OverTcp { Passage::Refused } else { passage };
        let on = Some(("interface", name));
        add_clients(&mut work.nomen.server_access, passage.action(), "any".to_owned(), on);
        for (action, _) in passage.recursion() {
            add_clients(&mut work.nomen.access, action, "any".to_owned(), on);
        }
        match action {
            "allow_cookie" => {
                work.ledger.narrower(statement, "nomen checks no cookies here: they are refused")
            }
            _ => report(work, statement, action, has_local_names),
        }
    }
}

/// Refuses clients with a view of their own. Returns the networks for which not only `access-control`
/// decides.
fn views(work: &mut Work, all: &[&Statement], rules: &mut Vec<(u8, Passage, Network)>) -> Vec<Network> {
    const VIEW: &str = "views are not migrated: these clients are refused";
    let mut viewed = Vec::new();
    for statement in all {
        match statement.key() {
            "access-control-view" => match Network::parse(statement.value()) {
                Some(network) => {
                    // Longer networks of `access-control` do not override the view.
                    rules.retain(|(_, _, other)| !network.covers(*other));
                    rules.push((network.length(), Passage::Refused, network));
                    viewed.push(network);
                    work.ledger.narrower(statement, VIEW);
                }
                None => {
                    work.refuse_recursion(statement, "its network is not understood here");
                    work.unknown_clients = true;
                }
            },
            "interface-view" => {
                viewed.extend(Network::all());
                work.ledger.narrower(statement, VIEW);
            }
            "interface-action" => viewed.extend(Network::all()),
            _ => {}
        }
    }
    viewed
}

/// Removes `[[server.access]]` where recursion is all that the server has: `[[resolver.access]]` refuses the
/// same clients.
pub(super) fn finish(work: &mut Work) {
    let drops = |block: &Keys| block.get("action") == Some(&Setting::Text("drop".into()));
    if work.nomen.zones.is_empty() && !work.nomen.server_access.iter().any(drops) {
        work.nomen.server_access.clear();
    }
}
