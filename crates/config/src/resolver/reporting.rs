//! Keys of `[resolver]` about DNS error reporting (RFC 9567).

use recursion::ReportLimits;

use crate::report::Diagnostic;
use crate::table::keys;
use crate::table::value::{Int, Seconds};

keys! {
    /// Keys about reporting failures.
    pub struct Reporting {
        /// Report names that cannot be resolved or validated to the operators of their zone, if its servers
        /// announce an agent domain (RFC 9567), by a query for a name in that domain that contains what
        /// failed and why.
        live "error-reporting" on: bool = false, example true;
        /// Most reports per second, of all failures together: a zone that is broken on purpose can direct
        /// reports to third parties.
        live "error-reports-per-second" per_second: Int<usize, 1, 1000> = Int(10), example 2;
        /// Shortest time until the same failure is reported again. It is not while the answer to the last
        /// report is cached.
        live "error-report-interval" interval: Seconds<1, 86_400> = Seconds(300), example "1h";
    }
}

impl Reporting {
    /// Returns the limits of reporting, if it is on.
    pub(super) fn limits(&self) -> Option<ReportLimits> {
        self.on.then(|| ReportLimits { per_second: self.per_second.0, interval: self.interval.0 })
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let unset = Reporting::default();
        // Default values may be written explicitly.
        let others = [
            (
                "error-reports-per-second",
                self.per_second.value != unset.per_second.value,
                &self.per_second.place,
            ),
            ("error-report-interval", self.interval.value != unset.interval.value, &self.interval.place),
        ];
        for (key, _, place) in others.into_iter().filter(|(_, is_set, _)| !*self.on && *is_set) {
            let message = format!("`{key}` has no effect without `error-reporting`");
            faults.push(Diagnostic::at(place.as_ref(), message));
        }
    }
}
