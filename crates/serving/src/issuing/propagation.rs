//! Whether the servers of a zone have the records of a challenge: each address of the names in its NS
//! records is asked until it has them.
//!
//! A CA asks any of these servers, so one that answers without the record fails the order before the CA is
//! asked: failures at the CA are few in an hour. A server that does not answer does not; the CA asks another
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use query_path::Engine;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;
use wire::message::{Malformed, Parser};
use wire::{Header, Name, NameBuf, Rcode, Type, ZoneName};

use super::records::ChallengeRecord;
use crate::frontend::Served;
use crate::hosts::ServerHosts;
use crate::hosts::exchange::{MALFORMED, QueryKind, ServerQuery, exchange};

/// Most NS names of a zone whose addresses are asked.
const MAX_NAMES: usize = 26;
/// Most addresses that are asked.
const MAX_ADDRESSES: usize = 64;
/// Longest wait for one response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a query is sent that gets no response.
const TRIES: u32 = 2;
/// Rounds without a response after which a server is left out.
const SILENT_ROUNDS: u32 = 2;
/// Wait between two rounds; each is longer, up to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Most faults in a text.
const MAX_FAULTS: usize = 4;
/// The port of name servers.
const DNS_PORT: u16 = 53;

/// The servers of zones.
pub(super) struct ZoneServers {
    hosts: Arc<ServerHosts>,
    engine: Weak<Engine<Served>>,
    port: u16,
    /// Wait between the first two rounds.
    pause: Duration,
}

/// A server that is asked for a record.
struct AskedServer {
    address: SocketAddr,
    /// The number of the record.
    record: usize,
    silent_rounds: u32,
    state: ServerState,
}

/// What a server has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ServerState {
    /// The record.
    Has,
    /// Not the record.
    Lacks(String),
    /// It does not answer.
    Silent(String),
}

impl ZoneServers {
    /// Returns the servers of zones of an engine. `hosts` resolves names that no zone has.
    pub(super) fn new(hosts: &Arc<ServerHosts>, engine: &Arc<Engine<Served>>) -> Self {
        ZoneServers {
            hosts: Arc::clone(hosts),
            engine: Arc::downgrade(engine),
            port: DNS_PORT,
            pause: FIRST_PAUSE,
        }
    }

    /// Waits until all servers of the zones have these records, `longest` at most.
    pub(super) async fn await_records(
        &self,
        records: &[ChallengeRecord],
        longest: Duration,
    ) -> Result<(), String> {
        let deadline = Instant::now() + longest;
        let servers = timeout(longest, self.servers(records)).await;
        let mut servers = servers.map_err(|_| "the addresses of the zone's servers are not known in time")?;
        let mut pause = self.pause;
        loop {
            ask_all(&mut servers, records).await;
            let open = servers.iter().filter(|server| !server.is_settled());
            if open.count() == 0 {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // The last round is at the deadline.
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        lacking(&servers, records, longest)
    }

    /// Returns the servers to ask for each record.
    async fn servers(&self, records: &[ChallengeRecord]) -> Vec<AskedServer> {
        let mut of_zones: BTreeMap<ZoneName, Vec<SocketAddr>> = BTreeMap::new();
        let mut asked = Vec::new();
        for (record, ChallengeRecord { place, .. }) in records.iter().enumerate() {
            if !of_zones.contains_key(&place.zone) {
                of_zones.insert(place.zone.clone(), self.addresses(&place.zone).await);
            }
            let unasked = |address: &SocketAddr| AskedServer {
                address: *address,
                record,
                silent_rounds: 0,
                state: ServerState::Silent("it is not asked".to_owned()),
            };
            asked.extend(of_zones[&place.zone].iter().map(unasked));
        }
        asked
    }

    /// Returns the addresses of the servers of a zone. Those that cannot be resolved are left out: the CA
    /// cannot resolve them either.
    async fn addresses(&self, zone: &ZoneName) -> Vec<SocketAddr> {
        let hosts = self.hosts.with_zones(&self.engine, zone.to_view());
        let servers = hosts.records(zone.as_name().to_buf(), Type::NS).await.ok().flatten();
        let mut addresses = Vec::new();
        for server in servers.unwrap_or_default().into_iter().take(MAX_NAMES) {
            let Ok(name) = Name::from_wire(&server) else { continue };
            match hosts.addresses_of(name.to_buf()).await {
                Ok(found) => addresses.extend(found.into_iter().map(|ip| SocketAddr::new(ip, self.port))),
                Err(fault) => warn!("zone {zone}: its server {name} is not asked for the challenge: {fault}"),
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(MAX_ADDRESSES);
        addresses
    }
}

impl AskedServer {
    /// Whether it need not be asked again.
    fn is_settled(&self) -> bool {
        match self.state {
            ServerState::Has => true,
            ServerState::Lacks(_) => false,
            ServerState::Silent(_) => self.silent_rounds >= SILENT_ROUNDS,
        }
    }
}

/// Asks the servers that are not settled, all at the same time.
async fn ask_all(servers: &mut [AskedServer], records: &[ChallengeRecord]) {
    let mut queries = JoinSet::new();
    for (number, server) in servers.iter().enumerate().filter(|(_, server)| !server.is_settled()) {
        let Some(record) = records.get(server.record) else { continue };
        let (address, name, value) = (server.address, record.place.owner, record.value.clone());
        queries.spawn(async move {
            let query = ServerQuery { name, qtype: Type::TXT, kind: QueryKind::Iterate };
            let state = match exchange(address, &query, RESPONSE_TIMEOUT, TRIES).await {
                Ok(message) => judged(&message, &name, &value),
                Err(fault) => ServerState::Silent(fault.into_text()),
            };
            (number, state)
        });
    }
    // The panic hook has shown a panic.
    while let Some(ended) = queries.join_next().await {
        let Ok((number, state)) = ended else { continue };
        if let Some(server) = servers.get_mut(number) {
            server.silent_rounds += u32::from(matches!(state, ServerState::Silent(_)));
            server.state = state;
        }
    }
}

/// Returns what a response proves about the record.
fn judged(message: &[u8], owner: &NameBuf, value: &str) -> ServerState {
    let Some(header) = Header::of(message) else { return ServerState::Lacks(MALFORMED.to_owned()) };
    match texts_at(message, owner) {
        Err(Malformed) => ServerState::Lacks(MALFORMED.to_owned()),
        Ok(texts) if texts.iter().any(|text| text == value.as_bytes()) => ServerState::Has,
        Ok(_) => ServerState::Lacks(match header.rcode() {
            Rcode::NOERROR => "it does not have the record".to_owned(),
            Rcode::NXDOMAIN => "it does not have the name".to_owned(),
            rcode => format!("the response is {rcode}"),
        }),
    }
}

/// Returns the first strings of the TXT records at a name in the answer section.
fn texts_at(message: &[u8], owner: &NameBuf) -> Result<Vec<Vec<u8>>, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, ..] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    let mut texts = Vec::new();
    for _ in 0..answers {
        let record = parser.record()?;
        if record.rtype == Type::TXT && parser.name_at(record.owner_at)? == *owner {
            let rdata = message.get(record.rdata.clone()).ok_or(Malformed)?;
            let (len, text) = rdata.split_first().ok_or(Malformed)?;
            texts.push(text.get(..usize::from(*len)).ok_or(Malformed)?.to_vec());
        }
    }
    Ok(texts)
}

/// Returns which servers lack a record; warns of those that did not answer.
fn lacking(servers: &[AskedServer], records: &[ChallengeRecord], longest: Duration) -> Result<(), String> {
    let (mut lacking, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for server in servers {
        let owner = records.get(server.record).map(|record| record.place.owner.to_string());
        let about =
            |why: &str| format!("{} ({}): {why}", server.address, owner.as_deref().unwrap_or_default());
        match &server.state {
            ServerState::Has => {}
            ServerState::Lacks(why) => drop(lacking.insert(about(why))),
            ServerState::Silent(why) => drop(silent.insert(about(why))),
        }
    }
    if lacking.is_empty() {
        if !silent.is_empty() {
            let shown = shown_faults(&silent);
            warn!(
                "servers of the zone did not answer about the challenge, the CA may not reach them: {shown}"
            );
        }
        return Ok(());
    }
    let seconds = longest.as_secs();
    Err(format!(
        "after {seconds} s servers of the zone do not have the challenge: {}",
        shown_faults(&lacking)
    ))
}

fn shown_faults(faults: &BTreeSet<String>) -> String {
    let mut text = faults.iter().take(MAX_FAULTS).cloned().collect::<Vec<_>>().join("; ");
    if faults.len() > MAX_FAULTS {
        text += &format!("; and {} more", faults.len() - MAX_FAULTS);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use query_path::{EngineConfig, Sources, Zones};
    use testkit::{ModelRecord, build, key};
    use wire::Ttl;
    use zone::catalog::{Catalog, Change};

    use super::super::records::ChallengePlace;
    use super::*;
    use crate::frontend::serving;
    use crate::hosts::system::SystemResolvers;
    use crate::hosts::testing::{Response, Responses, Servers, name};

    const OWNER: &str = "_acme-challenge.dns.example";
    /// Longer than any test takes: no outcome depends on it.
    const LONG: Duration = Duration::from_secs(60);

    /// An engine with the zone `example`, whose servers are at these addresses, from 127.0.0.1 on.
    fn engine(servers: u8) -> Arc<Engine<Served>> {
        let record = |owner: &str, rtype, rdata: Vec<u8>| ModelRecord {
            owner: name(owner),
            rtype,
            ttl: Ttl::from_secs(60),
            rdata,
        };
        let wire = |text: &str| name(text).as_name().as_wire().to_vec();
        let soa = [wire("ns1.example"), wire("host.example"), vec![0; 20]].concat();
        let mut records = vec![record("example", Type::SOA, soa)];
        for last in 1..=servers {
            let server = format!("ns{last}.example");
            records.push(record("example", Type::NS, wire(&server)));
            records.push(record(&server, Type::A, vec![127, 0, 0, last]));
        }
        let zone = build(name("example").as_name(), &key(), &records);
        let catalog = Catalog::new(&key()).with([Change::Serve(Arc::new(zone))]).expect("of one key");
        let zones = serving(Zones::new(Arc::new(catalog)));
        Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()))
    }

    fn zone_servers(engine: &Arc<Engine<Served>>, port: u16) -> ZoneServers {
        let resolvers = SystemResolvers::new(Path::new("/nonexistent/resolv.conf"), 1);
        let hosts = Arc::new(ServerHosts::of_system(resolvers));
        ZoneServers { port, pause: Duration::from_millis(1), ..ZoneServers::new(&hosts, engine) }
    }

    fn records(values: &[&str]) -> Vec<ChallengeRecord> {
        let place = ChallengePlace { zone: name("example").as_name().into(), owner: name(OWNER) };
        values.iter().map(|value| ChallengeRecord { place: place.clone(), value: (*value).into() }).collect()
    }

    fn with_texts(texts: &[&str]) -> Response {
        let response = Response::to(OWNER, Type::TXT).authoritative();
        texts.iter().fold(response, |response, text| {
            let rdata = [&[text.len() as u8], text.as_bytes()].concat();
            response.answer(OWNER, Type::TXT, 60, &rdata)
        })
    }

    fn always(response: Response) -> Responses {
        Arc::new(move |_, _| Some(response.clone()))
    }

    #[tokio::test]
    async fn the_wait_ends_when_every_server_has_every_record() {
        let asked = Arc::new(AtomicUsize::new(0));
        let late: Responses = Arc::new(move |_, _| {
            Some(match asked.fetch_add(1, Relaxed) {
                0 | 1 => Response::to(OWNER, Type::TXT).authoritative().rcode(Rcode::NXDOMAIN),
                2 | 3 => with_texts(&["one"]),
                _ => with_texts(&["one", "two"]),
            })
        });
        let servers = Servers::start(vec![always(with_texts(&["two", "one"])), late]).await;
        let engine = engine(2);
        let waited = zone_servers(&engine, servers.port).await_records(&records(&["one", "two"]), LONG).await;
        assert_eq!(waited, Ok(()));
        assert_eq!(servers.received_at(1).len(), 2, "it had both at once");
        assert!(servers.received_at(2).len() >= 5);
    }

    #[tokio::test]
    async fn a_server_that_answers_without_the_record_fails_the_order() {
        let lame = always(Response::to(OWNER, Type::TXT).rcode(Rcode::REFUSED));
        let servers =
            Servers::start(vec![always(with_texts(&["one"])), always(with_texts(&["old"])), lame]).await;
        let engine = engine(3);
        let waited = zone_servers(&engine, servers.port)
            .await_records(&records(&["one"]), Duration::from_millis(50))
            .await;
        let fault = waited.expect_err("two lack it");
        for part in [
            format!("{} ({OWNER}.): it does not have the record", servers.address(2)),
            format!("{} ({OWNER}.): the response is REFUSED", servers.address(3)),
        ] {
            assert!(fault.contains(&part), "{fault}");
        }
        assert!(!fault.contains(&servers.address(1).to_string()), "{fault}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_does_not() {
        // Nothing is at 127.0.0.2, so the system refuses the query.
        let servers = Servers::start(vec![always(with_texts(&["one"]))]).await;
        let engine = engine(2);
        let waited = zone_servers(&engine, servers.port).await_records(&records(&["one"]), LONG).await;
        assert_eq!(waited, Ok(()));
    }
}
