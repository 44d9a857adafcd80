//! Statements common to nsd.conf and unbound.conf.

use std::net::IpAddr;

use crate::encrypted::EncryptedListens;
use crate::ledger::Coverage;
use crate::model::{Keys, Section};
use crate::tree::{Statement, last};
use crate::units;
use crate::work::{Work, with_port};

/// Converts the verbosity to a log level.
pub(crate) fn verbosity(work: &mut Work, statement: &Statement) {
    let level = match statement.value().parse::<u32>() {
        Ok(0) => "warn",
        Ok(1) => "info",
        Ok(_) => "debug",
        Err(_) => return work.not_understood(statement),
    };
    work.nomen.log.text("level", level);
    work.in_key(statement, Section::Log, "level");
}

/// Converts `nsid: "ascii_TEXT"`, or hexadecimal digits.
pub(crate) fn nsid(work: &mut Work, found: &Statement) {
    let text = match found.value().strip_prefix("ascii_") {
        Some(text) => text.to_owned(),
        None => format!("0x{}", found.value().trim_start_matches("0x")),
    };
    let hex = text
        .strip_prefix("0x")
        .is_none_or(|hex| hex.len().is_multiple_of(2) && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if !hex || text.len() <= 2 && text.starts_with("0x") || text.is_empty() || text.len() > 128 {
        return work.not_understood(found);
    }
    work.nomen.server.text("nsid", text);
    work.in_key(found, Section::Server, "nsid");
}

/// What a port is for.
pub(crate) enum PortUse {
    /// UDP and TCP.
    Plain,
    /// These transports.
    Encrypted(&'static [&'static str]),
    /// What nomen has not, for this reason.
    Missing(&'static str),
}

/// Converts the listening addresses, by default `unnamed`.
pub(crate) fn listen(
    work: &mut Work,
    all: &[&Statement],
    unnamed: [IpAddr; 2],
    usage: impl Fn(IpAddr, u16) -> PortUse,
) {
    let port = last(all, "port");
    let usual = port.and_then(|port| port.value().parse().ok()).unwrap_or(53u16);
    if let Some(port) = port {
        work.ledger.translated(port, "the port in `addr` of [[listen]]");
    }
    let named = all.iter().filter(|s| s.key() == "ip-address" || s.key() == "interface");
    let (mut block, mut encrypted, mut any) = (Keys::default(), EncryptedListens::default(), false);
    for statement in named {
        any = true;
        let (ip, own) =
            statement.value().split_once('@').map_or((statement.value(), None), |(ip, p)| (ip, Some(p)));
        match (ip.parse(), own.map_or(Some(usual), |port| port.parse().ok())) {
            (Ok(ip), Some(port)) => {
                match usage(ip, port) {
                    PortUse::Plain => block.add("addr", with_port(ip, port)),
                    PortUse::Encrypted(all) => {
                        all.iter().for_each(|proto| encrypted.add(proto, with_port(ip, port)));
                    }
                    PortUse::Missing(why) => {
                        work.ledger.missing(statement, why);
                        continue;
                    }
                }
                work.ledger.translated(statement, "`addr` of [[listen]]");
                if statement.words().count() > 2 {
                    work.ledger.missing(statement, "nomen's workers listen on all addresses together");
                }
            }
            _ => {
                work.ledger.missing(statement, "nomen listens on addresses, not on interfaces by their names")
            }
        }
    }
    if !any {
        unnamed.into_iter().for_each(|ip| block.add("addr", with_port(ip, usual)));
    }
    std::iter::once(&mut block).chain(encrypted.blocks()).for_each(|block| drop_families(all, block));
    if !block.0.is_empty() {
        work.nomen.listens.push(block);
    }
    encrypted.finish(work);
    work.nomen.listens.retain(|block| block.get("addr").is_some());
    if work.nomen.listens.is_empty() {
        work.ledger.unwritten(Coverage::Differs, NOWHERE);
    }
}

/// Without addresses nomen uses its default ones.
const NOWHERE: &str = "it listens on no address that nomen could; without any [[listen]], nomen does on \
                       127.0.0.1 and ::1 at port 5300";

/// Applies `do-ip4` and `do-ip6`: drops addresses of a disabled family.
fn drop_families(all: &[&Statement], block: &mut Keys) {
    for (key, v6) in [("do-ip4", false), ("do-ip6", true)] {
        if last(all, key).is_some_and(|found| units::switch(found.value()) == Some(false)) {
            let kept = block.members("addr").iter().filter(|addr| addr.starts_with('[') != v6);
            let kept = kept.cloned().collect();
            block.texts("addr", kept);
        }
    }
}
