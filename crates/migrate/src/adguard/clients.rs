//! Persistent clients of AdGuard Home that have settings of their own, as groups of clients.
//!
//! AdGuard Home looks a client up by its ClientID, then by its address, then by the longest of its networks,
//! then by its MAC address; in nomen, the first group decides. So groups by ClientID come before those by
//! networks, and groups by MAC address after them.

use super::{Home, is_off, is_on, rules};
use crate::ledger::Coverage;
use crate::model::{Keys, Section, Setting};
use crate::network::{Network, disjoint};
use crate::policy::{BY_MAC, MAX_GROUPS, mac};
use crate::tree::{Statement, find};
use crate::work::{Work, domain};

/// Longest ClientID: that of a label.
const MAX_CLIENT_ID: usize = 63;

/// What identifies a client.
#[derive(Default)]
struct Ids {
    networks: Vec<Network>,
    /// Members of `from` for hosts by their MAC addresses.
    macs: Vec<String>,
    /// ClientIDs, in the name of TLS or the path of HTTPS.
    names: Vec<String>,
    /// Whether there are others.
    has_others: bool,
}

impl Ids {
    fn of(client: &Statement) -> Self {
        let mut ids = Ids::default();
        let is_of_name = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
        for id in client.find("ids").map_or(&[][..], Statement::block) {
            let text = id.key();
            match (Network::parse(text), mac(text)) {
                (Some(network), _) => ids.networks.push(network),
                (None, Some(mac)) => ids.macs.push(mac),
                (None, None) if text.len() <= MAX_CLIENT_ID && text.bytes().all(is_of_name) => {
                    ids.names.push(text.to_ascii_lowercase());
                }
                (None, None) => ids.has_others = true,
            }
        }
        ids
    }
}

/// Returns where clients write their ClientIDs, as `client-ids` has it; none if nothing that is encrypted
/// listens.
fn places(home: &Home<'_>) -> Vec<String> {
    let Some(tls) = find(home.all, "tls") else { return Vec::new() };
    let is_enabled = is_on(tls.find("enabled"));
    let is_open = |key: &str| is_enabled && tls.find(key).is_none_or(|port| port.value() != "0");
    let has_names = ["port_dns_over_tls", "port_https", "port_dns_over_quic"].into_iter().any(is_open);
    let name = tls.find("server_name").and_then(|name| domain(name.value()));
    let below = name.filter(|name| has_names && name != ".").map(|name| format!("*.{name}"));
    // A proxy may have the encryption.
    let has_paths = is_open("port_https") || is_on(tls.find("allow_unencrypted_doh"));
    below.into_iter().chain(has_paths.then(|| "/dns-query/*".to_owned())).collect()
}

/// What identifies the clients of a group, in the order in which AdGuard Home looks for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Name,
    Network,
    Mac,
}

/// A group that is to be written: its client, the members of `from`, and what counts for it.
struct Group<'s> {
    by: By,
    client: &'s Statement,
    from: Vec<String>,
    selection: Keys,
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
    let places = places(home);
    let mut ids: Vec<Ids> = all.iter().map(|client| Ids::of(client)).collect();
    let known: Vec<Vec<Network>> = ids.iter().map(|ids| ids.networks.clone()).collect();
    for (ids, networks) in ids.iter_mut().zip(disjoint(&known)) {
        ids.networks = networks;
    }
    let is_own = |client: &Statement| is_off(client.find("use_global_settings"));
    let has_macs = all.iter().zip(&ids).any(|(client, ids)| is_own(client) && !ids.macs.is_empty());
    let has_groups = all.iter().any(|client| is_own(client));
    let (mut groups, mut refused) = (Vec::new(), Vec::new());
    for (client, ids) in all.into_iter().zip(ids) {
        let is_kept_out =
            has_macs && !ids.networks.is_empty() || has_groups && !ids.names.is_empty() && !places.is_empty();
        match selection(work, home, client, groups.len()) {
            // If there are groups that it may match as well, a group before them keeps it out of them.
            Some(selection) if selection == of_all(work) && !is_kept_out => {
                work.ledger.unneeded(client, "it has the settings of all clients");
            }
            selection => {
                let names = if places.is_empty() { &[][..] } else { &ids.names[..] };
                if let Some(networks) = own(work, client, &ids, names, selection, &mut groups) {
                    refused.extend(networks);
                }
            }
        }
    }
    write(work, groups, places);
    // The first match decides.
    let access = std::mem::take(&mut work.nomen.access);
    refused.into_iter().for_each(|network: Network| work.nomen.grant("refuse", network.to_string()));
    work.nomen.access.extend(access);
}

/// Writes the groups, in the order in which they are looked for.
fn write(work: &mut Work, mut groups: Vec<Group<'_>>, places: Vec<String>) {
    groups.sort_by_key(|group| group.by);
    if groups.iter().any(|group| group.by == By::Name) {
        work.nomen.section(Section::Server).texts("client-ids", places);
    }
    if groups.iter().any(|group| group.by == By::Mac) {
        work.ledger.unwritten(Coverage::Differs, BY_MAC);
    }
    for Group { client, from, selection, .. } in groups {
        if work.nomen.policy_groups.len() < MAX_GROUPS {
            work.group_of(client.find("name").map_or("", Statement::value), from, selection);
        } else {
            work.refuse_recursion(client, "there can be 64 groups");
        }
    }
}

/// Converts one client with settings of its own. Returns its networks if it is refused recursion.
fn own<'s>(
    work: &mut Work,
    client: &'s Statement,
    ids: &Ids,
    names: &[String],
    selection: Option<Keys>,
    groups: &mut Vec<Group<'s>>,
) -> Option<Vec<Network>> {
    let is_unknown = names.is_empty() && ids.networks.is_empty() && ids.macs.is_empty();
    if ids.has_others {
        work.refuse_recursion(
            client,
            "it has settings of its own, and an identifier that is not understood here",
        );
        return None;
    }
    if is_unknown {
        let why = match ids.names.is_empty() {
            true => "its networks are those of others",
            false => "no client can send a ClientID: nothing that is encrypted listens",
        };
        work.ledger.unneeded(client, why);
        return None;
    }
    let Some(selection) = selection else {
        if !ids.macs.is_empty() || !names.is_empty() {
            let why = "nomen has no such settings of single clients, and refuses none by its MAC address or ClientID";
            work.refuse_recursion(client, why);
            return None;
        }
        work.ledger.narrower(client, "nomen has no such settings of single clients: it is refused recursion");
        return Some(ids.networks.clone());
    };
    if selection.get("lists").is_some() && work.recurse().get("local-data").is_some() {
        let how = "`local-data` is for this client, too";
        work.ledger.part(&client.span, &client.title(), Coverage::Differs, how);
    }
    let names = names.iter().map(|name| format!("client-id:{name}")).collect();
    let networks = ids.networks.iter().map(ToString::to_string).collect();
    for (by, from) in [(By::Name, names), (By::Network, networks), (By::Mac, ids.macs.clone())] {
        if !from.is_empty() {
            groups.push(Group { by, client, from, selection: selection.clone() });
        }
    }
    work.ledger.translated(client, "[[policy.group]]");
    None
}

/// What counts for clients without settings of their own.
fn of_all(work: &Work) -> Keys {
    Keys(work.nomen.policy.0.iter().filter(|(key, _)| *key == "safe-search").cloned().collect())
}

/// What counts for a client; `None` if nomen cannot express its settings, or there are too many groups.
fn selection(work: &mut Work, home: &Home<'_>, client: &Statement, groups: usize) -> Option<Keys> {
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
    if home.is_protecting() && (asks || lacks_lists) || groups >= MAX_GROUPS {
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
