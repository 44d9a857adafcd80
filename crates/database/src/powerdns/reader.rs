//! [`PowerDnsReader`]: the tables of PowerDNS for an operator's commands. Every call blocks until it has
//! ended.

use tokio::runtime::{Builder, Runtime};
use wire::ZoneName;

use super::known::KnownDomains;
use super::statements::{EDITED, SESSION, TextBytes, for_each, value, within};
use super::tables::{list_domains, read_domains};
use super::zone_rows::DomainRead;
use crate::connect::{Link, LinkUse, ServerPlace, connect_any};
use crate::interface::{ListedZone, ZoneContent, ZoneId};
use crate::settings::DatabaseSettings;

/// Domains that are read together.
const DOMAINS_TOGETHER: usize = 100;

/// A connection to a database with the tables of PowerDNS, for an operator's commands.
pub struct PowerDnsReader {
    runtime: Runtime,
    link: Link,
    place: ServerPlace,
    settings: DatabaseSettings,
    known: KnownDomains,
}

impl PowerDnsReader {
    /// Connects to the first host that can be reached, a replica as well.
    ///
    /// # Errors
    /// Why none can be.
    pub fn connect(settings: DatabaseSettings) -> Result<PowerDnsReader, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| wording::reason(&error))?;
        let (link, place) = runtime.block_on(connect_any(&settings, LinkUse::PowerDns, None))?;
        runtime.block_on(within(link.client.batch_execute(SESSION)))?;
        Ok(PowerDnsReader { runtime, link, place, settings, known: KnownDomains::default() })
    }

    /// The server, for messages.
    pub fn host(&self) -> String {
        self.place.to_string()
    }

    /// The version of the server.
    pub fn server(&self) -> &str {
        &self.link.server
    }

    /// Lists all domains that have zones.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn zones(&mut self) -> Result<Vec<ListedZone>, String> {
        self.runtime.block_on(list_domains(&self.link.client, &mut self.known))?;
        let mut listed = self.known.listed();
        listed.sort_by_key(|zone| zone.id);
        Ok(listed)
    }

    /// Number of domains, when they were last listed, that have no usable name, or that of another one.
    pub fn misnamed(&self) -> u64 {
        self.known.misnamed
    }

    /// Reads the rows of listed zones, and passes each zone to `each`, or why it cannot be served.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn contents(
        &self,
        zones: &[ListedZone],
        each: &mut dyn FnMut(ZoneId, &ZoneName, ZoneContent),
    ) -> Result<(), String> {
        let mut ids: Vec<i64> = zones.iter().map(|zone| zone.id.0).collect();
        ids.sort_unstable();
        for some in ids.chunks(DOMAINS_TOGETHER) {
            let (client, key) = (&self.link.client, &self.settings.key);
            let mut found = Vec::new();
            let mut pass =
                |id, apex: &ZoneName, read: DomainRead| found.push((id, apex.clone(), read.content));
            self.runtime.block_on(read_domains(client, key, &self.known, some, &mut pass))?;
            // Called here, since it may use a runtime of its own.
            found.into_iter().for_each(|(id, apex, content)| each(ZoneId(id), &apex, content));
        }
        Ok(())
    }

    /// Names of domains with the metadata SOA-EDIT, whose serials PowerDNS changes in its answers.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn with_edited_serials(&self) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        let read = for_each(&self.link.client, EDITED, &[], |row| {
            let TextBytes(name) = value(row, 0)?;
            names.push(String::from_utf8_lossy(name).into_owned());
            Ok(())
        });
        self.runtime.block_on(read)?;
        Ok(names)
    }
}
