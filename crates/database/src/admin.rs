//! [`DatabaseAdmin`]: what an operator's commands do with a database: making and migrating the schema,
//! comparing it, reading all zones, and writing zones; sections of the configuration. Every call blocks until
//! it has ended.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{ToSql, Type as SqlType};
use wire::{Serial, ZoneName};
use zone::Zone;

use crate::connect::{Link, LinkUse, ServerPlace, connect_any, fault_text};
use crate::counts::DatabaseNode;
use crate::interface::{
    DatabaseFault, ListedZone, NewZone, RecordedChange, SectionEdit, SectionEvent, SectionSet, ZoneId,
};
use crate::keys::ZoneKeySet;
use crate::queue::{MOST_GROUP_RECORDS, MOST_IN_GROUP};
use crate::read;
use crate::schema;
use crate::sections;
use crate::settings::DatabaseSettings;
use crate::write::{WriteFault, Writer, create_small, random_tag};

/// A connection for an operator's commands.
pub struct DatabaseAdmin {
    runtime: Runtime,
    link: Link,
    place: ServerPlace,
    settings: DatabaseSettings,
}

/// What a comparison of the schema has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaReport {
    /// Its version; `None`: there are no tables of nomen.
    pub version: Option<i32>,
    /// What differs from the schema that this program knows.
    pub differences: Vec<String>,
}

impl DatabaseAdmin {
    /// Connects to the first host that accepts writes.
    ///
    /// # Errors
    /// Why none does.
    pub fn connect(settings: DatabaseSettings) -> Result<DatabaseAdmin, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| wording::reason(&error))?;
        let (link, place) = runtime.block_on(connect_any(&settings, LinkUse::Admin, None))?;
        Ok(DatabaseAdmin { runtime, link, place, settings })
    }

    /// The server, for messages.
    pub fn host(&self) -> String {
        self.place.to_string()
    }

    /// The version of the server.
    pub fn server(&self) -> &str {
        &self.link.server
    }

    /// Makes the schema, or migrates one that is there. Returns the versions before and after; before it
    /// was made it is 0.
    ///
    /// # Errors
    /// What the server says, such as about privileges. Nothing is half made.
    pub fn init(&self) -> Result<(i32, i32), String> {
        self.runtime.block_on(schema::migrate(&self.link.client, true))
    }

    /// Migrates the schema. Returns the versions before and after.
    ///
    /// # Errors
    /// As [`init`](Self::init); also if there is none.
    pub fn migrate(&self) -> Result<(i32, i32), String> {
        self.runtime.block_on(schema::migrate(&self.link.client, false))
    }

    /// Gives a role the privileges that nodes need, on the tables of later versions as well.
    ///
    /// # Errors
    /// What the server says, such as that there is no such role.
    pub fn grant(&self, role: &str) -> Result<(), String> {
        let role = format!("\"{}\"", role.replace('"', "\"\""));
        let rights = "SELECT, INSERT, UPDATE, DELETE";
        let grant = format!(
            "GRANT USAGE ON SCHEMA nomen TO {role}; GRANT {rights} ON ALL TABLES IN SCHEMA nomen TO {role}; \
             ALTER DEFAULT PRIVILEGES IN SCHEMA nomen GRANT {rights} ON TABLES TO {role}"
        );
        let done = self.runtime.block_on(self.link.client.batch_execute(&grant));
        done.map_err(|fault| fault_text(&fault))
    }

    /// The number of the last change.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn last_change(&self) -> Result<i64, String> {
        let row = self.link.client.query_typed_one("SELECT last_change FROM nomen.about", &[]);
        let row = self.runtime.block_on(row).map_err(|fault| fault_text(&fault))?;
        row.try_get(0).map_err(|fault| fault_text(&fault))
    }

    /// Privileges of a node that this role lacks.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn missing_privileges(&self) -> Result<Vec<String>, String> {
        self.runtime.block_on(schema::missing_privileges(&self.link.client))
    }

    /// Compares the schema with the one that this program knows.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn compare_schema(&self) -> Result<SchemaReport, String> {
        self.runtime.block_on(async {
            match schema::version(&self.link.client).await? {
                schema::Found::None => Ok(SchemaReport { version: None, differences: Vec::new() }),
                schema::Found::Version(version) => {
                    let differences = schema::differences(&self.link.client).await?;
                    Ok(SchemaReport { version: Some(version), differences })
                }
            }
        })
    }

    /// Checks that a node could use the schema.
    ///
    /// # Errors
    /// Why it could not, and what to do.
    pub fn is_usable(&self) -> Result<(), String> {
        self.runtime.block_on(schema::is_usable(&self.link.client))
    }

    /// Reads the list of all zones.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn zones(&self) -> Result<Vec<ListedZone>, String> {
        let listing = self.runtime.block_on(read::listing(&self.link.client));
        listing.map(|listing| listing.zones).map_err(|fault| fault.0)
    }

    /// Reads a zone; `None` if it is gone, and the reason if its records are no zone.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn zone(&self, id: ZoneId, apex: &ZoneName) -> Result<Option<Result<Arc<Zone>, String>>, String> {
        let read = read::whole_zone(&self.link.client, &self.settings.key, id, apex);
        self.runtime.block_on(read).map_err(|fault| fault.0)
    }

    /// Reads the table of nodes.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn nodes(&self) -> Result<Vec<DatabaseNode>, String> {
        self.runtime.block_on(read::nodes(&self.link.client)).map_err(|fault| fault.0)
    }

    /// Reads the last changes of a zone, the newest first.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn history(&self, zone: ZoneId, most: usize) -> Result<Vec<RecordedChange>, String> {
        self.runtime.block_on(read::history(&self.link.client, zone, most)).map_err(|fault| fault.0)
    }

    /// Creates zones, all in one transaction but for large ones. Returns the number of each; `None` where
    /// there is a zone of that name already.
    ///
    /// # Errors
    /// What the server says. No zone is created then, except for large ones.
    pub fn create(&self, zones: &[NewZone]) -> Result<Vec<Option<ZoneId>>, DatabaseFault> {
        self.runtime.block_on(async {
            let writer = self.writer().await?;
            let mut made = vec![None; zones.len()];
            let (client, node, tag) = (&self.link.client, &*self.settings.node, random_tag());
            writer.begin().await.map_err(fault)?;
            let small = async {
                let mut left = (0..zones.len()).filter(|at| !is_large(&zones[*at])).peekable();
                while left.peek().is_some() {
                    // As many as go into one statement.
                    let mut records = 0;
                    let mut places = Vec::new();
                    while let Some(at) = left.next_if(|at| {
                        records += zones[*at].content.record_count();
                        places.is_empty() || places.len() < MOST_IN_GROUP && records <= MOST_GROUP_RECORDS
                    }) {
                        places.push(at);
                    }
                    let part: Vec<&NewZone> = places.iter().map(|at| &zones[*at]).collect();
                    let created = create_small(client, &part, node, tag).await;
                    let created = created.map_err(|fault| WriteFault::of(&self.link, &fault))?;
                    for (at, id) in places.into_iter().zip(created) {
                        made[at] = id;
                    }
                }
                Ok(())
            };
            writer.finish(small.await).await.map_err(fault)?;
            for (zone, made) in zones.iter().zip(&mut made) {
                if is_large(zone) {
                    *made = writer.create(zone, random_tag()).await.map_err(fault)?;
                }
            }
            Ok(made)
        })
    }

    /// Creates a zone with the keys that the nodes are to sign it with; `None` if there is a zone of that
    /// name already.
    ///
    /// # Errors
    /// What the server says. Nothing is created then.
    pub fn create_with_keys(
        &self,
        zone: &NewZone,
        keys: &ZoneKeySet,
    ) -> Result<Option<ZoneId>, DatabaseFault> {
        self.runtime.block_on(async {
            let writer = self.writer().await?;
            writer.create_with_keys(zone, keys, random_tag()).await.map_err(fault)
        })
    }

    /// Replaces all records of a zone. `before` is the serial that it must have; `None`: any.
    ///
    /// # Errors
    /// [`DatabaseFault::Gone`]; [`DatabaseFault::Refused`] if the zone has another serial; what the server
    /// says.
    pub fn replace(
        &self,
        zone: ZoneId,
        before: Option<Serial>,
        content: &Zone,
        author: &str,
    ) -> Result<(), DatabaseFault> {
        self.runtime.block_on(async {
            let before = before.map(|serial| i64::from(serial.0));
            let writer = self.writer().await?;
            match writer.replace(zone, before, content, None, author, random_tag()).await.map_err(fault)? {
                crate::write::Outcome::Committed => Ok(()),
                crate::write::Outcome::Gone => Err(DatabaseFault::Gone),
                crate::write::Outcome::Conflict => {
                    Err(DatabaseFault::Refused("it has another serial: it was changed meanwhile".into()))
                }
            }
        })
    }

    /// Whether the nodes sign a zone: the database has keys of it, and its records have them.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_signed_by_nodes(&self, zone: ZoneId) -> Result<bool, String> {
        let query = "SELECT EXISTS (SELECT FROM nomen.keys k WHERE k.zone = $1) AND \
            EXISTS (SELECT FROM nomen.rrsets r WHERE r.zone = $1 AND r.type = 'DNSKEY')";
        let parameters: [(&(dyn ToSql + Sync), SqlType); 1] = [(&zone.0, SqlType::INT8)];
        let row = self.runtime.block_on(self.link.client.query_typed_one(query, &parameters));
        row.and_then(|row| row.try_get(0)).map_err(|fault| fault_text(&fault))
    }

    /// Removes a zone.
    ///
    /// # Errors
    /// [`DatabaseFault::Gone`]; what the server says.
    pub fn remove(&self, zone: ZoneId, author: &str) -> Result<(), DatabaseFault> {
        self.runtime.block_on(async {
            let removed = self.writer().await?.remove(zone, author, random_tag()).await.map_err(fault)?;
            if removed { Ok(()) } else { Err(DatabaseFault::Gone) }
        })
    }

    /// Sets the template of a zone; `None`: the default one.
    ///
    /// # Errors
    /// [`DatabaseFault::Gone`]; what the server says.
    pub fn set_template(
        &self,
        zone: ZoneId,
        template: Option<&str>,
        author: &str,
    ) -> Result<(), DatabaseFault> {
        self.runtime.block_on(async {
            let row = self
                .link
                .client
                .query_typed_one(
                    "SELECT nomen.set_template($1, $2, $3, $4, $5)",
                    &[
                        (&zone.0, SqlType::INT8),
                        (&template, SqlType::TEXT),
                        (&author, SqlType::TEXT),
                        (&self.settings.node, SqlType::TEXT),
                        (&random_tag(), SqlType::INT8),
                    ],
                )
                .await
                .map_err(|wrong| fault(WriteFault::of(&self.link, &wrong)))?;
            let number: Option<i64> =
                row.try_get(0).map_err(|wrong| DatabaseFault::Unclear(fault_text(&wrong)))?;
            number.map(|_| ()).ok_or(DatabaseFault::Gone)
        })
    }

    /// Reads all sections of the configuration.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn sections(&self) -> Result<SectionSet, String> {
        self.runtime.block_on(sections::sections(&self.link.client)).map_err(|fault| fault.0)
    }

    /// Sets and removes sections, all or none of them. Returns how many of them differed; `None` if sections
    /// have changed after the number `seen`, and nothing was done.
    ///
    /// # Errors
    /// What the server says. Nothing was done then, unless it is unclear.
    pub fn change_sections(
        &self,
        edits: &[SectionEdit],
        seen: Option<i64>,
        author: &str,
    ) -> Result<Option<u64>, DatabaseFault> {
        let changed = sections::change(&self.link, edits, seen, (author, &self.settings.node));
        self.runtime.block_on(changed).map_err(fault)
    }

    /// Reads the last changes of sections, the newest first; of those of a kind, or of one with a name.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn section_history(
        &self,
        kind: Option<&str>,
        name: Option<&str>,
        most: usize,
    ) -> Result<Vec<SectionEvent>, String> {
        let read = sections::history(&self.link.client, kind, name, most);
        self.runtime.block_on(read).map_err(|fault| fault.0)
    }

    async fn writer(&self) -> Result<Writer<'_>, DatabaseFault> {
        let writer = Writer::new(&self.link, &self.settings.node, self.settings.timeout).await;
        writer.map_err(DatabaseFault::Unavailable)
    }
}

/// Whether a zone is created in a transaction of its own.
fn is_large(zone: &NewZone) -> bool {
    zone.content.record_count() > MOST_GROUP_RECORDS
}

/// The fault of a statement for the caller.
fn fault(fault: WriteFault) -> DatabaseFault {
    match fault {
        WriteFault::Lost(why) => DatabaseFault::Unclear(why),
        WriteFault::Refused(why) => DatabaseFault::Refused(why),
        WriteFault::Useless(why) | WriteFault::NotMade(why) | WriteFault::Again(why) => {
            DatabaseFault::Unavailable(why)
        }
    }
}
