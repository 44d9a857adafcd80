//! Arguments and options of each tool, for clap. `nomen` joins them into one command line.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use config::addresses::ServerAddress;

const DIFF_HELP: &str = "\
A line begins with `-` for a record that only A has and with `+` for one that only B has, in canonical order.

@served is the zone that the running server has. @stored is what the state folder has of it, while no \
server runs: as
updates have left it, or as it came from its primaries. A file of such a name is written ./@served.

Exit status:
  0  both are the same
  1  they differ
  2  the command line was wrong
  3  one of them could not be read";

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
    /// Check the configuration only, load no zone.
    #[arg(long)]
    pub no_zones: bool,
    /// Also try what a start needs of this system: the user, the addresses, the folders of log and state.
    #[arg(long)]
    pub system: bool,
    /// Also check DNSSEC consistency of each zone.
    #[arg(long)]
    pub dnssec: bool,
    /// Most faults shown for one zone.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub errors: usize,
    /// The least that makes the exit status 1.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
}

/// `nomen migrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Files that it includes are read as well. Nothing is written.\n\n\
Exit status 1: something has no counterpart, or the file is no such configuration.")]
pub struct MigrateArgs {
    /// named.conf, nsd.conf, knot.conf, unbound.conf, pdns.conf or recursor.conf.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Whose configuration it is; found by itself without it.
    #[arg(long, value_name = "PROGRAM", value_enum)]
    pub from: Option<MigrateFrom>,
    /// Also report what was translated, and what nomen needs no statement for.
    #[arg(long)]
    pub all: bool,
    /// Print configuration and report as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Whose configuration is migrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MigrateFrom {
    /// BIND.
    Bind,
    /// NSD.
    Nsd,
    /// Knot DNS.
    Knot,
    /// PowerDNS, the Authoritative Server or the Recursor.
    Pdns,
    /// Unbound.
    Unbound,
}

/// What makes the exit status of a check 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A warning, or anything worse.
    Warning,
    /// An error, also one with which a zone is served all the same.
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
    /// Print what differs between two versions of a zone.
    #[command(after_help = DIFF_HELP)]
    Diff(ZoneDiffArgs),
    /// Print a zone with a digest of it (ZONEMD), added or renewed.
    Digest(ZoneDigestArgs),
    /// Make the images from which a server starts at once.
    ///
    /// A server with `images` on makes them itself; this is for making them beforehand, while a server runs
    /// or not. They lie in the state folder of the configuration.
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
    /// Require a digest of the zone (ZONEMD) that is right. One that is wrong is an error in any case.
    #[arg(long)]
    pub zonemd: bool,
    /// Check signatures as of this time, in seconds since 1970, not as of now.
    #[arg(long, value_name = "SECONDS", requires = "dnssec")]
    pub at: Option<u32>,
    /// Most faults shown.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub errors: usize,
    /// The least that makes the exit status 1.
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
    /// The version before: a master file, @served or @stored.
    #[arg(value_name = "A")]
    pub before: String,
    /// The version after: likewise.
    #[arg(value_name = "B")]
    pub after: String,
    /// An SOA that differs in its serial number only is the same.
    #[arg(long)]
    pub ignore_serial: bool,
    /// Leave out what signers make: RRSIG, NSEC, NSEC3 and NSEC3PARAM.
    #[arg(long)]
    pub ignore_dnssec: bool,
    /// Print the difference as JSON.
    #[arg(long)]
    pub json: bool,
    /// Control socket of the server that @served asks; found by itself unless the configuration moved it.
    #[arg(short, long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Configuration file, which has the socket's path, and for @stored the state folder.
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
    /// Hash of the digest; may be given twice.
    #[arg(long, value_name = "HASH", value_enum, default_values = ["sha384"])]
    pub hash: Vec<DigestHash>,
}

/// The hash of a digest (RFC 8976 §2.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DigestHash {
    /// SHA-384, which everybody knows who verifies digests.
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
    /// Zones of the configuration; without any, all that have at least `image-min-records` records.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

/// `nomen query`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    after_help = "Words may come in any order, as with dig: NAME, TYPE, CLASS, @SERVER, +OPTION. A second \
        NAME is a second\n\
query: what stands before the first NAME holds for all, what follows a NAME for its query.\n\n\
Options, as dig has them; the first letters are enough, and most take `no` in front:\n  \
+short +json +yaml: form of the output   +qr: show the query   +cmd: show the command line\n  \
+all +comments +question +answer +authority +additional +stats: parts of the output\n  \
+multiline +noclass +nottlid +ttlunits +nocrypto +split=N +rrcomments +unknownformat +expandaaaa: form of \
records\n  \
+identify: with +short, the server that sent each record\n  \
+dnssec +norec +cd +ad +aaflag +raflag +tcflag +zflag +opcode=N +qid=N +header-only: header of the query\n  \
+edns=N +noedns +ednsflags=N +ednsopt=CODE:HEX +bufsize=N +padding=N +keepalive +nsid +cookie +expire \
+zoneversion +subnet=NET\n  \
+tcp +ignore (keep a truncated answer) +time=SECONDS (or +timeout) +tries=N +retry=N\n  \
+nofail: ask the next server where one answers SERVFAIL\n  \
+search +domain=NAME +ndots=N: complete a name that has fewer dots, by the list of /etc/resolv.conf or by \
NAME\n  \
+trace (walk from the root servers down) +chase (validate): as --trace and --chase\n\n\
SERVER is an address or a name, which is looked up in /etc/hosts and then with the servers of \
/etc/resolv.conf.\n\
A port is written @SERVER -p PORT, @SERVER#PORT or @SERVER@PORT. Without @SERVER the servers of \
/etc/resolv.conf are asked, one\n\
after the other; without these 127.0.0.1, with -6 ::1.\n\n\
AXFR and IXFR=SERIAL ask for a transfer, over TCP."
)]
pub struct QueryArgs {
    /// NAME, TYPE, CLASS, @SERVER and +OPTIONs.
    #[arg(required_unless_present_any = ["reverse", "file", "name", "dig"], value_name = "WORD")]
    pub words: Vec<String>,
    /// End with the exit status of dig, for scripts: 0 for any response, 1 for a wrong command line, 8 for a
    /// file of queries that cannot be read, 9 without a response, 10 for anything else. A program that is
    /// called `dig`, such as a link to nomen, is `nomen query --dig`.
    #[arg(long)]
    pub dig: bool,
    /// Read queries from a file, one or more a line; `-` is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "reverse")]
    pub file: Option<PathBuf>,
    /// Port of the server.
    #[arg(short, long)]
    pub port: Option<u16>,
    /// The address (PTR) form of an IP address.
    #[arg(short = 'x', value_name = "IP")]
    pub reverse: Option<std::net::IpAddr>,
    /// The name, also where a word would be taken for something else.
    #[arg(short = 'q', value_name = "NAME", conflicts_with_all = ["reverse", "file"])]
    pub name: Option<String>,
    /// Address of this machine to send from, with a port behind `#`.
    #[arg(short = 'b', value_name = "ADDRESS[#PORT]")]
    pub source: Option<String>,
    /// Accepted for scripts that give it to dig, where it traces the use of memory.
    #[arg(short = 'm', hide = true)]
    pub trace_memory: bool,
    /// Accepted for scripts that give it to dig: no file of options is read.
    #[arg(short = 'r', hide = true)]
    pub without_file: bool,
    /// The version, as `dig -v` prints it.
    #[arg(short = 'v', action = clap::ArgAction::Version, hide = true)]
    pub print_version: Option<bool>,
    /// The type, also where a word would be taken for something else.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub rtype: Option<String>,
    /// The class.
    #[arg(short = 'c', long = "class", value_name = "CLASS")]
    pub class: Option<String>,
    /// Ask over IPv4 only.
    #[arg(short = '4', conflicts_with = "v6")]
    pub v4: bool,
    /// Ask over IPv6 only.
    #[arg(short = '6')]
    pub v6: bool,
    /// Walk from the root servers to the answer, and print each step: the servers of `@SERVER`, which are
    /// asked for those of the root, or the built-in ones. Also written +trace.
    #[arg(long)]
    pub trace: bool,
    /// Validate the answer (DNSSEC), and print the chain of trust. Asks `@SERVER` with CD set, or
    /// with --trace those who serve the zones. Exit status 1 if the answer is bogus. Also written +chase.
    #[arg(long)]
    pub chase: bool,
    /// Trust anchor of --chase in the place of those of the public root: a DS or DNSKEY record, as a zone
    /// file has it. May be given several times.
    #[arg(long, value_name = "RECORD")]
    pub anchor: Vec<String>,
    /// File of such records.
    #[arg(long, value_name = "FILE")]
    pub anchor_file: Option<PathBuf>,
    /// The key to sign with.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// The key that signs what is sent (TSIG).
#[derive(Debug, Clone, Default, Args)]
pub struct KeyArgs {
    /// Key to sign with, of HMAC-SHA256 if no algorithm is given. Users who may list processes see the
    /// secret: --key-file is better. Beside --key-file, the name of the key that is meant.
    #[arg(short = 'y', long, value_name = "[ALGORITHM:]NAME:SECRET")]
    pub key: Option<String>,
    /// File with the key to sign with, as tsig-keygen writes it.
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
A script that is not typed is read to its end first, and nothing is sent if a line is wrong. Without `zone` \
and `server`, both are found by SOA queries.")]
pub struct UpdateArgs {
    /// The script; standard input without one.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Server to send to, as HOST, HOST#PORT or HOST@PORT; found by the zone's SOA without it.
    #[arg(short, long, value_name = "HOST")]
    pub server: Option<String>,
    /// The key to sign with.
    #[command(flatten)]
    pub key: KeyArgs,
    /// Send over TCP also what fits into a datagram.
    #[arg(long)]
    pub tcp: bool,
    /// Seconds to wait for an answer, in each of three tries over UDP.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub timeout: u64,
    /// Print each answer as JSON, one a line.
    #[arg(long)]
    pub json: bool,
}

/// `nomen ctl`.
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// Control socket; found by itself unless the configuration moved it.
    #[arg(short, long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
    /// Configuration file to take the socket's path from.
    #[arg(short, long, value_name = "FILE", conflicts_with = "socket", global = true)]
    pub config: Option<PathBuf>,
    /// Print the answer as JSON; long outputs come as one object a line.
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
    /// Read the configuration again, and zones whose file changed. Fails if anything in it is bad.
    Reload {
        /// Remove zones even if they are most of a folder, of a catalog zone or of all, or if none is left.
        #[arg(long)]
        force: bool,
    },
    /// What is logged, and the file it goes to.
    #[command(subcommand)]
    Log(CtlLog),
    /// Zones of the running server.
    #[command(subcommand)]
    Zone(CtlZone),
    /// The cache of recursive service.
    #[command(subcommand)]
    Cache(CtlCache),
    /// Whom recursive service asks.
    #[command(subcommand)]
    Forward(CtlForward),
    /// Domains in which nothing is validated for a while (negative trust anchors, RFC 7646).
    #[command(subcommand)]
    Nta(CtlNta),
    /// Where trust begins: every trust anchor, and every key that may become one (RFC 5011).
    TrustAnchors,
    /// Explain step by step how a question would be answered.
    Explain {
        /// The name.
        name: String,
        /// The type.
        #[arg(default_value = "A", value_name = "TYPE")]
        rtype: String,
        /// As if the client had set the DNSSEC OK bit.
        #[arg(long)]
        dnssec: bool,
    },
    /// Stop the server.
    Stop,
}

/// Commands on the log.
#[derive(Debug, Subcommand)]
pub enum CtlLog {
    /// Open the files of logs and of dnstap anew, once they were moved away.
    Reopen,
    /// Log events from this level on, until the configuration is read again.
    Level {
        /// error, warn, info, debug or trace.
        level: String,
    },
    /// Log all queries, none, or a share of them, until the configuration is read again.
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
    /// Entries, bytes, and what became of them.
    Stats,
    /// Drop what is cached of a name.
    Flush {
        /// The name.
        name: String,
        /// And of all names below.
        #[arg(long)]
        tree: bool,
        /// Of this type only.
        #[arg(long = "type", value_name = "TYPE")]
        rtype: Option<String>,
    },
    /// Print every entry.
    Dump,
    /// Write the cache to a file, as the server does by itself now and then.
    Save {
        /// File on the server; the configured one if there is none.
        file: Option<PathBuf>,
    },
    /// Read such a file into the cache.
    Load {
        /// File on the server; the configured one if there is none.
        file: Option<PathBuf>,
    },
}

/// Commands on the rules that say whom to ask.
#[derive(Debug, Subcommand)]
pub enum CtlForward {
    /// Every rule, with what is known of its servers.
    List,
    /// Ask these servers for a domain, until the configuration is read again.
    Add {
        /// The domain; "." for all names that no other rule covers.
        domain: String,
        /// Servers, as ADDRESS or ADDRESS@PORT.
        #[arg(required = true, value_parser = upstream)]
        servers: Vec<std::net::SocketAddr>,
        /// They are authoritative for the domain, and do not ask others.
        #[arg(long)]
        stub: bool,
    },
    /// Drop the rule for a domain, until the configuration is read again.
    Remove {
        /// The domain.
        domain: String,
    },
}

/// Commands on negative trust anchors.
#[derive(Debug, Subcommand)]
pub enum CtlNta {
    /// Every one, with the time that it has left.
    List,
    /// Validate nothing in a domain for a while.
    Add {
        /// The domain.
        domain: String,
        /// How long, such as 90s, 1h or 7d, which is the most.
        #[arg(long = "for", value_name = "TIME", default_value = "1h")]
        time: String,
    },
    /// Validate again.
    Remove {
        /// The domain.
        domain: String,
    },
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
        /// Only zones that did not load or are not at the newest version of their file.
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
        /// Take what the file says though updates have changed the zone: what differs becomes a change of the
        /// zone.
        #[arg(long)]
        force: bool,
    },
    /// Serve an older version of a zone whose journal is damaged, on purpose.
    ///
    /// The damaged journal is kept beside under another name. Where the version that is accepted is older
    /// than what was acknowledged, the zone gets the serial number after that, so that secondaries take it.
    Accept {
        /// Name of the zone.
        name: String,
        /// The zone's file.
        #[arg(long, required_unless_present = "journal")]
        file: bool,
        /// What can be read of the journal.
        #[arg(long, conflicts_with = "file")]
        journal: bool,
    },
    /// Take no dynamic updates for a zone until `thaw`, and write what they have made of it to its file,
    /// which can be edited then.
    Freeze {
        /// Name of the zone.
        name: String,
    },
    /// Take what a frozen zone's file says, and dynamic updates again: what differs becomes a change of the
    /// zone.
    Thaw {
        /// Name of the zone.
        name: String,
    },
    /// Open a transaction on a zone that takes updates: what is set and unset in it changes the zone at
    /// `commit`, all at once.
    Begin {
        /// Name of the zone.
        name: String,
    },
    /// Set a record in the zone's transaction. Its whole RRset gets its TTL.
    Set {
        /// Name of the zone.
        name: String,
        /// The record as a zone file has it, in one word or several: owner, TTL if wanted, type and data.
        /// Without a TTL it is that of the RRset, or else of the SOA.
        #[arg(required = true, value_name = "RR")]
        record: Vec<String>,
    },
    /// Unset records in the zone's transaction.
    Unset {
        /// Name of the zone.
        name: String,
        /// OWNER for all records of a name, OWNER TYPE for an RRset, OWNER TYPE DATA for one record.
        #[arg(required = true, value_name = "RR")]
        record: Vec<String>,
    },
    /// Print what the zone's transaction changes: `-` and records that go, `+` and records that come.
    Diff {
        /// Name of the zone.
        name: String,
    },
    /// Make the zone's transaction one change of the zone. If what it changes has changed meanwhile, nothing
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
    /// was read or written. Comments in it are lost. One that was edited since is not written.
    Write {
        /// Name of the zone.
        name: String,
        /// Another file, on the server.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// Replace a file that is there, and the zone's own though it was edited.
        #[arg(long)]
        force: bool,
    },
    /// Serve another zone from now on, also after a restart: its `[[zone]]` is kept in the state folder.
    Add {
        /// Name of the zone.
        name: String,
        /// Template of the configuration whose keys hold for it.
        #[arg(long)]
        template: Option<String>,
        /// Its master file, on the server.
        #[arg(long, conflicts_with = "primaries")]
        file: Option<PathBuf>,
        /// Servers that it is taken from, as `primaries` in the configuration, such as "192.0.2.1 key:NAME".
        #[arg(long, value_delimiter = ',')]
        primaries: Vec<String>,
        /// Catalog zone that lists it, as `catalog-member` in the configuration.
        #[arg(long)]
        catalog: Option<String>,
        /// Its group there, as `catalog-group` in the configuration.
        #[arg(long)]
        group: Option<String>,
    },
    /// Serve a zone no longer that was added by `add`; what was kept of it is removed.
    Remove {
        /// Name of the zone.
        name: String,
    },
    /// Ask a zone's primaries whether there is a newer version.
    Refresh {
        /// Name of the zone.
        name: String,
    },
    /// Take all of a zone from its primaries, whatever its serial.
    Retransfer {
        /// Name of the zone.
        name: String,
    },
    /// Tell a zone's secondaries of the version in service.
    Notify {
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
