//! The message that a worker was working on when it panicked, for logs.

use std::cell::RefCell;

use crate::Client;

thread_local! {
    static SUSPECT: RefCell<Option<SuspectMessage>> = const { RefCell::new(None) };
}

/// A message that was being worked on during a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspectMessage {
    /// Who sent it.
    pub client: Client,
    /// The message, or its beginning.
    pub message: Vec<u8>,
}

impl SuspectMessage {
    /// Removes and returns the message of the last panic on this thread.
    pub fn take() -> Option<SuspectMessage> {
        SUSPECT.with(RefCell::take)
    }
}

/// Held while a message is worked on that the transport does not know: if a panic drops it, the message can
/// be [taken](SuspectMessage::take).
pub struct MessageGuard<'m> {
    client: &'m Client,
    message: &'m [u8],
}

impl<'m> MessageGuard<'m> {
    /// Begins the work.
    #[inline]
    pub fn new(client: &'m Client, message: &'m [u8]) -> Self {
        MessageGuard { client, message }
    }
}

impl Drop for MessageGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let suspect = SuspectMessage { client: *self.client, message: self.message.to_vec() };
            // At the end of the thread there is no place any more, and nothing to log.
            let _ = SUSPECT.try_with(|place| place.replace(Some(suspect)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::Transport;

    #[test]
    fn only_a_panic_leaves_a_message() {
        let address = ([192, 0, 2, 1], 53).into();
        let client = Client { peer: address, local: address, transport: Transport::Udp };
        drop(MessageGuard::new(&client, b"fine"));
        assert_eq!(SuspectMessage::take(), None);
        let panicked = catch_unwind(|| {
            let _guard = MessageGuard::new(&client, b"bad");
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert_eq!(SuspectMessage::take(), Some(SuspectMessage { client, message: b"bad".to_vec() }));
        assert_eq!(SuspectMessage::take(), None);
    }
}
