//! `nomen ctl log`: reopens log files, and changes what is logged until the configuration is read again.

use serde_json::{Value, json};

use config::log::{LogLevel, LoggedQueries};
use config::table::value::Word;
use serving::frontend::Frontend;
use telemetry::dnstap::Dnstap;
use telemetry::logging::Logging;

/// Reopens the files of the logs and of dnstap.
pub(super) fn reopen(logging: &Logging, dnstap: Option<&Dnstap>) -> Result<Value, String> {
    let log = logging.reopen().map_err(|fault| fault.to_string());
    let dnstap = dnstap.map_or(Ok(None), Dnstap::reopen).map_err(|fault| fault.to_string());
    let dnstap = log.and(dnstap)?;
    let mut reopened = json!({"log": logging.target()});
    if let Some(file) = logging.query_file() {
        reopened["queries"] = file.path().display().to_string().into();
    }
    if let Some(path) = logging.audit_file() {
        reopened["audit"] = path.display().to_string().into();
    }
    if let Some(file) = dnstap {
        reopened["dnstap"] = file.into();
    }
    Ok(reopened)
}

/// Changes the log level.
pub(super) fn set_level(logging: &Logging, level: &str) -> Result<Value, String> {
    let words = LogLevel::WORDS;
    let Some((word, level)) = words.iter().find(|(word, _)| *word == level) else {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        return Err(format!("`{level}` is no level: there are {}", known.join(", ")));
    };
    logging.set_level(*level);
    Ok(json!({"level": word}))
}

/// Turns the query log on, for all queries or a share of them, or off.
pub(super) fn set_queries(frontend: &Frontend, on: bool, share: Option<f64>) -> Result<Value, String> {
    let (queries, shown) = match (on, share) {
        (false, _) => (LoggedQueries::None, json!(false)),
        (true, None) => (LoggedQueries::All, json!(true)),
        (true, Some(share)) if share > 0.0 && share <= 1.0 => (LoggedQueries::Share(share), json!(share)),
        (true, Some(share)) => return Err(format!("{share} is not a share above 0 and up to 1")),
    };
    frontend.log_queries(queries);
    Ok(json!({"queries": shown}))
}
