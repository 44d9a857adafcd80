//! What `nomen serve` serves without a configuration: an example zone, and the words about what to try.

use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::zones::{ZoneSpec, ZoneText};

/// The example zone's text.
const EXAMPLE: &str = include_str!("builtin/example.com.zone");

/// The zones of the built-in configuration.
pub fn zones() -> Vec<ZoneSpec> {
    vec![ZoneSpec { apex: (*b"\x07example\x03com\x00").into(), text: ZoneText::BuiltIn(EXAMPLE) }]
}

/// What to try next, for a terminal.
pub fn greeting(addresses: &[SocketAddr]) -> String {
    let mut out = String::from(
        "nomen serves the example zone example.com; nothing outside this machine is answered.\n",
    );
    let Some(first) = addresses.first() else { return out };
    let (ip, port) = (first.ip(), first.port());
    // As it was called, so that the lines work when it is not installed.
    let nomen = std::env::args().next().unwrap_or_else(|| "nomen".into());
    let _ = write!(
        out,
        "\nTry, in another terminal:\n\n  \
         {nomen} query www.example.com A @{ip} -p {port}\n  \
         {nomen} query anything.wild.example.com TXT @{ip} -p {port}\n  \
         dig @{ip} -p {port} example.com MX\n  \
         dig @{ip} -p {port} +tcp _imaps._tcp.example.com SRV\n  \
         {nomen} ctl status\n\n\
         Then write a configuration: `{nomen} check --defaults` prints every key with its default, and\n\
         `{nomen} serve --config nomen.toml` serves your zones. Stop with Ctrl-C.\n"
    );
    out
}
