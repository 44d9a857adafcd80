//! Metrics for Prometheus, collected at each scrape: each file here prints the counters of one part. `text`
//! has the formats.
//!
//! The test `conventions` checks the naming conventions of every series and generates docs/METRICS.md.

mod api;
mod database;
mod listeners;
mod process;
mod queries;
mod recursion;
mod secondaries;
mod signing;
mod text;
mod transfers;
mod updates;
mod zones;

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::database_state::zones_of;
use crate::parts::ServerParts;
use text::SeriesLabels;

pub use api::ApiMetrics;
pub use database::DatabaseMetrics;
pub use listeners::{ListenerFigures, ListenerReport};
pub use process::ProcessFigures;
pub use queries::QueryFigures;
pub use recursion::RecursionFigures;
pub use secondaries::SecondaryFigures;
pub use signing::SigningFigures;
pub use text::{Bucket, Buckets, Format, MetricType, Printer};
pub use transfers::TransferFigures;
pub use updates::UpdateFigures;
pub use zones::ZoneFigures;

/// A source of metrics.
pub trait Figures: Send + Sync {
    /// Prints the metrics.
    ///
    /// # Errors
    /// If writing to `out` fails.
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result;
}

/// The metrics of all parts, in printing order.
pub type AllFigures = Arc<[Box<dyn Figures>]>;

/// Returns the metrics of all parts.
pub fn figures(parts: &ServerParts) -> AllFigures {
    let ServerParts {
        frontend,
        issuing,
        table,
        images,
        recursive,
        transfers,
        secondaries,
        changes,
        differences,
        in_force,
        logging,
        process,
        background,
        connections,
        api_figures,
        ..
    } = parts.clone();
    let engine = Arc::clone(&frontend.engine);
    let recursion = recursive.map(|recursive| -> Box<dyn Figures> {
        Box::new(RecursionFigures { frontend: Arc::clone(&frontend), recursive })
    });
    let all: [Box<dyn Figures>; 6] = [
        Box::new(QueryFigures(Arc::clone(&frontend))),
        Box::new(ListenerFigures { frontend, issuing, in_force: Arc::clone(&in_force) }),
        Box::new(ZoneFigures { table, engine, in_force: Arc::clone(&in_force), images }),
        Box::new(TransferFigures { transfers, differences }),
        Box::new(SecondaryFigures(secondaries)),
        Box::new(ProcessFigures { process, logging, connections, background }),
    ];
    let changes = changes.into_iter().flat_map(|changes| -> [Box<dyn Figures>; 2] {
        let updates = UpdateFigures(Arc::clone(&changes));
        [Box::new(updates), Box::new(SigningFigures { changes, in_force: Arc::clone(&in_force) })]
    });
    let api =
        in_force.settings().api.as_ref().map(|_| -> Box<dyn Figures> { Box::new(ApiMetrics(api_figures)) });
    let database = zones_of(parts).map(|_| -> Box<dyn Figures> { Box::new(DatabaseMetrics(parts.clone())) });
    all.into_iter().chain(changes).chain(recursion).chain(api).chain(database).collect()
}

/// Returns all metrics as text.
///
/// # Errors
/// If they cannot be formatted.
pub fn render(figures: &AllFigures, format: Format) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let mut printer = Printer::new(&mut text, format);
    figures.iter().try_for_each(|figures| figures.print(&mut printer))?;
    printer.end();
    Ok(text)
}

/// Returns the series of a family with one label, whose value is the word of each count.
fn labelled(
    label: &'static str,
    words: impl IntoIterator<Item = (&'static str, u64)>,
) -> impl Iterator<Item = (SeriesLabels<'static, 1>, u64)> {
    words.into_iter().map(move |(word, count)| ([(label, word.into())], count))
}

/// Returns `time` in seconds since 1970, with the fraction, which [`wire::UnixTime`] has not.
fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
