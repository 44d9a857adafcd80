//! `nomen ctl discovery`: how clients discover the encrypted listeners, and what zones, DHCP servers and
//! routers need for it.

use std::fmt::Write as _;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::CommandResult;
use crate::fault::CommandFault;
use crate::parts::ServerParts;
use config::Settings;
use config::discovery::{DISCOVERY_NAME, EncryptedService, Endpoint};
use query_path::prefix::PRIVATE;
use tls::ServerCertificate;

/// The code of the option in DHCPv6, and its type in router advertisements (RFC 9463 §4.1, §6.1).
const OPTION_V6: u8 = 144;
/// How long hosts may use the option of a router advertisement, in seconds: three times the longest interval
/// between advertisements (RFC 9463 §6.1, RFC 4861 §6.2.1).
const LIFETIME: u32 = 1800;

/// Returns how clients discover the encrypted listeners.
pub(super) fn discovery(parts: &ServerParts) -> CommandResult {
    let settings = parts.in_force.settings();
    let service = settings.encrypted_service().ok_or(CommandFault::NothingDiscovered)?;
    let name = service.name.to_string();
    Ok(json!({
        "name": name.trim_end_matches('.'),
        "answered": service.lines(DISCOVERY_NAME),
        "records": service.lines(&format!("_dns.{name}")),
        "dhcpv4": hex(&dhcpv4(&service)),
        "dhcpv6": dhcpv6(&service).iter().map(|option| hex(option)).collect::<Vec<_>>(),
        "router": router(&service).iter().map(|option| hex(option)).collect::<Vec<_>>(),
        "addresses": resolvers(&settings, &parts.frontend.certificates.in_use()),
    }))
}

/// Returns the addresses of the listeners without encryption, and whether clients that know the resolver by
/// one accept the certificate (RFC 9462 §4.2): verified, or because the address is private (§4.3).
fn resolvers(settings: &Settings, certificates: &[std::sync::Arc<ServerCertificate>]) -> Vec<Value> {
    let plain = settings.listens.iter().filter(|listen| !listen.has_tls());
    let mut addresses: Vec<IpAddr> =
        plain.flat_map(|listen| listen.addr.iter()).map(|a| a.value.0.ip()).collect();
    addresses.retain(|address| !address.is_unspecified() && !address.is_loopback());
    addresses.sort_unstable();
    addresses.dedup();
    // Clients that ask for an address send no server name: they get the first certificate.
    let first = certificates.first();
    let about = |address: IpAddr| {
        let in_certificate = first.is_some_and(|first| first.is_for_address(address));
        let private = PRIVATE.iter().any(|prefix| prefix.contains(address));
        json!({"address": address, "certificate": in_certificate, "private": private})
    };
    addresses.into_iter().map(about).collect()
}

/// A listener in an option.
struct Listed<'s> {
    priority: u16,
    /// With its addresses of one family; `None`: the name without a listener.
    listener: Option<(&'s Endpoint, Vec<u8>)>,
}

/// Returns the listeners that have addresses of one family. If there are none, the name alone, of which
/// clients look up addresses and SVCB records (RFC 9463 §3.1.6).
fn listed(service: &EncryptedService, addresses: fn(&Endpoint) -> Vec<u8>) -> Vec<Listed<'_>> {
    let with = service.endpoints.iter().map(|endpoint| (endpoint, addresses(endpoint)));
    let with = with.filter(|(_, addresses)| !addresses.is_empty());
    let mut all: Vec<Listed<'_>> =
        (1..).zip(with).map(|(priority, of)| Listed { priority, listener: Some(of) }).collect();
    if all.is_empty() {
        all.push(Listed { priority: 1, listener: None });
    }
    all
}

/// Returns the data of option 162 of DHCPv4 with all listeners (RFC 9463 §5.1).
fn dhcpv4(service: &EncryptedService) -> Vec<u8> {
    let name = service.name.as_name().as_wire();
    let mut data = Vec::new();
    for Listed { priority, listener } in listed(service, v4) {
        let mut instance = priority.to_be_bytes().to_vec();
        instance.push(name.len() as u8);
        instance.extend(name);
        if let Some((endpoint, addresses)) = listener {
            instance.push(addresses.len() as u8);
            instance.extend(addresses);
            instance.extend(endpoint.svc_params());
        }
        data.extend((instance.len() as u16).to_be_bytes());
        data.extend(instance);
    }
    data
}

/// Returns the data of each option 144 of DHCPv6 (RFC 9463 §4.1).
fn dhcpv6(service: &EncryptedService) -> Vec<Vec<u8>> {
    let name = service.name.as_name().as_wire();
    let option = |Listed { priority, listener }: Listed<'_>| {
        let mut data = priority.to_be_bytes().to_vec();
        push_counted(&mut data, name);
        if let Some((endpoint, addresses)) = listener {
            push_counted(&mut data, &addresses);
            data.extend(endpoint.svc_params());
        }
        data
    };
    listed(service, v6).into_iter().map(option).collect()
}

/// Returns each option of router advertisements, with its type and length (RFC 9463 §6.1).
fn router(service: &EncryptedService) -> Vec<Vec<u8>> {
    let name = service.name.as_name().as_wire();
    let option = |Listed { priority, listener }: Listed<'_>| {
        let mut option = vec![OPTION_V6, 0];
        option.extend(priority.to_be_bytes());
        option.extend(LIFETIME.to_be_bytes());
        push_counted(&mut option, name);
        if let Some((endpoint, addresses)) = listener {
            push_counted(&mut option, &addresses);
            push_counted(&mut option, &endpoint.svc_params());
        }
        option.resize(option.len().next_multiple_of(8), 0);
        option[1] = u8::try_from(option.len() / 8).unwrap_or(u8::MAX);
        option
    };
    listed(service, v6).into_iter().map(option).collect()
}

/// Appends bytes behind their number, of two bytes.
fn push_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_be_bytes());
    out.extend(bytes);
}

/// Most addresses in an option.
const MAX_ADDRESSES: usize = 8;

fn v4(endpoint: &Endpoint) -> Vec<u8> {
    let octets = |address: &IpAddr| match address {
        IpAddr::V4(v4) => Some(v4.octets()),
        IpAddr::V6(_) => None,
    };
    endpoint.addresses.iter().filter_map(octets).take(MAX_ADDRESSES).flatten().collect()
}

fn v6(endpoint: &Endpoint) -> Vec<u8> {
    let octets = |address: &IpAddr| match address {
        IpAddr::V6(v6) => Some(v6.octets()),
        IpAddr::V4(_) => None,
    };
    endpoint.addresses.iter().filter_map(octets).take(MAX_ADDRESSES).flatten().collect()
}

/// Returns bytes as hexadecimal digits with colons, as DHCP servers read them.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        let colon = if out.is_empty() { "" } else { ":" };
        let _ = write!(out, "{colon}{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(listens: &str) -> EncryptedService {
        let text = format!("{listens}[resolver]\ndiscovery-name = \"dns.example\"\n");
        let settings =
            config::read_text("test", text, std::path::Path::new("/")).expect("good").config.settings;
        settings.encrypted_service().expect("a service")
    }

    const NAME: &str = "03:64:6e:73:07:65:78:61:6d:70:6c:65:00";
    /// alpn=dot, port=853.
    const DOT: &str = "00:01:00:04:03:64:6f:74:00:03:00:02:03:55";

    #[test]
    fn options_have_priority_name_addresses_and_parameters() {
        let tls = "[[listen]]\naddr = [\"192.0.2.1@853\", \"[2001:db8::1]@853\"]\nproto = [\"tls\"]\n";
        let service = service(tls);
        assert_eq!(hex(&dhcpv4(&service)), format!("00:23:00:01:0d:{NAME}:04:c0:00:02:01:{DOT}"));
        let v6 = "20:01:0d:b8:00:00:00:00:00:00:00:00:00:00:00:01";
        let all = |options: Vec<Vec<u8>>| options.iter().map(|option| hex(option)).collect::<Vec<_>>();
        assert_eq!(all(dhcpv6(&service)), [format!("00:01:00:0d:{NAME}:00:10:{v6}:{DOT}")]);
        assert_eq!(
            all(router(&service)),
            [format!("90:08:00:01:00:00:07:08:00:0d:{NAME}:00:10:{v6}:00:0e:{DOT}:00:00:00:00:00:00:00")]
        );
    }

    #[test]
    fn without_addresses_an_option_has_the_name_alone() {
        let service = service("[[listen]]\naddr = [\"0.0.0.0@853\", \"0.0.0.0@443\"]\nproto = [\"tls\"]\n");
        assert_eq!(service.endpoints.len(), 2);
        assert_eq!(hex(&dhcpv4(&service)), format!("00:10:00:01:0d:{NAME}"));
        assert_eq!(
            dhcpv6(&service).iter().map(|o| hex(o)).collect::<Vec<_>>(),
            [format!("00:01:00:0d:{NAME}")]
        );
        let routers = router(&service);
        assert_eq!(
            (routers.len(), hex(&routers[0])),
            (1, format!("90:03:00:01:00:00:07:08:00:0d:{NAME}:00"))
        );
    }

    #[test]
    fn an_option_of_one_family_leaves_out_listeners_of_the_other() {
        let service = service(
            "[[listen]]\naddr = [\"[2001:db8::1]@853\"]\nproto = [\"tls\"]\n\
             [[listen]]\naddr = [\"192.0.2.1@853\"]\nproto = [\"quic\"]\n",
        );
        let doq = DOT.replace("64:6f:74", "64:6f:71");
        assert_eq!(hex(&dhcpv4(&service)), format!("00:23:00:01:0d:{NAME}:04:c0:00:02:01:{doq}"));
        assert_eq!(dhcpv6(&service).len(), 1);
        assert!(hex(&dhcpv6(&service)[0]).ends_with(DOT));
    }

    #[test]
    fn addresses_of_plain_listeners_are_compared_with_the_certificate() {
        let text = "[[listen]]\naddr = [\"192.0.2.1@53\", \"10.0.0.1@53\", \"127.0.0.1@53\", \"[::]@53\"]\n\
                    [[listen]]\naddr = [\"203.0.113.1@853\"]\nproto = [\"tls\"]\n";
        let settings =
            config::read_text("test", text.into(), std::path::Path::new("/")).expect("good").config.settings;
        let certificate = ServerCertificate::self_signed(&["192.0.2.1".into()]).expect("made");
        assert_eq!(
            resolvers(&settings, &[certificate.into()]),
            [
                json!({"address": "10.0.0.1", "certificate": false, "private": true}),
                json!({"address": "192.0.2.1", "certificate": true, "private": false}),
            ]
        );
    }
}
