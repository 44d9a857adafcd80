//! The control protocol: one JSON object per line in each direction.
//!
//! A command is one line, such as `{"verb":"zone-status","name":"example.com"}`. The answer is one line,
//! `{"ok":true,"data":…}` or `{"ok":false,"error":"…"}`; lines `{"text":"…"}`, which are pieces of a long
//! output, may come before it. A connection carries any number of commands, one at a time.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The version to accept in place of a damaged journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptedVersion {
    /// The contents of the zone file.
    File,
    /// The readable part of the journal.
    Journal,
}

/// What `policy top` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopKind {
    /// Query names.
    Name,
    /// Clients.
    Client,
    /// Policy zones and lists.
    RuleSource,
}

/// The role of a key to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RolledRole {
    /// Key-signing key.
    Ksk,
    /// Zone-signing key.
    Zsk,
    /// Combined signing key.
    Csk,
}

/// What else decides about a client's group, view and access, besides its address and key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClientDetails {
    /// The address of this server that the query is sent to, as `IP` or `IP@PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proto: Option<String>,
    /// The MAC address in an EDNS option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// The identifier of the client, in an EDNS option or as it writes it for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The tag of the client in an EDNS option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edns_tag: Option<u16>,
}

impl ClientDetails {
    fn is_none(&self) -> bool {
        *self == ClientDetails::default()
    }
}

/// A command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlCommand {
    /// Report the state of the server.
    Status,
    /// Report every counter.
    Stats,
    /// List the tokens of the HTTP API.
    TokenList,
    /// Report the state of the database, and the nodes that use it.
    Database,
    /// Read the configuration and changed zones again.
    Reload {
        /// Remove zones that are no longer configured, however many they are.
        #[serde(default)]
        force: bool,
    },
    /// List every zone.
    ZoneList {
        /// Only zones that are not at the newest version of their file.
        #[serde(default)]
        failed: bool,
    },
    /// Report the state of one zone.
    ZoneStatus {
        /// Its name.
        name: String,
    },
    /// Read one zone again.
    ZoneReload {
        /// Its name.
        name: String,
        /// Take the contents of its file, even if updates have changed the zone.
        #[serde(default)]
        force: bool,
    },
    /// Accept an older version of a zone whose journal is damaged.
    ZoneAccept {
        /// Its name.
        name: String,
        /// The version to accept.
        from: AcceptedVersion,
    },
    /// Stop accepting updates for a zone, and write its file.
    ZoneFreeze {
        /// Its name.
        name: String,
    },
    /// Load a zone from its file, and accept updates again.
    ZoneThaw {
        /// Its name.
        name: String,
    },
    /// Write a zone to a file.
    ZoneWrite {
        /// Its name.
        name: String,
        /// The file; the zone's own if absent.
        #[serde(default)]
        to: Option<String>,
        /// Overwrite a file that exists, or that was edited.
        #[serde(default)]
        force: bool,
    },
    /// Open a transaction.
    ZoneBegin {
        /// The zone's name.
        name: String,
    },
    /// Set a record in a transaction.
    ZoneSet {
        /// The zone's name.
        name: String,
        /// The record in zone file syntax.
        record: String,
    },
    /// Unset records in a transaction.
    ZoneUnset {
        /// The zone's name.
        name: String,
        /// An owner, an owner and a type, or a record.
        record: String,
    },
    /// Show what a transaction changes.
    ZoneDiff {
        /// The zone's name.
        name: String,
    },
    /// Commit a transaction to its zone.
    ZoneCommit {
        /// The zone's name.
        name: String,
    },
    /// Abort a transaction.
    ZoneAbort {
        /// The zone's name.
        name: String,
    },
    /// Refresh a zone from its primaries.
    ZoneRefresh {
        /// Its name.
        name: String,
    },
    /// Transfer a zone from its primaries in full.
    ZoneRetransfer {
        /// Its name.
        name: String,
    },
    /// Send NOTIFY to a zone's secondaries.
    ZoneNotify {
        /// Its name.
        name: String,
    },
    /// Add a zone and serve it.
    ZoneAdd {
        /// Its name.
        name: String,
        /// Its template.
        #[serde(default)]
        template: Option<String>,
        /// Its file.
        #[serde(default)]
        file: Option<String>,
        /// Its primaries, as in the configuration.
        #[serde(default)]
        primaries: Vec<String>,
        /// The catalog zone that lists it.
        #[serde(default)]
        catalog: Option<String>,
        /// Its group in the catalog zone.
        #[serde(default)]
        group: Option<String>,
    },
    /// Remove a zone that was added.
    ZoneRemove {
        /// Its name.
        name: String,
    },
    /// Make all signatures of a zone again.
    ZoneSign {
        /// Its name.
        name: String,
    },
    /// Show what was found of the delegations of a zone.
    DelegationList {
        /// Its name.
        name: String,
    },
    /// Check a delegation of a zone now.
    DelegationCheck {
        /// Its name.
        name: String,
        /// The child zone.
        child: String,
    },
    /// List the keys of a zone that is signed here.
    KeyList {
        /// The zone's name.
        name: String,
    },
    /// Predict the events of the zone's keys.
    KeyTimeline {
        /// The zone's name.
        name: String,
    },
    /// Start to replace a key.
    KeyRoll {
        /// The zone's name.
        name: String,
        /// The key, as `TAG` or `TAG/ALGORITHM`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The role of the key, if no key is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<RolledRole>,
        /// The standby key takes over at once.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        emergency: bool,
    },
    /// Remove a key as soon as no cache needs it.
    KeyRetire {
        /// The zone's name.
        name: String,
        /// The key, as `TAG` or `TAG/ALGORITHM`.
        key: String,
    },
    /// Take it as given that all servers of the parent have the DS record of a key.
    KeyDsPublished {
        /// The zone's name.
        name: String,
        /// The key, as `TAG` or `TAG/ALGORITHM`.
        key: String,
    },
    /// Take it as given that no server of the parent has the DS record of a key.
    KeyDsWithdrawn {
        /// The zone's name.
        name: String,
        /// The key, as `TAG` or `TAG/ALGORITHM`.
        key: String,
    },
    /// Generate the missing ZSKs of a zone whose KSK is offline.
    KeyPregenerate {
        /// The zone's name.
        name: String,
        /// Until when, in seconds since 1970.
        until: u64,
    },
    /// Return the key signing request of a zone whose KSK is offline.
    KeyRequest {
        /// The zone's name.
        name: String,
        /// When the first slot begins, in seconds since 1970; now if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        /// When the last slot ends, in seconds since 1970; with the last ZSK if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// Take the signed key response of a zone whose KSK is offline.
    KeyImportResponse {
        /// The zone's name.
        name: String,
        /// The text of the response.
        text: String,
    },
    /// Return the DS records that the parent is to have.
    KeyExportDs {
        /// The zone's name.
        name: String,
        /// Digest types of the records, as numbers.
        digests: Vec<u8>,
    },
    /// Return the records of one zone.
    ZoneDump {
        /// Its name.
        name: String,
    },
    /// Explain how a query would be answered.
    Explain {
        /// The query name.
        name: String,
        /// The query type.
        rtype: String,
        /// Whether the DNSSEC OK bit is set.
        #[serde(default)]
        dnssec: bool,
        /// The client that queries it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<IpAddr>,
        /// The TSIG key that signs the query.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// What else decides.
        #[serde(default, skip_serializing_if = "ClientDetails::is_none")]
        details: ClientDetails,
    },
    /// Report the counters of the cache.
    CacheStats,
    /// Flush a name from the cache.
    CacheFlush {
        /// The name.
        name: String,
        /// Also all names below it.
        #[serde(default)]
        tree: bool,
        /// Only records of this type.
        #[serde(default)]
        rtype: Option<String>,
    },
    /// Return every entry of the cache.
    CacheDump,
    /// Write the cache to a file.
    CacheSave {
        /// The file; the configured one if absent.
        #[serde(default)]
        file: Option<String>,
    },
    /// Read a file into the cache.
    CacheLoad {
        /// The file; the configured one if absent.
        #[serde(default)]
        file: Option<String>,
    },
    /// List every forwarding rule.
    ForwardList,
    /// Forward queries for a domain to these servers.
    ForwardAdd {
        /// The domain.
        domain: String,
        /// The servers, as in a rule of the configuration.
        servers: Vec<String>,
        /// The servers are authoritative.
        #[serde(default)]
        stub: bool,
    },
    /// Remove the rule for a domain.
    ForwardRemove {
        /// The domain.
        domain: String,
    },
    /// List the encrypted transports of authoritative servers that were probed.
    EncryptionList,
    /// List every trust anchor.
    TrustAnchorList,
    /// List every negative trust anchor.
    NtaList,
    /// Add a negative trust anchor: the domain is not validated for a while.
    NtaAdd {
        /// The domain.
        domain: String,
        /// The duration, such as `1h`.
        time: String,
    },
    /// Remove a negative trust anchor.
    NtaRemove {
        /// The domain.
        domain: String,
    },
    /// Report the state of every response policy zone and block list.
    PolicyStatus,
    /// Fetch or read block lists now, and report the outcomes.
    PolicyRefresh {
        /// The list; all if it is missing.
        list: Option<String>,
    },
    /// Suspend all rules for a group of clients for a while, or end that.
    PolicyPause {
        /// The group.
        group: String,
        /// The duration, such as `10m`; without it the pause ends.
        time: Option<String>,
    },
    /// Report what the policy zones and lists block most.
    PolicyTop {
        /// Names, clients, or zones and lists.
        by: TopKind,
        /// How many.
        count: usize,
        /// In the last hour instead of since the start.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hour: bool,
    },
    /// Report which networks are limited most.
    LimitsTop {
        /// How many.
        count: usize,
        /// In the last hour instead of since the start.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hour: bool,
    },
    /// Report which rule of the policy zones and lists decides about a name.
    PolicyTest {
        /// The name.
        name: String,
        /// The client that queries it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<IpAddr>,
        /// The TSIG key that signs the query.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// What else decides.
        #[serde(default, skip_serializing_if = "ClientDetails::is_none")]
        details: ClientDetails,
        /// The type; A if it is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rtype: Option<String>,
    },
    /// Reopen the files of the logs and of dnstap.
    LogReopen,
    /// Make server cookies with a new random secret.
    CookiesRotate,
    /// Report how clients discover the encrypted listeners.
    Discovery,
    /// Change the log level.
    LogLevel {
        /// The level, as in the configuration.
        level: String,
    },
    /// Turn the query log on or off.
    LogQueries {
        /// Whether queries are logged.
        on: bool,
        /// The share of queries that is logged, if not all are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<f64>,
    },
    /// Send the listening sockets to the client of this connection, and stop.
    HandOver,
    /// Stop the server.
    Stop,
}

/// Returns a command or a line of an answer as one line of JSON, with its line feed.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn line(content: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(content)?;
    line.push(b'\n');
    Ok(line)
}

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AnswerLine {
    /// A piece of a long output.
    Text {
        /// Whole lines.
        text: String,
    },
    /// The end of a successful answer.
    Done {
        /// Always true.
        ok: True,
        /// The result of the command.
        data: serde_json::Value,
    },
    /// The end of an answer to a failed command.
    Fault {
        /// Always false.
        ok: bool,
        /// The reason.
        error: String,
        /// What was done nevertheless, and the faults in detail.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<serde_json::Value>,
    },
}

/// The literal `true` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct True;

impl Serialize for True {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bool::deserialize(deserializer)? {
            true => Ok(True),
            false => Err(serde::de::Error::custom("expected true")),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn commands_read_back() {
        use ControlCommand as Verb;
        let name = || "a".to_owned();
        let record = || "a 60 A 192.0.2.1".to_owned();
        let all = [
            Verb::Status,
            Verb::Stats,
            Verb::TokenList,
            Verb::Reload { force: true },
            Verb::ZoneList { failed: true },
            Verb::ZoneStatus { name: name() },
            Verb::ZoneReload { name: name(), force: true },
            Verb::ZoneAccept { name: name(), from: AcceptedVersion::File },
            Verb::ZoneAccept { name: name(), from: AcceptedVersion::Journal },
            Verb::ZoneFreeze { name: name() },
            Verb::ZoneThaw { name: name() },
            Verb::ZoneWrite { name: name(), to: None, force: false },
            Verb::ZoneWrite { name: name(), to: Some("f".into()), force: true },
            Verb::ZoneBegin { name: name() },
            Verb::ZoneSet { name: name(), record: record() },
            Verb::ZoneUnset { name: name(), record: record() },
            Verb::ZoneDiff { name: name() },
            Verb::ZoneCommit { name: name() },
            Verb::ZoneAbort { name: name() },
            Verb::ZoneRefresh { name: name() },
            Verb::ZoneRetransfer { name: name() },
            Verb::ZoneNotify { name: name() },
            Verb::ZoneAdd {
                name: name(),
                template: None,
                file: None,
                primaries: Vec::new(),
                catalog: None,
                group: None,
            },
            Verb::ZoneAdd {
                name: name(),
                template: Some("t".into()),
                file: Some("f".into()),
                primaries: vec!["192.0.2.1".into(), "[2001:db8::1]:54 key:k".into()],
                catalog: Some("c".into()),
                group: Some("g".into()),
            },
            Verb::ZoneRemove { name: name() },
            Verb::ZoneDump { name: name() },
            Verb::ZoneSign { name: name() },
            Verb::DelegationList { name: name() },
            Verb::DelegationCheck { name: name(), child: "c.example".into() },
            Verb::KeyList { name: name() },
            Verb::KeyTimeline { name: name() },
            Verb::KeyRoll { name: name(), key: None, role: Some(RolledRole::Zsk), emergency: false },
            Verb::KeyRoll { name: name(), key: Some("7/ED25519".into()), role: None, emergency: true },
            Verb::KeyRetire { name: name(), key: "7".into() },
            Verb::KeyDsPublished { name: name(), key: "7".into() },
            Verb::KeyDsWithdrawn { name: name(), key: "7".into() },
            Verb::KeyExportDs { name: name(), digests: vec![2, 4] },
            Verb::KeyPregenerate { name: name(), until: 7 },
            Verb::KeyRequest { name: name(), from: None, until: None },
            Verb::KeyRequest { name: name(), from: Some(7), until: Some(8) },
            Verb::KeyImportResponse { name: name(), text: "t".into() },
            Verb::Explain {
                name: name(),
                rtype: "A".into(),
                dnssec: false,
                client: None,
                key: None,
                details: ClientDetails::default(),
            },
            Verb::Explain {
                name: name(),
                rtype: "A".into(),
                dnssec: true,
                client: Some([192, 0, 2, 1].into()),
                key: Some(name()),
                details: ClientDetails { edns_tag: Some(7), ..ClientDetails::default() },
            },
            Verb::CacheStats,
            Verb::CacheFlush { name: name(), tree: false, rtype: None },
            Verb::CacheFlush { name: name(), tree: true, rtype: Some("A".into()) },
            Verb::CacheDump,
            Verb::CacheSave { file: None },
            Verb::CacheSave { file: Some("f".into()) },
            Verb::CacheLoad { file: None },
            Verb::CacheLoad { file: Some("f".into()) },
            Verb::ForwardList,
            Verb::ForwardAdd { domain: name(), servers: Vec::new(), stub: false },
            Verb::ForwardAdd {
                domain: name(),
                servers: vec!["192.0.2.1".into(), "quic://dns.example.net@2001:db8::1".into()],
                stub: true,
            },
            Verb::ForwardRemove { domain: name() },
            Verb::EncryptionList,
            Verb::TrustAnchorList,
            Verb::PolicyStatus,
            Verb::PolicyRefresh { list: Some(name()) },
            Verb::PolicyPause { group: name(), time: Some("10m".into()) },
            Verb::PolicyTop { by: TopKind::RuleSource, count: 10, hour: true },
            Verb::LimitsTop { count: 10, hour: true },
            Verb::PolicyTest {
                name: name(),
                client: None,
                key: None,
                details: ClientDetails::default(),
                rtype: None,
            },
            Verb::PolicyTest {
                name: name(),
                client: Some([192, 0, 2, 1].into()),
                key: Some(name()),
                details: ClientDetails { on: Some("192.0.2.53".into()), ..ClientDetails::default() },
                rtype: Some("AAAA".into()),
            },
            Verb::NtaList,
            Verb::NtaAdd { domain: name(), time: "1h".into() },
            Verb::NtaRemove { domain: name() },
            Verb::LogReopen,
            Verb::CookiesRotate,
            Verb::Discovery,
            Verb::LogLevel { level: "debug".into() },
            Verb::LogQueries { on: true, share: None },
            Verb::LogQueries { on: true, share: Some(0.25) },
            Verb::HandOver,
            Verb::Stop,
        ];
        for command in all {
            let text = serde_json::to_string(&command).expect("text");
            assert_eq!(serde_json::from_str::<ControlCommand>(&text).ok(), Some(command), "{text}");
        }
        let plain = serde_json::from_str::<ControlCommand>(r#"{"verb":"reload"}"#);
        assert_eq!(plain.ok(), Some(ControlCommand::Reload { force: false }));
        assert!(
            serde_json::from_str::<ControlCommand>(r#"{"verb":"zone-status","name":"a","nmae":"b"}"#)
                .is_err()
        );
    }

    #[test]
    fn answer_lines_are_told_apart() {
        let fault = AnswerLine::Fault { ok: false, error: "e".into(), data: None };
        let half_done = AnswerLine::Fault { ok: false, error: "e".into(), data: Some(1.into()) };
        let done = AnswerLine::Done { ok: True, data: serde_json::json!({"error": "no"}) };
        for line in [fault, half_done, done, AnswerLine::Text { text: "t".into() }] {
            let text = serde_json::to_string(&line).expect("text");
            assert_eq!(serde_json::from_str::<AnswerLine>(&text).ok(), Some(line));
        }
    }
}
