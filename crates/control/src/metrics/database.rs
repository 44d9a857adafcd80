//! The database of zones.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use database::{COMMIT_TIME_BOUNDS, DatabaseCounts};

use super::{Bucket, Buckets, Figures, MetricType, Printer, labelled};
use crate::database_state::{DatabaseState, results, zones_of};
use crate::parts::ServerParts;

/// Metrics of the database of zones.
pub struct DatabaseMetrics(pub ServerParts);

impl Figures for DatabaseMetrics {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let Some(state) = DatabaseState::of(&self.0) else { return Ok(()) };
        let status = &state.status;
        let help = "Whether there is a connection to a database that accepts writes";
        out.gauge("database_connected", help, u64::from(status.connected))?;
        let help = "Number of the last change in the database, as far as this node knows";
        out.gauge("database_last_change", help, status.last_change as f64)?;
        let help = "Number of the last change of the database that this node has, with all before it";
        out.gauge("database_followed_change", help, status.followed as f64)?;
        let help = "Time since this node last had all changes of the database; 0 while it has them";
        out.gauge("database_lag_seconds", help, state.lag.as_secs_f64())?;
        let help = "Zones of the database, as far as this node knows";
        out.gauge("database_zones", help, state.zones)?;
        let help = "Zones of the database that clients get no answers from: without a valid version, or with \
                    a template that this node lacks";
        out.gauge("database_zones_unserved", help, state.unserved())?;
        let help =
            "Zones of the database whose newest records are no zone; an earlier version stays in service";
        out.gauge("database_zones_unfit", help, status.unfit)?;
        let help = "Zones that the database does not list any more, too many to be removed at once; they stay in \
                    service";
        out.gauge("database_zones_held", help, state.held)?;
        let help = "Zones whose records are still to be read since the connection was made";
        out.gauge("database_zones_unread", help, status.unread)?;
        let help = "Sections of the configuration that the database has";
        out.gauge("database_sections", help, state.sections.states.len() as u64)?;
        let help = "Sections of the configuration that are not in force here as the database has them, because of a \
                    fault";
        out.gauge("database_sections_unusable", help, state.sections.unusable() as u64)?;
        let help =
            "Whether this node is the one that maintains the keys and signatures of zones of the database";
        out.gauge("database_signs", help, u64::from(status.signs))?;
        let help = "Changes of zones that wait for the database";
        out.gauge("database_commits_waiting", help, status.waiting)?;
        match zones_of(&self.0).and_then(|zones| zones.database()) {
            Some(database) => counts(database.counts(), out),
            None => Ok(()),
        }
    }
}

fn counts(counts: &DatabaseCounts, out: &mut Printer<'_>) -> fmt::Result {
    let help = "Changes of zones by what the database did with them; after a conflict they are decided again";
    out.family("database_commits", help, MetricType::Counter, labelled("result", results(counts)))?;
    let help = "Statements that committed changes: those that wait together go in one";
    out.counter("database_commit_statements", help, counts.groups.load(Relaxed))?;
    let bounds = COMMIT_TIME_BOUNDS.iter().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
    let buckets = bounds.zip(&counts.commit_times);
    let buckets = buckets.map(|(bound, count)| Bucket { bound, count: count.load(Relaxed) }).collect();
    let sum = counts.commit_micros.load(Relaxed) as f64 / 1e6;
    let help = "Time until a change of a zone was committed in the database, or was not";
    let series = std::iter::once(([], Buckets { counts: buckets, sum }));
    out.histogram("database_commit_seconds", help, series)?;
    for (name, help, count) in [
        ("connects", "Connections to the database that were made", &counts.connects),
        ("faults", "Failed attempts to connect to the database, and connections that broke", &counts.faults),
        ("changes_read", "Changes of zones that were read from the database", &counts.changes_read),
        ("zones_read", "Zones that were read from the database as a whole", &counts.zones_read),
        ("unfit", "Contents of zones in the database that are no zone", &counts.unfit),
    ] {
        out.counter(&format!("database_{name}"), help, count.load(Relaxed))?;
    }
    Ok(())
}
