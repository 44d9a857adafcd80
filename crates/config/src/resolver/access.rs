//! `[[resolver.access]]`: access to recursion.

use query_path::access::LocalAddress;
use recursion::{Access, AccessAction, AccessRule};
use transport::Transport;
use wire::Prefix;

use super::networks::NetworkOr;
use crate::interfaces::Interfaces;
use crate::report::Diagnostic;
use crate::table::keys;
use crate::table::read::At;
use crate::table::value::Word;

keys! {
    /// Which clients may use recursion. All conditions of a block must hold; the first block that matches
    /// decides, and a client that matches none is refused. Without a block, this machine and the private
    /// networks that it is attached to may use it. Zones that nomen serves are answered to all clients.
    pub struct AccessBlock in "[[resolver.access]]" {
        /// Whether these clients are answered or refused.
        live "action" action: AccessAction = AccessAction::Allow, example "refuse";
        /// Networks that the client is in. "any" is all of them, "loopback" this machine, "attached" every
        /// network that one of this machine's interfaces is in, public ones as well. A resolver that is open
        /// to all serves attacks on others (RFC 5358).
        live "from" from: Vec<At<NetworkOr<Clients>>>, example ["10.0.0.0/8", "loopback"];
        /// Network interfaces whose addresses received the query; their addresses are read at the start and
        /// at each reload. Unset: any.
        live "interface" interface: Option<Vec<At<String>>> = None, example ["eth0"];
        /// Transports of the query. Unset: any.
        live "proto" proto: Option<Vec<At<Transport>>> = None, example ["tcp"];
    }
}

/// Words for sets of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// All.
    Any,
    /// Those on this machine.
    Loopback,
    /// Those in the networks that this machine is attached to.
    Attached,
}

impl Word for Clients {
    const WORDS: &'static [(&'static str, Self)] =
        &[("any", Self::Any), ("loopback", Self::Loopback), ("attached", Self::Attached)];
}

impl Word for AccessAction {
    const WORDS: &'static [(&'static str, Self)] = &[("allow", Self::Allow), ("refuse", Self::Refuse)];
}

impl AccessBlock {
    fn rule(&self, interfaces: &Interfaces) -> AccessRule {
        let rule = rule(&self.from, self.interface.as_ref(), self.proto.as_ref(), interfaces);
        AccessRule { action: *self.action, ..rule }
    }
}

/// Returns a rule that allows the clients for which these conditions hold.
pub(crate) fn rule(
    from: &[At<NetworkOr<Clients>>],
    interface: Option<&Vec<At<String>>>,
    proto: Option<&Vec<At<Transport>>>,
    interfaces: &Interfaces,
) -> AccessRule {
    let addresses = |names: &Vec<At<String>>| -> Vec<LocalAddress> {
        names.iter().flat_map(|name| interfaces.addresses_of(name)).map(LocalAddress::from).collect()
    };
    AccessRule {
        action: AccessAction::Allow,
        from: from.iter().flat_map(|from| networks(from.value, interfaces)).collect(),
        local: interface.map(addresses),
        transports: proto.map(|all| all.iter().map(|proto| proto.value).collect()),
    }
}

fn networks(from: NetworkOr<Clients>, interfaces: &Interfaces) -> Vec<Prefix> {
    match from {
        NetworkOr::Network(network) => vec![network],
        NetworkOr::Word(Clients::Any) => vec![Prefix::ALL_V4, Prefix::ALL_V6],
        // The default rules without attached networks allow this machine only.
        NetworkOr::Word(Clients::Loopback) => {
            Access::default_rules(&[]).into_iter().flat_map(|rule| rule.from).collect()
        }
        NetworkOr::Word(Clients::Attached) => interfaces.networks().collect(),
    }
}

/// Returns the access rules on a machine with these interfaces.
pub(super) fn rules(blocks: &[At<AccessBlock>], interfaces: &Interfaces) -> Vec<AccessRule> {
    if blocks.is_empty() {
        return Access::default_rules(&interfaces.networks().collect::<Vec<_>>());
    }
    blocks.iter().map(|block| block.rule(interfaces)).collect()
}

/// Returns a warning for each block that allows recursion for any address, on whatever interface the query
/// arrives. `reached_by` states how other machines reach the server, if not by a configured address.
pub(super) fn warnings(blocks: &[At<AccessBlock>], reached_by: &str) -> Vec<Diagnostic> {
    let is_all = |from: &At<NetworkOr<Clients>>| match from.value {
        NetworkOr::Network(network) => matches!(network.len(), 0),
        NetworkOr::Word(word) => word == Clients::Any,
    };
    // Only source addresses of UDP can be forged.
    let by_udp = |block: &AccessBlock| {
        block.proto.as_ref().is_none_or(|all| all.iter().any(|p| p.value == Transport::Udp))
    };
    let is_open = |block: &&At<AccessBlock>| {
        *block.action == AccessAction::Allow && block.interface.is_none() && by_udp(block)
    };
    let found = blocks.iter().take_while(|block| !refuses_all(block, is_all)).filter(is_open);
    let found = found.filter_map(|block| block.from.iter().find(|from| is_all(from)));
    let message = format!(
        "recursion is open to any address{reached_by}: attackers can use the server against others (RFC 5358)"
    );
    let hint = "name the networks of the clients in `from`, or their `interface`";
    found.map(|from| Diagnostic::at(from.place.as_ref(), message.as_str()).hint(hint)).collect()
}

/// Returns whether a block refuses every client that no earlier block allows.
fn refuses_all(block: &AccessBlock, is_all: impl Fn(&At<NetworkOr<Clients>>) -> bool) -> bool {
    *block.action == AccessAction::Refuse
        && block.interface.is_none()
        && block.proto.is_none()
        && block.from.iter().any(is_all)
}

/// Reports more blocks than are possible.
pub(super) fn check(blocks: &[At<AccessBlock>], faults: &mut Vec<Diagnostic>) {
    if let Err(fault) = Access::new(&rules(blocks, &Interfaces::default())) {
        let last = blocks.last().and_then(|block| block.place.as_ref());
        faults.push(Diagnostic::at(last, fault.to_string()));
    }
}
