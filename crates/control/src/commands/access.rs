//! What access rules decide about an explained query.

use config::Settings;
use config::interfaces::Interfaces;
use query_path::{QueryAction, QueryTraits};
use serde_json::{Value, json};
use wire::{Opcode, Type};

use super::asking::QueryClient;

/// Returns what access rules decide by about a query of this client.
pub(super) fn traits(client: &QueryClient, qtype: Type) -> QueryTraits<'_> {
    QueryTraits { client: client.client(), key: client.key_name(), opcode: Opcode::QUERY, qtype: Some(qtype) }
}

/// Returns the step for a query that the server's access rules do not accept.
pub(super) fn stopped(settings: &Settings, client: &QueryClient, qtype: Type) -> Option<Value> {
    if settings.query_access.is_empty() {
        return None;
    }
    // The server has warned about interfaces that the system does not list.
    let interfaces = Interfaces::of_this_machine().unwrap_or_default();
    let rules = settings.query_access(&interfaces)?;
    let query = traits(client, qtype);
    let number = rules.first(&query)? + 1;
    let (action, outcome) = match rules.action(&query)? {
        QueryAction::Refuse => ("refuse", "REFUSED"),
        QueryAction::Drop => ("drop", "no reply"),
        // The explained query arrives by TCP.
        QueryAction::Allow | QueryAction::Truncate => return None,
    };
    let who = client.client().peer.ip();
    let text = format!("block {number} of [[server.access]] matches {who} and decides `{action}`: {outcome}");
    Some(
        json!({"kind": "access", "text": text, "block": number, "action": action, "client": who.to_string()}),
    )
}
