//! Summary of the audit of a signed zone: if signatures have expired, thousands of faults are reported as
//! one.

use std::collections::HashMap;
use std::fmt::Write as _;

use authority::audit::{Finding, FindingKind, SigFault};
use wire::Serial;
use wire::text::write_time;

/// Largest number of faults of one kind that are shown individually; of more, this many are named as
/// examples.
const MAX_EXAMPLES: usize = 3;

/// Faults of one kind.
struct Group {
    first: Vec<Finding>,
    count: u64,
    /// The earliest and the latest expiration of their signatures.
    expire: Option<(Serial, Serial)>,
}

/// All faults of a zone.
#[derive(Default)]
pub struct AuditSum {
    order: Vec<FindingKind>,
    groups: HashMap<FindingKind, Group>,
}

impl AuditSum {
    /// Adds a fault.
    pub fn add(&mut self, finding: Finding) {
        let group = self.groups.entry(finding.kind).or_insert_with(|| {
            self.order.push(finding.kind);
            Group { first: Vec::new(), count: 0, expire: None }
        });
        group.count += 1;
        if let Some(time) = finding.expires {
            let (earliest, latest) = group.expire.unwrap_or((time, time));
            group.expire = Some((earlier(time, earliest), later(time, latest)));
        }
        if group.first.len() < MAX_EXAMPLES {
            group.first.push(finding);
        }
    }

    /// Passes each message to `say` with the fault that has its place, in the order in which the kinds were
    /// found.
    pub fn tell(&self, say: &mut dyn FnMut(&Finding, String)) {
        for group in self.order.iter().filter_map(|kind| self.groups.get(kind)) {
            match group.count > MAX_EXAMPLES as u64 {
                true => group.first.iter().take(1).for_each(|first| say(first, group.sum(first))),
                false => group.first.iter().for_each(|finding| say(finding, one(finding))),
            }
        }
    }
}

impl Group {
    fn sum(&self, first: &Finding) -> String {
        let mut out = format!("{} RRsets: {}", self.count, first.kind);
        if let (FindingKind::BadSignature(SigFault::Expired), Some((earliest, latest))) =
            (first.kind, self.expire)
        {
            let _ = write!(out, ", the first on {}, the last on {}", date(earliest), date(latest));
        }
        let examples: Vec<String> =
            self.first.iter().map(|finding| format!("{} {}", finding.owner, finding.rtype)).collect();
        let _ = write!(out, "; {} and others", examples.join(", "));
        out
    }
}

fn one(finding: &Finding) -> String {
    match (finding.kind, finding.expires) {
        (FindingKind::BadSignature(SigFault::Expired), Some(time)) => format!("{finding} on {}", date(time)),
        _ => finding.to_string(),
    }
}

fn earlier(a: Serial, b: Serial) -> Serial {
    if a.compare(b).is_some_and(|order| order.is_lt()) { a } else { b }
}

fn later(a: Serial, b: Serial) -> Serial {
    if a.compare(b).is_some_and(|order| order.is_gt()) { a } else { b }
}

/// Returns a signature's time as text.
fn date(Serial(seconds): Serial) -> String {
    let mut digits = String::new();
    // Writing to a String cannot fail.
    let _ = write_time(seconds, &mut digits);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    let [year, month, day] = [part(0, 4), part(4, 6), part(6, 8)];
    let [hour, minute, second] = [part(8, 10), part(10, 12), part(12, 14)];
    format!("{year}-{month}-{day} {hour}:{minute}:{second} UTC")
}

#[cfg(test)]
mod tests {
    use wire::{NameBuf, Type};

    use super::*;

    fn told(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
        let mut sum = AuditSum::default();
        findings.into_iter().for_each(|finding| sum.add(finding));
        let mut out = Vec::new();
        sum.tell(&mut |_, message| out.push(message));
        out
    }

    fn expired(label: &str, at: u32) -> Finding {
        let owner: NameBuf = format!("{label}.example.").parse().expect("a name");
        let kind = FindingKind::BadSignature(SigFault::Expired);
        Finding { kind, owner, rtype: Type::A, expires: Some(Serial(at)) }
    }

    #[test]
    fn thousands_of_expired_signatures_were_a_line_each() {
        let all = (0..2874).map(|i| expired(&format!("n{i}"), 1_700_000_000 + (i * 7 + 5) % 2874));
        assert_eq!(
            told(all),
            [
                "2874 RRsets: no good signature: the signature has expired, the first on 2023-11-14 22:13:20 UTC, the \
              last on 2023-11-14 23:01:13 UTC; n0.example. A, n1.example. A, n2.example. A and others"
            ]
        );
    }

    #[test]
    fn a_few_are_told_one_by_one() {
        let chain = Finding { kind: FindingKind::NoChain, expires: None, ..expired("x", 0) };
        assert_eq!(
            told([expired("a", 1_700_000_000), chain]),
            [
                "a.example. A: no good signature: the signature has expired on 2023-11-14 22:13:20 UTC",
                "x.example. A: the zone has neither NSEC nor NSEC3",
            ]
        );
    }
}
