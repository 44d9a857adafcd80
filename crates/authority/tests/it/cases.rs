//! Scenarios: zones, queries and the answers that the RFCs require, in `cases/*.txt`.
//!
//! A file holds zones: `zone NAME [nsec|nsec3 [opt-out] [iterations=N] [salt=HEX]]`, a zone file and `end`,
//! or `unloaded NAME`; all zones of a file are served together. Then cases: `#` and the reason,
//! `? NAME TYPE [do] [size=N] [chain=N]`, the response code and the flags, and the records, each after its
//! section.
//! Records are sorted; of an RRSIG only the type covered appears, since the signatures are not real.
//!
//! With `WRITE_CASES=1` in the environment the actual answers are written into the files, for review.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use testkit::answers::Line;
use testkit::decode::Decoded;
use testkit::{Chain, ModelRecord, key, name, sign};
use wire::{NameBuf, Type};
use zone::Change;
use zone::load::{LoadConfig, load};
use zone::scan::TextSource;
use zone::store::Zone;

use crate::support::{Query, Server};

#[test]
fn every_case_is_answered_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cases");
    let entries = std::fs::read_dir(&folder).expect("the folder of cases");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(files.len() > 5, "cases are missing");
    let mut differences = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let answered = run(&file, &text);
        if answered == text {
            continue;
        }
        if std::env::var_os("WRITE_CASES").is_some() {
            std::fs::write(&file, &answered).expect("written");
        }
        differences.push_str(&difference(&file, &text, &answered));
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Returns the queries whose answers differ, with both answers.
fn difference(file: &Path, text: &str, answered: &str) -> String {
    let mut out = String::new();
    let blocks = |text: &str| -> Vec<String> { text.split("\n\n").map(str::to_owned).collect() };
    let (wanted, got) = (blocks(text), blocks(answered));
    for (wanted, got) in wanted.iter().zip(&got).filter(|(wanted, got)| wanted != got) {
        let _ = write!(out, "{}:\n{wanted}\nbut the answer is\n{got}\n\n", file.display());
    }
    if wanted.len() != got.len() {
        let _ = write!(out, "{}: {} and {} blocks", file.display(), wanted.len(), got.len());
    }
    out
}

/// Returns the file with the actual answers in place of the expected ones.
fn run(file: &Path, text: &str) -> String {
    let mut lines = text.lines().peekable();
    let mut out = String::new();
    let mut changes = Vec::new();
    let mut server = None;
    while let Some(line) = lines.next() {
        let _ = writeln!(out, "{line}");
        let mut words = line.split_whitespace();
        match words.next() {
            Some("zone") => {
                let mut master = String::new();
                for line in lines.by_ref().take_while(|line| *line != "end") {
                    let _ = writeln!(master, "{line}");
                }
                let _ = writeln!(out, "{master}end");
                changes.push(Change::Serve(load_zone(file, &mut words, &master).into()));
            }
            Some("unloaded") => changes.push(Change::Unload(Box::new(name(words.next().expect("a name"))))),
            Some("?") => {
                let query = question(&mut words);
                let server = server.get_or_insert_with(|| Server::new(changes.drain(..)));
                out.push_str(&written(server.ask(&query).as_ref()));
                while lines.peek().is_some_and(|line| !line.is_empty()) {
                    lines.next();
                }
            }
            None => {}
            Some(word) => assert_eq!(word, "#", "{}: {line}", file.display()),
        }
    }
    out
}

fn load_zone<'t>(file: &Path, words: &mut impl Iterator<Item = &'t str>, master: &str) -> Zone {
    let apex = name(words.next().expect("a name"));
    let source = TextSource::bytes(file.to_string_lossy().as_ref(), master.as_bytes());
    let loaded = load(source, apex.as_name(), &key(), &LoadConfig::default(), |_| ControlFlow::Continue(()));
    let zone = loaded.unwrap_or_else(|error| panic!("{error}")).zone;
    match chain(words) {
        None => zone,
        Some(chain) => {
            let signed = sign(apex.as_name(), &records(&zone), &chain);
            testkit::build(apex.as_name(), &key(), &signed)
        }
    }
}

fn chain<'t>(words: &mut impl Iterator<Item = &'t str>) -> Option<Chain> {
    let kind = words.next()?;
    if kind == "nsec" {
        return Some(Chain::Nsec);
    }
    assert_eq!(kind, "nsec3");
    let (mut opt_out, mut iterations, mut salt) = (false, 0, Vec::new());
    for word in words {
        match word.split_once('=') {
            None => opt_out = word == "opt-out",
            Some(("iterations", number)) => iterations = number.parse().expect("a number"),
            Some((_, hex)) => {
                let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
                salt = (0..hex.len()).step_by(2).map(byte).collect();
            }
        }
    }
    Some(Chain::Nsec3 { opt_out, iterations, salt })
}

fn records(zone: &Zone) -> Vec<ModelRecord> {
    let mut records = Vec::new();
    for node in zone {
        for set in node.rrsets() {
            for data in set.rdatas() {
                let mut rdata = Vec::new();
                data.copy_to(&mut rdata);
                records.push(ModelRecord {
                    owner: node.written_owner(),
                    rtype: set.rtype(),
                    ttl: data.ttl(),
                    rdata,
                });
            }
        }
    }
    records
}

fn question<'t>(words: &mut impl Iterator<Item = &'t str>) -> Query {
    let qname: NameBuf = name(words.next().expect("a name"));
    let qtype: Type = words.next().and_then(|text| text.parse().ok()).expect("a type");
    let mut query = Query::new(qname, qtype);
    for word in words {
        match word.split_once('=') {
            None => query.dnssec_ok = word == "do",
            Some(("size", number)) => query.size = number.parse().expect("a number"),
            Some((_, number)) => query.max_chain = number.parse().expect("a number"),
        }
    }
    query
}

fn written(answer: Option<&Decoded>) -> String {
    let Some(answer) = answer else { return "no zone\n".to_owned() };
    let mut out = answer.rcode.to_string();
    for (set, flag) in [(answer.header.authoritative(), " AA"), (answer.header.truncated(), " TC")] {
        out.push_str(if set { flag } else { "" });
    }
    out.push('\n');
    for (title, section) in ["answer", "authority", "additional"].iter().zip(&answer.sections) {
        let mut lines: Vec<String> = section.iter().map(text).collect();
        lines.sort();
        for line in lines {
            let _ = writeln!(out, "{title} {line}");
        }
    }
    out
}

fn text(line: &Line) -> String {
    let mut text = format!("{} {} {} ", line.owner, line.ttl, line.rtype);
    let written = match (line.rtype, line.rdata.first_chunk()) {
        (Type::RRSIG, Some(covered)) => write!(text, "{}", Type(u16::from_be_bytes(*covered))),
        _ => wire::rdata::write_text(line.rtype, &line.rdata, &mut text),
    };
    written.expect("a String takes everything");
    text
}
