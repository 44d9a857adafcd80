//! The two text formats of metrics: Prometheus' own (0.0.4) and OpenMetrics 1.0. They differ in the name
//! under which a counter is described, in how an info is declared, in units, in how bounds are written, and
//! in the last line.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// A metrics text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own text format, 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a family of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Counts up from the start of the process. Its series have the suffix `_total`.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// A value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MetricValue {
    /// An integer.
    Whole(u64),
    /// A floating-point number.
    Measure(f64),
}

impl From<u64> for MetricValue {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> Self {
        Self::Measure(value)
    }
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Whole(value) => value.fmt(f),
            Self::Measure(value) => f.write_str(&number(value)),
        }
    }
}

/// One bucket of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Its upper bound.
    pub bound: f64,
    /// The number of observations above the previous bound and not above this one.
    pub count: u64,
}

/// The contents of one series of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets {
    /// By rising bound, the last of them infinite.
    pub counts: Vec<Bucket>,
    /// The sum of all observed values.
    pub sum: f64,
}

/// SeriesLabels of a series.
pub(super) type SeriesLabels<'l, const N: usize> = [(&'static str, Cow<'l, str>); N];

/// Prints metrics, one family after the other. Names are passed without the prefix `nomen_`; names that begin
/// with `process_`, which all programs share, do not get it.
pub struct Printer<'o> {
    out: &'o mut String,
    format: Format,
}

impl Printer<'_> {
    /// Returns a printer that appends to `out`.
    pub(super) fn new(out: &mut String, format: Format) -> Printer<'_> {
        Printer { out, format }
    }

    /// Prints a counter without labels; `name` has no `_total`.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Into<MetricValue>) -> fmt::Result {
        self.family(name, help, MetricType::Counter, std::iter::once(([], value)))
    }

    /// Prints a gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Into<MetricValue>) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, std::iter::once(([], value)))
    }

    /// Prints a family whose label sets have one shape; prints nothing if it has no series. The name of a
    /// counter has no `_total`.
    pub(super) fn family<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        series: impl Iterator<Item = (SeriesLabels<'l, N>, impl Into<MetricValue>)>,
    ) -> fmt::Result {
        let mut series = series.peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let (word, suffix) = match kind {
            MetricType::Counter => ("counter", "_total"),
            MetricType::Gauge => ("gauge", ""),
        };
        self.head(name, suffix, word, help)?;
        for (labels, value) in series {
            self.sample(name, suffix, &labels, None, value.into())?;
        }
        Ok(())
    }

    /// Prints a family of histograms; prints nothing if it has no series.
    pub(super) fn histogram<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (SeriesLabels<'l, N>, Buckets)>,
    ) -> fmt::Result {
        let mut series = series.peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        self.head(name, "", "histogram", help)?;
        for (labels, buckets) in series {
            let mut count = 0;
            for bucket in &buckets.counts {
                count += bucket.count;
                let bound = self.bound(bucket.bound);
                self.sample(name, "_bucket", &labels, Some(&bound), count.into())?;
            }
            self.sample(name, "_sum", &labels, None, buckets.sum.into())?;
            self.sample(name, "_count", &labels, None, count.into())?;
        }
        Ok(())
    }

    /// Prints, as labels, what does not change while the process runs; `name` has no `_info`.
    pub(super) fn info<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: SeriesLabels<'_, N>,
    ) -> fmt::Result {
        let word = match self.format {
            Format::Prometheus => "gauge",
            Format::OpenMetrics => "info",
        };
        self.head(name, "_info", word, help)?;
        self.sample(name, "_info", &labels, None, 1.into())
    }

    /// Ends the text.
    pub(super) fn end(self) {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
    }

    /// Prints the lines before the series of a family.
    fn head(&mut self, name: &str, suffix: &str, kind: &str, help: &str) -> fmt::Result {
        let prefix = prefix(name);
        let help = escaped(help, self.format == Format::OpenMetrics);
        match self.format {
            // The suffix is part of the name here.
            Format::Prometheus => {
                writeln!(self.out, "# HELP {prefix}{name}{suffix} {help}")?;
                writeln!(self.out, "# TYPE {prefix}{name}{suffix} {kind}")
            }
            Format::OpenMetrics => {
                writeln!(self.out, "# HELP {prefix}{name} {help}")?;
                writeln!(self.out, "# TYPE {prefix}{name} {kind}")?;
                match ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(unit)) {
                    Some(unit) => writeln!(self.out, "# UNIT {prefix}{name} {unit}"),
                    None => Ok(()),
                }
            }
        }
    }

    fn sample<const N: usize>(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &SeriesLabels<'_, N>,
        bound: Option<&str>,
        value: MetricValue,
    ) -> fmt::Result {
        write!(self.out, "{}{name}{suffix}", prefix(name))?;
        let bound = bound.map(|bound| ("le", bound));
        // A label without a value is the same as no label.
        let labels = labels.iter().map(|(label, value)| (*label, value.as_ref()));
        let labels = labels.filter(|(_, value)| !value.is_empty()).chain(bound);
        let mut before = '{';
        for (label, value) in labels {
            write!(self.out, "{before}{label}=\"{}\"", escaped(value, true))?;
            before = ',';
        }
        if before == ',' {
            self.out.push('}');
        }
        writeln!(self.out, " {value}")
    }

    /// Returns a histogram's bound as text: OpenMetrics requires a point or an exponent in it.
    fn bound(&self, bound: f64) -> String {
        let mut text = number(bound);
        if self.format == Format::OpenMetrics && !text.contains(['.', 'e', 'f']) {
            text.push_str(".0");
        }
        text
    }
}

fn prefix(name: &str) -> &'static str {
    if name.starts_with("process_") { "" } else { "nomen_" }
}

/// Returns a number as Go prints it (`%g`), which OpenMetrics calls the canonical form.
fn number(value: f64) -> String {
    if value == f64::INFINITY {
        return "+Inf".into();
    }
    let scientific = format!("{value:e}");
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(exponent))) if !(-4..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}

/// Escapes backslashes and line feeds, and double quotes if `quotes` is set.
fn escaped(text: &str, quotes: bool) -> Cow<'_, str> {
    let special = |c: char| c == '\\' || c == '\n' || quotes && c == '"';
    if !text.contains(special) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            c if special(c) => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: Format, print: impl FnOnce(&mut Printer<'_>) -> fmt::Result) -> String {
        let mut out = String::new();
        let mut printer = Printer::new(&mut out, format);
        print(&mut printer).expect("printed");
        printer.end();
        out
    }

    #[test]
    fn a_counter_has_its_name_in_full_in_one_format_only() {
        let print = |out: &mut Printer<'_>| out.counter("sync_seconds", "Time waited", 0.5);
        assert_eq!(
            printed(Format::Prometheus, print),
            "# HELP nomen_sync_seconds_total Time waited\n# TYPE nomen_sync_seconds_total counter\n\
             nomen_sync_seconds_total 0.5\n"
        );
        assert_eq!(
            printed(Format::OpenMetrics, print),
            "# HELP nomen_sync_seconds Time waited\n# TYPE nomen_sync_seconds counter\n\
             # UNIT nomen_sync_seconds seconds\nnomen_sync_seconds_total 0.5\n# EOF\n"
        );
    }

    #[test]
    fn an_info_is_a_gauge_where_there_are_none() {
        let print = |out: &mut Printer<'_>| out.info("build", "This program", [("version", "1".into())]);
        let sample = "nomen_build_info{version=\"1\"} 1\n";
        assert_eq!(
            printed(Format::Prometheus, print),
            format!("# HELP nomen_build_info This program\n# TYPE nomen_build_info gauge\n{sample}")
        );
        assert_eq!(
            printed(Format::OpenMetrics, print),
            format!("# HELP nomen_build This program\n# TYPE nomen_build info\n{sample}# EOF\n")
        );
    }

    #[test]
    fn buckets_add_up() {
        let counts = [(0.000_01, 1), (2.0, 2), (f64::INFINITY, 3)];
        let counts = counts.map(|(bound, count)| Bucket { bound, count }).to_vec();
        let buckets = Buckets { counts, sum: 1.5 };
        let print = |out: &mut Printer<'_>| {
            out.histogram("x_seconds", "Times", std::iter::once(([("a", "b".into())], buckets)))
        };
        let text = printed(Format::OpenMetrics, print);
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "nomen_x_seconds_bucket{a=\"b\",le=\"1e-05\"} 1",
                "nomen_x_seconds_bucket{a=\"b\",le=\"2.0\"} 3",
                "nomen_x_seconds_bucket{a=\"b\",le=\"+Inf\"} 6",
                "nomen_x_seconds_sum{a=\"b\"} 1.5",
                "nomen_x_seconds_count{a=\"b\"} 6",
                "# EOF",
            ]
        );
    }

    /// A zone's name may contain any byte, and so may a label.
    #[test]
    fn labels_cannot_be_broken_out_of() {
        let label = "a\"} 1\nnomen_b 2\\";
        let series = || std::iter::once(([("zone", label.into())], 1));
        let text = printed(Format::Prometheus, |out| out.family("z", "Zones", MetricType::Gauge, series()));
        assert_eq!(text.lines().nth(2), Some(r#"nomen_z{zone="a\"} 1\nnomen_b 2\\"} 1"#));
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn a_family_without_series_is_not_printed() {
        let none = std::iter::empty::<(SeriesLabels<'_, 0>, u64)>();
        assert_eq!(printed(Format::Prometheus, |out| out.family("z", "Zones", MetricType::Gauge, none)), "");
    }

    #[test]
    fn processes_are_named_alike_everywhere() {
        let text = printed(Format::Prometheus, |out| out.gauge("process_open_fds", "Open files", 3));
        assert!(text.ends_with("\nprocess_open_fds 3\n"), "{text}");
    }
}
