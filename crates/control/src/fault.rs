//! Why a command is not executed, with the texts that operators see.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use cache::LoadFault;
use database::DatabaseFault;
use message::QueryTooLong;
use recursion::PolicyFault;
use serde_json::{Value, json};
use signer::rollover::KeyId;
use transport::Transport;
use wire::message::Malformed;
use wire::name::BadViewName;
use zone::scan::Fault;
use zone_plan::ZoneFault;

use crate::protocol::AnswerLine;
use config::addresses::OnFault;
use config::log::LogLevel;
use config::neighbours::NoMacAddress;
use config::policy_groups::MAX_CLIENT_ID;
use config::table::value::{NoDuration, Word};
use config::upstreams::RuleServersFault;
use config::zone_name::ZoneNameFault;
use serving::frontend::CookieFault;
use telemetry::dnstap::SinkFault;
use telemetry::logging::LogFault;
use wording::reason;
use zone_manager::changes::{AcceptFault, FileFault, TakeFault, TransactionFault};
use zone_manager::secondaries::OrderFault;
use zone_manager::shown_change::ShownChange;
use zone_manager::written::WriteFault;
use zone_manager::zones::manager::ReloadFault;
use zone_manager::zones::report::RoundReport;

/// An argument of a command that is not accepted.
#[derive(Debug)]
pub enum ArgumentFault {
    /// This is not the name of a zone or a domain.
    Name(ZoneNameFault),
    /// This has no name of a view after the `@`.
    View(String, BadViewName),
    /// This is not a record type.
    Type(String),
    /// This is not a key tag, with or without an algorithm.
    KeyTag(String),
    /// Neither a key nor a role says which key is meant.
    NoKeyGiven,
    /// There is no TSIG key of this name.
    NoSuchKey(String),
    /// This is not a transport.
    Transport(String),
    /// This is not an address of this server.
    On(OnFault),
    /// This is not a MAC address.
    Mac(String, NoMacAddress),
    /// The identifier of a client has this length.
    ClientId(usize),
    /// Options about clients have no effect in queries of this client.
    NoForwarder(IpAddr),
    /// This is not a log level.
    Level(String),
    /// This is not a share of all queries.
    Share(f64),
    /// This is not a duration.
    Duration(NoDuration),
    /// The duration of a negative trust anchor is out of range.
    DurationRange,
    /// The text of a record has a fault.
    Record(Box<Fault>),
    /// A forwarding rule has no servers.
    NoServers,
    /// This is not a server of a forwarding rule.
    Server(RuleServersFault),
    /// The root is given as a stub zone.
    RootStub,
    /// nomen itself listens on the address of this server.
    OwnAddress(SocketAddr),
    /// No file is given, and none is configured.
    NoFile,
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(fault) => fault.fmt(f),
            Self::View(text, fault) => write!(f, "`{text}`: {fault}; an `@` in the name of a zone is `\\@`"),
            Self::Type(text) => write!(f, "`{text}` is no record type"),
            Self::KeyTag(text) => {
                write!(f, "`{text}` is no key: expected its tag, such as 12345, or 12345/ECDSAP256SHA256")
            }
            Self::NoKeyGiven => f.write_str("name the key by its tag, or its role: ksk, zsk or csk"),
            Self::NoSuchKey(name) => write!(f, "there is no TSIG key {name}"),
            Self::Transport(text) => {
                let known: Vec<&str> = Transport::ALL.iter().map(|transport| transport.label()).collect();
                write!(f, "`{text}` is no transport: there are {}", known.join(", "))
            }
            Self::On(OnFault(text)) => {
                write!(f, "`{text}` is not an address of this server, such as 192.0.2.53 or 192.0.2.53@853")
            }
            Self::Mac(text, fault) => write!(f, "`{text}` is {fault}"),
            Self::ClientId(len) => {
                write!(f, "the identifier of a client has {len} bytes, and 1 to {MAX_CLIENT_ID} are possible")
            }
            Self::NoForwarder(address) => write!(
                f,
                "EDNS options about clients have no effect in queries from {address}: it is not in \
                 `client-ids-from` of [policy]; give the address of the forwarder as the client, or of an \
                 identifier that the client itself writes (`client-ids` of [server]) the transport as well"
            ),
            Self::Level(text) => {
                let known: Vec<&str> = LogLevel::WORDS.iter().map(|(word, _)| *word).collect();
                write!(f, "`{text}` is no level: there are {}", known.join(", "))
            }
            Self::Share(share) => write!(f, "{share} is not a share above 0 and up to 1"),
            Self::Duration(fault) => fault.fmt(f),
            Self::DurationRange => f.write_str("the time is out of range: 1s to 7d"),
            Self::Record(fault) => fault.pretty().fmt(f),
            Self::NoServers => f.write_str("name at least one server"),
            Self::Server(fault) => fault.fmt(f),
            Self::RootStub => {
                f.write_str("the root cannot be a stub zone: no server is authoritative for all names")
            }
            Self::OwnAddress(address) => {
                write!(f, "nomen listens on {}@{} and would query itself", address.ip(), address.port())
            }
            Self::NoFile => f.write_str("name a file: the configuration has none"),
        }
    }
}

/// Why a frozen zone stays frozen.
#[derive(Debug)]
pub enum ThawFault {
    /// The thread of updates does not hold the zone.
    NotHeld,
    /// The zone is not reloaded.
    Reload(ReloadFault),
    /// The zone does not take its file.
    NotTaken(TakeFault),
    /// The end of the freeze cannot be noted.
    File(FileFault),
}

impl fmt::Display for ThawFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld => f.write_str("it cannot be changed, the log says why"),
            Self::Reload(fault) => fault.fmt(f),
            Self::NotTaken(fault) => fault.fmt(f),
            Self::File(fault) => fault.fmt(f),
        }
    }
}

/// Why a command on the keys or signatures of a zone is not executed.
#[derive(Debug)]
pub enum SigningCommandFault {
    /// This zone is not signed here.
    NotSigned(String),
    /// This zone is being signed for the first time, or its keys cannot be read for this reason.
    Unknown(String, Option<String>),
    /// The zone has no key of this tag, but these.
    NoSuchKey(String, Vec<KeyId>),
    /// Several keys of the zone have this tag.
    Several(String, Vec<KeyId>),
    /// The signer refuses it, for this reason.
    Refused(String),
}

impl fmt::Display for SigningCommandFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSigned(zone) => write!(f, "zone {zone} is not signed here: it has no `dnssec-policy`"),
            Self::Unknown(zone, None) => {
                write!(f, "zone {zone} is being signed for the first time: try again later")
            }
            Self::Unknown(zone, Some(fault)) => {
                write!(f, "the keys of zone {zone} cannot be read: {fault}")
            }
            Self::NoSuchKey(key, others) => write!(f, "there is no key {key} here; keys: {}", listed(others)),
            Self::Several(key, ids) => write!(f, "several keys have the tag {key}: {}", listed(ids)),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

/// Text of [`CommandFault::NotRecursive`].
const NOT_RECURSIVE: &str = "recursive service is off: the configuration has no [resolver]";

/// Why a command is not executed, or only in part.
#[derive(Debug)]
pub enum CommandFault {
    /// The child zones of a zone are not asked, for this reason.
    Delegations(String),
    /// The line is not a command.
    NotACommand(serde_json::Error),
    /// The line is longer than this many bytes, or has no end.
    TooLong(u64),
    /// An argument is not accepted.
    Argument(ArgumentFault),
    /// The server is stopping.
    Stopping,
    /// The resolver does not reply in time.
    NoReply,
    /// The secret of server cookies stays.
    Cookies(CookieFault),
    /// Recursive service is not configured.
    NotRecursive,
    /// A block list could not be read at the reload; everything else is in force.
    List {
        /// Its name.
        name: String,
        /// Its file.
        file: PathBuf,
        /// The reason.
        fault: String,
    },
    /// There is no group of clients of this name.
    NoSuchGroup(String),
    /// Nothing counts what is blocked most.
    NoTop,
    /// No encrypted listener has a name that clients discover.
    NothingDiscovered,
    /// Networks that are limited are not counted.
    NoLimitsTop,
    /// There is no block list of this name.
    NoSuchList(String),
    /// Some block lists could not be fetched or read; the outcomes of all.
    NotRefreshed {
        /// Their number.
        failed: usize,
        /// The outcomes.
        outcomes: Value,
    },
    /// There is no zone of this name.
    NoSuchZone {
        /// The name.
        name: String,
        /// The most similar name of a zone.
        near: Option<String>,
    },
    /// No version of this zone is in service.
    NotLoaded(String),
    /// Neither transactions nor updates are configured for the zone; a transaction is wanted.
    NoTransactions,
    /// Neither transactions nor updates are configured for the zone.
    NoUpdates,
    /// The forwarding rules have none for this domain.
    NoRule(String),
    /// No negative trust anchor was added for this domain.
    NoNegativeAnchor(String),
    /// A reload or a change of the set of zones fails.
    Reload(ReloadFault),
    /// A reload has ended, and left something for the operator to fix.
    Incomplete(Arc<RoundReport>),
    /// The zone does not take its file.
    NotTaken(TakeFault),
    /// The order to the secondary zone is not carried out.
    Order(OrderFault),
    /// The zone is not frozen.
    NotFrozen(FileFault),
    /// The zone is not thawed.
    StaysFrozen(ThawFault),
    /// The zone's own file is not written.
    File(FileFault),
    /// Another file is not written.
    Write(WriteFault),
    /// The zone's journal is not damaged.
    NotDamaged,
    /// The zone's file, which is to be accepted, cannot be read.
    UnreadableFile(Box<ZoneFault>),
    /// The zone's file, which is to be accepted, is not a zone that can be served.
    UnfitFile(Arc<ZoneFault>),
    /// No version is accepted in place of the journal.
    NotAccepted(AcceptFault),
    /// A command on the keys or signatures of a zone.
    Signing(SigningCommandFault),
    /// A step of a transaction fails.
    Transaction {
        /// The zone.
        zone: String,
        /// Why.
        fault: TransactionFault,
    },
    /// Rules or anchors of recursive service cannot be changed.
    Policy(PolicyFault),
    /// The cache is not written to its file.
    CacheSave(PathBuf, io::Error),
    /// The file of a cache cannot be read.
    CacheLoad(PathBuf, LoadFault),
    /// A log file cannot be reopened.
    Log(LogFault),
    /// The file of dnstap cannot be reopened.
    Dnstap(SinkFault),
    /// The query to explain does not fit into a message.
    Query(QueryTooLong),
    /// The answer to the explained query cannot be parsed.
    Answer(Malformed),
    /// The listening sockets cannot be sent.
    HandOver(io::Error),
    /// The zones are in no database.
    NoDatabase,
    /// The database does not do it.
    Database(DatabaseFault),
    /// The database has done it to this zone, and this node has not followed in time.
    NotFollowed(String),
}

impl fmt::Display for CommandFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACommand(error) => write!(f, "not a command: {error}"),
            Self::TooLong(most) => write!(f, "a command has one line of at most {most} bytes"),
            Self::Argument(fault) => fault.fmt(f),
            Self::Stopping => ReloadFault::Stopping.fmt(f),
            Self::NoReply => f.write_str("the resolver has not replied in time; try again"),
            Self::Cookies(fault) => fault.fmt(f),
            Self::NotRecursive => f.write_str(NOT_RECURSIVE),
            Self::List { name, file, fault } => {
                write!(f, "the list {name} cannot be used: {}: {fault}", file.display())
            }
            Self::NoTop => f.write_str("`top` of [policy] is 0: blocked queries are not counted by name"),
            Self::NoLimitsTop => f.write_str("`top` of [rate-limits] is 0: limited networks are not counted"),
            Self::NothingDiscovered => f.write_str(NOTHING_DISCOVERED),
            Self::NoSuchGroup(name) => write!(f, "there is no group {name}"),
            Self::NoSuchList(name) => write!(f, "there is no list {name}"),
            Self::NotRefreshed { failed, .. } => write!(f, "lists that cannot be refreshed: {failed}"),
            Self::NoSuchZone { name, near } => {
                write!(f, "there is no zone {name} here")?;
                near.iter().try_for_each(|near| write!(f, "; did you mean \"{near}\"?"))
            }
            Self::NotLoaded(name) => write!(f, "zone {name} is not loaded"),
            Self::NoTransactions => f.write_str(
                "the zone takes no changes: it has no `allow-update`, no `update-policy` and no `api`",
            ),
            Self::NoUpdates => f.write_str(
                "the zone takes no updates: no `allow-update`, `update-policy`, `api` or `delegation-updates`",
            ),
            Self::NoRule(domain) => write!(f, "there is no rule for {domain}"),
            Self::NoNegativeAnchor(domain) => write!(f, "no negative trust anchor was added for {domain}"),
            Self::Reload(fault) => fault.fmt(f),
            Self::Incomplete(report) => f.write_str(&report.complaint().unwrap_or_default()),
            Self::NotTaken(fault) => fault.fmt(f),
            Self::Order(fault) => fault.fmt(f),
            Self::NotFrozen(fault) => write!(f, "the zone is not frozen: {fault}"),
            Self::StaysFrozen(fault) => write!(f, "the zone stays frozen: {fault}"),
            Self::File(fault) => fault.fmt(f),
            Self::Write(fault) => fault.fmt(f),
            Self::NotDamaged => AcceptFault::NotDamaged.fmt(f),
            Self::UnreadableFile(fault) => write!(f, "the zone's file cannot be accepted:\n{fault}"),
            Self::UnfitFile(fault) => write!(f, "the zone's file cannot be accepted: {fault}"),
            Self::NotAccepted(fault) => write!(f, "nothing is accepted: {fault}"),
            Self::Transaction { fault, .. } => fault.fmt(f),
            Self::Signing(fault) => fault.fmt(f),
            Self::Delegations(why) => f.write_str(why),
            Self::Policy(fault) => fault.fmt(f),
            Self::CacheSave(path, error) => {
                write!(f, "cannot write {}: {}", path.display(), reason(error))
            }
            Self::CacheLoad(path, LoadFault::Io(error)) => {
                write!(f, "cannot read {}: {}", path.display(), reason(error))
            }
            Self::CacheLoad(path, LoadFault::Foreign) => {
                write!(f, "{} is not a file of a cache", path.display())
            }
            Self::CacheLoad(path, fault) => {
                write!(f, "{} cannot be read to its end: {fault}", path.display())
            }
            Self::Log(fault) => fault.fmt(f),
            Self::Dnstap(fault) => fault.fmt(f),
            Self::Query(fault) => fault.fmt(f),
            Self::Answer(fault) => write!(f, "the answer is broken: {fault}"),
            Self::NoDatabase => f.write_str("there is no database: the configuration has no [database]"),
            Self::Database(fault) => fault.fmt(f),
            Self::NotFollowed(zone) => not_followed(f, zone),
            Self::HandOver(error) => write!(f, "the sockets cannot be handed over: {}", reason(error)),
        }
    }
}

/// Why there is nothing to discover.
const NOTHING_DISCOVERED: &str = "clients discover nothing: that needs [resolver], a listener with `proto` \"tls\" or \
                                  \"https\", and a name in [[certificate]] or in `discovery-name`";

fn not_followed(f: &mut fmt::Formatter<'_>, zone: &str) -> fmt::Result {
    write!(
        f,
        "the database has done it, and this node does not follow yet: `nomen ctl database` and `nomen ctl zone status \
         {zone}` show why"
    )
}

/// Returns keys as a list.
fn listed(keys: &[KeyId]) -> String {
    match keys {
        [] => "none".into(),
        keys => keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl CommandFault {
    /// Returns what was done nevertheless, or the fault in detail, if there is more than the text.
    pub fn data(&self) -> Option<Value> {
        match self {
            Self::Incomplete(report) => Some(json!(**report)),
            Self::NotRefreshed { outcomes, .. } => Some(outcomes.clone()),
            Self::Transaction { zone, fault: TransactionFault::Conflict(meanwhile) } => {
                Some(json!({"zone": zone, "changes": ShownChange(meanwhile)}))
            }
            _ => None,
        }
    }
}

impl From<ArgumentFault> for CommandFault {
    fn from(fault: ArgumentFault) -> Self {
        Self::Argument(fault)
    }
}

impl From<DatabaseFault> for CommandFault {
    fn from(fault: DatabaseFault) -> Self {
        Self::Database(fault)
    }
}

impl From<SigningCommandFault> for CommandFault {
    fn from(fault: SigningCommandFault) -> Self {
        Self::Signing(fault)
    }
}

impl From<CommandFault> for AnswerLine {
    fn from(fault: CommandFault) -> Self {
        AnswerLine::Fault { ok: false, error: fault.to_string(), data: fault.data() }
    }
}
