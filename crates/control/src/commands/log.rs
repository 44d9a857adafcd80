//! `nomen ctl cookies` and `nomen ctl log`: replaces the secret of server cookies; reopens log files, and
//! changes what is logged until the configuration is read again.

use serde_json::json;

use super::CommandResult;
use crate::fault::{ArgumentFault, CommandFault};
use crate::parts::ServerParts;
use config::log::{LogLevel, LoggedQueries};
use config::table::value::Word;
use telemetry::dnstap::Dnstap;

/// Replaces the secret of server cookies.
pub(super) fn rotate_cookies(parts: &ServerParts) -> CommandResult {
    parts.frontend.rotate_cookies().map_err(CommandFault::Cookies)?;
    Ok(json!("server cookies are made with a new secret; those of the one before are accepted for an hour"))
}

/// Reopens the files of the logs and of dnstap.
pub(super) fn reopen(parts: &ServerParts) -> CommandResult {
    let logging = &parts.logging;
    // One of them that fails does not keep the other from being reopened.
    let log = logging.reopen().map_err(CommandFault::Log);
    let dnstap = parts.frontend.dnstap.as_deref();
    let dnstap = dnstap.map_or(Ok(None), Dnstap::reopen).map_err(CommandFault::Dnstap);
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
pub(super) fn set_level(parts: &ServerParts, level: &str) -> CommandResult {
    let known = LogLevel::WORDS.iter().find(|(word, _)| *word == level);
    let (word, level) = known.ok_or_else(|| ArgumentFault::Level(level.to_owned()))?;
    parts.logging.set_level(*level);
    Ok(json!({"level": word}))
}

/// Turns the query log on, for all queries or a share of them, or off.
pub(super) fn set_queries(parts: &ServerParts, on: bool, share: Option<f64>) -> CommandResult {
    let (queries, shown) = match (on, share) {
        (false, _) => (LoggedQueries::None, json!(false)),
        (true, None) => (LoggedQueries::All, json!(true)),
        (true, Some(share)) if share > 0.0 && share <= 1.0 => (LoggedQueries::Share(share), json!(share)),
        (true, Some(share)) => return Err(ArgumentFault::Share(share).into()),
    };
    parts.frontend.log_queries(queries);
    Ok(json!({"queries": shown}))
}
