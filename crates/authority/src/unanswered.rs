//! Why there is no answer.

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The zone is not loaded.
    NotLoaded,
    /// A zone delegates the name, and [`Ask::resolves`](crate::Ask::resolves) returns true.
    Delegated,
    /// The denial needs more hashing than [`HashingLimit`](crate::HashingLimit) allows at present. The
    /// sections do not hold an answer.
    Hashing,
    /// The answer needs more signatures than the limit of its zone allows at present. As for all reasons
    /// below, the sections do not hold an answer.
    SigningLimit,
    /// Answers of the zone are signed, and no key signs at present.
    NoSignature,
    /// QTYPE is NXNAME, which is a type in NSEC records alone (RFC 9824 §3.5).
    MetaType,
}
