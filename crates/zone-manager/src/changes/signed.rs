//! Signed requests that were decided. Each is remembered as long as its signature is accepted, so that a
//! captured request has no effect when someone sends it again, and a client that sends it again because the
//! reply was lost gets the same response code.
//!
//! A request is known by its MAC, which covers the whole message and the key. RFC 8945 §5.2.3 has another
//! rule: a request must not be signed earlier than the last one of its key. That rule refuses requests of
//! clients that share a key or whose datagrams overtake each other, and accepts a repeated request of the
//! same second, so it is not used here.
//!
//! A request that is not remembered is new if it was signed after the *horizon*: no request that was signed
//! later has been forgotten. The horizon moves where memory is short, where the clock is set back, and after
//! a start without the file that a stop leaves. Requests signed before it get BADTIME: nomen refuses what it
//! cannot tell from a repetition. Requests of clients whose clocks are right are signed after it.
//!
//! Only requests that a key with a right to change something in the zone has signed are remembered, so others
//! do not take up the memory. Queries, transfers and NOTIFY need none of this: repeating one changes nothing
//! that its first execution has not changed, and what it returns is signed for its own MAC.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use query_path::{Refusal, Responder};
use tracing::{info, warn};
use transfer::tsig::{SignedId, Verified};
use transport::wake_together;
use wire::edns::ErrorInfo;
use wire::{Rcode, UnixTime};
use wording::reason;
use zone::regular;

use threads::sync::lock;

/// Most repetitions of one request that wait for its decision; further ones get no reply.
const MOST_WAITERS: usize = 4;
/// Difference between readings of the clock on different threads.
const CLOCK_JITTER: Duration = Duration::from_secs(2);
/// The file in the state folder, from a stop to the next start.
pub(super) const FILE: &str = "signed-updates";
/// First bytes of the file.
const MAGIC: &[u8; 16] = b"nomen-signed-1\r\n";
/// Bytes of an entry in the file: ID, time signed, last second, response code, extended error plus 1.
const ENTRY: usize = 16 + 8 + 8 + 2 + 4;

/// Response to a request.
type Response = Result<(), Refusal>;

/// A verified request.
#[derive(Clone, Copy, Debug)]
struct SignedRequest {
    id: SignedId,
    signed: UnixTime,
    /// The last second in which its signature is accepted.
    until: UnixTime,
}

/// What a request is.
#[derive(Debug, PartialEq, Eq)]
enum Sighting {
    /// A new one: it must be [`settled`](Table::settle).
    First,
    /// A repetition of one that waits for its decision. It waits too.
    Attached,
    /// A repetition beyond [`MOST_WAITERS`].
    Ignored,
    /// A repetition of one that got this response.
    Decided(Response),
    /// It is not known whether it is new.
    Stale,
}

/// A remembered request.
enum Known<W> {
    /// It waits for its decision, and so do repetitions of it.
    Waiting(Vec<W>),
    Decided(Response),
}

/// The requests that were signed in one second.
struct Second {
    /// When the last of them is accepted.
    until: UnixTime,
    ids: Vec<SignedId>,
}

/// The requests, by ID and by time. `W` is a client that waits for a response.
struct Table<W> {
    known: HashMap<SignedId, Known<W>>,
    seconds: BTreeMap<UnixTime, Second>,
    /// A request signed then or earlier is not new.
    horizon: Option<UnixTime>,
    /// The latest time at which an expired request was signed.
    expired: UnixTime,
    /// The last reading of the clock.
    clock: UnixTime,
    /// Requests forgotten before they expired.
    forgotten: u64,
}

impl<W> Table<W> {
    fn new(horizon: Option<UnixTime>, clock: UnixTime) -> Self {
        let (known, seconds) = (HashMap::new(), BTreeMap::new());
        Table { known, seconds, horizon, expired: UnixTime::EPOCH, clock, forgotten: 0 }
    }

    /// Returns what a request is, and remembers it. `waiter` is called for one that waits.
    fn admit(
        &mut self,
        request: SignedRequest,
        now: UnixTime,
        most: usize,
        waiter: impl FnOnce() -> Option<W>,
    ) -> Sighting {
        self.set_clock(now);
        match self.known.get_mut(&request.id) {
            Some(Known::Decided(response)) => return Sighting::Decided(*response),
            Some(Known::Waiting(waiters)) if waiters.len() < MOST_WAITERS => {
                waiters.extend(waiter());
                return Sighting::Attached;
            }
            Some(Known::Waiting(_)) => return Sighting::Ignored,
            None => {}
        }
        if self.horizon.is_some_and(|horizon| request.signed <= horizon) {
            return Sighting::Stale;
        }
        self.shrink_to(most.saturating_sub(1));
        // Where memory is short, this request may be older than all that are left.
        if self.horizon.is_some_and(|horizon| request.signed <= horizon) {
            return Sighting::Stale;
        }
        self.remember(request, Known::Waiting(Vec::new()));
        Sighting::First
    }

    fn remember(&mut self, SignedRequest { id, signed, until }: SignedRequest, known: Known<W>) {
        self.known.insert(id, known);
        let second = self.seconds.entry(signed).or_insert(Second { until, ids: Vec::new() });
        second.until = second.until.max(until);
        second.ids.push(id);
    }

    /// Records the response to a request. Returns those that wait for it.
    fn settle(&mut self, id: SignedId, response: Response) -> Vec<W> {
        let Some(known) = self.known.get_mut(&id) else { return Vec::new() };
        match std::mem::replace(known, Known::Decided(response)) {
            Known::Waiting(waiters) => waiters,
            Known::Decided(_) => Vec::new(),
        }
    }

    /// Forgets expired requests, once no thread can take the present for a time at which they are accepted.
    fn set_clock(&mut self, now: UnixTime) {
        if now < self.clock.saturating_sub(CLOCK_JITTER) {
            // The clock was set back: requests that had expired may be accepted again. What was signed before
            // now is not new then. Requests signed after now, by a clock that is set back later, are the
            // exception: to refuse them as well would refuse every request until the clock is there again.
            let old = self.horizon.map_or(self.expired, |horizon| horizon.max(self.expired));
            self.horizon = Some(old.min(now.saturating_sub(Duration::from_secs(1))));
            self.clock = now;
        }
        self.clock = self.clock.max(now);
        let past = self.clock.saturating_sub(CLOCK_JITTER);
        while let Some(first) = self.seconds.first_entry().filter(|first| first.get().until < past) {
            let (signed, second) = first.remove_entry();
            self.expired = self.expired.max(signed);
            second.ids.iter().for_each(|id| drop(self.known.remove(id)));
        }
    }

    /// Forgets the requests that were signed first.
    fn shrink_to(&mut self, most: usize) {
        while self.known.len() > most
            && let Some((signed, second)) = self.seconds.pop_first()
        {
            self.horizon = Some(self.horizon.map_or(signed, |horizon| horizon.max(signed)));
            self.forgotten += second.ids.len() as u64;
            second.ids.iter().for_each(|id| drop(self.known.remove(id)));
        }
    }

    /// Returns the contents as bytes of the file.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let times =
            [self.horizon.map_or(0, |time| time.as_secs() + 1), self.expired.as_secs(), self.clock.as_secs()];
        times.iter().for_each(|time| bytes.extend(time.to_be_bytes()));
        bytes.extend((self.known.len() as u64).to_be_bytes());
        for (signed, second) in &self.seconds {
            for id in &second.ids {
                let response = match self.known.get(id) {
                    Some(Known::Decided(response)) => *response,
                    // It may have been executed.
                    Some(Known::Waiting(_)) | None => Err(Refusal::ABANDONED),
                };
                let (rcode, info) = match response {
                    Ok(()) => (Rcode::NOERROR, None),
                    Err(Refusal { rcode, info }) => (rcode, info),
                };
                bytes.extend(id.0);
                bytes.extend(signed.as_secs().to_be_bytes());
                bytes.extend(second.until.as_secs().to_be_bytes());
                bytes.extend(rcode.0.to_be_bytes());
                bytes.extend(info.map_or(0, |info| u32::from(info.0) + 1).to_be_bytes());
            }
        }
        bytes
    }

    /// Reads the bytes of the file; `None` if they are no such file.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut number = || -> Option<u64> {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_be_bytes(*number))
        };
        let (horizon, expired, clock, count) = (number()?, number()?, number()?, number()?);
        let mut table =
            Table::new(horizon.checked_sub(1).map(UnixTime::from_secs), UnixTime::from_secs(clock));
        table.expired = UnixTime::from_secs(expired);
        let (entries, rest) = rest.as_chunks::<ENTRY>();
        if entries.len() as u64 != count || !rest.is_empty() {
            return None;
        }
        for entry in entries {
            let (id, entry) = entry.split_first_chunk()?;
            let (signed, entry) = entry.split_first_chunk()?;
            let (until, entry) = entry.split_first_chunk()?;
            let (rcode, entry) = entry.split_first_chunk()?;
            let (info, _) = entry.split_first_chunk()?;
            let time = |bytes: &[u8; 8]| UnixTime::from_secs(u64::from_be_bytes(*bytes));
            let rcode = Rcode(u16::from_be_bytes(*rcode));
            let info = u32::from_be_bytes(*info).checked_sub(1).map(|info| ErrorInfo(info as u16));
            let response = if rcode == Rcode::NOERROR { Ok(()) } else { Err(Refusal { rcode, info }) };
            let request = SignedRequest { id: SignedId(*id), signed: time(signed), until: time(until) };
            table.remember(request, Known::Decided(response));
        }
        Some(table)
    }
}

/// Counters of repeated requests.
#[derive(Debug, Default)]
pub struct RepeatedCounts {
    /// Repetitions answered with the response to the first request.
    pub answered: AtomicU64,
    /// Repetitions that waited for the decision of the first request.
    pub attached: AtomicU64,
    /// Repetitions that got no reply, because several waited already.
    pub ignored: AtomicU64,
    /// Requests refused with BADTIME because they were signed before the horizon.
    pub stale: AtomicU64,
}

/// The signed requests of all zones.
pub(super) struct SignedRequests {
    table: Mutex<Table<Responder>>,
    /// Most remembered requests.
    pub(super) most: AtomicUsize,
    pub(super) counts: RepeatedCounts,
}

/// What a signed request is, and what to do with it.
pub(super) enum Admitted {
    /// Decide it.
    First(DecidedOnce),
    /// It waits for the decision of an earlier one.
    Attached,
    /// It gets no reply.
    Ignored,
    /// It gets this response.
    Decided(Response),
    /// It gets BADTIME.
    Stale,
}

impl SignedRequests {
    /// Reads what the last run left in the state folder. `is_first`: no run has changed zones from it.
    pub(super) fn open(state: &Path, is_first: bool, now: UnixTime) -> Self {
        let path = state.join(FILE);
        let table = match read_once(&path) {
            Ok(Some(table)) => table,
            Ok(None) if is_first => Table::new(None, now),
            Ok(None) => {
                info!(
                    "the last run did not stop in order: signed updates from before this start are refused \
                     (BADTIME), since they may have been executed"
                );
                Table::new(Some(now), now)
            }
            Err(fault) => {
                warn!(
                    "the signed updates of the last run cannot be read from {}, so those from before this start \
                     are refused (BADTIME): {}",
                    path.display(),
                    reason(&fault)
                );
                Table::new(Some(now), now)
            }
        };
        let most = AtomicUsize::new(usize::MAX);
        SignedRequests { table: Mutex::new(table), most, counts: RepeatedCounts::default() }
    }

    /// Writes the requests to the state folder, for the next run.
    pub(super) fn save(&self, state: &Path) {
        let bytes = lock(&self.table).to_bytes();
        let path = state.join(FILE);
        if let Err(fault) = regular::replace(&path, &bytes) {
            // A file that is not whole must not be read.
            let _ = fs::remove_file(&path);
            warn!(
                "signed updates cannot be written to {}: the next run refuses those from before it with BADTIME: \
                 {}",
                path.display(),
                reason(&fault)
            );
        }
    }

    /// Returns what a request is, and remembers it. `waiter` is called for one that waits.
    pub(super) fn admit(
        self: &Arc<Self>,
        verified: &Verified,
        now: UnixTime,
        waiter: impl FnOnce() -> Option<Responder>,
    ) -> Admitted {
        let (id, signed, until) = (verified.id(), verified.signed_at(), verified.valid_until());
        let most = self.most.load(Relaxed);
        let sighting = lock(&self.table).admit(SignedRequest { id, signed, until }, now, most, waiter);
        let RepeatedCounts { answered, attached, ignored, stale } = &self.counts;
        let (count, admitted) = match sighting {
            Sighting::First => {
                return Admitted::First(DecidedOnce { all: Arc::clone(self), id, is_decided: false });
            }
            Sighting::Attached => (attached, Admitted::Attached),
            Sighting::Ignored => (ignored, Admitted::Ignored),
            Sighting::Decided(response) => (answered, Admitted::Decided(response)),
            Sighting::Stale => (stale, Admitted::Stale),
        };
        count.fetch_add(1, Relaxed);
        admitted
    }

    /// Number of remembered requests, and of those forgotten before they expired. Forgets expired ones.
    pub(super) fn sizes(&self, now: UnixTime) -> (usize, u64) {
        let mut table = lock(&self.table);
        table.set_clock(now);
        (table.known.len(), table.forgotten)
    }
}

/// A new signed request, which is decided once. If it is dropped undecided, the response is SERVFAIL.
pub(super) struct DecidedOnce {
    all: Arc<SignedRequests>,
    id: SignedId,
    is_decided: bool,
}

impl DecidedOnce {
    /// Records the response, and sends it to the repetitions that wait for it. Returns their number.
    pub(super) fn settle(mut self, response: Response) -> usize {
        self.decide(response)
    }

    fn decide(&mut self, response: Response) -> usize {
        self.is_decided = true;
        let waiters = lock(&self.all.table).settle(self.id, response);
        let count = waiters.len();
        wake_together(|| waiters.into_iter().for_each(|waiter| respond(waiter, response)));
        count
    }
}

impl Drop for DecidedOnce {
    fn drop(&mut self) {
        if !self.is_decided {
            self.decide(Err(Refusal::ABANDONED));
        }
    }
}

/// Sends a response.
pub(super) fn respond(responder: Responder, response: Response) {
    match response {
        Ok(()) => responder.resume(|_| Ok(None)),
        Err(refusal) => responder.refuse(refusal),
    }
}

/// Reads the file and removes it: it is outdated with the first request of this run. `None` if there is none.
fn read_once(path: &PathBuf) -> io::Result<Option<Table<Responder>>> {
    let bytes = match regular::read(path, u64::MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    fs::remove_file(path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
    let table = Table::from_bytes(&bytes);
    table.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is damaged"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_700_000_000;
    const FUDGE: u64 = 300;
    const MANY: usize = 1_000_000;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_secs(seconds)
    }

    fn request(number: u32, signed: u64) -> SignedRequest {
        let mut id = SignedId([0; 16]);
        id.0[..4].copy_from_slice(&number.to_be_bytes());
        SignedRequest { id, signed: at(signed), until: at(signed + FUDGE) }
    }

    /// Each waiter has a number.
    fn table() -> Table<u32> {
        Table::new(None, at(NOW))
    }

    fn admit(table: &mut Table<u32>, request: SignedRequest, now: u64) -> Sighting {
        table.admit(request, at(now), MANY, || Some(0))
    }

    #[test]
    fn a_repeated_request_gets_the_first_response_until_its_signature_expires() {
        let mut table = table();
        let refused = Err(Refusal::PROHIBITED);
        for (number, response) in [(1, Ok(())), (2, refused)] {
            let request = request(number, NOW);
            assert_eq!(admit(&mut table, request, NOW), Sighting::First);
            assert!(table.settle(request.id, response).is_empty());
            for time in [NOW, NOW + 1, NOW + FUDGE] {
                assert_eq!(admit(&mut table, request, time), Sighting::Decided(response));
            }
        }
        // Later the signature itself is refused, and nothing is kept.
        table.set_clock(at(NOW + FUDGE + CLOCK_JITTER.as_secs() + 1));
        assert!(table.known.is_empty() && table.seconds.is_empty());
        assert_eq!(table.forgotten, 0);
    }

    /// The signature is still accepted by a thread that has read the clock a moment before.
    #[test]
    fn a_repetition_in_the_last_second_of_its_signature_is_not_new() {
        let mut table = table();
        let old = request(1, NOW);
        assert_eq!(admit(&mut table, old, NOW), Sighting::First);
        table.settle(old.id, Ok(()));
        let other = request(2, NOW + FUDGE + 1);
        assert_eq!(admit(&mut table, other, NOW + FUDGE + 1), Sighting::First);
        assert_eq!(admit(&mut table, old, NOW + FUDGE), Sighting::Decided(Ok(())));
    }

    #[test]
    fn requests_of_one_second_are_told_apart() {
        let mut table = table();
        for number in 0..1000 {
            assert_eq!(admit(&mut table, request(number, NOW), NOW), Sighting::First);
        }
        assert_eq!(table.known.len(), 1000);
    }

    #[test]
    fn repetitions_wait_for_the_decision_of_the_first() {
        let mut table = table();
        let request = request(1, NOW);
        assert_eq!(admit(&mut table, request, NOW), Sighting::First);
        for waiter in 0..MOST_WAITERS as u32 {
            assert_eq!(table.admit(request, at(NOW), MANY, || Some(waiter)), Sighting::Attached);
        }
        assert_eq!(
            table.admit(request, at(NOW), MANY, || unreachable!("it does not wait")),
            Sighting::Ignored
        );
        assert_eq!(table.settle(request.id, Ok(())), [0, 1, 2, 3]);
        assert_eq!(admit(&mut table, request, NOW), Sighting::Decided(Ok(())));
    }

    /// Memory is bounded, and what is forgotten is refused.
    #[test]
    fn where_memory_is_short_the_oldest_requests_are_forgotten_and_refused() {
        let mut table = table();
        let admit = |table: &mut Table<u32>, request| table.admit(request, at(NOW + 10), 100, || Some(0));
        for second in 0..10 {
            for number in 0..20 {
                let request = request(second * 20 + number, NOW + u64::from(second));
                assert_eq!(admit(&mut table, request), Sighting::First);
                table.settle(request.id, Ok(()));
                assert!(table.known.len() <= 100);
            }
        }
        let (mut stale, mut decided) = (0, 0);
        for number in 0..200 {
            match admit(&mut table, request(number, NOW + u64::from(number / 20))) {
                Sighting::Stale => stale += 1,
                Sighting::Decided(Ok(())) => decided += 1,
                other => panic!("{number}: {other:?}"),
            }
        }
        assert_eq!((stale, decided, table.forgotten), (100, 100, 100));
        // A new request with an old signature is refused too; one with the time of now is not.
        assert_eq!(admit(&mut table, request(1000, NOW + 4)), Sighting::Stale);
        assert_eq!(admit(&mut table, request(1001, NOW + 10)), Sighting::First);
    }

    /// A single remembered request still prevents its repetition.
    #[test]
    fn one_place_is_enough() {
        let mut table = table();
        for (number, signed) in [(1, NOW), (2, NOW + 1)] {
            assert_eq!(table.admit(request(number, signed), at(NOW + 1), 1, || Some(0)), Sighting::First);
        }
        assert_eq!(table.admit(request(1, NOW), at(NOW + 1), 1, || Some(0)), Sighting::Stale);
        assert_eq!(table.admit(request(3, NOW + 1), at(NOW + 1), 1, || Some(0)), Sighting::Stale);
    }

    #[test]
    fn after_a_crash_what_was_signed_before_is_refused() {
        let mut table: Table<u32> = Table::new(Some(at(NOW)), at(NOW));
        for signed in [NOW - 200, NOW] {
            assert_eq!(admit(&mut table, request(1, signed), NOW + 1), Sighting::Stale);
        }
        assert_eq!(admit(&mut table, request(1, NOW + 1), NOW + 1), Sighting::First);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_old_request_new() {
        let mut table = table();
        let old = request(1, NOW);
        assert_eq!(admit(&mut table, old, NOW), Sighting::First);
        table.settle(old.id, Ok(()));
        let later = NOW + 2 * FUDGE;
        assert_eq!(admit(&mut table, request(2, later), later), Sighting::First);
        assert_eq!(table.known.len(), 1, "the old one has expired");
        // The clock is set back by a little: nothing changes for others.
        assert_eq!(admit(&mut table, request(3, later - 20), later - 10), Sighting::First);
        // To a time at which the old signature is accepted again.
        assert_eq!(admit(&mut table, old, NOW + 100), Sighting::Stale);
        assert_eq!(admit(&mut table, request(4, NOW + 100), NOW + 100), Sighting::First);
        // Far back.
        assert_eq!(admit(&mut table, request(5, NOW - 100_000), NOW - 100_000), Sighting::First);
        assert_eq!(admit(&mut table, request(6, NOW - 100_001), NOW - 100_000), Sighting::Stale);
    }

    #[test]
    fn a_restart_remembers_what_the_run_before_decided() {
        let mut table = table();
        table.horizon = Some(at(NOW - 50));
        let refused = Err(Refusal::plain(Rcode::NXRRSET));
        let responses = [Ok(()), refused, Err(Refusal::PROHIBITED)];
        for (number, response) in responses.iter().enumerate() {
            let request = request(number as u32, NOW + number as u64);
            assert_eq!(admit(&mut table, request, NOW), Sighting::First);
            table.settle(request.id, *response);
        }
        let waiting = request(9, NOW);
        assert_eq!(admit(&mut table, waiting, NOW), Sighting::First);
        let bytes = table.to_bytes();
        let mut table = Table::from_bytes(&bytes).expect("the same");
        for (number, response) in responses.iter().enumerate() {
            let request = request(number as u32, NOW + number as u64);
            assert_eq!(admit(&mut table, request, NOW), Sighting::Decided(*response));
        }
        assert_eq!(admit(&mut table, waiting, NOW), Sighting::Decided(Err(Refusal::ABANDONED)));
        assert_eq!(admit(&mut table, request(10, NOW - 50), NOW), Sighting::Stale);
        assert_eq!(admit(&mut table, request(11, NOW - 49), NOW), Sighting::First);
        for broken in [&bytes[..bytes.len() - 1], &bytes[1..], &[], &[&*bytes, &[0]].concat()] {
            assert!(Table::<u32>::from_bytes(broken).is_none());
        }
    }

    /// What happens to the table between requests.
    #[derive(Clone, Debug)]
    enum Step {
        /// A new request, signed so many seconds ago.
        New(u64),
        /// One of the requests so far comes again.
        Repeat(usize),
        /// Time passes.
        Wait(u64),
        /// Another thread reads the clock so many seconds earlier.
        Jitter(u64),
        /// The clock is set back.
        SetBack(u64),
        /// A stop and a start.
        Restart,
        /// A start without the file of a stop.
        Crash,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..FUDGE).prop_map(Step::New),
            8 => any::<usize>().prop_map(Step::Repeat),
            3 => (0..FUDGE).prop_map(Step::Wait),
            1 => (0..=CLOCK_JITTER.as_secs()).prop_map(Step::Jitter),
            1 => (3..4 * FUDGE).prop_map(Step::SetBack),
            1 => Just(Step::Restart),
            1 => Just(Step::Crash),
        ]
    }

    /// Takes the steps, and asserts that no request is new twice.
    fn executes_once(steps: &[Step], most: usize) {
        let mut table = table();
        let (mut now, mut requests, mut executed) = (NOW, Vec::new(), HashMap::new());
        for step in steps {
            let (request, read) = match *step {
                Step::New(age) => {
                    requests.push(request(requests.len() as u32, now - age));
                    (requests[requests.len() - 1], now)
                }
                Step::Repeat(_) if requests.is_empty() => continue,
                Step::Repeat(index) => (requests[index % requests.len()], now),
                Step::Jitter(back) if !requests.is_empty() => (requests[0], now - back),
                Step::Jitter(_) => continue,
                Step::Wait(seconds) => {
                    now += seconds;
                    continue;
                }
                Step::SetBack(seconds) => {
                    now -= seconds;
                    // Requests that seem to be signed in the future are the exception of `set_clock`.
                    executed.retain(|_, signed| *signed < now);
                    table.set_clock(at(now));
                    continue;
                }
                Step::Restart => {
                    table = Table::from_bytes(&table.to_bytes()).expect("what it has written");
                    continue;
                }
                Step::Crash => {
                    table = Table::new(Some(at(now)), at(now));
                    continue;
                }
            };
            // Others have a signature that is refused before.
            let signed = request.signed.as_secs();
            if signed.abs_diff(read) > FUDGE {
                continue;
            }
            if table.admit(request, at(read), most, || None) == Sighting::First {
                let before = executed.insert(request.id.0, signed);
                assert_eq!(before, None, "{request:?} is new again");
                table.settle(request.id, Ok(()));
            }
            assert!(table.known.len() <= most);
        }
    }

    proptest! {
        /// However the clock moves back, memory is short and the process ends in order.
        #[test]
        fn no_request_is_executed_twice(steps in vec(step(), 1..200), most in 1_usize..40) {
            let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Crash)).collect();
            executes_once(&steps, most);
        }

        /// After crashes, too. A crash forgets that the clock was set back.
        #[test]
        fn no_request_is_executed_twice_in_spite_of_crashes(
            steps in vec(step(), 1..200),
            most in 1_usize..40,
        ) {
            let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::SetBack(_))).collect();
            executes_once(&steps, most);
        }

        /// Bytes that are no file of ours, or one with other bytes in it, give a table or none.
        #[test]
        fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..300), at_byte in any::<usize>(), put in any::<u8>()) {
            let file = [MAGIC, &*bytes].concat();
            let _ = Table::<u32>::from_bytes(&file);
            let mut table = table();
            for number in 0..3 {
                admit(&mut table, request(number, NOW), NOW);
            }
            let mut file = table.to_bytes();
            let at_byte = at_byte % file.len();
            file[at_byte] = put;
            if let Some(mut table) = Table::<u32>::from_bytes(&file) {
                admit(&mut table, request(9, NOW), NOW);
            }
        }
    }

    #[test]
    fn the_file_of_the_last_run_is_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let horizon = |all: &SignedRequests| lock(&all.table).horizon;
        let first = SignedRequests::open(folder.path(), true, at(NOW));
        assert_eq!(horizon(&first), None);
        first.save(folder.path());
        let second = SignedRequests::open(folder.path(), false, at(NOW + 5));
        assert_eq!(horizon(&second), None);
        // It crashes.
        let third = SignedRequests::open(folder.path(), false, at(NOW + 9));
        assert_eq!(horizon(&third), Some(at(NOW + 9)));
        fs::write(folder.path().join(FILE), b"something else").expect("written");
        let fourth = SignedRequests::open(folder.path(), false, at(NOW + 20));
        assert_eq!(horizon(&fourth), Some(at(NOW + 20)));
        assert!(!folder.path().join(FILE).exists());
    }
}
