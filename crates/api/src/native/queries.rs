//! `/queries`: a stream of answered queries as Server-Sent Events. A client that reads too slowly misses
//! queries, and an event has their number; no query waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Sender};
use transport::unix_now;
use wire::{NameBuf, Prefix, PrefixFault, Rcode, Type};

use config::api::ApiRight;
use control::api_figures::{ApiFigures, ApiLimit};
use telemetry::querylog::{ObservedQuery, QueryObserver};

use super::arguments::{Arguments, name_of};
use super::route::Answering;
use crate::parts::ApiParts;
use crate::reply::{ApiFault, Reply};
use crate::request::ApiRequest;
use crate::rights::{Caller, Scope};

/// Events that wait for the client.
const WAITING_EVENTS: usize = 1024;
/// Interval of comments that keep the connection open, and of the checks whether the stream goes on.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Checks in a row that find no room for a comment before the stream ends.
const MAX_STUCK: u32 = 6;
/// Seconds after which a client may ask again for a stream if there are too many.
const RETRY_SECONDS: u64 = 10;

/// Response codes below this may have names.
const NAMED_RCODES: u16 = 32;
/// Response codes have 12 bits (RFC 6891 §6.1.3).
const MAX_RCODE: u16 = 1 << 12;

/// Which queries a stream has.
#[derive(Debug, Default)]
struct QueryFilter {
    /// At or below this name.
    name: Option<NameBuf>,
    client: Option<Prefix>,
    rtype: Option<Type>,
    rcode: Option<Rcode>,
}

impl QueryFilter {
    fn read(arguments: &Arguments) -> Result<QueryFilter, ApiFault> {
        let client = arguments.text("client").map(|text| match text.parse() {
            Ok(network) | Err(PrefixFault::HostBits(network)) => Ok(network),
            Err(_) => {
                let message = format!("`{text}` is not an address or a network such as 192.0.2.0/24");
                Err(ApiFault::bad_request(message).field("client"))
            }
        });
        Ok(QueryFilter {
            name: arguments.text("name").map(|name| name_of(&name, "name")).transpose()?,
            client: client.transpose()?,
            rtype: arguments.parsed("type", "a record type")?,
            rcode: arguments.text("rcode").map(|text| rcode_of(&text)).transpose()?,
        })
    }

    fn fits(&self, query: &ObservedQuery<'_>) -> bool {
        let address = query.client.peer.ip().to_canonical();
        self.name.as_ref().is_none_or(|name| query.name.is_at_or_below(name.as_name()))
            && self.client.is_none_or(|network| network.to_canonical().contains(address))
            && self.rtype.is_none_or(|rtype| query.qtype == Some(rtype))
            && self.rcode.is_none_or(|rcode| query.rcode == Some(rcode))
    }
}

/// Parses a response code: its name or its number.
fn rcode_of(text: &str) -> Result<Rcode, ApiFault> {
    let named = |code: &u16| Rcode(*code).to_string().eq_ignore_ascii_case(text);
    let found = (0..NAMED_RCODES).find(named).or_else(|| text.parse().ok().filter(|code| *code < MAX_RCODE));
    let fault =
        || ApiFault::bad_request(format!("`{text}` is not a response code such as NXDOMAIN")).field("rcode");
    found.map(Rcode).ok_or_else(fault)
}

/// The observer of one stream.
struct QueryStream {
    filter: QueryFilter,
    events: Sender<Bytes>,
    /// Queries that were left out since the last event.
    lost: AtomicU64,
    figures: Arc<ApiFigures>,
}

impl QueryStream {
    /// Counts queries that are left out.
    fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Relaxed);
        self.figures.stream_lost.fetch_add(count, Relaxed);
    }
}

impl QueryObserver for QueryStream {
    fn observe(&self, query: &ObservedQuery<'_>) {
        if !self.filter.fits(query) {
            return;
        }
        // Formatting is left out where there is no room.
        if self.events.capacity() == 0 {
            return self.lose(1);
        }
        let lost = self.lost.swap(0, Relaxed);
        let mut text = String::new();
        if lost > 0 {
            text += &format!("event: lost\ndata: {{\"lost\":{lost}}}\n\n");
        }
        text += &format!("data: {}\n\n", shown(query));
        if let Err(TrySendError::Full(_)) = self.events.try_send(text.into()) {
            self.lost.fetch_add(lost, Relaxed);
            self.lose(1);
        }
    }
}

/// Returns a query as JSON.
fn shown(query: &ObservedQuery<'_>) -> Value {
    let received = SystemTime::now() - query.took;
    let time = received.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let policy = query.rule.map(|rule| {
        json!({"action": rule.action.label(), "trigger": rule.trigger.label(), "source": rule.source.as_str(), "group": rule.group.map(|group| group.as_str())})
    });
    json!({
        "time": (time * 1e6).round() / 1e6,
        "client": query.client.peer.ip().to_string(),
        "port": query.client.peer.port(),
        "transport": query.client.transport.label(),
        "name": query.name.to_string(),
        "type": query.qtype.map(|qtype| qtype.to_string()),
        "rcode": query.rcode.map(|rcode| rcode.to_string()),
        "zone": query.zone.map(|zone| zone.to_string()),
        "view": query.view,
        "dnssec_ok": query.dnssec_ok,
        "truncated": query.truncated,
        "bytes": query.bytes,
        "microseconds": u64::try_from(query.took.as_micros()).unwrap_or(u64::MAX),
        "upstream": query.upstream.map(|upstream| upstream.to_string()),
        "policy": policy,
    })
}

/// A place among the open streams, which is free again when this is dropped.
struct StreamPlace(Arc<ApiFigures>);

impl StreamPlace {
    /// Takes a place, unless `most` are taken.
    fn take(figures: &Arc<ApiFigures>, most: usize) -> Option<StreamPlace> {
        let next = |open: u64| (open < most as u64).then(|| open + 1);
        figures.streams.fetch_update(Relaxed, Relaxed, next).ok()?;
        Some(StreamPlace(Arc::clone(figures)))
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Relaxed);
    }
}

/// Opens a stream.
pub(super) fn stream(api: ApiParts, request: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let (filter, figures) = (QueryFilter::read(&arguments)?, &api.server.api_figures);
        let most = api.bounds().streams.0;
        let Some(place) = StreamPlace::take(figures, most) else {
            figures.refused_by(ApiLimit::Streams);
            return Err(ApiFault::too_many(
                format!("{most} streams are open, as many as may be"),
                RETRY_SECONDS,
            ));
        };
        let (events, pieces) = mpsc::channel(WAITING_EVENTS);
        let (lost, of_stream) = (AtomicU64::new(0), events.clone());
        let stream = Arc::new(QueryStream { filter, events, lost, figures: Arc::clone(figures) });
        // The head of the response is sent with the first piece.
        let _ = of_stream.try_send(Bytes::from_static(b": queries\n\n"));
        tokio::spawn(attend(api, request.caller, stream, place));
        Ok(Reply::Stream("text/event-stream", pieces))
    })
}

/// Has the queries observed until the client disconnects or stops reading, or its token loses the right.
async fn attend(api: ApiParts, caller: Caller, stream: Arc<QueryStream>, place: StreamPlace) {
    let frontend = &api.server.frontend;
    let observation = frontend.observe_queries(Arc::clone(&stream) as Arc<dyn QueryObserver>);
    let (mut dropped, mut stuck) = (frontend.query_logger.dropped(), 0);
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    ticks.tick().await;
    loop {
        tokio::select! {
            () = stream.events.closed() => break,
            _ = ticks.tick() => {}
        }
        // Queries that did not reach this thread: filters are not known of them.
        let now = frontend.query_logger.dropped();
        stream.lose(now.saturating_sub(dropped));
        dropped = now;
        let grants = api.server.tokens.grants_of(&caller.token, unix_now());
        let current = grants.map(|grants| Caller::new(Arc::clone(&caller.token), caller.address, grants));
        if !current.is_some_and(|caller| caller.may(ApiRight::Server, Scope::Server)) {
            break;
        }
        stuck = match stream.events.try_send(Bytes::from_static(b": \n\n")) {
            Ok(()) => 0,
            Err(_) => stuck + 1,
        };
        if stuck >= MAX_STUCK {
            break;
        }
    }
    drop((observation, place));
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::{Client, Transport};

    fn observe(stream: &QueryStream, name: &str, client: &str) {
        let name: NameBuf = name.parse().expect("a name");
        let local = "127.0.0.1:53".parse().expect("an address");
        let client = Client { peer: client.parse().expect("an address"), local, transport: Transport::Udp };
        stream.observe(&ObservedQuery {
            client: &client,
            name: name.as_name(),
            qtype: Some(Type::A),
            zone: None,
            view: None,
            rcode: Some(Rcode::NXDOMAIN),
            truncated: false,
            dnssec_ok: false,
            bytes: 12,
            took: Duration::from_micros(7),
            upstream: None,
            rule: None,
        });
    }

    fn stream_of(filter: QueryFilter, room: usize) -> (QueryStream, mpsc::Receiver<Bytes>) {
        let (events, pieces) = mpsc::channel(room);
        (QueryStream { filter, events, lost: AtomicU64::new(0), figures: Arc::default() }, pieces)
    }

    fn next(pieces: &mut mpsc::Receiver<Bytes>) -> Option<String> {
        pieces.try_recv().ok().map(|piece| String::from_utf8_lossy(&piece).into_owned())
    }

    #[test]
    fn a_slow_reader_misses_queries_and_has_their_number() {
        let (stream, mut pieces) = stream_of(QueryFilter::default(), 2);
        (0..5).for_each(|_| observe(&stream, "a.example.", "192.0.2.1:99"));
        assert!(next(&mut pieces).is_some_and(|piece| piece.starts_with("data: {")));
        assert!(next(&mut pieces).is_some() && next(&mut pieces).is_none());
        observe(&stream, "b.example.", "192.0.2.1:99");
        let piece = next(&mut pieces).expect("an event");
        assert!(piece.starts_with("event: lost\ndata: {\"lost\":3}\n\ndata: {"), "{piece}");
        assert_eq!(stream.figures.stream_lost.load(Relaxed), 3);
    }

    #[test]
    fn filters_are_all_to_fit() {
        let filter = QueryFilter {
            name: Some("example.".parse().expect("a name")),
            client: Some("192.0.2.0/24".parse().expect("a network")),
            rtype: Some(Type::A),
            rcode: Some(Rcode::NXDOMAIN),
        };
        let (stream, mut pieces) = stream_of(filter, 9);
        observe(&stream, "a.other.", "192.0.2.1:99");
        observe(&stream, "a.example.", "192.0.3.1:99");
        assert_eq!(next(&mut pieces), None);
        observe(&stream, "A.Example.", "192.0.2.1:99");
        let piece = next(&mut pieces).expect("an event");
        assert!(
            piece.contains("\"name\":\"A.Example.\"") && piece.contains("\"rcode\":\"NXDOMAIN\""),
            "{piece}"
        );
    }

    #[test]
    fn places_of_streams_are_bounded() {
        let figures = Arc::default();
        let first = StreamPlace::take(&figures, 1).expect("a place");
        assert!(StreamPlace::take(&figures, 1).is_none());
        drop(first);
        assert!(StreamPlace::take(&figures, 1).is_some());
    }
}
