//! Which database a verb works on: from a configuration, from a URL, or from a file with a URL. Connections
//! to it: [`OpenDatabase`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::database::{
    DatabaseAdmin, DatabaseSettings, DatabaseUrl, ListedZone, PowerDnsReader, SchemaKind, ZoneContent,
};
use config::exit_status::{EXIT_FAULTS, EXIT_OUTSIDE, EXIT_USAGE};
use config::report::exit_code;
use wire::ZoneName;
use wire::hash::HashKey;
use wording::reason;
use zone::Zone;
use zone_manager::database::connection;

use super::Failure;
use super::args::{DatabaseTargetArgs, SchemaWord};

/// Variable with the password of a URL that has none, as the programs of PostgreSQL read it.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";
/// Largest file with a URL, in bytes.
const MAX_URL_FILE: u64 = 16_384;
/// Longest wait for a connection, and for a lock.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Is called with each zone, or why it cannot be served.
pub(super) type OnZone<'a> = &'a mut dyn FnMut(&ZoneName, Result<Arc<Zone>, String>);

/// A database with the tables of nomen or of PowerDNS.
pub(super) enum OpenDatabase {
    Own(DatabaseAdmin),
    PowerDns(PowerDnsReader),
}

/// Connects to the database of the arguments, which has tables of either kind.
///
/// # Errors
/// What is wrong with the arguments, or why there is no connection.
pub(super) fn open(target: &DatabaseTargetArgs, schema: Option<SchemaWord>) -> Result<OpenDatabase, Failure> {
    let settings = settings(target, schema)?;
    let shown = settings.url.to_string();
    let opened = match settings.schema {
        SchemaKind::Own => DatabaseAdmin::connect(settings).map(OpenDatabase::Own),
        SchemaKind::PowerDns => PowerDnsReader::connect(settings).map(OpenDatabase::PowerDns),
    };
    opened.map_err(|fault| no_connection(&shown, &fault))
}

/// Connects to the database of the arguments, which is to have the tables of nomen.
///
/// # Errors
/// As for [`open`]; also if the configuration is of a database with the tables of PowerDNS.
pub(super) fn open_own(target: &DatabaseTargetArgs) -> Result<DatabaseAdmin, Failure> {
    match open(target, None)? {
        OpenDatabase::Own(admin) => Ok(admin),
        OpenDatabase::PowerDns(_) => {
            let message = "nomen: `schema` in [database] is \"powerdns\", whose tables are not changed";
            Err((message.into(), EXIT_FAULTS))
        }
    }
}

/// Connects to the database with the tables of PowerDNS at a URL, with the options of TLS of the target.
///
/// # Errors
/// As for [`open`].
pub(super) fn open_powerdns(target: &DatabaseTargetArgs, url: &str) -> Result<PowerDnsReader, Failure> {
    let settings = of_url(target, url, SchemaKind::PowerDns)?;
    let shown = settings.url.to_string();
    PowerDnsReader::connect(settings).map_err(|fault| no_connection(&shown, &fault))
}

fn no_connection(shown: &str, fault: &str) -> Failure {
    (format!("nomen: cannot connect to {shown}: {fault}"), EXIT_OUTSIDE)
}

impl OpenDatabase {
    /// The server that it is connected to, for messages.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Own(admin) => admin.host(),
            Self::PowerDns(reader) => reader.host(),
        }
    }

    /// Lists all zones.
    pub(super) fn zones(&mut self) -> Result<Vec<ListedZone>, Failure> {
        let listed = match self {
            Self::Own(admin) => admin.is_usable().and_then(|()| admin.zones()),
            Self::PowerDns(reader) => reader.zones(),
        };
        listed.map_err(|fault| (format!("nomen: {fault}"), EXIT_OUTSIDE))
    }

    /// Reads the zones, and passes each to `each`, or why it cannot be served.
    pub(super) fn contents(&self, zones: &[ListedZone], each: OnZone<'_>) -> Result<(), Failure> {
        let outside = |fault: String| (format!("nomen: {fault}"), EXIT_OUTSIDE);
        match self {
            Self::Own(admin) => {
                for listed in zones {
                    // One that was removed meanwhile is left out.
                    if let Some(zone) = admin.zone(listed.id, &listed.apex).map_err(outside)? {
                        each(&listed.apex, zone);
                    }
                }
                Ok(())
            }
            Self::PowerDns(reader) => contents_of(reader, zones, each).map_err(outside),
        }
    }
}

/// Reads zones of PowerDNS.
pub(super) fn contents_of(
    reader: &PowerDnsReader,
    zones: &[ListedZone],
    each: OnZone<'_>,
) -> Result<(), String> {
    reader.contents(zones, &mut |_, apex, content| match content {
        ZoneContent::Whole(zone) => each(apex, Ok(zone)),
        ZoneContent::Unfit(why) => each(apex, Err(why)),
        ZoneContent::Steps(_) => {}
    })
}

fn settings(target: &DatabaseTargetArgs, schema: Option<SchemaWord>) -> Result<DatabaseSettings, Failure> {
    let of_word = schema.map(|schema| match schema {
        SchemaWord::Nomen => SchemaKind::Own,
        SchemaWord::Powerdns => SchemaKind::PowerDns,
    });
    if let Some(url) = &target.url {
        return of_url(target, url, of_word.unwrap_or_default());
    }
    if let Some(file) = &target.url_file {
        let read = zone::regular::read_to_string(file, MAX_URL_FILE).map_err(|fault| {
            (format!("nomen: cannot read {}: {}", file.display(), reason(&fault)), EXIT_OUTSIDE)
        })?;
        let line = read.lines().next().unwrap_or_default().trim();
        return of_url(target, line, of_word.unwrap_or_default());
    }
    let mut accepted = config::read_files(&target.config)
        .map_err(|rejected| (rejected.to_string(), exit_code(&rejected.faults)))?;
    let read = accepted.config.settings.read_named_files();
    read.map_err(|faults| (accepted.sources.render(&faults), exit_code(&faults)))?;
    let Some(section) = &accepted.config.settings.database else {
        let file = target.config.display();
        return Err((format!("nomen: {file} has no [database]; --url names a database"), EXIT_FAULTS));
    };
    let of_section = connection(section, HashKey::random(), None);
    let settings = of_section.map_err(|fault| {
        let faults = [fault];
        (accepted.sources.render(&faults), exit_code(&faults))
    })?;
    Ok(assembled(with_password(settings.url), of_word.unwrap_or(settings.schema), settings.tls))
}

fn of_url(target: &DatabaseTargetArgs, text: &str, schema: SchemaKind) -> Result<DatabaseSettings, Failure> {
    let url = parsed(text)?;
    let has_tls = !target.no_tls && (target.ca_file.is_some() || !url.is_local());
    let tls = has_tls.then(|| client_config(target.ca_file.as_deref())).transpose()?;
    Ok(assembled(url, schema, tls))
}

fn parsed(text: &str) -> Result<DatabaseUrl, Failure> {
    let url = DatabaseUrl::parse(text).map_err(|fault| (format!("nomen: {fault}"), EXIT_USAGE))?;
    Ok(with_password(url))
}

/// Returns a URL with the password of the environment, if it has none.
fn with_password(url: DatabaseUrl) -> DatabaseUrl {
    match std::env::var(PASSWORD_VARIABLE) {
        Ok(password) => url.or_password(&password),
        Err(_) => url,
    }
}

fn client_config(ca_file: Option<&Path>) -> Result<Arc<rustls::ClientConfig>, Failure> {
    tls::verifying_client(ca_file).map_err(|fault| (format!("nomen: {fault}"), EXIT_OUTSIDE))
}

fn assembled(
    url: DatabaseUrl,
    schema: SchemaKind,
    tls: Option<Arc<rustls::ClientConfig>>,
) -> DatabaseSettings {
    DatabaseSettings {
        url,
        schema,
        poll: Duration::from_secs(1),
        node: "command".into(),
        timeout: TIMEOUT,
        keep_changes: Duration::MAX,
        tls,
        key: HashKey::random(),
        hosts: None,
        state: None,
    }
}
