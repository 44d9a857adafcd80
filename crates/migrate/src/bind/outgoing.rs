//! Outgoing queries and the order of addresses in answers, from `options` of named.conf.

use std::net::IpAddr;

use crate::model::Section;
use crate::tree::Statement;
use crate::work::Work;

/// Converts `query-source [address] (ADDRESS | * | none) [port (PORT | *)]`; `none` leaves only the other
/// address family.
pub(super) fn query_source(work: &mut Work, statement: &Statement) {
    let words: Vec<&str> = statement.values().map(|word| word.text.as_str()).collect();
    let address = words.iter().find(|word| **word != "address").copied();
    let key = if statement.key() == "query-source" { "iterate-ipv4" } else { "iterate-ipv6" };
    let has_port =
        words.iter().position(|word| *word == "port").is_some_and(|at| words.get(at + 1) != Some(&"*"));
    match address {
        Some("none") => {
            work.recurse().switch(key, false);
            work.in_key(statement, Section::Resolver, key);
        }
        None | Some("*" | "port") => {
            work.ledger.unneeded(statement, "nomen asks from any address anyway");
        }
        Some(address) => match address.parse::<IpAddr>() {
            Ok(ip) if ip.is_ipv6() == (key == "iterate-ipv6") => {
                // Each address family has one statement.
                work.ask_from(&[ip]);
                match has_port {
                    true => work.ledger.differs(
                        statement,
                        "`source` of [resolver]; each query has a port of its own, which keeps replies from \
                         being forged",
                    ),
                    false => work.in_key(statement, Section::Resolver, "source"),
                }
            }
            _ => work.not_understood(statement),
        },
    }
}

/// Converts `rrset-order { order ORDER; }`. Orders for some names or types are not supported.
pub(super) fn rrset_order(work: &mut Work, statement: &Statement) {
    let on = match statement.block() {
        [only] if only.key() == "order" => match only.value() {
            "cyclic" | "random" => Some(true),
            "fixed" | "none" => Some(false),
            _ => None,
        },
        _ => {
            let why = "`rotate-addresses` of [server] is for the addresses of all names";
            return work.ledger.missing(statement, why);
        }
    };
    work.rotate(statement, on);
}
