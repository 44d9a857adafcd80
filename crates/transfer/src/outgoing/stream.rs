//! The sequence of messages of a transfer.

use transport::{MessageStream, Next};
use wire::LowerNameBuf;
use wire::message::MAX_MESSAGE;

use super::frame::{Signing, TransferFrame};
use super::message::{MessageScratch, TransferMessage};

/// A source of records, in their order.
pub(super) trait RecordSource: Send {
    /// Writes as many records as fit. Returns whether these were all.
    fn fill(&mut self, message: &mut TransferMessage<'_>) -> bool;
}

/// The messages of a transfer: the records of `S` in a [`TransferFrame`].
pub(super) struct TransferStream<S> {
    pub(super) frame: TransferFrame,
    apex: LowerNameBuf,
    records: S,
    scratch: MessageScratch,
    begun: bool,
    pub(super) ended: bool,
}

impl<S: RecordSource> TransferStream<S> {
    pub(super) fn new(frame: TransferFrame, apex: LowerNameBuf, records: S) -> Self {
        TransferStream { frame, apex, records, scratch: MessageScratch::new(), begun: false, ended: false }
    }

    /// Writes the next message, of at most `limit` bytes; `None` if no record fits.
    pub(super) fn message(&mut self, out: &mut [u8], limit: usize) -> Option<usize> {
        let frame = &mut self.frame;
        let (question, opt) = if self.begun { (&[][..], &[][..]) } else { (&*frame.question, &*frame.opt) };
        let signature = frame.signing.as_ref().map_or(0, |signing| signing.signer.reserve());
        let most = limit.min(out.len()).min(MAX_MESSAGE).checked_sub(signature)?;
        let room = most.checked_sub(opt.len())?;
        let apex = self.apex.as_lower();
        let mut message = TransferMessage::begin(out, room, question, apex, &mut self.scratch).ok()?;
        let ended = self.records.fill(&mut message);
        if message.records() == 0 {
            return None;
        }
        message.append(opt, most).ok()?;
        let counts = (!question.is_empty() as u16, !opt.is_empty() as u16);
        let mut len = message.finish(frame.header, counts.0, counts.1);
        if let Some(Signing { signer, clock }) = &mut frame.signing {
            len = signer.sign(out, len, clock()).ok()?;
        }
        (self.begun, self.ended) = (true, ended);
        Some(len)
    }
}

impl<S: RecordSource> MessageStream for TransferStream<S> {
    fn next(&mut self, out: &mut [u8]) -> Next {
        if self.ended {
            return Next::End;
        }
        let limit = self.frame.limit;
        // A record larger than the limit gets a message of its own.
        let written = self.message(out, limit).or_else(|| self.message(out, MAX_MESSAGE));
        match written {
            Some(len) => Next::Message(len),
            None => Next::Abort,
        }
    }
}
