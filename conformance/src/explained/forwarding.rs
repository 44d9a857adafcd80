//! The rules for forwarders.

use super::Rule;

/// Every rule for forwarders, tried in order.
pub(crate) const RULES: &[Rule] = &[];
