//! Signs requests, and the messages of responses (RFC 8945 §5.1, §5.3).

use std::sync::Arc;

use wire::UnixTime;
use wire::message::{Full, MAX_MESSAGE};

use super::TsigRcode;
use super::digest::{Digest, Mac, Variables};
use super::key::TsigKey;
use super::record::{NewTsig, record_len};
use super::verifier::ResponseVerifier;

/// The signed fields beside the key.
pub(super) struct Stamp<'a> {
    pub(super) time: UnixTime,
    /// Seconds.
    pub(super) fudge: u16,
    pub(super) error: TsigRcode,
    pub(super) other: &'a [u8],
}

impl Stamp<'_> {
    fn at(time: UnixTime, fudge: u16) -> Stamp<'static> {
        Stamp { time, fudge, error: TsigRcode::NOERROR, other: &[] }
    }
}

/// Signs the messages of one response in order. Signs every message (RFC 8945 §5.3.1).
#[derive(Clone, Debug)]
pub struct ResponseSigner {
    key: Arc<TsigKey>,
    /// The MAC that the next one covers: that of the request, then that of the previous message.
    prior: Option<Mac>,
    /// Whether a message has been signed.
    begun: bool,
}

impl ResponseSigner {
    pub(super) fn new(key: Arc<TsigKey>, request: Option<Mac>) -> ResponseSigner {
        ResponseSigner { key, prior: request, begun: false }
    }

    /// The key that signs.
    pub fn key(&self) -> &Arc<TsigKey> {
        &self.key
    }

    /// Bytes that [`sign`](Self::sign) adds to a message.
    pub fn reserve(&self) -> usize {
        signature_len(&self.key)
    }

    /// Appends the TSIG record to the next message, the `len` bytes at the start of `buf`, and returns its
    /// new length. On [`Full`] message and signer are unchanged.
    pub fn sign(&mut self, buf: &mut [u8], len: usize, now: UnixTime) -> Result<usize, Full> {
        self.sign_with(buf, len, Stamp::at(now, self.key.fudge()))
    }

    pub(super) fn sign_with(&mut self, buf: &mut [u8], len: usize, stamp: Stamp<'_>) -> Result<usize, Full> {
        let most = buf.len().min(MAX_MESSAGE);
        let buf = &mut buf[..most];
        let message = buf.get(..len).ok_or(Full)?;
        let original_id = message.first_chunk().map(|id| u16::from_be_bytes(*id)).ok_or(Full)?;
        let (owner, algorithm) = (self.key.name().as_name(), self.key.algorithm().wire_name().as_name());
        let Stamp { time, fudge, error, other } = stamp;
        let mut digest = Digest::new(&self.key);
        if let Some(prior) = &self.prior {
            digest.mac(prior);
        }
        digest.plain(message);
        match self.begun {
            false => digest.variables(&Variables { owner, algorithm, time, fudge, error, other }),
            true => digest.timers(time, fudge),
        }
        let mac = digest.end(self.key.mac_len());
        let record =
            NewTsig { owner, algorithm, time, fudge, mac: mac.as_bytes(), original_id, error, other };
        let end = record.append(buf, len)?;
        (self.prior, self.begun) = (Some(mac), true);
        Ok(end)
    }
}

/// Returns how many bytes the TSIG record of a request or response signed with `key` has.
pub fn signature_len(key: &TsigKey) -> usize {
    record_len(key.name().len(), key.algorithm().wire_name().len(), key.mac_len(), 0)
}

/// Signs a request, the `len` bytes at the start of `buf`, with `key`: appends the TSIG record and returns
/// the new length and the verifier of the response.
pub fn sign_request(
    key: &Arc<TsigKey>,
    buf: &mut [u8],
    len: usize,
    now: UnixTime,
) -> Result<(usize, ResponseVerifier), Full> {
    let mut signer = ResponseSigner::new(key.clone(), None);
    let end = signer.sign(buf, len, now)?;
    let request = signer.prior.ok_or(Full)?;
    Ok((end, ResponseVerifier::new(key.clone(), request)))
}
