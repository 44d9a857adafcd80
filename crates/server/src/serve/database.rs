//! The connection to the database of `[database]`: its settings, and its start once zones are served; the
//! sections of the configuration that the database has.

use std::path::Path;
use std::sync::Arc;

use ::database::{Database, DatabaseSettings};
use config::Settings;
use config::database::DatabaseSection;
use config::sections::SectionState;
use control::parts::ServerParts;
use journal::RealDisk;
use serving::hosts::PrivateHosts;
use threads::background::Background;
use wire::hash::HashKey;
use zone_manager::changes::Changes;
use zone_manager::database::sections::NodeSections;
use zone_manager::database::{ZoneDatabase, connection};
use zone_manager::zones::follower::{DatabaseFollower, OnSections};

use super::{StartFault, outside};
use crate::config_source::{ConfigSource, DatabaseConfig};

/// Returns the settings of the connection.
pub(super) fn settings(
    section: &DatabaseSection,
    key: HashKey,
    state: Option<&Path>,
) -> Result<DatabaseSettings, StartFault> {
    connection(section, key, state).map_err(|fault| outside(format!("[database]: {}", fault.message)))
}

/// Opens what the state folder has of the zones of the database.
pub(super) fn open(
    state: Option<&Path>,
    changes: Option<&Arc<Changes>>,
    background: &Arc<Background>,
) -> Result<(), StartFault> {
    let (Some(state), Some(changes)) = (state, changes) else {
        return Err(outside("[database] needs a state folder that can be used".into()));
    };
    let zones = ZoneDatabase::open(Arc::new(RealDisk), state, background)
        .map_err(|fault| outside(format!("the zones of the database cannot be stored: {fault}")))?;
    changes.use_database(zones);
    Ok(())
}

/// Opens the sections that the state folder has, which `states` are put into force with. `None` without a
/// database.
pub(super) fn sections(
    settings: &Settings,
    state: Option<&Path>,
    states: Vec<SectionState>,
) -> Option<Arc<NodeSections>> {
    settings.database.as_ref()?;
    let sections = NodeSections::open(state?);
    sections.applied(&sections.kept(), states);
    Some(Arc::new(sections))
}

/// Returns the sections of the database with what they are applied to.
pub(super) fn config_of(parts: &ServerParts, source: &ConfigSource) -> Option<DatabaseConfig> {
    let sections = Arc::clone(parts.sections.as_ref()?);
    Some(DatabaseConfig { sections, tokens: Arc::clone(&parts.tokens), base: source.base() })
}

/// Returns what puts sections of the database into force: tokens at once, others by a reload.
fn on_sections(parts: &ServerParts, source: &ConfigSource) -> OnSections {
    let Some(config) = config_of(parts, source) else { return Box::new(|_, _| {}) };
    let (in_force, manager) = (Arc::clone(&parts.in_force), parts.manager.clone());
    Box::new(move |set, listed| {
        let news = config.sections.take(set, listed);
        if news.tokens {
            config.apply_tokens(&in_force);
        }
        if news.others {
            manager.reload_unheard();
        }
    })
}

/// Starts the connection. The zones in the state folder are in service already.
pub(super) fn start(
    parts: &ServerParts,
    source: &ConfigSource,
    mut settings: DatabaseSettings,
) -> Result<(), StartFault> {
    let Some((changes, zones)) =
        parts.changes.as_ref().and_then(|changes| Some((changes, changes.database()?)))
    else {
        return Ok(());
    };
    let hosts = Arc::new(PrivateHosts::new(parts.recursive.as_ref().map(|recursive| recursive.hosts())));
    settings.hosts = Some(Arc::new(move |host| {
        let hosts = Arc::clone(&hosts);
        Box::pin(async move { hosts.addresses(&host).await })
    }));
    let follower = DatabaseFollower::new(&parts.manager, Arc::clone(changes), on_sections(parts, source));
    let database = Database::start(settings, follower)
        .map_err(|fault| outside(format!("cannot start the thread of the database: {fault}")))?;
    zones.connect(database);
    Ok(())
}
