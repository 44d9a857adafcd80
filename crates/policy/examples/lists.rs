//! CPU time of the thread for changes of block lists, in ten lists of a million names together: all rules
//! compiled, one list compiled with the others taken over, and what differs in one list changed.

use std::fmt::Write;

use policy::{ListFormat, NameKeys, RuleBuilder, RuleChanges, Rules, SourceId};
use wire::hash::HashKey;

const LISTS: u8 = 10;
const NAMES: usize = 100_000;

/// The text of a list; `changed` of its names are others than in version 0.
fn text(list: u8, changed: usize) -> String {
    let mut text = String::new();
    for n in 0..NAMES {
        let kind = if n < changed { "new" } else { "old" };
        let _ = writeln!(text, "{kind}{n:x}.z{}.l{list}.example.net", n % 5000);
    }
    text
}

/// CPU time of this thread.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds: f64 = text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number");
    nanoseconds / 1e6
}

fn timed<T>(what: &str, work: impl Fn() -> T) -> T {
    let (mut best, mut result) = (f64::MAX, None);
    for _ in 0..7 {
        let began = cpu_ms();
        result = Some(work());
        best = best.min(cpu_ms() - began);
    }
    println!("{what}: {best:.1} ms");
    result.expect("five results")
}

fn main() {
    let keys = NameKeys::new(HashKey::new([1, 2, 3]));
    let texts: Vec<String> = (0..LISTS).map(|list| text(list, 0)).collect();
    let add = |builder: &mut RuleBuilder, list: u8, text: &str| {
        builder.list(SourceId(list), ListFormat::Auto, text.as_bytes(), false).expect("a list");
    };
    let all = |texts: &[String]| -> Rules {
        let mut builder = RuleBuilder::new(keys);
        (0..).zip(texts).for_each(|(list, text)| add(&mut builder, list, text));
        builder.build()
    };
    let rules = timed("all lists read and compiled", || all(&texts));
    timed("all lists read", || {
        let mut builder = RuleBuilder::new(keys);
        (0..).zip(&texts).for_each(|(list, text)| add(&mut builder, list, text));
        builder
    });
    timed("one list read", || {
        let mut builder = RuleBuilder::new(keys);
        add(&mut builder, 0, &texts[0]);
        builder
    });
    timed("nine lists taken over", || {
        let mut builder = RuleBuilder::new(keys);
        (1..LISTS).for_each(|list| builder.keep(SourceId(list), &rules, SourceId(list)));
        builder
    });
    let next = text(0, 1000);
    timed("one list read, nine taken over, compiled", || {
        let mut builder = RuleBuilder::new(keys);
        add(&mut builder, 0, &next);
        (1..LISTS).for_each(|list| builder.keep(SourceId(list), &rules, SourceId(list)));
        builder.build()
    });
    for changed in [0, 1, 1000, 10_000] {
        let next = text(0, changed);
        let changed = timed(&format!("{changed} names of one list changed"), || {
            let mut changes = RuleChanges::new(&rules);
            let read = changes.list(SourceId(0), ListFormat::Auto, next.as_bytes(), false);
            read.expect("few changes").expect("a list");
            changes.finish().expect("few changes")
        });
        println!("    {} names differ from the base", changed.overlaid());
    }
    let big: String = texts.concat();
    timed("one list of a million read", || {
        let mut builder = RuleBuilder::new(keys);
        add(&mut builder, 0, &big);
        builder
    });
    let rules = timed("one list of a million read and compiled", || {
        let mut builder = RuleBuilder::new(keys);
        add(&mut builder, 0, &big);
        builder.build()
    });
    let next = [&text(0, 1000), &big[text(0, 0).len()..]].concat();
    timed("1000 names of one list of a million changed", || {
        let mut changes = RuleChanges::new(&rules);
        let read = changes.list(SourceId(0), ListFormat::Auto, next.as_bytes(), false);
        read.expect("few changes").expect("a list");
        changes.finish().expect("few changes")
    });
}
