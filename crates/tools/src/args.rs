//! Arguments and options of each tool, for clap. `nomen` joins them into one command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use config::addresses::ServerAddress;
use config::api::{ApiRight, Expiry, TokenName, ZonePattern};
use config::table::value::Word;
use config::upstreams::UpstreamServer;

use crate::key_args::{CtlKey, ZoneSignArgs};

const DIFF_HELP: &str = "\
A line begins with `-` for a record that only A has and with `+` for one that only B has, in canonical order.

@served is the version that the running server serves. @stored is the version in the state folder, after \
updates or
from its primaries; no server may run. A file with such a name is written ./@served.

Exit status:
  0  the versions are equal
  1  they differ
  2  the command line was wrong
  3  a version could not be read";

/// `nomen check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file.
    #[arg(value_name = "FILE", default_value = "nomen.toml")]
    pub file: PathBuf,
    /// Print every default as TOML instead.
    #[arg(long, conflicts_with = "print_reference")]
    pub defaults: bool,
    /// Print the reference page of all keys as Markdown instead.
    #[arg(long)]
    pub print_reference: bool,
    /// Check only the configuration, without loading zones.
    #[arg(long)]
    pub no_zones: bool,
    /// Also check what a start requires of this system: the user, the addresses, the folders of log and
    /// state.
    #[arg(long)]
    pub system: bool,
    /// Also check DNSSEC consistency of each zone.
    #[arg(long)]
    pub dnssec: bool,
    /// Most faults shown for one zone.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub errors: usize,
    /// Least severe fault that makes the exit status 1.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
}

/// `nomen token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Its name, for log lines and the audit file.
    #[arg(value_name = "NAME")]
    pub name: TokenName,
    /// What it may do: read, change, manage, policy, server or all.
    #[arg(long, value_name = "RIGHT", default_value = "read", value_parser = right)]
    pub right: ApiRight,
    /// A zone that the right is limited to, or `*.NAME` for those below a name; may be given several times.
    #[arg(long, value_name = "ZONE")]
    pub zone: Vec<ZonePattern>,
    /// The date from which on it is refused, such as 2030-01-01.
    #[arg(long, value_name = "DATE")]
    pub expires: Option<Expiry>,
}

/// Parses the word of a right.
fn right(text: &str) -> Result<ApiRight, String> {
    let found = ApiRight::WORDS.iter().find(|(word, _)| *word == text).map(|(_, right)| *right);
    let words = || ApiRight::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("not one of {}", words()))
}

/// `nomen migrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Included files are read as well. No file is written, except those of --lists.\n\n\
Exit status 1: a statement has no counterpart, or the file is not such a configuration.")]
pub struct MigrateArgs {
    /// named.conf, nsd.conf, knot.conf, unbound.conf, pdns.conf, recursor.conf, AdGuardHome.yaml, pihole.toml
    /// or setupVars.conf.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Program that the configuration is of. Default: detected from the file.
    #[arg(long, value_name = "PROGRAM", value_enum)]
    pub from: Option<MigrateFrom>,
    /// Also report the translated statements, and those that nomen does not need.
    #[arg(long)]
    pub all: bool,
    /// Folder to write the block lists to that the configuration names. No file is replaced.
    #[arg(long, value_name = "FOLDER")]
    pub lists: Option<PathBuf>,
    /// Print configuration, report and block lists as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Whose configuration is migrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MigrateFrom {
    /// AdGuard Home.
    Adguard,
    /// BIND.
    Bind,
    /// dnsdist.
    Dnsdist,
    /// NSD.
    Nsd,
    /// Knot DNS.
    Knot,
    /// PowerDNS, the Authoritative Server or the Recursor.
    Pdns,
    /// Pi-hole.
    Pihole,
    /// Unbound.
    Unbound,
}

/// What makes the exit status of a check 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A warning or worse.
    Warning,
    /// An error, also one with which the zone is still served.
    Error,
    /// A zone that would be refused: the server keeps its last good version or answers with SERVFAIL.
    Refused,
}

/// `nomen zone`.
#[derive(Debug, Subcommand)]
pub enum ZoneVerb {
    /// Check one zone file.
    Check(ZoneCheckArgs),
    /// Print a zone in canonical order, one record a line.
    Dump(ZoneDumpArgs),
    /// Print the differences between two versions of a zone.
    #[command(after_help = DIFF_HELP)]
    Diff(ZoneDiffArgs),
    /// Print a zone with its digest (ZONEMD) added or replaced.
    Digest(ZoneDigestArgs),
    /// Sign a zone, and print it.
    Sign(ZoneSignArgs),
    /// Write images of zones, which a server loads without parsing.
    ///
    /// A server with `images` on writes them itself; this command writes them beforehand, whether a server
    /// runs or not, into the state folder of the configuration.
    Compile(ZoneCompileArgs),
}

/// `nomen zone check`.
#[derive(Debug, Args)]
pub struct ZoneCheckArgs {
    /// Name of the zone.
    pub origin: String,
    /// Its master file.
    pub file: PathBuf,
    /// Also check DNSSEC consistency.
    #[arg(long)]
    pub dnssec: bool,
    /// Require a correct digest of the zone (ZONEMD). A wrong one is always an error.
    #[arg(long)]
    pub zonemd: bool,
    /// Time at which signatures are checked, in seconds since 1970. Default: now.
    #[arg(long, value_name = "SECONDS", requires = "dnssec")]
    pub at: Option<u32>,
    /// Most faults shown.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub errors: usize,
    /// Least severe fault that makes the exit status 1.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `nomen zone dump`.
#[derive(Debug, Args)]
pub struct ZoneDumpArgs {
    /// Name of the zone.
    pub origin: String,
    /// Its master file.
    pub file: PathBuf,
}

/// `nomen zone diff`.
#[derive(Debug, Args)]
pub struct ZoneDiffArgs {
    /// Name of the zone.
    pub origin: String,
    /// The old version: a master file, @served or @stored.
    #[arg(value_name = "A")]
    pub before: String,
    /// The new version: a master file, @served or @stored.
    #[arg(value_name = "B")]
    pub after: String,
    /// Ignore differences in the serial number of the SOA.
    #[arg(long)]
    pub ignore_serial: bool,
    /// Ignore records that signers generate: RRSIG, NSEC, NSEC3 and NSEC3PARAM.
    #[arg(long)]
    pub ignore_dnssec: bool,
    /// Print the difference as JSON.
    #[arg(long)]
    pub json: bool,
    /// Control socket of the server for @served. Default: the default of `socket` in [control].
    #[arg(short, long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Configuration file with the path of the control socket and, for @stored, the state folder.
    #[arg(short, long, value_name = "FILE", conflicts_with = "socket")]
    pub config: Option<PathBuf>,
    /// Seconds to wait for the server.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub timeout: u64,
}

/// `nomen zone digest`.
#[derive(Debug, Args)]
pub struct ZoneDigestArgs {
    /// Name of the zone.
    pub origin: String,
    /// Its master file.
    pub file: PathBuf,
    /// Hash algorithm of the digest; may be given twice.
    #[arg(long, value_name = "HASH", value_enum, default_values = ["sha384"])]
    pub hash: Vec<DigestHash>,
}

/// The hash of a digest (RFC 8976 §2.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DigestHash {
    /// SHA-384, which every verifier supports.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// `nomen zone compile`.
#[derive(Debug, Args)]
pub struct ZoneCompileArgs {
    /// Configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "nomen.toml")]
    pub config: PathBuf,
    /// Zones of the configuration. Default: all with at least `image-min-records` records.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

/// `nomen query`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    after_help = "Words may come in any order, as with dig: NAME, TYPE, CLASS, @SERVER, +OPTION. A second \
        NAME is a second\n\
query: words before the first NAME apply to all queries, words after a NAME to its query.\n\n\
Options, as in dig; unambiguous first letters suffice, and `no` in front turns most of them off:\n  \
+short +json +yaml: format of the output   +qr: show the query   +cmd: show the command line\n  \
+all +comments +question +answer +authority +additional +stats: parts of the output\n  \
+multiline +noclass +nottlid +ttlunits +nocrypto +split=N +rrcomments +unknownformat +expandaaaa: format of \
records\n  \
+identify: with +short, the server that sent each record\n  \
+dnssec +norec +cd +ad +aaflag +raflag +tcflag +zflag +opcode=N +qid=N +header-only: header of the query\n  \
+edns=N +noedns +ednsflags=N +ednsopt=CODE:HEX +bufsize=N +padding=N +keepalive +nsid +cookie +expire \
+zoneversion +subnet=NET\n  \
+tcp +ignore (keep a truncated answer) +time=SECONDS (or +timeout) +tries=N +retry=N\n  \
+nofail: ask the next server if one answers SERVFAIL\n  \
+search +domain=NAME +ndots=N: complete a name that has fewer dots, by the list of /etc/resolv.conf or by \
NAME\n  \
+trace (walk from the root servers down) +chase (validate): as --trace and --chase\n\n\
SERVER is an address or a name, which is looked up in /etc/hosts and then with the servers of \
/etc/resolv.conf.\n\
A port is written @SERVER -p PORT, @SERVER#PORT or @SERVER@PORT. Without @SERVER the servers of \
/etc/resolv.conf are asked, one\n\
after the other; if there are none, 127.0.0.1, with -6 ::1.\n\n\
AXFR and IXFR=SERIAL ask for a transfer, over TCP."
)]
pub struct QueryArgs {
    /// NAME, TYPE, CLASS, @SERVER and +OPTIONs.
    #[arg(required_unless_present_any = ["reverse", "file", "name", "dig"], value_name = "WORD")]
    pub words: Vec<String>,
    /// Use the exit status of dig, for scripts: 0 for any response, 1 for a wrong command line, 8 for an
    /// unreadable file of queries, 9 without a response, 10 for other failures. A link to nomen with the name
    /// `dig` runs `nomen query --dig`.
    #[arg(long)]
    pub dig: bool,
    /// Read queries from a file, one or more a line; `-` is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "reverse")]
    pub file: Option<PathBuf>,
    /// Port of the server. Default: 53.
    #[arg(short, long)]
    pub port: Option<u16>,
    /// Reverse lookup: query the PTR record of an IP address.
    #[arg(short = 'x', value_name = "IP")]
    pub reverse: Option<IpAddr>,
    /// The name, even if the word looks like a type, class or option.
    #[arg(short = 'q', value_name = "NAME", conflicts_with_all = ["reverse", "file"])]
    pub name: Option<String>,
    /// Source address, optionally with a source port.
    #[arg(short = 'b', value_name = "ADDRESS[#PORT]")]
    pub source: Option<String>,
    /// Accepted for scripts written for dig, where it traces the use of memory. No effect.
    #[arg(short = 'm', hide = true)]
    pub trace_memory: bool,
    /// Accepted for scripts written for dig. No effect: no file of options is read.
    #[arg(short = 'r', hide = true)]
    pub without_file: bool,
    /// The version, as `dig -v` prints it.
    #[arg(short = 'v', action = clap::ArgAction::Version, hide = true)]
    pub print_version: Option<bool>,
    /// The type, even if the word looks like a name or class.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub rtype: Option<String>,
    /// The class.
    #[arg(short = 'c', long = "class", value_name = "CLASS")]
    pub class: Option<String>,
    /// Query over IPv4 only.
    #[arg(short = '4', conflicts_with = "v6")]
    pub v4: bool,
    /// Query over IPv6 only.
    #[arg(short = '6')]
    pub v6: bool,
    /// Follow referrals from the root servers to the answer, and print each step. `@SERVER` is asked for the
    /// root servers; without it the built-in ones are used. Also written +trace.
    #[arg(long)]
    pub trace: bool,
    /// Validate the answer (DNSSEC), and print the chain of trust. Queries `@SERVER` with CD set, or with
    /// --trace the authoritative servers. Exit status 1 if the answer is bogus. Also written +chase.
    #[arg(long)]
    pub chase: bool,
    /// Trust anchor of --chase, in place of those of the public root: a DS or DNSKEY record in zone file
    /// format. May be given several times.
    #[arg(long, value_name = "RECORD")]
    pub anchor: Vec<String>,
    /// File of trust anchors, in the same format.
    #[arg(long, value_name = "FILE")]
    pub anchor_file: Option<PathBuf>,
    /// The key to sign with.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// The key that signs what is sent (TSIG).
#[derive(Debug, Clone, Default, Args)]
pub struct KeyArgs {
    /// TSIG key to sign with; default algorithm: hmac-sha256. Other users can see the secret in the list of
    /// processes: prefer --key-file. With --key-file, the name of the key to use.
    #[arg(short = 'y', long, value_name = "[ALGORITHM:]NAME:SECRET")]
    pub key: Option<String>,
    /// File with the TSIG key to sign with, as tsig-keygen writes it.
    #[arg(short, long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

/// `nomen update`.
#[derive(Debug, Args)]
#[command(after_help = "A script has a command in each line; a line that begins with a semicolon is a \
        comment:\n\n  \
server HOST [PORT]   zone NAME   key [ALGORITHM:]NAME SECRET   ttl SECONDS   class CLASS\n  \
[prereq] nxdomain NAME   [prereq] yxdomain NAME   [prereq] nxrrset NAME TYPE   [prereq] yxrrset NAME TYPE \
[DATA]\n  \
[update] add NAME [TTL] TYPE DATA   [update] delete NAME [TYPE [DATA]]\n  \
show   send (or an empty line)   answer   quit\n\n\
A script from a file or pipe is read to its end first, and nothing is sent if a line is wrong. Without `zone` \
and `server`, both are found by SOA queries.")]
pub struct UpdateArgs {
    /// File with the script, by default standard input; and options of TLS, as for `nomen query`: +tls,
    /// +tls-ca[=FILE], +tls-hostname=NAME, +tls-pin=PIN, +tls-certfile=FILE with +tls-keyfile=FILE. Each of
    /// them implies +tls, and then the update does not go in the clear.
    #[arg(value_name = "FILE|+OPTION")]
    pub words: Vec<String>,
    /// Server to send to, as HOST, HOST#PORT or HOST@PORT. Default: the primary in the zone's SOA.
    #[arg(short, long, value_name = "HOST")]
    pub server: Option<String>,
    /// The key to sign with.
    #[command(flatten)]
    pub key: KeyArgs,
    /// Always send over TCP.
    #[arg(long)]
    pub tcp: bool,
    /// Seconds to wait for an answer, for each of three tries over UDP.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub timeout: u64,
    /// Print each answer as JSON, one a line.
    #[arg(long)]
    pub json: bool,
}

/// `nomen ctl`.
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// Control socket. Default: the default of `socket` in [control].
    #[arg(short, long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
    /// Configuration file to take the socket's path from.
    #[arg(short, long, value_name = "FILE", conflicts_with = "socket", global = true)]
    pub config: Option<PathBuf>,
    /// Print the answer as JSON; long outputs are one object a line.
    #[arg(long, global = true)]
    pub json: bool,
    /// Seconds to wait for the answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, global = true)]
    pub timeout: u64,
    /// The command.
    #[command(subcommand)]
    pub verb: CtlVerb,
}

/// Commands to the running server.
#[derive(Debug, Subcommand)]
pub enum CtlVerb {
    /// Version, uptime, addresses, zones, last reload.
    Status,
    /// Every counter.
    Stats,
    /// The database of zones: connection, changes that this node lacks, zones that it cannot serve, and the
    /// nodes that use it.
    Database,
    /// Read the configuration and changed zone files again. Exit status 1 if any of them is bad.
    Reload {
        /// Remove zones even beyond the limits `max-removed` and `catalog-max-removed`, or if none is left.
        #[arg(long)]
        force: bool,
    },
    /// Log level, query log, log files.
    #[command(subcommand)]
    Log(CtlLog),
    /// Tokens of the HTTP API.
    #[command(subcommand)]
    Token(CtlToken),
    /// DNS cookies.
    #[command(subcommand)]
    Cookies(CtlCookies),
    /// Zones of the running server. A zone in a view is named ZONE@VIEW.
    #[command(subcommand)]
    Zone(CtlZone),
    /// Keys of zones that the server signs. A key is named by its tag, or as TAG/ALGORITHM.
    #[command(subcommand)]
    Key(CtlKey),
    /// What child zones ask of their delegations (`delegation-updates`).
    #[command(subcommand)]
    Delegation(CtlDelegation),
    /// The cache of recursive service.
    #[command(subcommand)]
    Cache(CtlCache),
    /// Forward and stub rules of recursive service.
    #[command(subcommand)]
    Forward(CtlForward),
    /// Temporary negative trust anchors (RFC 7646): domains in which nothing is validated.
    #[command(subcommand)]
    Nta(CtlNta),
    /// Block lists.
    #[command(subcommand)]
    Policy(CtlPolicy),
    /// Limits on replies.
    #[command(subcommand)]
    Limits(CtlLimits),
    /// How clients discover the encrypted listeners (DDR, RFC 9462), and what zones, DHCP servers and routers
    /// need for it (DNR, RFC 9463).
    Discovery,
    /// Encrypted transports of authoritative servers that were probed, and whether each works
    /// (`encrypt-to-authoritative`, RFC 9539).
    Encryption,
    /// Every trust anchor, and every key that may become one (RFC 5011).
    TrustAnchors,
    /// Explain step by step how a query would be answered.
    Explain {
        /// The name.
        name: String,
        /// The type.
        #[arg(default_value = "A", value_name = "TYPE")]
        rtype: String,
        /// Assume that the client sets the DNSSEC OK bit.
        #[arg(long)]
        dnssec: bool,
        /// The address of the client, for views, groups and access rules. Default: 127.0.0.1, in no group.
        #[arg(long, value_name = "ADDRESS")]
        client: Option<IpAddr>,
        /// What else decides about the client.
        #[command(flatten)]
        traits: ClientTraits,
    },
    /// Stop the server.
    Stop,
}

/// What decides about a client's group besides its address.
#[derive(Debug, Args)]
pub struct ClientTraits {
    /// The TSIG key that signs the query.
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// The address of the server that the query is sent to, as IP or IP@PORT.
    #[arg(long, value_name = "ADDRESS")]
    pub on: Option<String>,
    /// The transport of the query, such as tls.
    #[arg(long, value_name = "PROTO")]
    pub proto: Option<String>,
    /// The MAC address that the client, a forwarder, sends in an EDNS option.
    #[arg(long, value_name = "ADDRESS")]
    pub mac: Option<String>,
    /// The identifier of a client: that a forwarder sends in an EDNS option, or, with --proto tls and its
    /// like, that the client itself writes.
    #[arg(long, value_name = "NAME")]
    pub client_id: Option<String>,
    /// The tag of a client that a forwarder sends in an EDNS option.
    #[arg(long, value_name = "NUMBER")]
    pub edns_tag: Option<u16>,
}

/// `nomen ctl token`.
#[derive(Debug, Subcommand)]
pub enum CtlToken {
    /// Every token: its rights, when it expires, and when it was used last.
    List,
}

/// `nomen ctl cookies`.
#[derive(Debug, Subcommand)]
pub enum CtlCookies {
    /// Make server cookies with a new random secret. Those of the one before are accepted for an hour.
    Rotate,
}

/// Commands on limits on replies.
#[derive(Debug, Subcommand)]
pub enum CtlLimits {
    /// The addresses and networks that were limited most.
    Top {
        /// In the last hour, instead of since the start.
        #[arg(long)]
        hour: bool,
        /// How many to show.
        #[arg(default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        count: u32,
    },
}

/// Commands on the log.
#[derive(Debug, Subcommand)]
pub enum CtlLog {
    /// Open the files of logs and of dnstap again, after log rotation.
    Reopen,
    /// Log events of this level and more severe ones, until the next reload.
    Level {
        /// error, warn, info, debug or trace.
        level: String,
    },
    /// Log all queries, none, or a share of them, until the next reload.
    Queries {
        /// `on`, `off`, or the share of queries that is logged, above 0 and up to 1, such as 0.01.
        #[arg(value_name = "SHARE", value_parser = query_share)]
        share: f64,
    },
}

/// Returns the share of queries that `on`, `off` or a number means.
fn query_share(text: &str) -> Result<f64, String> {
    match text {
        "on" => Ok(1.0),
        "off" => Ok(0.0),
        _ => match text.parse::<f64>() {
            Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
            _ => Err("`on`, `off`, or a share above 0 and up to 1 is expected".into()),
        },
    }
}

/// Commands on the cache.
#[derive(Debug, Subcommand)]
pub enum CtlCache {
    /// Entries, memory, hits, misses and evictions.
    Stats,
    /// Remove a name from the cache.
    Flush {
        /// The name.
        name: String,
        /// Also remove all names below it.
        #[arg(long)]
        tree: bool,
        /// Remove this type only.
        #[arg(long = "type", value_name = "TYPE")]
        rtype: Option<String>,
    },
    /// Print every entry.
    Dump,
    /// Write the cache to a file, as the server does every `cache-save-interval`.
    Save {
        /// File on the server. Default: `cache-file` of the configuration.
        file: Option<PathBuf>,
    },
    /// Read a file written by `save` into the cache.
    Load {
        /// File on the server. Default: `cache-file` of the configuration.
        file: Option<PathBuf>,
    },
}

/// Commands on the rules that say whom to ask.
#[derive(Debug, Subcommand)]
pub enum CtlForward {
    /// Every rule, with the state of its servers.
    List,
    /// Query these servers for a domain, until the next reload.
    Add {
        /// The domain; "." for all names without another rule.
        domain: String,
        /// Servers, as ADDRESS or ADDRESS@PORT, over TLS as ADDRESS#NAME or ADDRESS@PORT#NAME, over HTTPS as
        /// https://NAME/PATH@ADDRESS, over QUIC as quic://NAME@ADDRESS, or by Oblivious DoH as
        /// odoh://NAME/PATH@ADDRESS?proxy=https://NAME/PATH@ADDRESS.
        #[arg(required = true, value_parser = forwarder)]
        servers: Vec<UpstreamServer>,
        /// The servers are authoritative for the domain, not resolvers.
        #[arg(long)]
        stub: bool,
    },
    /// Remove the rule for a domain, until the next reload.
    Remove {
        /// The domain.
        domain: String,
    },
}

/// What `ctl policy top` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopWord {
    /// Query names.
    Name,
    /// Clients.
    Client,
    /// Policy zones and lists.
    RuleSource,
}

/// Commands on block lists.
#[derive(Debug, Subcommand)]
pub enum CtlPolicy {
    /// Every response policy zone and block list: its rules, its age, its faults, what it did.
    Status,
    /// Fetch or read block lists now, and show the outcome of each.
    Refresh {
        /// The list. All lists if it is missing.
        list: Option<String>,
    },
    /// Suspend all rules for a group of clients for a while.
    Pause {
        /// The group; "default" is that of clients in no group.
        group: String,
        /// Duration, such as 90s or 10m; at most 7d.
        time: String,
    },
    /// End the pause of a group.
    Resume {
        /// The group.
        group: String,
    },
    /// What is blocked most: names, clients, or policy zones and lists.
    Top {
        /// What to count.
        #[arg(long, value_enum, default_value = "name")]
        by: TopWord,
        /// In the last hour, instead of since the start.
        #[arg(long)]
        hour: bool,
        /// How many to show.
        #[arg(default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        count: u32,
    },
    /// The rule of the policy zones and lists that decides about a name.
    Test {
        /// The name.
        name: String,
        /// The address of a client, for rules about clients.
        #[arg(long, value_name = "ADDRESS")]
        client: Option<IpAddr>,
        /// What else decides about the client.
        #[command(flatten)]
        traits: ClientTraits,
        /// The type of the query.
        #[arg(long = "type", value_name = "TYPE", default_value = "A")]
        rtype: String,
    },
}

/// Commands on what child zones ask of their delegations.
#[derive(Debug, Subcommand)]
pub enum CtlDelegation {
    /// What the child zones of a zone ask for, as found by the last checks since the start.
    ///
    /// Delegations whose children ask for nothing are left out.
    List {
        /// Name of the zone.
        zone: String,
    },
    /// Ask the name servers of a child zone now, and change the DS records if what they have is accepted.
    Check {
        /// Name of the zone.
        zone: String,
        /// Name of the child zone.
        child: String,
    },
}

/// Commands on negative trust anchors.
#[derive(Debug, Subcommand)]
pub enum CtlNta {
    /// Every negative trust anchor, with its remaining time.
    List,
    /// Validate nothing in a domain for a limited time.
    Add {
        /// The domain.
        domain: String,
        /// Duration, such as 90s or 1h; at most 7d.
        #[arg(long = "for", value_name = "TIME", default_value = "1h")]
        time: String,
    },
    /// Validate in the domain again.
    Remove {
        /// The domain.
        domain: String,
    },
}

/// Parses a server of `[[resolver.forward]]`.
///
/// # Errors
/// The fault as text.
pub fn forwarder(text: &str) -> Result<UpstreamServer, String> {
    UpstreamServer::parse(text).map_err(|fault| fault.to_string())
}

/// Parses `ADDRESS` or `ADDRESS@PORT`.
///
/// # Errors
/// The fault as text.
pub fn upstream(text: &str) -> Result<std::net::SocketAddr, String> {
    ServerAddress::parse(text).map(|server| server.0.0).map_err(|fault| fault.to_string())
}

/// Commands on zones of the running server.
#[derive(Debug, Subcommand)]
pub enum CtlZone {
    /// Every zone with its serial and state.
    List {
        /// Only zones that did not load, or whose newest version is not in service.
        #[arg(long)]
        failed: bool,
    },
    /// Everything known about one zone.
    Status {
        /// Name of the zone.
        name: String,
    },
    /// Read one zone's file again even if it looks unchanged.
    Reload {
        /// Name of the zone.
        name: String,
        /// Apply the file even if updates have changed the zone: the differences become a change of the zone.
        #[arg(long)]
        force: bool,
    },
    /// Serve an older version of a zone whose journal is damaged.
    ///
    /// The damaged journal is renamed, not deleted. If the accepted version is older than the last
    /// acknowledged one, the zone gets the serial number after that one, so that secondaries transfer it.
    Accept {
        /// Name of the zone.
        name: String,
        /// The zone's file.
        #[arg(long, required_unless_present = "journal")]
        file: bool,
        /// The readable part of the journal.
        #[arg(long, conflicts_with = "file")]
        journal: bool,
    },
    /// Refuse dynamic updates of a zone until `thaw`, and write the zone to its file, which can then be
    /// edited.
    Freeze {
        /// Name of the zone.
        name: String,
    },
    /// Apply the file of a frozen zone, the differences as one change, and accept dynamic updates again.
    Thaw {
        /// Name of the zone.
        name: String,
    },
    /// Open a transaction on a zone that takes updates: `commit` applies all of its changes at once.
    Begin {
        /// Name of the zone.
        name: String,
    },
    /// Add a record in the zone's transaction. The whole RRset gets its TTL.
    Set {
        /// Name of the zone.
        name: String,
        /// The record in zone file format, as one or several words: owner, optional TTL, type and data.
        /// Default TTL: that of the RRset, or else of the SOA.
        #[arg(required = true, value_name = "RR")]
        record: Vec<String>,
    },
    /// Delete records in the zone's transaction.
    Unset {
        /// Name of the zone.
        name: String,
        /// OWNER for all records of a name, OWNER TYPE for an RRset, OWNER TYPE DATA for one record.
        #[arg(required = true, value_name = "RR")]
        record: Vec<String>,
    },
    /// Print the changes of the zone's transaction: `-` for deleted records, `+` for added ones.
    Diff {
        /// Name of the zone.
        name: String,
    },
    /// Apply the zone's transaction as one change. If the records that it changes have changed since, nothing
    /// is done, and the transaction stays open.
    Commit {
        /// Name of the zone.
        name: String,
    },
    /// Drop the zone's transaction.
    Abort {
        /// Name of the zone.
        name: String,
    },
    /// Write a zone as it is served to a file.
    ///
    /// Without --to this is the zone's own file, which is written if updates have changed the zone since it
    /// was read or written. Its comments are lost. A file edited since then is not written.
    Write {
        /// Name of the zone.
        name: String,
        /// Another file, on the server.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// Replace an existing file, also the zone's own after it was edited.
        #[arg(long)]
        force: bool,
    },
    /// Add a zone, also for later starts: its `[[zone]]` is stored in the state folder.
    Add {
        /// Name of the zone.
        name: String,
        /// Template of the configuration to use for it.
        #[arg(long)]
        template: Option<String>,
        /// Its master file, on the server.
        #[arg(long, conflicts_with = "primaries")]
        file: Option<PathBuf>,
        /// Its primaries, as `primaries` in the configuration, such as "192.0.2.1 key:NAME".
        #[arg(long, value_delimiter = ',')]
        primaries: Vec<String>,
        /// Catalog zone that lists it, as `catalog-member` in the configuration.
        #[arg(long)]
        catalog: Option<String>,
        /// Its group there, as `catalog-group` in the configuration.
        #[arg(long)]
        group: Option<String>,
    },
    /// Remove a zone that was added by `add`, with its stored data.
    Remove {
        /// Name of the zone.
        name: String,
    },
    /// Ask a zone's primaries whether there is a newer version.
    Refresh {
        /// Name of the zone.
        name: String,
    },
    /// Transfer the whole zone from its primaries, whatever its serial.
    Retransfer {
        /// Name of the zone.
        name: String,
    },
    /// Send NOTIFY for the version in service to the zone's secondaries.
    Notify {
        /// Name of the zone.
        name: String,
    },
    /// Make all signatures of a zone again that the server signs.
    Sign {
        /// Name of the zone.
        name: String,
    },
    /// Print a zone as it is served.
    Dump {
        /// Name of the zone.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_queries_was_neither_on_nor_off() {
        assert_eq!(["on", "off", "0.5", "1"].map(query_share), [Ok(1.0), Ok(0.0), Ok(0.5), Ok(1.0)]);
        for bad in ["0", "1.5", "-1", "NaN", "yes", ""] {
            assert!(query_share(bad).is_err(), "{bad}");
        }
    }
}
