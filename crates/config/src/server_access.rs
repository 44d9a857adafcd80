//! `[[server.access]]`: which messages the server accepts.

use query_path::{QueryAccess, QueryAction, QueryRule};
use toml::Spanned;
use toml::de::DeValue;
use transport::Transport;
use wire::{LowerNameBuf, Opcode, Type};

use super::interfaces::Interfaces;
use super::report::{ConfigPlace, Diagnostic};
use super::resolver::access::rule;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Value, Word, quote};
use super::views::ViewFrom;

keys! {
    /// Which messages the server accepts, of every opcode, before it reads any data. All conditions of a
    /// block must hold; the first block that matches decides, and a message that matches none is accepted.
    /// What is accepted is still subject to `[[resolver.access]]` and to the rules of zones:
    /// `allow-query`, `allow-transfer`, `allow-notify` and `allow-update`. [ACCESS.md](ACCESS.md) explains
    /// it.
    pub struct ServerAccessBlock in "[[server.access]]" {
        /// What happens to the message: "allow" accepts it; "refuse" answers REFUSED with extended error
        /// 18; "drop" does not answer; "truncate" answers over UDP with a truncated reply without records,
        /// so that the client asks over TCP, and accepts it over TCP.
        live "action" action: QueryAction = QueryAction::Allow, example "refuse";
        /// Networks that the client is in, words as in `[[resolver.access]]`, and keys as `key:NAME`: a
        /// message that the key has signed matches, whatever its address.
        live "from" from: Vec<At<ViewFrom>>, example ["192.0.2.0/24", "key:monitoring.example.com"];
        /// Network interfaces whose addresses received the message; their addresses are read at the start and
        /// at each reload. Unset: any.
        live "interface" interface: Option<Vec<At<String>>> = None, example ["eth0"];
        /// Transports of the message. Unset: any.
        live "proto" proto: Option<Vec<At<Transport>>> = None, example ["udp"];
        /// Opcodes of the message; transfers are of opcode "query". Unset: any.
        live "opcode" opcode: Option<Vec<At<Opcode>>> = None, example ["notify", "update"];
        /// Types in the question. A malformed message may have none and match no block with this key. Unset:
        /// any.
        live "type" qtype: Option<Vec<At<Type>>> = None, example ["ANY", "AXFR", "IXFR"];
    }
}

impl Word for QueryAction {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("allow", Self::Allow),
        ("refuse", Self::Refuse),
        ("drop", Self::Drop),
        ("truncate", Self::Truncate),
    ];
}

impl Word for Opcode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("query", Self::QUERY),
        ("iquery", Self::IQUERY),
        ("status", Self::STATUS),
        ("notify", Self::NOTIFY),
        ("update", Self::UPDATE),
        ("dso", Self::DSO),
    ];
}

impl Value for Type {
    fn kind() -> String {
        "type of records".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a type such as \"ANY\"", |text| {
            text.parse::<Type>()
                .map_err(|_| format!("`{text}` is not a type; write its name, or `TYPE` and a number"))
        })
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

impl ServerAccessBlock {
    /// The keys of the block, each with its place.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&LowerNameBuf, Option<&ConfigPlace>)> {
        self.from.iter().filter_map(|from| match &from.value {
            ViewFrom::Key(key) => Some((&**key, from.place.as_ref())),
            ViewFrom::Clients(_) => None,
        })
    }

    fn rule(&self, interfaces: &Interfaces) -> QueryRule {
        let clients: Vec<_> = self
            .from
            .iter()
            .filter_map(|from| match from.value {
                ViewFrom::Clients(clients) => Some(At { value: clients, place: from.place.clone() }),
                ViewFrom::Key(_) => None,
            })
            .collect();
        QueryRule {
            action: *self.action,
            clients: rule(&clients, self.interface.as_ref(), self.proto.as_ref(), interfaces),
            keys: self.keys().map(|(key, _)| *key).collect(),
            signed_by: None,
            opcodes: self.opcode.as_ref().map(|all| all.iter().map(|one| one.value).collect()),
            types: self.qtype.as_ref().map(|all| all.iter().map(|one| one.value).collect()),
        }
    }
}

/// Returns the rules of the server on a machine with these interfaces, compiled; `None` if there are none.
pub(super) fn compiled(blocks: &[At<ServerAccessBlock>], interfaces: &Interfaces) -> Option<QueryAccess> {
    let rules: Vec<QueryRule> = blocks.iter().map(|block| block.rule(interfaces)).collect();
    // `check` has ensured that there are not too many.
    (!rules.is_empty()).then(|| QueryAccess::new(&rules).ok()).flatten()
}

/// Reports more blocks than are possible, and blocks that all have no effect.
pub(super) fn check(blocks: &[At<ServerAccessBlock>], faults: &mut Vec<Diagnostic>) {
    let rules: Vec<QueryRule> = blocks.iter().map(|block| block.rule(&Interfaces::default())).collect();
    if let Err(fault) = QueryAccess::new(&rules) {
        let last = blocks.last().and_then(|block| block.place.as_ref());
        faults.push(Diagnostic::at(last, fault.to_string()));
    }
    // An action that is misspelt is reported already, and is the default here.
    let is_misspelt = |place: &Option<_>| place.is_some() && faults.iter().any(|fault| fault.place == *place);
    let allows = |block: &At<ServerAccessBlock>| {
        *block.action == QueryAction::Allow && !is_misspelt(&block.action.place)
    };
    if let (Some(first), true) = (blocks.first(), blocks.iter().all(allows)) {
        let message = "[[server.access]] has no effect: every block allows, and a message that matches none is \
                       accepted";
        let hint = "add a last block with action = \"refuse\" and from = [\"any\"]";
        faults.push(Diagnostic::at(first.place.as_ref(), message).hint(hint));
    }
}
