//! What `nomen serve` does without a configuration file: it serves an example zone, forwards, or resolves.
//! Also the texts that suggest commands to try.

use std::fmt::Write as _;
use std::net::SocketAddr;

use config::upstreams::UpstreamServer;
use wire::Name;
use zone_plan::{DifferenceRule, Origin, TextRules, ZoneSpec, ZoneText};

/// The example zone's text.
const EXAMPLE: &str = include_str!("builtin/example.com.zone");

/// The zones of the built-in configuration.
pub fn zones() -> Vec<ZoneSpec> {
    vec![ZoneSpec {
        apex: Name::of_checked(b"\x07example\x03com\0").into(),
        text: ZoneText::BuiltIn(EXAMPLE),
        origin: Origin::Configuration,
        differences: DifferenceRule::default(),
        rules: TextRules::default(),
        signed: false,
    }]
}

/// The configuration of `nomen serve --forward`.
pub fn forwarder(servers: &[UpstreamServer]) -> String {
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    let servers = servers.join(", ");
    // Many upstreams of this kind, such as home routers, do not pass DNSSEC records on, so validation is off.
    format!(
        "[resolver]\ncache-file = \"none\"\nvalidate = false\n\n[[resolver.forward]]\nservers = [{servers}]\n"
    )
}

/// The configuration of `nomen serve --resolve`.
pub fn resolver() -> String {
    "[resolver]\ncache-file = \"none\"\n".into()
}

/// Returns the terminal text that suggests commands for a forwarder.
pub fn forwarder_greeting(addresses: &[SocketAddr], servers: &[UpstreamServer]) -> String {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let does = format!("forwards queries of this machine to {} and caches the answers", servers.join(", "));
    recursive_greeting(&does, addresses)
}

/// Returns the terminal text that suggests commands for a resolver.
pub fn resolver_greeting(addresses: &[SocketAddr]) -> String {
    let does = "resolves queries of this machine from the root servers down, validates and caches the \
        answers.\n\
                It must reach port 53 of all servers";
    recursive_greeting(does, addresses)
}

/// Returns what nomen does and which commands to try.
fn recursive_greeting(does: &str, addresses: &[SocketAddr]) -> String {
    let mut out = format!("nomen {does}.\n");
    let Some(first) = addresses.first() else { return out };
    let (ip, port, nomen) = (first.ip(), first.port(), program());
    let _ = write!(
        out,
        "\nTry, in another terminal:\n\n  \
         {nomen} query www.example.com A @{ip} -p {port}\n  \
         {nomen} ctl explain www.example.com A\n  \
         {nomen} ctl cache stats\n  \
         {nomen} ctl forward list\n\n\
         Stop with Ctrl-C.\n"
    );
    out
}

/// Returns the name the program was called by, so that the printed commands work when it is not installed.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "nomen".into())
}

/// Returns the terminal text that suggests commands for the example zone.
pub fn greeting(addresses: &[SocketAddr]) -> String {
    let mut out = String::from(
        "nomen serves the example zone example.com; nothing outside this machine is answered.\n",
    );
    let Some(first) = addresses.first() else { return out };
    let (ip, port) = (first.ip(), first.port());
    let nomen = program();
    let _ = write!(
        out,
        "\nTry, in another terminal:\n\n  \
         {nomen} query www.example.com A @{ip} -p {port}\n  \
         {nomen} query anything.wild.example.com TXT @{ip} -p {port}\n  \
         dig @{ip} -p {port} example.com MX\n  \
         dig @{ip} -p {port} +tcp _imaps._tcp.example.com SRV\n  \
         {nomen} ctl status\n\n\
         Other names are refused. To have them resolved as well, stop it and start one of\n\n  \
         {nomen} serve --resolve               (asks the root servers, and so on)\n  \
         {nomen} serve --forward 192.0.2.53    (the address of your resolver)\n\n\
         Then write a configuration: `{nomen} check --defaults` prints every key with its default, and\n\
         `{nomen} serve --config nomen.toml` serves your zones. Stop with Ctrl-C.\n"
    );
    out
}
