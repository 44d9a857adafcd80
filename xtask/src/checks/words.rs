//! Words that mark unfinished work, in any text file of the tree.

use super::Fault;
use crate::tree::Tree;

/// The words, each with what to do instead. Written in halves, so that this file does not hold them.
const BANNED: &[(&str, &str)] = &[
    (concat!("to", "do!"), "finish it"),
    (concat!("unimple", "mented!"), "finish it, or return a named error"),
    (concat!("db", "g!"), "take the debugging print out"),
    (concat!("TO", "DO"), "do it, or write an issue"),
    (concat!("FIX", "ME"), "mend it, or write an issue"),
    (concat!("X", "XX"), "say what is meant"),
    (concat!("for", " now"), "say until when, or leave the words out"),
];

/// Faults of banned words standing as words of their own.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in
        tree.files.iter().filter(|f| !f.path.starts_with("fuzz/corpus/") && !f.path.ends_with(".lock"))
    {
        for (number, line) in file.text().unwrap_or_default().lines().enumerate() {
            for (word, instead) in BANNED.iter().filter(|(word, _)| stands_in(line, word)) {
                faults.push(Fault::new(&file.path, number + 1, format!("`{word}`: {instead}")));
            }
        }
    }
    faults
}

/// Whether `word` occurs in `line` with no letter, digit or underscore on either side.
fn stands_in(line: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let open_end = word.ends_with('!');
        !joins(line[..at].chars().next_back()) && (open_end || !joins(line[at + word.len()..].chars().next()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_banned_word_is_found() {
        for (word, _) in BANNED {
            let text = format!("//! x\nlet a = 1; // {word}(b)\n");
            let faults = check(&Tree::of(&[("a.txt", &text)]));
            assert_eq!((faults.len(), faults[0].line), (1, 2), "{word}");
        }
    }

    #[test]
    fn parts_of_other_words_are_not() {
        let text = concat!("waits for", " nowhere, XX", "XX, mas", "TO", "DONE\n");
        assert!(check(&Tree::of(&[("a.md", text)])).is_empty());
    }
}
