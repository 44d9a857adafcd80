//! The body of a response: one DNS message, counted until the system has taken it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// How many bytes of replies wait in a connection, and how many have left it. HTTP/2 frees a reply on the
/// thread of the connection, but its type lets it be freed anywhere.
#[derive(Default)]
pub(super) struct Unsent {
    waiting: AtomicUsize,
    sent: AtomicU64,
}

impl Unsent {
    /// Returns the bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the replies that have left.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// The bytes of a reply.
struct Counted {
    message: Vec<u8>,
    unsent: Arc<Unsent>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let len = self.message.len();
        self.unsent.waiting.fetch_sub(len, Ordering::Relaxed);
        self.unsent.sent.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// The body of a response.
pub(super) struct ReplyBody(Option<Bytes>);

impl ReplyBody {
    /// Returns a body of no bytes.
    pub(super) fn empty() -> Self {
        ReplyBody(None)
    }

    /// Returns the body that is this message.
    pub(super) fn new(message: Vec<u8>, unsent: &Arc<Unsent>) -> Self {
        unsent.waiting.fetch_add(message.len(), Ordering::Relaxed);
        ReplyBody(Some(Bytes::from_owner(Counted { message, unsent: Arc::clone(unsent) })))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|message| Ok(Frame::data(message))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |message| message.len() as u64))
    }
}
