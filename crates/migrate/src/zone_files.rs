//! Zone files and root hints files: `$INCLUDE` with another base folder, and custom root servers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::files::{Files, join};
use crate::ledger::Coverage;
use crate::text::{SourceSpan, SourceText, Texts};
use crate::work::{Work, path_text};

/// Most files read for one zone.
const MAX_FILES: usize = 1000;

/// Reports every `$INCLUDE` that refers to another file in nomen, where relative names start at the folder of
/// the including file.
pub(crate) fn includes(texts: &mut Texts<'_>, work: &mut Work) {
    let mut unreadable: Vec<PathBuf> = Vec::new();
    for (file, folder) in std::mem::take(&mut work.zone_files) {
        let mut left = vec![file.clone()];
        let mut seen = HashSet::new();
        while let Some(path) = left.pop().filter(|_| seen.len() < MAX_FILES) {
            if !seen.insert(path.clone()) {
                continue;
            }
            let Ok(bytes) = texts.files.read(&path) else {
                if path == file {
                    unreadable.push(path);
                }
                continue;
            };
            let found = directives(&bytes);
            if found.is_empty() {
                continue;
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let whole = text.len() == bytes.len();
            let own = path.parent().unwrap_or(Path::new("")).to_owned();
            let number = texts.all.len();
            let mut shown = false;
            for (range, name) in found {
                let theirs = join(folder.as_ref().unwrap_or(&own), &name);
                let ours = join(&own, &name);
                if theirs != ours {
                    let words = format!(
                        "$INCLUDE means {} there and {} here: nomen starts from the folder of the file that \
                         it stands in",
                        theirs.display(),
                        ours.display()
                    );
                    // Spans are only valid if the text is unchanged.
                    let range = if whole { range } else { 0..0 };
                    let span = SourceSpan { text: number, range };
                    work.ledger.part(&span, &format!("$INCLUDE {name}"), Coverage::Differs, words);
                    shown = true;
                }
                left.push(theirs);
            }
            if shown {
                texts.all.push(SourceText { path, text });
            }
        }
    }
    if let Some(first) = unreadable.first() {
        let words = format!(
            "{} zone files cannot be read here, {} among them: what they include was not looked at",
            unreadable.len(),
            first.display()
        );
        work.ledger.unwritten(Coverage::Differs, words);
    }
}

/// Every `$INCLUDE` with the place of its file name. A directive begins a line outside strings and
/// parentheses.
fn directives(text: &[u8]) -> Vec<(std::ops::Range<usize>, String)> {
    const WORD: &[u8] = b"$include";
    let mut out = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let from = at;
        at += line.len();
        let is = line.get(..WORD.len()).is_some_and(|word| word.eq_ignore_ascii_case(WORD));
        let Some(rest) =
            line.get(WORD.len()..).filter(|rest| is && rest.first().is_some_and(u8::is_ascii_whitespace))
        else {
            continue;
        };
        let blanks = rest.iter().take_while(|byte| **byte == b' ' || **byte == b'\t').count();
        let word = &rest[blanks..];
        let (skip, len) = match word.first() {
            Some(b'"') => (1, word[1..].iter().position(|byte| *byte == b'"').unwrap_or(0)),
            _ => (
                0,
                word.iter()
                    .position(|byte| byte.is_ascii_whitespace() || *byte == b';')
                    .unwrap_or(word.len()),
            ),
        };
        if len > 0 {
            let start = from + WORD.len() + blanks + skip;
            let name = String::from_utf8_lossy(&word[skip..skip + len]).into_owned();
            out.push((start..start + len, name));
        }
    }
    out
}

/// Converts a file of custom root servers; nomen has those of the public DNS built in.
pub(crate) fn hints(files: &dyn Files, work: &mut Work) {
    for (path, span) in std::mem::take(&mut work.hints) {
        let bytes = files.read(&path);
        let text =
            bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
        let title = path.display().to_string();
        if bytes.is_err() {
            let words =
                "it cannot be read here; if it names roots of your own, write `root-hints` into [resolver]";
            work.ledger.part(&span, &title, Coverage::Differs, words);
        } else if work.nomen.resolver.is_none() {
            work.ledger.part(&span, &title, Coverage::Unneeded, "recursion is off");
        } else if text.to_ascii_lowercase().contains(".root-servers.net") {
            let words = "nomen knows the root servers, and asks them who they are by now (RFC 8109)";
            work.ledger.part(&span, &title, Coverage::Unneeded, words);
        } else {
            work.recurse().text("root-hints", path_text(&path));
            work.ledger.part(&span, &title, Coverage::Translated, "`root-hints` of [resolver]");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_found_with_their_places() {
        let text = b"$TTL 1h\n$INCLUDE sub/a.inc\n$include \"b c.inc\" example. ; x\n; $INCLUDE no\n$INCLUDED x\n$INCLUDE";
        let found = directives(text);
        let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["sub/a.inc", "b c.inc"]);
        for (range, name) in &found {
            assert_eq!(&text[range.clone()], name.as_bytes());
        }
    }
}
