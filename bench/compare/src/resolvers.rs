//! Configurations of servers as caching resolvers: they forward everything to one upstream, or iterate from
//! the root server of the small Internet; they validate if there is a trust anchor. No local zones, one
//! worker. README.md explains every choice; authoritative servers are in `servers.rs`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::buffers::SOCKET_BUFFER;
use crate::failure::{Failure, Result};
use crate::namespaces;
use crate::redirect;
use crate::rules::{POLICY_ZONE, PolicySource};
use crate::servers::{self, Kind, Settings, Tuning};

/// Clients that resolvers answer beside their own machine: the namespaces on both ends of a pair (RFC 2544,
/// benchmarking).
const CLIENTS: &str = "198.18.0.0/30";

/// Configuration of a resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolving {
    /// The servers that it queries.
    pub(crate) source: Source,
    /// Size of the cache in bytes.
    pub(crate) cache: u64,
}

/// The servers that a resolver queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Forwards everything to this server.
    Upstream(SocketAddr),
    /// Iterates from this root server.
    Root(Ipv4Addr),
}

/// A trust anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The zone, with its final dot.
    pub(crate) zone: String,
    /// The DS record of its key: tag, algorithm, digest type and digest, separated by single spaces.
    pub(crate) ds: String,
}

/// Returns the folder in memory that a server needs: kresd for its cache, as its manual advises.
pub(crate) fn scratch(kind: Kind, settings: &Settings) -> Option<PathBuf> {
    let wanted = kind.program() == Kind::Kresd && settings.tuning == Tuning::Advised;
    wanted.then(|| PathBuf::from(format!("/dev/shm/nomen-compare-{}", settings.address.port())))
}

/// Writes the configuration and returns the arguments.
pub(crate) fn configure(kind: Kind, settings: &Settings, resolving: Resolving) -> Result<Vec<String>> {
    let folder = &settings.folder;
    let write = |name: &str, text: String| -> Result<String> {
        let path = folder.join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    if let Source::Root(root) = resolving.source {
        write("hints", format!(". 3600 NS {ROOT_SERVER}\n{ROOT_SERVER} 3600 A {root}\n"))?;
    }
    Ok(match (kind.program(), resolving.source) {
        (Kind::Nomen, _) => words(&["serve", "--config", &write("nomen.toml", nomen(settings, resolving))?]),
        (Kind::Bind, _) => {
            let file = write("named.conf", bind(settings, resolving))?;
            words(&["-f", "-4", "-n", "1", "-c", &file])
        }
        (Kind::Unbound, _) => words(&["-d", "-c", &write("unbound.conf", unbound(settings, resolving))?]),
        (Kind::Recursor, _) => {
            if let Some(Anchor { zone, ds }) = &settings.anchor {
                write("anchor.lua", format!("clearTA(\".\")\naddTA(\"{zone}\", \"{ds}\")\n"))?;
            }
            if let PolicySource::Zone(file) = &settings.policy {
                let file = file.display();
                write("rpz.lua", format!("rpzFile(\"{file}\", {{policyName=\"{POLICY_ZONE}\"}})\n"))?;
            }
            write("recursor.conf", recursor(settings, resolving))?;
            words(&[&format!("--config-dir={}", folder.display())])
        }
        (Kind::Dnsdist, Source::Upstream(upstream)) => {
            let file = write("dnsdist.conf", dnsdist(settings, upstream, resolving.cache))?;
            words(&["--supervised", "--disable-syslog", "-C", &file])
        }
        (Kind::Kresd, Source::Upstream(upstream)) => {
            let file = write("kresd.conf", kresd(settings, upstream, resolving.cache))?;
            words(&["-n", "-c", &file, &folder.display().to_string()])
        }
        _ => return Err(Failure::new(format!("{} is not asked to resolve this", kind.name()))),
    })
}

/// The name of the root server in the small Internet.
const ROOT_SERVER: &str = "a.root-servers.one.";

fn nomen(settings: &Settings, Resolving { source, cache }: Resolving) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let trust = settings.anchor.as_ref().map_or_else(
        || "validate = false".to_string(),
        |Anchor { zone, ds }| format!("trust-anchors = [\"{zone} DS {ds}\"]"),
    );
    let source = match source {
        Source::Upstream(upstream) => format!(
            "\n[[resolver.forward]]\ndomain = \".\"\nservers = [\"{}@{}\"]\n",
            upstream.ip(),
            upstream.port()
        ),
        Source::Root(root) => format!("root-servers = [\"{root}\"]\niterate-ipv6 = false\n"),
    };
    let front =
        if settings.xdp { format!("xdp = \"{}\"\n", namespaces::SERVER_INTERFACE) } else { String::new() };
    let state = match settings.policy.is_stored() {
        true => format!("state-dir = \"{folder}/state\"\n"),
        false => String::new(),
    };
    format!(
        "[server]\nworkers = 1\n{state}\n[[listen]]\naddr = [\"{ip}@{port}\"]\nproto = [\"udp\", \"tcp\"]\n\
         {front}\n\
         [control]\nsocket = \"{folder}/control.sock\"\n\n[resolver]\n{trust}\ncache-size = \"{}MiB\"\n\
         {source}\n[[resolver.access]]\nfrom = [\"loopback\", \"{CLIENTS}\"]\n{}",
        cache >> 20,
        nomen_policy(&settings.policy)
    )
}

/// Returns the sections of nomen's configuration about rules.
fn nomen_policy(policy: &PolicySource) -> String {
    let zone = |source: String| {
        format!(
            "\n[[zone]]\nname = \"{POLICY_ZONE}.\"\n{source}\n\n[[policy.zone]]\nname = \"{POLICY_ZONE}.\"\n"
        )
    };
    let list = |(number, file): (usize, &PathBuf)| {
        format!("\n[[policy.list]]\nname = \"list{number}\"\nfile = \"{}\"\n", file.display())
    };
    match policy {
        PolicySource::None => String::new(),
        PolicySource::Zone(file) => zone(format!("file = \"{}\"", file.display())),
        PolicySource::Lists(files) => files.iter().enumerate().map(list).collect(),
        PolicySource::Both { primary, list: file } => {
            zone(format!("primaries = [\"{}@{}\"]", primary.ip(), primary.port())) + &list((0, file))
        }
    }
}

fn bind(settings: &Settings, Resolving { source, cache }: Resolving) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let (own, after) = match source {
        Source::Upstream(upstream) => (
            format!(
                "forward only; forwarders {{ {} port {}; }}; qname-minimization off;",
                upstream.ip(),
                upstream.port()
            ),
            String::new(),
        ),
        Source::Root(_) => (
            "qname-minimization relaxed; edns-udp-size 1232;".to_string(),
            format!("server ::/0 {{ bogus yes; }};\nzone \".\" {{ type hint; file \"{folder}/hints\"; }};\n"),
        ),
    };
    let validation = if settings.anchor.is_some() { "yes" } else { "no" };
    let trust = settings.anchor.as_ref().map_or_else(String::new, |Anchor { zone, ds }| {
        let mut words = ds.splitn(4, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (tag, algorithm, digest_type, digest) = (next(), next(), next(), next().replace(' ', ""));
        format!("trust-anchors {{ \"{zone}\" static-ds {tag} {algorithm} {digest_type} \"{digest}\"; }};\n")
    });
    // Other servers do not look a name up before its rule applies.
    let (rules, zone) = match &settings.policy {
        PolicySource::Zone(file) => (
            format!(" response-policy {{ zone \"{POLICY_ZONE}\"; }} qname-wait-recurse no;"),
            format!(
                "zone \"{POLICY_ZONE}\" {{ type primary; file \"{}\"; allow-query {{ none; }}; }};\n",
                file.display()
            ),
        ),
        _ => (String::new(), String::new()),
    };
    let alike = servers::bind_alike();
    // Above `recursive-clients` (1000) BIND refuses; floods would measure that.
    format!(
        "options {{ directory \"{folder}\"; pid-file none; session-keyfile none; lock-file none; \
         listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; recursion yes; allow-query {{ any; }}; \
         allow-recursion {{ any; }}; {own} dnssec-validation {validation}; \
         empty-zones-enable no; max-cache-size {cache}; recursive-clients 100000; \
         notify no; zone-statistics none; tcp-clients 1000; tcp-listen-queue 1000;{alike}{rules} }};\n\
         controls {{ }};\n\
         logging {{ category default {{ null; }}; category queries {{ null; }}; }};\n{trust}{after}{zone}"
    )
}

fn unbound(settings: &Settings, Resolving { source, cache }: Resolving) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    // As its manual advises: the RRset cache twice as large as the message cache; one slab, as slabs separate
    // locks between threads and there is one thread; ports and queries per thread as for large servers built
    // with libevent.
    let (messages, rrsets) = (cache / 3, cache - cache / 3);
    let (module, zone) = match &settings.policy {
        PolicySource::Zone(file) => {
            ("respip ", format!("rpz:\n  name: \"{POLICY_ZONE}\"\n  zonefile: \"{}\"\n", file.display()))
        }
        _ => ("", String::new()),
    };
    let trust = settings.anchor.as_ref().map_or_else(
        || format!("module-config: \"{module}iterator\""),
        |Anchor { zone, ds }| {
            format!(
                "module-config: \"{module}validator iterator\"\n  trust-anchor: \"{zone} DS {ds}\"\n  \
                 aggressive-nsec: yes"
            )
        },
    );
    let (own, after) = match source {
        Source::Upstream(upstream) => (
            String::new(),
            format!("forward-zone:\n  name: \".\"\n  forward-addr: {}@{}\n", upstream.ip(), upstream.port()),
        ),
        Source::Root(_) => (
            format!(
                "  root-hints: \"{folder}/hints\"\n  qname-minimisation: yes\n  edns-buffer-size: 1232\n"
            ),
            String::new(),
        ),
    };
    format!(
        "server:\n  num-threads: 1\n  interface: {ip}@{port}\n  port: {port}\n  \
         access-control: {CLIENTS} allow\n  do-ip6: no\n  username: \"\"\n  \
         chroot: \"\"\n  directory: \"{folder}\"\n  pidfile: \"{folder}/unbound.pid\"\n  use-syslog: no\n  \
         verbosity: 0\n  do-daemonize: no\n  {trust}\n  so-reuseport: yes\n  \
         so-rcvbuf: {SOCKET_BUFFER}\n  so-sndbuf: {SOCKET_BUFFER}\n  outgoing-range: 8192\n  \
         num-queries-per-thread: 4096\n  msg-cache-size: {messages}\n  rrset-cache-size: {rrsets}\n  \
         msg-cache-slabs: 1\n  rrset-cache-slabs: 1\n  infra-cache-slabs: 1\n  key-cache-slabs: 1\n  \
         incoming-num-tcp: 1000\n  do-not-query-localhost: no\n  unblock-lan-zones: yes\n  \
         insecure-lan-zones: yes\n{own}remote-control:\n  control-enable: no\n{after}{zone}"
    )
}

fn recursor(settings: &Settings, Resolving { source, cache }: Resolving) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    // Its caches are limited by entries: half of the bytes for each of the two.
    let (packets, records) = (entries(cache / 2, PACKET_BYTES), entries(cache / 2, RECORD_BYTES));
    let rules = match settings.policy {
        PolicySource::Zone(_) => format!("lua-config-file={folder}/rpz.lua\n"),
        _ => String::new(),
    };
    let trust = if settings.anchor.is_some() {
        format!("dnssec=validate\nlua-config-file={folder}/anchor.lua")
    } else {
        "dnssec=off".to_string()
    };
    let source = match source {
        Source::Upstream(upstream) => format!("forward-zones-recurse=.={upstream}\nhint-file=no"),
        Source::Root(_) => {
            format!("hint-file={folder}/hints\nqname-minimization=yes\nedns-outgoing-bufsize=1232")
        }
    };
    format!(
        "local-address={ip}\nlocal-port={port}\nsocket-dir={folder}\ndaemon=no\nthreads=1\n\
         pdns-distributes-queries=no\nreuseport=yes\n{trust}\n{source}\n{rules}\
         dont-query=\nserve-rfc1918=no\nallow-from=127.0.0.0/8,{CLIENTS}\nmax-cache-entries={records}\n\
         max-packetcache-entries={packets}\nmax-mthreads=8192\nmax-tcp-clients=1000\nquiet=yes\nloglevel=3\n\
         disable-syslog=yes\nsecurity-poll-suffix=\nstatistics-interval=0\nversion-string=anonymous\n"
    )
}

fn dnsdist(settings: &Settings, upstream: SocketAddr, cache: u64) -> String {
    let batches = match settings.tuning {
        Tuning::Advised => format!("setUDPMultipleMessagesVectorSize({DNSDIST_BATCH})\n"),
        _ => String::new(),
    };
    let (front, queue) = match settings.xdp {
        true => (
            format!(
                "xsk = newXsk({{ifName='{}', NIC_queue_id=0, frameNums=65536, xskMapPath='{}'}})\n",
                namespaces::SERVER_INTERFACE,
                redirect::SOCKETS
            ),
            ", xskSocket=xsk",
        ),
        false => (String::new(), ""),
    };
    // Health checks are off, as the upstream is up. Shards at the default of 20: a thread that finds one
    // locked bypasses the cache.
    format!(
        "{front}{batches}setUDPSocketBufferSizes({SOCKET_BUFFER}, {SOCKET_BUFFER})\n\
         setLocal('{}', {{reusePort=true{queue}}})\nsetACL({{'127.0.0.0/8', '{CLIENTS}'}})\n\
         setSecurityPollSuffix('')\nnewServer({{address='{upstream}', sockets=4}}):setUp()\n\
         pc = newPacketCache({}, {{maxTTL=86400}})\n\
         getPool(''):setCache(pc)\n",
        settings.address,
        entries(cache, DNSDIST_BYTES)
    )
}

fn kresd(settings: &Settings, upstream: SocketAddr, cache: u64) -> String {
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let front = match settings.xdp {
        true => format!("net.listen('{}', {port}, {{ kind = 'xdp' }})\n", namespaces::SERVER_INTERFACE),
        false => String::new(),
    };
    let cache_folder = scratch(Kind::Kresd, settings).unwrap_or_else(|| settings.folder.join("cache"));
    let cache_folder = cache_folder.display();
    // Without trust anchors nothing is validated; the modules have background work of their own. NXDOMAIN
    // that was not validated is cached for the minimum TTL only, five seconds by default; everything here has
    // 3600.
    format!(
        "net.listen('{ip}', {port}, {{ kind = 'dns' }})\n\
         {front}cache.open({cache}, 'lmdb://{cache_folder}')\ncache.min_ttl(3600)\n\
         for _, name in ipairs({{'ta_update', 'ta_signal_query', 'ta_sentinel', 'priming', \
         'detect_time_skew', \
         'detect_time_jump'}}) do pcall(modules.unload, name) end\ntrust_anchors.remove('.')\n\
         policy.add(policy.all(policy.FORWARD('{}@{}')))\n",
        upstream.ip(),
        upstream.port()
    )
}

/// Batch size of dnsdist where it uses batches: the same as nomen's.
const DNSDIST_BATCH: usize = 64;

/// Size of a cache entry in bytes where a cache is limited by entries, measured with `cached-200k`.
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
    use crate::buffers::Buffers;
    use crate::servers::Role;

    fn settings(resolving: Resolving, anchor: Option<Anchor>) -> Settings {
        Settings {
            address: "127.0.0.1:5399".parse().unwrap(),
            cpu: 0,
            xdp: false,
            folder: PathBuf::from("/f"),
            keeps: false,
            response_size: 0,
            state: None,
            role: Role::Resolves(resolving),
            anchor,
            policy: PolicySource::None,
            tuning: Tuning::Alike,
            buffers: Buffers::default(),
        }
    }

    #[test]
    fn what_a_manual_advises_is_in_the_second_column_alone() {
        let upstream = "127.0.0.1:5398".parse().unwrap();
        let resolving = Resolving { source: Source::Upstream(upstream), cache: 64 << 20 };
        let first = settings(resolving, None);
        let second = Settings { tuning: Tuning::Advised, ..first.clone() };
        let texts = |settings: &Settings| [dnsdist, kresd].map(|write| write(settings, upstream, 64 << 20));
        let (first_texts, second_texts) = (texts(&first), texts(&second));
        for (number, words) in
            ["VectorSize(64)", "lmdb:///dev/shm/nomen-compare-5399"].into_iter().enumerate()
        {
            assert!(!first_texts[number].contains(words), "{}", first_texts[number]);
            assert!(second_texts[number].contains(words), "{}", second_texts[number]);
        }
        assert!(first_texts[1].contains("lmdb:///f/cache"), "{}", first_texts[1]);
        assert_eq!(scratch(Kind::Kresd, &first), None);
        assert_eq!(scratch(Kind::Dnsdist, &second), None);
        assert!(scratch(Kind::KresdAdvised, &second).is_some());
        assert!(bind(&first, resolving).contains("minimal-responses yes; udp-receive-buffer 4194304;"));
    }

    #[test]
    fn every_configuration_names_the_upstream_and_the_port() {
        let upstream = "127.0.0.1:5398".parse().unwrap();
        let resolving = Resolving { source: Source::Upstream(upstream), cache: 64 << 20 };
        let settings = settings(resolving, None);
        let mut texts = [nomen, bind, unbound, recursor].map(|write| write(&settings, resolving)).to_vec();
        texts.extend([dnsdist, kresd].map(|write| write(&settings, upstream, resolving.cache)));
        for text in texts {
            assert!(text.contains("5398") && text.contains("5399"), "{text}");
        }
        assert!(nomen(&settings, resolving).contains("\"64MiB\""));
    }

    #[test]
    fn behind_af_xdp_the_configuration_names_the_interface() {
        let upstream = "127.0.0.1:5398".parse().unwrap();
        let resolving = Resolving { source: Source::Upstream(upstream), cache: 1 << 20 };
        for xdp in [false, true] {
            let settings = Settings { xdp, ..settings(resolving, None) };
            let others = [kresd, dnsdist].map(|write| write(&settings, upstream, resolving.cache));
            let texts = [&[nomen(&settings, resolving)][..], &others].concat();
            assert!(texts.iter().all(|text| text.contains(namespaces::SERVER_INTERFACE) == xdp), "{texts:?}");
        }
    }

    #[test]
    fn who_has_an_anchor_validates_and_nobody_else() {
        let ds = "4711 13 2 AB CD".to_string();
        let anchor = Anchor { zone: "example.net.".to_string(), ds };
        let on = [
            "trust-anchors = [\"example.net. DS 4711",
            "dnssec-validation yes",
            "validator",
            "dnssec=validate",
        ];
        let off = ["validate = false", "dnssec-validation no", "\"iterator\"", "dnssec=off"];
        for source in
            [Source::Upstream("127.0.0.1:5398".parse().unwrap()), Source::Root([198, 18, 1, 1].into())]
        {
            let resolving = Resolving { source, cache: 1 << 20 };
            for (number, write) in [nomen, bind, unbound, recursor].into_iter().enumerate() {
                let with = write(&settings(resolving, Some(anchor.clone())), resolving);
                let without = write(&settings(resolving, None), resolving);
                assert!(with.contains(on[number]) && !with.contains(off[number]), "{with}");
                assert!(without.contains(off[number]) && !without.contains(on[number]), "{without}");
            }
        }
        let resolving = Resolving { source: Source::Root([198, 18, 1, 1].into()), cache: 1 << 20 };
        let text = bind(&settings(resolving, Some(anchor)), resolving);
        assert!(text.contains("static-ds 4711 13 2 \"ABCD\"") && text.contains("type hint"), "{text}");
    }

    #[test]
    fn who_cannot_resolve_from_the_root_says_so() {
        let resolving = Resolving { source: Source::Root([198, 18, 1, 1].into()), cache: 1 << 20 };
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { folder: folder.path().to_path_buf(), ..settings(resolving, None) };
        assert!(configure(Kind::Dnsdist, &settings, resolving).is_err());
        configure(Kind::Unbound, &settings, resolving).unwrap();
        let hints = fs::read_to_string(folder.path().join("hints")).unwrap();
        assert!(hints.contains("198.18.1.1"), "{hints}");
    }
    #[test]
    fn rules_come_from_where_each_server_has_them() {
        let upstream = "127.0.0.1:5398".parse().unwrap();
        let resolving = Resolving { source: Source::Upstream(upstream), cache: 64 << 20 };
        let without = settings(resolving, None);
        let zone = Settings { policy: PolicySource::Zone("/z".into()), ..without.clone() };
        for (write, words) in [
            (nomen as fn(&Settings, Resolving) -> String, "[[policy.zone]]\nname = \"rpz.test.\""),
            (unbound, "module-config: \"respip iterator\""),
            (unbound, "rpz:\n  name: \"rpz.test\"\n  zonefile: \"/z\""),
            (bind, "response-policy { zone \"rpz.test\"; } qname-wait-recurse no;"),
            (recursor, "lua-config-file=/f/rpz.lua"),
        ] {
            let (with, without) = (write(&zone, resolving), write(&without, resolving));
            assert!(with.contains(words) && !without.contains(words), "{words}: {with}");
        }
        let lists = |count: usize| PolicySource::Lists(vec!["/l".into(); count]);
        for (policy, is_stored) in [(lists(1), false), (lists(2), true)] {
            let text = nomen(&Settings { policy, ..without.clone() }, resolving);
            assert!(text.contains("[[policy.list]]\nname = \"list0\"\nfile = \"/l\""), "{text}");
            assert_eq!(text.contains("state-dir"), is_stored, "{text}");
        }
        let primary = "127.0.0.1:53".parse().unwrap();
        let text = nomen_policy(&PolicySource::Both { primary, list: "/l".into() });
        assert!(text.contains("primaries = [\"127.0.0.1@53\"]") && text.contains("list0"), "{text}");
    }
}
