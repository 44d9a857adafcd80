//! The resolvers of the system.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use threads::sync::lock;
use wire::{NameBuf, Type};
use wording::reason;

use super::exchange::{ExchangeFault, QueryKind, ServerQuery, exchange, usable};

/// The file that names the resolvers of the system.
const RESOLVERS_FILE: &str = "/etc/resolv.conf";
/// Most bytes of it.
const MAX_FILE: u64 = 1 << 20;
/// Most resolvers that are asked (resolv.conf(5)).
const MAX_RESOLVERS: usize = 3;
/// Wait for a response, and how often all resolvers are asked.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
const ROUNDS: usize = 2;
/// The port of resolvers.
const DNS_PORT: u16 = 53;

/// The resolvers of the system.
pub(crate) struct SystemResolvers {
    /// The file that names them.
    file: PathBuf,
    port: u16,
    /// Those that were read last: a file that was replaced cannot be read from inside the sandbox.
    last: Mutex<Vec<IpAddr>>,
}

impl Default for SystemResolvers {
    fn default() -> Self {
        Self::new(Path::new(RESOLVERS_FILE), DNS_PORT)
    }
}

impl SystemResolvers {
    /// Returns the resolvers that a file names, with their port.
    pub(crate) fn new(file: &Path, port: u16) -> Self {
        SystemResolvers { file: file.to_owned(), port, last: Mutex::default() }
    }

    /// Returns the response of the first resolver that has one: NOERROR or NXDOMAIN.
    pub(super) async fn response(&self, name: NameBuf, qtype: Type) -> Result<Vec<u8>, String> {
        let (resolvers, query) = (self.resolvers()?, ServerQuery { name, qtype, kind: QueryKind::Resolve });
        let mut fault = "no resolver".to_owned();
        for resolver in resolvers.iter().cycle().take(resolvers.len() * ROUNDS) {
            let asked = exchange(*resolver, &query, RESPONSE_TIMEOUT, 1).await;
            match asked.map_err(ExchangeFault::into_text).and_then(usable) {
                Ok(message) => return Ok(message),
                Err(of_resolver) => fault = format!("the resolver {}: {of_resolver}", resolver.ip()),
            }
        }
        Err(fault)
    }

    fn resolvers(&self) -> Result<Vec<SocketAddr>, String> {
        let (mut last, file) = (lock(&self.last), &*self.file);
        match zone::regular::read_to_string(file, MAX_FILE) {
            Ok(text) => *last = named(&text),
            Err(_) if !last.is_empty() => {}
            Err(error) => return Err(format!("cannot read {}: {}", file.display(), reason(&error))),
        }
        Ok(last.iter().map(|address| SocketAddr::new(*address, self.port)).collect())
    }
}

/// Returns the resolvers that a file names; that of this machine if there are none.
fn named(text: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse().ok())?
    };
    let all: Vec<IpAddr> = text.lines().filter_map(address).take(MAX_RESOLVERS).collect();
    if all.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { all }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::{Header, Rcode};

    use super::*;
    use crate::hosts::testing::{Response, Responses, Servers, name};

    #[test]
    fn resolvers_are_those_of_the_file_or_this_machine() {
        let text = "# x\nnameserver 192.0.2.1\n search a.example\nnameserver\t2001:db8::1 \noptions edns0\n\
                    nameserver fe80::1%eth0\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        let addresses = |all: &[&str]| -> Vec<IpAddr> {
            all.iter().map(|text| text.parse().expect("an address")).collect()
        };
        assert_eq!(named(text), addresses(&["192.0.2.1", "2001:db8::1", "192.0.2.2"]));
        assert_eq!(named("search a.example\n"), addresses(&["127.0.0.1"]));
    }

    #[test]
    fn the_last_resolvers_stay_when_the_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("resolv.conf");
        let resolvers = SystemResolvers::new(&file, DNS_PORT);
        let fault = resolvers.resolvers().expect_err("no file");
        assert!(fault.contains("there is no such file"), "{fault}");
        std::fs::write(&file, "nameserver 192.0.2.9\n").expect("written");
        let read = resolvers.resolvers().expect("read");
        assert_eq!(read, ["192.0.2.9:53".parse().expect("an address")]);
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(resolvers.resolvers().expect("as before"), read);
    }

    #[tokio::test]
    async fn the_next_resolver_is_asked_after_a_failure_and_not_after_a_negative_response() {
        let response = |rcode| -> Responses {
            Arc::new(move |qname, qtype| Some(Response::to(&qname.to_string(), qtype).rcode(rcode)))
        };
        let all = vec![response(Rcode::SERVFAIL), response(Rcode::NXDOMAIN), response(Rcode::NOERROR)];
        let servers = Servers::start(all).await;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("resolv.conf");
        let lines: String = (1..=3).map(|last| format!("nameserver 127.0.0.{last}\n")).collect();
        std::fs::write(&file, lines).expect("written");
        let resolvers = SystemResolvers::new(&file, servers.port);
        let message = resolvers.response(name("ca.example"), Type::A).await.expect("a response");
        assert_eq!(Header::of(&message).map(|header| header.rcode()), Some(Rcode::NXDOMAIN));
        let asked = [1, 2, 3].map(|last| servers.received_at(last).len());
        assert_eq!(asked, [1, 1, 0]);
        std::fs::write(&file, "nameserver 127.0.0.1\n").expect("written");
        let fault = resolvers.response(name("ca.example"), Type::A).await.expect_err("no response");
        assert_eq!(fault, "the resolver 127.0.0.1: the response is SERVFAIL");
        assert_eq!(servers.received_at(1).len(), 1 + ROUNDS);
    }
}
