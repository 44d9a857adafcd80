//! Zone transfers: a server under test sends a zone (`axfr-out`), or receives one (`axfr-in`).

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wire::Type;

use crate::axfr::{Connection, Content};
use crate::failure::{Context, Failure, Result};
use crate::load::Load;
use crate::measure::{self, Ledger, WORKING, Watch};
use crate::message::{Edns, answered_serial, write_query};
use crate::primary::{Primary, Sent, Versions};
use crate::report::{Figures, Moved};
use crate::servers::Server;
use crate::session::Plan;
use crate::stream::Stream;
use crate::sys;
use crate::zones::{SERIAL, ZoneSet};

/// Number of transfers in one turn, whose median is taken.
const REPEATS: usize = 3;
/// Time after which no further transfer begins.
const ENOUGH: Duration = Duration::from_secs(30);
/// Time after which a NOTIFY is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// Interval of samples of the server.
const LOOK: Duration = Duration::from_millis(50);

/// Transfers a zone from a server several times.
pub(crate) fn out(plan: &Plan, server: &Server, zones: &ZoneSet) -> Result<(Load, Figures)> {
    let zone = zones.zones.first().context(|| "no zone to be sent".to_string())?;
    let repeats = if plan.is_timed() { REPEATS } else { 1 };
    let (began, mut figures) = (Instant::now(), Vec::new());
    let mut load = Load::default();
    while figures.len() < repeats && (figures.is_empty() || began.elapsed() < ENOUGH) {
        let mut connection = Connection::open(server.address)?;
        let watch = Watch::start(server.group());
        let taken = connection.take(&zone.name, plan.patience, |_| {})?;
        let usage = watch.stop();
        if taken.records != zones.records + 1 {
            let (records, wanted) = (taken.records, zones.records + 1);
            return Err(Failure::new(format!("sent {records} records instead of {wanted}")));
        }
        load.answered += 1;
        figures.push(Figures {
            moved: Some(Moved {
                seconds: Some(taken.seconds),
                bytes: Some(taken.bytes as f64),
                messages: Some(taken.messages as f64),
                records: Some(taken.records as f64),
                ..Moved::used(&usage)
            }),
            ..Figures::default()
        });
    }
    Ok((load, Figures::median(&figures)))
}

/// Checks that a server sends the contents of the zone file.
pub(crate) fn check(plan: &Plan, server: &Server, zones: &ZoneSet, wanted: Content) -> Result<()> {
    let zone = zones.zones.first().context(|| "no zone to be sent".to_string())?;
    let mut content = Content::default();
    let each = |message: &[u8]| content.add(message);
    Connection::open(server.address)?.take(&zone.name, plan.patience, each)?;
    if content == wanted { Ok(()) } else { Err(Failure::new("sends other records than the zone's file has")) }
}

/// Returns the expected contents of a transfer of a set's first zone.
pub(crate) fn content(zones: &ZoneSet) -> Result<Content> {
    let zone = zones.zones.first().context(|| "no zone to be sent".to_string())?;
    Ok(Stream::read(&zone.file, &zone.name, SERIAL, usize::MAX)?.0.content())
}

/// Offers the new version to a server that has the old one, and waits until it answers with it.
pub(crate) fn take(
    plan: &Plan,
    server: &Server,
    primary: &Primary,
    versions: &Versions,
    records: u64,
) -> Result<(Load, Figures)> {
    let asking = Asking::new(server.address, versions)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ledger = scope.spawn(|| watch(server.group(), &done));
        let began = Instant::now();
        let served = serve(plan, server.address, primary, &asking, began);
        // Work that a server postpones until it answers with the zone is part of the cost.
        let settled = served.and_then(|served| measure::until_idle(server.group(), WORKING).map(|()| served));
        done.store(true, Ordering::Relaxed);
        let ledger = ledger.join().map_err(|_| Failure::new("the server was not watched"))?;
        let (sent, served) = settled?;
        let (Some(asked), Some(last)) = (sent.asked, sent.done) else {
            return Err(Failure::new("answers with the new version without having asked for it"));
        };
        let figures = Figures {
            moved: Some(Moved {
                seconds: Some((served - began).as_secs_f64()),
                bytes: Some(versions.bytes() as f64),
                records: Some((records + 1) as f64),
                sending: Some((last - asked).as_secs_f64()),
                after: Some(served.saturating_duration_since(last).as_secs_f64()),
                ..Moved::used(&ledger.usage())
            }),
            peak_bytes: Some(ledger.peak as f64),
            ..Figures::default()
        };
        Ok((Load { answered: 1, ..Load::default() }, figures))
    })
}

/// Sends NOTIFYs until the server requests the new version, and queries the server until it answers with it.
fn serve(
    plan: &Plan,
    server: SocketAddr,
    primary: &Primary,
    asking: &Asking,
    began: Instant,
) -> Result<(Sent, Instant)> {
    primary.renew();
    primary.notify(server)?;
    let mut notified = Instant::now();
    loop {
        let sent = primary.sent();
        // It cannot have the zone earlier; queries meanwhile would only slow it down.
        if sent.done.is_some() {
            if let Some(served) = asking.answered_new()? {
                return Ok((primary.sent(), served));
            }
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
        if sent.asked.is_none() && notified.elapsed() > AGAIN {
            primary.notify(server)?;
            notified = Instant::now();
        }
        if sys::interrupted() || began.elapsed() > plan.patience {
            let what = if sent.asked.is_none() { "did not ask for" } else { "did not serve" };
            let late = format!("{what} the new version in time");
            return Err(Failure::new(if sys::interrupted() { "interrupted".to_string() } else { late }));
        }
    }
}

/// A client that queries the serial.
struct Asking {
    socket: UdpSocket,
    query: Vec<u8>,
    wanted: u32,
}

impl Asking {
    fn new(server: SocketAddr, versions: &Versions) -> Result<Asking> {
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.connect(server).context(|| format!("cannot reach {server}"))?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let mut query = Vec::new();
        write_query(&mut query, versions.zone(), Type::SOA, Edns::None);
        Ok(Asking { socket, query, wanted: versions.serial() })
    }

    /// Sends one query; returns when the answer with the new serial arrived, if it did. Answers to earlier
    /// queries count too.
    fn answered_new(&self) -> Result<Option<Instant>> {
        self.socket.send(&self.query)?;
        let mut buffer = [0; 4096];
        let Ok(length) = self.socket.recv(&mut buffer) else { return Ok(None) };
        let now = Instant::now();
        if buffer.get(..length).and_then(answered_serial) == Some(self.wanted) {
            return Ok(Some(now));
        }
        std::thread::sleep(Duration::from_millis(1));
        Ok(None)
    }
}

/// Samples a server until `done` is set.
fn watch(group: u32, done: &AtomicBool) -> Ledger {
    let mut ledger = Ledger::open(group);
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        ledger.look();
    }
    ledger
}
