//! `[[policy.zone]]`: response policy zones, common to several programs.

use crate::ledger::Coverage;
use crate::model::{Keys, Setting};
use crate::tree::Statement;
use crate::units;
use crate::work::Work;

/// Largest `max-ttl` of a policy zone, in seconds.
const MAX_TTL: u64 = 604_800;

/// Why a policy zone that clients could not query differs.
pub(crate) const QUERIED: &str = "nomen has no access list for queries of a policy zone: limit the clients in \
                                  a firewall if its records are confidential";

/// A name with its final dot.
pub(crate) fn absolute(name: &str) -> String {
    if name == "." { name.to_owned() } else { format!("{name}.") }
}

/// Sets `max-ttl`, in seconds.
pub(crate) fn max_ttl(work: &mut Work, statement: &Statement, keys: &mut Keys, seconds: u64) {
    let within = seconds.min(MAX_TTL);
    keys.text("max-ttl", units::duration(within * 1000));
    if within != seconds {
        let words = "`max-ttl` of [[policy.zone]] takes no such value; it is 7d here";
        work.ledger.part(&statement.span, &statement.title(), Coverage::Differs, words);
    }
}

/// Adds a policy zone. Refuses recursion and returns `false` if there is no such zone here: its rules would
/// not apply.
pub(crate) fn zone(work: &mut Work, statement: &Statement, name: &str, keys: Keys) -> bool {
    if work.nomen.policy_zones.iter().any(|other| other.get("name") == keys.get("name")) {
        work.ledger.differs(statement, "there is another policy zone of this name; the first one counts");
        return false;
    }
    if !work.nomen.zones.iter().any(|zone| zone.name == name) {
        let logs_only = keys.get("action") == Some(&Setting::Text("disabled".into()));
        match logs_only {
            true => work.ledger.missing(statement, "there is no such zone here; it is disabled anyway"),
            false => work.refuse_recursion(statement, "its zone is not in the printed configuration"),
        }
        return false;
    }
    work.nomen.policy_zones.push(keys);
    true
}
