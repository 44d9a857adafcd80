//! Follows PowerDNS's tables over one connection after the other: [`PowerDnsFollower`].

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::Client;
use tracing::warn;
use wire::ZoneName;

use super::known::{DomainChanges, KnownDomains};
use super::statements::{
    ADDED_TO, LAST_RECORD, POSITION, PROBE, SESSION, SUMS, for_each, sum_row, value, within,
};
use super::tables::{DOMAINS_AT_ONCE, list_domains, read_domains};
use super::zone_rows::DomainRead;
use crate::interface::{ListedZone, ZoneContent, ZoneId};
use crate::queue::Reading;
use crate::shared::Shared;

/// How often the sums of all rows are compared.
const SUMS_EVERY: Duration = Duration::from_secs(600);

/// How far a server is: the bytes of its log that it has, and which cluster it is of.
struct ClusterPosition {
    cluster: String,
    is_replica: bool,
    bytes: i128,
}

/// Follows the tables. Outlives connections: after a new one only what differs is read.
pub(super) struct PowerDnsFollower {
    shared: Arc<Shared>,
    known: KnownDomains,
    last_record: i64,
    summed: Option<Instant>,
    position: Option<ClusterPosition>,
    /// Domains without a usable name, as last logged.
    misnamed: u64,
}

impl PowerDnsFollower {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let (shared, known) = (Arc::clone(shared), KnownDomains::default());
        let (last_record, summed, position, misnamed) = (0, None, None, 0);
        PowerDnsFollower { shared, known, last_record, summed, position, misnamed }
    }

    /// Follows the tables until the connection fails. `is_current` is called when all was read once.
    ///
    /// # Returns
    /// Why following ended.
    pub(super) async fn follow(&mut self, client: &Client, is_current: impl FnOnce()) -> String {
        match self.rounds(client, is_current).await {
            Ok(never) => match never {},
            Err(why) => why,
        }
    }

    /// Prepares the session, and checks that the server can be used.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) async fn check(&mut self, client: &Client) -> Result<(), String> {
        within(client.batch_execute(SESSION)).await?;
        self.check_position(client).await?;
        for_each(client, PROBE, &[], |_| Ok(())).await
    }

    async fn rounds(
        &mut self,
        client: &Client,
        is_current: impl FnOnce(),
    ) -> Result<std::convert::Infallible, String> {
        let (shared, mut is_current) = (Arc::clone(&self.shared), Some(is_current));
        loop {
            let begun = Instant::now();
            self.round(client, is_current.is_some()).await?;
            if let Some(is_current) = is_current.take() {
                is_current();
            }
            // A round that takes long is not followed by the next one at once.
            let next = tokio::time::sleep(shared.settings.poll.max(begun.elapsed()));
            let mut next = std::pin::pin!(next);
            loop {
                while let Some(reading) = shared.queue.take_reading() {
                    if let Reading::Fetch(id, _) = reading {
                        self.known.touch(id.0);
                    }
                }
                self.read_due(client).await?;
                tokio::select! {
                    () = &mut next => break,
                    () = shared.queue.has_reading.notified() => {}
                }
            }
        }
    }

    /// Lists all domains, and reads those that changed.
    async fn round(&mut self, client: &Client, is_first: bool) -> Result<(), String> {
        let at = SystemTime::now();
        self.check_position(client).await?;
        let mut last_record = self.last_record;
        for_each(client, LAST_RECORD, &[], |row| value(row, 0).map(|last| last_record = last)).await?;
        let changes = list_domains(client, &mut self.known).await?;
        match is_first {
            true => self.list_all().await?,
            false => self.pass(changes).await?,
        }
        if !is_first && last_record > self.last_record {
            let known = &mut self.known;
            for_each(client, ADDED_TO, &[&self.last_record], |row| {
                known.touch(value(row, 0)?);
                Ok(())
            })
            .await?;
        }
        self.last_record = last_record;
        if is_first || self.summed.is_none_or(|summed| summed.elapsed() >= SUMS_EVERY) {
            self.compare_sums(client).await?;
        }
        self.read_due(client).await?;
        self.report_round(at);
        Ok(())
    }

    /// Checks that the server is not behind what this node has read: a replica that lags, after a change of
    /// hosts, would bring back older versions.
    async fn check_position(&mut self, client: &Client) -> Result<(), String> {
        let mut found = None;
        // A server that has no such functions, or does not allow them, is taken as it is.
        let asked = for_each(client, POSITION, &[], |row| {
            let (cluster, is_replica) = (value(row, 0)?, value(row, 1)?);
            let bytes: String = value(row, 2)?;
            let bytes = bytes.parse().map_err(|_| "a position that is no number".to_owned())?;
            found = Some(ClusterPosition { cluster, is_replica, bytes });
            Ok(())
        });
        if asked.await.is_err() {
            return Ok(());
        }
        if let (Some(found), Some(had)) = (&found, &self.position)
            && found.is_replica
            && found.cluster == had.cluster
            && found.bytes < had.bytes
        {
            let bytes = had.bytes - found.bytes;
            return Err(format!("the replica is {bytes} bytes of log behind what this node has read before"));
        }
        self.position = found.or(self.position.take());
        Ok(())
    }

    /// Hands all domains over; those whose serial at hand is another one are to be read.
    async fn list_all(&mut self) -> Result<(), String> {
        let listed = self.known.listed();
        let ids: Vec<ZoneId> = listed.iter().map(|zone| zone.id).collect();
        let sink = Arc::clone(&self.shared.sink);
        let serials = blocking(move || sink.listed(listed)).await?;
        for (id, serial) in ids.into_iter().zip(serials) {
            self.known.at_hand(id, serial);
        }
        Ok(())
    }

    /// Hands over what was created and removed.
    async fn pass(&self, changes: DomainChanges) -> Result<(), String> {
        if changes.created.is_empty() && changes.removed.is_empty() {
            return Ok(());
        }
        let sink = Arc::clone(&self.shared.sink);
        blocking(move || {
            for (id, apex) in changes.removed {
                sink.removed(id, &apex);
            }
            changes.created.into_iter().for_each(|zone: ListedZone| sink.created(zone));
        })
        .await
    }

    async fn compare_sums(&mut self, client: &Client) -> Result<(), String> {
        self.known.begin_sums();
        let known = &mut self.known;
        for_each(client, SUMS, &[], |row| {
            let (id, sum) = sum_row(row)?;
            known.compare(id, sum);
            Ok(())
        })
        .await?;
        self.known.end_sums();
        self.summed = Some(Instant::now());
        Ok(())
    }

    /// Reads all domains that are due.
    async fn read_due(&mut self, client: &Client) -> Result<(), String> {
        let due = self.known.due();
        for (at, some) in due.chunks(DOMAINS_AT_ONCE).enumerate() {
            let unread = (due.len() - at * DOMAINS_AT_ONCE) as u64;
            self.shared.note(|status| status.unread = unread);
            self.read(client, some).await?;
        }
        self.shared.note(|status| status.unread = 0);
        Ok(())
    }

    /// Reads the rows of some domains, and passes each zone on.
    async fn read(&mut self, client: &Client, ids: &[i64]) -> Result<(), String> {
        let (counts, sink) = (&self.shared.counts, &self.shared.sink);
        let mut read = Vec::new();
        let mut pass = |id: i64, apex: &ZoneName, DomainRead { content, sum }: DomainRead| {
            counts.zones_read.fetch_add(1, Relaxed);
            let serial = match &content {
                ZoneContent::Whole(zone) => Some(zone.serial()),
                ZoneContent::Steps(_) => None,
                ZoneContent::Unfit(_) => {
                    counts.unfit.fetch_add(1, Relaxed);
                    None
                }
            };
            read.push((id, sum, serial));
            sink.content(ZoneId(id), apex, content);
        };
        let done = read_domains(client, &self.shared.settings.key, &self.known, ids, &mut pass).await;
        for (id, sum, serial) in read {
            self.known.read(id, sum, serial);
        }
        done
    }

    fn report_round(&mut self, at: SystemTime) {
        let (zones, unfit) = self.known.counts();
        if self.known.misnamed > self.misnamed {
            warn!(
                domains = self.known.misnamed,
                "domains of the database have no usable name, or the same one"
            );
        }
        self.misnamed = self.known.misnamed;
        self.shared.note(|status| {
            (status.zones, status.unfit, status.current_at) = (zones, unfit, Some(at));
        });
    }
}

/// Calls what may block on a thread for that.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(call).await.map_err(|fault| format!("a thread ended: {fault}"))
}
