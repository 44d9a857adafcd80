//! What rules of policies block most: the names, the clients, the zones and lists, since the start and in the
//! last hour.
//!
//! Workers put a short record about each blocked query into a queue, as for the query log; a thread counts
//! them in tables of bounded size ([`heavy`](crate::heavy)). Records that find the queue full are dropped and
//! counted.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use query_path::{RuleLog, RuleNote, SourceKind, SourceName};
use transport::Client;
use wire::Name;

use crate::heavy::{HeavyKeys, TopList};
use crate::last_hour::LastHour;
use crate::top_thread::TopThread;
use crate::worker_queue::{RecordWriter, WorkerQueue};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopBy {
    /// Query names.
    Name,
    /// Clients' addresses.
    Client,
    /// Response policy zones and lists.
    RuleSource,
}

/// One blocked query; its bytes are QNAME.
struct BlockedQuery {
    client: IpAddr,
    kind: SourceKind,
    source: SourceName,
}

/// Tables of one time.
struct Tables {
    names: HeavyKeys,
    clients: HeavyKeys,
    sources: HeavyKeys,
}

impl Tables {
    fn new(size: usize) -> Self {
        let [names, clients, sources] = [size, size, size].map(HeavyKeys::new);
        Tables { names, clients, sources }
    }

    fn of(&self, by: TopBy) -> &HeavyKeys {
        match by {
            TopBy::Name => &self.names,
            TopBy::Client => &self.clients,
            TopBy::RuleSource => &self.sources,
        }
    }
}

/// The counting thread's tables.
struct TopCounter {
    size: usize,
    since_start: Tables,
    hour: LastHour<Tables>,
}

impl TopCounter {
    fn new(size: usize) -> Self {
        TopCounter { size, since_start: Tables::new(size), hour: LastHour::default() }
    }

    fn count(&mut self, query: &BlockedQuery, qname: &[u8], now: Instant) {
        let client = match query.client.to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let kind = if query.kind == SourceKind::Zone { b'z' } else { b'l' };
        let source = [&[kind], query.source.as_str().as_bytes()].concat();
        let name = qname.to_ascii_lowercase();
        let present = self.hour.present(now, || Tables::new(self.size));
        for Tables { names, clients, sources } in [Some(&mut self.since_start), present].into_iter().flatten()
        {
            sources.add(&source);
            // The safe form of a search engine is no blocked name.
            if query.source.as_str() != recursion::SAFE_SEARCH {
                names.add(&name);
                clients.add(&client.octets());
            }
        }
    }

    fn list(&mut self, by: TopBy, last_hour: bool, most: usize, now: Instant) -> TopList {
        let tables = match last_hour {
            true => self.hour.all(now).map(|tables| tables.of(by)).collect(),
            false => vec![self.since_start.of(by)],
        };
        TopList::of(tables, most, |key| shown(by, key))
    }
}

/// Returns a key of a table as text.
fn shown(by: TopBy, key: &[u8]) -> String {
    match by {
        TopBy::Name => Name::from_wire(key).unwrap_or(Name::ROOT).to_string(),
        TopBy::Client => {
            let octets: [u8; 16] = key.try_into().unwrap_or_default();
            IpAddr::from(Ipv6Addr::from(octets)).to_canonical().to_string()
        }
        TopBy::RuleSource => {
            let (kind, name) = key.split_first().unwrap_or((&b'l', &[]));
            let kind = if *kind == b'z' { "policy zone" } else { "list" };
            format!("{kind} {}", String::from_utf8_lossy(name))
        }
    }
}

impl RecordWriter<BlockedQuery> for TopCounter {
    fn write(&mut self, query: &BlockedQuery, qname: &[u8]) {
        self.count(query, qname, Instant::now());
    }

    fn settle(&mut self) {}
}

/// The engine's end of the queue.
struct TopTap(Arc<WorkerQueue<BlockedQuery>>);

impl RuleLog for TopTap {
    fn decided(&self, client: &Client, qname: Name<'_>, rule: &RuleNote) {
        if rule.action.blocks() {
            let (client, kind, source) = (client.peer.ip(), rule.kind, rule.source);
            self.0.put(|| BlockedQuery { client, kind, source }, &[qname.as_wire()]);
        }
    }
}

/// What rules block most. Off until it has a size.
pub struct PolicyTop(TopThread<BlockedQuery, TopCounter>);

impl Default for PolicyTop {
    fn default() -> Self {
        PolicyTop(TopThread::new("policy-top"))
    }
}

impl PolicyTop {
    /// Starts with tables of this size; 0 is off. Another size empties the tables. Returns the engine's
    /// end of the queue.
    ///
    /// # Errors
    /// The system's error if it refuses the thread.
    pub fn resize(&self, size: usize) -> std::io::Result<Option<Arc<dyn RuleLog>>> {
        let queue = self.0.resize(size, TopCounter::new)?;
        Ok(queue.map(|queue| Arc::new(TopTap(queue)) as Arc<dyn RuleLog>))
    }

    /// Returns the most frequent, at most this many. `None`: it is off, or the thread does not reply in time.
    pub fn list(&self, by: TopBy, last_hour: bool, most: usize) -> Option<TopList> {
        self.0.ask(move |counter| counter.list(by, last_hour, most, Instant::now()))
    }

    /// Returns the size of the tables; 0 is off.
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// Returns the number of queries that found the queue full.
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn query(client: [u8; 4], kind: SourceKind, source: &str) -> BlockedQuery {
        BlockedQuery { client: client.into(), kind, source: SourceName::new(source) }
    }

    const ADS: &[u8] = b"\x03ADS\x04test\0";

    #[test]
    fn names_clients_and_sources_are_counted() {
        let (mut counter, now) = (TopCounter::new(10), Instant::now());
        for n in 0..5 {
            counter.count(&query([192, 0, 2, n / 3], SourceKind::List, "ads"), ADS, now);
        }
        counter.count(&query([192, 0, 2, 9], SourceKind::Zone, "rpz.test."), b"\x01x\0", now);
        counter.count(&query([192, 0, 2, 9], SourceKind::Zone, recursion::SAFE_SEARCH), b"\x01y\0", now);
        let mut top = |by| counter.list(by, false, 2, now);
        let entry = |text: &str, count| (text.to_owned(), count, 0);
        assert_eq!(top(TopBy::Name).entries, [entry("ads.test.", 5), entry("x.", 1)]);
        assert_eq!(top(TopBy::Client).entries, [entry("192.0.2.0", 3), entry("192.0.2.1", 2)]);
        let sources = top(TopBy::RuleSource);
        assert_eq!(sources.entries, [entry("list ads", 5), entry("policy zone rpz.test.", 1)]);
        assert_eq!((sources.total, sources.others), (7, 1));
    }

    #[test]
    fn the_last_hour_forgets_what_is_older() {
        let (mut counter, start) = (TopCounter::new(10), Instant::now());
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let one = query([192, 0, 2, 1], SourceKind::List, "ads");
        for minutes in [0, 5, 15, 59] {
            counter.count(&one, ADS, at(minutes));
        }
        let mut total = |minutes| counter.list(TopBy::Name, true, 10, at(minutes)).total;
        assert_eq!([59, 65, 69].map(&mut total), [4, 4, 4]);
        assert_eq!(total(70), 2, "the first ten minutes are over an hour old");
        assert_eq!(total(80), 1);
        assert_eq!(total(500), 0);
        assert_eq!(counter.list(TopBy::Name, false, 10, at(500)).total, 4);
        assert!(counter.hour.all(at(500)).count() == 0);
    }
}
