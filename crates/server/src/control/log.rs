//! `nomen ctl log`: what is logged, until the configuration is read again, and the file it goes to.

use serde_json::{Value, json};

use crate::config::log::{LogLevel, LoggedQueries};
use crate::config::table::value::Word;
use crate::frontend::Frontend;
use crate::logging::Logging;

/// Opens the log file anew.
pub(super) fn reopen(logging: &Logging) -> Result<Value, String> {
    logging.reopen().map_err(|fault| fault.to_string())?;
    Ok(json!({"log": logging.target()}))
}

/// Changes the level.
pub(super) fn set_level(logging: &Logging, level: &str) -> Result<Value, String> {
    let words = LogLevel::WORDS;
    let Some((word, level)) = words.iter().find(|(word, _)| *word == level) else {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        return Err(format!("`{level}` is no level: there are {}", known.join(", ")));
    };
    logging.set_level(*level);
    Ok(json!({"level": word}))
}

/// Turns the log of queries on or off.
pub(super) fn set_queries(frontend: &Frontend, on: bool) -> Value {
    frontend.log_queries(if on { LoggedQueries::All } else { LoggedQueries::None });
    json!({"queries": on})
}
