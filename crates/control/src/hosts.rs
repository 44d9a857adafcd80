//! The host names that a request over HTTP may have: with others, another site could have pointed its own
//! name here, and make browsers read what this server serves (DNS rebinding).

use std::net::{IpAddr, SocketAddr};

use hyper::Request;
use hyper::header::HOST;
use wire::NameBuf;

use config::table::read::At;

/// Returns whether a request names only hosts that are this server's own (RFC 9110 §7.2), `names` among them.
/// A request without a host does not come from a browser.
pub fn may_ask<B>(request: &Request<B>, names: &[At<NameBuf>]) -> bool {
    let named = request.headers().get_all(HOST).iter().map(|host| host.to_str().ok());
    let mut hosts = named.chain(request.uri().authority().map(|authority| Some(authority.as_str())));
    hosts.all(|host| host.is_some_and(|host| is_own(host, names)))
}

/// Returns whether a host, with or without port, is an address, `localhost`, this machine's name or one of
/// `names`: none of these can be pointed here by the owner of another domain.
fn is_own(host: &str, names: &[At<NameBuf>]) -> bool {
    if host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
        return true;
    }
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    if is_address(
        without_port.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(without_port),
    ) {
        return true;
    }
    let same = |a: &str, b: &str| a.trim_end_matches('.').eq_ignore_ascii_case(b.trim_end_matches('.'));
    let of_machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    same(without_port, "localhost")
        || !of_machine.trim().is_empty() && same(without_port, of_machine.trim())
        || names.iter().any(|name| same(without_port, &name.value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_in_its_address_had_the_page() {
        let names = [At::unwritten("dns.example.com.".parse().expect("a name"))];
        for host in [
            "127.0.0.1",
            "127.0.0.1:9153",
            "[::1]",
            "[::1]:9153",
            "localhost",
            "LocalHost.:9153",
            "dns.example.com",
            "DNS.example.com:9153",
        ] {
            assert!(is_own(host, &names), "{host}");
        }
        for host in [
            "",
            ":9153",
            "attacker.example",
            "attacker.example:9153",
            "127.0.0.1.attacker.example",
            "example.com",
        ] {
            assert!(!is_own(host, &names), "{host}");
        }
        let asked = |host: Option<&str>| {
            let request = Request::get("/");
            let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
            may_ask(&request.body(()).expect("a request"), &[])
        };
        assert!(asked(None) && asked(Some("[::1]:9153")) && !asked(Some("attacker.example")));
    }
}
