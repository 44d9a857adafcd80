//! `[database]`: the PostgreSQL database in which zones have their truth.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;
use wording::{did_you_mean, reason};

use super::dnssec_policy::DnssecPolicies;
use super::machine::host_name;
use super::report::Diagnostic;
use super::server::ServerSection;
use super::signing::{effective, policy_of};
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Time, Value, Word, quote};
use super::zones::Templates;

/// Beginnings of a URL of PostgreSQL.
const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];
/// Largest file with a URL, in bytes.
const MAX_URL_FILE: u64 = 16_384;
/// Most bytes of the name of a node.
const MAX_NODE_NAME: usize = 255;
/// Default of `poll` for each schema.
const POLL: Duration = Duration::from_secs(1);
const POLL_POWERDNS: Duration = Duration::from_secs(10);

keys! {
    /// Zones from a PostgreSQL database, which many nodes share. The section's presence turns it on. No query
    /// waits for the database: a node has all zones in memory and in `state-dir`, follows the changes of the
    /// others, and starts and answers without the database. [DATABASE.md](DATABASE.md) explains it.
    pub struct DatabaseSection in "[database]" {
        /// URL of the database, with user and password. Several hosts are tried in their order; the first one
        /// that takes writes is used. This or `url-file` must be set.
        restart "url" url: Option<PostgresUrl> = None,
            example "postgresql://nomen@db1.example.com,db2.example.com/nomen";
        /// File whose first line is the URL, so that the configuration has no password. It is read at the
        /// start.
        restart "url-file" url_file: Option<UrlFile> = None, example "/etc/nomen/database-url";
        /// Tables of the zones: "nomen" for those of `nomen database init`, "powerdns" for those of the
        /// gpgsql backend of PowerDNS, which are read and never written.
        restart "schema" schema: DatabaseSchema = DatabaseSchema::Nomen, example "powerdns";
        /// Template (`[template.X]`) of zones for which the database names none. Unset: such zones have the
        /// default of every key.
        live "template" template: Option<String> = None, example "customers";
        /// How often a node asks for changes of which it got no notification. Unset: 1 s, and 10 s with
        /// `schema = "powerdns"`, which has no notifications.
        restart "poll" poll: Option<Time<100, 3_600_000>> = None, example "5s";
        /// Name of this node in the table of nodes. Unset: the host's name.
        restart "node" node: Option<String> = None, example "ns1";
        /// Whether connections use TLS; the certificate must be valid for the host. Unset: with hosts other
        /// than Unix sockets and loopback addresses.
        restart "tls" tls: Option<bool> = None, example true;
        /// PEM file with the certificates of the authorities that may have issued the database's certificate.
        /// Unset: the authorities that the system trusts.
        restart "ca-file" ca_file: Option<PathBuf> = None, example "/etc/ssl/company-ca.pem";
        /// Longest time for a connection, a statement or a commit. A change that takes
        /// longer, or that other nodes overtake for this long, is refused.
        restart "timeout" timeout: Time<100, 600_000> = Time::secs(5), example "2s";
        /// How long the database keeps changes. A node that was away for longer reads the zones that have
        /// changed as a whole.
        restart "keep-changes" keep_changes: Time<60_000, 31_536_000_000> = Time::secs(604_800), example "30d";
    }
}

/// The tables in which a database has zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseSchema {
    /// Those of nomen.
    Nomen,
    /// Those of the gpgsql backend of PowerDNS.
    PowerDns,
}

impl Word for DatabaseSchema {
    const WORDS: &'static [(&'static str, Self)] = &[("nomen", Self::Nomen), ("powerdns", Self::PowerDns)];
}

/// The URL of a database. It may have a password, and is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    /// Returns the text, with its password.
    pub fn text(&self) -> &str {
        &self.0
    }

    fn new(text: &str) -> Result<Self, String> {
        match SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            true => Ok(PostgresUrl(text.to_owned())),
            false => Err("the URL of a database begins with `postgresql://`".into()),
        }
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresUrl")
    }
}

impl Value for PostgresUrl {
    fn kind() -> String {
        "URL".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a URL such as \"postgresql://nomen@db.example.com/nomen\"", PostgresUrl::new)
    }
    fn render(&self) -> Option<String> {
        Some(quote("hidden"))
    }
}

/// A file with the URL of a database, and what was read from it.
#[derive(Debug, Clone, PartialEq)]
pub struct UrlFile {
    path: PathBuf,
    /// `None` until the file is read.
    read: Option<PostgresUrl>,
}

impl Value for UrlFile {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        PathBuf::read(node, reader).map(|path| UrlFile { path, read: None })
    }
    fn render(&self) -> Option<String> {
        self.path.render()
    }
}

impl DatabaseSection {
    /// Returns the URL; `None` if its file was not read.
    pub fn location(&self) -> Option<&PostgresUrl> {
        let of_file = || self.url_file.value.as_ref()?.read.as_ref();
        self.url.value.as_ref().or_else(of_file)
    }

    /// Returns the interval of asking for changes.
    pub fn poll(&self) -> Duration {
        let unset = match self.schema.value {
            DatabaseSchema::Nomen => POLL,
            DatabaseSchema::PowerDns => POLL_POWERDNS,
        };
        self.poll.value.map_or(unset, |poll| poll.0)
    }

    /// Returns the name of this node.
    pub fn node_name(&self) -> String {
        self.node.value.clone().unwrap_or_else(|| host_name(MAX_NODE_NAME))
    }

    /// Returns the files that it names.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let url = self.url_file.value.as_ref().map(|file| file.path.clone());
        url.into_iter().chain(self.ca_file.value.clone())
    }

    /// Reads the file of the URL.
    pub(crate) fn read_file(&mut self) -> Option<Diagnostic> {
        let place = self.url_file.place.clone();
        let file = self.url_file.value.as_mut()?;
        let shown = file.path.display();
        let read = zone::regular::read_to_string(&file.path, MAX_URL_FILE)
            .map_err(|fault| format!("cannot read {shown}: {}", reason(&fault)))
            .and_then(|text| {
                let line = text.lines().next().unwrap_or_default().trim();
                PostgresUrl::new(line).map_err(|fault| format!("{shown}:1:1: {fault}"))
            });
        match read {
            Ok(url) => {
                file.read = Some(url);
                None
            }
            Err(fault) => Some(Diagnostic::at(place.as_ref(), fault).outside()),
        }
    }
}

/// Reports a missing URL or state folder, and templates that do not fit.
pub(super) fn check(
    database: Option<&At<DatabaseSection>>,
    server: &ServerSection,
    (templates, policies): (&Templates, &DnssecPolicies),
    faults: &mut Vec<Diagnostic>,
) {
    let Some(database) = database else { return };
    match (database.url.is_some(), database.url_file.is_some()) {
        (true, true) => {
            let message = "`url` and `url-file` exclude each other";
            let fault = Diagnostic::at(database.url_file.place.as_ref(), message);
            faults.push(fault.also(database.url.place.as_ref(), "the other one"));
        }
        (false, false) => {
            let message = "[database] needs the key `url` or `url-file`";
            let hint = "for example `url = \"postgresql://nomen@localhost/nomen\"`";
            faults.push(Diagnostic::at(database.place.as_ref(), message).hint(hint));
        }
        _ => {}
    }
    if server.storage.folder().is_none() {
        let message = "[database] needs a state folder, from which zones are served without the database";
        faults.push(Diagnostic::at(database.place.as_ref(), message).hint("set `state-dir` in [server]"));
    }
    if database.tls.value == Some(false) && database.ca_file.is_some() {
        let message = "`ca-file` has no effect without TLS";
        faults.push(Diagnostic::at(database.ca_file.place.as_ref(), message));
    }
    let Some(name) = database.template.value.as_deref() else { return };
    if let Some(template) = templates.get(name) {
        let is_read_only = database.schema.value == DatabaseSchema::PowerDns;
        if is_read_only && policy_of(&template.signing, None).is_some() {
            let message = "zones of PowerDNS's tables are not signed here: `dnssec-policy` of their template";
            let fault = Diagnostic::at(template.signing.policy.place.as_ref(), message);
            let hint = "nomen reads these tables only; `schema = \"nomen\"` has zones that nomen signs";
            faults.push(fault.hint(hint).also(database.template.place.as_ref(), "their template"));
        }
        let policy = effective(&template.signing, None).and_then(|(name, _)| policies.get(name));
        if let Some(online) = policy.map(|policy| &policy.online).filter(|online| online.is_some()) {
            let message =
                "zones of a database are signed beforehand: `online` of their policy is not possible";
            let fault = Diagnostic::at(online.place.as_ref(), message);
            faults.push(fault.also(database.template.place.as_ref(), "their template"));
        }
    } else {
        let message = format!("there is no template `{name}`");
        let hint = match did_you_mean(name, templates.keys().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("define [template.{name}]"),
        };
        faults.push(Diagnostic::at(database.template.place.as_ref(), message).hint(hint));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::read_text;

    fn section(keys: &str) -> DatabaseSection {
        let text = format!("[server]\nstate-dir = \"s\"\n[database]\n{keys}\n");
        let config = read_text("test", text, Path::new("/")).expect("good").config;
        config.settings.database.expect("a section").value
    }

    #[test]
    fn a_url_is_never_printed() {
        let section = section("url = \"postgresql://nomen:geheim@db/nomen\"");
        assert_eq!(section.location().expect("a URL").text(), "postgresql://nomen:geheim@db/nomen");
        let shown = section.url.value.as_ref().and_then(Value::render).expect("a value");
        assert!(!shown.contains("geheim") && !format!("{section:?}").contains("geheim"), "{shown}");
    }

    #[test]
    fn a_template_for_zones_of_the_database_needs_no_source() {
        let template = "[template.t]\nallow-transfer = [\"any\"]\n";
        let section = section(&format!("url = \"postgres://a@b/c\"\ntemplate = \"t\"\n{template}"));
        assert_eq!(section.template.value.as_deref(), Some("t"));
    }

    #[test]
    fn zones_are_signed_that_nomen_may_change() {
        let check = |schema: &str| {
            let text = format!(
                "[server]\nstate-dir = \"s\"\n[database]\nurl = \"postgres://a@b/c\"\ntemplate = \"t\"\n\
                 schema = \"{schema}\"\n[template.t]\ndnssec-policy = \"default\"\n"
            );
            match read_text("test", text, Path::new("/")) {
                Ok(_) => Vec::new(),
                Err(rejected) => rejected.faults.iter().map(|fault| fault.message.clone()).collect(),
            }
        };
        assert_eq!(check("nomen"), Vec::<String>::new());
        let faults = check("powerdns");
        assert!(
            faults.len() == 1 && faults[0].contains("PowerDNS's tables are not signed here"),
            "{faults:?}"
        );
    }

    #[test]
    fn answers_of_a_database_are_not_signed() {
        let text = "[server]\nstate-dir = \"s\"\n[database]\nurl = \"postgres://a@b/c\"\ntemplate = \"t\"\n\
            [template.t]\ndnssec-policy = \"own\"\n[dnssec-policy.own]\nonline = \"compact\"\n";
        let rejected = read_text("test", text.to_owned(), Path::new("/")).expect_err("a fault");
        let faults: Vec<String> = rejected.faults.iter().map(|fault| fault.message.clone()).collect();
        assert!(faults.len() == 1 && faults[0].contains("`online` of their policy"), "{faults:?}");
    }

    #[test]
    fn the_interval_of_asking_depends_on_the_schema() {
        let url = "url = \"postgresql://db/nomen\"";
        assert_eq!(section(url).poll(), Duration::from_secs(1));
        assert_eq!(section(&format!("{url}\nschema = \"powerdns\"")).poll(), Duration::from_secs(10));
        assert_eq!(section(&format!("{url}\npoll = \"3s\"")).poll(), Duration::from_secs(3));
    }

    #[test]
    fn the_first_line_of_a_file_is_the_url() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("url");
        let mut section = section(&format!("url-file = \"{}\"", path.display()));
        let fault = section.read_file().expect("a fault");
        assert!(fault.message.contains("cannot read"), "{}", fault.message);
        std::fs::write(&path, "db.example.com\n").expect("written");
        let fault = section.read_file().expect("a fault");
        assert!(fault.message.contains(":1:1: the URL of a database begins with"), "{}", fault.message);
        std::fs::write(&path, "postgres://nomen@db/nomen\nmore\n").expect("written");
        assert!(section.read_file().is_none());
        assert_eq!(section.location().map(PostgresUrl::text), Some("postgres://nomen@db/nomen"));
    }
}
