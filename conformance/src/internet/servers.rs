//! The programs on the small Internet: authoritative servers, at several IPv4 and IPv6 addresses each, and
//! resolvers, all at port 53. The resolvers use their defaults, except for the trust anchor, the maximum
//! message size, and special-use names.

use super::sites::{Sites, addresses};
use crate::query::{Query, rtype};
use crate::servers::{Kind, METRICS_OFFSET, Server, nomen_zones};
use crate::zones::Zone;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The resolvers that are compared.
pub(crate) const RESOLVERS: [Kind; 4] = [Kind::Nomen, Kind::Bind, Kind::Unbound, Kind::Recursor];

/// Returns the address of a resolver.
pub(crate) fn resolver(kind: Kind) -> SocketAddr {
    let n = RESOLVERS.iter().position(|k| *k == kind).map_or(0, |at| at as u8 + 1);
    SocketAddr::from(([198, 18, 200, n], 53))
}

/// Starts the authoritative servers, and waits until they answer.
pub(crate) fn start_hosts(
    programs: &BTreeMap<Kind, PathBuf>,
    kinds: &[Kind],
    sites: &Sites,
    dir: &Path,
) -> Result<Vec<Server>, String> {
    let dir = dir.join("hosts");
    let mut servers = Vec::new();
    for &kind in kinds {
        let program = program(programs, kind)?;
        let listens = addresses(kind);
        let home = dir.join(kind.label());
        let text = host_config(kind, &listens, &sites.zones, &home);
        servers.push(Server::start_as(kind, program, listens[0], &text, &dir)?);
    }
    for server in &mut servers {
        server.wait_until_ready(&sites.zones)?;
    }
    Ok(servers)
}

/// Starts the resolvers with empty caches, and waits until they answer.
pub(crate) fn start_resolvers(
    programs: &BTreeMap<Kind, PathBuf>,
    sites: &Sites,
    dir: &Path,
) -> Result<Vec<Server>, String> {
    start_adapted(programs, sites, dir, |_, text, _| Ok(text))
}

/// Like [`start_resolvers`], with configurations that `adapt` changes, given the kind, the text and the
/// server's folder.
pub(crate) fn start_adapted(
    programs: &BTreeMap<Kind, PathBuf>,
    sites: &Sites,
    dir: &Path,
    adapt: impl Fn(Kind, String, &Path) -> Result<String, String>,
) -> Result<Vec<Server>, String> {
    let dir = dir.join("resolvers");
    let mut servers = Vec::new();
    for kind in RESOLVERS {
        let Some(program) = programs.get(&kind) else { continue };
        let address = resolver(kind);
        let home = dir.join(kind.label());
        fs::create_dir_all(&home).map_err(|e| format!("{}: {e}", home.display()))?;
        let text = adapt(kind, resolver_config(kind, address.ip(), sites, &home)?, &home)?;
        servers.push(Server::start_as(kind, program, address, &text, &dir)?);
    }
    for server in &mut servers {
        server.wait_until_forwarding(&probe(sites))?;
    }
    Ok(servers)
}

/// Returns a query for a name that no other query asks for.
pub(crate) fn probe(sites: &Sites) -> Query {
    Query { rd: true, ..Query::plain(sites.zones[0].name.child(b"is-it-there"), rtype::TXT) }
}

fn program(programs: &BTreeMap<Kind, PathBuf>, kind: Kind) -> Result<&Path, String> {
    let program = programs.get(&kind).map(PathBuf::as_path);
    program.ok_or_else(|| format!("the small Internet needs {}, which is left out", kind.label()))
}

fn host_config(kind: Kind, listens: &[SocketAddr], zones: &[Zone], home: &Path) -> String {
    let some = |form: fn(&IpAddr) -> String, between: &str, wanted: fn(&IpAddr) -> bool| {
        let each = listens.iter().map(SocketAddr::ip).filter(wanted);
        each.map(|ip| form(&ip)).collect::<Vec<_>>().join(between)
    };
    let all = |form, between: &str| some(form, between, |_| true);
    let mine = zones.iter().filter(|zone| zone.is_served_by(kind));
    let mut out;
    let home = home.display();
    match kind {
        Kind::Nsd => {
            out = format!(
                "server:\n{}\n port: 53\n username: \"\"\n chroot: \"\"\n zonesdir: \"{home}\"\n \
                 database: \"\"\n \
                 pidfile: \"{home}/pid\"\n xfrdfile: \"{home}/xfrd.state\"\n xfrdir: \"{home}\"\n \
                 zonelistfile: \"{home}/zone.list\"\n server-count: 1\n tcp-count: 200\n rrl-ratelimit: 0\n \
                 rrl-whitelist-ratelimit: 0\n zonefiles-check: no\n zonefiles-write: 0\n\
                 remote-control:\n control-enable: no\n",
                all(|ip| format!(" ip-address: {ip}"), "\n")
            );
            for zone in mine {
                let _ =
                    write!(out, "zone:\n name: \"{}\"\n zonefile: \"{}\"\n", zone.name, zone.full.display());
            }
        }
        Kind::Knot => {
            out = format!(
                "server:\n    listen: [{}]\n    rundir: \"{home}\"\n    udp-workers: 1\n    \
                 tcp-workers: 1\n    background-workers: 1\ncontrol:\n    listen: \"{home}/knot.sock\"\n\
                 log:\n  - target: stderr\n    any: warning\ndatabase:\n    storage: \"{home}\"\n\
                 template:\n  - id: default\n    storage: \"{home}\"\n    semantic-checks: soft\n    \
                 zonefile-sync: -1\n    zonefile-load: whole\n    journal-content: none\nzone:\n",
                all(|ip| format!("{ip}@53"), ", ")
            );
            for zone in mine {
                let _ = write!(out, "  - domain: \"{}\"\n    file: \"{}\"\n", zone.name, zone.full.display());
            }
        }
        Kind::Bind => {
            out = format!(
                "options {{\n directory \"{home}\"; pid-file \"{home}/pid\"; \
                 session-keyfile \"{home}/session.key\";\n managed-keys-directory \"{home}\"; \
                 lock-file none;\n listen-on {{ {} }}; listen-on-v6 {{ {} }};\n recursion no; \
                 allow-query {{ any; }}; notify no; dnssec-validation no; empty-zones-enable no;\n \
                 check-integrity no; check-names primary ignore;\n}};\ncontrols {{ }};\n",
                some(|ip| format!("{ip};"), " ", IpAddr::is_ipv4),
                some(|ip| format!("{ip};"), " ", IpAddr::is_ipv6)
            );
            for zone in mine {
                let _ = writeln!(
                    out,
                    "zone \"{}\" {{ type primary; file \"{}\"; }};",
                    zone.name,
                    zone.full.display()
                );
            }
        }
        _ => {
            out = format!(
                "[server]\nworkers = 1\n\n[[listen]]\naddr = [{}]\n",
                all(|ip| format!("\"{ip}@53\""), ", ")
            );
            out += &nomen_zones(zones, Path::new(&home.to_string()));
        }
    }
    out
}

/// Returns the configuration of nomen as a resolver at this address.
pub(crate) fn nomen_resolver(address: IpAddr, sites: &Sites) -> String {
    let root: Vec<_> = sites.root.iter().map(|at| format!("\"{at}\"")).collect();
    format!(
        "[server]\nworkers = 1\nmax-udp-size = 4096\n\n[[listen]]\naddr = [\"{address}@53\"]\n\n\
         [resolver]\nroot-servers = [{}]\ntrust-anchors = [\". DS {}\"]\n\
         special-names = false\ncache-file = \"none\"\n\n[metrics]\nlisten = \"{address}@{}\"\n\n\
         [[resolver.access]]\nfrom = [\"198.18.0.0/15\", \"127.0.0.0/8\"]\n",
        root.join(", "),
        sites.anchor,
        53 + METRICS_OFFSET
    )
}

fn resolver_config(kind: Kind, address: IpAddr, sites: &Sites, home: &Path) -> Result<String, String> {
    let anchor = &sites.anchor;
    let write = |name: &str, text: String| {
        let path = home.join(name);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    let hint =
        |at: &IpAddr| format!("a.root-servers.one. 3600 {} {at}\n", if at.is_ipv4() { "A" } else { "AAAA" });
    let hints: String = sites.root.iter().map(hint).collect();
    write("hints", format!(". 3600 NS a.root-servers.one.\n{hints}"))?;
    let at = home.display();
    Ok(match kind {
        Kind::Nomen => nomen_resolver(address, sites) + &nomen_zones(&[], home),
        Kind::Bind => {
            let mut words = anchor.splitn(4, ' ');
            let mut word = || words.next().unwrap_or_default().replace(' ', "");
            let (tag, algorithm, digest_type, digest) = (word(), word(), word(), word());
            format!(
                "options {{\n directory \"{at}\"; pid-file \"{at}/pid\"; \
                 session-keyfile \"{at}/session.key\";\n \
                 managed-keys-directory \"{at}\"; lock-file none;\n listen-on {{ {address}; }}; \
                 listen-on-v6 {{ none; }};\n recursion yes; allow-query {{ any; }}; \
                 allow-recursion {{ any; }}; \
                 allow-query-cache {{ any; }};\n dnssec-validation yes; empty-zones-enable no; \
                 minimal-responses yes; max-udp-size 4096;\n}};\ncontrols {{ }};\n\
                 trust-anchors {{ \".\" static-ds {tag} {algorithm} {digest_type} \"{digest}\"; }};\n\
                 zone \".\" {{ type hint; file \"{at}/hints\"; }};\n"
            )
        }
        Kind::Unbound => {
            let own_zones: String = ["localhost.", "test.", "invalid.", "onion.", "home.arpa."]
                .iter()
                .map(|name| format!(" local-zone: \"{name}\" nodefault\n"))
                .collect();
            format!(
                "server:\n interface: {address}\n access-control: 198.18.0.0/15 allow\n \
                 do-daemonize: no\n username: \"\"\n chroot: \"\"\n directory: \"{at}\"\n pidfile: \"\"\n \
                 use-syslog: no\n logfile: \"\"\n num-threads: 1\n module-config: \"validator iterator\"\n \
                 root-hints: \"{at}/hints\"\n trust-anchor: \". DS {anchor}\"\n unblock-lan-zones: yes\n\
                 {own_zones} max-udp-size: 4096\nremote-control:\n control-enable: no\n"
            )
        }
        Kind::Recursor => {
            write("anchor.lua", format!("clearTA(\".\")\naddTA(\".\", \"{anchor}\")\n"))?;
            format!(
                "local-address={address}\nquery-local-address=0.0.0.0,::\nallow-from=198.18.0.0/15\n\
                 hint-file={at}/hints\ndnssec=validate\n\
                 lua-config-file={at}/anchor.lua\nsocket-dir={at}\nwrite-pid=no\ndisable-syslog=yes\n\
                 quiet=yes\nloglevel=3\nthreads=1\npdns-distributes-queries=no\nsecurity-poll-suffix=\n\
                 export-etc-hosts=off\nserve-rfc1918=no\nudp-truncation-threshold=4096\n"
            )
        }
        other => return Err(format!("{} does not resolve", other.label())),
    })
}
