//! The file of counts, and the limits for new counts. The counting is in `callgrind.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Percentage by which a count may grow if only the source has changed.
const MAY_GROW: f64 = 5.0;
/// Percentage by which a count may grow if the compiler, the C library, valgrind or the CPU features differ.
const MAY_GROW_ELSEWHERE: f64 = 15.0;
/// Number of instructions or misses that comparisons ignore: in a small piece one is several percent.
const SLACK: u64 = 4;
/// Percentage by which misses may grow: twice their variation in five memory layouts. Runs of one program are
/// identical, and the layout with the fewest misses is taken.
const MISSES_MAY_GROW: f64 = 6.0;

const HEAD: &str = "\
# Instructions of each piece, as callgrind counts them; \
made by `cargo run --release -p nomen-pieces -- --update`.
# Groups zone-find, lookup, catalog and answer do 64 at a time. \
Under misses stands how many cache lines a batch of 64
# queries gets from memory where nothing that it is about is in the cache.

";

/// Counts, and the conditions they were made under.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    /// What the counts depend on besides the source.
    pub(crate) made: Made,
    /// Instructions by piece.
    pub(crate) counts: BTreeMap<String, u64>,
    /// Misses of a last cache of 128 KiB by piece.
    pub(crate) misses: BTreeMap<String, u64>,
}

/// What counts depend on besides the source.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    /// The compiler's version.
    pub(crate) rustc: String,
    /// Architecture and operating system.
    pub(crate) target: String,
    /// Instruction sets that code is selected by at run time.
    pub(crate) features: String,
    /// Version of the C library, whose functions copy and compare.
    pub(crate) libc: String,
    /// Version of valgrind.
    pub(crate) valgrind: String,
}

impl Made {
    /// Returns the differences as text.
    fn differences(&self, new: &Made) -> Vec<String> {
        let fields = [
            (&self.rustc, &new.rustc),
            (&self.target, &new.target),
            (&self.features, &new.features),
            (&self.libc, &new.libc),
            (&self.valgrind, &new.valgrind),
        ];
        fields.iter().filter(|(old, new)| old != new).map(|(old, new)| format!("{new}, was {old}")).collect()
    }
}

impl Counts {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Counts, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Writes the file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let text = toml::to_string(self).map_err(|e| e.to_string())?;
        fs::write(path, format!("{HEAD}{text}")).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Result of a comparison.
pub(crate) struct Report {
    /// Lines to print.
    pub(crate) text: String,
    /// Number of counts that are above their limit, new or gone.
    pub(crate) worse: usize,
    /// Number of all counts.
    pub(crate) all: usize,
    /// Number of counts that have grown within their limit.
    grown: usize,
    /// Number of counts that are lower.
    better: usize,
}

/// Compares `new` with `old`.
pub(crate) fn compare(old: &Counts, new: &Counts) -> Report {
    let mut report = Report { text: String::new(), worse: 0, all: 0, grown: 0, better: 0 };
    if old.made.target != new.made.target {
        let (target, was) = (&new.made.target, &old.made.target);
        report.line(format_args!("no comparison: the counts are those of {was}, this is {target}"));
        return report;
    }
    let differences = old.made.differences(&new.made);
    let may_grow = if differences.is_empty() { MAY_GROW } else { MAY_GROW_ELSEWHERE };
    for difference in &differences {
        report.line(format_args!("counted with {difference}: only what grows by over {may_grow} % fails"));
    }
    report.table(&old.counts, &new.counts, "instructions", (SLACK, may_grow));
    // Misses of a lookup depend on the layout of the zone, hardly on the compiler.
    report.table(&old.misses, &new.misses, "misses", (SLACK, MISSES_MAY_GROW));
    let Report { all, worse, grown, better, .. } = report;
    report.line(format_args!("{all} counts: {worse} not as they may be, {grown} grown, {better} better"));
    if better > 0 {
        report.line(format_args!("what is better is held once the file is updated (--update)"));
    }
    report
}

impl Report {
    /// Compares counts in `unit`: ignores differences below the slack, and allows growth by the given
    /// percentage.
    fn table(
        &mut self,
        old: &BTreeMap<String, u64>,
        new: &BTreeMap<String, u64>,
        unit: &str,
        (slack, may_grow): (u64, f64),
    ) {
        self.all += new.len();
        for (name, &now) in new {
            let Some(&before) = old.get(name) else {
                self.worse += 1;
                self.line(format_args!("NEW    {name}: {now} {unit}, and no count in the file"));
                continue;
            };
            let percent = 100.0 * (now as f64 - before as f64) / before.max(1) as f64;
            let verdict = match percent {
                _ if now.abs_diff(before) < slack => continue,
                p if p > may_grow => "WORSE",
                p if p > MAY_GROW => "grown",
                p if p < -MAY_GROW => "better",
                _ => continue,
            };
            self.worse += (verdict == "WORSE") as usize;
            self.grown += (verdict == "grown") as usize;
            self.better += (verdict == "better") as usize;
            self.line(format_args!("{verdict:<6} {name}: {before} -> {now} {unit} ({percent:+.1} %)"));
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            self.worse += 1;
            self.line(format_args!("GONE   {name}: {unit} in the file, and not counted"));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rustc: &str, counts: &[(&str, u64)]) -> Counts {
        let same = || "same".to_owned();
        let made = Made {
            rustc: rustc.to_owned(),
            target: same(),
            features: same(),
            libc: same(),
            valgrind: same(),
        };
        let counts = counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        Counts { made, counts, misses: BTreeMap::new() }
    }

    fn worse(old: &Counts, new: &Counts) -> usize {
        compare(old, new).worse
    }

    #[test]
    fn five_percent_more_are_too_many() {
        let old = counts("1", &[("a", 1000), ("b", 20)]);
        assert_eq!(worse(&old, &counts("1", &[("a", 1050), ("b", 23)])), 0);
        assert_eq!(worse(&old, &counts("1", &[("a", 500), ("b", 5)])), 0);
        let report = compare(&old, &counts("1", &[("a", 1060), ("b", 24)]));
        assert_eq!(report.worse, 2);
        assert!(report.text.contains("WORSE  a: 1000 -> 1060 instructions (+6.0 %)"), "{}", report.text);
    }

    #[test]
    fn another_compiler_may_need_more() {
        let old = counts("1", &[("a", 1000)]);
        let report = compare(&old, &counts("2", &[("a", 1100)]));
        assert_eq!(report.worse, 0);
        assert!(report.text.contains("grown  a") && report.text.contains("2, was 1"), "{}", report.text);
        assert_eq!(worse(&old, &counts("2", &[("a", 1200)])), 1);
    }

    #[test]
    fn misses_are_held_beside_instructions() {
        let held = |misses: &[(&str, u64)]| {
            let misses = misses.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
            Counts { misses, ..counts("1", &[("a", 1000)]) }
        };
        let old = held(&[("cold/a", 1000)]);
        assert_eq!(worse(&old, &held(&[("cold/a", 1060)])), 0);
        let report = compare(&old, &held(&[("cold/a", 1064)]));
        assert_eq!((report.worse, report.all), (1, 2));
        assert!(report.text.contains("WORSE  cold/a: 1000 -> 1064 misses (+6.4 %)"), "{}", report.text);
        assert_eq!(worse(&old, &held(&[])), 1, "misses that are gone");
    }

    #[test]
    fn pieces_come_and_go_with_the_file() {
        assert_eq!(worse(&counts("1", &[("a", 1)]), &counts("1", &[("b", 1)])), 2);
    }

    #[test]
    fn another_architecture_is_not_compared() {
        let mut new = counts("1", &[("a", 5000)]);
        new.made.target = "other".to_owned();
        let report = compare(&counts("1", &[("a", 1)]), &new);
        assert_eq!(report.worse, 0);
        assert!(report.text.contains("no comparison"), "{}", report.text);
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let old = counts("1", &[("group/kind/size", 12)]);
        let text = toml::to_string(&old).expect("it can be written");
        let new: Counts = toml::from_str(&text).expect("it can be read");
        assert_eq!((new.counts, new.made == old.made), (old.counts, true));
    }
}
