//! How each server is configured as a forwarder with a cache: everything goes to one upstream, nothing is validated,
//! no zones of its own, one worker. Every choice is explained in README.md; what servers are otherwise is in
//! `servers.rs`.

use std::fs;

use crate::failure::{Failure, Result};
use crate::servers::{Forwarding, Kind, Settings};

/// Bytes of socket buffer, each way: what nomen asks for by itself.
const SOCKET_BUFFER: u64 = 4 << 20;

/// Writes the configuration and returns the arguments.
pub(crate) fn configure(kind: Kind, settings: &Settings, forwarding: Forwarding) -> Result<Vec<String>> {
    let folder = &settings.folder;
    let write = |name: &str, text: String| -> Result<String> {
        let path = folder.join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    Ok(match kind {
        Kind::Nomen => words(&["serve", "--config", &write("nomen.toml", nomen(settings, forwarding))?]),
        Kind::Bind => {
            let file = write("named.conf", bind(settings, forwarding))?;
            words(&["-f", "-4", "-n", "1", "-c", &file])
        }
        Kind::Unbound => words(&["-d", "-c", &write("unbound.conf", unbound(settings, forwarding))?]),
        Kind::Recursor => {
            write("recursor.conf", recursor(settings, forwarding))?;
            words(&[&format!("--config-dir={}", folder.display())])
        }
        Kind::Dnsdist => {
            let file = write("dnsdist.conf", dnsdist(settings, forwarding))?;
            words(&["--supervised", "--disable-syslog", "-C", &file])
        }
        Kind::Kresd => {
            let file = write("kresd.conf", kresd(settings, forwarding))?;
            words(&["-n", "-c", &file, &folder.display().to_string()])
        }
        Kind::Nsd | Kind::Knot | Kind::Pdns | Kind::Reflector => {
            return Err(Failure::new(format!("{} does not forward", kind.name())));
        }
    })
}

fn nomen(settings: &Settings, forwarding: Forwarding) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let Forwarding { upstream, cache } = forwarding;
    format!(
        "[server]\nworkers = 1\n\n[[listen]]\naddr = [\"{ip}@{port}\"]\nproto = [\"udp\", \"tcp\"]\n\n\
         [control]\nsocket = \"{folder}/control.sock\"\n\n[resolver]\nvalidate = false\n\
         cache-size = \"{}MiB\"\n\n\
         [[resolver.forward]]\ndomain = \".\"\nservers = [\"{}@{}\"]\n",
        cache >> 20,
        upstream.ip(),
        upstream.port()
    )
}

fn bind(settings: &Settings, forwarding: Forwarding) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let Forwarding { upstream, cache } = forwarding;
    // Beyond `recursive-clients` (1000) BIND refuses; floods would measure that.
    format!(
        "options {{ directory \"{folder}\"; pid-file none; session-keyfile none; lock-file none; \
         listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; recursion yes; allow-query {{ any; }}; \
         allow-recursion {{ any; }}; forward only; forwarders {{ {} port {}; }}; dnssec-validation no; \
         empty-zones-enable no; max-cache-size {cache}; recursive-clients 100000; qname-minimization off; \
         notify no; zone-statistics none; tcp-clients 1000; tcp-listen-queue 1000; }};\ncontrols {{ }};\n\
         logging {{ category default {{ null; }}; category queries {{ null; }}; }};\n",
        upstream.ip(),
        upstream.port()
    )
}

fn unbound(settings: &Settings, forwarding: Forwarding) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let Forwarding { upstream, cache } = forwarding;
    // Its manual: the RRset cache twice as large as that of messages. Slabs part locks between threads: one thread,
    // one slab. Ports and queries a thread as its manual raises them for large servers built with libevent.
    let (messages, rrsets) = (cache / 3, cache - cache / 3);
    format!(
        "server:\n  num-threads: 1\n  interface: {ip}@{port}\n  port: {port}\n  do-ip6: no\n  username: \"\"\n  \
         chroot: \"\"\n  directory: \"{folder}\"\n  pidfile: \"{folder}/unbound.pid\"\n  use-syslog: no\n  \
         verbosity: 0\n  do-daemonize: no\n  module-config: \"iterator\"\n  so-reuseport: yes\n  \
         so-rcvbuf: {SOCKET_BUFFER}\n  so-sndbuf: {SOCKET_BUFFER}\n  outgoing-range: 8192\n  \
         num-queries-per-thread: 4096\n  msg-cache-size: {messages}\n  rrset-cache-size: {rrsets}\n  \
         msg-cache-slabs: 1\n  rrset-cache-slabs: 1\n  infra-cache-slabs: 1\n  key-cache-slabs: 1\n  \
         incoming-num-tcp: 1000\n  do-not-query-localhost: no\n  unblock-lan-zones: yes\n  \
         insecure-lan-zones: yes\nremote-control:\n  control-enable: no\nforward-zone:\n  name: \".\"\n  \
         forward-addr: {}@{}\n",
        upstream.ip(),
        upstream.port()
    )
}

fn recursor(settings: &Settings, forwarding: Forwarding) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let Forwarding { upstream, cache } = forwarding;
    // Its caches are bounded by entries: half of the bytes for each of the two.
    let (packets, records) = (entries(cache / 2, PACKET_BYTES), entries(cache / 2, RECORD_BYTES));
    format!(
        "local-address={ip}\nlocal-port={port}\nsocket-dir={folder}\ndaemon=no\nthreads=1\n\
         pdns-distributes-queries=no\nreuseport=yes\ndnssec=off\nforward-zones-recurse=.={upstream}\n\
         dont-query=\nhint-file=no\nserve-rfc1918=no\nallow-from=127.0.0.0/8\nmax-cache-entries={records}\n\
         max-packetcache-entries={packets}\nmax-mthreads=8192\nmax-tcp-clients=1000\nquiet=yes\nloglevel=3\n\
         disable-syslog=yes\nsecurity-poll-suffix=\nstatistics-interval=0\nversion-string=anonymous\n"
    )
}

fn dnsdist(settings: &Settings, forwarding: Forwarding) -> String {
    let Forwarding { upstream, cache } = forwarding;
    // Health checks off: the upstream is up. Shards at the default of 20: where a thread finds one locked, it passes
    // the cache by.
    format!(
        "setLocal('{}', {{reusePort=true}})\nsetACL('127.0.0.0/8')\nsetSecurityPollSuffix('')\n\
         newServer({{address='{upstream}', sockets=4}}):setUp()\n\
         pc = newPacketCache({}, {{maxTTL=86400}})\n\
         getPool(''):setCache(pc)\n",
        settings.address,
        entries(cache, DNSDIST_BYTES)
    )
}

fn kresd(settings: &Settings, forwarding: Forwarding) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let Forwarding { upstream, cache } = forwarding;
    // Without trust anchors nothing is validated; the modules do work of their own in the background. NXDOMAIN that
    // was not validated is kept for the least TTL only, five seconds by default; everything here has 3600.
    format!(
        "net.listen('{ip}', {port}, {{ kind = 'dns' }})\ncache.open({cache}, 'lmdb://{folder}/cache')\n\
         cache.min_ttl(3600)\n\
         for _, name in ipairs({{'ta_update', 'ta_signal_query', 'ta_sentinel', 'priming', 'detect_time_skew', \
         'detect_time_jump'}}) do pcall(modules.unload, name) end\ntrust_anchors.remove('.')\n\
         policy.add(policy.all(policy.FORWARD('{}@{}')))\n",
        upstream.ip(),
        upstream.port()
    )
}

/// Bytes that an entry takes where a cache is bounded by entries, measured by `cached-200k`.
const PACKET_BYTES: u64 = 512;
const RECORD_BYTES: u64 = 512;
const DNSDIST_BYTES: u64 = 336;

fn entries(bytes: u64, entry: u64) -> u64 {
    (bytes / entry).max(1000)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::servers::Role;

    #[test]
    fn every_configuration_names_the_upstream_and_the_port() {
        let forwarding = Forwarding { upstream: "127.0.0.1:5398".parse().unwrap(), cache: 64 << 20 };
        let settings = Settings {
            address: "127.0.0.1:5399".parse().unwrap(),
            cpu: 0,
            xdp: false,
            folder: PathBuf::from("/f"),
            response_size: 0,
            state: None,
            role: Role::Forwards(forwarding),
        };
        for write in [nomen, bind, unbound, recursor, dnsdist, kresd] {
            let text = write(&settings, forwarding);
            assert!(text.contains("5398") && text.contains("5399"), "{text}");
        }
        assert!(nomen(&settings, forwarding).contains("\"64MiB\""));
    }
}
