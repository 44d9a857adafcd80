//! Keys of `[[zone]]` and `[template.X]` about signing: the policy of the zone, the servers of its parent.

use super::addresses::ServerAddress;
use super::dnssec_policy::{DnssecPolicies, NO_POLICY, RESERVED_POLICIES};
use super::report::{ConfigPlace, Diagnostic};
use super::table::keys;
use super::table::read::At;
use wording::did_you_mean;

keys! {
    /// Keys of zones and templates about signing. The zone's keys take precedence.
    pub struct ZoneSigningKeys {
        /// Sign the zone under this policy: `default`, `insecure` (a signed zone becomes unsigned), or X of
        /// `[dnssec-policy.X]`; `none` if the zone is not signed although its template has a policy. Keys are
        /// generated and rolled, signatures renewed. The records come from `file`, updates or `primaries`,
        /// unsigned; the file is not changed, so `write-file-every` is not possible. Needs `state-dir` of
        /// `[server]`, where keys and signed versions are stored. Changes are stored for IXFR, whatever
        /// `ixfr-from-differences` says. Unset: the zone is served as it is.
        live "dnssec-policy" policy: Option<String> = None, example "default";
        /// Servers of the parent zone that nomen asks for the DS records of the zone, each `ip` or `ip@port`:
        /// a rollover of a KSK continues when all of them have the new DS record. Unset: the name servers of
        /// the parent, found by resolution.
        live "parental-servers" parental_servers: Option<Vec<At<ServerAddress>>> = None,
            example ["192.0.2.1", "2001:db8::1@5353"];
    }
}

/// Returns the name of the policy of a zone with these keys and this template; `None`: it is not signed.
pub fn policy_of<'k>(own: &'k ZoneSigningKeys, template: Option<&'k ZoneSigningKeys>) -> Option<&'k str> {
    effective(own, template).map(|(name, _)| name)
}

/// The same, with the place of the name.
pub(super) fn effective<'k>(
    own: &'k ZoneSigningKeys,
    template: Option<&'k ZoneSigningKeys>,
) -> Option<(&'k str, Option<&'k ConfigPlace>)> {
    let named = |keys: &'k ZoneSigningKeys| Some((keys.policy.value.as_deref()?, keys.policy.place.as_ref()));
    named(own).or_else(|| template.and_then(named)).filter(|(name, _)| *name != NO_POLICY)
}

impl ZoneSigningKeys {
    /// Reports a policy that does not exist, or that has no folder to store keys in.
    pub(super) fn check(&self, policies: &DnssecPolicies, has_state: bool, faults: &mut Vec<Diagnostic>) {
        let Some(name) = self.policy.value.as_deref() else { return };
        let place = self.policy.place.as_ref();
        if !RESERVED_POLICIES.contains(&name) && !policies.contains_key(name) {
            let fault = Diagnostic::at(place, format!("there is no [dnssec-policy.{name}]"));
            let known = policies.keys().map(String::as_str).chain(RESERVED_POLICIES);
            faults.push(match did_you_mean(name, known) {
                Some(near) => fault.hint(format!("did you mean \"{near}\"?")),
                None => fault,
            });
        } else if !has_state && name != NO_POLICY {
            let fault = Diagnostic::at(place, "`dnssec-policy` needs a state folder");
            faults.push(fault.hint("set `state-dir` in [server]"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_needs_a_state_folder() {
        let check = |name: &str, has_state: bool| {
            let keys = ZoneSigningKeys {
                policy: At::unwritten(Some(name.to_owned())),
                ..ZoneSigningKeys::default()
            };
            let mut faults = Vec::new();
            keys.check(&DnssecPolicies::new(), has_state, &mut faults);
            faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>()
        };
        assert_eq!(check("default", false), ["`dnssec-policy` needs a state folder"]);
        assert!(check("default", true).is_empty() && check("none", false).is_empty());
    }
}
