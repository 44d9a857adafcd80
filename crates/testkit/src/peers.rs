//! Resolvers of other projects: Unbound, BIND and PowerDNS Recursor. They run at fixed ports of 127.0.0.1,
//! for tests in a network namespace, and query the test's servers at port 53.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wire::{Header, NameBuf, Type};

/// Longest time from the start of a resolver to its first answer.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Kind of resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerKind {
    /// Unbound.
    Unbound,
    /// BIND.
    Bind,
    /// PowerDNS Recursor.
    Recursor,
}

/// The servers that a peer asks for the names of a domain.
#[derive(Clone, Debug)]
pub struct PeerRule {
    /// The domain.
    pub domain: NameBuf,
    /// Names of the servers, with their addresses.
    pub servers: Vec<(String, Vec<IpAddr>)>,
    /// Whether the servers are resolvers, asked with RD.
    pub forward: bool,
}

/// QNAME minimisation (RFC 9156) of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMinimisation {
    /// Off: the full name is sent.
    Off,
    /// On, with a fallback to the full name.
    Relaxed,
    /// On, without a fallback.
    Strict,
}

/// Configuration of a peer. Everything else keeps its default, apart from limits on queries, special-use
/// names, and files.
#[derive(Clone, Debug)]
pub struct PeerSetup {
    /// The rules.
    pub rules: Vec<PeerRule>,
    /// The DS of the root in presentation format, if the peers validate.
    pub anchor: Option<String>,
    /// QNAME minimisation.
    pub minimisation: PeerMinimisation,
    /// Whether upstream servers are queried over IPv6.
    pub ipv6: bool,
    /// Whether loopback addresses are queried.
    pub loopback: bool,
    /// Whether expired answers are served (RFC 8767).
    pub stale: bool,
}

/// A running peer; dropping it ends the process.
#[derive(Debug)]
pub struct PeerProcess {
    kind: PeerKind,
    child: Child,
}

impl PeerKind {
    /// All kinds.
    pub const ALL: [PeerKind; 3] = [PeerKind::Unbound, PeerKind::Bind, PeerKind::Recursor];

    /// Returns the name.
    pub fn label(self) -> &'static str {
        match self {
            PeerKind::Unbound => "Unbound",
            PeerKind::Bind => "BIND",
            PeerKind::Recursor => "Recursor",
        }
    }

    fn program_name(self) -> &'static str {
        match self {
            PeerKind::Unbound => "unbound",
            PeerKind::Bind => "named",
            PeerKind::Recursor => "pdns_recursor",
        }
    }

    /// Returns the path of the program: the newest version, which `scripts/peers` has put into the build
    /// folder, or else the installed one.
    pub fn program(self, build: &Path) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
        let folders = std::iter::once(build.join("peers/bin")).chain(usual);
        folders.map(|folder| folder.join(self.program_name())).find(|program| program.is_file())
    }

    /// Returns the address that it answers at.
    pub fn address(self) -> SocketAddr {
        let port = match self {
            PeerKind::Unbound => 5301,
            PeerKind::Bind => 5302,
            PeerKind::Recursor => 5303,
        };
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    fn arguments(self, program: &Path, setup: &PeerSetup) -> Vec<&'static str> {
        match self {
            PeerKind::Unbound => vec!["-d", "-p", "-c", "config"],
            PeerKind::Bind if setup.ipv6 => vec!["-g", "-n", "1", "-c", "config"],
            PeerKind::Bind => vec!["-4", "-g", "-n", "1", "-c", "config"],
            PeerKind::Recursor => {
                // Since 5.2, Recursor reads settings in this form only with a flag, which older versions
                // refuse.
                const OLD: &str = "--enable-old-settings";
                let help = Command::new(program).arg("--help").stdin(Stdio::null()).output();
                let knows = help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(OLD));
                ["--config-dir=.", "--daemon=no"].into_iter().chain(knows.then_some(OLD)).collect()
            }
        }
    }

    fn config(self, setup: &PeerSetup, at: &Path) -> String {
        match self {
            PeerKind::Unbound => unbound(setup, at, self.address().port()),
            PeerKind::Bind => bind(setup, at, self.address().port()),
            PeerKind::Recursor => recursor(setup, at, self.address().port()),
        }
    }
}

fn yes(wanted: bool) -> &'static str {
    if wanted { "yes" } else { "no" }
}

impl PeerSetup {
    fn hints(&self) -> String {
        let mut hints = String::new();
        let root = self.rules.iter().filter(|rule| rule.domain.as_name().is_root() && !rule.forward);
        for (name, addresses) in root.flat_map(|rule| &rule.servers) {
            let _ = writeln!(hints, ". 3600 NS {name}");
            for address in addresses {
                let rtype = if address.is_ipv4() { "A" } else { "AAAA" };
                let _ = writeln!(hints, "{name} 3600 {rtype} {address}");
            }
        }
        hints
    }

    /// Returns the rules for domains below the root, with the addresses of their servers.
    fn others(&self) -> impl Iterator<Item = (&PeerRule, Vec<IpAddr>)> {
        let others = self.rules.iter().filter(|rule| rule.forward || !rule.domain.as_name().is_root());
        others.map(|rule| (rule, rule.servers.iter().flat_map(|(_, addresses)| addresses.clone()).collect()))
    }
}

fn unbound(setup: &PeerSetup, at: &Path, port: u16) -> String {
    let folder = at.display();
    let minimisation = match setup.minimisation {
        PeerMinimisation::Off => "no",
        PeerMinimisation::Relaxed => "yes",
        PeerMinimisation::Strict => "yes\n qname-minimisation-strict: yes",
    };
    let mut out = format!(
        "server:\n interface: 127.0.0.1\n port: {port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n \
         directory: \"{folder}\"\n \
         pidfile: \"\"\n use-syslog: no\n logfile: \"\"\n num-threads: 1\n unblock-lan-zones: yes\n \
         insecure-lan-zones: yes\n \
         do-ip6: {}\n do-not-query-localhost: {}\n serve-expired: {}\n serve-expired-client-timeout: 1800\n \
         qname-minimisation: {minimisation}\n",
        yes(setup.ipv6),
        yes(!setup.loopback),
        yes(setup.stale),
    );
    for zone in ["localhost.", "test.", "invalid.", "onion.", "home.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa."] {
        let _ = writeln!(out, " local-zone: \"{zone}\" nodefault");
    }
    match &setup.anchor {
        Some(anchor) => {
            let _ = writeln!(out, " module-config: \"validator iterator\"\n trust-anchor: \". DS {anchor}\"");
        }
        None => out += " module-config: \"iterator\"\n",
    }
    if !setup.hints().is_empty() {
        let _ = writeln!(out, " root-hints: \"{folder}/hints\"");
    }
    out += "remote-control:\n control-enable: no\n";
    for (rule, addresses) in setup.others() {
        let kind = if rule.forward { "forward" } else { "stub" };
        let _ = writeln!(out, "{kind}-zone:\n name: \"{}\"", rule.domain);
        for address in addresses {
            let _ = writeln!(out, " {kind}-addr: {address}");
        }
    }
    out
}

fn bind(setup: &PeerSetup, at: &Path, port: u16) -> String {
    let folder = at.display();
    let minimisation = match setup.minimisation {
        PeerMinimisation::Off => "disabled",
        PeerMinimisation::Relaxed => "relaxed",
        PeerMinimisation::Strict => "strict",
    };
    let stale = match setup.stale {
        true => "stale-answer-enable yes; stale-cache-enable yes; stale-answer-client-timeout 0;",
        false => "",
    };
    let mut out = format!(
        "options {{\n directory \"{folder}\"; pid-file \"{folder}/pid\"; \
         session-keyfile \"{folder}/session.key\";\n \
         managed-keys-directory \"{folder}\"; listen-on port {port} {{ 127.0.0.1; }}; \
         listen-on-v6 {{ none; }};\n recursion yes; \
         allow-query {{ any; }}; allow-recursion {{ any; }}; allow-query-cache {{ any; }};\n \
         dnssec-validation {}; \
         empty-zones-enable no; qname-minimization {minimisation}; {stale}\n}};\ncontrols {{ }};\n",
        yes(setup.anchor.is_some()),
    );
    if let Some(anchor) = &setup.anchor {
        let words: Vec<&str> = anchor.split_whitespace().collect();
        if let [tag, algorithm, digest_type, digest @ ..] = &words[..] {
            let digest = digest.concat();
            let _ = writeln!(
                out,
                "trust-anchors {{ \".\" static-ds {tag} {algorithm} {digest_type} \"{digest}\"; }};"
            );
        }
    }
    if !setup.hints().is_empty() {
        let _ = writeln!(out, "zone \".\" {{ type hint; file \"{folder}/hints\"; }};");
    }
    for (rule, addresses) in setup.others() {
        let addresses: String = addresses.iter().map(|address| format!("{address}; ")).collect();
        let how = match rule.forward {
            true => format!("type forward; forward only; forwarders {{ {addresses}}};"),
            false => format!("type static-stub; server-addresses {{ {addresses}}};"),
        };
        let _ = writeln!(out, "zone \"{}\" {{ {how} }};", rule.domain);
    }
    out
}

fn recursor(setup: &PeerSetup, at: &Path, port: u16) -> String {
    let folder = at.display();
    let mut out = format!(
        "local-address=127.0.0.1\nlocal-port={port}\nquery-local-address=0.0.0.0{}\nallow-from=127.0.0.0/8\n\
         dnssec={}\nsocket-dir={folder}\nwrite-pid=no\ndisable-syslog=yes\nquiet=yes\nloglevel=3\nthreads=1\n\
         pdns-distributes-queries=no\n\
         security-poll-suffix=\nexport-etc-hosts=off\nserve-rfc1918=no\nudp-truncation-threshold=4096\n\
         lua-config-file={folder}/anchor.lua\ndont-query={}\nqname-minimization={}\n",
        if setup.ipv6 { ",::" } else { "" },
        if setup.anchor.is_some() { "validate" } else { "off" },
        if setup.loopback { "" } else { "127.0.0.0/8,::1/128" },
        yes(setup.minimisation != PeerMinimisation::Off),
    );
    if setup.stale {
        out += "serve-stale-extensions=1000\n";
    }
    if !setup.hints().is_empty() {
        let _ = writeln!(out, "hint-file={folder}/hints");
    }
    for forward in [false, true] {
        let key = if forward { "forward-zones-recurse" } else { "forward-zones" };
        let of = |(rule, addresses): (&PeerRule, Vec<IpAddr>)| {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            (rule.forward == forward).then(|| format!("{}={}", rule.domain, addresses.join(";")))
        };
        let rules: Vec<String> = setup.others().filter_map(of).collect();
        if !rules.is_empty() {
            let _ = writeln!(out, "{key}={}", rules.join(","));
        }
    }
    out
}

impl PeerProcess {
    /// Starts a peer with its files in `folder`.
    ///
    /// # Panics
    /// If it cannot be started: tests call this.
    pub fn start(kind: PeerKind, program: &Path, setup: &PeerSetup, folder: &Path) -> PeerProcess {
        let at = folder.join(kind.label());
        fs::create_dir_all(&at).expect("a folder");
        let write = |name: &str, text: String| fs::write(at.join(name), text).expect("written");
        write("hints", setup.hints());
        let anchor = setup.anchor.as_ref().map(|anchor| format!("addTA(\".\", \"{anchor}\")\n"));
        write("anchor.lua", format!("clearTA(\".\")\n{}", anchor.unwrap_or_default()));
        let file = if kind == PeerKind::Recursor { "recursor.conf" } else { "config" };
        write(file, kind.config(setup, &at));
        let log = fs::File::create(at.join("log")).expect("a file");
        let child = Command::new(program)
            .args(kind.arguments(program, setup))
            .current_dir(&at)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn();
        PeerProcess { kind, child: child.unwrap_or_else(|error| panic!("{}: {error}", program.display())) }
    }

    /// Returns its kind.
    pub fn kind(&self) -> PeerKind {
        self.kind
    }

    /// Waits until the peer answers.
    ///
    /// # Panics
    /// If it ends, or takes too long.
    pub fn wait(&mut self, folder: &Path) {
        let log = folder.join(self.kind.label()).join("log");
        let end = Instant::now() + START_TIMEOUT;
        // Without RD, it answers from its cache, or refuses.
        let address = self.kind.address();
        let probe = || ask_once(address, &NameBuf::ROOT, Type::NS, 1, NO_RD, Duration::from_secs(1));
        while probe().is_none() {
            let ended = self.child.try_wait().expect("a process");
            let is_late = Instant::now() > end;
            if ended.is_some() || is_late {
                let log = fs::read_to_string(&log).unwrap_or_default();
                panic!("{} does not answer ({ended:?}):\n{log}", self.kind.label());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// DO bit.
pub const DO: u16 = 1;
/// CD bit.
pub const CD: u16 = 2;
/// AD bit.
pub const AD: u16 = 4;
/// Clears RD.
pub const NO_RD: u16 = 8;

/// Sends one query with EDNS, and waits for a reply for at most `patience`.
///
/// # Panics
/// If there is no socket: tests call this.
pub fn ask_once(
    at: SocketAddr,
    name: &NameBuf,
    qtype: Type,
    class: u16,
    flags: u16,
    patience: Duration,
) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let id = socket.local_addr().map_or(1, |own| own.port());
    let mut header = Header::query(id);
    header.set_recursion_desired(flags & NO_RD == 0);
    header.set_checking_disabled(flags & CD != 0);
    header.set_authentic_data(flags & AD != 0);
    header.set_counts([1, 0, 0, 1]);
    let mut query = header.as_bytes().to_vec();
    query.extend(name.as_name().as_wire());
    query.extend(qtype.0.to_be_bytes());
    query.extend(class.to_be_bytes());
    query.extend([0, 0, 41, 0x10, 0, 0, 0, if flags & DO != 0 { 0x80 } else { 0 }, 0, 0, 0]);
    socket.connect(at).expect("a way there");
    socket.send(&query).ok()?;
    let end = Instant::now() + patience;
    let mut reply = [0; 65_535];
    loop {
        let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        socket.set_read_timeout(Some(left)).expect("a timeout");
        match socket.recv(&mut reply) {
            Ok(len) if reply[..len].get(..2) == Some(&id.to_be_bytes()[..]) => {
                return Some(reply[..len].to_vec());
            }
            // The port may not be open yet.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return None,
            _ => {}
        }
    }
}
