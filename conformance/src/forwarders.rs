//! Configurations of servers that forward everything to one upstream server and cache its answers: no
//! validation, no local names, no synthesized answers, and otherwise as similar as they allow. The maximum
//! TTL is one week, longer than any TTL of the zones, as the defaults differ.

use crate::servers::Kind;
use std::net::SocketAddr;
use std::path::Path;

/// Returns the configuration of `kind` on `port`, forwarding to `upstream`; `None` if it does not forward.
pub(crate) fn config(kind: Kind, port: u16, upstream: SocketAddr, home: &Path) -> Option<String> {
    match kind {
        Kind::Nomen => Some(nomen(port, upstream, home)),
        Kind::Bind => Some(bind(port, upstream, home)),
        Kind::Unbound => Some(unbound(port, upstream, home)),
        Kind::Recursor => Some(recursor(port, upstream, home)),
        Kind::Dnsdist => Some(dnsdist(port, upstream)),
        Kind::Nsd | Kind::Knot => None,
    }
}

fn nomen(port: u16, upstream: SocketAddr, home: &Path) -> String {
    // In a large cache two names rarely share a bucket; its memory is only used when written to.
    format!(
        "[server]\nworkers = 1\n\n[[listen]]\naddr = [\"127.0.0.1@{port}\"]\n\n\
         [resolver]\nvalidate = false\nspecial-names = false\nnxdomain-cut = false\ncache-file = \"none\"\n\
         cache-size = \"4GiB\"\nmax-ttl = \"7d\"\nmax-negative-ttl = \"7d\"\n\
         records-per-set = 10000\n\n\
         [[resolver.forward]]\ndomain = \".\"\nservers = [\"{}@{}\"]\n\n\
         [control]\nsocket = \"{}\"\n",
        upstream.ip(),
        upstream.port(),
        home.join("control.sock").display()
    )
}

fn bind(port: u16, upstream: SocketAddr, home: &Path) -> String {
    format!(
        "options {{\n directory \"{home}\"; pid-file \"{home}/pid\"; \
         session-keyfile \"{home}/session.key\";\n managed-keys-directory \"{home}\"; lock-file none;\n \
         listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n \
         recursion yes; allow-query {{ any; }}; allow-recursion {{ any; }}; allow-query-cache {{ any; }};\n \
         forward only; forwarders {{ {} port {}; }};\n \
         dnssec-validation no; synth-from-dnssec no; empty-zones-enable no; minimal-responses yes;\n \
         qname-minimization off; edns-udp-size 1232; max-udp-size 1232; answer-cookie no; send-cookie no;\n \
         rrset-order {{ order none; }}; recursive-clients 2000; clients-per-query 0; fetches-per-server 0;\n \
         servfail-ttl 0; max-cache-ttl 604800; max-ncache-ttl 604800; max-records-per-type 0; \
         max-types-per-name 0;\n}};\ncontrols {{ }};\n",
        upstream.ip(),
        upstream.port(),
        home = home.display()
    )
}

fn unbound(port: u16, upstream: SocketAddr, home: &Path) -> String {
    let own_zones: String = ["localhost.", "test.", "invalid.", "onion.", "home.arpa."]
        .iter()
        .map(|name| format!(" local-zone: \"{name}\" nodefault\n"))
        .collect();
    // With loopback as source address, stray queries do not leave the machine.
    format!(
        "server:\n interface: 127.0.0.1@{port}\n access-control: 127.0.0.0/8 allow\n do-ip6: no\n \
         outgoing-interface: 127.0.0.1\n do-not-query-localhost: no\n do-daemonize: no\n username: \"\"\n \
         chroot: \"\"\n \
         directory: \"{home}\"\n pidfile: \"\"\n use-syslog: no\n logfile: \"\"\n num-threads: 1\n \
         module-config: \"iterator\"\n qname-minimisation: no\n unblock-lan-zones: yes\n{own_zones} \
         harden-below-nxdomain: no\n rrset-roundrobin: no\n edns-buffer-size: 1232\n max-udp-size: 1232\n \
         num-queries-per-thread: 2000\n outgoing-range: 4000\n incoming-num-tcp: 100\n \
         outgoing-num-tcp: 100\n cache-max-ttl: 604800\n cache-max-negative-ttl: 604800\n\
         remote-control:\n control-enable: no\n\
         forward-zone:\n name: \".\"\n forward-addr: {}@{}\n",
        upstream.ip(),
        upstream.port(),
        home = home.display()
    )
}

fn recursor(port: u16, upstream: SocketAddr, home: &Path) -> String {
    format!(
        "local-address=127.0.0.1\nlocal-port={port}\nallow-from=127.0.0.0/8\ndont-query=\n\
         query-local-address=127.0.0.1\nforward-zones-recurse=.={upstream}\nsocket-dir={home}\nwrite-pid=no\n\
         disable-syslog=yes\nquiet=yes\nloglevel=3\nthreads=1\npdns-distributes-queries=no\n\
         security-poll-suffix=\n\
         export-etc-hosts=off\nserve-rfc1918=no\ndnssec=process-no-validate\naggressive-nsec-cache-size=0\n\
         nothing-below-nxdomain=no\nroot-nx-trust=no\nqname-minimization=no\nminimum-ttl-override=0\n\
         edns-outgoing-bufsize=1232\nudp-truncation-threshold=1232\nserver-down-max-fails=0\n\
         non-resolving-ns-max-fails=0\nmax-cache-ttl=604800\nmax-negative-ttl=604800\nspoof-nearmiss-max=0\n\
         max-tcp-clients=200\n",
        home = home.display()
    )
}

fn dnsdist(port: u16, upstream: SocketAddr) -> String {
    format!(
        "setLocal(\"127.0.0.1:{port}\")\nsetACL(\"127.0.0.0/8\")\nsetSecurityPollSuffix(\"\")\n\
         newServer({{address=\"{upstream}\"}}):setUp()\n\
         getPool(\"\"):setCache(newPacketCache(100000, {{maxTTL=604800, minTTL=0}}))\n"
    )
}
