//! CHANGELOG.md exists and has one section for unreleased changes.

use super::Fault;
use crate::tree::Tree;

const PATH: &str = "CHANGELOG.md";

/// Reports a changelog that is missing, or does not have exactly one Unreleased section.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let Some(text) = tree.file(PATH).and_then(|f| f.text()) else {
        return vec![Fault::new(PATH, 1, "is missing; write one as keepachangelog.com says")];
    };
    let sections: Vec<usize> = text
        .lines()
        .enumerate()
        .filter(|(_, l)| l.trim_end() == "## [Unreleased]")
        .map(|(i, _)| i + 1)
        .collect();
    match sections.as_slice() {
        [_] => Vec::new(),
        [] => vec![Fault::new(PATH, 1, "has no `## [Unreleased]` section; add it above the newest release")],
        [_, again, ..] => vec![Fault::new(PATH, *again, "a second `## [Unreleased]`; join the two")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unreleased_section_is_wanted() {
        let faults = |text| check(&Tree::of(&[(PATH, text)])).len();
        assert_eq!(faults("# Changelog\n\n## [Unreleased]\n"), 0);
        assert_eq!(faults("# Changelog\n\n## [0.1.0]\n"), 1);
        assert_eq!(faults("## [Unreleased]\n## [Unreleased]\n"), 1);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
