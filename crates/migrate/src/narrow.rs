//! Narrows what cannot be expressed exactly: refuses certain names, or recursion altogether.
//!
//! So no client gains access by the conversion; `tests/reference.rs` compares with models of the access that
//! each program permits.

use crate::ledger::Coverage;
use crate::model::{Keys, Nomen, Setting, Zone};
use crate::policy;
use crate::tree::Statement;
use crate::work::Work;

impl Work {
    /// Refuses upstream queries for names at or below a domain, whose rule or zone is left out.
    pub(crate) fn refuse_domain(&mut self, domain: &str) {
        if !self.narrow.domains.iter().any(|other| other == domain) {
            self.narrow.domains.push(domain.to_owned());
        }
    }

    /// Like [`refuse_domain`](Self::refuse_domain), if the source queries no server for names below the
    /// domain, whatever rules it has for them.
    pub(crate) fn refuse_all_below(&mut self, domain: &str) {
        self.refuse_domain(domain);
        self.narrow.whole.push(domain.to_owned());
    }

    /// Resolves the names of a domain starting at the root servers; refuses them if a rule above the domain
    /// has other servers.
    pub(crate) fn iterate_domain(&mut self, domain: &str) {
        self.narrow.iterated.push(domain.to_owned());
    }

    /// Refuses recursion to all clients, because of a statement that limits it in a way that nomen cannot
    /// express.
    pub(crate) fn refuse_recursion(&mut self, statement: &Statement, why: &str) {
        let words = format!(
            "{why}: recursion is refused to every client, so that none gets what this statement denies; to \
             do without it, migrate a copy of the file that does not have it"
        );
        self.ledger.narrower(statement, words);
        self.narrow.closed = true;
    }

    /// Leaves a zone out unless it becomes a catalog zone, or a policy zone without answers.
    pub(crate) fn serve_without_answers(&mut self, zone: &str) {
        self.narrow.unanswered.push(zone.to_owned());
    }
}

/// Whether a name is at or below a domain.
pub(crate) fn is_below(name: &str, domain: &str) -> bool {
    domain == "." || name == domain || name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// Writes the refusals.
pub(crate) fn write(work: &mut Work) {
    let narrow = std::mem::take(&mut work.narrow);
    let mut domains = narrow.domains;
    let nomen = &mut work.nomen;
    domains.extend(leave_out(nomen, &narrow.unanswered));
    let above = |domain: &str| {
        nomen.forwards.iter().chain(&nomen.stubs).any(|rule| match rule.get("domain") {
            Some(Setting::Text(above)) => above != domain && is_below(domain, above),
            _ => false,
        })
    };
    domains.extend(narrow.iterated.into_iter().filter(|domain| above(domain)));
    let Some(resolver) = &mut nomen.resolver else { return };
    let mut words = Vec::new();
    let mut kept = |rule: &Keys| match rule.get("domain") {
        Some(Setting::Text(domain)) => match narrow.whole.iter().find(|above| is_below(domain, above)) {
            Some(above) => {
                words.push(format!("the rule for {domain} is left out: no name below {above} is asked for"));
                false
            }
            None => !domains.contains(domain),
        },
        _ => false,
    };
    nomen.forwards.retain(&mut kept);
    nomen.stubs.retain(&mut kept);
    for domain in &domains {
        match domain.as_str() {
            "." => {
                resolver.switch("iterate", false);
                words.push("names that no rule is for are refused (`iterate = false`)".to_owned());
            }
            domain if nomen.zones.iter().any(|zone| zone.name == domain && zone.view().is_none()) => {}
            domain => {
                resolver.add("refused-domains", domain);
                if !narrow.exact.iter().any(|exact| exact == domain) {
                    words.push(format!("names at and below {domain} are refused (`refused-domains`)"));
                }
            }
        }
    }
    if resolver.get("iterate") == Some(&Setting::Switch(false)) {
        only_forward(&mut nomen.forwards, &mut words);
    }
    if narrow.closed {
        nomen.access.clear();
        nomen.grant("refuse", "any");
    }
    let iterates =
        nomen.resolver.as_ref().and_then(|keys| keys.get("iterate")) != Some(&Setting::Switch(false));
    if !iterates && nomen.forwards.is_empty() && nomen.stubs.is_empty() {
        nomen.resolver = None;
        nomen.access.clear();
        leave_out(nomen, &narrow.unanswered);
        words = vec![
            "no server is left that may be asked: there is no [resolver], and recursion is refused".into(),
        ];
    }
    words.into_iter().for_each(|words| work.ledger.unwritten(Coverage::Narrower, words));
}

/// Leaves out those of these zones that are neither catalog zones nor policy zones. Returns their names.
fn leave_out(nomen: &mut Nomen, unanswered: &[String]) -> Vec<String> {
    // Without a resolver, there are no policy zones.
    let policies = if nomen.resolver.is_some() { &nomen.policy_zones[..] } else { &[] };
    let is_left_out = |zone: &mut Zone| {
        let name = Setting::Text(policy::absolute(&zone.name));
        unanswered.contains(&zone.name)
            && zone.view().is_none()
            && zone.keys.get("catalog-template").is_none()
            && !policies.iter().any(|policy| policy.get("name") == Some(&name))
    };
    nomen.zones.extract_if(.., is_left_out).map(|zone| zone.name).collect()
}

/// Removes `forward-first`, since no names are resolved starting at the root servers.
fn only_forward(forwards: &mut [Keys], words: &mut Vec<String>) {
    for rule in forwards.iter_mut().filter(|rule| rule.get("forward-first").is_some()) {
        rule.remove("forward-first");
        words.push(
            "names of a rule whose servers have no answer are not found otherwise (`forward-first`)".into(),
        );
    }
}
