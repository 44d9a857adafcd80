//! Figures of resolvers with rules, and their columns.

use serde::Serialize;

use super::{cell, median, thousands};

/// Figures of a resolver with rules.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq)]
pub(crate) struct PolicyFigures {
    /// User CPU µs per answer, beyond those without rules.
    pub(crate) user_us: Option<f64>,
    /// CPU µs per answer, beyond those without rules.
    pub(crate) cpu_us: Option<f64>,
    /// Seconds from the start to the first answer.
    pub(crate) first: Option<f64>,
    /// Seconds from the start until all rules are in force.
    pub(crate) ruled: Option<f64>,
    /// Seconds from the start until the newest version of each list is in force.
    pub(crate) fresh: Option<f64>,
    /// Answers without the rules, from the first answer on.
    pub(crate) unruled: Option<f64>,
    /// CPU seconds from the start until all rules are in force.
    pub(crate) start_cpu: Option<f64>,
    /// CPU seconds of the start, beyond those without rules.
    pub(crate) start_cpu_above: Option<f64>,
    /// Milliseconds that compiling the rules takes.
    pub(crate) compile_ms: Option<f64>,
    /// Bytes of memory per rule, as the server reports them.
    pub(crate) bytes_per_rule: Option<f64>,
    /// Resident bytes when all rules are in force.
    pub(crate) resident: Option<f64>,
    /// Number of refreshes of rules.
    pub(crate) refreshes: Option<f64>,
    /// Mean milliseconds from the start of a refresh until the new version is in force.
    pub(crate) refresh_ms: Option<f64>,
    /// CPU milliseconds of the server per refresh, queries included.
    pub(crate) refresh_cpu_ms: Option<f64>,
    /// Number of batches of queries that show whether a whole version is in force.
    pub(crate) judged: Option<f64>,
    /// Number of them that show a part of a version.
    pub(crate) partial: Option<f64>,
}

impl PolicyFigures {
    /// Returns the median of each figure over the rounds that have it; `None` without rounds.
    pub(super) fn median(rounds: &[PolicyFigures]) -> Option<PolicyFigures> {
        let of = |pick: fn(&PolicyFigures) -> Option<f64>| median(rounds.iter().filter_map(pick).collect());
        (!rounds.is_empty()).then(|| PolicyFigures {
            user_us: of(|p| p.user_us),
            cpu_us: of(|p| p.cpu_us),
            first: of(|p| p.first),
            ruled: of(|p| p.ruled),
            fresh: of(|p| p.fresh),
            unruled: of(|p| p.unruled),
            start_cpu: of(|p| p.start_cpu),
            start_cpu_above: of(|p| p.start_cpu_above),
            compile_ms: of(|p| p.compile_ms),
            bytes_per_rule: of(|p| p.bytes_per_rule),
            resident: of(|p| p.resident),
            refreshes: of(|p| p.refreshes),
            refresh_ms: of(|p| p.refresh_ms),
            refresh_cpu_ms: of(|p| p.refresh_cpu_ms),
            judged: of(|p| p.judged),
            partial: of(|p| p.partial),
        })
    }
}

/// Number of columns.
const COLUMNS: usize = 16;

/// Columns of figures of rules.
pub(super) const HEAD: [&str; COLUMNS] = [
    "rules user",
    "rules CPU",
    "first s",
    "rules s",
    "fresh s",
    "unruled",
    "start CPU s",
    "above",
    "compile ms",
    "bytes/rule",
    "RSS MB",
    "refreshes",
    "ms each",
    "CPU ms each",
    "judged",
    "partial",
];

/// Returns the cells of a row, in the order of [`HEAD`].
pub(super) fn cells(p: &PolicyFigures) -> [String; COLUMNS] {
    [
        cell(p.user_us, 2),
        cell(p.cpu_us, 2),
        cell(p.first, 3),
        cell(p.ruled, 3),
        cell(p.fresh, 3),
        thousands(p.unruled),
        cell(p.start_cpu, 3),
        cell(p.start_cpu_above, 3),
        thousands(p.compile_ms),
        cell(p.bytes_per_rule, 1),
        cell(p.resident.map(|bytes| bytes / 1e6), 1),
        thousands(p.refreshes),
        cell(p.refresh_ms, 1),
        cell(p.refresh_cpu_ms, 1),
        thousands(p.judged),
        thousands(p.partial),
    ]
}
