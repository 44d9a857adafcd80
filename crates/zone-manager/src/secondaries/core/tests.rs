//! Tests of the core on virtual time, with peers that reply as a test wants.

use std::collections::HashMap;
use std::sync::Mutex;

use transfer::incoming::{AskedFor, TransferFault, TransferLimit};
use transport::EncryptionFault;
use wire::edns::{OPT_LEN, OptionCode, opt_with_options};
use wire::message::Header;
use wire::{NameBuf, Rcode, Ttl, Type};
use zone::ZoneBuilder;

use super::*;
use crate::secondaries::status::SecondaryStatus;
use crate::zones::resolve::resolve;
use config::read_text;
use threads::sync::lock;

const START: u64 = 1_700_000_000;

/// Orders of the core to its services.
#[derive(Default)]
struct Done {
    fetches: Vec<FetchJob>,
    folds: Vec<FoldJob>,
    news: Vec<String>,
    kept: Vec<String>,
    /// When the zone expires, in seconds after the start.
    expires: Option<u64>,
}

impl CoreHost for Arc<Mutex<Done>> {
    fn fetch(&self, _: ZoneName, job: FetchJob) {
        lock(self).fetches.push(job);
    }
    fn fold(&self, _: ZoneName, job: FoldJob) {
        lock(self).folds.push(job);
    }
    fn news(&self, _: &ZoneName, news: SecondaryNews) {
        lock(self).news.push(match news {
            SecondaryNews::Received(zone) => format!("received {}", zone.serial()),
            SecondaryNews::Folded(zone) => format!("folded {}", zone.serial()),
            SecondaryNews::Confirmed => "confirmed".into(),
            SecondaryNews::Expired => "expired".into(),
        });
    }
    fn expires(&self, _: &ZoneName, at: Option<UnixTime>) {
        lock(self).expires = at.map(|at| at.as_secs() - START);
    }
    fn keep(&self, _: &ZoneName, keep: Keep, at: UnixTime) {
        let after = at.as_secs() - START;
        lock(self).kept.push(match keep {
            Keep::Version(zone, changes) => {
                format!("{} with {:?} at {after}", zone.serial(), changes.map(|changes| changes.len()))
            }
            Keep::Confirmed => format!("confirmed at {after}"),
            Keep::Nothing => "nothing".into(),
        });
    }
    fn looked(&self, _: &ZoneName) {}
    fn wall(&self) -> UnixTime {
        UnixTime::from_secs(START)
    }
}

/// Always zero: no jitter, and equal IDs.
struct Zeros;

impl Random for Zeros {
    fn next_u32(&mut self) -> u32 {
        0
    }
}

struct Rig {
    core: SecondaryCore<Arc<Mutex<Done>>, Zeros>,
    done: Arc<Mutex<Done>>,
    now: Instant,
    /// Messages on open links: target and transport.
    open: HashMap<Link, (SocketAddr, transport::Transport, Vec<u8>)>,
    counts: Arc<SecondaryCounts>,
}

fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

fn apex() -> ZoneName {
    "example.".parse::<NameBuf>().expect("a name").as_name().into()
}

/// Returns the peers of the zones in this configuration.
fn rules(text: &str) -> PeerRules {
    let accepted = read_text("t.toml", text.to_owned(), std::path::Path::new("/"));
    let accepted = accepted.unwrap_or_else(|rejected| panic!("{rejected}"));
    resolve(&accepted.config).expect("zones").peers
}

/// Returns the peers of `example.` with these keys.
fn example(keys: &str) -> PeerRules {
    rules(&format!("[[zone]]\nname = \"example\"\n{keys}"))
}

#[test]
fn each_server_is_asked_from_the_source_of_its_family() {
    let peers = example(
        "primaries = [\"192.0.2.1\", \"2001:db8::1\"]\nnotify = [\"2001:db8::3\"]\nsource = [\"2001:db8::2\", \"192.0.2.2\"]\n",
    );
    let peers = peers.get(&apex()).expect("peers");
    let sources: Vec<String> = peers
        .primaries
        .iter()
        .chain(&peers.notify)
        .map(|server| server.source.map_or("any".into(), |source| source.to_string()))
        .collect();
    assert_eq!(sources, ["192.0.2.2", "2001:db8::2", "2001:db8::2"]);
    let peers = example("primaries = [\"192.0.2.1\"]\nsource = [\"2001:db8::2\"]\n");
    assert_eq!(peers.get(&apex()).expect("peers").primaries[0].source, None);
}

const OVER_TLS: &str = "primaries = [\"192.0.2.1#opportunistic\", \"192.0.2.2#opportunistic\"]\n\
                        notify = [\"192.0.2.3#opportunistic\"]\n";

fn last_fault(rig: &Rig) -> Option<String> {
    rig.core.status(&apex(), rig.now).and_then(|status| status.fault).map(|fault| fault.fault)
}

#[test]
fn a_primary_over_tls_is_asked_by_no_other_transport_and_its_queries_are_padded() {
    let mut rig = Rig::loaded(OVER_TLS);
    rig.pass(1000);
    assert_eq!(rig.asked(), ["tls 192.0.2.1"]);
    assert_eq!(rig.open.values().map(|(_, _, message)| message.len()).collect::<Vec<_>>(), [128]);
    // The padding is left out with OPT: it is not an answer of another transport.
    rig.reply(|reply| reply[3] |= 1);
    assert_eq!(rig.asked(), ["tls 192.0.2.1"]);
    // A truncated response is a fault.
    rig.reply(|reply| reply[2] |= 2);
    assert_eq!(rig.asked(), ["tls 192.0.2.2"]);
}

#[test]
fn each_end_of_a_connection_over_tls_has_its_fault() {
    let mut rig = Rig::loaded(OVER_TLS);
    rig.pass(1000);
    let link = |rig: &Rig| *rig.open.keys().next().expect("a link");
    let event = |rig: &mut Rig, event: Event<'_>| {
        let mut actions = Vec::new();
        rig.core.event(event, rig.now, &mut actions);
        rig.act(actions);
    };
    let first = link(&rig);
    rig.open.clear();
    event(&mut rig, Event::Ended { link: first, error: std::io::ErrorKind::UnexpectedEof });
    let closed = "TLS: the server closed the connection during the handshake";
    assert_eq!(last_fault(&rig).as_deref(), Some(closed));
    assert_eq!(rig.asked(), ["tls 192.0.2.2"]);
    rig.pass(10);
    assert_eq!(last_fault(&rig).as_deref(), Some("TLS: handshake timeout"));
    rig.pass(100);
    let third = link(&rig);
    rig.open.clear();
    event(&mut rig, Event::Insecure { link: third, fault: EncryptionFault::WrongName });
    let wrong = "TLS: the server's certificate does not match its name";
    assert_eq!(last_fault(&rig).as_deref(), Some(wrong));
    // After the handshake the primary is late.
    let fourth = link(&rig);
    event(&mut rig, Event::Secured { link: fourth, resumed: false });
    rig.pass(10);
    assert_eq!(last_fault(&rig).as_deref(), Some("no answer"));
}

/// Returns a version with so many hosts: refresh after 1000 seconds, retry after 100, expire after 5000.
fn zone(serial: u32, hosts: u32) -> Arc<Zone> {
    let apex: NameBuf = "example.".parse().expect("a name");
    let mut builder = ZoneBuilder::new(apex.as_name(), &key());
    let numbers = [serial, 1000, 100, 5000, 60].map(u32::to_be_bytes).concat();
    let soa = [&[0, 0][..], &numbers].concat();
    builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
    builder.add(apex.as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("a record");
    for host in 0..hosts {
        let name: NameBuf = format!("h{host}.example.").parse().expect("a name");
        builder.add(name.as_name(), Type::A, Ttl::from_secs(60), &[192, 0, 2, 1]).expect("a record");
    }
    Arc::new(builder.finish().expect("a zone"))
}

/// Bytes of an OPT record that asks for EXPIRE.
const ASKED: usize = OPT_LEN + 4;

/// Whether a query ends with such an OPT record.
fn asks_expire(query: &[u8]) -> bool {
    query.ends_with(&opt_with_options(1232, false, &[(OptionCode::EXPIRE, b"")]))
}

const TWO: &str = "primaries = [\"192.0.2.1\", \"192.0.2.2\"]\n";

impl Rig {
    fn new(rules: PeerRules) -> Rig {
        let (done, now) = (Arc::new(Mutex::new(Done::default())), Instant::now());
        let limits = super::super::limits(&config::Settings::default());
        let counts = Arc::<SecondaryCounts>::default();
        let epoch = Epoch { instant: now, unix: UnixTime::from_secs(START) };
        let core = SecondaryCore::new(Arc::clone(&done), Zeros, key(), limits, Arc::clone(&counts), epoch);
        let mut rig = Rig { core, done, now, counts, open: HashMap::new() };
        rig.request(SecondaryRequest::Configure(rules));
        rig
    }

    /// Returns a rig whose zone has version 5.
    fn loaded(keys: &str) -> Rig {
        let mut rig = Rig::new(example(keys));
        rig.request(SecondaryRequest::Begin(apex(), None));
        rig.transferred(Ok(Fetched::Whole(zone(5, 0))));
        assert_eq!(rig.news(), ["received 5"]);
        rig
    }

    fn act(&mut self, actions: Vec<Action>) {
        let mut opened = HashMap::new();
        for action in actions {
            match action {
                Action::Open { link, transport, to, .. } => drop(opened.insert(link, (to, transport))),
                Action::Send { link, message } => {
                    let (to, transport) = opened[&link];
                    self.open.insert(link, (to, transport, message));
                }
                Action::Cancel { .. } | Action::Resume { .. } => panic!("links have no streams"),
                Action::Close { link } => drop(self.open.remove(&link)),
            }
        }
    }

    fn request(&mut self, request: SecondaryRequest) {
        let mut actions = Vec::new();
        self.core.request(request, self.now, &mut actions);
        self.act(actions);
    }

    /// Advances the time by so many seconds, from deadline to deadline.
    fn pass(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while let Some(deadline) = self.core.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            let mut actions = Vec::new();
            self.core.timeout(self.now, &mut actions);
            self.act(actions);
        }
        self.now = end;
    }

    /// Returns the addresses of outstanding messages, in the order in which they were sent.
    fn asked(&self) -> Vec<String> {
        let mut links: Vec<_> = self.open.iter().collect();
        links.sort_by_key(|(link, _)| **link);
        links.into_iter().map(|(_, (to, transport, _))| format!("{transport} {}", to.ip())).collect()
    }

    /// Replies to the only outstanding message.
    fn reply(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        assert_eq!(self.open.len(), 1, "{:?}", self.asked());
        let (&link, (_, _, message)) = self.open.iter().next().expect("a message");
        let mut reply = message.clone();
        reply[2] |= 0x84;
        change(&mut reply);
        let mut actions = Vec::new();
        self.core.event(Event::Message { link, message: &reply }, self.now, &mut actions);
        self.act(actions);
    }

    /// Replies with an SOA of this serial, and without OPT.
    fn serial(&mut self, serial: u32) {
        self.soa(serial, &[]);
    }

    /// Replies with an SOA of this serial and these options, if any.
    fn soa(&mut self, serial: u32, options: &[(OptionCode, &[u8])]) {
        let soa = [&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 60, 0, 22, 0, 0][..], &serial.to_be_bytes(), &[0; 16]];
        self.reply(|reply| {
            reply.truncate(reply.len() - if asks_expire(reply) { ASKED } else { 0 });
            (reply[7], reply[11]) = (1, u8::from(!options.is_empty()));
            reply.extend(soa.concat());
            if !options.is_empty() {
                reply.extend(opt_with_options(1232, false, options));
            }
        });
    }

    fn fetches(&self) -> Vec<(String, AskedFor)> {
        lock(&self.done).fetches.iter().map(|job| (job.primary.address.ip().to_string(), job.asked)).collect()
    }

    /// Ends the transfer in progress.
    fn transferred(&mut self, result: Result<Fetched, SecondaryFault>) {
        let number = lock(&self.done).fetches.pop().expect("a transfer").number;
        self.request(SecondaryRequest::Fetched(number, apex(), FetchFigures::default(), result));
    }

    fn news(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.done).news)
    }

    fn kept(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.done).kept)
    }

    fn status(&self) -> SecondaryStatus {
        self.core.status(&apex(), self.now).expect("a zone with peers")
    }

    fn notified(&mut self, serial: Option<u32>) {
        self.request(SecondaryRequest::Notified(apex(), Some(0), serial.map(Serial)));
    }

    fn published(&mut self, serial: u32) {
        let soa = super::super::soa_data(&zone(serial, 0)).into();
        self.request(SecondaryRequest::Published(vec![Published {
            apex: apex(),
            serial: Serial(serial),
            soa,
        }]));
    }
}

fn axfr(address: &str) -> (String, AskedFor) {
    (address.to_owned(), AskedFor::Axfr)
}

#[test]
fn a_zone_is_transferred_then_looked_for_in_time() {
    let mut rig = Rig::new(example(TWO));
    assert!(rig.fetches().is_empty(), "not before it is known what was kept");
    rig.request(SecondaryRequest::Begin(apex(), None));
    assert_eq!(rig.fetches(), [axfr("192.0.2.1")]);
    rig.transferred(Ok(Fetched::Whole(zone(5, 0))));
    assert_eq!((rig.news(), rig.status().state), (vec!["received 5".into()], Some("fresh")));
    rig.pass(999);
    assert!(rig.asked().is_empty());
    rig.pass(1);
    assert_eq!(rig.asked(), ["udp 192.0.2.1"]);
    rig.serial(5);
    assert_eq!((rig.news(), rig.asked().len()), (vec!["confirmed".into()], 0));
    rig.pass(1000);
    rig.serial(6);
    assert_eq!(rig.fetches(), [("192.0.2.1".into(), AskedFor::Ixfr(Serial(5)))]);
    // The primary does not support IXFR.
    rig.transferred(Err(SecondaryFault::Transfer(TransferFault::Rcode(Rcode::NOTIMP))));
    assert_eq!(rig.fetches(), [axfr("192.0.2.1")]);
    rig.transferred(Ok(Fetched::Whole(zone(6, 0))));
    assert_eq!((rig.news(), rig.status().serial), (vec!["received 6".into()], Some(6)));
}

#[test]
fn a_primary_that_does_not_answer_is_asked_three_times_then_the_next() {
    let mut rig = Rig::loaded(TWO);
    rig.pass(1000);
    let first = *rig.open.keys().next().expect("a link");
    rig.pass(1);
    assert_eq!(rig.asked(), ["udp 192.0.2.1"]);
    assert!(!rig.open.contains_key(&first), "on a fresh link");
    rig.pass(5);
    assert_eq!(rig.asked(), ["udp 192.0.2.1"]);
    rig.pass(1);
    assert_eq!(rig.asked(), ["udp 192.0.2.2"]);
    // A message that is no reply is ignored; after a truncated one the query is repeated over TCP.
    rig.reply(|reply| reply[0] ^= 1);
    assert_eq!(rig.asked(), ["udp 192.0.2.2"]);
    rig.reply(|reply| reply[2] |= 2);
    assert_eq!(rig.asked(), ["tcp 192.0.2.2"]);
    rig.serial(5);
    assert_eq!((rig.news(), rig.status().fault), (vec!["confirmed".into()], None));
}

#[test]
fn what_a_primary_says_of_the_expire_time_counts_and_is_kept() {
    let mut rig = Rig::loaded(TWO);
    assert_eq!((rig.kept(), lock(&rig.done).expires), (vec!["5 with None at 0".into()], Some(5000)));
    rig.pass(1000);
    assert!(rig.open.values().all(|(_, _, query)| asks_expire(query)));
    // 4500 seconds remain at the primary: as if it had confirmed the version 500 seconds ago.
    rig.soa(5, &[(OptionCode::EXPIRE, &4500u32.to_be_bytes())]);
    assert_eq!((rig.kept(), lock(&rig.done).expires), (vec!["confirmed at 500".into()], Some(5500)));
    let expires = Some(UnixTime::from_secs(START + 5500));
    assert_eq!((rig.news(), rig.status().expires), (vec!["confirmed".into()], expires));
    rig.request(SecondaryRequest::Configure(PeerRules::default()));
    assert_eq!(lock(&rig.done).expires, None, "it is taken from primaries no longer");
}

#[test]
fn a_primary_that_may_not_know_opt_is_asked_without_it() {
    for rcode in [1, 4] {
        let mut rig = Rig::loaded(TWO);
        rig.pass(1000);
        rig.reply(|reply| reply[3] |= rcode);
        assert_eq!(rig.asked(), ["udp 192.0.2.1"]);
        assert!(!rig.open.values().any(|(_, _, query)| asks_expire(query)));
        rig.reply(|reply| reply[3] |= rcode);
        assert_eq!(rig.asked(), ["udp 192.0.2.2"], "it is the primary's word then");
        rig.serial(5);
        assert_eq!(rig.news(), ["confirmed"]);
    }
}

#[test]
fn notify_is_followed_at_once_but_not_again_and_again() {
    let mut rig = Rig::loaded(TWO);
    rig.notified(Some(5));
    assert!(rig.asked().is_empty(), "that is what we have");
    rig.notified(None);
    rig.notified(Some(9));
    assert_eq!(rig.asked(), ["udp 192.0.2.1"]);
    rig.serial(5);
    // All NOTIFYs received meanwhile cause one more query.
    rig.serial(5);
    assert!(rig.asked().is_empty());
    for serial in 0..100 {
        rig.notified(Some(100 + serial));
    }
    assert!(rig.asked().is_empty(), "it had nothing new just now");
    rig.pass(1);
    rig.serial(6);
    assert_eq!(rig.fetches(), [("192.0.2.1".into(), AskedFor::Ixfr(Serial(5)))]);
    rig.transferred(Ok(Fetched::Whole(zone(6, 0))));
    assert!(rig.asked().is_empty());
}

#[test]
fn a_reload_keeps_the_timers_of_zones_that_stay() {
    let mut rig = Rig::loaded(TWO);
    rig.pass(600);
    let before = rig.status();
    rig.request(SecondaryRequest::Configure(example(TWO)));
    assert_eq!(rig.status(), before);
    // Other primaries are not queried before the refresh time either.
    rig.request(SecondaryRequest::Configure(example("primaries = [\"192.0.2.3\"]\n")));
    assert_eq!((rig.status().next_refresh, rig.asked().len()), (before.next_refresh, 0));
    rig.pass(400);
    assert_eq!(rig.asked(), ["udp 192.0.2.3"]);
    rig.serial(5);
    assert_eq!(rig.kept(), ["5 with None at 0", "confirmed at 1000"]);
    // A removed zone leaves nothing behind.
    rig.request(SecondaryRequest::Order(apex(), ZoneOrder::Refresh, std::sync::mpsc::sync_channel(1).0));
    rig.request(SecondaryRequest::Configure(PeerRules::default()));
    assert!(rig.asked().is_empty() && rig.core.status(&apex(), rig.now).is_none());
    assert_eq!((rig.kept(), rig.news()), (vec!["nothing".into()], vec!["confirmed".into()]));
    rig.pass(100_000);
    assert!(rig.asked().is_empty() && rig.news().is_empty());
}

#[test]
fn a_transfer_that_counts_no_longer_changes_nothing() {
    let mut rig = Rig::new(example(TWO));
    rig.request(SecondaryRequest::Begin(apex(), None));
    rig.request(SecondaryRequest::Configure(example("primaries = [\"192.0.2.3\"]\n")));
    assert_eq!(rig.fetches(), [axfr("192.0.2.1"), axfr("192.0.2.3")]);
    let first = lock(&rig.done).fetches.remove(0);
    assert!(first.cancelled.load(std::sync::atomic::Ordering::Relaxed));
    let late = Ok(Fetched::Whole(zone(4, 0)));
    rig.request(SecondaryRequest::Fetched(first.number, apex(), FetchFigures::default(), late));
    assert!(rig.news().is_empty());
    rig.transferred(Ok(Fetched::Whole(zone(5, 0))));
    assert_eq!(rig.news(), ["received 5"]);
}

#[test]
fn a_zone_expires_and_comes_back_when_a_primary_confirms_it() {
    let mut rig = Rig::loaded("primaries = [\"192.0.2.1\"]\nmax-expire = \"2000s\"\n");
    rig.pass(1999);
    assert!(rig.news().is_empty());
    rig.pass(1);
    assert_eq!((rig.news(), rig.status().state), (vec!["expired".into()], Some("expired")));
    while rig.asked().is_empty() {
        rig.pass(1);
    }
    rig.serial(5);
    assert_eq!((rig.news(), rig.status().state), (vec!["confirmed".into()], Some("fresh")));
}

#[test]
fn what_was_kept_goes_on_where_it_was() {
    let kept = |seconds| {
        let confirmed = UnixTime::from_secs(seconds);
        Some(KeptVersion { zone: zone(5, 0), confirmed, expired: false })
    };
    let mut rig = Rig::new(example(TWO));
    rig.request(SecondaryRequest::Begin(apex(), kept(START - 400)));
    rig.pass(599);
    assert!(rig.asked().is_empty());
    rig.pass(1);
    rig.serial(6);
    assert_eq!(rig.fetches(), [("192.0.2.1".into(), AskedFor::Ixfr(Serial(5)))]);
    // A clock that was set back does not delay the expiry.
    let mut rig = Rig::new(example(TWO));
    rig.request(SecondaryRequest::Begin(apex(), kept(START + 1_000_000)));
    assert_eq!(rig.status().expires, Some(UnixTime::from_secs(START + 5000)));
}

#[test]
fn what_changes_during_a_fold_is_in_the_new_base() {
    let mut rig = Rig::new(example(TWO));
    rig.request(SecondaryRequest::Begin(apex(), None));
    rig.transferred(Ok(Fetched::Whole(zone(5, 8))));
    rig.kept();
    let change = |from: &Arc<Zone>, to: &Arc<Zone>| {
        let change = zone::store::diff(from, to);
        let next = Arc::new(from.apply(&change).expect("it fits"));
        (next, vec![Arc::new(change)])
    };
    let mut version = zone(5, 8);
    let mut step = |rig: &mut Rig, serial: u32, hosts: u32| {
        let (next, changes) = change(&version, &zone(serial, hosts));
        version = Arc::clone(&next);
        rig.request(SecondaryRequest::Order(apex(), ZoneOrder::Refresh, std::sync::mpsc::sync_channel(1).0));
        rig.serial(serial);
        rig.transferred(Ok(Fetched::Changed(next, changes)));
    };
    step(&mut rig, 6, 16);
    let job = lock(&rig.done).folds.pop().expect("a fold");
    assert_eq!(rig.kept(), ["6 with Some(1) at 0"]);
    step(&mut rig, 7, 17);
    assert!(lock(&rig.done).folds.is_empty(), "one at a time");
    rig.news();
    rig.request(SecondaryRequest::Folded(job.number(), apex(), Some(zone(6, 16))));
    assert_eq!(rig.news(), ["folded 7"]);
    // The job has ended.
    rig.request(SecondaryRequest::Folded(job.number(), apex(), Some(zone(6, 16))));
    assert!(rig.news().is_empty());
    // A transfer of the whole zone makes the job outdated.
    step(&mut rig, 8, 40);
    let job = lock(&rig.done).folds.pop().expect("a fold");
    rig.request(SecondaryRequest::Order(apex(), ZoneOrder::Refresh, std::sync::mpsc::sync_channel(1).0));
    rig.serial(9);
    rig.transferred(Ok(Fetched::Whole(zone(9, 8))));
    rig.news();
    rig.request(SecondaryRequest::Folded(job.number(), apex(), Some(zone(8, 40))));
    assert!(rig.news().is_empty());
}

const TOLD: &str = "file = \"x\"\nnotify = [\"192.0.2.8\", \"192.0.2.9\"]\n";

#[test]
fn secondaries_are_told_of_a_change_until_they_reply() {
    let mut rig = Rig::new(example(TOLD));
    rig.published(5);
    assert_eq!(rig.asked(), ["udp 192.0.2.8", "udp 192.0.2.9"]);
    let (link, message) = rig
        .open
        .iter()
        .find(|(_, (to, ..))| to.ip().to_string() == "192.0.2.8")
        .map(|(l, (_, _, m))| (*l, m.clone()))
        .expect("a message");
    let header = Header::of(&message).expect("a header");
    assert_eq!(
        (header.opcode(), header.authoritative(), header.counts()),
        (wire::Opcode::NOTIFY, true, [1, 1, 0, 0])
    );
    let mut reply = message;
    reply[2] |= 0x80;
    let mut actions = Vec::new();
    rig.core.event(Event::Message { link, message: &reply }, rig.now, &mut actions);
    rig.act(actions);
    rig.pass(4);
    assert_eq!(rig.asked(), ["udp 192.0.2.9"; 2], "the other gets NOTIFY again");
    rig.published(5);
    assert_eq!(rig.asked().len(), 2, "the same version is no news");
    rig.pass(600);
    assert!(rig.asked().is_empty(), "it got NOTIFY often enough");
    let counts = Arc::clone(&rig.counts);
    let load = |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
    let all = [&counts.notify_sent, &counts.notify_acknowledged, &counts.notify_unanswered].map(load);
    assert_eq!(all, [6, 1, 5]);
}

/// Returns a rig in which zones `z0.` and so on go into service, with these secondaries.
fn notifying(in_all: usize, each: usize, secondaries: &[&str]) -> Rig {
    let names = secondaries.iter().enumerate();
    let names: String = names
        .map(|(n, to)| format!("[[zone]]\nname = \"z{n}\"\nfile = \"x\"\nnotify = [\"{to}\"]\n"))
        .collect();
    let mut rig = Rig::new(rules(&names));
    let limits = super::super::limits(&config::Settings::default());
    rig.request(SecondaryRequest::Limit(CoreLimits { notify: in_all, notify_each: each, ..limits }));
    let soa: Box<[u8]> = super::super::soa_data(&zone(5, 0)).into();
    let all = (0..secondaries.len()).map(|n| {
        let apex: NameBuf = format!("z{n}.").parse().expect("a name");
        Published { apex: apex.as_name().into(), serial: Serial(5), soa: soa.clone() }
    });
    rig.request(SecondaryRequest::Published(all.collect()));
    rig
}

#[test]
fn no_more_are_told_at_a_time_than_may_be() {
    for (in_all, each) in [(3, 10), (10, 3)] {
        let mut rig = notifying(in_all, each, &["192.0.2.8"; 10]);
        assert_eq!(rig.asked().len(), 3);
        // A secondary that does not reply releases its place after a while.
        rig.pass(5);
        assert_eq!(rig.asked().len(), 3);
        rig.pass(600);
        assert!(rig.asked().is_empty());
        let sent = Arc::clone(&rig.counts).notify_sent.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(sent, 50, "each zone gets as many NOTIFY as if it were alone");
    }
}

#[test]
fn a_secondary_of_many_zones_that_was_dead_kept_all_others_waiting() {
    let mut secondaries = vec!["192.0.2.8"; 100];
    secondaries.push("192.0.2.9");
    let mut rig = notifying(10, 4, &secondaries);
    let to_the_other = |rig: &Rig| rig.asked().iter().filter(|to| to.ends_with(".9")).count();
    assert_eq!((rig.asked().len(), to_the_other(&rig)), (5, 1));
    // A secondary that replies gets its next NOTIFY at once.
    let (link, message) = rig
        .open
        .iter()
        .find(|(_, (to, ..))| to.ip().to_string() == "192.0.2.8")
        .map(|(link, (_, _, message))| (*link, message.clone()))
        .expect("a message");
    let mut reply = message;
    reply[2] |= 0x80;
    let mut actions = Vec::new();
    rig.core.event(Event::Message { link, message: &reply }, rig.now, &mut actions);
    rig.act(actions);
    assert_eq!(rig.asked().len(), 5);
    // Removed zones leave nothing behind that others would wait for.
    rig.request(SecondaryRequest::Configure(example(TOLD)));
    rig.pass(600);
    assert!(rig.asked().is_empty() && rig.core.targets.is_empty() && rig.core.in_flight == 0);
}

#[test]
fn a_primary_that_sends_an_older_version_is_asked_again_at_retry_and_no_sooner() {
    let mut rig = Rig::loaded("primaries = [\"192.0.2.1\"]\n");
    rig.pass(1000);
    for round in 0..5 {
        rig.serial(6);
        assert_eq!(rig.fetches(), [("192.0.2.1".into(), AskedFor::Ixfr(Serial(5)))], "round {round}");
        let older = TransferFault::Older { sent: Serial(4), held: Serial(5) };
        rig.transferred(Err(SecondaryFault::Transfer(older)));
        rig.pass(99);
        assert_eq!((rig.asked(), rig.fetches()), (vec![], vec![]), "round {round}");
        rig.pass(1);
        assert_eq!(rig.asked(), ["udp 192.0.2.1"], "round {round}");
    }
    assert_eq!((rig.news(), rig.status().serial), (vec![], Some(5)));
}

/// Captured lines of the log.
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        lock(&self.0).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the lines that this thread logs during `work`.
fn logged(work: impl FnOnce()) -> Vec<String> {
    let lines = Arc::<Mutex<Vec<u8>>>::default();
    let written = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    let subscriber = subscriber.with_writer(move || Lines(Arc::clone(&written))).finish();
    tracing::subscriber::with_default(subscriber, work);
    String::from_utf8_lossy(&lock(&lines)).lines().map(str::to_owned).collect()
}

#[test]
fn a_stuck_transfer_was_a_line_for_each_way_in_which_it_failed() {
    // No other test uses these addresses, so that none uses up their log lines.
    let primaries = ["192.0.2.171", "192.0.2.172"];
    let mut rig = Rig::loaded(&format!("primaries = {primaries:?}\n"));
    let limit = |limit| SecondaryFault::Transfer(TransferFault::Limit(limit));
    let faults = [
        SecondaryFault::BrokenOff,
        SecondaryFault::Unreachable,
        SecondaryFault::Refused,
        limit(TransferLimit::Time),
        limit(TransferLimit::Rate),
    ];
    let lines = logged(|| {
        rig.pass(1000);
        for fault in faults.iter().chain(&faults) {
            for _ in primaries {
                rig.serial(6);
                rig.transferred(Err(fault.clone()));
            }
            rig.pass(100);
        }
    });
    for primary in primaries {
        let its: Vec<&String> = lines.iter().filter(|line| line.contains(primary)).collect();
        assert!(its.len() == 1 && its[0].contains("ended the connection"), "{lines:#?}");
    }
}

#[test]
fn a_secondary_that_changes_its_mind_was_a_line_for_each_notify() {
    let mut rig = Rig::new(example("file = \"x\"\nnotify = [\"192.0.2.178\"]\n"));
    let lines = logged(|| {
        for n in 0..8 {
            rig.published(5 + n);
            let until = rig.now + Duration::from_secs(600);
            while rig.open.is_empty() {
                assert!(rig.now < until, "no NOTIFY");
                rig.pass(1);
            }
            let rcode = if n % 2 == 0 { Rcode::NOERROR } else { Rcode::REFUSED };
            rig.reply(|reply| reply[3] = rcode.0 as u8);
        }
    });
    let its: Vec<&String> =
        lines.iter().filter(|line| line.contains("answers NOTIFY with REFUSED")).collect();
    assert_eq!(its.len(), 1, "{lines:#?}");
}
