//! [`SignCommand`]: what operators ask of the keys and signatures of a zone.

use signer::rollover::{KeyId, RollTarget, RolloverEvent};
use telemetry::trail::audit;
use tracing::info;
use wire::{UnixTime, ZoneName};

/// What an operator asks of the keys and signatures of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignCommand {
    /// Make all signatures again.
    Renew,
    /// Begin to replace a key.
    Roll(RollTarget),
    /// Have the standby key take over from a key at once.
    RollAtOnce(RollTarget),
    /// Remove a key as soon as no cache needs it: another one can take over.
    Retire(KeyId),
    /// The parent has the DS record of the key.
    DsPublished(KeyId),
    /// The parent no longer has it.
    DsWithdrawn(KeyId),
    /// Predict the events to come; nothing changes.
    Timeline,
    /// Generate the ZSKs that are missing until this time: the KSK is offline.
    Pregenerate(UnixTime),
    /// Return the key signing request from one time to another; nothing changes.
    Request(Option<UnixTime>, Option<UnixTime>),
    /// Take this signed key response.
    ImportResponse(String),
}

impl SignCommand {
    /// A word for the audit file.
    pub(in super::super) fn word(&self) -> &'static str {
        match self {
            Self::Renew => "sign",
            Self::Roll(_) => "roll",
            Self::RollAtOnce(_) => "roll-emergency",
            Self::Retire(_) => "retire",
            Self::DsPublished(_) => "ds-published",
            Self::DsWithdrawn(_) => "ds-withdrawn",
            Self::Timeline => "timeline",
            Self::Pregenerate(_) => "pregenerate",
            Self::Request(..) => "request",
            Self::ImportResponse(_) => "import-response",
        }
    }

    /// Whether it changes something.
    pub(in super::super) fn changes(&self) -> bool {
        !matches!(self, Self::Timeline | Self::Request(..))
    }
}

/// An event of a key that is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneKeyEvent {
    /// When it comes.
    pub at: UnixTime,
    /// The key.
    pub key: KeyId,
    /// What happens.
    pub event: RolloverEvent,
}

/// What a command returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignReply {
    /// What happens, as text.
    Done(String),
    /// The events to come, in the order of time.
    Timeline(Vec<ZoneKeyEvent>),
    /// A key signing request.
    Request(String),
}

/// The result of a command; an error is the reason why it is refused.
pub type SignEnd = Result<SignReply, String>;

/// Writes an operator's command to the log and the audit file, if it changes something.
pub(in super::super) fn log_command(apex: &ZoneName, command: &SignCommand, end: &SignEnd) {
    if !command.changes() {
        return;
    }
    let (zone, word) = (apex, command.word());
    match end {
        Ok(SignReply::Done(said)) => {
            info!("zone {zone}: by an operator's command, {said}");
            audit!(%zone, command = word, result = %said, "key command executed");
        }
        Ok(SignReply::Timeline(_) | SignReply::Request(_)) => {}
        Err(reason) => audit!(%zone, command = word, %reason, "key command refused"),
    }
}
