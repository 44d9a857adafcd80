//! setupVars.conf of Pi-hole 5: `KEY=VALUE` on each line.

use super::{Hole, blocking_mode, bogus_priv, is_on, listening, reverse, upstream};
use crate::model::Section;
use crate::text::{SourceSpan, Texts};
use crate::tree::{Part, SourceWord, Statement};
use crate::work::{Rule, Work};

/// Parses a text that has been opened.
pub(super) fn parse(texts: &mut Texts<'_>, number: usize) -> Vec<Statement> {
    let text = texts.text(number);
    let mut out = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some((key, value)) = line.trim_end().split_once('=').filter(|(key, _)| !key.starts_with('#'))
        else {
            continue;
        };
        let word = |text: &str, from: usize, len: usize| {
            let span = SourceSpan { text: number, range: from..from + len };
            Part::Word(SourceWord { text: text.to_owned(), quoted: false, span })
        };
        let parts = vec![
            word(key.trim(), start, key.len()),
            word(value.trim().trim_matches('"'), start + key.len() + 1, value.len()),
        ];
        let span = SourceSpan { text: number, range: start..start + line.trim_end().len() };
        out.push(Statement { id: texts.number(), parts, span });
    }
    out
}

/// Converts all settings.
pub(super) fn convert(work: &mut Work, all: &[Statement]) -> Hole {
    let get = |key: &str| all.iter().rev().find(|one| one.key() == key).map_or("", Statement::value);
    let hole = Hole {
        mode: get("BLOCKINGMODE").to_owned(),
        inactive: get("BLOCKING_ENABLED") == "false",
        domain: get("PIHOLE_DOMAIN").to_owned(),
        ..Hole::default()
    };
    for found in all {
        let key = found.key();
        match key {
            key if key.starts_with("PIHOLE_DNS_") => server(work, found),
            "DNSSEC" => work.validate(found, is_on(found)),
            "DNSMASQ_LISTENING" => listening(work, found, found.value()),
            "DNS_FQDN_REQUIRED" if is_on(found) => {
                work.ledger.missing(found, "nomen asks for names of one label as for all others");
            }
            "DNS_BOGUS_PRIV" => bogus_priv(work, found),
            "QUERY_LOGGING" => work.apply(found, Rule::Switch(Section::Log, "queries")),
            "BLOCKING_ENABLED" if hole.inactive => work.ledger.translated(found, "the lists are left out"),
            "BLOCKINGMODE" => blocking_mode(work, found, &hole),
            "REV_SERVER" if is_on(found) => {
                let line = ["REV_SERVER_CIDR", "REV_SERVER_TARGET", "REV_SERVER_DOMAIN"].map(get).join(",");
                reverse(work, found, &format!("true,{line}"));
            }
            "CONDITIONAL_FORWARDING" if is_on(found) => {
                work.ledger.missing(found, "write a [[resolver.forward]] for the domain of the router");
            }
            "CACHE_SIZE" if found.value() != "0" => {
                work.ledger
                    .differs(found, "`cache-size` of [resolver] is in bytes: 256 MiB unless it is set");
            }
            "DHCP_ACTIVE" if is_on(found) => {
                work.ledger.missing(found, "nomen gives no addresses to hosts: it is no DHCP server");
            }
            "PIHOLE_INTERFACE" => {
                work.ledger
                    .differs(found, "nomen listens on all addresses; name them in `addr` of [[listen]]");
            }
            _ if OTHERS.contains(&key)
                || OTHERS.iter().any(|start| start.ends_with('_') && key.starts_with(start)) =>
            {
                work.ledger.unneeded(found, "nomen decides this by itself, or has no such part");
            }
            _ => {}
        }
    }
    if !all.iter().any(|one| one.key() == "DNSSEC") {
        work.recurse().switch("validate", false);
    }
    hole
}

/// Settings that need no key, and what such settings begin with.
const OTHERS: [&str; 20] = [
    "DNS_FQDN_REQUIRED",
    "BLOCKING_ENABLED",
    "REV_SERVER",
    "REV_SERVER_",
    "CONDITIONAL_FORWARDING",
    "CONDITIONAL_FORWARDING_",
    "CACHE_SIZE",
    "DHCP_",
    "WEB",
    "WEBPASSWORD",
    "WEBUIBOXEDLAYOUT",
    "WEBTHEME",
    "INSTALL_WEB_SERVER",
    "INSTALL_WEB_INTERFACE",
    "LIGHTTPD_ENABLED",
    "IPV4_ADDRESS",
    "IPV6_ADDRESS",
    "PIHOLE_DOMAIN",
    "TEMPERATUREUNIT",
    "API_",
];

/// Converts a server, which is the value.
fn server(work: &mut Work, found: &Statement) {
    let member = Statement { parts: found.parts.iter().skip(1).cloned().collect(), ..found.clone() };
    upstream(work, &member);
}
