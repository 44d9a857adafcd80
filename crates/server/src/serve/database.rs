//! The connection to the database of `[database]`: its settings, and its start once zones are served.

use std::path::Path;
use std::sync::Arc;

use ::database::{Database, DatabaseSettings};
use config::database::DatabaseSection;
use control::parts::ServerParts;
use journal::RealDisk;
use serving::hosts::PrivateHosts;
use threads::background::Background;
use wire::hash::HashKey;
use zone_manager::changes::Changes;
use zone_manager::database::{ZoneDatabase, connection};
use zone_manager::zones::follower::DatabaseFollower;

use super::{StartFault, outside};

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

/// Starts the connection. The zones in the state folder are in service already.
pub(super) fn start(parts: &ServerParts, mut settings: DatabaseSettings) -> Result<(), StartFault> {
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
    let follower = DatabaseFollower::new(&parts.manager, Arc::clone(changes));
    let database = Database::start(settings, follower)
        .map_err(|fault| outside(format!("cannot start the thread of the database: {fault}")))?;
    zones.connect(database);
    Ok(())
}
