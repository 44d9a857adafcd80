//! The node that signs: the one whose session holds an advisory lock. It maintains keys and signatures of all
//! zones. When its session ends, another node takes the lock within `poll`.
//!
//! The lock saves work, and nothing depends on it: commits name the serial and the version of the keys that
//! they were decided with, so a node that takes itself for the one that signs can change nothing that another
//! node has changed meanwhile.

use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type as SqlType};
use tracing::{debug, info};

use crate::connect::Link;
use crate::read::ReadFault;
use crate::schema::{LOCK_CONDITION, SIGNER_LOCK};
use crate::shared::Shared;

/// Has a session end soon after its node does not answer any more, so that its lock is free.
const PROBES: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
/// A node that signs and has not reported for this long does not run: its session is ended.
const LONGEST_SILENCE: &str = "300 seconds";

/// Whether this session holds the lock. Dropping it notes that it is lost.
pub(crate) struct SignerLock<'s> {
    shared: &'s Arc<Shared>,
    is_held: bool,
}

impl<'s> SignerLock<'s> {
    pub(crate) fn new(shared: &'s Arc<Shared>) -> SignerLock<'s> {
        SignerLock { shared, is_held: false }
    }

    /// Takes the lock if it is free and this node has zones to sign, and gives it back if it has none.
    pub(crate) async fn keep(&mut self, link: &Link) -> Result<(), ReadFault> {
        let is_wanted = self.shared.sink.has_zones_to_sign();
        match (self.is_held, is_wanted) {
            (false, true) => self.take(link).await,
            (true, false) => {
                self.set(false);
                link.client.query_typed("SELECT pg_advisory_unlock($1)", LOCK).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn take(&mut self, link: &Link) -> Result<(), ReadFault> {
        let row = link.client.query_typed_one("SELECT pg_try_advisory_lock($1)", LOCK).await?;
        if !row.try_get::<_, bool>(0)? {
            end_silent_one(link).await;
            return Ok(());
        }
        let note = "INSERT INTO nomen.signer (node, session) VALUES ($1, pg_backend_pid()) \
            ON CONFLICT (singleton) DO UPDATE SET node = excluded.node, session = excluded.session, \
            since = clock_timestamp()";
        let node: [(&(dyn ToSql + Sync), SqlType); 1] = [(&self.shared.settings.node, SqlType::TEXT)];
        link.client.query_typed(note, &node).await?;
        link.client.batch_execute(PROBES).await?;
        info!("this node maintains the keys and signatures of the zones of the database from now on");
        self.set(true);
        Ok(())
    }

    fn set(&mut self, is_held: bool) {
        self.is_held = is_held;
        self.shared.note(|status| status.signs = is_held);
        self.shared.sink.signs(is_held);
    }
}

impl Drop for SignerLock<'_> {
    fn drop(&mut self) {
        if self.is_held {
            info!("this node no longer maintains the keys and signatures of the zones of the database");
            self.set(false);
        }
    }
}

/// The parameter of the functions of locks.
const LOCK: &[(&(dyn ToSql + Sync), SqlType)] = &[(&SIGNER_LOCK, SqlType::INT8)];

/// Ends the session that holds the lock if its node has not reported for long. Without the privilege for
/// that, the session stays.
async fn end_silent_one(link: &Link) {
    let end = format!(
        "SELECT pg_terminate_backend(s.session), s.node FROM nomen.signer s \
         JOIN pg_locks l ON l.pid = s.session AND {LOCK_CONDITION} \
         JOIN nomen.nodes n ON n.name = s.node AND n.seen < clock_timestamp() - interval '{LONGEST_SILENCE}'"
    );
    match link.client.query_typed(&end, &[]).await {
        Ok(rows) if rows.is_empty() => {}
        Ok(_) => info!("the node that signs has not reported for {LONGEST_SILENCE}: its session is ended"),
        Err(fault) => debug!("the session of a silent node is not ended: {fault}"),
    }
}
