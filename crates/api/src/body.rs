//! The body of a response: whole, or a stream that ends when its channel closes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

use control::connections::ConnectionPlace;

/// The body of a response.
pub(crate) enum ReplyBody {
    Whole(Full<Bytes>),
    Stream(StreamBody),
}

/// Pieces from a channel.
pub(crate) struct StreamBody {
    pieces: mpsc::Receiver<Bytes>,
    /// The connection, which is idle again when the stream ends.
    place: Option<Arc<ConnectionPlace>>,
}

impl StreamBody {
    pub(crate) fn new(pieces: mpsc::Receiver<Bytes>) -> StreamBody {
        StreamBody { pieces, place: None }
    }

    /// Keeps the connection busy until the stream ends.
    pub(crate) fn hold(&mut self, place: Arc<ConnectionPlace>) {
        self.place = Some(place);
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        self.place.iter().for_each(|place| place.idle());
    }
}

impl ReplyBody {
    /// Returns a body with these bytes.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> ReplyBody {
        ReplyBody::Whole(Full::new(bytes.into()))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            ReplyBody::Whole(body) => Pin::new(body).poll_frame(context),
            ReplyBody::Stream(stream) => {
                stream.pieces.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(body) => body.is_end_stream(),
            ReplyBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(body) => body.size_hint(),
            ReplyBody::Stream(_) => SizeHint::default(),
        }
    }
}
