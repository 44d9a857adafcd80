//! Reports of lookups and validations that failed, to the agent named by the zone's servers (RFC 9567). A
//! report is an ordinary query with a budget of its own: its answer is validated and cached, and no client
//! waits for it. Only failures of client queries are reported, so a failed report never causes another one.
//!
//! The resolver returns the agent with the answer (`ScrubbedAnswer::agent`), or in the budget of the query
//! that failed.

use cache::Now;
use resolver::{Budget, ClientPrefix, LookupRequest, Partition, QueryKey, ReportAgent};
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::name::BadName;
use wire::{Class, LowerName, LowerNameBuf, Name, Type};

use crate::known::Known;
use crate::quota::ValidationQuota;
use crate::service::Service;
use crate::settings::{Policy, ReportLimits};
use crate::stats::Unreported;
use crate::waiter::Waiter;

/// The first label of a report, and the last one before the agent domain (RFC 9567 §6.1.1).
const LABEL: &[u8] = b"_er";

impl Service {
    /// Reports to the servers' agent that this client query, which has been answered, failed with `error`.
    pub(crate) fn report(
        &self,
        policy: &Policy,
        failed: &QueryKey,
        error: ErrorInfo,
        agent: &ReportAgent,
        now: Now,
    ) {
        // OTHER means nothing without its text: mostly that one of our own limits was reached.
        let Some(limits) = policy.reports.filter(|_| error != ErrorInfo::OTHER) else { return };
        let sent =
            self.write_report(policy, failed, error, agent, limits, now).and_then(|(query_key, hash)| {
                let waiter = Waiter::unattended(ValidationQuota::default());
                let request = LookupRequest::new(query_key, ClientPrefix::none(), waiter);
                let shed = self.request(LookupRequest { budget: Some(Budget::default()), ..request });
                if shed.is_none() {
                    return Ok(());
                }
                self.sent_reports.give_back(hash);
                Err(Unreported::Queue)
            });
        let stats = &self.stats().reports;
        match sent {
            Ok(()) => stats.sent.add(),
            Err(why) => stats.unreported(why).add(),
        }
    }

    /// Returns the report's query, if it may be sent, and the hash under which it was recorded.
    fn write_report(
        &self,
        policy: &Policy,
        failed: &QueryKey,
        error: ErrorInfo,
        agent: &ReportAgent,
        limits: ReportLimits,
        now: Now,
    ) -> Result<(QueryKey, u64), Unreported> {
        if agent.domain.as_lower().is_at_or_below(agent.zone.as_lower()) {
            return Err(Unreported::Agent);
        }
        // Reports that other resolvers send through this one are not reported themselves.
        if failed.name.as_lower().labels().next() == Some(LABEL) {
            return Err(Unreported::Report);
        }
        let domain = agent.domain.as_lower();
        let name = report_name(failed.name.as_lower(), failed.qtype, error, domain);
        let name = name.map_err(|BadName| Unreported::Length)?;
        let (qtype, qclass) = (Type::TXT, Class::IN);
        let query_key = QueryKey {
            name,
            qtype,
            qclass,
            dnssec_ok: false,
            checking_disabled: false,
            partition: Partition::SHARED,
        };
        let mut hashed = HashedName::new();
        hashed.set(self.cache().key(), name.as_name());
        if policy.local.is_local(&hashed, qtype, qclass) {
            return Err(Unreported::Local);
        }
        match self.known(policy, &query_key, Partition::SHARED, None, now) {
            Known::Nothing(_) => {}
            Known::NoRule => return Err(Unreported::Local),
            Known::Answer(_) | Known::Link(..) | Known::Failure(_) | Known::Bogus(_) => {
                return Err(Unreported::Repeated);
            }
        }
        let hash = hashed.hash(0).bits();
        self.sent_reports.take(hash, limits, now)?;
        Ok((query_key, hash))
    }
}

/// Returns the query name of a report (RFC 9567 §6.1.1): `_er`, QTYPE, QNAME, the error code, `_er`, the
/// agent domain. [`BadName`] if it exceeds 255 bytes.
fn report_name(
    qname: LowerName<'_>,
    qtype: Type,
    error: ErrorInfo,
    agent: LowerName<'_>,
) -> Result<LowerNameBuf, BadName> {
    let (qtype, error) = (qtype.0.to_string(), error.0.to_string());
    let before = [LABEL, qtype.as_bytes()].into_iter().chain(qname.labels());
    let mut wire = Vec::new();
    for label in before.chain([error.as_bytes(), LABEL]) {
        // No label has more than 63 bytes.
        wire.push(label.len() as u8);
        wire.extend_from_slice(label);
    }
    wire.extend_from_slice(agent.as_wire());
    Name::from_wire(&wire).map(Name::to_lower)
}

#[cfg(test)]
mod tests {
    use wire::NameBuf;

    use super::*;

    fn name(text: &str) -> LowerNameBuf {
        text.parse::<NameBuf>().expect("a name").as_name().to_lower()
    }

    fn report(qname: &str, qtype: Type, error: ErrorInfo, agent: &str) -> Option<String> {
        let written = report_name(name(qname).as_lower(), qtype, error, name(agent).as_lower());
        written.ok().map(|name| name.to_string())
    }

    #[test]
    fn the_example_of_rfc_9567() {
        // §4.2.
        let written =
            report("broken.test.", Type::A, ErrorInfo::SIGNATURE_EXPIRED, "a01.agent-domain.example.");
        assert_eq!(written.as_deref(), Some("_er.1.broken.test.7._er.a01.agent-domain.example."));
        let of_root = report(".", Type(65_535), ErrorInfo(65_535), "a.");
        assert_eq!(of_root.as_deref(), Some("_er.65535.65535._er.a."));
    }

    #[test]
    fn a_name_of_more_than_255_bytes_is_none() {
        let label = "x".repeat(63);
        let long = |last: usize| format!("{label}.{label}.{label}.{}.", "x".repeat(last));
        // `_er`, `1`, `6`, `_er` and `a` take fourteen bytes.
        let written = |last| report(&long(last), Type::A, ErrorInfo::DNSSEC_BOGUS, "a.");
        assert!(written(47).is_some_and(|name| name.len() == 254));
        assert_eq!(written(48), None);
    }
}
