//! `logging` of named.conf.

use super::Frame;
use crate::files::join;
use crate::model::Section;
use crate::tree::{Statement, find};
use crate::work::{Work, path_text};

/// Converts logging. nomen has one log with one level, that of the category `default`.
pub(super) fn logging(work: &mut Work, frame: &Frame<'_>, logging: &Statement) {
    work.ledger.open(logging);
    let channels: Vec<&Statement> = logging.block().iter().filter(|s| s.key() == "channel").collect();
    let category = |name: &str| logging.block().iter().find(|s| s.key() == "category" && s.value() == name);
    let main = category("default").and_then(|default| default.block().first()).map(Statement::key);
    let of_queries = category("queries").and_then(|queries| file_of(&channels, queries));
    for channel in &channels {
        if main != Some(channel.value()) && channel.find("file").is_some_and(|file| Some(file) == of_queries)
        {
            work.ledger.translated(
                channel,
                "`queries-file` of [log]; logrotate rotates it, as packaging/nomen.logrotate has it",
            );
            continue;
        }
        if main != Some(channel.value()) {
            work.ledger.missing(channel, "nomen has one log for all; see `target` and `level` of [log]");
            continue;
        }
        work.ledger.open(channel);
        for inner in channel.block() {
            match inner.key() {
                "file" => {
                    let path = join(&frame.directory, inner.value());
                    work.nomen.log.text("target", path_text(&path));
                    work.in_key(inner, Section::Log, "target");
                    if inner.words().count() > 2 {
                        work.ledger
                            .differs(inner, "files are rotated by logrotate; packaging/nomen.logrotate does");
                    }
                }
                "severity" => severity(work, inner),
                "stderr" => work.ledger.unneeded(inner, "nomen does so anyway"),
                "syslog" => work.ledger.differs(inner, "nomen writes to stderr, which systemd keeps"),
                "null" => {
                    work.ledger.differs(inner, "nomen logs to stderr; `level = \"error\"` is the least")
                }
                _ => work.ledger.unneeded(inner, "lines have time, level and place always"),
            }
        }
    }
    for statement in logging.block().iter().filter(|s| s.key() == "category") {
        let silent = statement.block().iter().all(|channel| channel.key() == "null");
        match (statement.value(), silent) {
            ("default", _) => work.ledger.translated(statement, "[log]"),
            ("queries", false) => {
                if find(frame.scopes.first().map_or(&[], |s| s.block()), "querylog").is_none() {
                    work.nomen.log.switch("queries", true);
                }
                match file_of(&channels, statement) {
                    Some(file) => {
                        let path = join(&frame.directory, file.value());
                        work.nomen.log.text("queries-file", path_text(&path));
                        work.ledger.translated(statement, "`queries` and `queries-file` of [log]");
                    }
                    None => work
                        .ledger
                        .differs(statement, "`queries` of [log]: queries go to the one log that there is"),
                }
            }
            ("queries", true) => {
                work.ledger.unneeded(statement, "nomen logs no queries unless `queries` of [log] says so")
            }
            _ => work.ledger.missing(statement, "nomen has one log for all, without categories"),
        }
    }
}

/// The file to which a category is logged.
fn file_of<'s>(channels: &[&'s Statement], category: &Statement) -> Option<&'s Statement> {
    let named = |channel: &&&Statement| category.block().iter().any(|one| one.key() == channel.value());
    channels.iter().filter(named).find_map(|channel| channel.find("file"))
}

fn severity(work: &mut Work, inner: &Statement) {
    let level = match inner.value() {
        "critical" | "error" => "error",
        "warning" => "warn",
        "notice" | "info" | "dynamic" => "info",
        "debug" => "debug",
        _ => return work.not_understood(inner),
    };
    work.nomen.log.text("level", level);
    work.in_key(inner, Section::Log, "level");
}
