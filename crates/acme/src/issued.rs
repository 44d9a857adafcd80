//! What an order results in.

use std::collections::BTreeSet;

/// A chain that a CA has issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedChain {
    /// The names that were ordered.
    pub names: BTreeSet<String>,
    /// The certificates as PEM, that of the server first.
    pub chain: String,
    /// The private key as PEM.
    pub key: String,
}
