//! The differences that may stand: each rule as narrow as it can be made, with the words that decide it.
//! `EXPLAINED.md` says the same to people, and a test holds the two together.

use crate::answer::Answer;
use crate::compare::{Case, Difference, Facet};
use crate::servers::Kind;

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// Short name, printed with its count.
    pub id: &'static str,
    /// Facets it may excuse.
    pub facets: &'static [Facet],
    /// Who it excuses; `None` for any server.
    pub subject: Option<Kind>,
    /// What differs and the document that decides.
    pub why: &'static str,
    /// Whether it applies to this difference.
    pub applies: fn(&View<'_>) -> bool,
}

/// What a rule looks at.
#[derive(Debug)]
pub struct View<'a> {
    /// The query and all replies.
    pub case: &'a Case<'a>,
    /// The subject's response.
    pub mine: &'a Answer,
    /// The response of one of the group it differs from.
    pub theirs: &'a Answer,
    /// The difference itself.
    pub difference: &'a Difference,
}

/// Every rule, tried in order.
pub const RULES: &[Rule] = &[];

/// The rule that explains `difference` of `subject`, if one does.
pub fn explain(case: &Case<'_>, subject: Kind, difference: &Difference) -> Option<&'static Rule> {
    let mine = case.of(subject)?;
    let theirs = case.of(*difference.against.first()?)?;
    let view = View { case, mine, theirs, difference };
    RULES.iter().find(|rule| {
        rule.facets.contains(&difference.facet)
            && rule.subject.is_none_or(|s| s == subject)
            && (rule.applies)(&view)
    })
}
