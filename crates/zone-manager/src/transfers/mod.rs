//! Outgoing transfers: who may transfer a zone, how many transfers run at a time, and what is logged and
//! counted. `transfer` has the messages.
//!
//! | file | holds |
//! |---|---|
//! | `limits` | how many transfers run at a time |
//! | `histories` | changes of a zone, from disk |

mod histories;
mod limits;

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, RwLock, Weak};
use std::time::Instant;

use query_path::{Asked, Engine, Refusal, Responders, Source, SourceReply, ZoneFacts};
use sandbox::kinds::{ThreadKind, confine};
use threads::starter::Starter;
use tracing::{Level, debug, info, warn};
use transfer::outgoing::{
    DEFAULT_LIMIT, IxfrAnswer, IxfrRequest, TransferFrame, axfr, ixfr, ixfr_answer, ixfr_datagram,
};
use transfer::tsig::TsigKeys;
use transport::{MessageStream, Next, Transport, unix_now};
use wire::edns::{ErrorInfo, opt_with_options};
use wire::message::Builder;
use wire::{Class, Rcode, Serial, Type, ZoneName};
use zone::Zone;
use zone_plan::{Grants, TransferRules};

use config::Adopt;
use config::Settings;
pub use histories::{Histories, KeptStep};
use limits::{Eviction, Slot, SlotLimits, Slots};
use serving::frontend::Served;
use telemetry::audit::RefusalLog;
use telemetry::repeated::{self, log_repeated};
use telemetry::trail::audit;
use threads::sync::{read, write};

/// The limit of transfers in progress is reached.
const TOO_MANY: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);
/// Answers of the zone are signed when they are asked for: the version has no signatures of its own.
const NO_SIGNED_COPY: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::NOT_SUPPORTED);
/// Log of refused transfers.
static REFUSED: RefusalLog = RefusalLog::new("transfer");

/// Most reads of differences for datagrams at a time, half of them for one address.
const MAX_DATAGRAM_READS: usize = 8;
/// Least size of a record in a message in bytes: a pointer, type, class, TTL, length of the data.
const LEAST_RECORD: u64 = 12;

/// Counters of outgoing transfers.
#[derive(Debug, Default)]
pub struct TransferCounts {
    /// Whole zones sent completely.
    pub axfr: AtomicU64,
    /// Differences sent completely.
    pub ixfr: AtomicU64,
    /// IXFR requests over a stream that were answered with the SOA, because there is no newer version.
    pub same: AtomicU64,
    /// Transfers broken off by the client, or because it was too slow.
    pub broken_off: AtomicU64,
    /// Transfers evicted because they had stalled.
    pub stalled: AtomicU64,
    /// Transfers evicted because they were slow.
    pub slow: AtomicU64,
    /// Transfers refused because the client may not transfer the zone.
    pub refused: AtomicU64,
    /// Transfers refused because too many were in progress.
    pub too_many: AtomicU64,
    /// Bytes of messages sent.
    pub bytes: AtomicU64,
}

/// Outgoing transfers of all zones.
pub struct Transfers {
    /// The engine that serves the zones; it has this as the source for transfers.
    engine: Weak<Engine<Served>>,
    rules: RwLock<TransferRules>,
    slots: Arc<Slots>,
    /// Reads of differences for datagrams.
    reading: Arc<Slots>,
    histories: Histories,
    /// UDP payload size for the OPT record of the first message.
    udp_size: AtomicU16,
    counts: Arc<TransferCounts>,
}

impl Transfers {
    /// Makes the engine answer transfer requests. No client may transfer a zone before
    /// [`allow`](Self::allow).
    pub fn start(engine: &Arc<Engine<Served>>, settings: &Settings, histories: Histories) -> Arc<Transfers> {
        let transfers = Arc::new(Transfers {
            engine: Arc::downgrade(engine),
            rules: RwLock::default(),
            slots: Arc::default(),
            reading: Arc::default(),
            histories,
            udp_size: AtomicU16::default(),
            counts: Arc::default(),
        });
        transfers.reading.set(SlotLimits {
            all: MAX_DATAGRAM_READS,
            per_client: MAX_DATAGRAM_READS / 2,
            per_network: MAX_DATAGRAM_READS / 2,
            ..SlotLimits::default()
        });
        transfers.adopt(settings);
        let source: Arc<dyn Source> = transfers.clone();
        engine.change_sources(|sources| sources.transfer = Some(Arc::clone(&source)));
        transfers
    }

    /// Replaces the rules of all zones; transfers in progress continue.
    pub fn allow(&self, rules: TransferRules) {
        if let Some(engine) = self.engine.upgrade() {
            engine.set_keys(&rules.keys);
        }
        *write(&self.rules) = rules;
    }

    /// Replaces the rules of some zones; `None`: no client may transfer the zone.
    pub fn change(&self, zones: impl IntoIterator<Item = (ZoneName, Option<Grants>)>) {
        let mut rules = write(&self.rules);
        zones.into_iter().for_each(|(apex, grants)| rules.set(&apex, grants));
    }

    /// The stored changes of all zones.
    pub fn histories(&self) -> &Histories {
        &self.histories
    }

    /// The TSIG keys of the configuration.
    pub fn keys(&self) -> Arc<TsigKeys> {
        Arc::clone(&read(&self.rules).keys)
    }

    /// Who may transfer a zone; `None`: no client may.
    pub fn grants(&self, apex: &ZoneName) -> Option<Grants> {
        read(&self.rules).get(apex).cloned()
    }

    /// The counters.
    pub fn counts(&self) -> &TransferCounts {
        &self.counts
    }

    /// Number of transfers in progress.
    pub fn under_way(&self) -> usize {
        self.slots.taken()
    }

    /// Returns the zone if this client may transfer it, and its facts for the response.
    fn zone_for(&self, asked: &Asked<'_>) -> Result<(ServedZone, ZoneFacts), Refusal> {
        let (apex, peer) = (asked.apex(), asked.client.peer.ip());
        let key = asked.verified.map(|verified| &**verified.key());
        if asked.question.qclass != Class::IN {
            REFUSED.refused(asked, "the class is not IN");
            return Err(Refusal::CLASS);
        }
        let certificate = asked.certificate().map(|certificate| &**certificate);
        if !read(&self.rules).allow(&apex, peer, key, certificate) {
            self.counts.refused.fetch_add(1, Relaxed);
            REFUSED.refused(asked, "`allow-transfer` does not name the client");
            return Err(Refusal::PROHIBITED);
        }
        let engine = self.engine.upgrade().ok_or(Refusal::ABANDONED)?;
        let entry = engine.zone_entry(&apex).ok_or_else(|| {
            REFUSED.refused(asked, "the zone is not served here");
            Refusal::NOT_AUTH
        })?;
        let zone = entry.zone().cloned().ok_or_else(|| {
            REFUSED.refused(asked, "the zone is not loaded");
            Refusal::NOT_LOADED
        })?;
        if zone.is_chainless() && entry.signer().is_some() {
            // The version has neither the signatures nor the records that deny names.
            REFUSED.refused(asked, "answers of the zone are signed while answering: it has no signed copy");
            return Err(NO_SIGNED_COPY);
        }
        let facts = ZoneFacts::of(&entry, &zone, true);
        Ok((ServedZone { apex, zone }, facts))
    }

    /// Sends the whole zone or its differences, message by message. A separate thread reads differences from
    /// disk.
    fn stream(
        &self,
        asked: &Asked<'_>,
        served: ServedZone,
        facts: ZoneFacts,
        responders: Responders<'_>,
    ) -> Result<SourceReply, Refusal> {
        let peer = asked.client.peer.ip();
        let malformed = |_| {
            REFUSED.refused(asked, "the IXFR has no SOA with the client's serial (RFC 1995, section 3)");
            Refusal::MALFORMED
        };
        let client = match asked.question.qtype {
            Type::IXFR => Some(IxfrRequest::read(asked.packet).map_err(malformed)?.serial),
            _ => None,
        };
        let frame = frame(asked, facts, self.udp_size.load(Relaxed)).ok_or(Refusal::MALFORMED)?;
        let Some((slot, evicted)) = self.slots.take(peer, Instant::now()) else {
            self.counts.too_many.fetch_add(1, Relaxed);
            let (zone, text) = (&served.apex, "transfer refused: too many are under way");
            let about = ("too many transfers", &*zone.to_string());
            if repeated::admit(about, Level::WARN, format!("zone {zone}: {text}, peer {peer}")).is_some() {
                warn!(%zone, %peer, "{text}");
            }
            REFUSED.audited(asked, "too many transfers are under way");
            return Err(TOO_MANY);
        };
        for why in evicted {
            let count = match why {
                Eviction::Stalled => &self.counts.stalled,
                Eviction::Slow => &self.counts.slow,
            };
            count.fetch_add(1, Relaxed);
        }
        let mut report = Report::new(&served, client, asked, slot, Arc::clone(&self.counts));
        let ServedZone { apex, zone } = served;
        let Some(serial) = client else {
            return Ok(SourceReply::Stream(Box::new(Reported { messages: axfr(zone, frame), report })));
        };
        let is_behind = serial.compare(zone.serial()) == Some(Ordering::Less);
        let Some(histories) = Some(&self.histories).filter(|of| is_behind && of.knows(&apex)) else {
            report.answers_with(ixfr_answer(zone.serial(), serial, &[]));
            let messages = ixfr(zone, serial, Vec::new(), frame);
            return Ok(SourceReply::Stream(Box::new(Reported { messages, report })));
        };
        let (histories, (responder, promise)) = (histories.clone(), responders.take());
        let work = move || {
            let differences = histories.differences(&apex, &zone, serial, u64::MAX);
            report.answers_with(ixfr_answer(zone.serial(), serial, &differences));
            let messages = ixfr(zone, serial, differences, frame);
            responder.stream(Box::new(Reported { messages, report }));
        };
        on_a_thread(work);
        Ok(SourceReply::Pending(promise))
    }

    /// Answers IXFR in a datagram: with the differences, if they are stored and fit, else with the SOA alone
    /// (RFC 1995 §2). The address may be forged: if too many reads for others are in progress, the answer is
    /// the SOA.
    fn datagram(
        &self,
        asked: &Asked<'_>,
        served: ServedZone,
        b: &mut Builder<'_>,
        responders: Responders<'_>,
    ) -> Result<SourceReply, Refusal> {
        let ServedZone { apex, zone } = &served;
        // A request without a serial number gets the SOA of the current version.
        let client = IxfrRequest::read(asked.packet).map(|request| request.serial);
        let client = client.unwrap_or(zone.serial());
        let is_behind = client.compare(zone.serial()) == Some(Ordering::Less);
        let histories = Some(&self.histories).filter(|of| is_behind && of.knows(apex));
        let Some((histories, (slot, _))) =
            histories.zip(self.reading.take(asked.client.peer.ip(), Instant::now()))
        else {
            let put = ixfr_datagram(zone, client, &[], b).map_err(|_| Refusal::NOT_LOADED);
            return put.map(|_| SourceReply::Ready(None));
        };
        let report = Report::new(&served, Some(client), asked, slot, Arc::clone(&self.counts));
        let (histories, (responder, promise)) = (histories.clone(), responders.take());
        let ServedZone { apex, zone } = served;
        let most = u64::from(self.udp_size.load(Relaxed)) / LEAST_RECORD;
        let work = move || {
            let differences = histories.differences(&apex, &zone, client, most);
            responder.resume(move |b| {
                let put = ixfr_datagram(&zone, client, &differences, b).map_err(|_| Refusal::NOT_LOADED)?;
                match put {
                    IxfrAnswer::Differences => report.sent_in(b.len()),
                    IxfrAnswer::UpToDate | IxfrAnswer::Whole => report.withdraw(),
                }
                Ok(None)
            });
        };
        on_a_thread(work);
        Ok(SourceReply::Pending(promise))
    }
}

impl Source for Transfers {
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, responders: Responders<'_>) -> SourceReply {
        let (zone, facts) = match self.zone_for(asked) {
            Ok(found) => found,
            Err(refusal) => return SourceReply::Refused(refusal),
        };
        let done = match (asked.client.transport.is_stream(), asked.question.qtype) {
            (true, _) => self.stream(asked, zone, facts, responders),
            (false, Type::IXFR) => self.datagram(asked, zone, b, responders),
            (false, _) => {
                REFUSED.refused(asked, "AXFR needs TCP (RFC 5936, section 4.2)");
                Err(Refusal::MALFORMED)
            }
        };
        done.unwrap_or_else(SourceReply::Refused)
    }
}

impl Adopt for Transfers {
    fn adopt(&self, settings: &Settings) {
        let transfers = &settings.transfers;
        self.slots.set(SlotLimits {
            all: transfers.outgoing.0,
            per_client: transfers.per_client.0,
            per_network: transfers.per_network(),
            stall: Some(transfers.stall.0),
            min_rate: transfers.min_rate.0,
        });
        self.udp_size.store(settings.engine_config().max_udp_size, Relaxed);
    }
}

/// A zone that is transferred.
struct ServedZone {
    apex: ZoneName,
    zone: Arc<Zone>,
}

/// Runs work that reads from disk on a thread. A responder dropped with the thread sends SERVFAIL.
///
/// It is not a job of [`Background`](threads::background::Background): it waits for such a job, and then
/// reads up to a whole zone, which would keep commits waiting. The slots of transfers bound the threads.
fn on_a_thread(work: impl FnOnce() + Send + 'static) {
    let confined = move || {
        confine(ThreadKind::Files);
        work();
    };
    if let Err(fault) = Starter::start("ixfr", confined) {
        let about = ("no thread", "outgoing transfer");
        log_repeated!(warn, WARN, about, "no transfer, the system refuses a thread: {fault}");
    }
}

/// Returns the parts of the response messages around the records.
fn frame(asked: &Asked<'_>, facts: ZoneFacts, udp_size: u16) -> Option<TransferFrame> {
    let mut frame = TransferFrame::answering(asked.packet, DEFAULT_LIMIT).ok()?;
    if let Some(client) = asked.request.edns {
        let options: Vec<_> = facts.options(client, asked.question.qtype).collect();
        let options: Vec<_> = options.iter().map(|(code, data)| (*code, data.as_slice())).collect();
        frame = frame.with_opt(&opt_with_options(udp_size, client.dnssec_ok, &options));
    }
    if let Some(verified) = asked.verified {
        frame = frame.signed(verified.signer(), Box::new(unix_now));
    }
    Some(frame)
}

/// The log line and counts of one transfer, made when it is dropped.
struct Report {
    zone: String,
    serial: Serial,
    /// The client's serial number, if it requested differences.
    client: Option<Serial>,
    peer: IpAddr,
    key: Option<String>,
    certificate: Option<String>,
    transport: Transport,
    begun: Instant,
    messages: u64,
    bytes: u64,
    ended: bool,
    /// Whether nothing was sent that is worth a line.
    withdrawn: bool,
    /// The kind of answer to IXFR.
    answer: IxfrAnswer,
    counts: Arc<TransferCounts>,
    slot: Slot,
}

impl Report {
    /// Records that all was sent in one datagram of so many bytes, not counting the end of the message.
    fn sent_in(mut self, bytes: usize) {
        (self.messages, self.bytes, self.ended) = (1, bytes as u64, true);
    }

    /// Sets the kind of answer to IXFR.
    fn answers_with(&mut self, answer: IxfrAnswer) {
        self.answer = answer;
    }

    /// Drops the report: nothing but the SOA was sent.
    fn withdraw(mut self) {
        self.withdrawn = true;
    }

    fn new(
        ServedZone { apex, zone }: &ServedZone,
        client: Option<Serial>,
        asked: &Asked<'_>,
        slot: Slot,
        counts: Arc<TransferCounts>,
    ) -> Report {
        Report {
            zone: apex.to_string(),
            serial: zone.serial(),
            client,
            peer: asked.client.peer.ip(),
            key: asked.verified.map(|verified| verified.key().name().to_string()),
            certificate: asked.certificate().map(|certificate| certificate.to_string()),
            transport: asked.client.transport,
            begun: Instant::now(),
            messages: 0,
            bytes: 0,
            ended: false,
            withdrawn: false,
            answer: if client.is_some() { IxfrAnswer::Differences } else { IxfrAnswer::Whole },
            counts,
            slot,
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if self.withdrawn {
            return;
        }
        let Report { zone, serial, client, peer, key, messages, bytes, counts, .. } = self;
        let (cert, transport) = (self.certificate.as_deref(), self.transport.label());
        let asked = if client.is_some() { "IXFR" } else { "AXFR" };
        let (kind, sent) = match self.answer {
            IxfrAnswer::Differences => ("IXFR", &counts.ixfr),
            IxfrAnswer::Whole => ("AXFR", &counts.axfr),
            IxfrAnswer::UpToDate if self.ended => {
                counts.same.fetch_add(1, Relaxed);
                let key = key.as_deref().unwrap_or("none");
                debug!(zone, %serial, %peer, transport, key, cert, "IXFR answered: nothing newer");
                return;
            }
            IxfrAnswer::UpToDate => ("SOA", &counts.same),
        };
        let from = client.map_or("none".to_owned(), |client| client.to_string());
        let (key, milliseconds) = (key.as_deref().unwrap_or("none"), self.begun.elapsed().as_millis());
        counts.bytes.fetch_add(*bytes, Relaxed);
        if self.ended {
            sent.fetch_add(1, Relaxed);
            info!(
                zone, from, %serial, %peer, transport, key, cert, asked, kind, messages, bytes, milliseconds, "transfer sent"
            );
            audit!(
                zone, from, %serial, %peer, transport, key, cert, asked, kind, messages, bytes, milliseconds, "transfer sent"
            );
        } else if let Some(why) = self.slot.evicted() {
            let was = match why {
                Eviction::Stalled => "had stalled",
                Eviction::Slow => "was slower than `outgoing-min-rate`",
            };
            let text = format!("transfer broken off: it {was}, and another needed its place");
            let about = ("transfer evicted", &*format!("{zone} {peer}"));
            if repeated::admit(about, Level::WARN, format!("zone {zone}: {text}, peer {peer}")).is_some() {
                warn!(zone, %serial, %peer, transport, key, cert, kind, messages, bytes, milliseconds, "{text}");
            }
            audit!(zone, from, %serial, %peer, transport, key, cert, asked, kind, messages, bytes, milliseconds, "{text}");
        } else {
            counts.broken_off.fetch_add(1, Relaxed);
            let text = "transfer broken off";
            let about = ("transfer broken off", &*format!("{zone} {peer}"));
            if repeated::admit(about, Level::WARN, format!("zone {zone}: {text}, peer {peer}")).is_some() {
                warn!(zone, from, %serial, %peer, transport, key, cert, asked, kind, messages, bytes, milliseconds, "{text}");
            }
            audit!(zone, from, %serial, %peer, transport, key, cert, asked, kind, messages, bytes, milliseconds, "{text}");
        }
    }
}

/// The messages of a transfer, with its report.
struct Reported {
    messages: Box<dyn MessageStream>,
    report: Report,
}

impl MessageStream for Reported {
    fn next(&mut self, out: &mut [u8]) -> Next {
        // The connection is closed, so that the client does not take the transfer for complete.
        if !self.report.slot.goes_on(Instant::now()) {
            return Next::Abort;
        }
        let next = self.messages.next(out);
        match next {
            Next::Message(len) => {
                self.report.messages += 1;
                self.report.bytes += len as u64;
                self.report.slot.sends(len);
            }
            Next::End => self.report.ended = true,
            Next::Abort => {}
        }
        next
    }
}
