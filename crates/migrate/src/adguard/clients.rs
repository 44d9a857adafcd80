//! Persistent clients of AdGuard Home that have settings of their own, as groups of clients.
//!
//! AdGuard Home looks a client up by its address, then by the longest of its networks, then by its MAC
//! address; in nomen, the first group decides. So groups by MAC address come after those by networks. A
//! ClientID is part of the name in TLS or of the path in HTTPS, which nomen does not read.

use super::{Home, is_off, is_on, rules};
use crate::ledger::Coverage;
use crate::model::{Keys, Setting};
use crate::network::{Network, disjoint};
use crate::policy::{BY_MAC, MAX_GROUPS, mac};
use crate::tree::{Statement, find};
use crate::work::Work;

/// What identifies a client.
#[derive(Default)]
struct Ids {
    networks: Vec<Network>,
    /// Members of `from` for hosts by their MAC addresses.
    macs: Vec<String>,
    /// Identifiers in the name of TLS or the path of HTTPS.
    others: Vec<String>,
}

impl Ids {
    fn of(client: &Statement) -> Self {
        let mut ids = Ids::default();
        for id in client.find("ids").map_or(&[][..], Statement::block) {
            match (Network::parse(id.key()), mac(id.key())) {
                (Some(network), _) => ids.networks.push(network),
                (None, Some(mac)) => ids.macs.push(mac),
                (None, None) => ids.others.push(id.key().to_owned()),
            }
        }
        ids
    }

    /// Whether nomen knows the client by nothing.
    fn are_unknown(&self) -> bool {
        self.networks.is_empty() && self.macs.is_empty()
    }
}

/// Converts clients with settings of their own: to groups, or else they are refused.
pub(super) fn convert(work: &mut Work, home: &Home<'_>) {
    let Some(section) = find(home.all, "clients") else { return };
    work.ledger.open(section);
    let persistent = section.find("persistent").unwrap_or(section);
    work.ledger.open(persistent);
    if let Some(found) = section.find("runtime_sources") {
        work.ledger.unneeded(found, "nomen knows clients by their addresses");
    }
    let all: Vec<&Statement> =
        persistent.block().iter().filter(|client| client.find("name").is_some()).collect();
    let ids: Vec<Ids> = all.iter().map(|client| Ids::of(client)).collect();
    let known: Vec<Vec<Network>> = ids.iter().map(|ids| ids.networks.clone()).collect();
    let is_own = |client: &Statement| is_off(client.find("use_global_settings"));
    let has_macs = all.iter().zip(&ids).any(|(client, ids)| is_own(client) && !ids.macs.is_empty());
    let mut later = Vec::new();
    let mut refused = Vec::new();
    for ((client, ids), networks) in all.into_iter().zip(ids).zip(disjoint(&known)) {
        match selection(work, home, client) {
            // If there are groups by MAC address, a group before them keeps a client by its address out of
            // them.
            Some(selection) if selection == of_all(work) && (networks.is_empty() || !has_macs) => {
                work.ledger.unneeded(client, "it has the settings of all clients");
            }
            selection => {
                if let Some(networks) = own(work, client, &ids, networks, selection, &mut later) {
                    refused.extend(networks);
                }
            }
        }
    }
    if !later.is_empty() {
        work.ledger.unwritten(Coverage::Differs, BY_MAC);
    }
    for (client, macs, selection) in later {
        if work.nomen.policy_groups.len() < MAX_GROUPS {
            work.group_of(client.find("name").map_or("", Statement::value), macs, selection);
        } else {
            work.refuse_recursion(client, "there can be 64 groups");
        }
    }
    // The first match decides.
    let access = std::mem::take(&mut work.nomen.access);
    refused.into_iter().for_each(|network| work.nomen.grant("refuse", network.to_string()));
    work.nomen.access.extend(access);
}

/// A client with the members of `from` by MAC address and what counts for it.
type ByMac<'s> = (&'s Statement, Vec<String>, Keys);

/// Converts one client with settings of its own. Returns its networks if it is refused recursion.
fn own<'s>(
    work: &mut Work,
    client: &'s Statement,
    ids: &Ids,
    networks: Vec<Network>,
    selection: Option<Keys>,
    later: &mut Vec<ByMac<'s>>,
) -> Option<Vec<Network>> {
    let is_stricter = selection.as_ref().is_none_or(|own| is_stricter(own, &of_all(work)));
    if !ids.others.is_empty() && is_stricter || ids.others.is_empty() && ids.are_unknown() {
        let why = "it has settings of its own, and nomen knows clients by their addresses and MAC addresses, not \
                   by a ClientID in the name of TLS or the path of HTTPS";
        work.refuse_recursion(client, why);
        return None;
    }
    let by_id = "nomen does not know clients by a ClientID in the name of TLS or the path of HTTPS: with it alone, \
                 this client has the settings of all clients";
    let Some(selection) = selection else {
        if !ids.macs.is_empty() {
            let why = "nomen has no such settings of single clients, and refuses none by its MAC address";
            work.refuse_recursion(client, why);
            return None;
        }
        work.ledger.narrower(client, "nomen has no such settings of single clients: it is refused recursion");
        return Some(networks);
    };
    if ids.are_unknown() {
        work.ledger.narrower(client, by_id);
        return None;
    }
    if networks.is_empty() && ids.macs.is_empty() {
        work.ledger.unneeded(client, "its networks are those of others");
        return None;
    }
    if selection.get("lists").is_some() && work.recurse().get("local-data").is_some() {
        let how = "`local-data` is for this client, too";
        work.ledger.part(&client.span, &client.title(), Coverage::Differs, how);
    }
    if !ids.others.is_empty() {
        work.ledger.part(&client.span, &client.title(), Coverage::Narrower, by_id);
    }
    if !networks.is_empty() {
        work.group(client.find("name").map_or("", Statement::value), &networks, selection.clone());
    }
    if !ids.macs.is_empty() {
        later.push((client, ids.macs.clone(), selection));
    }
    work.ledger.translated(client, "[[policy.group]]");
    None
}

/// Whether a selection withholds anything from a client that others get.
fn is_stricter(own: &Keys, all: &Keys) -> bool {
    own.get("safe-search").is_some() && own.get("safe-search") != all.get("safe-search")
}

/// What counts for clients without settings of their own.
fn of_all(work: &Work) -> Keys {
    Keys(work.nomen.policy.0.iter().filter(|(key, _)| *key == "safe-search").cloned().collect())
}

/// What counts for a client; `None` if nomen cannot express its settings.
fn selection(work: &mut Work, home: &Home<'_>, client: &Statement) -> Option<Keys> {
    let own_blocks = is_off(client.find("use_global_blocked_services"))
        && client.find("blocked_services").is_some_and(|found| !rules::services(found).is_empty());
    if own_blocks || client.find("upstreams").is_some_and(|found| !found.block().is_empty()) {
        return None;
    }
    if !is_off(client.find("use_global_settings")) {
        return Some(of_all(work));
    }
    let asks = ["safebrowsing_enabled", "parental_enabled"].iter().any(|key| is_on(client.find(key)));
    let is_filtered = is_on(client.find("filtering_enabled"));
    // The lists are left out if no other client has them.
    let lacks_lists = is_filtered && !home.is_filtering();
    if home.is_protecting() && (asks || lacks_lists) || work.nomen.policy_groups.len() >= MAX_GROUPS {
        return None;
    }
    let mut keys = Keys::default();
    if !is_filtered && home.is_filtering() {
        keys.set("lists", Setting::Texts(Vec::new()));
    }
    for found in rules::SAFE_SEARCH.iter().filter_map(|key| client.find(key)) {
        if rules::safe_search(work, home, found) {
            keys.switch("safe-search", true);
        }
    }
    Some(keys)
}
