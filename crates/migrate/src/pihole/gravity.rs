//! The text that `sqlite3 gravity.db .dump` prints: rows of Pi-hole's lists.
//!
//! No reader of SQLite files is used: those in Rust that are well kept wrap the C library, or are whole
//! database engines. Every system with a gravity.db has `pihole-FTL sqlite3`, which prints this text.

use crate::text::{SourceSpan, Texts};
use crate::tree::{Part, SourceWord, Statement};

/// A row of a table.
pub(super) struct Row {
    /// Its table.
    pub(super) table: String,
    /// The columns that the dump names, with their values.
    values: Vec<(String, String)>,
    /// The row as a statement, for its report.
    pub(super) statement: Statement,
}

impl Row {
    /// The value of a column.
    pub(super) fn get(&self, column: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == column).map(|(_, value)| value.as_str())
    }

    /// The value of a column as a number.
    pub(super) fn number(&self, column: &str) -> Option<i64> {
        self.get(column)?.parse().ok()
    }

    /// Adds a value, for rows that are made of other texts.
    pub(super) fn of(table: &str, values: &[(&str, &str)], statement: Statement) -> Self {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { table: table.to_owned(), values, statement }
    }
}

/// The tables that are read, each with the column that names a row.
const TABLES: [(&str, &str); 6] = [
    ("adlist", "address"),
    ("domainlist", "domain"),
    ("group", "name"),
    ("client", "ip"),
    ("adlist_by_group", "adlist_id"),
    ("domainlist_by_group", "domainlist_id"),
];
/// That of clients and groups, which has no name in reports.
pub(super) const CLIENT_BY_GROUP: &str = "client_by_group";

/// Parses a dump that has been opened.
pub(super) fn parse(texts: &mut Texts<'_>, number: usize) -> Vec<Row> {
    let text = texts.text(number);
    let mut columns: Vec<(String, Vec<String>)> = Vec::new();
    let mut rows = Vec::new();
    for (start, sql) in commands(&text) {
        if let Some(rest) = sql.strip_prefix("CREATE TABLE ") {
            let rest = rest.strip_prefix("IF NOT EXISTS ").unwrap_or(rest);
            let (table, rest) = rest.split_once('(').unwrap_or((rest, ""));
            let body = rest.rsplit_once(')').map_or(rest, |(body, _)| body);
            columns.push((unquoted(table), names(body)));
        } else if let Some(rest) = sql.strip_prefix("INSERT INTO ") {
            let Some((table, rest)) = rest.split_once("VALUES") else { continue };
            let (table, named) =
                table.split_once('(').map_or((table, None), |(table, named)| (table, Some(named)));
            let table = unquoted(table);
            let title = TABLES.iter().find(|(name, _)| *name == table).map(|(_, title)| *title);
            if title.is_none() && table != CLIENT_BY_GROUP {
                continue;
            }
            let names = match named {
                Some(named) => names(named.trim_end().trim_end_matches(')')),
                None => {
                    let found = columns.iter().find(|(name, _)| *name == table);
                    found.map(|(_, names)| names.clone()).unwrap_or_default()
                }
            };
            let values: Vec<(String, String)> = names.into_iter().zip(values(rest)).collect();
            let shown = title.and_then(|title| values.iter().find(|(name, _)| name == title));
            let span = SourceSpan { text: number, range: start..start + sql.len() };
            let word = |text: &str| {
                Part::Word(SourceWord { text: text.to_owned(), quoted: false, span: span.clone() })
            };
            let parts = vec![word(&table), word(shown.map_or("", |(_, value)| value))];
            let statement = Statement { id: texts.number(), parts, span };
            rows.push(Row { table, values, statement });
        }
    }
    rows
}

/// The commands of a text with their places, without the semicolons that end them.
fn commands(text: &str) -> Vec<(usize, &str)> {
    let (mut out, mut start, mut quote) = (Vec::new(), 0, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (';', None) => {
                let sql = &text[start..at];
                let blanks = sql.len() - sql.trim_start().len();
                out.push((start + blanks, sql.trim()));
                start = at + 1;
            }
            _ => {}
        }
    }
    out
}

/// Splits at commas outside of quotes and parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut out, mut start, mut quote, mut depth) = (Vec::new(), 0, None, 0u32);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

/// The names of columns in a definition.
fn names(body: &str) -> Vec<String> {
    let first =
        |part: &str| part.split([' ', '\t', '\n', '(']).find(|word| !word.trim().is_empty()).map(unquoted);
    let all = split(body).into_iter().filter_map(first);
    all.filter(|name| !["UNIQUE", "PRIMARY", "FOREIGN", "CHECK", "CONSTRAINT"].contains(&name.as_str()))
        .collect()
}

/// The values of a row, `(1,'text',…)`.
fn values(text: &str) -> Vec<String> {
    let inner = text.trim().trim_start_matches('(');
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    split(inner).into_iter().map(value).collect()
}

/// A value; NULL is empty.
fn value(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None if text.eq_ignore_ascii_case("null") => String::new(),
        None => text.to_owned(),
    }
}

fn unquoted(name: &str) -> String {
    name.trim().trim_matches(['"', '`', '\'', '[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_values_may_contain_marks_in_quotes() {
        let text = "BEGIN;\nINSERT INTO t VALUES(1,'a;''b,c',NULL);\nCOMMIT;\n";
        let found: Vec<&str> = commands(text).into_iter().map(|(_, sql)| sql).collect();
        assert_eq!(found, ["BEGIN", "INSERT INTO t VALUES(1,'a;''b,c',NULL)", "COMMIT"]);
        assert_eq!(values("(1,'a;''b,c',NULL)"), ["1", "a;'b,c", ""]);
        assert_eq!(names("id INTEGER PRIMARY KEY, \"a\" TEXT DEFAULT (x(1,2)), UNIQUE(a)"), ["id", "a"]);
    }
}
