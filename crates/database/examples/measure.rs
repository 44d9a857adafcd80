//! Measures a database with a PostgreSQL of its own that syncs every commit: `cargo run --release -p
//! database --example measure [ZONES]`. Prints the time of a first synchronisation, commits in a second
//! with many waiting and with one at a time, and the time from the call of a commit at one node to the
//! content at another.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use database::{
    CommitEnd, CommitStep, Database, DatabaseAdmin, DatabaseSettings, DatabaseSink, DatabaseUrl, ListedZone,
    NewZone, SchemaKind, ZoneCommit, ZoneContent, ZoneId,
};
use testkit::postgres::PostgresServer;
use wire::hash::HashKey;
use wire::{NameBuf, Serial, ZoneName};
use zone::Zone;
use zone::load::{LoadConfig, load};
use zone::scan::TextSource;
use zone::store::diff;

/// Commits of each measurement.
const COMMITS: usize = 20_000;

/// Counts contents, and tells when each came.
struct Counter {
    came: Mutex<Sender<(ZoneId, Instant)>>,
}

impl DatabaseSink for Counter {
    fn listed(&self, zones: Vec<ListedZone>) -> Vec<Option<Serial>> {
        vec![None; zones.len()]
    }
    fn created(&self, _: ListedZone) {}
    fn removed(&self, _: ZoneId, _: &ZoneName) {}
    fn content(&self, zone: ZoneId, _: &ZoneName, _: ZoneContent) {
        let _ = self.came.lock().map(|came| came.send((zone, Instant::now())));
    }
    fn reached(&self, connected: bool, why: Option<&str>) {
        if let (false, Some(why)) = (connected, why) {
            eprintln!("not connected: {why}");
        }
    }
}

fn settings(url: &str, node: &str) -> Result<DatabaseSettings, String> {
    Ok(DatabaseSettings {
        url: DatabaseUrl::parse(url)?,
        schema: SchemaKind::Own,
        poll: Duration::from_secs(1),
        node: node.into(),
        timeout: Duration::from_secs(60),
        keep_changes: Duration::from_secs(86_400),
        tls: None,
        key: HashKey::new([1, 2, 3]),
        hosts: None,
        state: None,
    })
}

/// A zone of ten records.
fn zone(number: usize, serial: u32) -> Result<Arc<Zone>, Box<dyn Error>> {
    let mut text = format!("$TTL 60\n@ SOA ns1 admin {serial} 1 2 3 4\n@ NS ns1\n@ NS ns2\n@ MX 10 mail\n");
    for (at, host) in ["ns1", "ns2", "mail", "www", "ftp", "x"].iter().enumerate() {
        text += &format!("{host} A 192.0.2.{}\n", (at + serial as usize) % 250);
    }
    let origin: NameBuf = format!("z{number}.example.").parse()?;
    let source = TextSource::bytes("zone", text.as_bytes());
    let config = LoadConfig::default();
    let loaded =
        load(source, origin.as_name(), &HashKey::new([1, 2, 3]), &config, |_| ControlFlow::Continue(()))?;
    Ok(Arc::new(loaded.zone))
}

fn commit(id: ZoneId, before: &Arc<Zone>, after: &Arc<Zone>) -> ZoneCommit {
    let step = CommitStep { change: Arc::new(diff(before, after)), author: "measure".into() };
    let apex = before.apex().into();
    ZoneCommit {
        zone: id,
        apex,
        before: Arc::clone(before),
        after: Arc::clone(after),
        steps: vec![step],
        keys: None,
        since: Instant::now(),
    }
}

/// A node, and when contents come to it.
type Counted = (Arc<Database>, Receiver<(ZoneId, Instant)>);

fn start(url: &str, node: &str) -> Result<Counted, Box<dyn Error>> {
    let (came, comes) = channel();
    let database = Database::start(settings(url, node)?, Arc::new(Counter { came: Mutex::new(came) }))?;
    Ok((database, comes))
}

/// Creates zones of ten records.
fn create(url: &str, count: usize) -> Result<Vec<ZoneId>, Box<dyn Error>> {
    let admin = DatabaseAdmin::connect(settings(url, "admin")?)?;
    admin.init()?;
    let begun = Instant::now();
    let mut ids = Vec::new();
    for part in (0..count).collect::<Vec<_>>().chunks(1000) {
        let mut zones = Vec::new();
        for number in part {
            let content = zone(*number, 1)?;
            let apex = content.apex().into();
            zones.push(NewZone { apex, template: None, content, author: "measure".into() });
        }
        ids.extend(admin.create(&zones)?.into_iter().flatten());
    }
    println!("{count} zones of 10 records created in {:.1?}, 1000 in a transaction", begun.elapsed());
    Ok(ids)
}

/// Starts a node that holds no zone and waits until it has all.
fn synchronise(url: &str, node: &str, count: usize) -> Result<Counted, Box<dyn Error>> {
    let begun = Instant::now();
    let (database, comes) = start(url, node)?;
    for _ in 0..count {
        comes.recv()?;
    }
    println!("first synchronisation of {count} zones in {:.1?}", begun.elapsed());
    Ok((database, comes))
}

/// Commits and calls `done` with whether it was made.
fn send(database: &Database, commit: ZoneCommit, done: &Sender<bool>) {
    let done = done.clone();
    let end = move |end: CommitEnd| {
        let _ = done.send(matches!(end, CommitEnd::Committed));
    };
    database.commit(commit, Box::new(end));
}

/// Three versions of a zone.
type Versions = [Arc<Zone>; 3];

fn many_together(
    a: &Counted,
    b: &Counted,
    ids: &[ZoneId],
    versions: &[Versions],
) -> Result<(), Box<dyn Error>> {
    let (done, ends) = channel();
    let begun = Instant::now();
    for ([first, second, _], id) in versions.iter().zip(ids) {
        send(&a.0, commit(*id, first, second), &done);
    }
    for _ in versions {
        assert!(ends.recv()?, "a commit was not made");
    }
    let rate = versions.len() as f64 / begun.elapsed().as_secs_f64();
    println!("{} commits that wait together: {rate:.0} in a second", versions.len());
    for _ in versions {
        b.1.recv()?;
    }
    println!("the last one is at the other node after {:.1?}", begun.elapsed());
    Ok(())
}

fn one_at_a_time(
    a: &Counted,
    b: &Counted,
    ids: &[ZoneId],
    versions: &[Versions],
) -> Result<(), Box<dyn Error>> {
    let (mut at_node, mut at_other) = (Vec::new(), Vec::new());
    let (done, ends) = channel();
    for ([_, second, third], id) in versions.iter().zip(ids).take(1000) {
        let begun = Instant::now();
        send(&a.0, commit(*id, second, third), &done);
        assert!(ends.recv()?, "a commit was not made");
        at_node.push(begun.elapsed());
        let (_, came) = b.1.recv()?;
        at_other.push(came.saturating_duration_since(begun));
    }
    for (what, times) in [("acknowledged", &mut at_node), ("at another node", &mut at_other)] {
        times.sort();
        let at = |part: usize| times.get(times.len() * part / 1000).copied().unwrap_or_default();
        println!("one commit at a time, {what}: median {:.2?}, 99 % within {:.2?}", at(500), at(990));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(100_000), |count| count.parse())?;
    let server = PostgresServer::start(&[]);
    let url = server.database().url();
    let ids = create(&url, count)?;
    let (a, b) = (synchronise(&url, "a", count)?, synchronise(&url, "b", count)?);
    let mut versions = Vec::new();
    for number in 0..COMMITS.min(count) {
        versions.push([zone(number, 1)?, zone(number, 2)?, zone(number, 3)?]);
    }
    many_together(&a, &b, &ids, &versions)?;
    one_at_a_time(&a, &b, &ids, &versions)
}
