//! Words of unfinished work, and vague words, in any text file of the tree.

use super::Fault;
use crate::tree::Tree;

/// The words, each with what to do instead. Split in halves, so that this file does not contain them.
const BANNED: &[(&str, &str)] = &[
    (concat!("to", "do!"), "finish it"),
    (concat!("unimple", "mented!"), "finish it, or return a named error"),
    (concat!("db", "g!"), "take the debugging print out"),
    (concat!("TO", "DO"), "do it, or write an issue"),
    (concat!("FIX", "ME"), "mend it, or write an issue"),
    (concat!("X", "XX"), "say what is meant"),
    (concat!("for", " now"), "say until when, or leave the words out"),
];

/// Words for people where the subject is a part of the program, with a replacement each. In any letter case.
const VAGUE: &[(&str, &str)] = &[
    (concat!("who", "ever"), "name the client, the thread or the caller"),
    (concat!("whom", "ever"), "name the client, the thread or the caller"),
    (concat!("some", "body"), "name the client, the thread or the caller"),
    (concat!("no", "body"), "write `no client`, `no server`, `no thread`"),
    (concat!("comes", " of"), "write what follows: `the result`, `the outcome`"),
    (concat!("stands", " for"), "write `is`, `means`, `represents`"),
    (concat!("made", " anew"), "write `rebuilt`, `refreshed`, `written again`"),
];

/// Further words that are checked in comments and documents, but not in code.
const VAGUE_IN_TEXT: &[(&str, &str)] = &[
    (concat!("to", "ld"), "write `receives`, `is reported to`, `is distinguished`"),
    (concat!("he", "ar"), "write `receives`, `reads`"),
    (concat!("he", "ars"), "write `receives`, `reads`"),
    (concat!("he", "ard"), "write `received`, `read`"),
];

/// The mailbox in the SOA records of RFC 6303 section 3.
const MAILBOX: &str = concat!("no", "body.invalid");

/// Reports vague words.
fn vague(path: &str, number: usize, line: &str) -> Vec<Fault> {
    let line = line.to_lowercase().replace(MAILBOX, "");
    let text = match line.find("//") {
        Some(at) if path.ends_with(".rs") => &line[at..],
        None if path.ends_with(".rs") => "",
        _ => &line,
    };
    let anywhere = VAGUE.iter().filter(|(word, _)| stands_in(&line, word));
    let in_text = VAGUE_IN_TEXT.iter().filter(|(word, _)| stands_in(text, word));
    let fault = |(word, instead): &(&str, &str)| Fault::new(path, number, format!("`{word}`: {instead}"));
    anywhere.chain(in_text).map(fault).collect()
}

/// Reports the banned words.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in
        tree.files.iter().filter(|f| !f.path.starts_with("fuzz/corpus/") && !f.path.ends_with(".lock"))
    {
        for (number, line) in file.text().unwrap_or_default().lines().enumerate() {
            for (word, instead) in BANNED.iter().filter(|(word, _)| stands_in(line, word)) {
                faults.push(Fault::new(&file.path, number + 1, format!("`{word}`: {instead}")));
            }
            if !file.path.starts_with("bench/results/") {
                faults.extend(vague(&file.path, number + 1, line));
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
    fn vague_words_are_found_in_comments_and_some_of_them_anywhere() {
        for (word, _) in VAGUE {
            let text = format!("//! x\nlet a = \"{}\";\n", word.to_uppercase());
            assert_eq!(check(&Tree::of(&[("a.rs", &text)])).len(), 1, "{word}");
        }
        for (word, _) in VAGUE_IN_TEXT {
            let text = format!("//! x\nlet {word} = 1; // it is {word}\nlet {word} = {word};\n");
            let faults = check(&Tree::of(&[("a.rs", &text), ("b.md", &format!("it is {word}\n"))]));
            assert_eq!(faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [2, 1], "{word}");
        }
        assert!(check(&Tree::of(&[("a.rs", &format!("//! {MAILBOX}\n"))])).is_empty());
    }

    #[test]
    fn parts_of_other_words_are_not() {
        let text = concat!("waits for", " nowhere, XX", "XX, mas", "TO", "DONE\n");
        assert!(check(&Tree::of(&[("a.md", text)])).is_empty());
    }
}
