//! Width of comments: rustfmt breaks code at its `max_width`, but not comments.

use super::Fault;
use crate::tree::Tree;

/// Maximum characters of a line, as in `rustfmt.toml`.
const WIDTH: usize = 110;

/// Reports wider comments. Rows of tables and fenced text, such as drawings, cannot be broken.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let sources = tree.files.iter().filter(|file| file.path.ends_with(".rs"));
    sources
        .flat_map(|file| wide(file.text().unwrap_or_default()).map(|number| fault(&file.path, number)))
        .collect()
}

fn fault(path: &str, number: usize) -> Fault {
    Fault::new(path, number, format!("comment wider than {WIDTH} characters; break the line"))
}

/// Returns the numbers of the lines that are too wide.
fn wide(text: &str) -> impl Iterator<Item = usize> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let comment = line.trim_start().strip_prefix("//")?;
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        if comment.starts_with("```") {
            fenced = !fenced;
        }
        let is_row = comment.starts_with('|');
        (!fenced && !is_row && line.chars().count() > WIDTH).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_broken_and_rows_drawings_and_code_are_left() {
        let long = "x".repeat(WIDTH);
        let text = format!(
            "/// {long}\n//! | {long} |\n//! ```text\n//! {long}\n//! ```\n    // {long}\n\
             let text = \"{long}\";\n// short\n"
        );
        assert_eq!(wide(&text).collect::<Vec<_>>(), [1, 6]);
        assert_eq!(wide(&format!("// {}", "é".repeat(WIDTH - 3))).count(), 0, "characters, not bytes");
    }
}
