//! `[api]` and `[[api.token]]`: the HTTP API, its limits, and the tokens that may use it.

mod grants;
mod tokens;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use wire::NameBuf;

pub use grants::{ApiGrant, ApiRight, NamePattern, RightFault, ZonePattern};
pub use tokens::{ApiTokenBlock, Expiry, HashFile, TokenHash, TokenHashFault, TokenName};
pub(crate) use tokens::{files as hash_files, read_files as read_hash_files};

use super::listen::Opened;
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::At;
use super::table::value::{AddrPort, Int, Size, Time};
use super::zones::Templates;
use wording::did_you_mean;

keys! {
    /// The HTTP API: zones, records, keys, caches and policies over HTTP with JSON, for tokens that
    /// `[[api.token]]` names. The section's presence turns it on. [API.md](API.md) explains it.
    pub struct ApiSection in "[api]" {
        /// Addresses to listen on. Addresses other than loopback need `tls`. A socket that systemd passes for
        /// an address is used.
        restart "listen" listen: Vec<At<AddrPort>> = default_addresses(),
            example ["127.0.0.1@8081", "[::1]@8081"];
        /// Whether nomen also listens on an address that no interface has yet, as `freebind` of `[[listen]]`
        /// does for queries.
        restart "freebind" freebind: bool = true, example false;
        /// HTTPS with the certificates of `[[certificate]]` or `[acme]`, or a self-signed one without them.
        /// Unset: no, which is an error with an address other than loopback; `false` allows plain HTTP there,
        /// and tokens can be read on the network.
        restart "tls" tls: Option<bool> = None, example true;
        /// Most connections at a time, streams of queries included. One more replaces the connection that has
        /// been idle longest; a connection whose request is answered is not idle.
        live "connections" connections: Int<usize, 1, 10_000> = Int(128), example 200;
        /// Longest time in which the head of a request must arrive, and its TLS handshake before.
        live "head-timeout" head: Time<100, 600_000> = Time::secs(5), example "2s";
        /// Longest time in which the body of a request must arrive, and in which it is answered. A command
        /// that takes longer, such as a reload, is executed nevertheless.
        live "request-timeout" request: Time<1_000, 3_600_000> = Time::secs(60), example "5m";
        /// Largest body of a request. A larger one is refused with status 413.
        live "body-size" body: Size<1_024, 1_073_741_824> = Size(4 << 20), example "64MiB";
        /// Most requests of one client address in a second, on average of ten seconds. Further ones are
        /// refused with status 429.
        live "requests-per-second" per_second: Int<u32, 1, 1_000_000> = Int(1000), example 100;
        /// Most different wrong tokens of one client address in a minute. Beyond it all requests of the
        /// address with a token are refused with status 429, until a minute after the first wrong one.
        live "wrong-tokens" wrong_tokens: Int<u32, 1, 1000> = Int(10), example 3;
        /// Most open streams of queries at a time. Each also occupies a connection.
        live "streams" streams: Int<usize, 1, 1_000> = Int(8), example 2;
        /// Host names in URLs of the API, besides addresses, `localhost` and this machine's name. Requests
        /// with other names are refused with status 421, so that no other site can make a browser use the API
        /// (DNS rebinding). Unset: none.
        live "hosts" hosts: Option<Vec<At<NameBuf>>> = None, example ["dns.example.com"];
        /// Template (`[template.X]`) of zones that the API creates, where a request names none. Unset: such a
        /// zone has only the keys that the request sets.
        live "template" template: Option<String> = None, example "customers";
    }
}

fn default_addresses() -> Vec<At<AddrPort>> {
    vec![At::unwritten(AddrPort(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 8081)))]
}

impl ApiSection {
    /// Whether connections use TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.value == Some(true)
    }

    /// Returns the addresses.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listen.iter().map(|addr| addr.value.0)
    }
}

/// Reports addresses that overlap or lack TLS, a template that does not exist, and faults of tokens.
pub(super) fn check(
    api: Option<&At<ApiSection>>,
    token_blocks: &[At<ApiTokenBlock>],
    (opened, metrics): (&[Opened], Option<&At<AddrPort>>),
    templates: &Templates,
    faults: &mut Vec<Diagnostic>,
) {
    let Some(api) = api else { return };
    let mut seen: HashMap<SocketAddr, &At<AddrPort>> = HashMap::new();
    for addr in api.listen.iter() {
        Opened::check_other(opened, addr, faults);
        if let Some(metrics) = metrics.filter(|metrics| metrics.value.0 == addr.value.0) {
            let message = format!("{} overlaps with the address of [metrics]", addr.value);
            let fault = Diagnostic::at(addr.place.as_ref(), message);
            faults.push(fault.also(metrics.place.as_ref(), "listened on already"));
        }
        if let Some(first) = seen.insert(addr.value.0, addr) {
            let fault = Diagnostic::at(addr.place.as_ref(), format!("{} is in the list twice", addr.value));
            faults.push(fault.also(first.place.as_ref(), "first here"));
        }
        if api.tls.is_none() && !addr.value.0.ip().to_canonical().is_loopback() {
            let message = format!("tokens for the API at {} would cross the network unencrypted", addr.value);
            let hint = "set `tls = true` in [api]; `tls = false` allows plain HTTP, for an address that only a \
                        proxy with TLS reaches";
            faults.push(Diagnostic::at(addr.place.as_ref(), message).hint(hint));
        }
    }
    if let Some(template) = api.template.value.as_deref()
        && !templates.contains_key(template)
    {
        let message = format!("there is no template `{template}`");
        let hint = match did_you_mean(template, templates.keys().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("define [template.{template}]"),
        };
        faults.push(Diagnostic::at(api.template.place.as_ref(), message).hint(hint));
    }
    tokens::check(token_blocks, faults);
}
