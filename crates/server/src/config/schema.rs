//! Every section and key of the configuration file: its type, its default and the words the reference page
//! prints. Adding a key here is all it takes for it to be read, checked, documented and shown by
//! `nomen check --defaults`. A key stands here only once the feature behind it exists.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use net::{XdpAttach, XdpCopy};
use wire::name::NameBuf;

use super::pattern::{FilePattern, PathPattern};
use super::raw::{At, Int, SectionDoc, Size, Time, section};
use super::units::{Endpoint, Identity, LogFormat, LogLevel, LogTarget, Nsid, Proto, QueryLog, Workers};

/// Port of the built-in configuration: high, so that no privilege is needed.
pub const BUILTIN_PORT: u16 = 5300;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

section! {
    /// The process as a whole.
    Server, "[server]" {
        /// User to become once the sockets are open: a name from `/etc/passwd` or a number.
        /// Needed when started as root; without it a root process stays root and warns.
        "user" user: Option<String> = None;
        /// Group to become: a name from `/etc/group` or a number. Unset: the user's own group.
        "group" group: Option<String> = None;
        /// Folder for what nomen keeps between its runs: images of zones and the secret key behind the hashes of
        /// names, `hash-key`; removing that file makes a new key, and new images. Only the user nomen runs as
        /// may have access. Made if it is missing. Unset: the folder of systemd's `StateDirectory`, else none.
        "state-dir" state_dir: Option<PathBuf> = None;
        /// Keep images of large zones in the state folder, so that a start does not have to read their text again.
        /// An image whose text, or a file it includes, has changed is not used, and neither is a damaged one.
        "images" images: bool = true;
        /// Least number of records of a zone for which an image is kept. `nomen zone compile` makes one of any zone
        /// it is given by name, and once there it is kept up.
        "image-min-records" image_min_records: Int<1, 4_294_967_295> = Int(100_000);
        /// Threads that answer queries; "auto" is one for each CPU the process may use.
        "workers" workers: Workers = Workers::Auto;
        /// Keep each worker on its own CPU.
        "pin-cpus" pin_cpus: bool = false;
        /// Name server identifier sent to clients that ask for it (RFC 5001). Unset: none is sent.
        "nsid" nsid: Option<Nsid> = None;
        /// Answer to `id.server CH TXT` and `hostname.bind CH TXT`: "hide" refuses, "auto" is the host's name.
        "id" id: Identity = Identity::Hide;
        /// Answer to `version.server CH TXT` and `version.bind CH TXT`: "hide" refuses, "auto" is the program
        /// and its version.
        "version" version: Identity = Identity::Auto;
        /// Largest UDP answer in bytes, and the size announced to clients (RFC 6891 §6.2.5). Larger answers
        /// are cut and fetched over TCP; values above 1232 risk fragments that networks drop.
        "max-udp-size" max_udp_size: Int<512, 4096> = Int(1232);
        /// Most CNAME and DNAME records followed for one answer.
        "max-chain" max_chain: Int<1, 64> = Int(16);
        /// Most TCP connections at a time, over all clients.
        "tcp-connections" tcp_connections: Int<1, 1_000_000> = Int(10_000);
        /// Most TCP connections of one client: an IPv4 address or an IPv6 /64.
        "tcp-connections-per-client" tcp_per_client: Int<1, 1_000_000> = Int(100);
        /// Time a new TCP connection may take until its first query is there.
        "tcp-first-timeout" tcp_first: Time<100, 600_000> = Time(secs(5));
        /// Time a TCP connection may stay without a query before it is closed (RFC 7766 §6.2.3). It shrinks
        /// as connections fill the second half of the limit.
        "tcp-idle-timeout" tcp_idle: Time<200, 3_600_000> = Time(secs(10));
        /// Time a client may take from the first to the last octet of one query over TCP.
        "tcp-message-timeout" tcp_message: Time<100, 600_000> = Time(secs(2));
        /// Time a client may take to read at least 4 KiB of what it was sent over TCP.
        "tcp-write-timeout" tcp_write: Time<100, 600_000> = Time(secs(5));
        /// Most queries of one TCP connection that wait for a later answer; further ones are not read until then.
        "tcp-pipeline" tcp_pipeline: Int<1, 1024> = Int(32);
        /// Unread answers of one TCP connection above which no more of its queries are read.
        "tcp-write-buffer" tcp_write_buffer: Size<4096, 16_777_216> = Size(131_072);
        /// Kernel receive and send buffer of each UDP socket. The kernel caps it at `net.core.rmem_max` and
        /// `net.core.wmem_max` unless nomen is started as root.
        "udp-buffer" udp_buffer: Size<4096, 1_073_741_824> = Size(4 << 20);
        /// How long queries that already arrived are answered after nomen was told to stop.
        "drain" drain: Time<0, 60_000> = Time(secs(2));
    }
}

section! {
    /// Addresses to answer on; one block for each set, any number of blocks. Without any block nomen
    /// listens on 127.0.0.1 and ::1 at port 5300. A change takes effect at the next start.
    Listen, "[[listen]]" {
        /// Addresses and ports, such as `0.0.0.0@53` or `[::]@53`.
        "addr" addr: Vec<At<Endpoint>> = builtin_addresses();
        /// Transports to open on each of them.
        "proto" proto: Vec<At<Proto>> = vec![At::default_value(Proto::Udp), At::default_value(Proto::Tcp)];
        /// Network interface, such as "eth0", whose UDP queries to these addresses are taken by AF_XDP before
        /// the kernel's network stack, and so past its firewall. Where the kernel, the driver or the rights do
        /// not allow it, nomen says so and answers through its sockets. Needs root at the start. Unset: no.
        /// [AF_XDP.md](AF_XDP.md) has the whole story.
        "xdp" xdp: Option<String> = None;
        /// Where AF_XDP picks its queries out: "driver" is the card's driver, "generic" the kernel's receive path,
        /// which works with any driver and saves less. "auto": in the driver if that can be had.
        "xdp-attach" xdp_attach: XdpAttach = XdpAttach::Auto;
        /// How packets get to nomen and back: "zero-copy" has the card use nomen's memory, "copy" has the kernel
        /// copy them. "auto": without a copy if the driver can.
        "xdp-copy" xdp_copy: XdpCopy = XdpCopy::Auto;
        /// Receive queues of the interface that AF_XDP takes, from the first one on, one thread each; the others'
        /// queries go through the sockets. Unset: all.
        "xdp-queues" xdp_queues: Option<Int<1, 1024>> = None;
    }
}

section! {
    /// A zone to serve, read from a master file (RFC 1035 §5).
    Zone, "[[zone]]" {
        /// Name of the zone, such as "example.com"; "." is the root zone.
        "name" name: NameBuf;
        /// Its master file. May be left out when a template names a pattern.
        "file" file: Option<PathBuf> = None;
        /// Template to take what is not said here from.
        "template" template: Option<String> = None;
    }
}

section! {
    /// What several zones have in common; X is the name zones refer to it by. With a `directory`, every file in
    /// it whose name fits `pattern` is a zone of its own, no `[[zone]]` needed.
    Template, "[template.X]" {
        /// Master file of the zones that name this template. `{zone}` stands for the zone's name (`root` for
        /// the root zone), `{1}`, `{2}` and `{3}` for its first characters, `{tld}` for its last label.
        "file" file: Option<PathPattern> = None;
        /// Folder to load zones from: new files become zones at a reload, zones whose file is gone go too.
        "directory" directory: Option<PathBuf> = None;
        /// File names that are zones within the directory; `{zone}` is where the zone's name stands.
        "pattern" pattern: FilePattern = FilePattern::default();
    }
}

section! {
    /// The local socket that `nomen ctl` talks to. Only the user nomen runs as, and root, may open it.
    Control, "[control]" {
        /// Whether there is a control socket.
        "enable" enable: bool = true;
        /// Path of the Unix socket. Unset: `/run/nomen/ctl.sock` for root or where that folder is writable,
        /// else `nomen/ctl.sock` in `$XDG_RUNTIME_DIR`, else a folder of one's own in the temporary directory.
        "socket" socket: Option<PathBuf> = None;
    }
}

section! {
    /// Figures for Prometheus over HTTP at `/metrics`. The section's presence turns it on.
    Metrics, "[metrics]" {
        /// Address to listen on. There is no access control: keep it on loopback or a management network.
        "listen" listen: Endpoint = Endpoint(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9153));
        /// Also count queries, and show the serial, for each zone. One time series per zone and figure.
        "per-zone" per_zone: bool = false;
    }
}

section! {
    /// What is logged, and where.
    Log, "[log]" {
        /// Form of a line.
        "format" format: LogFormat = LogFormat::Text;
        /// Least severe events that are logged.
        "level" level: LogLevel = LogLevel::Info;
        /// Where lines go: "stderr", "stdout" or a file that is appended to.
        "target" target: LogTarget = LogTarget::Stderr;
        /// Log queries: all, none, or a share of them. Queries never wait for the log: what it cannot take is
        /// counted and dropped.
        "queries" queries: QueryLog = QueryLog::Off;
    }
}

/// Every section in the order the reference page shows them.
pub fn all() -> Vec<SectionDoc> {
    vec![
        Server::describe(),
        Listen::describe(),
        Zone::describe(),
        Template::describe(),
        Control::describe(),
        Metrics::describe(),
        Log::describe(),
    ]
}

fn builtin_addresses() -> Vec<At<Endpoint>> {
    [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
        .map(|ip| At::default_value(Endpoint(SocketAddr::new(ip, BUILTIN_PORT))))
        .into()
}
