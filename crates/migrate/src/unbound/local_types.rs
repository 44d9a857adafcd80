//! The types of `local-zone` of unbound.conf.

/// What a local zone does with names that have no `local-data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalDefault {
    /// They are resolved.
    Resolved,
    /// They get this answer of a block list.
    Listed(&'static str),
    /// They are refused.
    Refused,
    /// They have the records of the zone.
    Redirected,
}

/// What names without data get by a type, and whether data are answered; `None` if it is unknown.
pub(super) fn of_type(kind: &str) -> Option<(LocalDefault, bool)> {
    Some(match kind {
        "transparent" | "typetransparent" | "inform" | "nodefault" => (LocalDefault::Resolved, true),
        "always_transparent" => (LocalDefault::Resolved, false),
        "static" => (LocalDefault::Listed("nxdomain"), true),
        "always_nxdomain" => (LocalDefault::Listed("nxdomain"), false),
        "always_nodata" => (LocalDefault::Listed("nodata"), false),
        "always_null" => (LocalDefault::Listed("null"), false),
        "refuse" | "deny" | "inform_deny" => (LocalDefault::Refused, true),
        "always_refuse" | "always_deny" => (LocalDefault::Refused, false),
        "redirect" | "inform_redirect" => (LocalDefault::Redirected, true),
        _ => return None,
    })
}

/// The name of the list that is made for an answer.
pub(super) fn list_name(answer: &str) -> &'static str {
    match answer {
        "nodata" => "local-zones-nodata",
        "null" => "local-zones-null",
        _ => "local-zones-nxdomain",
    }
}
