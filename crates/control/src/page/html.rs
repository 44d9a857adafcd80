//! HTML in which no outside text can become markup: markup is part of the program, and everything else is
//! escaped.

use std::fmt::{self, Display, Write as _};

/// Longest outside text that is shown, in characters.
const MAX_TEXT_CHARS: usize = 400;

/// A page being written.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Appends markup, which can only be part of the program.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends text of any origin, escaped.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        // Writing to a string does not fail.
        let _ = write!(Escaper { out: &mut self.0, room: MAX_TEXT_CHARS }, "{text}");
        self
    }

    /// Appends a section's heading.
    pub(super) fn heading(&mut self, text: &'static str) -> &mut Self {
        self.markup("<h2>").markup(text).markup("</h2>\n")
    }

    /// Begins a table with these columns.
    pub(super) fn table(&mut self, columns: &[&'static str]) -> &mut Self {
        self.markup("<table><thead><tr>");
        for column in columns {
            self.markup("<th>").markup(column).markup("</th>");
        }
        self.markup("</tr></thead><tbody>\n")
    }

    /// Appends a row; a `bad` one is highlighted.
    pub(super) fn row(&mut self, bad: bool, cells: &[&dyn Display]) -> &mut Self {
        self.markup(if bad { "<tr class=\"bad\">" } else { "<tr>" });
        for cell in cells {
            self.markup("<td>").text(cell).markup("</td>");
        }
        self.markup("</tr>\n")
    }

    /// Ends the table.
    pub(super) fn end_table(&mut self) -> &mut Self {
        self.markup("</tbody></table>\n")
    }

    /// Appends a paragraph.
    pub(super) fn paragraph(&mut self, text: impl Display) -> &mut Self {
        self.markup("<p>").text(text).markup("</p>\n")
    }

    /// Returns the whole page.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Writes text with HTML's special characters escaped and control characters replaced, up to a limit of
/// characters.
struct Escaper<'o> {
    out: &'o mut String,
    room: usize,
}

impl fmt::Write for Escaper<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match self.room {
                0 => return Ok(()),
                1 => self.out.push('…'),
                _ => match c {
                    '&' => self.out.push_str("&amp;"),
                    '<' => self.out.push_str("&lt;"),
                    '>' => self.out.push_str("&gt;"),
                    '"' => self.out.push_str("&quot;"),
                    '\'' => self.out.push_str("&#39;"),
                    '\n' => self.out.push(' '),
                    // Characters that change the direction of text could show one name as another.
                    '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.out.push('\u{fffd}'),
                    c if c.is_control() => self.out.push('\u{fffd}'),
                    c => self.out.push(c),
                },
            }
            self.room -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        let mut html = Html::default();
        html.text(text);
        html.finish()
    }

    #[test]
    fn markup_from_outside_is_text() {
        assert_eq!(
            shown("<b a=\"'&amp;'\">\u{202e}\0"),
            "&lt;b a=&quot;&#39;&amp;amp;&#39;&quot;&gt;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(shown(&"é".repeat(100_000)).chars().count(), MAX_TEXT_CHARS);
    }

    proptest! {
        #[test]
        fn no_text_makes_markup(text in any::<String>()) {
            let shown = shown(&text);
            prop_assert!(!shown.contains(['<', '>', '"', '\'']), "{shown}");
            for (at, _) in shown.match_indices('&') {
                let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
                prop_assert!(known.iter().any(|entity| shown[at..].starts_with(entity)), "{shown}");
            }
        }
    }
}
