//! `allow-query` of `[[zone]]` and `[template.X]`: who may query a zone.

use std::fmt;

use query_path::access::{AccessAction, AccessRule, TooManyRules};
use query_path::{QueryAccess, QueryAction, QueryRule};
use toml::Spanned;
use toml::de::DeValue;
use transport::Transport;
use wire::{LowerNameBuf, Prefix};

use super::addresses::{OnAddress, OnFault};
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Value, quote};
use super::transfers::{GrantFault, TransferGrant};

keys! {
    /// Keys of zones and templates about queries. The zone's keys take precedence.
    pub struct ZoneAccessKeys {
        /// Clients that may query the zone, written as in `allow-transfer`; with `proto:tcp` the query must
        /// arrive by TCP, with `on:ADDRESS` or `on:ADDRESS@PORT` at this address of the server; `!` before a
        /// member refuses these clients. The first member that matches decides; other clients get REFUSED. A
        /// chain of aliases does not lead into a zone that the client may not query. Unset: every client.
        live "allow-query" allow_query: Option<Vec<At<QueryGrant>>> = None,
            example ["!192.0.2.128/25", "192.0.2.0/24", "key:monitoring.example.com"];
    }
}

impl ZoneAccessKeys {
    /// Returns every TSIG key that is named, with its place.
    pub fn keys(&self) -> impl Iterator<Item = At<LowerNameBuf>> {
        let grants = self.allow_query.value.iter().flatten();
        grants.filter_map(|grant| Some(At { value: *grant.value.key()?, place: grant.place.clone() }))
    }

    /// Reports a list of more rules than are possible.
    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let grants = self.allow_query.value.iter().flatten();
        if let Err(TooManyRules { rules }) = zone_access(grants.map(|grant| &grant.value)) {
            let most = query_path::access::MAX_RULES;
            let message = format!(
                "`allow-query` has {rules} rules, and there can be {most}; members in a row that differ in their \
                 networks alone are one rule"
            );
            faults.push(Diagnostic::at(self.allow_query.place.as_ref(), message));
        }
    }
}

/// A member of `allow-query`: clients, and whether they may query the zone. A client must meet every
/// condition that is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueryGrant {
    /// Whether the clients are refused.
    refuses: bool,
    /// The client's network and key.
    client: TransferGrant,
    /// The transport; `None` for any.
    proto: Option<Transport>,
    /// The address that received the query; `None` for any.
    on: Option<OnAddress>,
}

/// What is wrong with the text of a [`QueryGrant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryGrantFault {
    /// Its network or key.
    Client(GrantFault),
    /// It names a certificate.
    Certificate,
    /// A condition is written twice.
    Twice(&'static str),
    /// This is not a transport.
    Proto(String),
    /// This is not an address.
    On(OnFault),
}

impl fmt::Display for QueryGrantFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(fault) => fault.fmt(f),
            Self::Certificate => f.write_str(
                "`cert:` goes with transfers, NOTIFY and updates alone; write a network, \"key:NAME\" or `proto:tls`",
            ),
            Self::Twice(word) => write!(f, "one `{word}` at most; write further ones as list members"),
            Self::Proto(text) => write!(f, "`{text}` is not a transport; write `proto:udp` or `proto:tcp`"),
            Self::On(fault) => fault.fmt(f),
        }
    }
}

impl QueryGrant {
    /// Returns the key of its clients.
    pub fn key(&self) -> Option<&LowerNameBuf> {
        self.client.key()
    }

    /// Whether both can be one rule, with the networks of both.
    fn is_like(&self, other: &QueryGrant) -> bool {
        let same = |grant: &QueryGrant| (grant.refuses, grant.client.key().copied(), grant.proto, grant.on);
        same(self) == same(other)
    }

    /// Returns the rule of grants that differ in their networks alone.
    fn rule(&self, all: &[&QueryGrant]) -> QueryRule {
        let of = |grant: &&QueryGrant| match grant.client.from() {
            Some(network) => vec![network],
            None => vec![Prefix::ALL_V4, Prefix::ALL_V6],
        };
        QueryRule {
            action: if self.refuses { QueryAction::Refuse } else { QueryAction::Allow },
            clients: AccessRule {
                action: AccessAction::Allow,
                from: all.iter().flat_map(of).collect(),
                local: self.on.map(|OnAddress(on)| vec![on]),
                transports: self.proto.map(|proto| vec![proto]),
            },
            keys: Vec::new(),
            signed_by: self.client.key().copied(),
            opcodes: None,
            types: None,
        }
    }
}

impl std::str::FromStr for QueryGrant {
    type Err = QueryGrantFault;

    fn from_str(text: &str) -> Result<Self, QueryGrantFault> {
        let (mut proto, mut on, mut rest) = (None, None, Vec::new());
        let (refuses, text) = match text.trim_start().strip_prefix('!') {
            Some(text) => (true, text),
            None => (false, text),
        };
        for word in text.split_whitespace() {
            if let Some(name) = word.strip_prefix("proto:") {
                let known = Transport::ALL.iter().find(|transport| transport.label() == name);
                let known = known.ok_or_else(|| QueryGrantFault::Proto(name.to_owned()))?;
                if proto.replace(*known).is_some() {
                    return Err(QueryGrantFault::Twice("proto"));
                }
            } else if let Some(address) = word.strip_prefix(OnAddress::PREFIX) {
                let read = address.parse().map_err(QueryGrantFault::On)?;
                if on.replace(read).is_some() {
                    return Err(QueryGrantFault::Twice("on"));
                }
            } else {
                rest.push(word);
            }
        }
        let client: TransferGrant = rest.join(" ").parse().map_err(QueryGrantFault::Client)?;
        if client.certificate().is_some() {
            return Err(QueryGrantFault::Certificate);
        }
        Ok(QueryGrant { refuses, client, proto, on })
    }
}

impl Value for QueryGrant {
    fn kind() -> String {
        "client `network`, `key:NAME`, both, or `any`, with `proto:NAME` and `on:ADDRESS` if needed; `!` refuses it"
            .into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a network such as \"192.0.2.0/24\", or \"key:NAME\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        let client = self.client.words();
        let proto = self.proto.map(|proto| format!(" proto:{proto}")).unwrap_or_default();
        let on = self.on.map(|on| format!(" on:{on}")).unwrap_or_default();
        Some(quote(&format!("{}{client}{proto}{on}", if self.refuses { "!" } else { "" })))
    }
}

/// Returns the compiled rules of a zone. Members in a row that differ in their networks alone are one rule.
///
/// # Errors
/// More than 64 rules.
pub fn zone_access<'g>(
    grants: impl IntoIterator<Item = &'g QueryGrant>,
) -> Result<QueryAccess, TooManyRules> {
    let grants: Vec<&QueryGrant> = grants.into_iter().collect();
    let runs = grants.chunk_by(|a, b| a.is_like(b));
    let rules: Vec<QueryRule> = runs.filter_map(|run| Some(run.first()?.rule(run))).collect();
    QueryAccess::new(&rules)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use query_path::QueryTraits;
    use transport::Client;
    use wire::{Opcode, Type};

    use super::*;

    fn may(grants: &[&str], peer: &str, local: &str, transport: Transport, key: Option<&str>) -> bool {
        let grants: Vec<QueryGrant> = grants.iter().map(|text| text.parse().expect(text)).collect();
        let at = |text: &str| SocketAddr::new(text.parse().expect("an address"), 53);
        let client = Client { peer: at(peer), local: at(local), transport };
        let key = key.map(|text| text.parse::<wire::NameBuf>().expect("a name").as_name().to_lower());
        let key = key.as_ref().map(LowerNameBuf::as_lower);
        let query = QueryTraits { client: &client, key, opcode: Opcode::QUERY, qtype: Some(Type::A) };
        zone_access(&grants).expect("few rules").action(&query) == Some(QueryAction::Allow)
    }

    #[test]
    fn the_first_member_that_matches_decides_and_without_one_the_query_is_refused() {
        let of = |grants: &[&str], peer| may(grants, peer, "192.0.2.53", Transport::Udp, None);
        let grants = ["!10.9.0.0/16", "10.0.0.0/8", "2001:db8::/32"];
        assert!(of(&grants, "10.8.0.1") && of(&grants, "::ffff:10.8.0.1") && of(&grants, "2001:db8::1"));
        assert!(!of(&grants, "10.9.0.1") && !of(&grants, "192.0.2.1") && !of(&grants, "2001:db9::1"));
        assert!(of(&["!10.9.0.0/16", "any"], "192.0.2.1") && !of(&["!any"], "192.0.2.1"));
    }

    #[test]
    fn all_conditions_of_a_member_must_hold() {
        let of = |grant: &str, local, transport, key| may(&[grant], "10.0.0.1", local, transport, key);
        let (udp, tcp) = (Transport::Udp, Transport::Tcp);
        assert!(of("10.0.0.0/8 key:K.example", "192.0.2.1", udp, Some("k.example")));
        assert!(!of("10.0.0.0/8 key:k.example", "192.0.2.1", udp, None));
        assert!(!of("11.0.0.0/8 key:k.example", "192.0.2.1", udp, Some("k.example")));
        assert!(of("any proto:tcp", "192.0.2.1", tcp, None) && !of("any proto:tcp", "192.0.2.1", udp, None));
        let on = "any on:192.0.2.1";
        assert!(of(on, "192.0.2.1", udp, None) && !of(on, "192.0.2.2", udp, None));
        let (here, elsewhere) = ("any on:192.0.2.1@53", "any on:192.0.2.1@853");
        assert!(of(here, "192.0.2.1", udp, None) && !of(elsewhere, "192.0.2.1", udp, None));
    }

    #[test]
    fn many_networks_in_a_row_are_one_rule() {
        let row: Vec<QueryGrant> =
            (0..200).map(|n| format!("10.{n}.0.0/16").parse().expect("a network")).collect();
        assert!(zone_access(&row).is_ok());
        let alternating: Vec<QueryGrant> = (0..65)
            .map(|n| {
                format!("{}10.{n}.0.0/16", if n % 2 == 0 { "!" } else { "" }).parse().expect("a network")
            })
            .collect();
        assert_eq!(zone_access(&alternating).err(), Some(TooManyRules { rules: 65 }));
    }

    #[test]
    fn a_member_is_written_as_it_is_read() {
        for text in [
            "any",
            "!any",
            "192.0.2.0/24 key:k.example.",
            "!::/0 proto:tcp on:192.0.2.1",
            "any on:[2001:db8::1]@853",
            "key:k.",
        ] {
            let grant: QueryGrant = text.parse().expect(text);
            assert_eq!(grant.render(), Some(quote(text)));
        }
        for (text, fault) in [
            ("", "it names no client"),
            ("! !any", "`!any` is neither a network"),
            ("any proto:sctp", "`sctp` is not a transport"),
            ("any on:eth0", "`eth0` is not an address"),
            ("any on:192.0.2.1:53", "`192.0.2.1:53` is not an address of this server; write `on:192.0.2.53`"),
            ("any on:0.0.0.0", "`0.0.0.0` is not an address"),
            ("any proto:udp proto:tcp", "one `proto` at most"),
            ("proto:tcp", "it names no client"),
        ] {
            let found = text.parse::<QueryGrant>().expect_err(text).to_string();
            assert!(found.starts_with(fault), "{text}: {found}");
        }
    }
}
