//! Targets of aliases that are made here: a rule of a policy, local data or DNS64 leads to a name that a zone
//! served here may have.

use query_path::Refusal;
use transport::Client;
use wire::{LowerName, LowerNameBuf, Type};

/// Answers from the zones served here.
pub trait AliasTargets: Send + Sync {
    /// Whether one of the zones that the client gets answers from has the target, or a zone delegates it.
    fn has(&self, target: &AliasTarget<'_>) -> bool;

    /// Returns the answer of the zones that the client gets answers from.
    fn answer(&self, target: &AliasTarget<'_>) -> TargetAnswer;
}

/// A query for the target of an alias, of class IN.
#[derive(Clone, Copy, Debug)]
pub struct AliasTarget<'a> {
    /// The target.
    pub name: LowerName<'a>,
    /// The type of the client's query.
    pub qtype: Type,
    /// Whether the client requests DNSSEC records.
    pub dnssec_ok: bool,
    /// The client's address and transport.
    pub client: &'a Client,
    /// The TSIG key that signed its query.
    pub key: Option<LowerName<'a>>,
}

/// The answer of zones for the target of an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum TargetAnswer {
    /// No zone has the name, or a zone delegates it: other servers are queried.
    Elsewhere,
    /// The client may not query the zone, or the zone is not loaded: the answer ends with the alias.
    Withheld,
    /// The query is refused.
    Refused(Refusal),
    /// The response to the query, and the target that its chain of aliases ends at, if no zone has that.
    Answer(Vec<u8>, Option<LowerNameBuf>),
}
