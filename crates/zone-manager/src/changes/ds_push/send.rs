//! One push to a server of the parent zone: a connection over TCP or TLS, two queries, and an update.

use std::time::Duration;

use net::PeerStream;
use transfer::tsig::{ResponseError, find, sign_request};
use transport::unix_now;
use update::ds::{DsRrset, ds_update, plain_query, read_ds_reply, read_zone_reply};
use wire::message::{Full, Header};
use wire::{Rcode, Type, ZoneName};
use zone_plan::PeerServer;

use super::random;
use super::state::PushOutcome;
use crate::changes::delegations::tags;
use crate::changes::signing::WantedDs;
use crate::secondaries::{connect, exchange};
use wording::reason;

/// Longest wait for a connection, and then for its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a response; the server may wait for its disk.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Size limit of a message in bytes: two DS RRsets of many records.
const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// Changes the DS RRset of a zone at the first server that accepts it.
///
/// # Errors
/// Why none does.
pub(super) fn push(
    servers: &[PeerServer],
    apex: &ZoneName,
    wanted: &WantedDs,
) -> Result<PushOutcome, String> {
    let mut faults = Vec::new();
    for server in servers {
        match push_to(server, apex, wanted) {
            Ok(outcome) => return Ok(outcome),
            Err(fault) => faults.push(format!("{server}: {fault}")),
        }
    }
    Err(faults.join("; "))
}

fn push_to(server: &PeerServer, apex: &ZoneName, wanted: &WantedDs) -> Result<PushOutcome, String> {
    let child = apex.as_name();
    let stream = connect(server, CONNECT_TIMEOUT).map_err(|fault| format!("no connection: {fault}"))?;
    let mut session = PushSession { server, stream };
    let above = child.parent().ok_or("the root zone has no parent")?;
    let soa = session.ask(|buf, id| plain_query(buf, id, above, Type::SOA))?;
    let zone = read_zone_reply(&soa, child).map_err(|fault| format!("SOA of {above}: {fault}"))?;
    let names = (zone.as_name(), child);
    let reply = session.ask(|buf, id| plain_query(buf, id, child, Type::DS))?;
    let DsRrset { rdatas: old, ttl } =
        read_ds_reply(&reply, names).map_err(|fault| format!("DS of {child}: {fault}"))?;
    let place = format!("{server}, zone {zone}");
    if old == wanted.rdatas {
        return Ok(PushOutcome::Unchanged { place });
    }
    let new = (&*wanted.rdatas, ttl.unwrap_or(wanted.ttl));
    let reply = session.ask(|buf, id| ds_update(buf, id, names, &old, new))?;
    match Header::of(&reply).map(|header| header.rcode()) {
        Some(Rcode::NOERROR) => Ok(PushOutcome::Accepted { place, from: tags(&old) }),
        Some(Rcode::NXRRSET | Rcode::YXRRSET | Rcode::NXDOMAIN) => {
            Err(format!("zone {zone} does not delegate it, or its DS records were changed meanwhile"))
        }
        Some(rcode) => Err(format!("the update of zone {zone} is answered with {rcode}")),
        None => Err("the response is malformed".to_owned()),
    }
}

/// A connection to one server.
struct PushSession<'s> {
    server: &'s PeerServer,
    stream: PeerStream,
}

impl PushSession<'_> {
    /// Sends a request that `write` makes, signed if the server has a key, and returns the response.
    fn ask(&mut self, write: impl FnOnce(&mut [u8], u16) -> Result<usize, Full>) -> Result<Vec<u8>, String> {
        let too_long = |Full| "the request is too long".to_owned();
        let mut buf = vec![0; MAX_REQUEST_BYTES];
        let mut len = write(&mut buf, random() as u16).map_err(too_long)?;
        let mut verifier = None;
        if let Some(key) = &self.server.key {
            let (signed, theirs) = sign_request(key, &mut buf, len, unix_now()).map_err(too_long)?;
            (len, verifier) = (signed, Some(theirs));
        }
        let reply = exchange(&mut self.stream, &buf[..len], RESPONSE_TIMEOUT)
            .map_err(|fault| format!("no response: {}", reason(&fault)))?;
        if let Some(mut verifier) = verifier {
            let at = find(&reply).map_err(|_| "the response is malformed")?;
            let verified = verifier.message(&reply, at, unix_now()).and_then(|()| verifier.end());
            verified.map_err(|fault| signature_fault(&fault, &reply))?;
        }
        Ok(reply)
    }
}

/// Returns why the signature of a response is not accepted.
fn signature_fault(fault: &ResponseError, reply: &[u8]) -> String {
    let rcode = Header::of(reply).map_or(Rcode::FORMERR, |header| header.rcode());
    match fault {
        ResponseError::Unsigned => format!("the response is {rcode}, and not signed"),
        ResponseError::Refused { error, .. } => format!("the signature is refused: {error}"),
        other => format!("the signature of the response: {other}"),
    }
}
